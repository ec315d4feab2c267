"""A plan's offsets are those of Kafka's own tool, and making one leaves no trace."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from tests.lab.replaying import (
    footprint,
    fresh,
    kept,
    now_ms,
    plan_for,
    replay,
    reset_offsets,
    topic_with,
    wild_times,
)
from tests.reference.valid import valid
from tests.waiting import wait_for
from workbench.errors import SourceUnreachableError
from workbench.kafka.kafka_gateway import KafkaGateway
from workbench.lab.lab import Lab
from workbench.lab.lab_broker import create_topic
from workbench.replay.plan import to_csv
from workbench.replay.planfile import Resolution

pytestmark = pytest.mark.lab

PARTITIONS = 200


@pytest.fixture(scope="module")
def wild(lab: Lab) -> tuple[str, str, int, dict[int, list[int]], dict[int, int]]:
    """200 partitions: times out of order, empty ones, deleted heads, deleted altogether."""
    now, draw = now_ms(), random.Random(1)
    times = wild_times(7, PARTITIONS, now)
    topic, group = topic_with(lab, times)
    starts = {
        number: (len(times[number]) if number % 16 == 7 else draw.randint(0, len(times[number])))
        for number in range(PARTITIONS)
        if number % 4 == 3 and times[number]
    }
    admin = AdminClient({"bootstrap.servers": lab.bootstrap})
    answers = admin.delete_records([TopicPartition(topic, number, offset) for number, offset in starts.items()])
    for answer in answers.values():
        answer.result(30)
    return topic, group, now, times, starts


# Before everything, at the start of the hour, in the middle of it, late, after everything.
@pytest.mark.parametrize("minutes", [600, 60, 31, 10, 1, -5])
def test_every_partition_equals_kafkas_own_tool(
    lab: Lab, wild: tuple[str, str, int, dict[int, list[int]], dict[int, int]], minutes: int
) -> None:
    """With the policy `end` all 200 offsets are the tool's; where it falls to the end in silence, ours says so."""
    topic, group, now, times, starts = wild
    since_ms = now - minutes * 60_000
    since = datetime.fromtimestamp(since_ms / 1000, UTC).isoformat(timespec="milliseconds")
    plan = plan_for(lab, topic, group, fresh("new"), since)
    theirs = reset_offsets(lab, plan.new_group, "--topic", topic, "--to-datetime", since.replace("+00:00", "Z"))
    assert len(theirs) == PARTITIONS
    assert {part.key: part.target for part in plan.partitions} == theirs
    for part in plan.partitions:
        kept_times = list(enumerate(times[part.partition]))[starts.get(part.partition, 0) :]
        later = [(offset, ts) for offset, ts in kept_times if ts >= since_ms]
        if not kept_times:
            assert part.resolution is Resolution.EMPTY
        elif not later:
            assert part.resolution is Resolution.AFTER_END
        else:
            first = later[0] == kept_times[0] and later[0][1] > since_ms
            assert part.resolution is (Resolution.BEFORE_START if first else Resolution.EXACT)
            assert (part.target, part.target_timestamp) == later[0]
            assert part.messages == len(times[part.partition]) - later[0][0]


def test_where_the_tool_falls_to_the_end_the_policy_decides(
    lab: Lab, wild: tuple[str, str, int, dict[int, list[int]], dict[int, int]], settings_file: Path, tmp_path: Path
) -> None:
    """fail: exit code 6 and no file; skip: no target; end: the end."""
    topic, group, _, _, _ = wild
    words = ["plan", "--cluster", "mine", "--from-group", group, "--new-group", fresh("new"), "--topic", topic]
    words += ["--since", "10m ago", "-o", str(tmp_path / "plan.json")]
    refused = replay(*words, settings=settings_file)
    assert refused.returncode == 6
    assert "with earlier records alone" in refused.stderr
    assert "without a record" in refused.stderr
    assert not (tmp_path / "plan.json").exists()
    skipped = replay(*words, "--after-end", "skip", "--json", settings=settings_file)
    assert skipped.returncode == 0, skipped.stderr
    document = json.loads(skipped.stdout)
    assert valid("plan", document)["schema"] == "workbench.replay-plan/1"
    assert {part["target"] for part in document["partitions"] if part["resolution"] in ("after_end", "empty")} == {None}


def test_the_csv_is_taken_by_kafkas_own_tool(
    lab: Lab, wild: tuple[str, str, int, dict[int, list[int]], dict[int, int]], tmp_path: Path
) -> None:
    """One can leave our tool at any time."""
    topic, group, *_ = wild
    plan = plan_for(lab, topic, group, fresh("new"), "31m ago")
    (tmp_path / "plan.csv").write_text(to_csv(plan))
    theirs = reset_offsets(lab, plan.new_group, "--from-file", str(tmp_path / "plan.csv"))
    assert theirs == plan.targets


def test_a_plan_and_a_dry_run_leave_no_trace(
    lab: Lab, wild: tuple[str, str, int, dict[int, list[int]], dict[int, int]], settings_file: Path, tmp_path: Path
) -> None:
    """No group appears, and nothing at all is written to the topic that holds groups and offsets."""
    topic, group, *_ = wild
    before = footprint(lab)
    words = [
        "--cluster",
        "mine",
        "--from-group",
        group,
        "--new-group",
        fresh("new"),
        "--topic",
        topic,
        "--since",
        "31m ago",
    ]
    path = tmp_path / "plan.json"
    shown = replay("plan", *words, "--after-end", "end", "-o", str(path), settings=settings_file)
    assert shown.returncode == 0, shown.stderr
    assert "Next: workbench replay apply" in shown.stdout
    dry = replay("apply", str(path), "--dry-run", settings=settings_file)
    assert dry.returncode == 0, dry.stderr
    assert footprint(lab) == before


@pytest.mark.parametrize("are_told", [True, False])
def test_requests_are_bounded_by_brokers_and_batches(lab: Lab, monkeypatch: pytest.MonkeyPatch, are_told: bool) -> None:
    """1,200 partitions: five questions are five requests to their leader; if that tells nothing, the client sends ten, by its own
    count, in batches of 1,000.
    """
    if not are_told:
        monkeypatch.setattr("workbench.kafka.kafka_gateway.told_by_leaders", lambda *given: [{} for _ in given[3]])
    seen: dict[str, int] = {}

    def statistics(text: str) -> None:
        for broker in json.loads(text)["brokers"].values():
            for name, number in broker.get("req", {}).items():
                seen[f"{broker['name']} {name}"] = number

    topic = fresh("wide")
    create_topic(lab.bootstrap, topic, 1_200, seconds=120)
    partitions = [(topic, number) for number in range(1_200)]
    # Every leader knows that it is one.
    wait_for(lambda: not KafkaGateway(lab.bootstrap).logs(partitions).errors, 120)
    gateway = KafkaGateway(lab.bootstrap, {"statistics.interval.ms": 50, "stats_cb": statistics})
    gateway.cluster()
    instants = [now_ms() - 60_000, now_ms()]
    logs = gateway.logs(partitions, instants_ms=instants, stable=True)
    assert len(logs.ends) == len(logs.starts) == len(logs.stable_ends) == 1_200
    assert set(logs.found) == {*instants}
    assert all(len(found) == 1_200 for found in logs.found.values())
    assert gateway.requests == 1 + 1 + 1 + 5 * (1 if are_told else 2)  # connect, metadata, the topic; and the questions
    admin = gateway._kafka.connect()

    def counted() -> int:
        admin.poll(0.1)
        return sum(number for name, number in seen.items() if name.endswith(" ListOffsets"))

    expected = 0 if are_told else 10
    wait_for(lambda: counted() >= expected and bool(seen))
    assert counted() == expected
    admin.delete_topics([topic])[topic].result(60)  # the exporter looks at each partition


def test_a_partition_without_a_topic_is_told(lab: Lab) -> None:
    """What does not answer is named; it is never an offset."""
    with pytest.raises(SourceUnreachableError, match=r"for no-such-topic-0: .*Unknown topic"):
        KafkaGateway(lab.bootstrap, deadline_seconds=5).logs([("no-such-topic", 0)])


def test_the_plan_file_of_the_command_is_what_the_library_reads(lab: Lab, tmp_path: Path) -> None:
    """Round trip."""
    from workbench.replay.planfile import read_plan

    topic, group = topic_with(lab, {0: [now_ms() - 60_000, now_ms()]})
    plan = plan_for(lab, topic, group, fresh("new"), "30s ago")
    assert read_plan(kept(tmp_path, plan)) == plan
    assert plan.partitions[0].bytes_estimate == 2  # one byte of key, one of value

"""Groups of all five kinds, live on a real broker: named, with the lag of Kafka's own tools, and refused where a replay cannot work."""

from __future__ import annotations

import json
import subprocess
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from tests.lab.conftest import consumer_groups, kafka_describe, workbench
from tests.lab.five_kinds import PARTITIONS, READ, RECORDS, Five, five_kinds
from workbench.collect.capture_in_memory import collect, observe, other_groups
from workbench.errors import GuardError
from workbench.kafka.cluster_snapshot import KafkaCluster
from workbench.kafka.kafka_gateway import KafkaGateway
from workbench.lab.kafka_jars import TOOLS, ensure
from workbench.lab.lab import LAB_THRESHOLDS, Lab
from workbench.plans.journal import Journal
from workbench.replay.apply import ApplyOptions, apply_plan
from workbench.replay.plan import make_plan, survey
from workbench.replay.planfile import AfterEnd
from workbench.replay.receipt import ReplayOutcome
from workbench.replay.replay_request import PlanRequest
from workbench.report.health_report import assess
from workbench.spark.java import find_java
from workbench.triage.triage_engine import triage
from workbench.triage.verdict_names import State, Verdict
from workbench.window import Window

pytestmark = [pytest.mark.lab, pytest.mark.jvm, pytest.mark.slow]

KINDS = ("classic", "consumer", "share", "streams", "connect")


@pytest.fixture(scope="module")
def five(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Five]:
    """A live group of each kind."""
    with five_kinds(lab.bootstrap, tmp_path_factory.mktemp("five"), uuid.uuid4().hex[:8]) as running:
        yield running


def share_groups(bootstrap: str, group: str) -> dict[tuple[str, int], tuple[int | None, int | None]]:
    """(topic, partition) to (start, lag), as `kafka-share-groups --describe --offsets` prints them."""
    ensure(TOOLS)
    shown = subprocess.run(
        [
            find_java().program, "-cp", TOOLS.classpath, "-Dlog4j2.level=ERROR",
            "org.apache.kafka.tools.consumer.group.ShareGroupCommand", "--bootstrap-server", bootstrap, "--describe",
            "--group", group, "--offsets",
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    ).stdout  # fmt: skip
    rows = {}
    for words in (line.split() for line in shown.splitlines()):
        if len(words) >= 5 and words[0] == group:
            start, lag = (None if word == "-" else int(word) for word in words[3:5])
            rows[words[1], int(words[2])] = (start, lag)
    return rows


def test_a_snapshot_lists_a_live_group_of_each_kind_with_the_lag_of_kafkas_tools(lab: Lab, five: Five) -> None:
    """Members too; and no share group's lag is end minus start."""
    found = KafkaCluster(lab.bootstrap).snapshot()
    assert found.incomplete == ()
    views = {view.group: view for view in found.groups}
    for kind in KINDS:
        view = views[five.groups[kind]]
        assert (view.protocol, view.state, len(view.members)) == (kind, "stable", 1), kind
    for kind in ("classic", "consumer", "streams"):
        group = five.groups[kind]
        ours = {
            key[1:]: (committed, found.ends[key[1:]], found.lag(*key))
            for key, committed in found.commits.items()
            if key[0] == group
        }
        if kind == "streams":  # its tool is another one; its commits are ordinary ones
            assert {lag for _, _, lag in ours.values()} == {RECORDS - READ}
        else:
            assert ours == kafka_describe(lab, group)
        assert len(ours) == PARTITIONS
    group = five.groups["share"]
    told = {key[1:]: (share.start, share.lag) for key, share in found.shares.items() if key[0] == group}
    assert told == share_groups(lab.bootstrap, group)
    assert told == {(five.topic, number): (0, RECORDS - READ + 1) for number in range(PARTITIONS)}
    assert all(found.ends[five.topic, number] - 0 == RECORDS for number in range(PARTITIONS))
    assert not any(key[0] in (group, five.groups["connect"]) for key in found.commits)


def test_streams_lag_is_that_of_its_own_tool(lab: Lab, five: Five) -> None:
    """`kafka-streams-groups --describe --offsets`."""
    shown = subprocess.run(
        [
            find_java().program, "-cp", TOOLS.classpath, "-Dlog4j2.level=ERROR",
            "org.apache.kafka.tools.streams.StreamsGroupCommand", "--bootstrap-server", lab.bootstrap, "--describe",
            "--group", five.groups["streams"], "--offsets",
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    ).stdout  # fmt: skip
    rows = [line.split() for line in shown.splitlines() if five.topic in line]
    assert {(words[1], int(words[2])): int(words[-1]) for words in rows} == {
        (five.topic, number): RECORDS - READ for number in range(PARTITIONS)
    }, shown


def test_the_commands_name_the_kinds(lab: Lab, five: Five, settings_file: Path) -> None:
    """`snapshot --json`, the table, `--kind`, and a request for a share group alone."""
    config = ("--cluster", "mine", "--config", str(settings_file))
    shown = workbench("snapshot", *config, "--json")
    assert shown.returncode == 0, shown.stderr
    document = json.loads(shown.stdout)
    kinds = {row["group"]: row["kind"] for row in document["groups"]}
    assert {kind: kinds[name] for kind, name in five.groups.items()} == {kind: kind for kind in KINDS}
    targets = {
        row["group"]: [member["target"] for member in row["assignments"]]
        for row in document["groups"]
        if row["group"] in five.groups.values()
    }
    whole = [[five.topic, number] for number in range(PARTITIONS)]
    assert [sorted(it) for it in targets[five.groups["consumer"]]] == [whole]
    assert targets[five.groups["classic"]] == [None]
    rows = [row for row in document["partitions"] if row["group"] == five.groups["share"]]
    assert {(row["committed"], row["start_offset"], row["lag_messages"]) for row in rows} == {
        (None, 0, RECORDS - READ + 1)
    }
    shown = workbench("snapshot", *config, "--kind", "share", "--group", five.groups["share"])
    assert shown.returncode == 0, shown.stderr
    assert "share, stable, 1 member" in shown.stdout
    assert "Not judged by triage" in shown.stdout
    shown = workbench("snapshot", *config, "--top", "1000")
    for name in five.groups.values():
        assert name in shown.stdout, name
    shown = workbench("snapshot", *config, "--group", five.groups["share"][:-1])
    assert shown.returncode == 2
    assert five.groups["share"] in shown.stderr


def test_triage_and_health_name_what_they_cannot_judge(lab: Lab, five: Five, spark: Any) -> None:
    """A share group is "cannot tell" with the broker's lag, Connect's group is a line; neither is missing, neither healthy."""
    cluster = lab.cluster(profiles=["runtime"]).model_copy(update={"prometheus": None})
    capture = observe(cluster, 5, thresholds=LAB_THRESHOLDS, groups=list(five.groups.values()))
    result = triage(capture, spark)
    found = {finding.group: finding for finding in result.findings}
    for kind in ("classic", "consumer", "streams"):
        assert found[five.groups[kind]].kind == kind
        assert not found[five.groups[kind]].headline.startswith("Cannot tell: a")
    share = found[five.groups["share"]]
    assert (share.verdict, share.state, share.kind) == (Verdict.CANNOT_TELL, State.CANNOT_TELL, "share")
    assert share.headline.startswith("Cannot tell: a share group")
    assert share.lag_messages == PARTITIONS * (RECORDS - READ + 1)
    [workers] = result.not_judged
    assert (workers.group, workers.kind, workers.members) == (five.groups["connect"], "connect", 1)
    now = datetime.now(UTC)
    health = assess(capture, result, {}, start=now - timedelta(hours=1), end=now)
    assert {line["group"]: line["kind"] for line in health.to_json()["lines"]} == {
        name: kind for kind, name in five.groups.items() if kind != "connect"
    }
    assert [it["group"] for it in health.to_json()["not_judged"]] == [five.groups["connect"]]


@pytest.mark.usefixtures("prometheus_url")
def test_a_live_triage_of_a_group_without_series_says_what_it_is(lab: Lab, five: Five, spark: Any) -> None:
    """No exporter has a share group or Connect's."""
    window = Window.ending(datetime.now(UTC), length=timedelta(seconds=5), baseline=timedelta(seconds=1))
    for kind in ("share", "connect"):
        capture = collect(lab.cluster(), window, thresholds=LAB_THRESHOLDS, groups=[five.groups[kind]])
        result = triage(capture, spark, groups=[five.groups[kind]])
        headlines = [it.headline for it in (*result.findings, *result.not_judged)]
        assert len(headlines) == 1
        assert headlines[0].startswith("Cannot tell: a "), headlines
    kinds, others, missing = other_groups(lab.cluster())
    assert {kind: kinds[name] for kind, name in five.groups.items()} == {kind: kind for kind in KINDS}
    assert {it.group for it in others} >= {five.groups["share"], five.groups["connect"]}
    assert {it.group: it.lag_messages for it in others}[five.groups["share"]] == PARTITIONS * (RECORDS - READ + 1)
    assert missing == []


def planned(lab: Lab, five: Five, **changes: str) -> Any:
    """A plan of the topic into a new group."""
    gateway = KafkaGateway(lab.bootstrap)
    request = PlanRequest(
        cluster="mine",
        topics=[five.topic],
        since=datetime.now(UTC) - timedelta(hours=1),
        requested_since="1h ago",
        after_end=AfterEnd.END,
        **{"from_group": five.groups["consumer"], "new_group": f"new-{uuid.uuid4().hex[:8]}", **changes},
    )
    return make_plan(request, *survey(gateway, request)), gateway


@pytest.mark.parametrize(
    ("kind", "words"),
    [("share", "a share group"), ("streams", "state stores"), ("connect", "Kafka Connect workers")],
)
def test_a_replay_into_the_wrong_kind_is_refused(lab: Lab, five: Five, tmp_path: Path, kind: str, words: str) -> None:
    """By the plan; and by `apply`, if the group has appeared since."""
    with pytest.raises(GuardError, match=words):
        planned(lab, five, new_group=five.groups[kind])
    plan, gateway = planned(lab, five)
    changed = plan.model_copy(update={"new_group": five.groups[kind]}).sealed()
    receipt = apply_plan(
        changed, tmp_path / "plan.json", gateway, Journal(path=tmp_path / "journal.jsonl"), ApplyOptions()
    )
    assert receipt.outcome is ReplayOutcome.REFUSED
    assert words in receipt.reasons[0]
    assert receipt.hints == ["Plan again with the name of a consumer group that does not exist yet."]
    assert not (tmp_path / "plan.rollback.json").exists()


@pytest.mark.parametrize("kind", ["share", "connect"])
def test_a_replay_from_a_group_without_commits_is_refused(lab: Lab, five: Five, kind: str) -> None:
    """It has nothing that a plan could compare with."""
    with pytest.raises(GuardError, match="no committed offsets"):
        planned(lab, five, from_group=five.groups[kind])


def test_a_streams_group_is_a_source_with_a_warning(lab: Lab, five: Five) -> None:
    """Its state stores and internal topics are named; a classic and a consumer group have no such warning."""
    plan, _ = planned(lab, five, from_group=five.groups["streams"])
    assert any("state stores" in text for text in plan.warnings)
    for kind in ("classic", "consumer"):
        plan, _ = planned(lab, five, from_group=five.groups[kind])
        assert not any("state stores" in text for text in plan.warnings)


def test_a_plan_into_a_group_that_does_not_exist_is_as_before(lab: Lab, five: Five, tmp_path: Path) -> None:
    """The look among the other kinds does not stand in its way."""
    plan, gateway = planned(lab, five)
    receipt = apply_plan(
        plan, tmp_path / "plan.json", gateway, Journal(path=tmp_path / "journal.jsonl"), ApplyOptions()
    )
    assert receipt.outcome is ReplayOutcome.DONE
    lines = consumer_groups(lab.bootstrap, "--describe", "--group", plan.new_group)
    assert any(words[:2] == [plan.new_group, five.topic] for words in lines)


def test_librdkafka_alone_still_names_every_group(lab: Lab, five: Five) -> None:
    """As with a login that has no counterpart: share and Streams groups cannot be told apart, and are there."""
    cluster = KafkaCluster(lab.bootstrap, {"ssl.providers": "none"})
    cluster._admin = AdminClient({"bootstrap.servers": lab.bootstrap})
    kinds = {view.group: view.protocol for view in cluster.snapshot().groups}
    assert {kind: kinds[name] for kind, name in five.groups.items()} == {
        "classic": "classic", "consumer": "consumer", "share": "share or streams", "streams": "share or streams",
        "connect": "connect",
    }  # fmt: skip

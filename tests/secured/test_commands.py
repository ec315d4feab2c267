"""Every command on a secured cluster, by the user that has the rights of docs/lab.md and no other."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from tests.lab.conftest import described
from tests.secured.conftest import Filled, committed, document, filled, fresh, run, settings_for, source
from tests.three_brokers.access import ONCALL, PREFIX, READER, SERVICE
from tests.three_brokers.secured import SecuredLab
from tests.waiting import wait_for
from workbench.collect.capture import read_capture
from workbench.collect.capture_in_memory import collect, observe
from workbench.errors import ExitCode, SourceUnreachableError
from workbench.kafka.kafka_records_source import KafkaRecords
from workbench.lab.kafka_jars import TOOLS, ensure
from workbench.lab.lab import LAB_THRESHOLDS
from workbench.runtime import Event, Runtime, RuntimeConfig
from workbench.runtime.app import running
from workbench.spark.java import find_java
from workbench.triage.triage_engine import triage
from workbench.window import Window

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def quiet(secured: SecuredLab) -> Filled:
    """Groups and a topic on which nothing moves."""
    return filled(secured, *(fresh(f"{PREFIX}quiet") for _ in range(4)))


def tool(secured: SecuredLab) -> dict[tuple[str, str, int], tuple[int | None, int, int | None]]:
    """What Kafka's own tool prints of all groups."""
    import subprocess

    ensure(TOOLS)
    shown = subprocess.run(
        [
            find_java().program, "-cp", TOOLS.classpath, "-Dlog4j2.level=ERROR",
            "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", "--bootstrap-server", secured.bootstrap,
            "--command-config", secured.java_properties(), "--describe", "--all-groups", "--timeout", "60000",
        ],
        capture_output=True, text=True, timeout=120, check=True,
    ).stdout  # fmt: skip
    return described([line.split() for line in shown.splitlines()])


def test_snapshot_is_what_kafkas_own_tool_prints(secured: SecuredLab, quiet: Filled, tmp_path: Path) -> None:
    """Number by number, and nothing is missing."""
    shown = run(secured, settings_for(secured, tmp_path), "snapshot", "--cluster", "mine", "--json")
    assert shown.returncode == 0, shown.stderr
    rows = document(shown)["partitions"]
    ours = {
        (row["group"], row["topic"], row["partition"]): (row["committed"], row["log_end"], row["lag_messages"])
        for row in rows
        if row["topic"] == quiet.topic
    }
    assert ours == {key: value for key, value in tool(secured).items() if key[1] == quiet.topic}
    assert len(ours) == 24


@pytest.mark.usefixtures("scraped")
def test_snapshot_with_time_lag_and_doctor(secured: SecuredLab, quiet: Filled, tmp_path: Path) -> None:
    """They need no more rights."""
    settings = settings_for(secured, tmp_path)
    shown = run(secured, settings, "snapshot", "--cluster", "mine", "--top", "3", "--sort", "time_lag", "--json")
    assert shown.returncode == 0, shown.stderr
    assert len(document(shown)["subscriptions"]) == 3
    shown = run(secured, settings, "doctor", "--json")
    assert {row["check"]: row["ok"] for row in document(shown)}["mine: kafka"]


def test_watch_records_what_the_principal_may_see(secured: SecuredLab, quiet: Filled, tmp_path: Path) -> None:
    """And the capture says what it may not."""
    concealed = fresh("hidden")
    filled(secured, concealed)
    out = tmp_path / "all"
    words = ["watch", "--cluster", "mine", "--out", str(out), "--interval", "1s", "--for", "3s", "--json"]
    shown = run(secured, settings_for(secured, tmp_path), *words)
    assert shown.returncode == 0, shown.stderr
    assert {concealed, *quiet.commits} <= set(read_capture(out).samples["group"].to_pylist())
    out = tmp_path / "some"
    words[words.index("--out") + 1] = str(out)
    shown = run(secured, settings_for(secured, tmp_path, READER), *words, user=READER)
    assert shown.returncode == ExitCode.EVIDENCE, shown.stderr
    capture = read_capture(out)
    assert any(f"'reader' lacks DESCRIBE on group '{concealed}'" in text for text in capture.info.incomplete)
    samples = capture.samples.to_pylist()
    assert not [row for row in samples if row["group"] == concealed]
    assert "not_permitted" in {row["state"] for row in capture.groups.to_pylist() if row["group"] == concealed}


def window_now() -> Window:
    """The last seconds."""
    return Window.ending(datetime.now(UTC), length=timedelta(seconds=10), baseline=timedelta(seconds=10))


@pytest.mark.usefixtures("scraped")
def test_capture_from_prometheus_and_members_from_kafka(secured: SecuredLab, quiet: Filled, tmp_path: Path) -> None:
    """The lag comes from the exporter, and equals the commits."""
    if secured.prometheus_url is None:
        pytest.fail("this machine has no Prometheus to ask, and none was to be had")
    time.sleep(6)
    found = collect(secured.cluster(), window_now(), thresholds=LAB_THRESHOLDS, groups=sorted(quiet.commits))
    assert found.info.incomplete == []
    lag = {
        (row["group"], row["partition"]): row["value"]
        for row in found.samples.to_pylist()
        if row["signal"] == "consumer_lag"
    }
    expected = {
        (group, part): quiet.records - at for group, offsets in quiet.commits.items() for part, at in offsets.items()
    }
    assert lag == expected
    out = tmp_path / "capture"
    group = min(quiet.commits)
    words = ["capture", "--cluster", "mine", "--group", group, "--since", "20s ago", "--out", str(out), "--json"]
    shown = run(secured, settings_for(secured, tmp_path), *words)
    assert shown.returncode == 0, shown.stderr


@pytest.mark.jvm
@pytest.mark.slow
def test_triage_judges_two_thirds_and_names_the_others(secured: SecuredLab, spark: Any) -> None:
    """Sixty groups: forty findings, twenty not permitted, and what is incomplete is part of the result."""
    names = [fresh(f"{PREFIX}judged" if number % 3 else "concealed") for number in range(60)]
    made = filled(secured, *names)
    capture = observe(secured.cluster(READER, prometheus=None), 4, thresholds=LAB_THRESHOLDS, groups=names)
    found = triage(capture, spark, groups=names)
    judged = {finding.group for finding in found.findings}
    concealed = {name for name in made.commits if not name.startswith(PREFIX)}
    assert judged == set(made.commits) - concealed
    assert len(judged) == 40
    named = {
        name for name in concealed if any(f"group {name!r}: not permitted" in text for text in capture.info.incomplete)
    }
    assert named == concealed


@pytest.mark.jvm
@pytest.mark.slow
def test_the_triage_command(secured: SecuredLab, quiet: Filled, tmp_path: Path) -> None:
    """Live, of one group, with members from Kafka."""
    group = min(quiet.commits)
    words = ["triage", "--cluster", "mine", "--group", group, "--observe", "5s", "--json"]
    shown = run(secured, settings_for(secured, tmp_path), *words)
    assert shown.returncode in (ExitCode.OK, ExitCode.FINDINGS, ExitCode.EVIDENCE), shown.stderr
    [finding] = document(shown)["findings"]
    assert finding["lag_messages"] == sum(quiet.records - at for at in quiet.commits[group].values())


def test_the_runtime_processes_and_commits(secured: SecuredLab) -> None:
    """As the application's user."""
    made = filled(secured, records=50)
    group, seen = fresh("team-service"), list[tuple[int, int]]()

    def note(event: Event) -> None:
        seen.append((event.record.partition, event.record.offset))

    config = RuntimeConfig(
        bootstrap=secured.bootstrap,
        group=group,
        topics=[made.topic],
        metrics_port=0,
        kafka={**secured.properties(SERVICE), "session.timeout.ms": 6000},
    )
    with running(Runtime(config, {"*": note})):
        wait_for(lambda: len(set(seen)) == 300, 60)
    wait_for(lambda: sum(committed(secured, group).values()) == 300)


@pytest.mark.jvm
@pytest.mark.slow
def test_records_are_read_into_spark(secured: SecuredLab, spark: Any) -> None:
    """By a principal with READ on the topic; without it, the topic is named."""
    made = filled(secured, records=50)
    spark.dataSource.register(KafkaRecords)

    def frame(user: str) -> Any:
        options = {f"kafka.{name}": value for name, value in secured.properties(user).items()}
        read = spark.read.format("kafka_records").options(
            bootstrap=secured.bootstrap, topics=made.topic, timeout_seconds="10"
        )
        return read.options(**options).load()

    assert frame(ONCALL).count() == 300
    with pytest.raises(Exception, match=r"(?i)authorization"):
        frame(READER).count()


def test_a_member_is_shown_with_its_partitions(secured: SecuredLab) -> None:
    """Of a live group, in both protocols."""
    made = filled(secured, records=5)
    for protocol in ("classic", "consumer"):
        group = fresh("team-live")
        own = {"session.timeout.ms": 6000} if protocol == "classic" else {}
        consumer = Consumer(
            {**secured.properties(SERVICE), "bootstrap.servers": secured.bootstrap, "group.id": group,
             "client.id": "svc", "group.protocol": protocol, **own}
        )  # fmt: skip
        consumer.subscribe([made.topic])
        try:
            wait_for(lambda consumer=consumer: consumer.poll(0.2) or consumer.assignment())  # type: ignore[misc]
            [view] = source(secured).members(groups=[group]).groups
            assert view.protocol == protocol
            assert [member.client_id for member in view.members] == ["svc"]
            assert {topic for topic, _ in view.members[0].partitions} == {made.topic}
        finally:
            consumer.close()


def test_a_runtime_without_its_rights_says_which(secured: SecuredLab) -> None:
    """`reader` may describe the topic and not read it."""
    made = filled(secured, records=1)
    config = RuntimeConfig(
        bootstrap=secured.bootstrap, group=fresh("team-no"), topics=[made.topic], metrics_port=0,
        kafka=secured.properties(READER),
    )  # fmt: skip
    with (
        pytest.raises(SourceUnreachableError, match="GROUP_AUTHORIZATION_FAILED") as caught,
        running(Runtime(config, {"*": lambda _event: None})) as runtime,
    ):
        runtime.wait()
    assert "READ on the group" in (caught.value.hint or "")


def test_settings_hold_no_secret(secured: SecuredLab) -> None:
    """The password is in a file that its owner alone can read."""
    text = secured.settings()
    assert not any(password in text for password in secured.passwords.values())
    assert json.dumps(secured.bootstrap) in text
    for user in secured.passwords:
        assert secured.password_file(user).stat().st_mode & 0o077 == 0

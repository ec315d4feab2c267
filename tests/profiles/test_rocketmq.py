"""A RocketMQ by its exporter, from the answers of a Prometheus to findings and commands.

The exporter asks the brokers once a minute, and each of its series stays for a minute after that; a Prometheus scrapes it every 15 s.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from evaluation.stories import WINDOW, Story
from tests.cli.running import check, run_here
from tests.collect.test_samples_from_prometheus import END
from tests.servers import Script, scripted
from tests.triage.judging import rows_of
from tests.triage.test_verdicts import CASES
from workbench.collect.capture import Capture
from workbench.collect.capture_in_memory import collect
from workbench.profiles import load_profile
from workbench.report.dead_letters import dead_letters_in
from workbench.settings import load_settings
from workbench.thresholds import Thresholds
from workbench.triage.action_subject import Recording
from workbench.triage.build_finding import build_finding
from workbench.triage.finding import Finding
from workbench.triage.triage_engine import triage
from workbench.triage.verdict_names import State, Verdict
from workbench.window import Window

BASELINE, LENGTH, SCRAPE, ASKS = 3600, 900, 15, 60
START = END.timestamp() - BASELINE - LENGTH
BROKERS = ("broker-a", "broker-b")
INCIDENT = BASELINE - 60.0  # seconds after the start
Series = tuple[dict[str, str], list[list[object]]]
Of = Callable[[float], float]


def series(name: str, value: Of, *, there: Callable[[float], bool] = lambda _at: True, **labels: str) -> Series:
    """What a Prometheus has of a series, whose value is that of the exporter's last look at the brokers."""
    seconds = [number * float(SCRAPE) for number in range((BASELINE + LENGTH) // SCRAPE + 1)]
    looked = [(at, max(0.0, at - at % ASKS)) for at in seconds]
    return {"__name__": name, **labels}, [[START + at, str(value(look))] for at, look in looked if there(at)]


def group(
    name: str,
    *,
    consumed: Of,
    members: Of = lambda _at: 2,
    handled: Of = lambda _at: 40,
    failed: Of = lambda _at: 0,
    retries: float = 0.0,
) -> Iterator[Series]:
    """A group on a topic of its own, which gets 40 messages a second on each of two brokers."""
    topic, retry = f"orders-{name}", f"%RETRY%{name}"
    where = {"cluster": "DefaultCluster", "topic": topic}
    written: Of = lambda at: 1e6 + 40 * at  # noqa: E731
    for broker in BROKERS:
        yield series("rocketmq_producer_offset", written, broker=broker, **where)
        yield series("rocketmq_consumer_offset", consumed, broker=broker, group=name, **where)
        age: Of = lambda at: 1000 * max(0.0, (written(at) - consumed(at)) / 40)  # noqa: E731
        yield series("rocketmq_group_get_latency_by_storetime", age, broker=broker, group=name, **where)
    lag: Of = lambda at: 2 * (written(at) - consumed(at))  # noqa: E731
    for count in {members(at) for at in (0.0, float(BASELINE + LENGTH))}:
        here = [at for at in range(0, BASELINE + LENGTH + 1, ASKS) if members(at) == count]
        stays = lambda at, here=here: here[0] <= at < here[-1] + 2 * ASKS  # noqa: E731
        own = {"group": name, "countOfOnlineConsumers": f"{count:g}", "msgModel": "1"}
        yield series("rocketmq_group_diff", lag, there=stays, topic=topic, **own)
        yield series("rocketmq_group_retrydiff", lambda _at: retries, there=stays, topic=retry, **own)
        clients = ",".join(f"10.0.0.{number}:1" for number in range(int(count)))
        yield series(
            "rocketmq_group_count",
            lambda _at, count=count: count,
            there=stays,
            caddr=clients,
            localaddr=clients,
            group=name,
        )
    yield series(
        "rocketmq_topic_dlq_offset", lambda at: at // 600, cluster="DefaultCluster", broker="broker-a", group=name
    )
    yield series(
        "rocketmq_consumer_offset",
        lambda _at: 5.0,
        cluster="DefaultCluster",
        topic=retry,
        broker="broker-a",
        group=name,
    )
    for number in range(2):
        alive = lambda at, number=number: members(at) > number  # noqa: E731
        client = {"clientAddr": f"10.0.0.{number}:1", "clientId": f"10.0.0.{number}@7", "group": name, "topic": topic}
        yield series("rocketmq_client_consume_ok_msg_tps", lambda at: handled(at) - failed(at), there=alive, **client)
        yield series("rocketmq_client_consume_fail_msg_tps", failed, there=alive, **client)
        yield series("rocketmq_client_consumer_pull_tps", handled, there=alive, **client)
        yield series("rocketmq_client_consume_rt", lambda _at: 8.0, there=alive, **client)


def until(at: float) -> float:
    """Time that counts as long as the incident has not begun."""
    return min(at, INCIDENT)


EVERYTHING = [
    *group("fine", consumed=lambda at: 1e6 + 40 * at),
    *group("retrying", consumed=lambda at: 1e6 + 40 * at, retries=800.0),
    *group("stopped", consumed=lambda at: 1e6 + 40 * until(at), members=lambda at: 2 if at <= INCIDENT else 0),
    *group("hanging", consumed=lambda at: 1e6 + 40 * until(at), handled=lambda at: 40.0 if at <= INCIDENT else 0.0),
    *group(
        "slower",
        consumed=lambda at: 1e6 + 40 * until(at) + 15 * (at - until(at)),
        handled=lambda at: 40.0 if at <= INCIDENT else 15.0,
    ),
    *group("failing", consumed=lambda at: 1e6 + 40 * at, failed=lambda at: 0.1 if at <= INCIDENT else 20.0),
]


def prometheus(path: str, query: dict[str, list[str]]) -> bytes:
    """Series by the names in the query."""
    [asked] = query.get("query", [""])
    named = re.search(r'__name__(=~?)"([^"]+)"', asked)
    names = set(named[2].split("|")) if named else set()
    found = [{"metric": it, "values": values} for it, values in EVERYTHING if it["__name__"] in names]
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": found}}).encode()


SETTINGS = '[clusters.mq]\nsystem = "rocketmq"\nprometheus = "{url}"\n'


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Capture:
    """What is collected of all groups."""
    settings = tmp_path_factory.mktemp("settings") / "workbench.toml"
    with scripted(Script(answer=prometheus)) as server:
        settings.write_text(SETTINGS.format(url=server.url))
        cluster = load_settings(settings).cluster("mq")
        assert cluster.profiles == ["rocketmq_exporter", "rocketmq_broker"]
        window = Window.ending(END, length=timedelta(seconds=LENGTH), baseline=timedelta(seconds=BASELINE))
        return collect(cluster, window, thresholds=Thresholds())


@pytest.fixture(scope="module")
def findings(capture: Capture, spark: Any) -> dict[str, Finding]:
    """Findings by group."""
    found = triage(capture, spark).findings
    assert len({it.group for it in found}) == len(found) == 6  # no retry topic, no dead-letter topic is a subscription
    return {it.group: it for it in found}


@pytest.mark.jvm
@pytest.mark.parametrize(
    ("name", "state", "verdict"),
    [
        ("fine", State.HEALTHY, Verdict.HEALTHY),
        ("retrying", State.HEALTHY, Verdict.HEALTHY),
        ("stopped", State.LAGGING, Verdict.CONSUMER_STOPPED),
        ("hanging", State.CANNOT_TELL, Verdict.CANNOT_TELL),
        ("slower", State.CANNOT_TELL, Verdict.CANNOT_TELL),
        ("failing", State.LAGGING, Verdict.FAILING_RECORDS),
    ],
)
def test_what_its_exporter_tells_decides(
    findings: dict[str, Finding], name: str, state: State, verdict: Verdict
) -> None:
    """And the rest is "cannot tell"."""
    found = findings[name]
    assert (found.verdict, found.state) == (verdict, state), found.headline


@pytest.mark.jvm
def test_lag_and_age_are_those_of_all_brokers(findings: dict[str, Finding]) -> None:
    """In messages and in seconds; the number is of the topic as a whole, and the report says so."""
    found = findings["stopped"]
    assert found.lag_messages == 2 * 40 * (BASELINE + LENGTH - INCIDENT)
    assert found.time_lag.seconds == pytest.approx(BASELINE + LENGTH - INCIDENT, abs=ASKS)
    assert found.since is not None
    assert abs(found.since.timestamp() - START - INCIDENT) <= 2 * ASKS


@pytest.mark.jvm
def test_what_rocketmq_does_not_tell_has_its_reason(findings: dict[str, Finding]) -> None:
    """Of each missing signal: no advice to add a metric that the exporter never has."""
    missing = {it.signal: it.how_to_get_it for it in findings["hanging"].missing}
    assert missing["poll_age"] == "Apache RocketMQ exporter: RocketMQ's clients do not tell it."
    assert "share the queues out among themselves" in missing["rebalances"]
    assert not [words for words in missing.values() if "wb_" in words or "Kafka" in words]


@pytest.mark.jvm
def test_its_dead_letters_are_in_the_health_report(capture: Capture) -> None:
    """By the end of the topic that RocketMQ names after the group."""
    start, end = (datetime.fromtimestamp(at, UTC) for at in (START, END.timestamp()))
    lines = {it.topic: it for it in dead_letters_in(capture.samples, start=start, end=end)}
    assert set(lines) == {f"%DLQ%{it}" for it in ("fine", "retrying", "stopped", "hanging", "slower", "failing")}
    assert lines["%DLQ%failing"].new == (BASELINE + LENGTH) // 600
    assert lines["%DLQ%failing"].letters is None


@pytest.mark.jvm
@pytest.mark.parametrize("recording", [None, Recording(Path("recordings"), WINDOW.end, True)])
def test_no_advice_is_a_command_of_kafka(spark: Any, recording: Recording | None) -> None:
    """Of any verdict: RocketMQ's own tool, or what Workbench does without asking a queue."""
    profiles = [load_profile("rocketmq_exporter")]
    stories = [case.make(Story(group=name, topic=f"about {name}")) for name, case in CASES.items()]
    commands = []
    for row in rows_of(spark, stories).values():
        made = build_finding(row, profiles=profiles, since=WINDOW.start, bootstrap=None, recording=recording)
        commands += [it.command for it in made.actions if it.command]
    assert len(commands) > 20
    assert [it for it in commands if not it.startswith(("mqadmin ", "workbench "))] == []
    asking = ("workbench replay", "workbench snapshot", "workbench dlq", "workbench impact")
    assert [it for it in commands if it.startswith(asking) or "BOOTSTRAP" in it] == []


def test_kafkas_brokers_are_refused_for_it(tmp_path: Path) -> None:
    """They would be asked as a Kafka's."""
    (tmp_path / "workbench.toml").write_text(SETTINGS.format(url="http://p:9090") + 'bootstrap = "k:9092"\n')
    check(
        run_here("snapshot", "--cluster", "mq", cwd=tmp_path), 2, "bootstrap is of a Kafka, and the system is rocketmq"
    )

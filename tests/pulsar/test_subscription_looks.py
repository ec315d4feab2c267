"""Two looks at subscriptions: recorded answers of a real 4.0.7, what is not told, and the command that asks."""

from __future__ import annotations

import gzip
import json
import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.pulsar.pages import FakeAdmin, cluster, consumer, partitioned, serving, subscription, topic
from tests.reference.valid import valid
from workbench.api.measurement_requests import Measurements, Times
from workbench.api.pulsar_triage import judge_reading, look_twice
from workbench.api.triages import triage
from workbench.cli.triage import command
from workbench.errors import ExitCode, UnknownGroupError, UsageError, WorkbenchError
from workbench.pulsar.subscription_looks import read
from workbench.pulsar.topic_look import looks_of, position_of
from workbench.pulsar.topic_names import TopicName
from workbench.queues.dispatching_queues import DispatchedPart, DispatchReading
from workbench.queues.group_kinds import REDRIVE_PREFIX
from workbench.settings import Cluster
from workbench.thresholds import Thresholds
from workbench.triage.pulsar.pulsar_facts import Known
from workbench.triage.pulsar.pulsar_walk import judged_part

RECORDED = Path(__file__).parent / "incidents.json.gz"
ORDERS = "public/default/orders"
PAID = TopicName("public/default", "orders")


class Replayed:
    """Answers of a recording: for each path those that came, one after the other, and then the last one."""

    def __init__(self, answers: Mapping[str, list[Any]]) -> None:
        self._answers, self._asked, self._lock = answers, Counter[str](), threading.Lock()

    def __call__(self, path: str, _query: dict[str, list[str]]) -> bytes:
        """See `tests.servers.Script`."""
        name = path.removeprefix("/admin/v2/")
        with self._lock:
            number = self._asked[name]
            self._asked[name] += 1
        told = self._answers[name]
        return json.dumps(told[min(number, len(told) - 1)]).encode()


def recorded() -> tuple[dict[str, str], DispatchReading, Cluster]:
    """What was read of the incidents of `tests.pulsar.incidents` on a standalone, 112 s after they began."""
    kept = json.loads(gzip.decompress(RECORDED.read_bytes()))
    now = list(kept["at"])
    with serving(Replayed(kept["answers"])) as (found, _):
        reading = read(
            found, groups=(), topics=(), apart_seconds=10, pause=lambda _: now.__delitem__(0), clock=lambda: now[0]
        )
        return kept["expected"], reading, found


def test_recorded_incidents_have_their_verdicts() -> None:
    """All seventeen, by the answers of a real broker; by an objective of 20 s."""
    expected, reading, found = recorded()
    limits = Thresholds(time_lag_objective_seconds=20.0)
    judged = judge_reading(reading, found, limits, request=Measurements(cluster="events")).triage
    assert {it.topic.split("/")[1]: str(it.verdict) for it in judged.findings} == expected
    assert reading.incomplete == ()


def test_recorded_numbers_are_read() -> None:
    """Fields of a 4.0.7, each where it stands."""
    _, reading, _ = recorded()
    keys, limited, blocked = (
        reading.groups[f"billing@public/{name}/orders"][0] for name in ("keys", "throttled", "blocked")
    )
    assert (keys.kind, keys.blocking_hashes, keys.read_moved is None) == ("key_shared", 6, False)
    assert keys.hash_blocks is not None and keys.hash_blocks > 0
    assert [(it.name, it.permits, it.unacked) for it in keys.consumers or ()] == [("holds", 0, 100), ("joins", 1000, 0)]
    assert (limited.limit_per_second, limited.limit_bytes_per_second, limited.resent_messages) == (5.0, 0.0, 0.0)
    assert limited.throttled_events is not None and limited.throttled_events >= 10
    assert (blocked.unacked_limit, blocked.consumer_unacked_limit, blocked.unacked_messages) == (20, 50_000, 21)
    assert (blocked.span_entries, blocked.unread_entries, blocked.entries) == (21, 179, 200)
    assert (blocked.ttl_seconds, blocked.retention_minutes, blocked.quota_bytes) == (0, 60, 0)
    hole = reading.groups["billing@public/hole-in-one/orders"]
    assert [(it.partition, it.ack_ranges) for it in hole] == [(0, 0), (1, 1), (2, 0)]
    assert hole[1].mark_delete_moved is False


CURSOR: dict[str, Any] = {
    "markDeletePosition": "5:9", "readPosition": "5:20", "waitingReadOp": False, "pendingReadOps": 0, "messagesConsumedCounter": 10,
    "individuallyDeletedMessages": "[]", "numberOfEntriesSinceFirstNotAckedMessage": 11, "totalNonContiguousDeletedMessagesRange": 0,
    "subscriptionHavePendingRead": False, "subscriptionHavePendingReplayRead": False,
}  # fmt: skip


def internal(*, last: str = "5:29", ledgers: Mapping[int, int] | None = None, **cursor: Any) -> dict[str, Any]:
    """`internalStats` of a topic with the subscription `billing`; None takes a field of its cursor away."""
    told = {name: value for name, value in {**CURSOR, **cursor}.items() if value is not None}
    listed = [{"ledgerId": number, "entries": entries, "size": 1} for number, entries in (ledgers or {5: 0}).items()]
    return {"entriesAddedCounter": 30, "lastConfirmedEntry": last, "ledgers": listed, "cursors": {"billing": told}}


@pytest.mark.parametrize(
    ("read_position", "last", "ledgers", "unread"),
    [
        ("5:20", "5:29", {5: 0}, 10),
        ("5:30", "5:29", {5: 0}, 0),
        ("5:0", "5:-1", {5: 0}, 0),
        ("5:20", "7:3", {5: 100, 6: 50, 7: 0}, 80 + 50 + 4),
        ("5:100", "7:3", {5: 100, 6: 50, 7: 0}, 54),
        ("8:0", "7:3", {7: 0}, 0),
        ("4:20", "7:3", {5: 100, 6: 50, 7: 0}, None),  # its ledger is gone
        ("x", "7:3", {7: 0}, None),
        (None, "7:3", {7: 0}, None),
    ],
)
def test_unread_entries_are_counted_over_ledgers(
    read_position: str | None, last: str, ledgers: dict[int, int], unread: int | None
) -> None:
    """The ledger that is written to has its length in the last position alone."""
    stats = topic(billing=subscription())
    document = internal(last=last, ledgers=ledgers, readPosition=read_position)
    [it] = looks_of(stats, document, PAID, partitioned=False, at=0.0, lacking=[]).values()
    assert it.unread == unread


@pytest.mark.parametrize(
    ("cursor", "transactions", "reads"),
    [
        (
            {"waitingReadOp": True, "subscriptionHavePendingRead": True},
            0,
            False,
        ),  # it has missed the entries that are there
        ({"subscriptionHavePendingRead": True}, 0, False),
        ({"waitingReadOp": True, "readPosition": "5:30"}, 0, True),  # nothing is there
        ({"waitingReadOp": True, "readPosition": "4:20"}, 0, True),  # not known
        ({"waitingReadOp": True}, 1, True),  # an open transaction may begin there
        ({"waitingReadOp": True}, None, True),
        ({"waitingReadOp": True, "pendingReadOps": 1}, 0, True),
        ({"waitingReadOp": True, "pendingReadOps": None}, 0, True),
        ({}, None, False),
        ({"waitingReadOp": None}, 0, None),
    ],
)
def test_a_cursor_that_waits_although_entries_are_there_does_not_read(
    cursor: dict[str, Any], transactions: int | None, reads: bool | None
) -> None:
    """Brokers up to 4.2 lose the wake-up of a failover's dispatcher where its active consumer changes."""
    stats = {**topic(billing=subscription()), "ongoingTxnCount": transactions}
    [it] = looks_of(stats, internal(**cursor), PAID, partitioned=False, at=0.0, lacking=[]).values()
    assert it.reads is reads


@pytest.mark.parametrize("text", ["5", "5:", ":5", "5:6:7", "a:b", None, "9" * 40 + ":1"])
def test_what_is_no_position_is_none(text: str | None) -> None:
    """And ends in no error."""
    assert position_of(text) is None


@pytest.mark.parametrize(
    "document",
    [[], None, {"subscriptions": []}, {"subscriptions": {"a": "x"}}, {"subscriptions": {"a": {"msgBacklog": "many"}}},
     {"subscriptions": {}, "backlogQuotaLimitSize": "x"}],
)  # fmt: skip
def test_statistics_that_cannot_be_read_are_said(document: object) -> None:
    """In one sentence, which names the topic."""
    lacking: list[str] = []
    assert looks_of(document, None, PAID, partitioned=False, at=0.0, lacking=lacking) == {}
    [said] = lacking
    assert said.startswith("The statistics of public/default/orders cannot be read: ")


def test_one_bad_answer_hides_nothing_else() -> None:
    """Of a subscription, of a partition, of positions: the rest is read."""
    lacking: list[str] = []
    good, bad = subscription(type="Shared"), subscription(type=7)
    found = looks_of(topic(billing=good, odd=bad), {"cursors": []}, PAID, partitioned=False, at=0.0, lacking=lacking)
    assert [(key, it.entries, it.mark_delete) for key, it in found.items()] == [((-1, "billing"), 10, None)]
    assert len(lacking) == 2 and all(ORDERS in it for it in lacking)
    lacking = []
    told = partitioned(ORDERS, {0: {"subscriptions": 1}, 1: topic(billing=good)}, of=2)
    inner = {"partitions": {f"persistent://{ORDERS}-partition-1": internal()}}
    found = looks_of(told, inner, PAID, partitioned=True, at=0.0, lacking=lacking)
    assert {key: it.mark_delete for key, it in found.items()} == {(1, "billing"): "5:9"}
    assert len(lacking) == 1 and "orders-partition-0" in lacking[0]


@pytest.mark.parametrize(
    ("name", "cursor"),
    [("public/default/my fn", "public%2Fdefault%2Fmy+fn"), ("a+b~c*d%2F", "a%2Bb%7Ec*d%252F"), ("ü:x", "%C3%BC%3Ax"),
     ("reader-1f@x", "reader-1f@x")],
)  # fmt: skip
def test_a_cursor_is_called_as_java_writes_the_name(name: str, cursor: str) -> None:
    """Recorded from a 4.0.7: of a function, with every odd character; a reader's, which is not durable, is plain."""
    document = {**internal(), "cursors": {cursor: CURSOR}}
    [it] = looks_of(topic(**{name: subscription()}), document, PAID, partitioned=False, at=0.0, lacking=[]).values()
    assert it.mark_delete == "5:9"


@pytest.mark.parametrize("position", ["5:²", "5:--5", "5:x", "٥:1", ""])
def test_a_position_that_is_none_is_not_known(position: str) -> None:
    """What comes after it would end in an error."""
    document = internal(markDeletePosition=position, readPosition=position)
    [it] = looks_of(topic(billing=subscription()), document, PAID, partitioned=False, at=0.0, lacking=[]).values()
    assert (it.mark_delete, it.read_position) == (None, None)


def two_looks(*looks: dict[str, Any], extra: Mapping[str, list[Any]] | None = None) -> DispatchReading:
    """What is read if the survey and the two looks get these statistics, and the last one from then on."""
    answers = {name: [it] for name, it in admin(billing=subscription()).answers.items()}
    answers |= {f"persistent/{ORDERS}/stats": list(looks), **(extra or {})}
    seen: Counter[str] = Counter()
    with serving(lambda name, query: next_answer(answers, name, query, seen)) as (found, _):
        return read(found, groups=(), topics=(), apart_seconds=0.0, pause=lambda _: None)


def test_consumers_of_one_name_are_not_taken_for_each_other() -> None:
    """On one connection each has its own permits; which of them a failover reads by is not told."""
    first, second = (
        consumer(consumerName="billing", connectedSince=f"2026-11-26T07:29:35.{number}Z") for number in (1, 2)
    )

    def of(kind: str, permits: int) -> dict[str, Any]:
        told = [{**first, "availablePermits": 0}, {**second, "availablePermits": permits}]
        return topic(billing=subscription(type=kind, activeConsumerName="billing", consumers=told))

    shared = only(two_looks(of("Shared", 900), of("Shared", 900), of("Shared", 800)))
    assert [(it.permits_before, it.permits, it.gets_entries) for it in shared.consumers or ()] == [
        (0, 0, True),
        (900, 800, True),
    ]
    failover = only(two_looks(of("Failover", 900)))
    assert [it.gets_entries for it in failover.consumers or ()] == [None, None]
    assert Known(failover, 120.0).readers is None


def test_what_expired_between_the_looks_is_no_all_clear() -> None:
    """Nothing waits any more, for it was deleted."""
    looks = [
        topic(billing=subscription(msgBacklog=left, totalMsgExpired=lost)) for left, lost in ((9, 1), (9, 1), (0, 10))
    ]
    reading = two_looks(*looks)
    judged = judge_reading(reading, cluster("http://x"), Thresholds(), request=Measurements(cluster="events")).triage
    assert [str(it.verdict) for it in judged.findings] == ["expiring"]
    # One that has lost something is looked at again, also without a backlog.
    empty = [topic(billing=subscription(msgBacklog=0, totalMsgExpired=lost)) for lost in (5, 5, 7)]
    assert only(two_looks(*empty)).expired_messages == 2


def test_numbers_that_are_none_are_not_known() -> None:
    """Absurd rates, times that cannot be read, a broker that does not count."""
    told = subscription(
        msgRateRedeliver=float("nan"), msgOutCounter=-1, type="Shared", consumers=[consumer(connectedSince="soon")]
    )
    [it] = looks_of(topic(billing=told), None, PAID, partitioned=False, at=0.0, lacking=[]).values()
    assert (it.redelivered_per_second, it.sent, it.throttled, it.unread, it.reads) == (None, None, None, None, None)
    assert it.consumers is not None and it.consumers[0].connectedSince is None


def admin(*, extra: Mapping[str, Any] | None = None, **subscriptions: dict[str, Any]) -> FakeAdmin:
    """An admin with a topic of these subscriptions, and its internal statistics."""
    path = f"persistent/{ORDERS}"
    return FakeAdmin({ORDERS: topic(**subscriptions)}, extra={f"{path}/internalStats": internal(), **(extra or {})})


def read_all(answers: FakeAdmin, *, groups: tuple[str, ...] = (), topics: tuple[str, ...] = ()) -> DispatchReading:
    """Both looks, without a pause."""
    with serving(answers) as (found, _):
        return read(found, groups=groups, topics=topics, apart_seconds=0.0, pause=lambda _: None)


def only(reading: DispatchReading) -> DispatchedPart:
    """Its one partition of one subscription."""
    [[part]] = reading.groups.values()
    return part


def test_where_a_redrive_plan_is_does_not_lag() -> None:
    """Nobody reads that subscription, and it holds whatever letters come after the plan; who asks for it by name gets it."""
    name = f"{REDRIVE_PREFIX}1"
    admin = FakeAdmin({ORDERS: topic(billing=subscription(), **{name: subscription()})})
    assert list(read_all(admin).groups) == [f"billing@{ORDERS}"]
    for asked in (name, f"{name}@{ORDERS}"):
        assert list(read_all(admin, groups=(asked,)).groups) == [f"{name}@{ORDERS}"]


def test_without_the_internal_statistics_the_rest_is_known() -> None:
    """What is missing is said, and is None."""
    reading = read_all(FakeAdmin({ORDERS: topic(billing=subscription(type="Shared"))}))
    part = only(reading)
    assert (part.entries, part.unread_entries, part.acked_entries, part.mark_delete_moved, part.reads) == (
        10,
        None,
        None,
        None,
        None,
    )
    assert any("internalStats" in text for text in reading.incomplete)
    assert (part.ttl_seconds, part.unacked_limit, part.limit_per_second) == (None, None, None)


@pytest.mark.parametrize(
    ("limits", "policies", "known"),
    [
        ((-1, -1), None, (0, 0)),  # -1 is none
        ((1000, -1), None, (None, 0)),  # a limit whose policy is not told may delete
        ((1000, 60), ("producer_exception", "consumer_backlog_eviction"), (0, 60)),
        ((1000, 60), ("consumer_backlog_eviction", "producer_request_hold"), (1000, 0)),
        ((1000, 60), ("consumer_backlog_eviction", None), (1000, None)),
        ((None, None), ("producer_exception", "producer_exception"), (0, 0)),
    ],
)  # fmt: skip
def test_a_quota_is_one_that_deletes(
    limits: tuple[int | None, int | None], policies: tuple[str, str | None] | None, known: tuple[int | None, int | None]
) -> None:
    """Each of the two has its own policy: one may hold producers, and the other delete."""
    stats = topic(billing=subscription()) | dict(
        zip(("backlogQuotaLimitSize", "backlogQuotaLimitTime"), limits, strict=True)
    )
    kinds = dict(zip(("destination_storage", "message_age"), policies or (), strict=policies is not None))
    told = {kind: {"policy": policy} for kind, policy in kinds.items() if policy is not None}
    extra = {f"persistent/{ORDERS}/backlogQuotaMap": told} if policies else {}
    part = only(read_all(FakeAdmin({ORDERS: stats}, extra=extra)))
    assert (part.quota_bytes, part.quota_seconds) == known


def test_a_quota_takes_the_slowest_subscription_and_not_one_that_keeps_up() -> None:
    """Both are on the topic whose backlog has reached it."""
    quota = {
        "destination_storage": {"policy": "consumer_backlog_eviction"},
        "message_age": {"policy": "producer_exception"},
    }
    stats = topic(slow=subscription(backlogSize=5000), fine=subscription(msgBacklog=1, backlogSize=90))
    stats |= {"backlogSize": 5000, "backlogQuotaLimitSize": 5000, "backlogQuotaLimitTime": -1}
    reading = read_all(FakeAdmin({ORDERS: stats}, extra={f"persistent/{ORDERS}/backlogQuotaMap": quota}))
    verdicts = {
        name.partition("@")[0]: str(judged_part(Known(part, 120.0)).verdict) for name, [part] in reading.groups.items()
    }
    assert verdicts == {"slow": "expiring", "fine": "dead_subscription"}


def test_policies_of_the_namespace_apply_where_topics_have_none() -> None:
    """Brokers without policies of topics refuse to tell these."""
    quota = {"destination_storage": {"policy": "consumer_backlog_eviction"}}
    extra = {"namespaces/public/default/messageTTL": 60, "namespaces/public/default/backlogQuotaMap": quota}
    stats = topic(billing=subscription()) | {"backlogQuotaLimitSize": 1000}
    part = only(read_all(FakeAdmin({ORDERS: stats}, extra=extra)))
    assert (part.ttl_seconds, part.quota_bytes) == (60, 1000)


@pytest.mark.parametrize(
    ("of_topic", "of_subscription", "limit"),
    [((10, 1), (4, 2), 2.0), ((10, 1), (0, 1), 10.0), ((-1, 1), (-1, 1), 0.0), ((10, 1), None, None)],
)
def test_the_lower_dispatch_rate_limit_counts(
    of_topic: tuple[int, int], of_subscription: tuple[int, int] | None, limit: float | None
) -> None:
    """Per second; 0 and -1 are none, and one that is not told may be lower."""

    def rate(of: tuple[int, int] | None) -> Any:
        if of is None:
            return b"no"
        return {
            "dispatchThrottlingRateInMsg": of[0], "dispatchThrottlingRateInByte": -1, "ratePeriodInSecond": of[1],
            "relativeToPublishRate": False,
        }  # fmt: skip

    extra = {
        f"persistent/{ORDERS}/dispatchRate": rate(of_topic),
        f"persistent/{ORDERS}/billing/dispatchRate": rate(of_subscription),
    }
    assert only(read_all(admin(extra=extra, billing=subscription()))).limit_per_second == limit


def test_a_limit_relative_to_what_is_published_has_no_number() -> None:
    """So it is not compared; what it keeps back is counted all the same."""
    relative = {"dispatchThrottlingRateInMsg": 5, "ratePeriodInSecond": 1, "relativeToPublishRate": True}
    extra = {f"persistent/{ORDERS}/dispatchRate": relative, f"persistent/{ORDERS}/billing/dispatchRate": relative}
    assert only(read_all(admin(extra=extra, billing=subscription()))).limit_per_second is None


def test_only_what_has_a_backlog_is_looked_at_again() -> None:
    """Of the others one answer is enough."""
    answers = FakeAdmin({ORDERS: topic(done=subscription(msgBacklog=0))})
    with serving(answers) as (found, script):
        reading = read(
            found, groups=(), topics=(), apart_seconds=5.0, pause=lambda _: pytest.fail("nothing to wait for")
        )
    assert only(reading).entries == 0
    assert sum(path.endswith("/stats") for path, _, _ in script.requests) == 1
    assert not any("internal" in path for path, _, _ in script.requests)


def test_groups_and_topics_choose_and_a_wrong_name_is_told() -> None:
    """By the name of the subscription, or of the one on a topic; with what is like it."""
    answers = admin(billing=subscription(), audit=subscription())
    assert set(read_all(answers, groups=("billing",)).groups) == {f"billing@{ORDERS}"}
    assert set(read_all(answers, groups=(f"audit@{ORDERS}",), topics=(ORDERS,)).groups) == {f"audit@{ORDERS}"}
    with pytest.raises(UnknownGroupError, match="no subscription 'biling'") as error:
        read_all(answers, groups=("biling",))
    assert "billing" in (error.value.hint or "")
    with pytest.raises(UnknownGroupError, match="no topic 'public/default/order'"):
        read_all(answers, topics=("public/default/order",))


def test_a_topic_loaded_anew_between_the_looks_is_not_judged() -> None:
    """Its counters begin again."""
    path = f"persistent/{ORDERS}"
    stats = [topic(billing=subscription(type="Shared", msgOutCounter=count)) for count in (500, 500, 20)]
    replayed = {name: [it] for name, it in admin(billing=subscription()).answers.items()} | {f"{path}/stats": stats}
    with serving(lambda name, query: next_answer(replayed, name, query, seen)) as (found, _):
        seen: Counter[str] = Counter()
        reading = read(found, groups=(), topics=(), apart_seconds=0.0, pause=lambda _: None)
        judged = judge_reading(reading, found, Thresholds(), request=Measurements(cluster="events")).triage
    assert [str(it.verdict) for it in judged.findings] == ["unusable_data"]
    assert "loaded anew" in judged.findings[0].headline


def next_answer(answers: Mapping[str, list[Any]], path: str, _query: object, seen: Counter[str]) -> bytes:
    """The next answer of a path; of one that has none, something that cannot be read."""
    name = path.removeprefix("/admin/v2/")
    told = answers.get(name, [b"no"])
    seen[name] += 1
    it = told[min(seen[name], len(told)) - 1]
    return it if isinstance(it, bytes) else json.dumps(it).encode()


def test_a_partition_that_is_not_told_again_is_not_known() -> None:
    """Its backlog was seen, and nothing since."""
    whole = partitioned(ORDERS, {0: topic(billing=subscription()), 1: topic(billing=subscription())}, of=2)
    less = {**whole, "partitions": dict(list(whole["partitions"].items())[:1])}
    answers = {name: [it] for name, it in FakeAdmin({ORDERS: whole}).answers.items()}
    answers[f"persistent/{ORDERS}/partitioned-stats"] = [whole, less]
    seen: Counter[str] = Counter()
    with serving(lambda name, query: next_answer(answers, name, query, seen)) as (found, _):
        reading = read(found, groups=(), topics=(), apart_seconds=0.0, pause=lambda _: None)
    assert [(it.partition, it.entries) for it in reading.groups[f"billing@{ORDERS}"]] == [(0, 10), (1, None)]


def test_a_partition_that_is_never_told_is_no_all_clear() -> None:
    """Nothing waits on the others; of this one nothing is known."""
    done = topic(billing=subscription(msgBacklog=0))
    reading = read_all(FakeAdmin({ORDERS: partitioned(ORDERS, {0: done, 2: done}, of=3)}))
    assert [(it.partition, it.entries) for it in reading.groups[f"billing@{ORDERS}"]] == [(0, 0), (1, None), (2, 0)]
    judged = judge_reading(reading, cluster("http://x"), Thresholds(), request=Measurements(cluster="events")).triage
    [it] = judged.findings
    assert (str(it.verdict), it.scope.partitions) == ("unusable_data", (1,))


def run(tmp_path: Path, answers: FakeAdmin, *words: str) -> Any:
    """The command against this admin."""
    with serving(answers) as (found, _):
        file = tmp_path / "workbench.toml"
        file.write_text(
            f'[clusters.events]\nsystem = "pulsar"\n[clusters.events.pulsar]\nadmin_url = "{found.pulsar.admin_url}"\n'
            '[clusters.events.groups."billing*"]\nowner = "#billing"\n'
        )
        given = ["--cluster", "events", "--config", str(file), *words]
        return CliRunner().invoke(command, given, standalone_mode=False)


def dead() -> FakeAdmin:
    """An old backlog that nobody reads."""
    return admin(billing=subscription(), done=subscription(msgBacklog=0))


def test_the_command_speaks_as_of_kafka(tmp_path: Path) -> None:
    """The same document, exit codes, runbooks and settings of the group."""
    found = run(tmp_path, dead(), "--all", "--observe", "1ms", "--json")
    assert found.return_value == ExitCode.FINDINGS
    document = json.loads(found.stdout)
    valid("triage", document)
    assert document["schema"] == "workbench.triage/1"
    assert document["source"] == {"kind": "pulsar", "cluster": "events", "profiles": []}
    first, second = document["findings"]
    assert (first["verdict"], first["state"], first["owner"]) == ("dead_subscription", "lagging", "#billing")
    assert first["runbook"] == "runbooks/DeadSubscription.md"
    assert (first["kind"], first["lag_entries"], second["verdict"]) == ("exclusive", 10, "healthy")
    operands = first["path"][-1]["because"]["operands"]
    assert operands == [
        {"name": "consumers", "value": 0.0, "unit": "consumers", "relation": "=", "limit": 0.0, "origin": "0"}
    ]
    shown = run(tmp_path, dead(), "--group", "billing", "--observe", "1ms")
    assert "LAGGING dead_subscription" in shown.stdout and "10 entries" in shown.stdout
    assert "workbench runbooks show DeadSubscription" in shown.stdout
    several = run(tmp_path, admin(a=subscription(msgBacklog=0), b=subscription(msgBacklog=0)), "--all")
    assert "2 subscriptions healthy" in several.stdout and "0 entries" in several.stdout
    calm = run(tmp_path, dead(), "--group", "done")
    assert (calm.return_value, "HEALTHY healthy" in calm.stdout) == (ExitCode.OK, True)
    short = run(tmp_path, admin(a=subscription(), b=subscription()), "--all", "--limit", "1", "--observe", "1ms").stdout
    assert short.count("What to do") == 1 and "1 more that are not healthy" in short
    rows = run(tmp_path, dead(), "--observe", "1ms", "-o", "csv")
    assert "lag_entries" in rows.stdout and "dead_subscription" in rows.stdout


def test_a_notebook_shows_it_without_the_picture_of_the_other_tree(tmp_path: Path) -> None:
    """The same door as for a triage of Kafka: verdict, path and actions."""
    with serving(dead()) as (found, _):
        file = tmp_path / "workbench.toml"
        file.write_text(
            f'[clusters.events]\nsystem = "pulsar"\n[clusters.events.pulsar]\nadmin_url = "{found.pulsar.admin_url}"\n'
        )
        result = triage(cluster="events", groups=["billing"], observe="1ms", config=file)
    page = result._repr_html_()
    assert result.exit_code is ExitCode.FINDINGS
    assert "Nobody is connected" in page and "pulsar-admin topics stats" in page
    assert "Is the broker throttling this client?" not in page


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--html", "page.html"), "--html does not work on a Pulsar yet"),
        (("--watch",), "--watch does not work on a Pulsar yet"),
        (("--since", "1h ago"), "judged as it is now"),
        (("--all", "--group", "billing"), "--all takes no --group"),
    ],
)
def test_what_does_not_work_on_a_pulsar_is_refused(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    """Before anything is asked."""
    found = run(tmp_path, dead(), *words)
    assert isinstance(found.exception, UsageError) and said in found.exception.message


def test_hostile_names_reach_a_terminal_escaped(tmp_path: Path) -> None:
    """Subscriptions and consumers are named by whoever connects."""
    bad = "a\x1b[2J\nb"
    answers = FakeAdmin({ORDERS: topic(**{bad: subscription(type="Shared", consumers=[consumer(consumerName=bad)])})})
    shown = run(tmp_path, answers, "--observe", "1ms")
    assert shown.exception is None
    assert "\x1b" not in shown.stdout and "\\x1b" in shown.stdout


def test_an_admin_that_does_not_answer_is_one_error(tmp_path: Path) -> None:
    """No traceback, and the exit code of a source."""
    found = run(tmp_path, FakeAdmin({}, extra={"tenants": b"<html>"}))
    assert isinstance(found.exception, WorkbenchError)
    assert found.exception.exit_code is ExitCode.SOURCE


def test_the_time_between_the_looks_can_be_set_and_the_past_cannot() -> None:
    """Ten seconds by default."""
    waited: list[float] = []
    with serving(dead()) as (found, _):
        for observe in (None, "30s"):
            look_twice(Measurements(cluster="events", observe=observe), found, Thresholds(), pause=waited.append)
        with pytest.raises(UsageError, match="judged as it is now"):
            look_twice(
                Measurements(cluster="events", times=Times(since="1h ago")), found, Thresholds(), pause=waited.append
            )
    assert [round(it) for it in waited] == [10, 30]

"""Every question about a subscription of Pulsar: both sides of each limit, each signal missing, and what only looks like a cause."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import pytest

from workbench.humanize import shell_word
from workbench.judgement_numbers import APART, DRAIN_SECONDS, FLUSH_SECONDS, LESS, MORE, MOST, PAUSE_SECONDS, SEVERAL
from workbench.queues.dispatching_queues import DispatchedConsumer, DispatchedPart, dispatch_tools_of
from workbench.triage.finding import Finding
from workbench.triage.pulsar.pulsar_facts import FACTS, Known
from workbench.triage.pulsar.pulsar_finding import pulsar_finding
from workbench.triage.pulsar.pulsar_questions import LEAVES, QUESTIONS
from workbench.triage.pulsar.pulsar_reference import as_text, asked_for, document, way_to
from workbench.triage.pulsar.pulsar_walk import JudgedPart, judged_part
from workbench.triage.pulsar.question_types import NOT_KNOWN
from workbench.triage.pulsar.what_servers_tell import Servers
from workbench.triage.question_order import TREE
from workbench.triage.question_trees_by_queue import short_of
from workbench.triage.tree_reference import ANSWERED, as_markdown
from workbench.triage.verdict_names import Answer, AnyVerdict, DispatchVerdict, State, Verdict

OBJECTIVE = 120.0
TOPIC = "shop/orders/paid"


def consumer(**changes: Any) -> DispatchedConsumer:
    """One that has been there for long, and would take more."""
    known: dict[str, Any] = {
        "name": "c1", "permits": 500, "permits_before": 500, "unacked": 10, "blocked": False, "connected_seconds": 3600.0,
        "blocking_hashes": 0, "gets_entries": True,
    }  # fmt: skip
    return DispatchedConsumer(**{**known, **changes})


def part(**changes: Any) -> DispatchedPart:
    """A Shared subscription that is late: 1,000 entries wait, 10/s are acknowledged in order, 10/s arrive; everything is told."""
    known: dict[str, Any] = {
        "topic": TOPIC, "partition": -1, "subscription": "billing", "kind": "shared", "look_seconds": 10.0, "counters_back": False,
        "entries": 1000, "delayed_entries": 0, "replay_entries": 0, "unread_entries": 900, "span_entries": 100,
        "oldest_seconds": 600.0, "arrived_entries": 100, "acked_entries": 100, "sent_messages": 100, "resent_messages": 0.0,
        "sent_entries": 100.0, "others_sent_entries": 0.0,
        "redelivered_per_second": 0.0, "expired_messages": 0, "expired_ever": 0, "unacked_messages": 100,
        "unacked_limit": 50_000, "consumer_unacked_limit": 50_000, "blocked": False, "consumers": (consumer(),),
        "mark_delete": "7:99", "read_position": "7:200", "mark_delete_moved": True, "read_moved": True, "mark_delete_seconds": 1.0,
        "acked_seconds": 1.0, "ack_ranges": 0, "reads": True, "hash_blocks": 0, "blocking_hashes": 0, "joined_behind": 0,
        "ttl_seconds": 0, "quota_bytes": 0, "quota_seconds": 0, "backlog_bytes": 10_000,
        "retention_minutes": 60, "limit_per_second": 0.0, "limit_bytes_per_second": 0.0, "throttled_events": 0,
    }  # fmt: skip
    return DispatchedPart(**{**known, **changes})


WELL = Servers(
    bad_reports=0, unload_times=0, quarantines=0, busiest="b1:8000", busiest_share=1.0, ack_share=0.1,
    write_seconds={"1:8080": 0.005}, broker_of={TOPIC: "1:8080"}, misses={TOPIC: 0.0},
)  # fmt: skip


def judge(it: DispatchedPart, servers: Servers = WELL) -> JudgedPart:
    """Its verdict, by an objective of two minutes, on brokers and bookies that tell everything, and are well."""
    return judged_part(Known(it, OBJECTIVE, servers))


def part_of(changes: Mapping[str, Any]) -> DispatchedPart:
    """Of a case: without what it says of servers."""
    return part(**{name: value for name, value in changes.items() if name != "servers"})


def servers_of(changes: Mapping[str, Any]) -> Servers:
    """What a case says of servers."""
    return replace(WELL, **changes.get("servers", {}))


def judged(**changes: Any) -> JudgedPart:
    """A case."""
    return judge(part_of(changes), servers_of(changes))


def verdict(**changes: Any) -> str:
    """The name of its verdict."""
    return str(judged(**changes).verdict)


def finding(*parts: DispatchedPart) -> Finding:
    """The finding of a subscription with these partitions."""
    return pulsar_finding("events", f"billing@{TOPIC}", [judge(it) for it in parts], tools=dispatch_tools_of("pulsar"))


FULL = {"consumers": (consumer(permits=0, permits_before=-3),)}
STANDS = {"mark_delete_moved": False, "mark_delete_seconds": 300.0, "acked_entries": 0}
STUCK = {**STANDS, "sent_messages": 0, "read_moved": False, "reads": False}
HOLE = {
    "mark_delete_moved": False, "mark_delete_seconds": 300.0, "ack_ranges": 1, "entries": 2, "unread_entries": 0,
    "span_entries": 900,
}  # fmt: skip
KEYS = {
    **STANDS, "kind": "key_shared", "blocking_hashes": 8, "hash_blocks": 90, "sent_messages": 0, "replay_entries": 900,
    "unread_entries": 0, "span_entries": 1000,
    "consumers": (consumer(permits=0, permits_before=0, unacked=100, blocking_hashes=8), consumer(name="c2", unacked=0)),
}  # fmt: skip
BLOCKED = {**STANDS, "blocked": True, "unacked_messages": 50_001, "sent_messages": 0}
THROTTLED = {"throttled_events": 20, "limit_per_second": 10.0, "limit_bytes_per_second": 0.0, "arrived_entries": 300}
AGAIN = {**STANDS, "resent_messages": 80.0, "redelivered_per_second": 8.0}
LATELY = (consumer(connected_seconds=PAUSE_SECONDS),)
# Of ten entries a second eight were sent before, and five were read from bookies: three of them were both.
MISSED = {
    "consumers": LATELY,
    "resent_messages": 80.0,
    "redelivered_per_second": 8.0,
    "servers": {"misses": {TOPIC: 5.0}},
}
SLOW = {"write_seconds": {"1:8080": float(FLUSH_SECONDS)}}
ACKS = {"servers": {"ack_share": float(MOST), "ack_writers": (("billing@shop/orders/paid", 9.5),), **SLOW}}
AVOIDED = {"servers": {"quarantines": 1, "busiest_share": float(APART), **SLOW}}
HOT_KEY = {
    "kind": "key_shared", "replay_entries": 900, "unread_entries": 0,
    "consumers": (consumer(permits=0, permits_before=0), consumer(name="idle", unacked=0)),
}  # fmt: skip

CAUSES: list[tuple[str, dict[str, Any]]] = [
    ("unusable_data", {"entries": None}),
    ("unusable_data", {"counters_back": True}),
    ("healthy", {"entries": 0}),
    ("healthy", {"oldest_seconds": OBJECTIVE}),
    ("delayed_messages", {"delayed_entries": 1000, "acked_entries": 0}),
    ("expiring", {"expired_messages": 1}),
    ("expiring", {"ttl_seconds": 600}),
    ("expiring", {"expired_ever": 5, "ttl_seconds": 750}),
    ("expiring", {"quota_bytes": 10_000}),
    ("expiring", {"quota_seconds": 600}),
    ("dead_subscription", {"consumers": (), "kind": None, "acked_entries": 0, "sent_messages": 0}),
    ("catching_up", {"acked_entries": 200}),
    ("cannot_tell", {"consumers": (consumer(connected_seconds=PAUSE_SECONDS, permits=0, permits_before=0),)}),
    ("blocked_on_unacked", BLOCKED),
    ("blocked_on_unacked", {**STANDS, "consumers": (consumer(blocked=True), consumer(name="c2", blocked=True))}),
    ("key_shared_blocked", KEYS),
    (
        "key_shared_blocked",
        {**KEYS, "blocking_hashes": None, "hash_blocks": None, "joined_behind": 1},
    ),
    ("ack_hole", HOLE),
    ("dispatch_throttled", THROTTLED),
    ("dispatch_throttled", {**THROTTLED, "throttled_events": None, "limit_per_second": 10 / LESS}),
    ("redelivering", AGAIN),
    ("redelivery_cache_miss", MISSED),
    ("redelivering", {**AGAIN, "servers": {"misses": {TOPIC: 10.0}}}),  # who stays connected refuses, or is too slow
    ("redelivery_cache_miss", {**MISSED, "others_sent_entries": 20.0, "servers": {"misses": {TOPIC: 7.0}}}),
    ("bad_load_report", {"consumers": LATELY, "servers": {"bad_reports": 1, "bad_loads": ("cpu of 1:8080",)}}),
    ("unload_storm", {"consumers": LATELY, "servers": {"unload_times": int(SEVERAL)}}),
    ("ack_write_amplification", ACKS),
    ("bookie_quarantine", AVOIDED),
    ("dispatcher_stuck", STUCK),
    ("no_permits", FULL),
    ("no_permits", {"unread_entries": 0, "span_entries": 1000}),
    ("no_permits", HOT_KEY),
    ("no_permits", {"consumers": (consumer(permits=0, permits_before=1),)}),
    ("no_permits", {**HOT_KEY, **STUCK}),
    ("no_permits", {**STUCK, "consumers": (consumer(blocked=True), consumer(name="c2", permits=0, permits_before=0))}),
    ("expiring", {"entries": 0, "expired_messages": 500, "expired_ever": 500}),
    (
        "dead_subscription",
        {"delayed_entries": 1000, "acked_entries": 0, "acked_seconds": OBJECTIVE + 1, "consumers": ()},
    ),
    ("cannot_tell", {}),
]


@pytest.mark.parametrize(("expected", "changes"), CAUSES)
def test_every_verdict_is_reached(expected: str, changes: dict[str, Any]) -> None:
    """By the numbers that prove it, on an otherwise late subscription whose numbers are all told."""
    assert verdict(**changes) == expected


def test_every_verdict_is_among_the_cases() -> None:
    """So none is left untested."""
    assert {name for name, _ in CAUSES} == {str(it) for it in LEAVES}


@pytest.mark.parametrize(
    ("changes", "not_it"),
    [
        ({"oldest_seconds": OBJECTIVE + 0.1}, "healthy"),
        ({"oldest_seconds": OBJECTIVE, "acked_entries": 0}, "healthy"),
        ({"delayed_entries": 999}, "delayed_messages"),
        ({"delayed_entries": 1000, "acked_entries": 0, "consumers": ()}, "delayed_messages"),
        ({"delayed_entries": 1000, "acked_entries": 0, "consumers": None}, "delayed_messages"),
        ({"oldest_seconds": -OBJECTIVE - 0.1}, "healthy"),
        ({"oldest_seconds": 30.0, "expired_ever": 5, "ttl_seconds": None}, "healthy"),
        ({"oldest_seconds": 30.0, "quota_bytes": 10_001, "backlog_bytes": None}, "healthy"),
        ({**HOLE, "delayed_entries": 1}, "ack_hole"),
        ({**KEYS, "delayed_entries": 1}, "key_shared_blocked"),
        ({"ttl_seconds": 601}, "expiring"),
        ({"expired_ever": 5, "ttl_seconds": 751}, "expiring"),
        ({"expired_ever": 0, "ttl_seconds": 750}, "expiring"),
        ({"quota_bytes": 0}, "expiring"),
        ({"quota_bytes": 10_001}, "expiring"),
        ({"quota_seconds": 601}, "expiring"),
        ({"acked_entries": round(100 * MORE) - 1, "entries": 10}, "catching_up"),
        ({"acked_entries": 200, "entries": round(10 * DRAIN_SECONDS) + 1}, "catching_up"),
        ({"acked_entries": 200, "mark_delete_moved": False, "mark_delete_seconds": OBJECTIVE + 1}, "catching_up"),
        ({**STANDS, "consumers": (consumer(blocked=True), consumer(name="c2"))}, "blocked_on_unacked"),
        ({**BLOCKED, "blocked": False}, "blocked_on_unacked"),
        ({**BLOCKED, "kind": "failover"}, "blocked_on_unacked"),
        ({**KEYS, "hash_blocks": 0}, "key_shared_blocked"),
        ({**KEYS, "mark_delete_moved": True}, "key_shared_blocked"),
        ({**KEYS, "kind": "shared"}, "key_shared_blocked"),
        ({**HOLE, "ack_ranges": 0}, "ack_hole"),
        ({**HOLE, "mark_delete_moved": True}, "ack_hole"),
        ({**HOLE, "mark_delete_seconds": OBJECTIVE}, "ack_hole"),
        ({**HOLE, "span_entries": round(2 / MOST)}, "ack_hole"),
        ({**THROTTLED, **FULL}, "dispatch_throttled"),
        ({**THROTTLED, "throttled_events": None, "limit_per_second": 10 / LESS + 0.1}, "dispatch_throttled"),
        ({**THROTTLED, "throttled_events": 0}, "dispatch_throttled"),
        ({**AGAIN, "resent_messages": 100 * MOST - 1}, "redelivering"),
        ({**AGAIN, "redelivered_per_second": 0.0}, "redelivering"),
        ({**AGAIN, "sent_messages": int(SEVERAL) - 1, "resent_messages": 2.0}, "redelivering"),
        ({**STUCK, "sent_messages": 1}, "dispatcher_stuck"),
        ({**STUCK, "read_moved": True}, "dispatcher_stuck"),
        ({**STUCK, "reads": True}, "dispatcher_stuck"),
        ({**STUCK, "throttled_events": 1, "consumers": (consumer(permits_before=0),)}, "dispatcher_stuck"),
        ({**STUCK, "consumers": (consumer(permits_before=0),)}, "dispatcher_stuck"),
        ({**STUCK, "unread_entries": 0}, "dispatcher_stuck"),
        ({**STUCK, "consumers": (consumer(blocked=None), consumer(name="c2"))}, "dispatcher_stuck"),
        ({**STUCK, "blocked": None}, "dispatcher_stuck"),
        ({**STUCK, "kind": "failover", "consumers": (consumer(gets_entries=None),)}, "dispatcher_stuck"),
        ({"consumers": (consumer(permits=1, permits_before=1),)}, "no_permits"),
        ({"consumers": (consumer(permits=0, permits_before=0), consumer(name="c2"))}, "no_permits"),
        ({"consumers": (consumer(permits=0, permits_before=1),), "blocked": None}, "no_permits"),  # no proof
        ({"unread_entries": 1}, "no_permits"),
        ({**HOT_KEY, "replay_entries": 0, "unread_entries": 900}, "no_permits"),
        ({**HOT_KEY, "consumers": (consumer(permits=1, permits_before=1), consumer(name="idle"))}, "no_permits"),
        ({**HOT_KEY, "kind": "shared"}, "no_permits"),
        ({**MISSED, "servers": {"misses": {TOPIC: 4.99}}}, "redelivery_cache_miss"),
        ({**MISSED, "resent_messages": 79.0}, "redelivery_cache_miss"),
        ({**MISSED, "consumers": (consumer(connected_seconds=PAUSE_SECONDS + 0.1),)}, "redelivery_cache_miss"),
        ({**MISSED, "others_sent_entries": 1.0}, "redelivery_cache_miss"),
        ({"consumers": LATELY, "servers": {"bad_reports": 0}}, "bad_load_report"),
        ({"consumers": (consumer(connected_seconds=PAUSE_SECONDS + 0.1),), "servers": {"bad_reports": 1}}, "bad_load_report"),
        ({"consumers": LATELY, "servers": {"unload_times": int(SEVERAL) - 1}}, "unload_storm"),
        ({"servers": {"unload_times": 30}}, "unload_storm"),
        ({"servers": {**ACKS["servers"], "ack_share": MOST - 0.01}}, "ack_write_amplification"),
        ({"servers": {**ACKS["servers"], "write_seconds": {"1:8080": FLUSH_SECONDS - 0.01}}}, "ack_write_amplification"),
        ({"servers": {**ACKS["servers"], "write_seconds": {"2:8080": 30.0}}}, "ack_write_amplification"),  # another broker
        ({**ACKS, **FULL}, "ack_write_amplification"),
        ({"servers": {**AVOIDED["servers"], "quarantines": 0}}, "bookie_quarantine"),
        ({"servers": {**AVOIDED["servers"], "busiest_share": APART - 0.01}}, "bookie_quarantine"),
        ({"servers": {**AVOIDED["servers"], "write_seconds": {"1:8080": FLUSH_SECONDS - 0.01}}}, "bookie_quarantine"),
        ({**AVOIDED, **FULL}, "bookie_quarantine"),
    ],
)  # fmt: skip
def test_the_other_side_of_each_limit_is_another_verdict(changes: dict[str, Any], not_it: str) -> None:
    """One number beyond what proves it."""
    assert verdict(**changes) != not_it


@pytest.mark.parametrize(
    "name",
    [
        it.name
        for it in fields(DispatchedPart)
        if it.name not in ("topic", "partition", "subscription", "counters_back")
    ],
)
def test_a_signal_that_is_missing_proves_nothing(name: str) -> None:
    """Whatever is not told, the verdict stays, or it is cannot tell: never an all-clear, and never another cause."""
    for expected, changes in CAUSES:
        before = judged(**changes)
        after = judged(**{**changes, name: None})
        if after.verdict is before.verdict:
            continue
        allowed: set[AnyVerdict] = {Verdict.CANNOT_TELL, Verdict.UNUSABLE_DATA}
        if expected == "redelivery_cache_miss":  # that most is sent again is proven without a restart
            allowed.add(DispatchVerdict.REDELIVERING)
        if expected == "expiring":  # of which the rest proves why it lags, or nothing
            allowed.add(Verdict.CANNOT_TELL)
        assert after.verdict in allowed, (expected, name, after.verdict)
        if after.verdict is Verdict.CANNOT_TELL:
            assert after.passed, (expected, name)


@pytest.mark.parametrize(
    "name", [it.name for it in fields(Servers) if it.name not in ("bad_loads", "busiest", "ack_writers")]
)
def test_what_brokers_and_bookies_do_not_tell_proves_nothing(name: str) -> None:
    """Nor does it rule anything out: a cause by elimination that comes after it stands, and so does what the admin proves."""
    for expected, changes in CAUSES:
        untold = {} if isinstance(getattr(WELL, name), dict) else None
        after = judged(**{**changes, "servers": {**changes.get("servers", {}), name: untold}})
        before = {
            "bad_load_report": "cannot_tell",
            "unload_storm": "cannot_tell",
            "redelivery_cache_miss": "redelivering",
        }
        assert str(after.verdict) in {expected, "cannot_tell", before.get(expected)}, (expected, name)


def test_without_any_metrics_the_admin_decides_as_before() -> None:
    """What is open is said beside the verdict, and ends nothing."""
    for expected, changes in CAUSES:
        if "servers" in changes:
            continue
        it = judge(part(**changes), Servers())
        assert str(it.verdict) == expected
    # What is left, where the admin proves nothing: each with the metric and the setting that would tell.
    late = judge(part(), Servers())
    assert {DispatchVerdict.ACK_WRITE_AMPLIFICATION, DispatchVerdict.BOOKIE_QUARANTINE} <= set(late.candidates)
    assert "bookkeeperClientExposeStatsToPrometheus" in " ".join(rule.look or "" for _, rule in late.passed)


@pytest.mark.parametrize(
    "name", [it.name for it in fields(DispatchedConsumer) if it.name not in ("name", "gets_entries")]
)
def test_what_a_consumer_does_not_tell_proves_nothing(name: str) -> None:
    """The same for each of its numbers."""
    for expected, changes in CAUSES:
        whole = part_of(changes)
        less = replace(whole, consumers=tuple(replace(it, **{name: None}) for it in whole.consumers or ()))
        allowed = {expected, "cannot_tell"}
        if expected == "redelivery_cache_miss":
            allowed.add("redelivering")
        if name == "connected_seconds":  # then a start is not seen, and the rest decides
            allowed |= {"no_permits"}
        assert str(judge(less, servers_of(changes)).verdict) in allowed, (expected, name)


def test_an_open_question_is_no_all_clear_and_a_proof_stands_over_it() -> None:
    """Whether a quota deletes is not told: a healthy one is not called so, and a cause is, with the question beside it."""
    assert verdict(quota_bytes=None, oldest_seconds=5.0) == "cannot_tell"
    found = finding(part(quota_bytes=None, **FULL))
    assert found.verdict is DispatchVerdict.NO_PERMITS
    assert found.not_ruled_out == ("Expiring: whether entries expire, or a backlog quota deletes them, is not told.",)
    # A limit without a proof is the cause only if nothing before it is open.
    at_limit = {**THROTTLED, "throttled_events": None, "limit_per_second": 10.0}
    assert verdict(**at_limit) == "dispatch_throttled"
    assert verdict(**at_limit, blocked=None) == "cannot_tell"


CALM: dict[str, tuple[str, dict[str, Any]]] = {
    "batches": ("healthy", {"oldest_seconds": 2.0, "entries": 3, "sent_messages": 2000, "unread_entries": 0, "span_entries": 3}),
    "delayed beside a few": ("healthy", {"delayed_entries": 990, "oldest_seconds": 9000.0}),
    "some negative acks": ("healthy", {"oldest_seconds": 30.0, "resent_messages": 40.0, "redelivered_per_second": 4.0}),
    "skewed keys": (
        "healthy",
        {
            "kind": "key_shared", "oldest_seconds": 30.0, "entries": 20,
            "consumers": (consumer(permits=0, permits_before=0), consumer(name="idle", unacked=0)),
        },
    ),
    "a clock that is ahead a little": ("healthy", {"oldest_seconds": -3.0}),
    "a burst": ("healthy", {"oldest_seconds": 20.0, "entries": 50_000, "arrived_entries": 40_000, **FULL}),
    "a restart catches up": (
        "catching_up",
        {"acked_entries": 300, "consumers": (consumer(connected_seconds=20.0, permits=0, permits_before=0),)},
    ),
    "acks out of order": (
        "catching_up",
        {"acked_entries": 300, "ack_ranges": 40, "mark_delete_moved": False, "mark_delete_seconds": 15.0},
    ),
    "keys that have moved": ("healthy", {**KEYS, "oldest_seconds": 5.0, "acked_entries": 50, "mark_delete_moved": True}),
}  # fmt: skip


@pytest.mark.parametrize("name", CALM)
def test_what_only_looks_like_a_cause_raises_no_alarm(name: str) -> None:
    """Healthy, or catching up."""
    expected, changes = CALM[name]
    assert verdict(**changes) == expected


def test_a_few_delayed_ones_hide_no_lag() -> None:
    """The age of what is not delayed is not known then; what it takes at this pace decides, or what has stood for long."""
    assert verdict(delayed_entries=10, acked_entries=100, **FULL) == "healthy"  # 990 at 10/s: 99 s
    assert verdict(delayed_entries=10, acked_entries=10, **FULL) == "no_permits"
    stands = {**STANDS, "delayed_entries": 10, "acked_seconds": OBJECTIVE + 1}
    assert verdict(**stands, **FULL) == "no_permits"
    assert verdict(**{**stands, "acked_seconds": OBJECTIVE}, **FULL) == "cannot_tell"


def test_which_limit_blocks_is_told() -> None:
    """Brokers lift the subscription's at half of it: below that, it is the broker's own, which raising the other does not cure."""
    own = finding(part(**{**BLOCKED, "unacked_messages": 25_000}))
    assert "(the limit is 50,000)" in own.headline and "raise the limit" in own.actions[-1].title
    brokers = finding(part(**{**BLOCKED, "unacked_messages": 24_999}))
    assert "maxUnackedMessagesPerBroker" in brokers.headline
    assert not any("raise the limit" in it.title for it in brokers.actions)


def test_a_failover_is_judged_by_its_active_consumer() -> None:
    """One in reserve has all of its permits."""
    reserve = consumer(name="reserve", gets_entries=False, unacked=None, blocked=None)
    active = consumer(permits=0, permits_before=0, unacked=None, blocked=None)
    assert verdict(kind="failover", blocked=None, unacked_messages=None, consumers=(active, reserve)) == "no_permits"


def test_of_delayed_ones_it_says_what_is_not_known() -> None:
    """And not that a token may not read it."""
    found = finding(part(delayed_entries=1000, acked_entries=0, acked_seconds=None, consumers=()))
    assert found.verdict is Verdict.CANNOT_TELL
    assert "since when those are due" in found.headline and "token" not in found.missing[-1].how_to_get_it
    assert any("nobody is connected to take it" in it.how_to_get_it for it in found.missing)


def test_who_has_the_busy_key_is_named() -> None:
    """The others have room, and more consumers would have, too."""
    found = finding(part(**HOT_KEY))
    assert found.headline.startswith("Keys of c1 wait, while other consumers have room: ")
    assert found.actions[1].parameters == {"members": ["c1"]}


def test_the_partition_with_the_trouble_is_named() -> None:
    """Alone in the headline and the scope; the others are said beside it."""
    hole = part(partition=1, **HOLE)
    calm = [part(partition=number, oldest_seconds=3.0) for number in (0, 2)]
    found = finding(calm[0], hole, calm[1])
    assert found.headline.startswith("Partition 1: A hole: 2 entries after 7:99")
    assert found.scope.partitions == (1,)
    assert found.also_seen == ("2 partitions healthy.",)
    assert (found.lag_entries, found.lag_messages, found.time_lag.seconds) == (2002, None, 600.0)
    several = finding(part(partition=0, **HOLE), hole, replace(calm[1], entries=None))
    assert several.headline.startswith("Partitions 0 and 1: ")
    assert several.lag_entries is None
    assert "Partition 2: Cannot tell: the admin does not tell the backlog." in several.also_seen
    assert finding(hole).headline.startswith("A hole")


def test_a_loss_leads_and_why_it_lags_is_said_beside_it() -> None:
    """As with Kafka's lost records."""
    found = finding(part(expired_messages=7, expired_ever=7, ttl_seconds=500, **FULL))
    assert found.verdict is DispatchVerdict.EXPIRING
    assert found.also_seen[0].startswith("It lags, too. The consumers take nothing more: ")
    assert finding(part(expired_messages=7, oldest_seconds=1.0)).also_seen == ()
    few = part(partition=1, entries=5, expired_messages=7, expired_ever=7, ttl_seconds=500, oldest_seconds=1.0)
    several = finding(part(partition=0, **FULL), few)
    assert several.headline.startswith("Partition 1: Messages are lost")
    assert any("The consumers take nothing more" in it for it in several.also_seen)


def test_the_evidence_is_the_rule() -> None:
    """What is shown as compared is what was compared, and it holds for every step."""
    for _, changes in CAUSES:
        it = judged(**changes)
        for question, rule in it.path:
            for test, told in zip(rule.tests, rule.because_of(it.known).operands, strict=True):
                assert test.holds(it.known) is True, (question.id, rule.id)
                assert told.value == it.known.fact(test.fact)
                assert told.unit == FACTS[test.fact][1]
                assert (told.relation == NOT_KNOWN) == (told.value is None)
    step = finding(part(**BLOCKED)).path[-1]
    assert step.because is not None and step.because.rule == "subscription"
    assert (step.node, step.answer) == ("unacked_limit", Answer.YES)


def test_cannot_tell_says_what_is_left_and_what_would_decide() -> None:
    """The reason of the question that is open leads."""
    found = finding(part())
    assert found.headline.endswith("less is sent than waits: the storage or the broker may be slow.")
    assert "pulsar_ml_cache_misses_rate" in found.missing[0].how_to_get_it
    start = finding(part(consumers=(consumer(connected_seconds=5.0),)))
    assert DispatchVerdict.DISPATCHER_STUCK in start.candidates
    assert "look again in 2 minutes" in start.missing[0].how_to_get_it
    assert start.path[-1].node == "just_connected"


def test_names_from_outside_are_words_of_a_shell() -> None:
    """In every command of every verdict."""
    hostile = "a'; rm -rf /\n$(id)"
    for _, changes in CAUSES:
        it = judge(
            replace(part_of(changes), topic=f"shop/orders/{hostile}", subscription=hostile, partition=3),
            servers_of(changes),
        )
        for action in it.leaf.actions(dispatch_tools_of("pulsar"), it.known):
            command = action.command or ""
            quoted = [shell_word(f"persistent://shop/orders/{hostile}{end}") for end in ("", "-partition-3")]
            for name in (*quoted, shell_word(hostile)):
                command = command.replace(name, "")
            assert "rm -rf" not in command and "\n$" not in command


def test_questions_and_leaves_are_whole() -> None:
    """Every question has a last rule that always holds; ids are those of no question about Kafka; each cause has actions."""
    assert not TREE.keys() & {it.id for it in QUESTIONS}
    for question in QUESTIONS:
        assert question.rules[-1].tests == ()
        assert len({rule.id for rule in question.rules}) == len(question.rules)
        assert short_of(question.id) == question.short
        for rule in question.rules:
            assert (rule.look is not None) == (rule.answer is Answer.CANNOT_TELL), rule.id
    for leaf in LEAVES.values():
        found = judged(**next(changes for name, changes in CAUSES if name == leaf.verdict))
        actions = leaf.actions(dispatch_tools_of("pulsar"), found.known)
        assert bool(actions) == (leaf.state in (State.LAGGING, State.CANNOT_TELL)), leaf.verdict
        assert all(it.verify for it in actions)


def test_the_tree_prints_its_questions_by_verdict_and_by_name() -> None:
    """As text, as a document, and on the page; names of Kafka's verdicts stay with the other tree."""
    for verdict in DispatchVerdict:
        [found] = asked_for(str(verdict), ANSWERED)
        assert verdict in found.verdicts
        assert found.question in as_text([found])
    assert [it.id for it in asked_for("hole in the acks", ANSWERED)] == ["hole_in_acks"]
    assert asked_for("throttled", ANSWERED) == asked_for("healthy", ANSWERED) == []
    printed = document(list(QUESTIONS))
    assert [it["number"] for it in printed["questions"]] == list(range(1, len(QUESTIONS) + 1))
    rules = sum(len(it[kind]) for it in printed["questions"] for kind in ("proves", "contradicts", "leaves_open"))
    assert rules == sum(len(it.rules) for it in QUESTIONS)
    page = as_markdown()
    assert all(f"`{it.id}` · " in page for it in QUESTIONS)


def test_a_runbook_asks_what_the_triage_asks() -> None:
    """The way to each verdict is the one that the walk takes, answer by answer."""
    for name, changes in CAUSES:
        it = judged(**changes)
        if it.verdict in (Verdict.CANNOT_TELL, Verdict.UNUSABLE_DATA, Verdict.HEALTHY) or it.passed:
            continue
        asked = [(question.id, rule.answer) for question, rule in it.path]
        assert [(question.id, answer) for question, answer in way_to(it.verdict)] == asked, name

"""A replay on Pulsar is exactly the window, on every partition; killed anywhere it is repeated; what is not as planned is named."""

from __future__ import annotations

import json
import random
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.pulsar.replaying import NEW, NO_QUOTAS, OLD, TOPIC, InMemoryPulsar, Killed, Part
from workbench.errors import EvidenceError, GuardError, SourceUnreachableError, UnknownGroupError, UsageError
from workbench.plans.journal import Journal
from workbench.plans.strict_document import write_file
from workbench.pulsar.replay_apply import (
    Made,
    PulsarApplied,
    apply_pulsar_plan,
    read_undo,
    undo_path,
    undo_pulsar_plan,
)
from workbench.pulsar.replay_plan import PulsarReplayPlan, make_pulsar_plan, read_plan
from workbench.pulsar.replay_progress import look_at
from workbench.queues.position import packed

BEGIN = 1_795_000_000_000


def drawn(seed: int, partitions: int) -> InMemoryPulsar:
    """Logs of some ledgers each, one of them perhaps empty; the old subscription has acknowledged everything."""
    dice, parts = random.Random(seed), []
    for number in range(partitions):
        at, ledgers = BEGIN + dice.randrange(1000), {}
        for ledger in sorted(dice.sample(range(3, 90), dice.randint(1, 4))):
            times = []
            for _ in range(dice.choice([0, 1, 5, 20])):
                at += dice.choice([0, 1, 250, 5000])
                times.append(at)
            ledgers[ledger] = times
        part = Part(ledgers)
        part.cursors = {OLD: part.last, f"other-{number}": (min(ledgers), -1)}
        parts.append(part)
    return InMemoryPulsar(parts)


def planned(pulsar: InMemoryPulsar, since_ms: int, until_ms: int | None = None) -> PulsarReplayPlan:
    """A plan of the window."""
    return make_pulsar_plan(
        pulsar,  # type: ignore[arg-type]
        cluster="events",
        topic=TOPIC,
        from_subscription=OLD,
        new_subscription=NEW,
        since=datetime.fromtimestamp(since_ms / 1000, UTC),
        until=None if until_ms is None else datetime.fromtimestamp(until_ms / 1000, UTC),
        written="then",
    )


@pytest.mark.parametrize("microseconds", [1, 400, 600, 999])
def test_a_time_within_a_millisecond_takes_what_was_published_before_it(microseconds: int) -> None:
    """Publish times are in milliseconds: what was published at the beginning of this one lies before that time."""
    part = Part({3: [BEGIN, BEGIN + 1]})
    part.cursors = {OLD: part.last}
    at = datetime.fromtimestamp(BEGIN / 1000, UTC) + timedelta(microseconds=microseconds)
    windows = {
        "cluster": "events",
        "topic": TOPIC,
        "from_subscription": OLD,
        "new_subscription": NEW,
        "written": "then",
    }
    until = make_pulsar_plan(InMemoryPulsar([part]), since=None, until=at, missing=None, **windows)  # type: ignore[arg-type]
    since = make_pulsar_plan(InMemoryPulsar([part]), since=at, **windows)  # type: ignore[arg-type]
    assert [(it.start, it.stop) for it in (*until.windows, *since.windows)] == [("3:0", "3:1"), ("3:1", "3:2")]


@pytest.fixture
def place(tmp_path: Path) -> tuple[Path, Journal]:
    """Where plan and journal are."""
    return tmp_path / "plan.json", Journal(path=tmp_path / "journal")


def applied(plan: PulsarReplayPlan, pulsar: InMemoryPulsar, place: tuple[Path, Journal]) -> PulsarApplied:
    """Apply it."""
    return apply_pulsar_plan(plan, place[0], pulsar, place[1])  # type: ignore[arg-type]


def gets(part: Part, name: str) -> list[int]:
    """Publish times of what a subscription would get."""
    return [at for it, at in part.entries if it > part.cursors[name]]


@pytest.mark.parametrize("seed", range(40))
def test_exactly_the_entries_of_the_window(seed: int, place: tuple[Path, Journal]) -> None:
    """Against a naive count; the old subscription and others are where they were."""
    dice = random.Random(1000 + seed)
    pulsar = drawn(seed, dice.choice([1, 3, 7]))
    since = BEGIN + dice.randrange(60_000)
    until = since + dice.randrange(1, 60_000) if dice.random() < 0.5 else None
    before = [dict(part.cursors) for part in pulsar.parts]
    plan = planned(pulsar, since, until)
    for window, part in zip(plan.windows, pulsar.parts, strict=True):
        assert window.entries == sum(at >= since and (until is None or at < until) for _, at in part.entries)
        assert window.oldest_ms == next((at for _, at in part.entries), None)
    found = applied(plan, pulsar, place)
    assert {it.outcome for it in found.partitions} == {Made.CREATED}
    for part, old in zip(pulsar.parts, before, strict=True):
        assert {name: at for name, at in part.cursors.items() if name != NEW} == old
        assert gets(part, NEW) == [at for _, at in part.entries if at >= since]
    look = look_at(plan, pulsar)  # type: ignore[arg-type]
    assert look.left == {it.partition: it.entries for it in plan.windows}
    assert look.complete == (plan.entries == 0)
    for window, part in zip(plan.windows, pulsar.parts, strict=True):
        part.acknowledge_through(
            NEW, max((it for it, _ in part.entries if it < window.end.numbers), default=part.cursors[NEW])
        )
    assert look_at(plan, pulsar).complete  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(20))
def test_exactly_the_entries_of_the_window_of_a_compacted_topic(seed: int, place: tuple[Path, Journal]) -> None:
    """Also those that compaction has left out of its copy: who reads the log gets them, and a broker finds only what is left."""
    dice = random.Random(3000 + seed)
    pulsar = drawn(seed, dice.choice([1, 3]))
    for part in pulsar.parts:
        some = [it for it, _ in part.entries]
        part.compacted = sorted(dice.sample(some, dice.randint(1, len(some)))) if some else []
    since = BEGIN + dice.randrange(60_000)
    until = since + dice.randrange(1, 60_000) if dice.random() < 0.5 else None
    plan = planned(pulsar, since, until)
    for window, part in zip(plan.windows, pulsar.parts, strict=True):
        assert window.entries == sum(at >= since and (until is None or at < until) for _, at in part.entries)
    applied(plan, pulsar, place)
    assert all(gets(part, NEW) == [at for _, at in part.entries if at >= since] for part in pulsar.parts)


def test_a_compacted_topic_whose_publish_times_are_not_told_has_no_plan() -> None:
    """Where the window begins cannot be told then."""
    pulsar = drawn(8, 1)
    pulsar.parts[0].ledgers = {5: [BEGIN, BEGIN + 1]}
    pulsar.parts[0].compacted = [(5, 1)]
    pulsar.headers = lambda _path: {}  # type: ignore[method-assign,assignment]
    with pytest.raises(
        EvidenceError, match=r"When the entry 5:\d of shop/orders/created-partition-0 was published is not told"
    ):
        planned(pulsar, BEGIN)


@pytest.mark.parametrize("seed", range(20))
def test_a_replay_of_missing_messages_begins_at_the_first_and_ends_behind_the_last(
    seed: int, place: tuple[Path, Journal]
) -> None:
    """On each partition by itself; one without any begins at the end. What is not kept any more is refused."""
    dice = random.Random(2000 + seed)
    pulsar = drawn(seed, dice.choice([1, 3, 7]))
    chosen = {}
    for number, part in enumerate(pulsar.parts):
        if some := sorted(dice.sample(part.entries, min(len(part.entries), dice.randrange(4)))):
            chosen[number] = [it for it, _ in some]
    ranges = {
        number: [(at, at + 1) for at in (packed((*it, 3)) or 0 for it in places)] for number, places in chosen.items()
    }

    def plan_of(missing: dict[int, list[tuple[int, int]]]) -> PulsarReplayPlan:
        return make_pulsar_plan(
            pulsar, cluster="events", topic=TOPIC, from_subscription=OLD, new_subscription=NEW, since=None, missing=missing,  # type: ignore[arg-type]
            written="missing",
        )  # fmt: skip

    plan = plan_of(ranges)
    assert not [it for it in plan.warnings() if "ALL of what is kept" in it or "nothing as old" in it]
    applied(plan, pulsar, place)
    for number, (window, part) in enumerate(zip(plan.windows, pulsar.parts, strict=True)):
        places = chosen.get(number, [])
        within = [it for it, _ in part.entries if places and places[0] <= it <= places[-1]]
        assert window.entries == len(within)
        assert gets(part, NEW) == [at for it, at in part.entries if places and it >= places[0]]
    times = [at for number, places in chosen.items() for it, at in pulsar.parts[number].entries if it == places[0]]
    assert plan.since_ms == min(times, default=0)
    for gone in (packed((2, 0, 0)), packed((91, 0, 0))):  # before and behind all ledgers
        with pytest.raises(EvidenceError, match="not kept any more, or are none of this topic"):
            plan_of({0: [(gone or 0, (gone or 0) + 1)]})
    with pytest.raises(EvidenceError, match=r"no partition 7"):  # of a topic that was made anew, with fewer
        plan_of({**ranges, 7: [(packed((3, 0, 0)) or 0, packed((3, 1, 0)) or 0)]})


@pytest.mark.parametrize("when", range(1, 5))
@pytest.mark.parametrize("before", [True, False])
def test_killed_at_any_step_and_repeated(when: int, before: bool, place: tuple[Path, Journal]) -> None:
    """Before a change or after it: the second run makes what is missing, and says what was there."""
    pulsar = drawn(5, 4)
    plan = planned(pulsar, BEGIN + 5000)
    pulsar.kill_before, pulsar.kill_after = (when, None) if before else (None, when)
    with pytest.raises(Killed):
        applied(plan, pulsar, place)
    pulsar.kill_before = pulsar.kill_after = None
    found = applied(plan, pulsar, place)
    there = when - 1 if before else when
    assert [it.outcome for it in found.partitions] == [Made.THERE] * there + [Made.CREATED] * (4 - there)
    assert all(gets(part, NEW) == [at for _, at in part.entries if at >= BEGIN + 5000] for part in pulsar.parts)


def test_a_conflict_on_one_partition_changes_nothing(place: tuple[Path, Journal]) -> None:
    """Pulsar's own call for all partitions would make the others, and say that all is well."""
    pulsar = drawn(6, 3)
    plan = planned(pulsar, BEGIN)
    pulsar.parts[1].cursors[NEW] = pulsar.parts[1].last
    with pytest.raises(GuardError, match=r"on 1 partition of .*: 1\. Nothing was changed"):
        applied(plan, pulsar, place)
    assert pulsar.changes == 0
    assert place[1].read()[0] == []


def test_who_comes_between_is_named_and_never_taken_for_ours(place: tuple[Path, Journal]) -> None:
    """Somebody makes it on the second partition while the first is made: also a second run leaves it alone."""
    pulsar = drawn(7, 2)
    pulsar.parts[1].ledgers = {5: [BEGIN, BEGIN + 1]}
    plan = planned(pulsar, BEGIN)
    make = pulsar.create_subscription

    def late(path: str, begin: object) -> bool:
        pulsar.parts[1].cursors.setdefault(NEW, pulsar.parts[1].last)
        return make(path, begin)  # type: ignore[arg-type]

    pulsar.create_subscription = late  # type: ignore[assignment, method-assign]
    found = applied(plan, pulsar, place)
    assert [(it.partition, it.error) for it in found.failed] == [(1, "somebody else has made it meanwhile")]
    assert place[1].read()[0][-1].outcome == "partial"
    with pytest.raises(GuardError, match="not made exists on 1 partition"):
        applied(plan, pulsar, place)


def test_a_broker_that_ignores_the_position_is_found_out(place: tuple[Path, Journal]) -> None:
    """It answers that all is well, and the subscription begins at the end."""
    pulsar = drawn(8, 1)
    pulsar.parts[0].ledgers = {5: [BEGIN, BEGIN + 1]}
    pulsar.ignores_position = True
    found = applied(planned(pulsar, BEGIN), pulsar, place)
    assert "begins at 5:2 instead of 5:0" in (found.failed[0].error or "")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda it: it.names.append("two"), "another Pulsar"),
        (lambda it: it.parts.append(Part({4: []})), "other partitions"),
        (lambda it: it.parts.clear(), "is gone|other partitions"),
        (lambda it: it.parts[0].ledgers.pop(3), "partition-0 had 3 entries when it was planned, and has 1 now"),
        (lambda it: it.parts[0].ledgers.update({3: [], 9: []}) or it.parts[0].ledgers.pop(9), "ends before the window"),
    ],
)  # fmt: skip
def test_what_has_changed_since_is_refused(change: object, words: str, place: tuple[Path, Journal]) -> None:
    """Before anything is made."""
    pulsar = InMemoryPulsar([Part({3: [BEGIN, BEGIN + 5], 9: [BEGIN + 9]}, {OLD: (9, 0)})])
    plan = planned(pulsar, BEGIN)
    if words.startswith("ends"):
        pulsar.parts[0].ledgers = {1: [BEGIN]}
    else:
        change(pulsar)  # type: ignore[operator]
    with pytest.raises(GuardError, match=words):
        applied(plan, pulsar, place)
    assert pulsar.changes == 0


def test_the_way_back(place: tuple[Path, Journal]) -> None:
    """Deleted where it was made, unless it has acknowledged something; the others stay."""
    pulsar = drawn(9, 3)
    plan = planned(pulsar, BEGIN)
    before = [dict(part.cursors) for part in pulsar.parts]
    applied(plan, pulsar, place)
    undo = read_undo(undo_path(place[0]))
    with_entries = next(number for number, part in enumerate(pulsar.parts) if part.entries)
    pulsar.parts[with_entries].acknowledge_through(NEW, pulsar.parts[with_entries].entries[0][0])
    with pytest.raises(GuardError, match="has acknowledged entries on 1 partition"):
        undo_pulsar_plan(undo, pulsar, place[1])  # type: ignore[arg-type]
    pulsar.consumers = 1
    found = undo_pulsar_plan(undo, pulsar, place[1], discard_progress=True)  # type: ignore[arg-type]
    assert sorted(found.failed) == [0, 1, 2]
    pulsar.consumers = 0
    found = undo_pulsar_plan(undo, pulsar, place[1], discard_progress=True)  # type: ignore[arg-type]
    assert (found.deleted, found.failed) == ((0, 1, 2), {})
    assert [part.cursors for part in pulsar.parts] == before
    assert applied(plan, pulsar, place).failed == ()  # a plan that was taken back can be applied anew


def test_the_way_back_sees_what_was_acknowledged_one_by_one(place: tuple[Path, Journal]) -> None:
    """A Shared subscription whose first message is stuck has handled others: they are progress, too."""
    pulsar = InMemoryPulsar([Part({3: [BEGIN, BEGIN + 5, BEGIN + 9]}, {OLD: (3, 2)})])
    applied(planned(pulsar, BEGIN), pulsar, place)
    pulsar.parts[0].one_by_one[NEW] = "[(3:0..3:2]]"
    with pytest.raises(GuardError, match="has acknowledged entries on 1 partition"):
        undo_pulsar_plan(read_undo(undo_path(place[0])), pulsar, place[1])  # type: ignore[arg-type]
    assert NEW in pulsar.parts[0].cursors


@pytest.mark.parametrize("is_before_until", [True, False])
def test_entries_of_the_window_that_came_after_the_plan_are_left(
    is_before_until: bool, place: tuple[Path, Journal]
) -> None:
    """From a producer whose clock is behind: the window was not over, whatever the clock of the plan's machine said. Later ones do not
    count."""
    pulsar = drawn(3, 3)
    until = max(at for part in pulsar.parts for _, at in part.entries) + 10_000
    plan = planned(pulsar, BEGIN, until)
    applied(plan, pulsar, place)
    for part in pulsar.parts:
        part.acknowledge_through(NEW, part.entries[-1][0])
    assert look_at(plan, pulsar).complete  # type: ignore[arg-type]
    part = pulsar.parts[1]
    part.ledgers[part.last[0]].append(until - 1 if is_before_until else until)
    look = look_at(plan, pulsar)  # type: ignore[arg-type]
    assert (look.complete, look.left[1]) == (not is_before_until, int(is_before_until))


def test_a_hole_is_not_done_and_what_expired_is_no_proof(place: tuple[Path, Journal]) -> None:
    """Only what is acknowledged without a gap counts; a time-to-live acknowledges without anybody."""
    pulsar = InMemoryPulsar([Part({3: [BEGIN, BEGIN + 5, BEGIN + 9]}, {OLD: (3, 2)})])
    plan = planned(pulsar, BEGIN)
    assert look_at(plan, pulsar).unplanned == {0: "there is no subscription"}  # type: ignore[arg-type]
    applied(plan, pulsar, place)
    pulsar.parts[0].acknowledge_through(NEW, (3, 1))
    look = look_at(plan, pulsar)  # type: ignore[arg-type]
    assert (look.left, look.done, look.complete, look.doubt, look.consumers) == ({0: 1}, 2, False, None, 0)
    pulsar.parts[0].acknowledge_through(NEW, (3, 2))
    pulsar.expired = 1
    look = look_at(plan, pulsar)  # type: ignore[arg-type]
    assert look.complete
    assert "time-to-live took 1 message" in (look.doubt or "")
    pulsar.expired = None
    assert "is not told" in (look_at(plan, pulsar).doubt or "")  # type: ignore[arg-type]


def test_a_changed_plan_is_refused(place: tuple[Path, Journal]) -> None:
    """Its hash does not fit."""
    pulsar = drawn(10, 2)
    plan = planned(pulsar, BEGIN)
    write_file(place[0], plan.document())
    assert read_plan(place[0]) == plan
    place[0].write_text(json.dumps(plan.document() | {"new_subscription": "x"}))
    with pytest.raises(GuardError, match="hash does not fit"):
        read_plan(place[0])


def test_wrong_requests_are_named() -> None:
    """Names, the window, the topic."""
    pulsar = drawn(11, 2)
    with pytest.raises(UsageError, match="ends before it begins"):
        planned(pulsar, BEGIN, BEGIN - 1)
    # The plan ends at the last entry of now: `verify` would say yes before the window is over.
    with pytest.raises(UsageError, match="not over"):
        planned(pulsar, BEGIN, round(time.time() * 1000) + 3_600_000)
    pulsar.parts[0].cursors = pulsar.parts[1].cursors = {"shop/orders/myfn": (3, 0)}
    with pytest.raises(UnknownGroupError, match="Did you mean `shop/orders/myfn`"):
        planned(pulsar, BEGIN)
    pulsar.parts = []
    with pytest.raises(UsageError, match="There is no topic"):
        planned(pulsar, BEGIN)


def test_a_wrong_time_zone_is_noticed() -> None:
    """The window begins before everything that is kept."""
    pulsar = InMemoryPulsar([Part({3: [BEGIN]}, {OLD: (3, 0)}), Part({4: [BEGIN + 5]}, {OLD: (4, 0)})])
    [warning] = planned(pulsar, BEGIN - 8 * 3_600_000).warnings()
    assert "ALL of what is kept" in warning
    assert "time zone" in warning
    assert planned(pulsar, BEGIN).warnings() == [
        "1 partition keeps nothing as old as the start: what was acknowledged there may be gone."
    ]
    pulsar.retention, pulsar.has_topic_policies = "", False
    assert planned(pulsar, BEGIN).retention.startswith("none: ")


def two(**options: Any) -> tuple[InMemoryPulsar, PulsarReplayPlan]:
    """Two partitions with two entries each, and a plan of all of them."""
    parts = [Part({3: [BEGIN, BEGIN + 5]}, {OLD: (3, 1)}), Part({4: [BEGIN, BEGIN + 5]}, {OLD: (4, 1)})]
    pulsar = InMemoryPulsar(parts, **options)
    return pulsar, planned(pulsar, BEGIN)


def test_a_consumer_that_came_first_is_no_replay(place: tuple[Path, Journal]) -> None:
    """It makes a subscription of that name at the end of the topic, where nothing is left to acknowledge."""
    pulsar, plan = two()
    for part in pulsar.parts:
        part.cursors[NEW] = part.last
    look = look_at(plan, pulsar)  # type: ignore[arg-type]
    assert not look.complete
    assert look.unplanned == dict.fromkeys((0, 1), "this plan has not made the subscription that is there")
    del pulsar.parts[0].cursors[NEW], pulsar.parts[1].cursors[NEW]
    applied(plan, pulsar, place)
    for part in pulsar.parts:  # the topic is made anew, and a consumer comes
        part.properties.clear()
        part.cursors[NEW] = part.last
    assert not look_at(plan, pulsar).complete  # type: ignore[arg-type]
    with pytest.raises(GuardError, match="not made exists on 2 partitions"):
        applied(plan, pulsar, place)


def test_the_way_back_deletes_nobody_else_s(place: tuple[Path, Journal]) -> None:
    """Wherever it begins, and with `--discard-progress`, too."""
    pulsar, plan = two()
    make = pulsar.create_subscription

    def late(path: str, begin: Any) -> bool:
        pulsar.parts[1].cursors.setdefault(NEW, (4, -1))
        return make(path, begin)

    pulsar.create_subscription = late  # type: ignore[method-assign]
    assert [it.partition for it in applied(plan, pulsar, place).failed] == [1]
    undo = read_undo(undo_path(place[0]))
    found = undo_pulsar_plan(undo, pulsar, place[1], discard_progress=True)  # type: ignore[arg-type]
    assert (found.deleted, found.failed, found.others) == ((0,), {}, (1,))
    assert [NEW in part.cursors for part in pulsar.parts] == [False, True]


def test_no_answer_to_a_change(place: tuple[Path, Journal]) -> None:
    """Pulsar makes it at the end of the topic first, and moves it then: a run that is cut off between has skipped all, and is found."""
    pulsar, plan = two()
    make, cut = pulsar.create_subscription, [True]

    def at_the_end(path: str, begin: Any) -> bool:
        pulsar.ignores_position = cut[0]
        made = make(path, begin)
        if cut.pop(0):
            raise SourceUnreachableError("no answer in time")
        return made

    pulsar.create_subscription = at_the_end  # type: ignore[method-assign]
    found = applied(plan, pulsar, place)
    assert [it.error for it in found.partitions] == ["no answer in time", "not tried, after partition 0"]
    assert look_at(plan, pulsar).unplanned[0] == "the subscription was made, and not read back"  # type: ignore[arg-type]
    with pytest.raises(GuardError, match=r"does not begin at 3:0: it was interrupted"):
        applied(plan, pulsar, place)
    undo = read_undo(undo_path(place[0]))
    assert undo_pulsar_plan(undo, pulsar, place[1]).deleted == (0,)  # type: ignore[arg-type]
    cut.extend([False, False])
    assert applied(plan, pulsar, place).failed == ()


def test_a_broker_that_keeps_no_properties_is_refused(place: tuple[Path, Journal]) -> None:
    """Before 2.11: nobody could tell later whose it is."""
    pulsar, plan = two(keeps_properties=False)
    assert "takes Pulsar 2.11" in (applied(plan, pulsar, place).failed[0].error or "")


def test_a_pulsar_that_knows_the_same_names_is_another(place: tuple[Path, Journal]) -> None:
    """Clusters that replicate to each other know each other; their logs have other ledgers."""
    pulsar, plan = two()
    pulsar.parts[1].ledgers = {3: [BEGIN], 9: [BEGIN, BEGIN + 1]}
    with pytest.raises(GuardError, match=r"had 2 entries when it was planned, and has 0 now: .*another log"):
        applied(plan, pulsar, place)
    pulsar.names = []
    with pytest.raises(EvidenceError, match="names of the clusters"):
        applied(plan, pulsar, place)


def test_what_goes_before_an_empty_window_does_not_matter(place: tuple[Path, Journal]) -> None:
    """A partition without an entry of the window: its ledger has rolled over and is deleted, and new entries have come."""
    pulsar = InMemoryPulsar([Part({3: [BEGIN]}, {OLD: (3, 0)}), Part({4: [BEGIN + 90]}, {OLD: (4, 0)})])
    plan = planned(pulsar, BEGIN + 50)
    pulsar.parts[0].ledgers = {7: [BEGIN + 99]}
    assert [(it.found, it.error) for it in applied(plan, pulsar, place).partitions] == [("7:0", None), ("4:0", None)]
    assert gets(pulsar.parts[0], NEW) == [BEGIN + 99]
    assert applied(plan, pulsar, place).failed == ()


def test_a_rollback_file_of_another_plan_is_kept(place: tuple[Path, Journal]) -> None:
    """It is the only way back of that one."""
    pulsar, plan = two()
    applied(plan, pulsar, place)
    other = planned(pulsar, BEGIN + 5)
    with pytest.raises(GuardError, match="belongs to another plan"):
        apply_pulsar_plan(other.model_copy(update={"new_subscription": "x"}), place[0], pulsar, place[1])  # type: ignore[arg-type]
    assert read_undo(undo_path(place[0])).plan == plan.hash


def test_the_reason_is_in_the_journal(place: tuple[Path, Journal]) -> None:
    """As the option's help says."""
    pulsar, plan = two()
    applied(plan.model_copy(update={"reason": "bug 7"}), pulsar, place)
    assert "bug 7" in (place[1].read()[0][0].detail or "")


@pytest.mark.parametrize("has_topic_policies", [True, False])
def test_a_window_older_than_the_time_to_live_is_refused(has_topic_policies: bool, place: tuple[Path, Journal]) -> None:
    """Brokers would acknowledge it within minutes, and nobody would get it."""
    now = int(datetime.now(UTC).timestamp() * 1000)
    times = [now - 7_200_000, now - 60_000]
    pulsar = InMemoryPulsar([Part({3: times}, {OLD: (3, 1)})], ttl=3600, has_topic_policies=has_topic_policies)
    plan = planned(pulsar, times[0])
    assert plan.ttl_seconds == 3600
    assert [it for it in plan.warnings() if "brokers acknowledge its entries unread. `apply` will refuse" in it]
    with pytest.raises(GuardError, match="time-to-live is 1 h"):
        applied(plan, pulsar, place)
    assert pulsar.changes == 0
    later = planned(pulsar, now - 600_000)
    assert applied(later, pulsar, place).failed == ()
    pulsar.parts[0].acknowledge_through(NEW, (3, 1))
    assert look_at(later, pulsar).doubt is None  # type: ignore[arg-type]
    pulsar.ttl = 30  # what brokers have taken since is counted anew whenever a topic is loaded
    assert "Before the topic was loaded last" in (look_at(later, pulsar).doubt or "")  # type: ignore[arg-type]


def test_a_time_to_live_that_is_not_told_is_said() -> None:
    """Not taken for none."""
    pulsar, _ = two(ttl=-1)
    assert planned(pulsar, BEGIN).ttl_seconds is None
    assert [it for it in planned(pulsar, BEGIN).warnings() if "time-to-live is not known" in it]


@pytest.mark.parametrize(
    ("kind", "limits", "policy", "words"),
    [
        (
            "destination_storage",
            {"limitSize": 499},
            "consumer_backlog_eviction",
            "acknowledge its oldest entries, unread",
        ),
        ("destination_storage", {"limitSize": 499}, "producer_request_hold", "hold up or refuse the producers"),
        ("message_age", {"limitTime": 60}, "consumer_backlog_eviction", "acknowledge its oldest entries, unread"),
        ("destination_storage", {"limitSize": 500}, "consumer_backlog_eviction", None),
        ("destination_storage", {"limitSize": -1}, "consumer_backlog_eviction", None),
        ("message_age", {"limitTime": 7200}, "producer_exception", None),
    ],
)
def test_a_backlog_quota_that_the_replay_exceeds(
    place: tuple[Path, Journal], kind: str, limits: dict[str, int], policy: str, words: str | None
) -> None:
    """Brokers would take the window from the new subscription unread, or hold up the live producers for its sake."""
    now = int(time.time() * 1000)
    times = [now - 3_600_000 + at * 60_000 for at in range(8)]  # the last five in the window, of two ledgers
    pulsar = InMemoryPulsar([Part({3: times[:4], 9: times[4:]}, {OLD: (9, 3)})], entry_bytes=100)
    pulsar.quotas = {kind: {**limits, "policy": policy}}
    plan = planned(pulsar, times[3])
    assert plan.entries == 5 and any("backlog quota" in it for it in plan.warnings()) == (words is not None)
    if words is not None:
        with pytest.raises(GuardError, match=words):
            applied(plan, pulsar, place)
        assert NEW not in pulsar.parts[0].cursors
        pulsar.quotas, quotas = {}, pulsar.quotas
        applied(plan, pulsar, place)
        pulsar.quotas = quotas  # somebody has lowered it
    else:
        applied(plan, pulsar, place)
    pulsar.parts[0].acknowledge_through(NEW, (9, 3))
    look = look_at(plan, pulsar)  # type: ignore[arg-type]
    assert look.complete
    assert (look.doubt is not None) == (words is not None and policy == "consumer_backlog_eviction")


_EVICTS = {"policy": "consumer_backlog_eviction"}
_HOLDS = {"destination_storage": {"limitSize": 1 << 40, "policy": "producer_request_hold"}}


@pytest.mark.parametrize(
    "quotas",
    [
        {"quotas": _HOLDS, "namespace_quotas": json.dumps({"message_age": {"limitTime": 60, **_EVICTS}})},
        {"quotas": None, "namespace_quotas": json.dumps({"message_age": {"limitTime": 60, **_EVICTS}})},
        {
            "quotas": {"message_age": {"limitTime": 0, **_EVICTS}},
            "namespace_quotas": json.dumps({"destination_storage": {"limitSize": 9, **_EVICTS}}),
        },
        {"quotas": _HOLDS, "broker_quotas": {"backlogQuotaDefaultLimitSecond": "60"}},
        {"namespace_quotas": json.dumps(_HOLDS), "broker_quotas": {"backlogQuotaDefaultLimitSecond": "60"}},
        {"quotas": None, "namespace_quotas": "", "broker_quotas": {"backlogQuotaDefaultLimitBytes": "9"}},
        {"quotas": None, "broker_quotas": {"backlogQuotaDefaultLimitGB": "0.000000001", "backlogQuotaDefaultLimitBytes": "-1"}},
    ],
)  # fmt: skip
def test_a_backlog_quota_of_another_level(quotas: dict[str, Any], place: tuple[Path, Journal]) -> None:
    """Of each kind the topic's counts, else the namespace's, else the broker's; what the admin says to apply has only one level."""
    now = int(time.time() * 1000)
    given = dict(quotas)
    if "broker_quotas" in given:
        given["broker_quotas"] = (
            NO_QUOTAS | given["broker_quotas"] | {"backlogQuotaDefaultRetentionPolicy": _EVICTS["policy"]}
        )
    pulsar = InMemoryPulsar([Part({3: [now - 3_600_000]}, {OLD: (3, 0)})], entry_bytes=100, **given)
    plan = planned(pulsar, now - 7_200_000)
    assert plan.quotas_told
    with pytest.raises(GuardError, match="acknowledge its oldest entries, unread"):
        applied(plan, pulsar, place)


@pytest.mark.parametrize(
    "quotas",
    [
        {"quotas": None, "namespace_quotas": "no"},
        {"quotas": _HOLDS, "namespace_quotas": "no"},
        {"quotas": _HOLDS, "broker_quotas": {}},
        {"quotas": {**_HOLDS, "message_age": {"limitTime": "60", **_EVICTS}}},
    ],
)
def test_quotas_that_are_not_told_are_not_taken_for_none(quotas: dict[str, Any], place: tuple[Path, Journal]) -> None:
    """The plan warns, and what is acknowledged is not said to be handled."""
    pulsar = InMemoryPulsar([Part({3: [BEGIN]}, {OLD: (3, 0)})], **quotas)
    plan = planned(pulsar, BEGIN)
    assert [it for it in plan.warnings() if it.startswith("Whether the topic has a backlog quota is not told")]
    applied(plan, pulsar, place)
    pulsar.parts[0].acknowledge_through(NEW, (3, 0))
    look = look_at(plan, pulsar)  # type: ignore[arg-type]
    assert look.complete and (look.doubt or "").startswith("Whether a backlog quota makes brokers acknowledge")


def test_a_time_to_live_that_is_not_told_leaves_a_doubt(place: tuple[Path, Journal]) -> None:
    """What it took before the topic was loaded last is in no counter."""
    pulsar, _ = two(ttl=-1)
    plan = planned(pulsar, BEGIN)
    applied(plan, pulsar, place)
    for part in pulsar.parts:
        part.acknowledge_through(NEW, part.last)
    look = look_at(plan, pulsar)  # type: ignore[arg-type]
    assert look.complete and (look.doubt or "").startswith("The topic's time-to-live is not told")


@pytest.mark.parametrize(("other", "warns"), [("pulsar.repl.west", True), ("billing-2", False)])
def test_a_replicated_topic_may_have_what_came_late(other: str, warns: bool) -> None:
    """What comes from another cluster has an earlier publish time than what stands before it, and a search may end behind that."""
    pulsar = InMemoryPulsar([Part({3: [BEGIN]}, {OLD: (3, 0)}), Part({4: [BEGIN]}, {OLD: (4, 0), other: (4, 0)})])
    assert bool([it for it in planned(pulsar, BEGIN).warnings() if it.startswith("The topic is replicated")]) == warns


@pytest.mark.parametrize("written", [1, 2, 9])
@pytest.mark.parametrize("at_plan", [True, False])
def test_what_producers_write_meanwhile_is_no_other_log(
    written: int, at_plan: bool, place: tuple[Path, Journal]
) -> None:
    """A broker counts the entries first, and then says which is the last one: a topic that is written to has more by then."""
    pulsar = InMemoryPulsar([Part({3: [BEGIN], 9: [BEGIN + at for at in range(4)]}, {OLD: (3, 0)})])
    pulsar.written_meanwhile = written if at_plan else 0
    plan = planned(pulsar, BEGIN)
    assert plan.entries == 5
    pulsar.written_meanwhile = 0 if at_plan else written
    assert applied(plan, pulsar, place).failed == ()
    assert look_at(plan, pulsar).left == {0: 5}  # type: ignore[arg-type]

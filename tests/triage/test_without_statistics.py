"""Consumers whose clients show nothing of themselves: offsets and the counters of their handlers have to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from evaluation.stories import TIMES, Story, growing
from tests.triage.judging import rows_of
from workbench.triage.action_subject import Subject
from workbench.triage.outcome_checks import all_hold
from workbench.triage.rank_candidate_causes import likeliest_first
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.tree_walk import candidates
from workbench.triage.verdict_leaves import leaf_of
from workbench.triage.verdict_names import Answer, Verdict

pytestmark = pytest.mark.jvm
SINCE = -60.0


def handlers(story: Story, rates: Sequence[float], seconds: float, *, stops: Sequence[int] = ()) -> Story:
    """Members with a histogram each, whose records take so long; those that stop finish nothing from `SINCE` on."""
    story.add("group_members", float(len(rates)), group=story.group)
    for number, rate in enumerate(rates):
        running = np.diff(TIMES, prepend=TIMES[0]) * rate
        counts = np.cumsum(np.where((number in stops) & (TIMES > SINCE), 0.0, running))
        labels = {"group": story.group, "topic": story.topic, "member": f"m-{number}", "processor": "all"}
        story.add("process_time", counts.tolist(), stat="count", **labels)
        story.add("process_time", (counts * seconds).tolist(), stat="sum", **labels)
    return story


def half_stop(name: str) -> Story:
    """The partitions 0 and 1 stand still, 2 and 3 keep up."""
    story = Story(group=name, topic=name)
    for number in (0, 1):
        story.partition(number, lag=growing(50.0, start=5.0, since=SINCE), time_lag=growing(1.0, since=SINCE))
    for number in (2, 3):
        story.partition(number)
    return story


def all_stop(name: str) -> Story:
    """No partition is read, and nobody's handlers finish anything, while their clients poll."""
    story = Story(group=name, topic=name)
    story.all_partitions(lag=growing(50.0, start=5.0, since=SINCE), time_lag=growing(1.0, since=SINCE))
    for number in range(2):
        story.add("poll_age", 0.2, group=story.group, member=f"m-{number}")
    return handlers(story, (100.0, 100.0), 0.002, stops=(0, 1))


def reading(story: Story, *, stops: Sequence[int] = ()) -> Story:
    """Two clients that poll all the time, and how much each has read: those that stop read nothing from `SINCE` on."""
    story.add("group_members", 2.0, group=story.group)
    for number in range(2):
        labels = {"group": story.group, "member": f"m-{number}"}
        running = np.diff(TIMES, prepend=TIMES[0]) * 100.0
        counts = np.cumsum(np.where((number in stops) & (TIMES > SINCE), 0.0, running))
        story.add("deserialized", counts.tolist(), topic=story.topic, **labels)
        story.add("poll_age", 0.2, **labels)
    return story


def one_of_four(name: str) -> Story:
    """Partition 0 stands still, and all others keep up."""
    story = Story(group=name, topic=name)
    story.partition(0, lag=growing(50.0, start=5.0, since=SINCE / 2), time_lag=growing(1.0, since=SINCE / 2))
    for number in (1, 2, 3):
        story.partition(number)
    return story


def all_late(name: str) -> Story:
    """Every partition falls behind by half of what arrives."""
    return Story(group=name, topic=name).all_partitions(
        lag=growing(25.0, start=5.0, since=SINCE), time_lag=growing(0.5, since=SINCE)
    )


def one_waits(name: str, *, since: float = -30.0) -> Story:
    """Partition 0 stands still, the others fall behind."""
    story = Story(group=name, topic=name)
    story.partition(0, lag=growing(50.0, start=5.0, since=since), time_lag=growing(1.0, since=since))
    for number in (1, 2, 3):
        story.partition(number, lag=growing(17.0, start=5.0, since=since), time_lag=growing(0.34, since=since))
    return story


def fetched(story: Story, *, waits: float | None, own: bool) -> Story:
    """Clients that poll all the time, beside the threads that handle; what stands still has so much that waits, if it is told."""
    for number in range(2):
        story.add("poll_age", 0.2, group=story.group, member=f"m-{number}")
    for number in range(4) if waits is not None else ():
        shown = waits if number < 2 else 0.0
        labels = {"topic": story.topic, "partition": number, "member": f"m-{number // 2}"}
        story.add("fetch_queue_length", shown, group=story.group, **labels)
    return handlers(story, (100.0,) * 2, 0.002, stops=(0,)) if own else handlers(story, (75.0,) * 2, 0.019)


def holding(story: Story, first: float) -> Story:
    """Events in the handlers of two members at this moment: those of the second one come and go."""
    for number, events in enumerate((np.where(TIMES < SINCE, 0.0, first), np.arange(len(TIMES)) % 2)):
        labels = {"group": story.group, "member": f"m-{number}", "processor": "all", "queue": "handlers"}
        story.add("in_flight", events.astype(float).tolist(), **labels)
    return story


STORIES = {
    "one hangs behind a client that polls": lambda name: fetched(half_stop(name), waits=6.0, own=True),
    "one hangs behind a client that tells its polls alone": lambda name: fetched(half_stop(name), waits=None, own=True),
    "one polls, and has nothing": lambda name: fetched(half_stop(name), waits=0.0, own=True),
    "a record stops, and all others are in time": lambda name: fetched(one_of_four(name), waits=60.0, own=False),
    "one waits for busy handlers": lambda name: handlers(one_waits(name), (50.0, 50.0), 0.019),
    "one waits, and handlers have time": lambda name: handlers(one_waits(name), (50.0, 50.0), 0.005),
    "one member is idle": lambda name: handlers(half_stop(name), (100.0, 100.0), 0.002, stops=(0,)),
    "one member holds a record": lambda name: holding(
        handlers(half_stop(name), (100.0, 100.0), 0.002, stops=(0,)), 1.0
    ),
    "one member holds nothing": lambda name: holding(handlers(half_stop(name), (100.0, 100.0), 0.002, stops=(0,)), 0.0),
    "one holds behind a client that polls": lambda name: holding(fetched(half_stop(name), waits=6.0, own=True), 1.0),
    "nobody is idle": lambda name: handlers(half_stop(name), (100.0, 100.0), 0.002),
    "more members than partitions": lambda name: handlers(half_stop(name), (50.0,) * 6, 0.002, stops=(0,)),
    "nobody finishes anything": all_stop,
    "one reads nothing, and nobody counts handlers": lambda name: reading(half_stop(name), stops=(0,)),
    "both read, and nobody counts handlers": lambda name: reading(half_stop(name)),
    "one reads nothing, and its handlers work": lambda name: handlers(
        reading(half_stop(name), stops=(0,)), (100.0, 100.0), 0.002
    ),
    "all handlers are busy": lambda name: handlers(all_late(name), (50.0, 50.0), 0.019),
    "their work is done again": lambda name: handlers(all_late(name), (95.0, 95.0), 0.01),
    "all handlers have time": lambda name: handlers(all_late(name), (50.0, 50.0), 0.005),
    "no members": lambda name: half_stop(name).add("group_members", 0.0, group=name),
}


@pytest.fixture(scope="module")
def rows(spark: Any) -> dict[str, SubscriptionFeatures]:
    """All in one job."""
    return rows_of(spark, [make(name) for name, make in STORIES.items()])


def test_a_member_that_finishes_nothing_while_its_partitions_wait_is_named_and_not_blamed(
    rows: dict[str, SubscriptionFeatures],
) -> None:
    """It may hang, have paused, or get nothing: only a look at it tells."""
    row = rows["one member is idle"]
    assert row.idle_members == ("m-0",)
    assert row.verdict is Verdict.CANNOT_TELL
    assert row.answers["consuming"] is Answer.CANNOT_TELL
    left = likeliest_first([Verdict.CONSUMER_STOPPED, Verdict.BATCH_MISSED], row)
    assert left == [Verdict.CONSUMER_STOPPED]  # no batch in the settings


def test_a_client_that_polls_says_nothing_of_threads_that_have_what_it_fetched(
    rows: dict[str, SubscriptionFeatures],
) -> None:
    """A pool may hang behind it, as in Quarkus. Where it is measured that nothing waits in it, its polls count."""
    for name in ("one hangs behind a client that polls", "one hangs behind a client that tells its polls alone"):
        assert rows[name].idle_members == ("m-0",)
        assert rows[name].verdict is Verdict.CANNOT_TELL
    assert rows["one polls, and has nothing"].idle_members == ()


def test_members_that_all_finish_nothing_may_all_hang(rows: dict[str, SubscriptionFeatures]) -> None:
    """Their clients poll, which says nothing of other threads; nobody has to work for it to be seen, if nothing moves."""
    row = rows["nobody finishes anything"]
    assert row.idle_members == ("m-0", "m-1") and row.verdict is Verdict.CANNOT_TELL
    assert row.answers["consuming"] is Answer.CANNOT_TELL
    assert Verdict.CONSUMER_STOPPED in candidates(row.answers)
    assert not row.hung_members


def test_what_a_member_reads_stands_for_its_work_where_nobody_counts_that(
    rows: dict[str, SubscriptionFeatures],
) -> None:
    """A handler hangs behind a client that polls, as in Reactor: it takes no more records. Handlers that are counted count for more."""
    row = rows["one reads nothing, and nobody counts handlers"]
    assert row.idle_members == ("m-0",) and row.verdict is Verdict.CANNOT_TELL
    assert Verdict.CONSUMER_STOPPED in candidates(row.answers)
    assert rows["both read, and nobody counts handlers"].idle_members == ()
    assert rows["one reads nothing, and its handlers work"].idle_members == ()


def test_what_stands_does_not_wait_for_its_turn_if_all_others_are_in_time(
    rows: dict[str, SubscriptionFeatures],
) -> None:
    """However busy the handlers of a pool are together."""
    row = rows["a record stops, and all others are in time"]
    assert row.own_work is True and row.works_on
    assert row.stuck_partitions == (0,)
    assert row.verdict is Verdict.STUCK_PARTITION


@pytest.mark.parametrize("name", ["one member holds a record", "one holds behind a client that polls"])
def test_handlers_that_hold_a_record_and_finish_none_hang(name: str, rows: dict[str, SubscriptionFeatures]) -> None:
    """Whether or not their client polls; those of its peers go on."""
    row = rows[name]
    assert row.held_members == row.hung_members == ("m-0",)
    assert row.verdict is Verdict.CONSUMER_STOPPED, (row.verdict, row.reasons)
    leaf = leaf_of(row.verdict)
    assert "A member hangs: no handler of m-0 has ended for" in leaf.headline(row)
    dump, restart = leaf.actions(Subject("test", "g", "t"), row)
    assert "thread dump" in dump.title and restart.verify == "their handlers finish records again"
    assert all_hold(restart.checks, row) is Answer.NO


def test_handlers_that_hold_nothing_may_get_nothing(rows: dict[str, SubscriptionFeatures]) -> None:
    """As before: only a look tells."""
    row = rows["one member holds nothing"]
    assert not row.held_members and row.idle_members == ("m-0",) and row.verdict is Verdict.CANNOT_TELL


@pytest.mark.parametrize("name", ["nobody is idle", "more members than partitions", "no members"])
def test_a_member_with_work_or_without_partitions_is_not_idle(name: str, rows: dict[str, SubscriptionFeatures]) -> None:
    """A spare member has nothing to do."""
    assert rows[name].idle_members == ()


def test_partitions_that_stop_for_good_while_most_keep_up_are_no_rebalances(
    rows: dict[str, SubscriptionFeatures],
) -> None:
    """A rebalance stops all of them, or ends."""
    row = rows["nobody is idle"]
    assert row.members_stay
    assert row.answers["rebalancing"] is Answer.NO


@pytest.mark.parametrize(
    ("name", "works", "answer"),
    [
        ("all handlers are busy", True, Answer.NO),
        ("their work is done again", False, Answer.CANNOT_TELL),
        ("all handlers have time", False, Answer.NO),
    ],
)
def test_busy_handlers_whose_work_is_kept_do_not_rebalance_all_the_time(
    name: str, works: bool, answer: Answer, rows: dict[str, SubscriptionFeatures]
) -> None:
    """Without a counter of rebalances: handled once, and committed; or by members that stay, without a pause."""
    assert rows[name].works_on is works
    assert rows[name].answers["rebalancing"] is answer


def test_what_waits_while_its_consumer_works_all_the_time_may_wait_for_the_others(
    rows: dict[str, SubscriptionFeatures],
) -> None:
    """It may be stuck, or there are too few consumers; only of one that has time it is certain that more of them do not move it."""
    busy, easy = rows["one waits for busy handlers"], rows["one waits, and handlers have time"]
    assert busy.frozen_partitions == easy.frozen_partitions == (0,)
    assert busy.works_on and busy.verdict is Verdict.CANNOT_TELL
    left = likeliest_first(candidates(busy.answers), busy)
    assert {Verdict.STUCK_PARTITION, Verdict.TOO_FEW_CONSUMERS} <= set(left)
    assert Verdict.TOO_FEW_CONSUMERS not in candidates(easy.answers)

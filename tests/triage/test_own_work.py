"""Whose side is the limit, for consumers without queues of their own: each source of it alone, at both sides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from evaluation.stories import TIMES, Story, growing, lagging, steps
from tests.triage.judging import rows_of
from workbench.triage.action_subject import Subject
from workbench.triage.outcome_checks import all_hold
from workbench.triage.question_order import TREE
from workbench.triage.shared_actions import consume_again
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.verdict_names import Answer, Verdict

pytestmark = pytest.mark.jvm
ONSET = -90.0


def loop(story: Story) -> Story:
    """A group that falls behind; what its clients say of the network is as ever."""
    return lagging(story).people(rtt=0.01)


def idle(story: Story, share: float) -> Story:
    """Share of the time in which its threads wait for records."""
    for number in range(story.members or 0):
        story.add("poll_idle", steps(0.7, share, at=ONSET), group=story.group, member=f"m-{number}")
    return story


def handler(
    story: Story, *, before: float, after: float, rate: float = 100.0, rate_after: float | None = None
) -> Story:
    """A handler with its process times in seconds and records/s, before and after the onset."""
    late = TIMES > ONSET
    rates = np.where(late, rate if rate_after is None else rate_after, rate)
    counts = np.concatenate([[0.0], np.cumsum(np.diff(TIMES) * rates[1:])])
    sums = np.concatenate([[0.0], np.cumsum(np.diff(counts) * np.where(late, after, before)[1:])])
    place = {"group": story.group, "topic": story.topic, "member": "m-0", "processor": "all"}
    story.add("process_time", counts.tolist(), stat="count", **place)
    return story.add("process_time", sums.tolist(), stat="sum", **place)


def pool(story: Story, waiting: Any, name: str | None = None) -> Story:
    """A pool behind a member's loop tells how many records wait for it, and not how many could."""
    return story.add("queue_length", waiting, group=story.group, topic=story.topic, member="m-0", processor=name)


CASES: dict[str, tuple[Callable[[Story], Story], bool | None]] = {
    "nothing known": (lagging, None),
    "messages wait in the client": (lambda s: loop(s).fetch_queue(25.0), True),
    "none wait": (lambda s: loop(s).fetch_queue(0.0), False),
    "some wait at times": (lambda s: loop(s).fetch_queue((240 * (TIMES % 4 > 1)).tolist()), None),
    "its thread never waits": (lambda s: idle(loop(s), 0.24), True),
    "its thread waits most of the time": (lambda s: idle(lagging(s), 0.51), False),
    "its thread waits most of the time for a quota": (lambda s: idle(lagging(s).people(throttle=0.31), 0.51), False),
    "its thread waits most of the time for far brokers": (
        lambda s: idle(lagging(s).people(rtt=steps(0.01, 0.4, at=ONSET)), 0.51),
        False,
    ),
    "its thread waits most of the time, and nothing holds up what it asks for": (lambda s: idle(loop(s), 0.97), None),
    "its thread waits a third of the time": (lambda s: idle(loop(s), 0.35), None),
    "more work than before": (lambda s: handler(loop(s), before=0.01, after=0.014), True),
    "less work than before": (lambda s: handler(loop(s), before=0.03, after=0.03, rate_after=79.0), False),
    "as much work as before": (lambda s: handler(loop(s), before=0.02, after=0.02), None),
    "all of its time": (lambda s: handler(loop(s), before=0.0305, after=0.0305), True),
    "neither waiting for records nor handling them": (
        lambda s: idle(handler(loop(s), before=0.01, after=0.0119), 0.0),
        None,
    ),
    "what one answer brought waits, and the next is far away": (
        lambda s: handler(
            lagging(s).people(rtt=0.01, throttle=12.0).fetch_queue(25.0), before=0.025, after=0.025, rate_after=20.0
        ),
        False,
    ),
    "hardly any of its time": (lambda s: handler(loop(s), before=0.0119, after=0.0119), False),
    "records always wait for its pool": (lambda s: pool(loop(s), steps(0.0, 16.0, at=ONSET)), True),
    "records always wait for a pool with a name": (lambda s: pool(loop(s), steps(0.0, 16.0, at=ONSET), "jobs"), True),
    "as many tasks wait as ever": (lambda s: pool(loop(s), 3.0), None),
    "records wait for its pool at times": (
        lambda s: pool(loop(s), (16 * (TIMES % 4 > 1) * (TIMES > ONSET)).tolist()),
        None,
    ),
}


@pytest.fixture(scope="module")
def rows(spark: Any) -> dict[str, SubscriptionFeatures]:
    """All cases in one job."""
    return rows_of(spark, [make(Story(group=name, topic=name)) for name, (make, _) in CASES.items()])


@pytest.mark.parametrize("name", CASES)
def test_each_source_alone_decides_or_does_not(name: str, rows: dict[str, SubscriptionFeatures]) -> None:
    """True: its own work takes the time; false: it waits; None: that is not known."""
    assert rows[name].own_work is CASES[name][1]
    assert not rows[name].has_queues


def test_what_is_not_known_is_said(rows: dict[str, SubscriptionFeatures]) -> None:
    """A lag exporter alone shows no consumer, so the group is not without queues either."""
    row = rows["nothing known"]
    assert not row.queueless
    assert row.answers["queue_backed_up"] is Answer.CANNOT_TELL
    assert row.answers["threads"] is Answer.CANNOT_TELL
    assert rows["none wait"].queueless


def test_queues_outrank_the_client(spark: Any) -> None:
    """The runtime's own queues say more than messages that wait in its client."""
    [row] = rows_of(spark, [lagging(Story()).calm().fetch_queue(500.0)]).values()
    assert row.has_queues
    assert not row.queueless
    assert row.answers["queue_backed_up"] is Answer.NO


SURE: dict[str, tuple[Callable[[Story], Story], Verdict]] = {
    "throttled": (lambda s: lagging(s).people(throttle=steps(0.0, 0.31, at=ONSET)), Verdict.THROTTLED),
    "throttled a little": (lambda s: lagging(s).people(throttle=steps(0.0, 0.05, at=ONSET)), Verdict.THROTTLED),
    "network": (lambda s: lagging(s).people(rtt=steps(0.01, 0.31, at=ONSET)), Verdict.SLOW_NETWORK),
    "network a little": (lambda s: lagging(s).people(rtt=steps(0.01, 0.25, at=ONSET)), Verdict.SLOW_NETWORK),
    "no slower than usual": (lambda s: lagging(s).people(rtt=steps(0.2, 0.25, at=ONSET)), Verdict.CANNOT_TELL),
    "busy and throttled": (
        lambda s: lagging(s).people(throttle=steps(0.0, 0.31, at=ONSET)).fetch_queue(500.0),
        Verdict.CANNOT_TELL,
    ),
}


def test_a_hard_fact_needs_no_other(spark: Any) -> None:
    """A throttle that the client tells, or long round trips, explain a lag, unless messages wait in the client."""
    found = rows_of(spark, [make(Story(group=name, topic=name)) for name, (make, _) in SURE.items()])
    assert {name: found[name].verdict for name in SURE} == {name: wanted for name, (_, wanted) in SURE.items()}


READ = 120.0  # messages/s, of 200 that arrive


def quota(story: Story, messages_per_second: float, **people: Any) -> Story:
    """A lag exporter and what Kafka says of quotas: nothing of the clients."""
    lagging(story).add("group_members", 2.0, group=story.group)
    return story.add("read_quota", messages_per_second, keep=TIMES >= -0.1, group=story.group)


QUOTAS: dict[str, tuple[Callable[[Story], Story], Verdict]] = {
    "all that it may": (lambda s: quota(s, READ / 0.98), Verdict.THROTTLED),
    "more than it may": (lambda s: quota(s, READ / 1.3), Verdict.CANNOT_TELL),
    "half, and more arrives than it may": (lambda s: quota(s, 160.0), Verdict.THROTTLED),
    "less than it may, and so arrives": (lambda s: quota(s, 250.0), Verdict.CANNOT_TELL),
    "its handlers take all of its time": (
        lambda s: handler(quota(s, READ), before=0.02, after=0.07),
        Verdict.SLOW_PROCESSOR,
    ),
    "its clients say that nobody throttles them": (lambda s: quota(s, READ).people(), Verdict.CANNOT_TELL),
}


def test_a_quota_is_told_without_a_word_of_the_clients(spark: Any) -> None:
    """Who reads what the quota allows is limited by it; what a client measures of itself outranks that."""
    found = rows_of(spark, [make(Story(group=name, topic=name)) for name, (make, _) in QUOTAS.items()])
    assert {name: found[name].verdict for name in QUOTAS} == {name: wanted for name, (_, wanted) in QUOTAS.items()}


def test_statistics_that_no_longer_change_are_a_member_that_hangs(spark: Any) -> None:
    """They come with a poll. Those that never changed prove nothing."""
    noise = 0.01 + 0.001 * np.sin(TIMES)

    def frozen(story: Story, rtt: Any) -> Story:
        held = growing(50.0, start=5.0, since=ONSET)
        return story.all_partitions(lag=held, time_lag=growing(1.0, start=0.1, since=ONSET)).people(rtt=rtt)

    def without_polls(story: Story) -> Story:
        story.batches = [it for it in story.batches if it["signal"][0].as_py() != "poll_age"]
        return story

    still = np.where(TIMES > ONSET, 0.0107, noise).tolist()
    found = rows_of(
        spark,
        [
            without_polls(frozen(Story(group="hangs", topic="a"), still)),
            without_polls(frozen(Story(group="polls", topic="b"), noise.tolist()).fetch_queue(0.0)),
            without_polls(frozen(Story(group="never changed", topic="c"), 0.01)),
        ],
    )
    assert found["hangs"].verdict is Verdict.CONSUMER_STOPPED
    assert len(found["hangs"].hung_members) == 4
    checks = consume_again(Subject("test", "hangs", "a"), found["hangs"])[-1].checks
    assert all_hold(checks, found["hangs"]) is Answer.NO
    assert all_hold(checks, replace(found["hangs"], members=found["polls"].members)) is Answer.YES
    assert found["polls"].polling
    assert found["polls"].verdict is Verdict.STUCK_PARTITION
    assert found["never changed"].polling is None
    assert found["never changed"].verdict is Verdict.CANNOT_TELL


def test_where_nothing_is_read_long_fetches_are_no_slow_network(spark: Any) -> None:
    """A fetch that is given nothing takes as long as it may wait, whatever that is; on a slow path, some is read."""
    waits = {"half a second": 0.5, "two seconds": 2.0}

    def told(story: Story, lag: Any, seconds: float) -> Story:
        story.all_partitions(lag=lag, time_lag=growing(1.0, start=0.1, since=ONSET))
        return story.people(rtt=steps(0.04, seconds, at=ONSET)).fetch_queue(0.0)

    lags = {"stands": growing(50.0, start=5.0, since=ONSET), "moves": growing(40.0, start=5.0, since=ONSET)}
    names = {f"{how} {wait}": (lags[how], seconds) for how in lags for wait, seconds in waits.items()}
    found = rows_of(spark, [told(Story(group=name, topic=name), *it) for name, it in names.items()])
    for wait in waits:
        still, slow = found[f"stands {wait}"], found[f"moves {wait}"]
        assert still.verdict is Verdict.STUCK_PARTITION
        assert still.answers["slow_network"] is Answer.NO
        assert "says nothing of the path" in TREE["slow_network"].words(still)
        assert slow.verdict is Verdict.SLOW_NETWORK


def test_handlers_that_take_a_round_trip_longer_wait_for_the_network(spark: Any) -> None:
    """A commit within the timer of each record; what takes longer, or less, is the handler's own."""
    longer = {"as long": (0.9, False), "twice as long": (1.8, True), "half as long": (0.45, True)}

    def told(story: Story, seconds: float, rtt: float = 0.9) -> Story:
        story = lagging(story).people(rtt=steps(0.02, rtt, at=ONSET))
        return idle(handler(story, before=0.02, after=0.02 + seconds, rate_after=3.5 / (0.02 + seconds)), 0.0)

    stories = [told(Story(group=name, topic=name), seconds) for name, (seconds, _) in longer.items()]
    found = rows_of(spark, [*stories, told(Story(group="fast", topic="fast"), 0.1, rtt=0.1)])
    assert {name: found[name].own_work for name in found} == {
        **{name: own for name, (_, own) in longer.items()},
        "fast": True,
    }
    assert found["as long"].verdict is Verdict.SLOW_NETWORK
    assert found["fast"].verdict is Verdict.SLOW_PROCESSOR

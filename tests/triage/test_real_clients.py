"""What librdkafka's statistics really look like: every partition for every member, one length for all that share a queue."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from evaluation.stories import TIMES, Shape, Story, growing, lagging
from tests.triage.judging import rows_of
from workbench.triage.verdict_names import Verdict

pytestmark = pytest.mark.jvm


def _as_clients_show_it(lengths: dict[str, float]) -> Story:
    """Partitions belong to the members in turn; each member lists all of them, with its own queue's length for its own."""
    story = lagging(Story(group="g", topic="t", partitions=4, members=2)).people()
    for number in range(4):
        for place, (member, length) in enumerate(lengths.items()):
            shown = length if number % len(lengths) == place else 0.0
            story.add("fetch_queue_length", shown, group="g", topic="t", partition=number, member=member)
    return story


def test_a_fetch_queue_is_its_owners_and_counts_once(spark: Any) -> None:
    """Not mixed with what the others list, and not as often as it has partitions."""
    [row] = rows_of(spark, [_as_clients_show_it({"m-0": 400.0, "m-1": 30.0})]).values()
    assert [it.fetch_queue_mean for it in row.partitions] == [400.0, 30.0, 400.0, 30.0]
    assert row.fetch_queue_mean == 430.0
    assert row.fetched_low == 400.0


def test_a_client_with_one_number_for_all_of_its_partitions_tells_what_waits(spark: Any) -> None:
    """Clients in Go and Node count what they have buffered, and not of which partition: it always waits, or it does not."""
    story = lagging(Story(group="g", topic="t", partitions=4, members=2)).people()
    for number, length in enumerate((400.0, 30.0)):
        story.add("fetch_queue_length", length, group="g", member=f"m-{number}")
    [row] = rows_of(spark, [story]).values()
    assert row.fetch_queue_mean == 430.0 and row.fetched_low == 400.0
    assert row.own_work is True and row.reasons["queue_backed_up"] == "fetched_wait"


def _by_its_clients(lag: Shape, *, poll_age: Shape = 0.1, paused: float | None = None) -> Story:
    """A Java client's own lag and polls, without a lag exporter."""
    story = Story(group="g", topic="t", partitions=2, members=2, source="jmx_exporter")
    for number in range(2):
        place = {"group": "g", "member": f"m-{number}"}
        story.add("consumer_lag", lag, topic="t", partition=number, **place)
        story.add("poll_age", poll_age if number else 0.1, **place)
        story.add("poll_idle", 0.9, **place)
        if paused is not None:
            story.add("paused_partitions", paused, **place)
    return story


def test_a_lag_that_only_its_client_sees_is_no_proof(spark: Any) -> None:
    """A paused client fetches nothing: its own lag stays as it was, at 0. Unless it changes, or pauses are measured, nobody knows."""
    still, moving = _by_its_clients(0.0), _by_its_clients(lambda times: 3 + 2 * np.sin(times))
    stories = {"still": still, "moving": moving, "none paused": _by_its_clients(0.0, paused=0.0)}
    found = {name: next(iter(rows_of(spark, [story]).values())) for name, story in stories.items()}
    assert found["still"].unseen and found["still"].verdict is Verdict.CANNOT_TELL
    assert not found["moving"].unseen
    assert not found["none paused"].unseen


def test_a_client_that_does_not_poll_reads_nothing_whatever_its_lag(spark: Any) -> None:
    """Its lag is as old as its last fetch."""
    [row] = rows_of(spark, [_by_its_clients(0.0, poll_age=growing(1.0, start=0.1, since=-40.0))]).values()
    assert row.verdict is Verdict.CONSUMER_STOPPED
    assert row.hung_members == ("m-1",)


@pytest.mark.parametrize(("since", "frozen"), [(-26.0, ()), (-58.0, (3,))])
def test_a_stop_no_longer_than_two_turns_that_ended_is_none(spark: Any, since: float, frozen: tuple[int, ...]) -> None:
    """Another partition stood for 24 s and went on: with a backlog, clients hand out one after the other."""
    story = Story(partitions=4, members=2)
    for number in (0, 1):
        story.partition(number, lag=growing(10.0, start=5.0, since=-58.0), time_lag=None)
    held = np.clip(TIMES + 52.0, 0.0, 24.0)
    story.partition(2, lag=(5.0 + 50.0 * held).tolist(), time_lag=None)
    story.partition(3, lag=growing(50.0, start=5.0, since=since), time_lag=None)
    [row] = rows_of(spark, [story.people()]).values()
    assert tuple(row.frozen_partitions) == frozen


@pytest.mark.parametrize(("other", "hung"), [(13.0, ()), (8.0, ()), (5.0, ("m-1",)), (1.0, ("m-1",))])
def test_what_another_member_came_back_from_is_no_hang(spark: Any, other: float, hung: tuple[str, ...]) -> None:
    """Batches grow with the lag: each poll comes later than the one before (Kafka Connect and Micronaut, seen on the lab)."""
    since = np.mod(TIMES + 58.0, other + 1.0)
    story = Story(group="g", topic="t", partitions=2, members=2, source="jmx_exporter")
    for number in range(2):
        place = {"group": "g", "member": f"m-{number}"}
        story.add("consumer_lag", growing(50.0, start=5.0, since=-58.0), topic="t", partition=number, **place)
    story.add("poll_age", np.where(TIMES < -58.0, 0.1, since).tolist(), group="g", member="m-0")
    story.add("poll_age", growing(1.0, start=0.1, since=-10.0), group="g", member="m-1")
    [row] = rows_of(spark, [story]).values()
    assert row.hung_members == hung


@pytest.mark.parametrize("process", [None, "pod"])
@pytest.mark.parametrize(("works_until", "hung"), [(0.0, ()), (-50.0, ("m-1",))])
def test_who_finishes_one_record_after_the_other_does_not_hang(
    spark: Any, works_until: float, hung: tuple[str, ...], process: str | None
) -> None:
    """What one poll has brought takes slow handlers longer than a poll may: nobody polls meanwhile, and records are read.

    Two clients of one process have their handlers counted by the process (Spring Cloud Stream's bindings, seen on the lab).
    """
    story = Story(group="g", topic="t", partitions=2, members=2)
    for number in range(2):
        story.partition(
            number, lag=growing(50.0 if hung else 49.0, start=5.0, since=-60.0), time_lag=growing(1.0, since=-60.0)
        )
        place = {"group": "g", "member": f"m-{number}"}
        story.add("poll_age", growing(1.0, start=0.1, since=-50.0) if number else 0.1, **place)
        done = np.minimum(50.0 * (np.minimum(TIMES, -60.0) - TIMES[0]) + np.maximum(0.0, TIMES + 60.0), 50_000.0)
        works = works_until > TIMES
        ended = np.where(works, done, done[works][-1])
        for stat, each in (("count", 1.0), ("sum", 0.01)):
            whose = place if process is None else {"group": "g", "member": f"{process}-{number}"}
            story.add("process_time", (each * ended).tolist(), stat=stat, topic="t", processor="all", **whose)
    [row] = rows_of(spark, [story]).values()
    assert row.hung_members == hung
    assert (row.verdict is Verdict.CONSUMER_STOPPED) is bool(hung)

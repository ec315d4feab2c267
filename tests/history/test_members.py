"""Members by the counters of their handlers."""

from __future__ import annotations

import numpy as np
import pytest

from evaluation.stories import TIMES, WINDOW, Story
from workbench.history.member_stories import (
    back_amid_members,
    compare,
    counts_of,
    disproved,
    members_of,
    moved_by_hand,
    rejoined,
    states_of,
)
from workbench.history.partition_series import Bounds, MeasuredPartition, Track
from workbench.history.partition_series import PartitionHistory as PartitionStory
from workbench.history.partition_story import told
from workbench.samples import SERIES_ORDER, concat

ORDER = [(name, "ascending") for name in (*SERIES_ORDER, "ts")]


def counted(group: str) -> Story:
    """Handlers of one process that have finished a record a second."""
    labels = {"group": group, "topic": "orders", "member": "pod-1", "processor": "all"}
    return Story().add("process_time", (TIMES - TIMES[0]).tolist(), stat="count", **labels)


def test_a_process_beside_its_clients_is_no_member() -> None:
    """Where the clients are measured by names of their own, theirs count; where the handlers alone are, the process is the member."""
    both = counted("both").add("rebalances", 2.0, group="both", member="client-1")
    table = concat([both.samples(), counted("alone").samples()]).sort_by(ORDER)
    found = members_of(table, WINDOW, {("test", "both"), ("test", "alone")}).members
    assert {(group, name) for (_, group, _), members in found.items() for name in members} == {("alone", "pod-1")}
    assert found["test", "alone", "orders"]["pod-1"].worked == 0.0


@pytest.mark.parametrize(("stat", "worked"), [("failed", 0.0), ("retry", 0.0), ("skip", -30.0)])
def test_an_attempt_that_failed_has_ended(stat: str, worked: float) -> None:
    """A record that is tried again is timed when it is done at last: until then, its failures tell that the handler works."""
    labels = {"group": "again", "topic": "orders", "member": "pod-1", "processor": "all"}
    stopped = (np.minimum(TIMES, -30.0) - TIMES[0]).tolist()
    story = Story().add("process_time", stopped, stat="count", **labels)
    story.add("processed", (TIMES - TIMES[0]).tolist(), stat=stat, **labels)
    found = members_of(story.samples().sort_by(ORDER), WINDOW, {("test", "again")}).members
    assert found["test", "again", "orders"]["pod-1"].worked == worked


def test_handlers_that_no_single_client_has_tell_for_how_long_one_of_them_stands() -> None:
    """One works to the end, another has stopped half a minute before it; those that are a member's own do not count."""
    both = counted("both").add("rebalances", 2.0, group="both", member="client-1")
    stopped = (np.minimum(TIMES, -30.0) - TIMES[0]).tolist()
    both.add("process_time", stopped, stat="count", group="both", topic="orders", member="pod-1", processor="other")
    own = counted("own").add("rebalances", 2.0, group="own", member="pod-1")
    table = concat([both.samples(), own.samples()]).sort_by(ORDER)
    assert members_of(table, WINDOW, {("test", "both"), ("test", "own")}).shared_stand == {("test", "both"): 30.0}


def commits(moves: list[float]) -> dict[tuple[str, str, str], dict[int, dict[str, Track]]]:
    """A partition whose commit moves at these times (seconds before the end)."""
    at = TIMES
    value = np.searchsorted(np.array(moves), at, side="right").astype(float)
    return {("test", "g", "orders"): {0: {"committed": Track(at, value)}}}


@pytest.mark.parametrize(("moves", "wrong"), [([-60.0, -45.0, -30.0, -15.0], True), ([-60.0], False), ([], False)])
def test_commits_disprove_a_count_of_none(moves: list[float], wrong: bool) -> None:
    """Three that come well after the last member was counted; who sets offsets by hand moves them once."""
    counts = np.where(TIMES < -100, 3.0, 0.0)
    samples = Story().add("group_members", counts.tolist(), group="g").samples().sort_by(ORDER)
    usual = list(np.arange(-170.0, -110.0, 10.0))
    assert bool(disproved(counts_of(samples, WINDOW, states_of(samples, WINDOW)), commits(usual + moves))) is wrong


def test_a_count_with_members_is_not_disproved() -> None:
    """It says what it should."""
    samples = Story().add("group_members", 3.0, group="g").samples().sort_by(ORDER)
    assert not disproved(counts_of(samples, WINDOW, states_of(samples, WINDOW)), commits([-60.0, -45.0, -30.0, -15.0]))


AT = np.arange(-3600.0, 1.0, 30.0)


def moved(counts: np.ndarray, jump_at: float) -> PartitionStory:
    """A partition whose commit stands from 30 min before the end, and jumps over 5,000 records once."""
    value = np.where(AT < -1800, 1e5 + 10 * (AT + 3600), 1e5 + 18_000) + np.where(jump_at <= AT, 5000.0, 0.0)
    story = PartitionStory()
    moved_by_hand(Track(AT, counts), {0: story}, {0: {"committed": Track(AT, value)}})
    return story


@pytest.mark.parametrize("back", [0.0, -300.0])
def test_commits_of_a_group_without_members_are_an_administrators(back: float) -> None:
    """Skipped, whatever the pace, whether its consumers come back or not."""
    counts = np.where((AT < -1800) | (back + 1 < AT), 3.0, 0.0)
    story = moved(counts, -600.0)
    assert (story.skipped, story.skip_read, story.skipped_ago) == (5000.0, 0.0, 600.0)


def test_a_job_that_is_rarely_counted_and_members_that_have_just_left_are_none() -> None:
    """It may have read between two counts; the last commits of those that left are seen a little later."""
    rarely = np.where((AT > -2400) & (AT < -2300), 1.0, 0.0)
    assert moved(rarely, -600.0).skipped is None
    left = np.where(AT < -620, 3.0, 0.0)
    assert moved(left, -600.0).skipped is None
    joined = np.where((AT < -1800) | (AT >= -600), 3.0, 0.0)
    assert moved(joined, -600.0).skipped is None


def passed_alone(counts: np.ndarray, *values: np.ndarray) -> list[PartitionStory]:
    """Stories of partitions with these commits, beside a count of members."""
    limits = Bounds(objective=120.0, commit_every=0.0, window_start=-900.0)
    end = 1e6 + 25 * (AT + 3600)
    lines = {at: {"committed": Track(AT, value), "log_end": Track(AT, end)} for at, value in enumerate(values)}
    parts = {at: told(MeasuredPartition(**own), limits) for at, own in lines.items()}
    moved_by_hand(Track(AT, counts), parts, lines)
    return list(parts.values())


@pytest.mark.parametrize("seed", range(6))
def test_members_that_come_and_go_between_two_counts_read_what_they_commit(seed: int) -> None:
    """A crash loop: each life reads some records a partition, and is counted by chance; nothing is skipped."""
    rng = np.random.default_rng(seed)
    value = 1e6 + 25 * (AT + 3597)
    counts = np.full(len(AT), 3.0)
    at, read = -1600.0, 25 * 2000.0
    counts[at <= AT], value[at <= AT] = 0.0, 1e6 + read
    while at < -60:
        at += rng.uniform(90, 150)
        counts[(at <= AT) & (at + 25 > AT)] = rng.integers(1, 4)
        read += rng.uniform(40, 90)
        value[at + 20 <= AT] = 1e6 + read
    for until in (-1300.0, -900.0, -300.0, 0.0):
        kept = until >= AT
        lines = {"committed": Track(AT[kept], value[kept])}
        story = PartitionStory()
        moved_by_hand(Track(AT[kept], counts[kept]), {0: story}, {0: lines})
        assert story.skipped is None


@pytest.mark.parametrize("samples", [3, 4, 5, 8, 40])
def test_a_count_that_ends_for_good_skips_nothing(samples: int) -> None:
    """An exporter that does not see the members of the new protocol, from one deploy on: commits go on at their pace."""
    value = 1e6 + 25 * (AT + 3597)
    counts = np.where(np.arange(len(AT)) < len(AT) - samples, 3.0, 0.0)
    assert [it.skipped for it in passed_alone(counts, value, value - 40)] == [None, None]


@pytest.mark.parametrize("zeros", [3, 4, 12])
def test_a_reset_between_two_counts_of_none_is_an_administrators(zeros: int) -> None:
    """All partitions, minutes behind, are at the end in one sample, and nobody was there before nor after it."""
    gone = np.flatnonzero(AT >= -1200)[:zeros]
    counts = np.full(len(AT), 3.0)
    counts[gone] = 0.0
    value = 1e6 + 15 * (AT + 3600)  # it reads less than what arrives
    jump = AT[gone[1]]
    value = np.where(jump <= AT, 1e6 + 25 * (AT + 3590), np.where(AT >= -1200, 1e6 + 15 * 2400.0, value))
    value = np.where((jump <= AT) & (counts == 0), 1e6 + 25 * (jump + 3600), value)
    for story in passed_alone(counts, value, value):
        assert story.skip_alone and story.skip_read == 0.0
        assert story.skipped == pytest.approx(25 * (jump + 3600) - 15 * 2400, abs=100)


def handling(member: str, **seconds: float) -> Story:
    """A member whose handlers finish a record a second of each processor, and take so long for it."""
    story = Story()
    for processor, each in seconds.items():
        labels = {"group": "g", "topic": "orders", "member": member, "processor": processor}
        done = (TIMES - TIMES[0]).tolist()
        story.add("process_time", done, stat="count", **labels)
        story.add("process_time", [each * it for it in done], stat="sum", **labels)
    return story


def test_a_member_is_compared_with_its_peers_at_the_same_processors() -> None:
    """One that takes three times as long; another has slow work of its own, which nobody else does."""
    stories = [handling("slow", a=0.3, b=0.9), handling("usual", a=0.1, b=0.3), handling("other", a=0.1, b=0.3, c=5.0)]
    table = concat([it.samples() for it in stories]).sort_by(ORDER)
    members = members_of(table, WINDOW, {("test", "g")}).members["test", "g", "orders"]
    compare(members, -60.0)
    found = {name: it.against_peers for name, it in members.items()}
    assert found == pytest.approx({"slow": 3.0, "usual": 0.5, "other": 0.5})


def test_a_member_that_tells_means_is_compared_as_one_that_tells_sums() -> None:
    """The mean time of a call, the records that one takes, and a count of records (Flink's busy time: of a second of them)."""
    labels = {"group": "g", "topic": "orders", "processor": "sink"}
    stories = []
    for member, busy, rate in (("hot", 1.0, 20.0), ("cool", 0.1, 4.0)):
        story = Story().add("process_time", busy, stat="mean", member=member, **labels)
        story.add("process_time", rate, stat="batch", member=member, **labels)
        stories.append(
            story.add("process_time", (rate * (TIMES - TIMES[0])).tolist(), stat="count", member=member, **labels)
        )
    members = members_of(concat([it.samples() for it in stories]).sort_by(ORDER), WINDOW, {("test", "g")}).members[
        "test", "g", "orders"
    ]
    compare(members, -60.0)
    assert {name: it.busy for name, it in members.items()} == pytest.approx({"hot": 1.0, "cool": 0.1})
    assert {name: it.against_peers for name, it in members.items()} == pytest.approx({"hot": 2.0, "cool": 0.5})


def test_a_member_without_peers_is_not_compared() -> None:
    """Nor is one whose times are not measured."""
    members = members_of(concat([handling("one", a=0.3).samples()]).sort_by(ORDER), WINDOW, {("test", "g")}).members
    compare(members["test", "g", "orders"], -60.0)
    assert members["test", "g", "orders"]["one"].against_peers is None
    untimed = members_of(concat([counted("both").samples()]).sort_by(ORDER), WINDOW, {("test", "both")}).members
    compare(untimed["test", "both", "orders"], -60.0)
    assert untimed["test", "both", "orders"]["pod-1"].against_peers is None


@pytest.mark.parametrize(("stopped", "amid"), [(None, True), (-600.0, False), (-2400.0, True)])
def test_nobody_resets_the_offsets_of_a_group_with_members(stopped: float | None, amid: bool) -> None:
    """Kafka refuses it; whether the group was stopped at that moment tells whether somebody else may have moved them."""
    counts = np.full(len(AT), 3.0)
    if stopped is not None:
        counts[np.abs(AT - stopped) < 61] = 0.0
    story = PartitionStory(interval=30.0, back=100.0, back_ago=600.0)
    back_amid_members(Track(AT, counts), {0: story, 1: PartitionStory(moved_ago=5.0)})
    assert story.back_amid_members is amid


def test_commits_of_all_partitions_that_went_back_at_once_were_reset() -> None:
    """Who stops, resets and starts a group between two samples of its members is not seen to do so."""
    parts = {number: PartitionStory(back=50.0, back_ago=120.0, moved_ago=5.0) for number in range(2)}
    back_amid_members(Track(AT, np.full(len(AT), 3.0)), parts)
    assert not any(it.back_amid_members for it in parts.values())


STABLE, PREPARING = 4.0, 2.0


def seen_rejoining(begin: float, end: float, every: float) -> Track:
    """A group that is seen rejoining for a sample, every so many seconds, between two times."""
    at = np.arange(-3600.0, 0.1, 30.0)
    return Track(at, np.where((at >= begin) & (at <= end) & ((at - begin) % every < 15), PREPARING, STABLE))


@pytest.mark.parametrize(
    ("state", "times"),
    [
        (seen_rejoining(-1500, 0, 90), 17),
        (seen_rejoining(-1500, -60, 90), 17),  # it is quiet for as long as between two of them, once more
        (seen_rejoining(-1500, -600, 90), 0),  # over
        (seen_rejoining(-400, 0, 60), 0),  # a deploy may take so long
        (seen_rejoining(-1500, 0, 3000), 0),  # once
        (Track(np.arange(-3600.0, 0.1, 30.0), np.full(121, PREPARING)), 0),  # it was never seen to be stable
    ],
    ids=["storm", "still", "over", "deploy", "once", "never"],
)
def test_a_state_that_is_left_again_and_again_counts_rebalances(state: Track, times: int) -> None:
    """Where nobody counts them: as many as were seen at least, while that goes on."""
    assert rejoined(state, -1800.0) == times

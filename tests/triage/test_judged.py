"""Judgement of measured features, without Spark: what decides, and which rule."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.triage.made import made
from workbench.features.subscription_measurements import (
    MeasuredSubscription,
    OldestMessage,
    PartitionFeatures,
    ProcessorFeatures,
)
from workbench.thresholds import Thresholds
from workbench.triage.build_finding import build_finding
from workbench.triage.question_order import TREE
from workbench.triage.status import lagging
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.tree_walk import judged
from workbench.triage.verdict_leaves import leaf_of
from workbench.triage.verdict_names import Answer, Verdict

WELL: dict[str, float] = {"waiting": 0.0, "moved_ago": 5.0, "late": 0.0, "pauses": 0.0, "interval": 15.0, "quiet": 1.0}


def part(number: int, story: dict[str, float] | None = None, **known: Any) -> PartitionFeatures:
    """A partition that is read at once."""
    usual: dict[str, Any] = {
        "topic": "orders",
        "partition": number,
        "committed": 10_000.0,
        "log_end": 10_000.0,
        "log_start": 0.0,
        "lag_messages": 0.0,
        "lag_recent_low": 0.0,
        "lag_recent_lowest": 0.0,
        "lag_recent_slope": 0.0,
        "lag_slope": 0.0,
        "lag_samples": 60,
        "lag_ever_samples": 300,
        "committed_samples": 60,
        "committed_moved": 900.0,
        "committed_per_second": 1.0,
        "committed_interval_seconds": 15.0,
        "committed_last_seconds": 0.0,
        "moved_ago_seconds": 5.0,
        "arrival_per_second": 1.0,
        "arrival_recent_per_second": 1.0,
        "arrival_baseline_per_second": 1.0,
        "time_lag_seconds": 0.0,
        "time_lag_method": "exact_record",
        "log_end_last_seconds": 0.0,
    }
    return made(PartitionFeatures, **{**usual, **known, "story": {**WELL, **(story or {})}})


def judge(parts: list[PartitionFeatures], **known: Any) -> SubscriptionFeatures:
    """The answers for a group with these partitions."""
    usual: dict[str, Any] = {
        "cluster": "prod",
        "group": "payments",
        "topic": "orders",
        "partition_count": len(parts),
        "lag_known_partitions": sum(it.lag_messages is not None for it in parts),
        "lag_messages": sum(it.lag_messages or 0.0 for it in parts),
        "lag_samples": sum(it.lag_samples or 0 for it in parts),
        "lag_slope": 0.0,
        "arrival_per_second": sum(it.arrival_per_second or 0.0 for it in parts),
        "committed_moved": sum(it.committed_moved or 0.0 for it in parts),
        "last_sample_age_seconds": 0.0,
        "sample_interval_seconds": 15.0,
        "group_members": 2.0,
        "group_members_recent": 2.0,
        "usual_members": 2.0,
        "usual_fewest_members": 2.0,
        "partitions": tuple(parts),
    }
    return judged(made(MeasuredSubscription, **{**usual, **known}), Thresholds())


def test_a_group_that_keeps_up_is_healthy() -> None:
    """The base of the cases below."""
    assert judge([part(0), part(1)]).verdict is Verdict.HEALTHY


@pytest.mark.parametrize(("ago", "verdict"), [(130.0, Verdict.HEALTHY), (350.0, Verdict.CANNOT_TELL)])
def test_samples_that_are_missing_for_longer_than_the_objective_prove_no_health(ago: float, verdict: Verdict) -> None:
    """One every two minutes is old; where two are missing, what waited a little then may wait for long by now."""
    known: dict[str, Any] = {
        "committed_last_seconds": -ago,
        "committed_interval_seconds": 120.0,
        "time_lag_seconds": ago + 2,
    }
    row = judge(
        [part(0, {"waiting": 2.0}, lag_messages=5.0, **known), part(1)],
        last_sample_age_seconds=ago,
        sample_interval_seconds=120.0,
    )
    assert row.verdict is verdict
    assert (row.reasons["lagging"] == "unproven") == (verdict is Verdict.CANNOT_TELL)


def empty(number: int, **known: Any) -> PartitionFeatures:
    """A partition without a record, and so without a commit."""
    nothing: dict[str, Any] = dict.fromkeys(
        ("committed", "lag_messages", "lag_samples", "lag_ever_samples", "moved_ago_seconds")
    )
    return part(number, **{**nothing, "log_end": 0.0, "log_start": 0.0, "arrival_per_second": 0.0, **known})


def test_nothing_waits_in_a_topic_without_records() -> None:
    """Healthy before its launch; unknown if nobody has measured its end lately, or if one partition has records."""
    row = judge([empty(0), empty(1)], last_sample_age_seconds=None, lag_slope=None)
    assert (row.verdict, row.reasons["data_usable"]) == (Verdict.HEALTHY, "empty")
    assert judge([empty(0, log_end_last_seconds=-600.0), empty(1)]).verdict is Verdict.NO_DATA
    assert judge([empty(0), empty(1, log_end=5.0)]).verdict is Verdict.NO_DATA


def stopped(number: int) -> PartitionFeatures:
    """Read until 20 min ago, and not since."""
    return part(
        number,
        {"waiting": 1200.0, "moved_ago": 1200.0, "late": 1.0, "rhythm": 15.0},
        committed=8_000.0,
        lag_messages=2_000.0,
        lag_recent_low=1_500.0,
        lag_recent_lowest=1_400.0,
        lag_recent_slope=1.0,
        lag_slope=1.0,
        moved_ago_seconds=1200.0,
        committed_moved=0.0,
        committed_per_second=0.0,
        cadence_seconds=15.0,
        time_lag_seconds=1200.0,
    )


@pytest.mark.parametrize(("disproved", "verdict"), [(None, Verdict.CONSUMER_STOPPED), (1.0, Verdict.CANNOT_TELL)])
def test_a_count_of_no_members_is_evidence_unless_commits_moved_beside_it(
    disproved: float | None, verdict: Verdict
) -> None:
    """Consumers that assign partitions themselves are never counted: when their commits stop, the count says nothing."""
    none: dict[str, Any] = {
        "group_members": 0.0,
        "group_members_recent": 0.0,
        "usual_members": 0.0,
        "usual_fewest_members": 0.0,
    }
    usual = {**none, "usual_members": 2.0, "usual_fewest_members": 2.0} if disproved is None else none
    row = judge([stopped(0), stopped(1)], count_disproved=disproved, lag_slope=2.0, **usual)
    assert row.verdict is verdict
    assert row.reasons["consuming"] == ("no_members" if disproved is None else "count_says_nothing")


@pytest.mark.parametrize(
    ("usual", "fewest", "left"), [(0.9, 0.0, False), (1.6, 0.0, False), (0.9, 1.0, True), (9.0, 8.0, True)]
)
def test_a_group_that_often_has_no_members_is_not_left_alone(usual: float, fewest: float, left: bool) -> None:
    """A job that is started for what waits has none at times, however many it has on average; nothing is late yet."""
    story = {"waiting": 60.0, "late": 0.0, "moved_ago": 60.0}
    waits = part(0, story, committed=9_900.0, lag_messages=100.0, lag_recent_low=100.0, moved_ago_seconds=60.0)
    none = {"group_members": 0.0, "group_members_recent": 0.0, "lag_recent_low": 100.0}
    row = judge([waits], usual_members=usual, usual_fewest_members=fewest, **none)
    assert (row.abandoned is True) is left
    assert (row.verdict is Verdict.CONSUMER_STOPPED) is left


def test_a_single_record_in_a_handler_is_not_stuck() -> None:
    """A quiet partition's commit has not moved for long before anything waits; what its record needs is only counted when it ends."""
    story = {"waiting": 95.0, "moved_ago": 900.0, "rhythm": 15.0}
    one = part(
        0,
        story,
        lag_messages=1.0,
        lag_recent_lowest=0.0,
        moved_ago_seconds=900.0,
        cadence_seconds=15.0,
        time_lag_seconds=95.0,
    )
    assert judge([one, part(1), part(2), part(3)]).stuck_partitions == ()
    long = {**story, "waiting": 600.0, "late": 1.0}
    stuck = part(
        0,
        long,
        lag_messages=1.0,
        lag_recent_lowest=1.0,
        moved_ago_seconds=900.0,
        cadence_seconds=15.0,
        time_lag_seconds=600.0,
    )
    assert judge([stuck, part(1), part(2), part(3)]).stuck_partitions == (0,)


@pytest.mark.parametrize(
    ("passed", "told", "verdict"),
    [
        (3.0, {}, Verdict.HEALTHY),
        (3_000.0, {}, Verdict.CANNOT_TELL),
        (3_000.0, {"skip_waited": 300.0}, Verdict.HEALTHY),
        (3_000.0, {"skip_pace": 2.0}, Verdict.HEALTHY),
        (3_000.0, {"skip_pace": None}, Verdict.CANNOT_TELL),
    ],
)
def test_what_was_passed_in_one_step_is_in_doubt(passed: float, told: dict[str, Any], verdict: Verdict) -> None:
    """Passed far faster than anything the group has read, and longer behind than a deploy takes. Where nothing is there to compare
    with, nobody knows.

    Anybody reads three records in a step.
    """
    story = {"skipped": passed, "skipped_from": 5.0, "skipped_ago": 60.0, "skip_rate": passed / 60, "skip_pace": 5.0}
    assert judge([part(0, {**story, "skip_waited": 1200.0, **told}), part(1)]).verdict is verdict


@pytest.mark.parametrize(
    ("told", "verdict"),
    [
        ({"skip_read": 0.1}, Verdict.RECORDS_LOST),
        ({"skip_read": 0.1, "skip_outran": 1.0}, Verdict.CANNOT_TELL),
        ({"skip_read": 0.0, "skip_outran": 1.0, "skip_alone": 1.0}, Verdict.RECORDS_LOST),
        ({"skip_read": 0.9, "skip_outran": 1.0}, Verdict.HEALTHY),
        ({"skip_pace": 500.0, "skip_rate": 1e6}, Verdict.CANNOT_TELL),
    ],
)
def test_a_step_amid_what_waits_may_pass_offsets_without_records(told: dict[str, Any], verdict: Verdict) -> None:
    """A reset leads to the log's end; compaction and aborted transactions leave gaps anywhere, which no handler counts, at any pace."""
    story = {
        "skipped": 3_000.0,
        "skipped_from": 5.0,
        "skipped_ago": 60.0,
        "skip_rate": 50.0,
        "skip_pace": 2.0,
        "skip_waited": 300.0,
    }
    assert judge([part(0, {**story, **told}), part(1)]).verdict is verdict


def lag_alone(number: int, *, low: float, mean: float) -> PartitionFeatures:
    """A lag without offsets: neither age nor arrivals are known."""
    names = (
        "committed",
        "log_end",
        "log_start",
        "arrival_per_second",
        "time_lag_seconds",
        "moved_ago_seconds",
        "committed_moved",
    )
    lag: dict[str, Any] = {
        "lag_messages": 900.0,
        "lag_mean": mean,
        "lag_recent_lowest": low,
        "lag_recent_low": low,
        "lag_slope": 0.6,
    }
    return replace(part(number, **{**dict.fromkeys(names), **lag}), story={"interval": 60.0})


def test_what_a_lag_alone_says_was_passed_has_no_first_offset() -> None:
    """The look that would decide names the time instead."""
    story = {"skipped": 3e5, "skipped_ago": 600.0, "skip_rate": 1e4, "skip_waited": 1200.0}
    found = build_finding(judge([part(0, story), part(1)]), profiles=[])
    assert found.verdict is Verdict.CANNOT_TELL
    assert "the records that waited 10 min before the window's end" in found.actions[0].title


def test_a_lag_that_only_grows_is_an_answer_without_arrivals() -> None:
    """The lows of the last third lie above the whole window's mean; a sawtooth comes down below it."""
    known: dict[str, Any] = {"lag_slope": 1.2, "arrival_per_second": None, "committed_moved": None}
    grows = judge(
        [lag_alone(0, low=700.0, mean=450.0), lag_alone(1, low=700.0, mean=450.0)], lag_recent_lowest=1400.0, **known
    )
    assert (grows.growing, grows.reasons["lagging"]) == (True, "behind")
    saw = judge(
        [lag_alone(0, low=10.0, mean=450.0), lag_alone(1, low=10.0, mean=450.0)], lag_recent_lowest=20.0, **known
    )
    assert saw.growing is False


def handler(name: str, seconds: float, per_second: float = 10.0) -> ProcessorFeatures:
    """A processor without a good time to compare with."""
    return made(
        ProcessorFeatures,
        processor=name,
        process_seconds=seconds,
        rate_per_second=per_second,
        attempts=9_000.0,
        outcomes=9_000.0,
    )


def behind(number: int) -> PartitionFeatures:
    """Late for as long as the data show, and falling further behind."""
    return part(
        number,
        {"waiting": 3000.0, "late": 1.0, "age_slope": 0.5, "sick_from_start": 1.0},
        lag_messages=3000.0,
        lag_recent_low=2500.0,
        lag_recent_lowest=2500.0,
        lag_recent_slope=0.5,
        lag_slope=0.5,
        time_lag_seconds=3000.0,
    )


def test_a_processor_that_towers_over_its_peers_is_proof_without_a_good_time() -> None:
    """Ten times as long, and most of all the time; not where it is called so rarely that it takes little of it."""
    lag: dict[str, Any] = {"lag_slope": 1.0, "group_members": 2.0}
    slow = (handler("pdf", 0.150), handler("mail", 0.010), handler("sms", 0.008))
    row = judge([behind(0), behind(1)], processors=slow, **lag)
    assert (row.verdict, row.slow_processors) == (Verdict.SLOW_PROCESSOR, ("pdf",))
    assert row.reasons["one_slow"] == "towers"
    rare = (handler("pdf", 0.150, 0.1), handler("mail", 0.010), handler("sms", 0.008))
    assert judge([behind(0), behind(1)], processors=rare, **lag).slow_processors == ()


LATE = {"waiting": 300.0, "late": 1.0, "moved_ago": 400.0}


@pytest.mark.parametrize(
    ("interval", "last", "dark"), [(15.0, -120.0, ()), (15.0, -140.0, (0,)), (120.0, -150.0, ()), (120.0, -200.0, (0,))]
)
def test_a_lag_that_is_no_longer_measured_is_dark(interval: float, last: float, dark: tuple[int, ...]) -> None:
    """Before it is too old, and also if it was 0: the same source goes on to measure the others, or the ends of their logs."""
    known = {"sample_interval_seconds": interval}
    row = judge([part(0, lag_last_seconds=last), part(1, lag_last_seconds=-1.0)], **known)
    assert row.dark_partitions == dark
    assert row.verdict is (Verdict.CANNOT_TELL if dark else Verdict.HEALTHY)
    hidden = judge([part(number, lag_last_seconds=last) for number in (0, 1)], **known)
    assert bool(hidden.dark_partitions) is bool(dark)


def test_what_nobody_measures_may_have_stopped() -> None:
    """Late when it was last measured: no reason for more consumers."""
    gone = part(0, LATE, lag_messages=None, lag_last_seconds=None, committed_last_seconds=None, time_lag_seconds=None)
    row = judge([gone, *(part(number, lag_last_seconds=-1.0) for number in (1, 2, 3))])
    assert row.standing_partitions == (0,)
    assert row.answers["frozen"] is Answer.CANNOT_TELL


@pytest.mark.parametrize(
    ("quiet", "still", "stopped"), [(150.0, 150.0, ()), (90.0, 150.0, (0, 1)), (200.0, 200.0, (0, 1))]
)
def test_commits_that_stand_with_the_ends_of_the_logs_take_more_samples(
    quiet: float, still: float, stopped: tuple[int, ...]
) -> None:
    """Nothing moves any more: it is a group that has stopped, or an exporter that repeats its last values."""
    story = {"interval": 60.0, "rhythm": 60.0, "quiet": quiet, "waiting": still + 30.0}
    late = {"lag_messages": 80.0, "lag_recent_low": 80.0, "moved_ago_seconds": still, "time_lag_seconds": still + 30.0}
    row = judge([part(number, story, **late) for number in (0, 1)], sample_interval_seconds=60.0)
    assert row.frozen_partitions == stopped
    assert row.reasons["frozen"] == ("stalled" if stopped else "standing")


@pytest.mark.parametrize(("still", "verdict"), [(5.0, Verdict.PRODUCER_BURST), (120.0, Verdict.CANNOT_TELL)])
def test_a_partition_that_may_have_stopped_is_not_known_to_drain(still: float, verdict: Verdict) -> None:
    """Two late partitions have shrunk for long; the commit of one has not moved for two samples, as long as it is not yet a stop."""
    drains = {"waiting": 400.0, "late": 1.0, "age_slope": -0.1, "drain_in": 900.0, "drain_seen": 1200.0, "rhythm": 62.0}
    late = {"lag_messages": 4000.0, "lag_recent_low": 4000.0, "lag_recent_slope": -4.0, "time_lag_seconds": 400.0}
    one = part(0, {**drains, "interval": 60.0}, **late, moved_ago_seconds=5.0)
    other = part(1, {**drains, "interval": 60.0}, **{**late, "lag_recent_slope": 1.0}, moved_ago_seconds=still)
    row = judge([one, other, part(2)], lag_recent_slope=-3.0, sample_interval_seconds=60.0)
    assert row.verdict is verdict
    assert row.reasons["lagging"] == ("keeps_up" if verdict is Verdict.PRODUCER_BURST else "behind")


@pytest.mark.parametrize(
    ("slope", "said"), [(1.9, "growing"), (2.6, "growing"), (3.2, "unknown"), (4645.0, "unknown"), (0.1, "steady")]
)
def test_no_lag_is_said_to_grow_faster_than_messages_arrive(slope: float, said: str) -> None:
    """One misread sample makes a line steep; two messages arrive a second."""
    behind = {"time_lag_seconds": 3.0, "lag_messages": 6.0}
    for known in (behind, {**behind, "time_lag_seconds": None}):
        row = judge([part(0), part(1)], lag_slope=slope, lag_recent_slope=slope, arrival_per_second=2.0, **known)
        words = lagging.words(row)
        assert said in words
        assert ("growing" in words) is (said == "growing")


@pytest.mark.parametrize("leapt", [None, 60_000.0])
def test_what_commits_passed_on_the_way_to_the_end_is_told_beside_what_was_deleted(leapt: float | None) -> None:
    """Retention took some, and the next commit was at the end: that is most of the loss."""
    story = {"lost": 10_000.0, "lost_from": 5.0, "lost_ago": 300.0, **({"leapt": leapt} if leapt is not None else {})}
    row = judge([part(0, story), part(1)])
    assert row.verdict is Verdict.RECORDS_LOST
    for said in (leaf_of(row.verdict).headline(row), TREE["lost"].words(row)):
        assert "deleted 10 k" in said
        assert ("passed 60 k more to the log's end" in said) is (leapt is not None)


@pytest.mark.parametrize("whole", [40.0, 3.0, -1.0])
@pytest.mark.parametrize("arriving", [0.5, 1.0, 30.0])
def test_what_catches_up_is_nowhere_said_to_grow_nor_to_be_a_burst(whole: float, arriving: float) -> None:
    """It grew for most of the time, and has turned; whatever left the backlog, arrivals that did not rise are no burst."""
    drains = {"waiting": 400.0, "late": 1.0, "age_slope": -0.1, "drain_in": 900.0, "drain_seen": 300.0, "rhythm": 12.0}
    late = {"lag_messages": 4000.0, "lag_recent_low": 4000.0, "lag_slope": whole, "lag_recent_slope": -4.0}
    parts = [part(it, drains, **late, time_lag_seconds=400.0) for it in (0, 1)]
    row = judge(
        parts,
        lag_slope=2 * whole,
        lag_recent_slope=-8.0,
        arrival_per_second=2 * arriving,
        arrival_baseline_per_second=2.0,
        time_lag_seconds=400.0,
        oldest=OldestMessage(
            time_lag_seconds=400.0, time_lag_low=None, time_lag_high=None, time_lag_method="exact_record", partition=0
        ),
    )
    assert row.verdict is Verdict.PRODUCER_BURST
    said = [leaf_of(row.verdict).headline(row), lagging.words(row), TREE["draining"].words(row)]
    assert all("shrink" in it or "pace" in it for it in said)
    assert "grow" not in " ".join(said)
    assert ("burst" in " ".join(said)) is (arriving > 1.0)


@pytest.mark.parametrize(("slope", "behind"), [(3.0, (0,)), (-3.0, ())])
def test_who_is_not_late_and_catches_up_is_not_behind(slope: float, behind: tuple[int, ...]) -> None:
    """On the way to being late is only what does not shrink."""
    soon = part(0, {"waiting": 90.0}, lag_messages=90.0, lag_recent_low=60.0, lag_recent_slope=slope)
    assert judge([soon, part(1), part(2)]).behind_partitions == behind


@pytest.mark.parametrize(
    ("rate", "before", "surely"), [(2.0, 1.0, True), (2.0, 2.0, False), (2.0, None, False), (3.5, None, True)]
)
def test_who_always_gets_more_is_not_hot_for_that(rate: float, before: float | None, surely: bool) -> None:
    """More than the others proves it if it was less before; if that is not known, only far more does."""
    late = {"waiting": 300.0, "late": 1.0}
    known = {
        "lag_messages": 600.0,
        "lag_recent_low": 500.0,
        "lag_recent_slope": 1.0,
        "arrival_baseline_per_second": before,
    }
    one = part(0, late, **known, arrival_per_second=rate)
    row = judge([one, part(1), part(2), part(3)], arrival_baseline_per_second=4.0, throttle_seconds=0.0)
    assert row.surely_hot is surely


def test_each_of_several_hot_partitions_gets_more() -> None:
    """One of them that gets as much as any other is behind for another reason."""
    late = {"waiting": 300.0, "late": 1.0}
    known = {"lag_messages": 600.0, "lag_recent_low": 500.0, "lag_recent_slope": 1.0}
    others = [part(number) for number in range(2, 9)]
    both = [part(number, late, **known, arrival_per_second=rate) for number, rate in ((0, 2.0), (1, 1.0))]
    assert judge([*both, *others]).hot_arrival_ratio == pytest.approx(1.0)
    assert judge([both[0], replace(both[1], arrival_per_second=1.8), *others]).hot_arrival_ratio == pytest.approx(1.8)


@pytest.mark.parametrize(("ago", "verdict"), [(25.0, Verdict.CANNOT_TELL), (100.0, Verdict.HEALTHY)])
def test_a_log_that_has_just_begun_anew_is_no_all_clear(ago: float, verdict: Verdict) -> None:
    """A commit above its end needs three samples to be known; until then nobody knows."""
    row = judge([part(0, {"recreated_ago": ago}), part(1)])
    assert (row.verdict, row.reasons["reset"] == "anew") == (verdict, verdict is Verdict.CANNOT_TELL)


@pytest.mark.parametrize(("fact", "lag"), [("skipped", True), ("skipped", False), ("lost", True), ("lost", False)])
def test_what_was_lost_an_hour_ago_hides_no_action_for_what_lags_now(fact: str, lag: bool) -> None:
    """It leads, as it is proven; who reads its actions finds those for the group that has stopped since, too, and each of them once."""
    story = {fact: 4000.0, f"{fact}_from": 100.0, f"{fact}_ago": 3000.0, "skip_read": 0.0, "skip_alone": 1.0}
    late = {"lag_messages": 400.0, "lag_recent_low": 100.0, "lag_slope": 1.0, "time_lag_seconds": 400.0} if lag else {}
    stands = {"waiting": 400.0, "late": 1.0, "age_slope": 1.0, "moved_ago": 400.0} if lag else {}
    parts = [part(it, {**story, **stands}, **late, moved_ago_seconds=stands.get("moved_ago", 5.0)) for it in (0, 1)]
    members = 0.0 if lag else 2.0
    row = judge(
        parts, group_members=members, group_members_recent=members, usual_fewest_members=2.0, lag_recent_low=400.0
    )
    titles = [action.title for action in build_finding(row, profiles=[]).actions]
    assert row.verdict is Verdict.RECORDS_LOST
    assert any("Start them again" in it or "Check whether the consumers run" in it for it in titles) is lag
    assert len(set(titles)) == len(titles)


@pytest.mark.parametrize(
    ("quiet", "last", "verdict"),
    [
        (270.0, -35.0, Verdict.PRODUCER_SILENT),
        (270.0, -20.0, Verdict.HEALTHY),
        # A sample that is overdue says nothing: the time between two of them is what may have passed.
        (230.0, -80.0, Verdict.HEALTHY),
        (250.0, -80.0, Verdict.PRODUCER_SILENT),
        (250.0, None, Verdict.HEALTHY),
        (310.0, None, Verdict.PRODUCER_SILENT),
    ],
)
def test_silence_lasts_until_now(quiet: float, last: float | None, verdict: Verdict) -> None:
    """Not until the last sample: of a producer that is silent for 6 min, samples of each minute show little more than 4."""
    parts = [part(number, {"quiet": quiet, "usual_gap": 60.0}, log_end_last_seconds=last) for number in (0, 1)]
    row = judge(parts, sample_interval_seconds=60.0)
    assert row.verdict is verdict, row.silent_for_seconds


@pytest.mark.parametrize(
    ("throttle", "still", "answer"),
    [
        (0.00007, 60.0, Answer.CANNOT_TELL),  # its next answer may tell of a pause
        (0.0, 60.0, Answer.NO),  # the broker does not throttle it
        (0.00007, 1.0, Answer.NO),  # it reads, and is told how long it waits
        (0.00007, 300.0, Answer.NO),  # no broker lets a client wait for so long
    ],
)
def test_a_client_without_answers_measures_no_throttle(throttle: float, still: float, answer: Answer) -> None:
    """A broker makes a client wait after an answer, and the mean of those before says nothing of the wait."""
    story = {"interval": 15.0, "rhythm": 5.0, "quiet": 0.0, "waiting": still + 5.0, "late": 1.0}
    late = {"lag_messages": 900.0, "lag_recent_low": 800.0, "moved_ago_seconds": still, "cadence_seconds": 5.0}
    parts = [part(number, story, **late, time_lag_seconds=still + 30.0, lag_slope=20.0) for number in (0, 1)]
    row = judge(parts, throttle_seconds=throttle, lag_slope=40.0)
    assert row.answers["throttled"] is answer

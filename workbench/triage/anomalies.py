"""Outliers: partitions, processors and queues compared with their peers and their own baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import zip_longest
from typing import TYPE_CHECKING

from workbench.expectations import NOTHING_EXPECTED, Expectations
from workbench.features.lag import stale_seconds
from workbench.features.summary import NOW, lower_median, ratio
from workbench.spark.columns import extend
from workbench.triage import batch
from workbench.triage.membership import SOONEST_SECONDS, membership
from workbench.triage.offset_events import events
from workbench.triage.own_work import judged_work, measured_work, told_by_partitions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from workbench.settings import Thresholds


def with_suspects(
    features: DataFrame,
    thresholds: Thresholds,
    expectations: Expectations = NOTHING_EXPECTED,
    *,
    at: datetime | None = None,
) -> DataFrame:
    """Add the columns that the questions of the tree test.

    Args:
        features: of `features.subscriptions`.
        thresholds: of the tree.
        expectations: objectives, commit intervals and batches of single groups.
        at: the window's end; without it, no group is a batch.

    Returns:
        `features` with, among others, the booleans `late`, `growing`, `stalled`, `draining`, `one_slow`, and the arrays
        `stuck_partitions`, `hot_partitions` (numbers), `slow_processors` (names), `hot_queues`, `full_queues` (structs).
    """
    objective = expectations.sql("time_lag_objective", thresholds.time_lag_objective_seconds)
    commit_every = expectations.sql("commit_every", thresholds.commit_every_seconds)
    first = {
        "objective_seconds": objective,
        "commit_every_seconds": commit_every,
        "stale_seconds": stale_seconds(thresholds.stale_after_seconds, "sample_interval_seconds"),
        # Four of the later columns need it.
        "frozen_partitions": f"transform(filter(partitions, p -> {_frozen(objective, commit_every)}), p -> p.partition)",
        **batch.due(expectations, at, objective, thresholds.time_lag_objective_seconds),
    }
    features = extend(features, {**first, **measured_work()})
    features = extend(features, judged_work(thresholds))
    stages = [
        _lag(thresholds),
        _partitions(thresholds),
        membership(thresholds),
        _queues(thresholds),
        _processors(thresholds),
        [_NOTHING, _NOTHING, _NOTHING, told_by_partitions()],
    ]
    for columns in zip_longest(*stages, fillvalue=_NOTHING):  # columns of one stage do not depend on each other
        features = extend(features, {name: sql for part in columns for name, sql in part.items()})
    return features


_IS_FROZEN = "array_contains(frozen_partitions, p.partition)"
_SECOND_LOW = 1.5  # times the floor
_NOTHING: Mapping[str, str] = {}
_Stages = Sequence[Mapping[str, str]]


def _lag(t: Thresholds) -> _Stages:
    """Late, growing, draining, abandoned: the parts of "is it lagging".

    The stories of the partitions (`chronicle`) say who is late beyond its own cadence. Without them (a sweep's first pass) the lows of
    the window's last third decide: commits at long intervals make a sawtooth whose lows return to nearly 0.
    """
    # A group that commits every ten minutes is up to ten minutes behind in the best of times.
    floor = f"({t.growth_floor_ratio} * objective_seconds + commit_every_seconds)"
    # The lag divided by the arrival rate replaces the time lag where that is not known, or has a single sample.
    waited = _waited("p.lag_recent_low", "p.arrival_per_second")
    # Where the last third has no sample, the whole window has to do.
    surely = _waited("coalesce(p.lag_recent_low, p.lag_low)", "p.arrival_per_second", at_least=True)
    lowest = _waited("p.lag_recent_lowest", "p.arrival_per_second")
    objective = "(objective_seconds + commit_every_seconds)"
    # Between two commits of a sawtooth there is at least one low near 0, and a second one not much above it.
    kept_up = f"({{lowest}} <= {floor} AND {{second}} <= {_SECOND_LOW} * {floor})"
    by_lows = (
        f"(p.time_lag_seconds > {objective} AND NOT coalesce({kept_up.format(lowest=lowest, second=waited)}, false))"
        f" OR coalesce({surely} > {objective}, CASE WHEN p.time_lag_seconds IS NOT NULL THEN false END)"
    )
    rhythm = "CASE WHEN commit_every_seconds > 0 THEN commit_every_seconds ELSE coalesce(p.cadence_seconds, 0) END"
    # Two views of the same: when what waits was produced, and how long arrivals take to make so much of it.
    late = f"{_IS_FROZEN} OR coalesce(p.story['late'] = 1 OR coalesce({surely} > objective_seconds + {rhythm}, false), {by_lows})"
    # Empty, or never committed with no arrivals: nothing can be late there.
    idle = (
        f"coalesce(p.log_end <= p.log_start, false) OR {_IS_TAIL}"
        " OR (coalesce(p.lag_ever_samples, 0) = 0 AND coalesce(p.arrival_per_second = 0, false))"
    )
    half = f"{t.growth_floor_ratio} * objective_seconds"
    share = f"{t.growth_ratio} * greatest(arrival_per_second, 1)"
    # A sum hides the partition that does not shrink.
    behind = f"p.time_lag_seconds > {objective} AND p.lag_messages > 0"
    not_shrinking = f"{_IS_FROZEN} OR ({behind} AND p.lag_slope > 0 AND p.lag_recent_slope > 0)"
    to_drain = ratio("lag_messages", "-least(lag_slope, coalesce(lag_recent_slope, lag_slope))")
    bound = f"greatest({_LONGEST_DRAIN_SECONDS}, 2 * coalesce(time_lag_seconds, 0))"
    by_sum = (
        f"((lag_slope < -({share}) AND coalesce(lag_recent_slope < 0, true)) OR burst_over)"
        " AND committed_moved > 0 AND coalesce(all_shrink, true)"
        f" AND coalesce({to_drain} <= {bound}, true)"
    )
    # Of every partition that is behind, and not of their sum.
    each_drains = (
        f"size(frozen_partitions) = 0 AND eta_drain_seconds <= {bound} AND coalesce(lag_recent_slope < 0, true)"
    )
    late_and_known = f"filter(partitions, p -> p.story['late'] = 1 AND NOT {_IS_TAIL})"
    behind_and_known = (
        f"filter(partitions, p -> (p.story['late'] = 1 OR p.story['waiting'] > {half} + {rhythm}) AND NOT {_IS_TAIL})"
    )
    going = f"filter({behind_and_known}, p -> NOT {_IS_FROZEN})"
    # The time lag is of now: since the last sample it may have caught up, if it was moving then and not far behind.
    unproven = (
        f"NOT ({idle}) AND p.lag_messages > 0 AND p.time_lag_seconds > objective_seconds + {rhythm}"
        f" AND (p.moved_ago_seconds + p.committed_last_seconds > 0 OR coalesce(p.story['waiting'] > {half}, true)"
        f" OR coalesce(-p.committed_last_seconds > {_OVERDUE_SAMPLES} * p.committed_interval_seconds, false))"
    )
    outages = f"coalesce(exists(partitions, p -> p.story['outages'] >= {_SEVERAL}), false)"
    ran, missed = batch.missed(idle, _waited("p.lag_messages", "p.arrival_per_second"))
    return [
        {
            # The D and the 1e-9: as a decimal, a third of 12 would be 3.9999 and become 3.
            "few_partitions": f"greatest(1, floor(partition_count * {t.few_partitions_ratio!r}D + 1e-9D))",
            "all_shrink": f"NOT exists(partitions, p -> {not_shrinking})",
            "late": f"exists(partitions, p -> NOT ({idle}) AND ({late}))",
            # The burst has ended and the lag shrinks: it is draining.
            "burst_over": f"arrival_recent_per_second < {t.burst_over_ratio} * arrival_per_second AND lag_recent_slope < -({share})",
            "waited_seconds": _waited("lag_recent_low", "arrival_per_second", at_least=True),
            "waited_lowest_seconds": _waited("lag_recent_lowest", "arrival_per_second", at_least=True),
            # A count of members that has always been 0 counts something else, and so does one that is 0 while commits move.
            "abandoned": "lag_messages > 0 AND lag_recent_low > 0 AND"
            " ((group_members_recent = 0 AND (count_disproved IS NULL OR size(frozen_partitions) > 0)"
            f" AND coalesce(usual_members >= {_SOMEBODY}, true) AND NOT {_moving_now()})"
            " OR (live_members = 0 AND baseline_members > 0 AND committed_recent_per_second = 0"
            # A batch that ends its process each time is expected to commit no more often.
            " AND (commit_every_seconds = 0 OR late)))",
            "eta_drain_seconds": f"CASE WHEN forall({behind_and_known}, p -> {_DRAINS} IS NOT NULL)"
            f" THEN array_max(transform({behind_and_known}, p -> {_DRAINS})) END",
            "comes_and_goes": f"exists(partitions, p -> p.story['late_times'] >= {_SEVERAL - 1}"
            f" OR p.story['pauses'] >= {_SEVERAL} AND p.story['pause_share'] >= {_OFTEN}) OR {outages}",
            "outages": outages,
            # The oldest events of late partitions have been read and wait inside, while commits move: the consumer's side is the limit.
            "held_inside": f"size({going}) > 0 AND 2 * size(filter({going},"
            f" p -> p.oldest_incomplete_seconds >= {_HELD} * p.story['waiting'])) > size({going})",
            # Late all the time, and no more or less so: on purpose, or for longer than the data show.
            "steady": f"size({late_and_known}) > 0 AND size(frozen_partitions) = 0"
            f" AND size({late_and_known}) = size(filter(partitions, p -> NOT ({idle})))"
            f" AND forall({late_and_known}, p -> coalesce(p.story['steady'] = 1, false))",
            "moving_now": _moving_now(),
            "by_client": "exists(partitions, p -> p.story['by_client'] = 1)",
            # A paused client fetches nothing, and its own lag stays as it was: only one that changes is known.
            "unseen": "coalesce(exists(partitions, p -> p.story['by_client'] = 1 AND coalesce(p.lag_recent_slope = 0, true))"
            " AND NOT forall(filter(members, m -> m.live), m -> m.paused_mean IS NOT NULL), false)",
            # Measured before, and no more, while others are: a log without a leader, or a client that has gone with its partitions.
            "dark_partitions": "transform(filter(partitions, p -> p.lag_messages IS NULL AND p.lag_ever_samples > 0),"
            " p -> p.partition)",
            "unmoved_partitions": f"transform(filter(partitions, p -> {_UNMOVED}), p -> p.partition)",
            "just_resumed": f"size({late_and_known}) > 0 AND forall({late_and_known}, p -> coalesce(p.story['resumed'] = 1, false))",
            "unproven": f"coalesce(exists(partitions, p -> p.story IS NOT NULL AND {unproven}), false)",
            # It stood still before the data began, and usually has no members: when it is due is not known.
            "batch_perhaps": f"coalesce(usual_members < {_SOMEBODY} AND late"
            " AND exists(partitions, p -> p.story['silent_before'] >= 0.3 * p.story['waiting']), false)",
            "behind_partitions": f"transform(filter({behind_and_known}, p -> NOT ({idle}) AND {_DRAINS} IS NULL),"
            " p -> p.partition)",
            "recovered_seconds": "array_min(transform(filter(partitions, p -> p.story['late_to'] IS NOT NULL),"
            " p -> -p.story['late_to']))",
            **ran,
        },
        {
            "growing": f"lag_slope > {share} AND lag_messages > 0"
            f" AND NOT {kept_up.format(lowest='waited_lowest_seconds', second='waited_seconds')}"
            " AND NOT coalesce(burst_over, false)"
            # Between two commits every lag grows.
            f" AND coalesce(exists(partitions, p -> greatest(p.story['waiting'], {waited}) > {rhythm} + {half}"
            # With more arrivals the lag of a constant delay grows, too.
            f" AND coalesce(p.story['age_slope'] > {t.growth_ratio / 2}, true)), true)",
            # An end that is days away, or after the loss of messages, calms nobody.
            "draining": f"(CASE WHEN size({behind_and_known}) > 0 THEN {each_drains} ELSE late AND {by_sum} END)"
            f" AND coalesce(coalesce(eta_drain_seconds, {to_drain}) < loss_seconds, true)"
            # A run that is in time is no burst.
            " AND coalesce(batch_due_seconds IS NULL OR batch_late, true)",
            **missed,
        },
    ]


_TURNS = 2.0  # times the longest turn so far: with a growing backlog, the next is longer
_NO_TURN = 1.25  # times
_PASSED = 3  # times: each other one may have had a turn, and begun the next
_SCRAPES = 2  # one may fall between two commits
_SURELY = 5  # times the shortest freeze: no handler holds its commits for so long
_LONGEST_PAUSE_SECONDS = 300.0  # of a quota
_LONGEST_DRAIN_SECONDS = 3600.0
_APART = 1.5  # times the typical lag
_OF_HIGHEST = 0.1  # what has a tenth of the highest lag is not what the lag is about
_JUST_NOW = 1.5  # samples
_OVERDUE_SAMPLES = 2.5  # since the last one: what a commit did then says nothing of now
_LONG_UNMOVED_SECONDS = 1800.0
_SOMEBODY = 0.5  # of a member, on average
_SEVERAL, _OFTEN = 3, 0.15  # stretches in the window, and their share of it
# Where partitions take turns, the lag shrinks in each one's turn, and may grow all the same: two turns show it.
# What has begun to grow again does not, however long it shrank. (The age alone may grow: all of a burst was produced at one time.)
_DRAINS = (
    "(CASE WHEN 2 * coalesce(p.story['turn'], 0) <= p.story['drain_seen'] "
    " AND NOT coalesce(p.story['age_slope'] > 0 AND p.lag_recent_slope > 0, false) THEN p.story['drain_in'] END)"
)
# A record that nobody gets past, or records of an aborted transaction, which nobody is given: an open one is known by its last stable
# offset.
_UNMOVED = (
    f"coalesce(p.story['unmoved'] >= {_LONG_UNMOVED_SECONDS} AND NOT coalesce(p.last_stable < p.log_end, false), false)"
)
_IS_TAIL = f"(coalesce(p.story['idle'] = 1, false) OR {_UNMOVED})"


def _moving_now() -> str:
    """SQL for whether any commit has moved in the last two samples (an exporter's count of members may be older than that)."""
    recently = (
        f"p.moved_ago_seconds + p.committed_last_seconds <= {_JUST_NOW} * coalesce(p.committed_interval_seconds, 0)"
    )
    return f"exists(partitions, p -> coalesce({recently}, false))"


def _frozen(objective: str, commit_every: str) -> str:
    """SQL for a partition whose commit has stopped, for twice its usual rhythm, while messages wait as long.

    Without a rhythm (no commit has moved, and none is expected) this is not known, and counts as false. Where partitions take turns,
    it has to stand still for longer than a turn; under a quota, others have to pass it again and again.
    """
    learned = "greatest(p.cadence_seconds, coalesce(p.story['rhythm'], p.cadence_seconds))"
    rhythm = f"CASE WHEN {commit_every} > 0 THEN {commit_every} ELSE {learned} END"
    patience = (
        f"greatest(2 * ({rhythm}), {_SCRAPES} * coalesce(p.committed_interval_seconds, 0),"
        f" least({objective}, {SOONEST_SECONDS}), "
        # What others have passed so often is not waiting for its turn, once that would be longer than any that has ended.
        f" coalesce(p.story['turn'], 0) * CASE WHEN coalesce(p.story['passed'], 0) >= {_PASSED} THEN {_NO_TURN} ELSE {_TURNS} END,"
        # Under a quota a member's partitions are served one after the other, each after a pause.
        f" coalesce(throttle_seconds, 0) * ({_TURNS} + coalesce(partition_count / nullif(group_members, 0), 1)))"
    )
    # Up to the last sample: what came after it is not known.
    still = "(coalesce(p.moved_ago_seconds, p.committed_since_seconds) + p.committed_last_seconds)"
    waiting = "coalesce(p.story['waiting'], p.time_lag_seconds)"
    in_line = (
        "coalesce((throttle_seconds > 0 OR throttle_seconds IS NULL AND arrival_per_second > read_quota_per_second) AND"
        f" p.story['passed'] < {_PASSED}"
        f" AND {still} < {_LONGEST_PAUSE_SECONDS}, false)"
    )
    return (
        f"coalesce(p.committed IS NOT NULL AND p.lag_messages > 0 AND NOT {_IS_TAIL}"
        f" AND ({rhythm}) IS NOT NULL AND {still} >= {patience} AND NOT {in_line}"
        f" AND coalesce({waiting} >= {patience}, p.lag_recent_lowest > 0), false)"
    )


def _waited(low: str, arrival: str, *, at_least: bool = False) -> str:
    """SQL for the time that the arrivals took to make this lag: 0 without lag, null for a lag without arrivals.

    The oldest of n messages arrived at least n - 1 intervals ago (`at_least`), and at most n. With rare messages this is the difference
    between now and a minute ago.
    """
    oldest = f"greatest({low} - 1, 0)" if at_least else low
    return f"CASE WHEN {low} = 0 THEN 0D ELSE {ratio(oldest, arrival)} END"


def _partitions(t: Thresholds) -> _Stages:
    """Stuck partitions: frozen, and nothing in the consumer explains it. Hot partitions: far more lag than is typical."""
    floor = f"({t.growth_floor_ratio} * objective_seconds + 2 * greatest(commit_every_seconds, coalesce(p.cadence_seconds, 0)))"
    # Slow events hold commits up for a while, too: with full queues, only a partition that has not moved in the whole time is stuck.
    # In a short window (or with a long commit interval) a missing commit proves nothing; hence the age.
    full = f"exists(queues, q -> coalesce(q.fill >= {t.queue_fill_ratio}, false))"
    longer = f"p.moved_ago_seconds >= {_SURELY} * least(objective_seconds, {SOONEST_SECONDS})"
    # Nor is it a slow event if its consumer waits for records.
    quiet = f"CASE WHEN size(queues) > 0 AND NOT {full} THEN true WHEN queueless AND NOT own_work THEN true ELSE {longer} END"
    stuck = (
        f"NOT {_IS_TAIL} AND CASE WHEN p.story['moved_ago'] IS NOT NULL THEN {_IS_FROZEN} AND {quiet}"
        " ELSE p.lag_recent_low > 0 AND p.committed_moved = 0 AND p.committed_samples >= 3"
        f" AND coalesce(p.time_lag_seconds > {floor}, true) END"
    )
    silent = "p.lag_recent_low > 0 AND coalesce(p.committed_samples, 0) < 3"
    mean = "aggregate(lags, 0D, (sum, x) -> sum + x) / size(lags)"
    # What has about as much as the others is not apart from them.
    apart = (
        "array_contains(behind_partitions, p.partition)"
        " AND NOT array_contains(array_union(frozen_partitions, stuck_partitions), p.partition)"
        f" AND coalesce(p.lag_messages > {_APART} * typical_lag, true)"
    )
    # What has stopped, or may have, is not hot.
    hot = (
        f"p.lag_messages > {t.hot_factor} * typical_lag AND p.lag_messages > {t.hot_floor_messages}"
        f" AND p.lag_messages >= {_OF_HIGHEST} * highest_lag"
        " AND NOT array_contains(standing_partitions, p.partition)"
        f" AND NOT {_IS_FROZEN} AND NOT array_contains(stuck_partitions, p.partition)"
    )
    return [
        {
            "stuck_partitions": f"transform(filter(partitions, p -> {stuck}), p -> p.partition)",
            "moving_partitions": f"size(filter(partitions, p -> p.committed_moved > 0 AND NOT {_IS_FROZEN}))",
            "standing_partitions": f"transform(filter(partitions, p -> {_standing()}), p -> p.partition)",
            "silent_partitions": f"size(filter(partitions, p -> {silent}))",
            "new_partitions": f"size(filter(partitions, p -> p.first_period = {NOW}))",
            "lags": "array_compact(transform(partitions, p -> cast(p.lag_messages AS double)))",
        },
        {
            "stuck_count": "size(stuck_partitions)",
            "stalled": "size(stuck_partitions) > 0 OR size(frozen_partitions) > 0",
            **events(t),
            "frozen_count": "size(frozen_partitions)",
            "typical_lag": f"CASE WHEN size(lags) > 0 THEN least({mean}, {lower_median('lags')}) END",
            "highest_lag": "array_max(lags)",
        },
        {
            # A few that fall behind while the others keep up or catch up; or far more lag than is typical.
            "hot_partitions": "CASE WHEN size(behind_partitions) BETWEEN 1 AND least(few_partitions, partition_count - 1)"
            f" THEN transform(filter(partitions, p -> {apart}), p -> p.partition)"
            f" ELSE transform(filter(partitions, p -> {hot}), p -> p.partition) END",
            "stall_cause": _stall_cause(t),
            "few_have_paused": "size(behind_partitions) BETWEEN 1 AND least(few_partitions, partition_count - 2)"
            " AND forall(filter(partitions, p -> array_contains(behind_partitions, p.partition)),"
            " p -> coalesce(p.moved_ago_seconds + p.committed_last_seconds > 0, true))",
        },
        {"hot_count": "size(hot_partitions)"},
    ]


def _standing() -> str:
    """SQL for a partition that may have stopped: no commit for longer than usual, and not long enough to be sure."""
    still = "(p.moved_ago_seconds + p.committed_last_seconds)"
    usual = "1.5 * greatest(coalesce(p.committed_interval_seconds, 0), coalesce(p.cadence_seconds, 0), coalesce(p.story['turn'], 0))"
    return (
        f"coalesce(p.lag_messages > 0 AND NOT {_IS_TAIL} AND NOT {_IS_FROZEN} AND {still} > {usual}"
        f" AND {still} >= least(objective_seconds, {SOONEST_SECONDS}) / 2 AND p.story['waiting'] > 0.8 * {still}, false)"
    )


_READ_ON = 0.7  # of what arrives in the judged time, some of which is before the stop
_HELD = 0.5  # of the age of what waits
_MARKS = 2  # of transactions, which no consumer is given, before the one that is open


def _stall_cause(t: Thresholds) -> str:
    """SQL for why partitions stand still, by what goes on in their consumers; null where that is not measured."""
    still = "array_union(frozen_partitions, stuck_partitions)"
    them = f"filter(partitions, p -> array_contains({still}, p.partition))"
    # Everything that may be read has been read.
    blocked = f"filter({them}, p -> p.last_stable < p.log_end AND p.committed BETWEEN p.last_stable - {_MARKS} AND p.last_stable)"
    held = f"filter({them}, p -> p.oldest_incomplete_seconds >= {_HELD} * p.story['waiting'])"
    entered = f"aggregate({them}, 0D, (sum, p) -> sum + p.enqueue_count)"
    arrived = f"aggregate({them}, 0D, (sum, p) -> sum + p.arrived)"
    attempts = "aggregate(processors, 0D, (sum, p) -> sum + coalesce(p.attempts, 0))"
    everywhere = "aggregate(partitions, 0D, (sum, p) -> sum + coalesce(p.arrived, 0))"
    # Without entry times only all of it together can be compared.
    all_of_it = f"CASE WHEN moving_partitions = 0 AND size(processors) > 0 THEN {ratio(attempts, everywhere)} END"
    read = f"coalesce({ratio(entered, arrived)}, {all_of_it})"
    # The same record again and again.
    again = (
        "exists(processors, p -> p.retries >= 3"
        " AND p.retries * p.baseline_attempts > 3 * coalesce(p.baseline_retries, 0) * p.attempts)"
    )
    paused = "exists(members, m -> m.live AND m.paused_mean >= 0.5)"
    # Without their number, partitions that somebody has paused look the same as a client that stalls.
    told = "exists(members, m -> m.live AND m.paused_mean IS NOT NULL)"
    return f"""CASE WHEN size({still}) = 0 THEN NULL
        WHEN size({held}) > 0 AND size({held}) <= few_partitions THEN 'poison_record'
        WHEN 2 * size({blocked}) > size({still}) THEN 'open_transaction'
        WHEN {read} >= {_READ_ON} THEN 'commit_fails'
        WHEN {again} AND size({still}) <= few_partitions THEN 'poison_record'
        WHEN {paused} AND NOT coalesce(queue_fill >= {t.queue_fill_ratio}, false) THEN 'paused'
        WHEN {read} < {_READ_ON} AND size({held}) = 0 AND polling AND {told} THEN 'client_stalled' END"""


def _queues(t: Thresholds) -> _Stages:
    """Full queues; a hot queue is full while most others of its processor and member are idle."""
    full = f"q.fill >= {t.queue_fill_ratio}"
    siblings = "filter(queues, o -> o.processor = q.processor AND o.member = q.member AND o.queue != q.queue)"
    idle = f"filter({siblings}, o -> o.fill <= {t.idle_queue_ratio})"
    return [
        {
            "busy_share": ratio(
                "aggregate(processors, 0D, (sum, p) -> sum + coalesce(p.rate_per_second * p.process_seconds, 0))",
                "size(queues)",
            ),
            "queue_fill": "array_max(transform(queues, q -> q.fill))",
            "full_queues": f"filter(queues, q -> {full})",
            "hot_queues": f"filter(queues, q -> {full} AND size({siblings}) > 0 AND 2 * size({idle}) > size({siblings}))",
        },
        {
            "full_queue_count": "CASE WHEN queue_fill IS NOT NULL THEN size(full_queues) END",
            "hot_queue_count": "CASE WHEN queue_fill IS NOT NULL THEN size(hot_queues) END",
            "delay_full": f"delay_fill >= {t.delay_fill_ratio} AND delay_high >= {t.delay_high_ratio}",
            "queue_long": f"queue_fill >= {t.queue_fill_ratio}",
            "entry_slow": f"enqueue_mean_seconds >= {t.enqueue_seconds}"
            f" AND enqueue_mean_seconds >= {t.enqueue_ratio} * coalesce(enqueue_baseline_seconds, 0)",
        },
    ]


def _processors(t: Thresholds) -> _Stages:
    """Slow processors: compared with their own baseline first, then with the slow-down of their peers."""
    peers = "transform(filter(processors, o -> o.processor != p.processor AND o.attempts > 0), o -> o.slow_down)"
    # A slow processor with an empty queue delays nothing.
    held_up = f"coalesce(p.fill >= {t.queue_fill_ratio} OR held_inside, true)"
    slow = (
        f"p.slow_down >= {t.slow_ratio} AND {held_up}"
        f" AND p.slow_down >= {t.slow_peers_ratio} * coalesce({lower_median(peers)}, 0)"
    )
    others = "filter(processors, p -> p.processor != slowest.processor AND p.attempts > 0)"
    return [
        {
            "slow_processors": f"transform(filter(processors, p -> {slow}), p -> p.processor)",
            "unknown_count": f"size(filter(processors, p -> p.attempts > 0 AND p.slow_down IS NULL AND {held_up}))",
            "known_count": "size(filter(processors, p -> p.slow_down IS NOT NULL))",
            "slowest": "array_max(transform(filter(processors, p -> p.slow_down IS NOT NULL), p -> struct("
            "p.slow_down AS slow_down, p.processor AS processor, p.process_seconds AS process_seconds,"
            " p.baseline_seconds AS baseline_seconds, p.attempts AS attempts)))",
            "median_slow_down": lower_median("transform(processors, p -> p.slow_down)"),
        },
        {
            # If more than half of them are slow, it is no longer "one": the question about all of them covers that.
            "one_slow": "CASE WHEN size(slow_processors) > 0 AND (2 * size(slow_processors) <= size(processors)"
            " OR size(processors) = 1) THEN true WHEN known_count = 0 OR unknown_count > 0 THEN NULL ELSE false END",
            "slowest_seconds": "slowest.process_seconds",
            "slowest_baseline_seconds": "slowest.baseline_seconds",
            "slowest_slow_down": "slowest.slow_down",
            "peers_seconds": lower_median(f"transform({others}, p -> p.process_seconds)"),
            "peers_slow_down": lower_median(f"transform({others}, p -> p.slow_down)"),
        },
    ]

"""Measured features of a subscription, declared once: the SQL of `subscription_features` makes these fields, Python reads them.

Names include the unit (`_seconds`, `_per_second`, `_messages`), fills are 0 to 1, and unknown values are None.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFeatures:
    """Features of a partition, as the group reads it, in the order of their numbers.

    Attributes:
        committed, log_end, log_start, last_stable: offsets; `committed`, `lag_messages` and `last_stable` only with a recent sample,
        `last_stable` (where the oldest open transaction begins, or else the log's end) only of what stands still,
        `local_start` where the broker's own disk begins: what is before it is in remote storage alone.
        lag_recent_low: the second lowest lag in the window's last third.
        lag_ever_samples, committed_high, ever_arrived: including the baseline.
        log_end_last_seconds: time of the last sample of the log's end, relative to the window's end, 0 or less.
        first_period: the quarter of the baseline with its first sample; `features.summary_schema.NOW` for the window.
        committed_interval_seconds: time between two samples of the commit.
        assigned: 1 if a member of the group has it, 0 if none has; None if the coordinator was not asked.
        committed_last_seconds: time of its last sample, relative to the window's end, 0 or less.
        committed_since_seconds, moved_ago_seconds: since the first sample of the commit, and since its last change (None: never).
        cadence_seconds: the usual longest time between two commits, by the baseline; None without changes in it.
        story: facts of `history.partition_series.PartitionHistory`, by name; booleans as 0 and 1. None in a sweep's first pass.
        time_lag_method: method of the time lag (`features.timelag`), with its bounds in `time_lag_low` and `time_lag_high`.
    """

    partition: int
    committed: float | None
    log_end: float | None
    log_start: float | None
    last_stable: float | None
    local_start: float | None
    lag_messages: float | None
    lag_mean: float | None
    lag_slope: float | None
    lag_recent_low: float | None
    lag_recent_slope: float | None
    lag_samples: int | None
    lag_ever_samples: int | None
    committed_high: float | None
    lag_bad_samples: int | None
    lag_last_seconds: float | None
    committed_moved: float | None
    committed_samples: int | None
    committed_interval_seconds: float | None
    committed_since_seconds: float | None
    committed_last_seconds: float | None
    moved_ago_seconds: float | None
    cadence_seconds: float | None
    committed_per_second: float | None
    committed_recent_per_second: float | None
    arrived: float | None
    ever_arrived: float | None
    arrival_per_second: float | None
    arrival_recent_per_second: float | None
    arrival_baseline_per_second: float | None
    first_period: int | None
    time_lag_seconds: float | None
    time_lag_low: float | None
    time_lag_high: float | None
    time_lag_method: str | None
    oldest_incomplete_seconds: float | None
    assigned: float | None
    fetch_queue_mean: float | None
    fetch_queue_recent_low: float | None
    enqueue_count: float | None
    story: Mapping[str, float] | None
    log_end_last_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberFeatures:
    """Features of a member of the group.

    Attributes:
        live: whether it still reports.
        poll_age_high, poll_age_usual: the longest time without a poll in the window, and in a quarter of the baseline, in seconds;
        poll_age_low: the shortest in the window.
        first_seconds, last_seconds: time of its first and last sample in the window, relative to its end, 0 or less; or None.
        restarts, restarts_before: how often it started anew in the window, and in the last quarter of the baseline.
        delay_fill, delay_high: of the delay queue, mean and highest.
        rtt_seconds, rtt_broker: mean round trip to the slowest broker, and which one that is.
        poll_idle: share of the time that its thread waits for records, 0 to 1.
        worked_ago_seconds: time since its handlers last finished a record (or it read one, where nobody counts them), of a late group.
        stats_stand: whether its statistics have stopped changing; None if they never changed, or are too few.
        against_peers: time that its handlers take for a record since the group is late, as a multiple of what the other members take
        for those of the same processors.
        busy: share of its time that its handlers take for records of its busiest processor, since the group is late.
        held_seconds: for how long its handlers have held something without a break.
        fetch_queue_recent_low: fetched messages that wait in it at least, if it tells one number for all of its partitions.
    """

    member: str
    live: bool
    in_baseline: bool | None
    poll_age_seconds: float | None
    poll_age_high: float | None
    poll_age_usual: float | None
    poll_age_low: float | None
    first_seconds: float | None
    last_seconds: float | None
    rebalances: float | None
    restarts: int | None
    restarts_before: int | None
    delay_fill: float | None
    delay_high: float | None
    delayed_capacity: float | None
    rtt_seconds: float | None
    rtt_baseline_seconds: float | None
    rtt_broker: str | None
    throttle_seconds: float | None
    paused_mean: float | None
    poll_idle: float | None
    worked_ago_seconds: float | None
    stats_stand: bool | None
    against_peers: float | None
    busy: float | None
    held_seconds: float | None
    fetch_queue_recent_low: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFeatures:
    """Features of an in-process queue of an event type in a member."""

    processor: str | None
    member: str | None
    queue: str | None
    fill: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorFeatures:
    """Features of the handler of an event type.

    Attributes:
        process_seconds, baseline_seconds: mean duration of an attempt in the window and in the baseline; `slow_down` is their ratio.
        attempts, baseline_attempts: in the window and in the whole baseline; `rate_per_second` in the window,
        `baseline_rate_per_second` before.
        failed, outcomes: attempts that failed, timed out or went to dead letters, and all that ended.
        failing_baseline: share of failures in the best quarter of the baseline.
        unnamed: attempts beside these that ended with a word that is no outcome of ours; `unnamed_baseline` is their share of all, as
            `failing_baseline` is.
        wordless: attempts that were counted without how they ended; None where none were.
        fill: of its fullest queue.
    """

    processor: str
    process_seconds: float | None
    baseline_seconds: float | None
    attempts: float | None
    baseline_attempts: float | None
    rate_per_second: float | None
    baseline_rate_per_second: float | None
    slow_down: float | None
    retries: float | None
    baseline_retries: float | None
    failed: float | None
    outcomes: float | None
    failing_baseline: float | None
    unnamed: float | None
    unnamed_baseline: float | None
    wordless: float | None
    fill: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OldestMessage:
    """The partition with the longest time lag."""

    time_lag_seconds: float | None
    time_lag_low: float | None
    time_lag_high: float | None
    time_lag_method: str | None
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredSubscription:
    """Features of one subscription from `features.subscription_features`: sums over its partitions, group values, and all its parts.

    Attributes:
        oldest: the partition with the longest time lag.
        sample_interval_seconds: between two samples of the lag.
        loss_seconds: until retention deletes messages that are not committed, of the partition that it reaches first; None while it
            deletes nothing.
        reassigning_low: lowest number of partitions in the window whose owner is not the target one (KIP-848).
        read_quota_per_second: messages/s that quotas let all members read together; None without a quota, or if it is not known.
        remote_bytes_per_second, remote_bytes_before: what brokers read of the topic from remote storage, in the window and before.
        usual_members, usual_fewest_members: of the group in the baseline: on average, and the fewest, of a usual quarter of it.
        onset_seconds: when it fell behind, relative to the window's end; None if it is not behind, or for longer than the data show.
        count_disproved: 1 if commits have moved on while an exporter counted no member.
        queued_more: by how much the shortest a queue is of late exceeds its usual length, where nothing tells how much it holds.
        rejoined: how often the group was seen to leave its stable state for a rebalance in the time that is judged, for longer than a
            deploy takes and still; None: not so, or nobody tells its state.
        emptied: how often the group's last member has gone in the time that is judged; None: never, as far as members are counted.
        cpu_stopped_share, cpu_stopped_before: of the periods of their CPU limit, those in which it stopped its processes.
        gc_share, gc_share_before: of the time, what its processes took to collect garbage.
        restoring_messages, restoring_per_second: what Kafka Streams must still read of its changelogs, and how that changes.
        comes_again: 1 if it was late several times in the window, and may be so again.
        repeated_seconds: for how long its offsets have been repeated by their source, while its handlers go on.
        shared_stand_seconds: for how long one of its handlers has finished nothing, at most, of those that no single client has.
        without_baseline: 1 if no good time was seen to compare with.
        work_since_onset: 1 if what its members do (`features.summary_schema.WORK`) is measured since the onset; 0: in the window.
        poll_age_seconds: of the most active member; `rebalances` of the most disturbed one in the window
            (`rebalances_since`: since the onset, which may be longer), `delay_fill` of the fullest.
        rebalanced_ago, rebalances_apart: since any member's last rebalance in the window; the longest time between two of one member.
    """

    cluster: str
    group: str
    topic: str
    # Sums over the partitions.
    partition_count: int
    lag_messages: float | None
    lag_known_partitions: int
    lag_slope: float | None
    lag_recent_low: float | None
    lag_recent_lowest: float | None
    lag_recent_slope: float | None
    arrival_per_second: float | None
    arrival_recent_per_second: float | None
    arrival_baseline_per_second: float | None
    committed_moved: float | None
    committed_recent_per_second: float | None
    lag_samples: int
    lag_bad_samples: int
    last_sample_age_seconds: float | None
    sample_interval_seconds: float | None
    oldest: OldestMessage | None
    oldest_incomplete_seconds: float | None
    fetch_queue_mean: float | None
    enqueue_mean_seconds: float | None
    enqueue_baseline_seconds: float | None
    loss_seconds: float | None
    # Of the group.
    group_members: float | None
    group_members_recent: float | None
    group_state: float | None
    reassigning_low: float | None
    read_quota_per_second: float | None
    remote_bytes_per_second: float | None
    remote_bytes_before: float | None
    restoring_messages: float | None
    restoring_per_second: float | None
    cpu_stopped_share: float | None
    cpu_stopped_before: float | None
    gc_share: float | None
    gc_share_before: float | None
    group_state_mean: float | None
    usual_members: float | None
    usual_fewest_members: float | None
    onset_seconds: float | None
    without_baseline: float | None
    work_since_onset: float | None
    repeated_seconds: float | None
    shared_stand_seconds: float | None
    count_disproved: float | None
    emptied: float | None
    rejoined: float | None
    comes_again: float | None
    live_members: int | None
    baseline_members: int | None
    queued_more: float | None
    poll_age_seconds: float | None
    rebalances: float | None
    rebalances_since: float | None
    rebalanced_ago: float | None
    rebalances_apart: float | None
    delay_fill: float | None
    delay_high: float | None
    throttle_seconds: float | None
    time_lag_seconds: float | None  # of `oldest`
    # Of the slowest round trips.
    rtt_seconds: float | None
    rtt_baseline_seconds: float | None

    partitions: tuple[PartitionFeatures, ...]
    members: tuple[MemberFeatures, ...]
    queues: tuple[QueueFeatures, ...]
    processors: tuple[ProcessorFeatures, ...]


def names_of(declared: type, *, without: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Field names of a declaration in order, for SQL."""
    return tuple(field.name for field in fields(declared) if field.name not in without)

"""Row that triage judges: all features of one subscription, its outliers, the answers and the verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workbench.features.measured import MeasuredSubscription, QueueFeatures
from workbench.triage.verdict import Answer, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowestProcessor:
    """Event type with the largest slow-down against its own baseline, of those that have one."""

    slow_down: float
    processor: str
    process_seconds: float
    baseline_seconds: float
    attempts: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionFeatures(MeasuredSubscription):
    """One judged subscription (`triage.judge`): its measured features, the facts of `triage.facts`, and the answers.

    Attributes:
        objective_seconds, commit_every_seconds: what is expected of the group.
        all_shrink: no late partition grows or stands still.
        few_partitions: the largest number of partitions that counts as "a few".
        waited_seconds, waited_lowest_seconds: the lag divided by the arrival rate, from the lows of the window's last third.
        eta_drain_seconds: until the last of the late partitions has caught up; None if one of them does not.
        comes_and_goes: late several times in the window. steady: late all the time, and by the same.
        outages: it has stood still, and was late by it, several times in all the data, and may well do so again.
        moving_now: whether any commit has moved in the last two samples.
        by_client: some partitions' lag is known from their own client alone; unseen: and it does not change, as that of a paused one.
        dark_partitions: those whose lag was known before and is not any more, while that of others is.
        unmoved_partitions: those that nothing arrives in, with records at their end that have waited as long as the data show.
        just_resumed: what is late has begun to move again, too lately to say how fast.
        unproven: so late by now that only a commit since the last sample could make it well.
        batch_perhaps: it may be a batch whose time has not come.
        batch_due_seconds, batch_before_seconds, batch_every_seconds, batch_now, batch_ran, batch_late, batch_missed,
        batch_due_ago_seconds: what the settings say of a batch, and whether its last run has read all (`triage.batch`).
        behind_partitions: those that are late, or on the way to it, and do not catch up.
        held_inside: most late partitions wait for events that the consumer has read.
        recovered_seconds: since the latest lateness ended.
        lost_messages, skipped_messages: deleted by retention, or passed by a commit, before they were read.
        skipped_partitions, doubtful_partitions: of these, and of those.
        doubtful_messages: passed so fast that they were skipped, or read by a consumer with much room.
        back_messages, above_end_messages: by which commits went back, or are above the log's end.
        quiet_seconds, usual_gap_seconds: since the last arrival, and the longest time without one before.
        arrival_ratio: arrivals as a multiple of the baseline's; `failing_share` of the attempts.
        rejoining: its members wait for each other, most of the time and now.
        passing_members: those that came after the baseline and have gone again.
        frozen_partitions: those whose commit has stopped, for longer than usual, while messages wait.
        standing_partitions: those that may have stopped, too lately to be sure.
        unsubscribed: the group has members, and none of them any partition of this topic.
        unowned_partitions: those that wait, and that no member has, while members have others.
        stall_cause: why partitions stand still: restoring, poison_record, open_transaction, commit_fails, paused or client_stalled;
        None if it is not visible.
        has_queues: whether the consumer shows queues of its own.
        loop_busy, loop_busy_baseline: process time per second and member, now and in the baseline: above 1 with several threads.
        poll_idle: share of the time that the busiest member's thread waits for records.
        quota_share: messages/s read lately, as a share of what quotas allow; at_quota: whether it is all that they allow.
        fetched_low: the lowest number of fetched messages that wait in the client, of the partition with most, in messages.
        pace_ratio: messages/s read lately where it is late, as a multiple of the baseline's, for each member that is left.
        queueless: whether its client or its handlers are measured, and no queue is.
        own_work: whether the consumer's own work takes the time, by these; None if they do not show it.
        polling: True if a poll, new statistics of a client or handled records prove that somebody polls; None if nothing does.
        hot_arrival_ratio: what arrives in a hot partition, as a multiple of what arrives in a typical one.
        hot_growth: by how much more its arrivals have grown since the baseline than the group's.
        idle_members: those whose handlers finish nothing while as many partitions as they may own wait: hung, paused or not served.
        works_on: whether its handlers are busy all the time, and what they handle is committed: no storm of rebalances.
        slow_by_peers: processors without a baseline that take ten times their peers' time, and most of all of it.
        handled_again: whether its handlers finish clearly more than is committed, while no partition stands still.
        members_stay: whether no member has come, gone or restarted since the good time; None without their names.
        surely_slow_network, surely_hot: facts that explain a lag, whatever is not known.
        busy_share: process time per second and queue: of one thread for each queue.
        stuck_partitions, hot_partitions: their numbers; `stuck_count` and `hot_count` how many.
        lags: of the partitions where it is known, in messages; `typical_lag` and `highest_lag` of these.
        hung_members, paused_members, changed_members: those that do not poll, polled too late, or joined or left.
        storm_cause: poll_stall, member_crash, deploy or metadata_change; None if the data do not show it.
        median_slow_down: of all processors, as a multiple of the baseline; `peers_slow_down` of all but the slowest.
        answers: by the id of the question, on the path or off it; reasons: the id of the rule that decided each.
        path: ids of the questions that led to the verdict, in order; passed: those of them that are open all the same.
    """

    objective_seconds: float
    commit_every_seconds: float
    stale_seconds: float
    few_partitions: int
    late: bool | None
    all_shrink: bool | None
    burst_over: bool | None
    waited_seconds: float | None
    waited_lowest_seconds: float | None
    abandoned: bool | None
    eta_drain_seconds: float | None
    comes_and_goes: bool | None
    outages: bool
    held_inside: bool | None
    steady: bool | None
    recovered_seconds: float | None
    moving_now: bool
    by_client: bool | None
    unseen: bool
    dark_partitions: tuple[int, ...]
    unmoved_partitions: tuple[int, ...]
    just_resumed: bool
    unproven: bool
    batch_perhaps: bool
    batch_due_seconds: float | None
    batch_before_seconds: float | None
    batch_every_seconds: float | None
    batch_now: float | None
    batch_ran: bool
    batch_late: bool | None
    batch_missed: bool
    batch_due_ago_seconds: float | None
    behind_partitions: tuple[int, ...]
    growing: bool | None
    draining: bool | None
    # Partitions.
    frozen_partitions: tuple[int, ...]
    stuck_partitions: tuple[int, ...]
    moving_partitions: int
    silent_partitions: int
    new_partitions: int
    lags: tuple[float, ...]
    stuck_count: int
    frozen_count: int
    standing_partitions: tuple[int, ...]
    unsubscribed: bool
    unowned_partitions: tuple[int, ...]
    stall_cause: str | None
    stalled: bool
    typical_lag: float | None
    lost_messages: float | None
    skipped_messages: float | None
    doubtful_messages: float | None
    skipped_partitions: tuple[int, ...]
    doubtful_partitions: tuple[int, ...]
    back_messages: float | None
    above_end_messages: float | None
    quiet_seconds: float | None
    usual_gap_seconds: float | None
    arrival_ratio: float | None
    failing_share: float | None
    failing_baseline_share: float | None
    highest_lag: float | None
    hot_partitions: tuple[int, ...]
    hot_count: int
    # Members.
    hung_members: tuple[str, ...]
    idle_members: tuple[str, ...]
    paused_members: tuple[str, ...]
    changed_members: tuple[str, ...]
    rejoining: bool | None
    passing_members: int | None
    most_restarts: int | None
    known_members: int | None
    members_stay: bool | None
    storm_cause: str | None
    # Whose side is the limit.
    has_queues: bool
    quota_share: float | None
    at_quota: bool
    loop_busy: float | None
    loop_busy_baseline: float | None
    poll_idle: float | None
    fetched_low: float | None
    pace_ratio: float | None
    typical_arrival: float | None
    own_work: bool | None
    queueless: bool
    polling: bool | None
    works_on: bool
    handled_again: bool
    surely_slow_network: bool
    surely_hot: bool | None
    hot_arrival_ratio: float | None
    hot_growth: float | None
    # Queues.
    busy_share: float | None
    queue_fill: float | None
    full_queues: tuple[QueueFeatures, ...]
    hot_queues: tuple[QueueFeatures, ...]
    full_queue_count: int | None
    hot_queue_count: int | None
    delay_full: bool | None
    queue_long: bool | None
    entry_slow: bool | None
    # Processors.
    slow_processors: tuple[str, ...]
    slow_by_peers: tuple[str, ...]
    unknown_count: int
    known_count: int
    slowest: SlowestProcessor | None
    median_slow_down: float | None
    one_slow: bool | None
    slowest_seconds: float | None
    slowest_baseline_seconds: float | None
    slowest_slow_down: float | None
    peers_seconds: float | None
    peers_slow_down: float | None

    answers: Mapping[str, Answer]
    reasons: Mapping[str, str]
    verdict: Verdict
    path: tuple[str, ...] = ()
    passed: tuple[str, ...] = ()

    def told(self, name: str) -> dict[int, float]:
        """A fact of the partitions' stories, by partition; of those that have it."""
        return {it.partition: it.story[name] for it in self.partitions if it.story and name in it.story}

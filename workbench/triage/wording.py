"""Words and numbers for each answer of the tree; only the numbers that a person on call needs."""

from __future__ import annotations

from datetime import UTC, datetime

from workbench.humanize import count, counted, duration, listed, percent, plural, printable, rate, times
from workbench.triage.finding import TimeLag
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.verdict import Answer


def data(row: SubscriptionFeatures) -> str:
    """Number of usable and unusable samples, and the age of the last one."""
    if row.reasons.get("data_usable") == "empty":
        return f"the topic has no record ({plural(row.partition_count, 'empty partition')})"
    if not row.lag_samples and not row.lag_bad_samples:
        return "no lag samples in the window"
    known, all_partitions = row.lag_known_partitions, row.partition_count
    unknown = [it.partition for it in row.partitions if it.lag_messages is None]
    without = f" (not of {listed(unknown)})" if unknown and known else ""
    bad = f", {counted(row.lag_bad_samples, 'unusable sample')}" if row.lag_bad_samples else ""
    age = row.last_sample_age_seconds
    repeats = (
        f", all offsets stand while handlers go on, for {duration(row.repeated_seconds)}"
        if row.repeated_seconds
        else ""
    )
    last = f", last sample {duration(max(0.0, age))} ago" if age is not None else ""
    return f"lag of {known} of {plural(all_partitions, 'partition')} known{without}{last}{bad}{repeats}"


def lagging(row: SubscriptionFeatures) -> str:
    """How far behind, in time and messages, and the trend."""
    if row.reasons.get("lagging") == "empty":
        return "the topic has no record"
    behind = row.time_lag_seconds
    slope = row.lag_slope
    if slope is None:
        trend = "trend unknown"
    elif abs(slope) < 0.5:
        trend = "steady"
    else:
        trend = (
            f"{'growing' if slope > 0 else 'shrinking'} {rate(abs(slope))} of {rate(row.arrival_per_second)} arriving"
        )
    if behind is None:
        return f"{counted(row.lag_messages, 'message')} behind, {trend}; in time: unknown"
    return f"{age(row)} behind ({counted(row.lag_messages, 'message')}), {trend}{_besides(row)}"


def age(row: SubscriptionFeatures) -> str:
    """The time lag, as a finding says it."""
    return TimeLag.of(row.oldest).words


def batch_due(row: SubscriptionFeatures) -> str:
    """The last run of a batch that must be over by now, and when it was due."""
    ago, now = row.batch_due_ago_seconds, row.batch_now
    if ago is None or now is None:
        return "the run"
    at = datetime.fromtimestamp(now - ago, UTC)
    return f"the run due at {at:%Y-%m-%d %H:%MZ} ({duration(max(0.0, ago))} ago)"


def _besides(row: SubscriptionFeatures) -> str:
    if row.batch_due_seconds is not None:
        return _of_batch(row)
    if row.comes_and_goes:
        return "; late again and again"
    if row.steady:
        return "; as late all the time: on purpose, or for longer than the data show"
    behind = row.time_lag_seconds or 0.0
    rhythm = max((it.cadence_seconds or 0.0 for it in row.partitions), default=0.0)
    if not row.late and behind > row.objective_seconds and rhythm > row.objective_seconds / 2:
        return f"; it commits every {duration(rhythm)} or so"
    return ""


def _of_batch(row: SubscriptionFeatures) -> str:
    if row.batch_late is None:
        return f"; a batch: the data do not show whether messages from before {batch_due(row)} still wait"
    if row.batch_late:
        return f"; a batch: messages from before {batch_due(row)} still wait"
    if row.batch_every_seconds is not None:
        return f"; a batch: one run every {duration(row.batch_every_seconds)} is expected, and none is missing"
    return f"; a batch: {batch_due(row)} left nothing behind"


def lost(row: SubscriptionFeatures) -> str:
    """Messages that nobody read."""
    parts = []
    if row.lost_messages:
        parts.append(f"retention deleted {counted(row.lost_messages, 'message')} before they were read")
    if row.skipped_messages:
        parts.append(f"commits passed {counted(row.skipped_messages, 'message')} in one step")
    if row.doubtful_messages and not parts:
        parts.append(
            f"commits passed {counted(row.doubtful_messages, 'message')} in one step: read very fast, or skipped"
        )
    if parts:
        return ", ".join(parts)
    return "none that the offsets show" if any(it.log_start is not None for it in row.partitions) else "no log start"


def unmoved(row: SubscriptionFeatures) -> str:
    """Partitions whose end and commit have both stood as long as the data show, with records between them."""
    which = row.unmoved_partitions
    waited = min((seconds for it, seconds in row.told("unmoved").items() if it in which), default=0.0)
    waiting = sum(it.lag_messages or 0.0 for it in row.partitions if it.partition in which)
    of = f"{'partition' if len(which) == 1 else 'partitions'} {listed(which)}"
    return (
        f"{counted(waiting, 'offset')} at the end of {of} waited for {duration(waited)} or more, and nothing arrives there; a record"
        " that blocks the partition looks like that, and so do the records of an aborted transaction, which no consumer is given"
    )


def reset(row: SubscriptionFeatures) -> str:
    """Commits that went back, or are above the end."""
    parts = []
    if row.back_messages:
        parts.append(f"commits went back by {counted(row.back_messages, 'message')}")
    if row.above_end_messages:
        parts.append(f"commits are {counted(row.above_end_messages, 'message')} above the log's end")
    return ", ".join(parts) or "commits only went forward"


def draining(row: SubscriptionFeatures) -> str:
    """How long until nothing waits."""
    if row.draining and row.eta_drain_seconds is not None:
        return f"caught up in about {duration(row.eta_drain_seconds)} at this pace"
    return "nothing to catch up" if not row.draining else "the lag shrinks"


def failing(row: SubscriptionFeatures) -> str:
    """The share of attempts that fail."""
    if row.failing_share is None:
        return "no outcomes of attempts"
    was = f", was {percent(row.failing_baseline_share)}" if row.failing_baseline_share is not None else ""
    return f"{percent(row.failing_share)} of the attempts fail{was}"


def silent(row: SubscriptionFeatures) -> str:
    """Time since the last arrival."""
    if row.quiet_seconds is None:
        return "no arrival in the data"
    gap = f", before at most {duration(row.usual_gap_seconds)} apart" if row.usual_gap_seconds is not None else ""
    return f"last arrival {duration(row.quiet_seconds)} ago{gap}"


def burst(row: SubscriptionFeatures) -> str:
    """Arrivals against their baseline."""
    if row.arrival_ratio is None:
        return f"{rate(row.arrival_per_second)} arriving, no baseline"
    return f"{rate(row.arrival_per_second)} arriving, {times(row.arrival_ratio)} the baseline"


def consuming(row: SubscriptionFeatures) -> str:
    """Members, polls and commits."""
    parts = []
    if row.group_members is not None:
        parts.append(plural(int(row.group_members), "member"))
    if row.baseline_members:
        earlier = plural(row.baseline_members, "earlier member")
        parts.append(f"{row.live_members or 0} of {earlier} still {'reports' if row.live_members == 1 else 'report'}")
    if row.poll_age_seconds is not None:
        parts.append(f"last poll {duration(row.poll_age_seconds)} ago")
    parts.append(f"{counted(row.committed_moved, 'message')} committed in the window")
    idle = [m.worked_ago_seconds for m in row.members if m.member in row.idle_members]
    if known := [it for it in idle if it is not None]:
        parts.append(f"{listed(row.idle_members)} has finished nothing for {duration(min(known))}, while others have")
    return ", ".join(parts)


def rebalancing(row: SubscriptionFeatures) -> str:
    """Rebalances in the window, and whether the group has been reconciling all the time."""
    number = _without_counter(row) if row.rebalances is None else rebalances_counted(row)
    return f"{number}; {waits}" if (waits := reconciling(row)) else number


def rebalances_counted(row: SubscriptionFeatures, what: str = "") -> str:
    """How many of the most disturbed member in the window, and since the onset, if that are more; `what` they are, in words."""
    since = row.rebalances_since or 0.0
    longer = f", {count(since)} since it began" if since > (row.rebalances or 0.0) else ""
    return f"{count(row.rebalances)}{what} in the window{longer}"


def _without_counter(row: SubscriptionFeatures) -> str:
    """What speaks against rebalances, where nobody counts them."""
    if row.answers.get("rebalancing") is not Answer.NO:
        return "no rebalance counter"
    if row.reasons.get("rebalancing") == "stays":
        return "no rebalance counter, but no member has come or gone"
    return "no rebalance counter, but its handlers work all the time, and what they do is committed"


def reconciling(row: SubscriptionFeatures) -> str | None:
    """Partitions that have waited for their target member all the time; None if there are none, or it is not known."""
    if not row.reassigning_low:
        return None
    return f"reconciling all the time, at least {plural(round(row.reassigning_low), 'partition')} not with the target member"


def stuck(row: SubscriptionFeatures) -> str:
    """Stuck partitions, and those that advance."""
    if row.stall_cause == "open_transaction":
        return f"{frozen(row)}, where a transaction is open; {row.moving_partitions} advancing"
    if row.stuck_count and not row.moving_partitions:
        return f"{frozen(row)}, and none advances" if row.frozen_count else "no partition advances"
    if row.stuck_count:
        stuck = listed(row.stuck_partitions)
        return f"{plural(row.stuck_count, 'partition')} ({stuck}) stuck, {row.moving_partitions} advancing"
    advance = plural(row.partition_count, "partition advances", "partitions advance")
    return f"{row.moving_partitions} of {advance}"


def frozen(row: SubscriptionFeatures) -> str:
    """Partitions whose commits have stopped."""
    still = sorted({*row.frozen_partitions, *row.stuck_partitions})
    if not still:
        return "every partition with lag advances at its usual pace"
    ages = [it.moved_ago_seconds for it in row.partitions if it.partition in still and it.moved_ago_seconds is not None]
    since = f", for {duration(min(ages))} to {duration(max(ages))}" if ages else ""
    return (
        f"{plural(len(still), 'partition')} ({listed(still)}) {'stands' if len(still) == 1 else 'stand'} still{since}"
    )


def queue(row: SubscriptionFeatures) -> str:
    """Fill of the queues, and enqueue time; of a consumer without queues, what its client and its handlers show."""
    if row.queueless:
        return _own_work(row)
    if row.queue_fill is None and row.enqueue_mean_seconds is None:
        return "no queue metrics"
    parts = []
    if row.queue_fill is not None:
        parts.append(
            f"{row.full_queue_count} of {plural(len(row.queues), 'queue')} backed up (fullest {percent(row.queue_fill)})"
        )
    if row.enqueue_mean_seconds is not None:
        was = row.enqueue_baseline_seconds
        parts.append(
            f"enqueue time {duration(row.enqueue_mean_seconds)}" + (f", was {duration(was)}" if was is not None else "")
        )
    return ", ".join(parts)


def _own_work(row: SubscriptionFeatures) -> str:
    parts = []
    if row.fetched_low is not None:
        if row.fetched_low >= 1:
            wait = counted(row.fetched_low, "fetched message waits", "fetched messages wait")
            parts.append(f"at least {wait} in the client")
        else:
            parts.append("at times no fetched message waits in the client")
    if row.poll_idle is not None:
        parts.append(f"its thread waits for records {percent(row.poll_idle)} of the time")
    if row.loop_busy is not None:
        was = f", was {percent(row.loop_busy_baseline)}" if row.loop_busy_baseline is not None else ""
        parts.append(f"handlers take {percent(row.loop_busy)} of a member's time{was}")
    return "no queues of its own; " + (", ".join(parts) or "nothing shows what takes its time")


def delay(row: SubscriptionFeatures) -> str:
    """How full the delay queue is."""
    if row.delay_fill is None:
        return "no delay queue metrics"
    return f"{percent(row.delay_fill)} full on average, {percent(row.delay_high)} at the maximum"


def one_slow(row: SubscriptionFeatures) -> str:
    """The slowest processor against its baseline and its peers."""
    if row.slow_by_peers:
        longest = max(
            (it for it in row.processors if it.processor in row.slow_by_peers), key=lambda it: it.process_seconds or 0.0
        )
        return f"{printable(longest.processor)} {duration(longest.process_seconds)}, ten times its peers' or more; no baseline"
    slowest = row.slowest
    if slowest is None:
        return "no baseline of process times"
    text = (
        f"{printable(slowest.processor)} {duration(slowest.process_seconds)} (n = {count(slowest.attempts)}), "
        f"{times(slowest.slow_down)} its baseline {duration(slowest.baseline_seconds)}"
    )
    return text + (f"; others {duration(row.peers_seconds)}" if row.peers_seconds is not None else "")


def one_queue(row: SubscriptionFeatures) -> str:
    """Full queues next to idle ones."""
    if row.hot_queue_count is None:
        return "no queues are measured"
    return f"{plural(row.hot_queue_count, 'full queue')} next to idle ones, {row.full_queue_count} full in all"


def all_slow(row: SubscriptionFeatures) -> str:
    """The median slow-down."""
    if row.median_slow_down is None:
        return "no baseline of process times"
    return f"half of the processors take at least {times(row.median_slow_down)} their baseline"


def threads(row: SubscriptionFeatures) -> str:
    """Whether it has queues of its own."""
    if row.has_queues:
        return f"{plural(len(row.queues), 'queue')} of its own"
    return "none that are measured: records are handled where they are polled" if row.queueless else "not known"


def throttled(row: SubscriptionFeatures) -> str:
    """The throttle time."""
    if row.throttle_seconds is None:
        if row.quota_share is None:
            return "no throttle metrics"
        limit, arriving = count(row.read_quota_per_second), count(row.arrival_per_second)
        return (
            f"its quota allows about {limit} messages/s, and {arriving}/s arrive; it reads {percent(row.quota_share)} of that;"
            " no throttle metrics"
        )
    return f"{duration(row.throttle_seconds)} on average"


def network(row: SubscriptionFeatures) -> str:
    """Round trips, and fetched messages that wait in the clients."""
    if (row.fetch_queue_mean or 0) >= 1:
        waiting = f"{counted(row.fetch_queue_mean, 'fetched message waits', 'fetched messages wait')} in the clients"
    else:
        waiting = "no fetched messages wait in the clients"
    if row.rtt_seconds is None:
        return f"{waiting}, no round-trip times"
    was = f", was {duration(row.rtt_baseline_seconds)}" if row.rtt_baseline_seconds is not None else ""
    return f"round trips {duration(row.rtt_seconds)}{was}; {waiting}"


def hot(row: SubscriptionFeatures) -> str:
    """The highest lag of a partition against the typical one."""
    if row.hot_count:
        return (
            f"{plural(row.hot_count, 'partition')} ({listed(row.hot_partitions)}) up to {counted(row.highest_lag, 'message')}, "
            f"typical {count(row.typical_lag)}"
        )
    return f"highest {counted(row.highest_lag, 'message')}, typical {count(row.typical_lag)}"


def too_few(row: SubscriptionFeatures) -> str:
    """Members and partitions."""
    members = row.group_members
    if members is None:
        return "number of members unknown"
    return f"{plural(int(members), 'member')} for {plural(row.partition_count, 'partition')}"

"""Answers and verdicts in words, with the numbers that a tired person needs and no others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from workbench.humanize import count, duration, listed, percent, plural, printable, rate, times
from workbench.triage.verdict import Verdict

Row = Mapping[str, Any]


def answer_words(node_id: str, row: Row) -> str:
    """What stands behind an answer to one question, in half a line."""
    return _ANSWERS[node_id](row)


def headline(verdict: Verdict, row: Row) -> str:
    """The verdict in one sentence."""
    return _HEADLINES[verdict](row)


def _data(row: Row) -> str:
    if not row["lag_samples"] and not row["lag_bad_samples"]:
        return "no sample of the lag in the window"
    known, all_partitions = row["lag_known_partitions"], row["partition_count"]
    bad = f", {count(row['lag_bad_samples'])} unusable samples" if row["lag_bad_samples"] else ""
    age = row["last_sample_age_seconds"]
    last = f", last sample {duration(max(0.0, age))} ago" if age is not None else ""
    return f"lag of {known} of {all_partitions} partitions known{last}{bad}"


def _lagging(row: Row) -> str:
    oldest = row["oldest"] or {}
    slope = row["lag_slope"]
    if slope is None:
        trend = "trend unknown"
    elif abs(slope) < 0.5:
        trend = "steady"
    else:
        trend = f"{'growing' if slope > 0 else 'shrinking'} {rate(abs(slope))} of {rate(row['arrival_per_second'])} arriving"
    if oldest.get("time_lag_seconds") is None:
        return f"{count(row['lag_messages'])} messages behind, {trend}; in time: unknown"
    return f"{duration(oldest['time_lag_seconds'])} behind ({count(row['lag_messages'])} messages), {trend}"


def _consuming(row: Row) -> str:
    parts = []
    if row["group_members"] is not None:
        parts.append(plural(int(row["group_members"]), "member"))
    if row["baseline_members"]:
        parts.append(f"{row['live_members'] or 0} of {row['baseline_members']} that were seen before still report")
    if row["poll_age_seconds"] is not None:
        parts.append(f"last poll {duration(row['poll_age_seconds'])} ago")
    parts.append(f"{count(row['committed_moved'])} messages committed in the window")
    return ", ".join(parts)


def _rebalancing(row: Row) -> str:
    if row["rebalances"] is None:
        return "no rebalance counter"
    return f"{count(row['rebalances'])} in the window"


def _stuck(row: Row) -> str:
    if row["stuck_count"]:
        stuck = listed(row["stuck_partitions"])
        return f"{plural(row['stuck_count'], 'partition')} ({stuck}) not moving, {row['moving_partitions']} moving"
    return f"{row['moving_partitions']} of {row['partition_count']} advance"


def _queue(row: Row) -> str:
    if row["queue_fill"] is None and row["enqueue_mean_seconds"] is None:
        return "no queue metrics"
    parts = []
    if row["queue_fill"] is not None:
        parts.append(
            f"{row['full_queue_count']} of {len(row['queues'])} queues backed up (fullest {percent(row['queue_fill'])})"
        )
    if row["enqueue_mean_seconds"] is not None:
        was = row["enqueue_baseline_seconds"]
        parts.append(
            f"entry takes {duration(row['enqueue_mean_seconds'])}"
            + (f", was {duration(was)}" if was is not None else "")
        )
    return ", ".join(parts)


def _delay(row: Row) -> str:
    if row["delay_fill"] is None:
        return "no delay queue metrics"
    return f"{percent(row['delay_fill'])} full on average, {percent(row['delay_high'])} at most"


def _one_slow(row: Row) -> str:
    slowest = row["slowest"]
    if slowest is None:
        return "no process time to compare with a baseline"
    text = (
        f"{printable(slowest['processor'])} {duration(slowest['process_seconds'])} (n = {count(slowest['attempts'])}), "
        f"{times(slowest['slow_down'])} its baseline {duration(slowest['baseline_seconds'])}"
    )
    return text + (f"; others {duration(row['peers_seconds'])}" if row["peers_seconds"] is not None else "")


def _one_queue(row: Row) -> str:
    return f"{row['hot_queue_count']} full beside idle ones, {row['full_queue_count']} full in all"


def _all_slow(row: Row) -> str:
    if row["median_slow_down"] is None:
        return "no baseline of process times"
    return f"half of the processors take {times(row['median_slow_down'])} their baseline or more"


def _throttled(row: Row) -> str:
    if row["throttle_seconds"] is None:
        return "no throttle metrics"
    return f"{duration(row['throttle_seconds'])} on average"


def _network(row: Row) -> str:
    if (row["fetch_queue_mean"] or 0) >= 1:
        waiting = f"{count(row['fetch_queue_mean'])} fetched messages wait in the clients"
    else:
        waiting = "nothing waits in the clients"
    if row["rtt_seconds"] is None:
        return f"{waiting}, no round-trip times"
    was = f", was {duration(row['rtt_baseline_seconds'])}" if row["rtt_baseline_seconds"] is not None else ""
    return f"round trips {duration(row['rtt_seconds'])}{was}; {waiting}"


def _hot(row: Row) -> str:
    if row["hot_count"]:
        return (
            f"{plural(row['hot_count'], 'partition')} ({listed(row['hot_partitions'])}) up to {count(row['highest_lag'])} messages, "
            f"typical {count(row['typical_lag'])}"
        )
    return f"highest {count(row['highest_lag'])} messages, typical {count(row['typical_lag'])}"


def _too_few(row: Row) -> str:
    members = row["group_members"]
    if members is None:
        return "number of members unknown"
    return f"{plural(int(members), 'member')} for {plural(row['partition_count'], 'partition')}"


_ANSWERS: dict[str, Callable[[Row], str]] = {
    "data_usable": _data,
    "lagging": _lagging,
    "consuming": _consuming,
    "rebalancing": _rebalancing,
    "stuck": _stuck,
    "queue_backed_up": _queue,
    "delay_full": _delay,
    "one_slow": _one_slow,
    "one_queue": _one_queue,
    "all_slow": _all_slow,
    "throttled": _throttled,
    "slow_network": _network,
    "hot_partition": _hot,
    "too_few": _too_few,
}


def _head_slow_processor(row: Row) -> str:
    slow = [p for p in row["processors"] if p["processor"] in row["slow_processors"]]
    if len(slow) == 1:
        [it] = slow
        peers = row["peers_seconds"]
        against = f" and {times(it['process_seconds'] / peers)} its peers" if peers else ""
        return (
            f"One processor is slow: event type “{printable(it['processor'])}” takes {duration(it['process_seconds'])}, "
            f"{times(it['slow_down'])} its own baseline{against}."
        )
    return f"{len(slow)} processors are slow: event types {listed([p['processor'] for p in slow])}."


def _head_stuck(row: Row) -> str:
    stuck = set(row["stuck_partitions"])
    first = next(p for p in row["partitions"] if p["partition"] in stuck)
    where = f"partition {first['partition']} at offset {int(first['committed']):,}"
    if len(stuck) > 1:
        where = f"partitions {listed(sorted(stuck))}"
    moving = row["moving_partitions"]
    return f"Stuck: {where} not moving, while {plural(moving, 'other')} {'does' if moving == 1 else 'do'}."


def _head_stopped(row: Row) -> str:
    if row["group_members"] == 0:
        return "Nobody consumes: the group has no members."
    hung = row["hung_members"] or ()
    if hung and len(hung) < (row["live_members"] or 0):
        oldest = max(m["poll_age_seconds"] for m in row["members"] if m["member"] in hung)
        return f"A member hangs: {listed(hung)} has not polled for {duration(oldest)}, and its partitions wait."
    if row["poll_age_seconds"] is not None and row["live_members"]:
        return f"Nobody consumes: no consumer has polled for {duration(row['poll_age_seconds'])}."
    return "Nobody consumes: the members that were there report nothing any more, and no commit moves."


_CAUSES = {
    "poll_stall": "{who} polls too rarely and is put out of the group",
    "member_crash": "{who} dies and comes back",
    "deploy": "a rollout goes through {who}",
    "metadata_change": "partitions are being added",
}


def _head_storm(row: Row) -> str:
    who = row["paused_members"] if row["storm_cause"] == "poll_stall" else row["changed_members"]
    why = _CAUSES.get(row["storm_cause"] or "", "what causes them is not to be seen").format(
        who=listed(sorted(who or ()))
    )
    return f"Rebalance storm: {count(row['rebalances'])} rebalances in the window; {why}."


def _head_hot_partition(row: Row) -> str:
    hot = row["hot_partitions"]
    what = f"Partition {hot[0]} is" if len(hot) == 1 else f"Partitions {listed(hot)} are"
    return f"{what} hot: {count(row['highest_lag'])} messages behind, where {count(row['typical_lag'])} is typical."


def _head_too_few(row: Row) -> str:
    members = int(row["group_members"])
    return (
        f"Too few consumers: {plural(members, 'member')} for {plural(row['partition_count'], 'partition')}, "
        "and the queues behind them are empty."
    )


def _head_saturated(row: Row) -> str:
    full = sorted({q["processor"] for q in row["full_queues"]})
    return (
        f"The processors are saturated: queues of {listed(full)} are full at normal process times, "
        f"with {rate(row['arrival_per_second'])} arriving."
    )


_HEADLINES: dict[Verdict, Callable[[Row], str]] = {
    Verdict.HEALTHY: lambda row: "Healthy: " + _lagging(row) + ".",
    Verdict.PRODUCER_BURST: lambda row: (
        f"Draining after a burst: {duration(row['time_lag_seconds'])} behind and shrinking by {rate(abs(row['lag_slope']))}."
    ),
    Verdict.NO_DATA: lambda row: "No data: " + _data(row) + ".",
    Verdict.UNUSABLE_DATA: lambda row: (
        f"The data cannot be used: {count(row['lag_bad_samples'])} of {count(row['lag_samples'] + row['lag_bad_samples'])} lag "
        "samples are NaN, infinite or an exporter's word for “none”."
    ),
    Verdict.CONSUMER_STOPPED: _head_stopped,
    Verdict.REBALANCE_STORM: _head_storm,
    Verdict.STUCK_PARTITION: _head_stuck,
    Verdict.DELAY_BACKLOG: lambda row: f"The delay queue is full ({percent(row['delay_fill'])}) and blocks the entry.",
    Verdict.SLOW_PROCESSOR: _head_slow_processor,
    Verdict.HOT_KEY: lambda row: (
        f"A hot key: {plural(row['hot_queue_count'], 'queue')} of “{printable(row['hot_queues'][0]['processor'])}” full while its "
        "siblings idle."
    ),
    Verdict.SLOW_DOWNSTREAM: lambda row: (
        f"Everything is slow: the processors take {times(row['median_slow_down'])} their baseline, which points at what they all call."
    ),
    Verdict.SATURATED_PROCESSORS: _head_saturated,
    Verdict.THROTTLED: lambda row: (
        f"Throttled by the broker: {duration(row['throttle_seconds'])} for each fetch on average."
    ),
    Verdict.SLOW_NETWORK: lambda row: (
        f"The network is slow: round trips take {duration(row['rtt_seconds'])}, were {duration(row['rtt_baseline_seconds'])}."
    ),
    Verdict.HOT_PARTITION: _head_hot_partition,
    Verdict.TOO_FEW_CONSUMERS: _head_too_few,
    Verdict.PARTITION_CEILING: lambda row: (
        f"As many consumers as partitions ({row['partition_count']}), and still not enough: more partitions, or parallelism by key."
    ),
    Verdict.CANNOT_TELL: lambda row: "Cannot tell why: " + _lagging(row) + ".",
}

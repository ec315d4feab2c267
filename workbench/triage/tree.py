"""The decision tree, declared once as data: Spark evaluates it, the report draws it, the documentation lists it.

A test is SQL over the features of a subscription (`features.subscriptions`, `triage.anomalies`) with thresholds in braces; a NULL
means "cannot tell". The backbone (questions 6, 8, 10 to 14) is the documented procedure of seed 000: enqueue time and queue length
first, then process time by tag, then network, then consumers up to the number of partitions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from workbench.triage.verdict import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A number that stands behind an answer.

    Attributes:
        signal: the canonical signal (or a quantity derived from some).
        column: feature with its value; `baseline` and `peers` likewise, or None.
        unit: of all of them.
        threshold: name of the threshold that it is held against, or None.
    """

    signal: str
    column: str
    unit: str
    threshold: str | None = None
    baseline: str | None = None
    peers: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One question.

    Attributes:
        yes, no: the next node's id, or a verdict. `no` may be a choice: pairs of (SQL condition, verdict), the last one without.
        needs: signals without which the answer is "cannot tell".
        contributes: whether a yes off the path is worth a line ("also true").
    """

    id: str
    number: int
    question: str
    short: str
    test: str
    yes: str | Verdict
    no: str | Verdict | tuple[tuple[str | None, Verdict], ...]
    needs: tuple[str, ...]
    measures: tuple[Measure, ...]
    contributes: bool = False


_NODES = (
    Node(
        id="data_usable",
        number=1,
        question="Is there data, and is it finite and consistent?",
        short="data usable?",
        test=(
            "lag_known_partitions > 0 AND last_sample_age_seconds <= {stale_after_seconds}"
            " AND lag_bad_samples <= lag_samples"
        ),
        yes="lagging",
        no=(
            ("lag_samples = 0 AND lag_bad_samples = 0", Verdict.NO_DATA),
            ("lag_samples > 0 AND last_sample_age_seconds > {stale_after_seconds}", Verdict.NO_DATA),
            (None, Verdict.UNUSABLE_DATA),
        ),
        needs=(),
        measures=(
            Measure(
                signal="consumer_lag",
                column="last_sample_age_seconds",
                unit="s since the last sample",
                threshold="stale_after_seconds",
            ),
            Measure(signal="consumer_lag", column="lag_samples", unit="usable samples"),
            Measure(signal="consumer_lag", column="lag_bad_samples", unit="unusable samples"),
        ),
    ),
    Node(
        id="lagging",
        number=2,
        question="Is it lagging: late, growing or stalled?",
        short="lagging?",
        # Deserted: what waits will not be taken, however little it is yet.
        test="(late AND NOT coalesce(draining, false)) OR growing OR stalled OR coalesce(abandoned, false)",
        yes="consuming",
        no=(("draining", Verdict.PRODUCER_BURST), (None, Verdict.HEALTHY)),
        needs=("time_lag", "log_end_offset"),
        measures=(
            Measure(signal="time_lag", column="time_lag_seconds", unit="s", threshold="time_lag_objective_seconds"),
            Measure(signal="consumer_lag", column="lag_messages", unit="messages"),
            Measure(signal="consumer_lag", column="lag_slope", unit="messages/s"),
            Measure(signal="log_end_offset", column="arrival_per_second", unit="messages/s arriving"),
        ),
    ),
    Node(
        id="consuming",
        number=3,
        question="Is anybody consuming: members, polls, commits?",
        short="anybody consuming?",
        test=(
            "CASE WHEN group_members_recent = 0 THEN false"
            # In a storm members are put out for not polling, and come back: that is the next question.
            " WHEN size(hung_members) > 0 AND NOT coalesce(rebalances >= {rebalances}, false) THEN false"
            " WHEN live_members = 0 AND baseline_members > 0 AND committed_recent_per_second = 0 THEN false"
            # Partitions that stand still, and nobody says whether their owner polls.
            " WHEN poll_age_seconds IS NULL AND stuck_count > 0 THEN NULL"
            " WHEN committed_moved > 0 OR group_members > 0 OR live_members > 0 THEN true END"
        ),
        yes="rebalancing",
        no=Verdict.CONSUMER_STOPPED,
        needs=("group_members", "poll_age"),
        measures=(
            Measure(signal="group_members", column="group_members", unit="members"),
            Measure(signal="poll_age", column="poll_age_seconds", unit="s", threshold="poll_age_seconds"),
            Measure(signal="committed_offset", column="committed_moved", unit="messages committed"),
        ),
    ),
    Node(
        id="rebalancing",
        number=4,
        question="Is the group rebalancing again and again?",
        short="rebalancing?",
        test="rebalances >= {rebalances}",
        yes=Verdict.REBALANCE_STORM,
        no="stuck",
        needs=("rebalances",),
        measures=(Measure(signal="rebalances", column="rebalances", unit="in the window", threshold="rebalances"),),
        contributes=True,
    ),
    Node(
        id="stuck",
        number=5,
        question="Is one partition stuck while its neighbours move?",
        short="one partition stuck?",
        test=(
            "CASE WHEN size(stuck_partitions) > 0 AND size(stuck_partitions) <= few_partitions AND moving_partitions > 0 THEN true"
            " WHEN silent_partitions > 0 THEN NULL ELSE false END"
        ),
        yes=Verdict.STUCK_PARTITION,
        no="queue_backed_up",
        needs=("committed_offset",),
        measures=(
            Measure(signal="committed_offset", column="stuck_count", unit="partitions that do not move"),
            Measure(signal="committed_offset", column="moving_partitions", unit="partitions that move"),
            Measure(signal="oldest_incomplete_age", column="oldest_incomplete_seconds", unit="s"),
        ),
        contributes=True,
    ),
    Node(
        id="queue_backed_up",
        number=6,
        question="Is the in-process queue backed up (enqueue time, queue length)?",
        short="queue backed up?",
        # Either of the two signals is enough to answer; only without both of them it is open.
        test=(
            "coalesce(queue_long, entry_slow) OR coalesce(entry_slow, queue_long)"
            " OR (coalesce(queue_long, entry_slow) IS NOT NULL AND coalesce(delay_full, false))"
        ),
        yes="delay_full",
        no="throttled",
        needs=("queue_length", "queue_capacity", "enqueue_time"),
        measures=(
            Measure(signal="queue_length", column="queue_fill", unit="of capacity", threshold="queue_fill_ratio"),
            Measure(
                signal="enqueue_time",
                column="enqueue_mean_seconds",
                unit="s",
                threshold="enqueue_seconds",
                baseline="enqueue_baseline_seconds",
            ),
        ),
    ),
    Node(
        id="delay_full",
        number=7,
        question="Is the bounded delay queue what is full?",
        short="delay queue full?",
        test="delay_full",
        yes=Verdict.DELAY_BACKLOG,
        no="one_slow",
        needs=("delayed_length", "delayed_capacity"),
        measures=(
            Measure(signal="delayed_length", column="delay_fill", unit="of capacity", threshold="delay_fill_ratio"),
            Measure(
                signal="delayed_length", column="delay_high", unit="of capacity at most", threshold="delay_high_ratio"
            ),
        ),
    ),
    Node(
        id="one_slow",
        number=8,
        question="Is one processor slow against its peers and its own baseline?",
        short="one processor slow?",
        test="one_slow",
        yes=Verdict.SLOW_PROCESSOR,
        no="one_queue",
        needs=("process_time",),
        measures=(
            Measure(
                signal="process_time",
                column="slowest_seconds",
                unit="s",
                threshold="slow_ratio",
                baseline="slowest_baseline_seconds",
                peers="peers_seconds",
            ),
            Measure(
                signal="process_time",
                column="slowest_slow_down",
                unit="× its baseline",
                threshold="slow_ratio",
                peers="peers_slow_down",
            ),
        ),
        contributes=True,
    ),
    Node(
        id="one_queue",
        number=9,
        question="Is one queue full while the others idle (keys unevenly spread)?",
        short="one queue full?",
        # When most of the full queues have full siblings, the keys are spread and something else is the matter.
        test="hot_queue_count > 0 AND 2 * hot_queue_count > full_queue_count",
        yes=Verdict.HOT_KEY,
        no="all_slow",
        needs=("queue_length", "queue_capacity"),
        measures=(
            Measure(signal="queue_length", column="hot_queue_count", unit="full queues beside idle ones"),
            Measure(signal="queue_length", column="full_queue_count", unit="full queues in all"),
        ),
        contributes=True,
    ),
    Node(
        id="all_slow",
        number=10,
        question="Are all processors slower than their baseline?",
        short="all slower?",
        test="median_slow_down >= {all_slow_ratio}",
        yes=Verdict.SLOW_DOWNSTREAM,
        no=Verdict.SATURATED_PROCESSORS,
        needs=("process_time",),
        measures=(
            Measure(
                signal="process_time", column="median_slow_down", unit="× their baseline", threshold="all_slow_ratio"
            ),
        ),
    ),
    Node(
        id="throttled",
        number=11,
        question="Is the broker throttling this client?",
        short="throttled?",
        test="throttle_seconds > {throttle_seconds}",
        yes=Verdict.THROTTLED,
        no="slow_network",
        needs=("throttle_time",),
        measures=(Measure(signal="throttle_time", column="throttle_seconds", unit="s", threshold="throttle_seconds"),),
        contributes=True,
    ),
    Node(
        id="slow_network",
        number=12,
        question="Are fetches or round trips slow?",
        short="network slow?",
        # Fetched messages that wait in the client say that the network brings more than is taken, whatever the round trips.
        test=(
            "CASE WHEN fetch_queue_mean >= {fetch_queue_messages} THEN false"
            " ELSE rtt_seconds >= {rtt_seconds} AND rtt_seconds >= {rtt_ratio} * rtt_baseline_seconds END"
        ),
        yes=Verdict.SLOW_NETWORK,
        no="hot_partition",
        needs=("broker_rtt", "fetch_queue_length"),
        measures=(
            Measure(
                signal="broker_rtt",
                column="rtt_seconds",
                unit="s",
                threshold="rtt_seconds",
                baseline="rtt_baseline_seconds",
            ),
            Measure(
                signal="fetch_queue_length",
                column="fetch_queue_mean",
                unit="messages",
                threshold="fetch_queue_messages",
            ),
        ),
    ),
    Node(
        id="hot_partition",
        number=13,
        question="Do a few partitions hold the lag?",
        short="few partitions hot?",
        test="size(hot_partitions) > 0 AND size(hot_partitions) <= few_partitions",
        yes=Verdict.HOT_PARTITION,
        no="too_few",
        needs=("consumer_lag",),
        measures=(
            Measure(
                signal="consumer_lag",
                column="highest_lag",
                unit="messages",
                threshold="hot_floor_messages",
                peers="typical_lag",
            ),
            Measure(signal="consumer_lag", column="hot_count", unit="hot partitions"),
        ),
        contributes=True,
    ),
    Node(
        id="too_few",
        number=14,
        question="Are there fewer consumers than partitions?",
        short="fewer consumers?",
        test="group_members < partition_count",
        yes=Verdict.TOO_FEW_CONSUMERS,
        no=Verdict.PARTITION_CEILING,
        needs=("group_members",),
        measures=(
            Measure(signal="group_members", column="group_members", unit="members"),
            Measure(signal="log_end_offset", column="partition_count", unit="partitions"),
        ),
    ),
)

TREE: dict[str, Node] = {node.id: node for node in _NODES}
ROOT = _NODES[0].id


def targets(node: Node) -> Iterator[str | Verdict]:
    """Where a node leads, yes first."""
    yield node.yes
    if isinstance(node.no, tuple):
        yield from (verdict for _, verdict in node.no)
    else:
        yield node.no

"""The decision tree as data: Spark evaluates it, the report draws it, the documentation lists it.

A test is SQL over the features of a subscription (`features.subscriptions`, `triage.anomalies`) with thresholds in braces; NULL
means "cannot tell". Questions 6, 8, 10 to 12, 14 and 15 follow the usual procedure for a consumer framework with in-process queues:
enqueue time and queue length first, then process time by event type, then the network, then the number of consumers and of partitions.
"""

from __future__ import annotations

from workbench.triage import wording
from workbench.triage.node import Ask, Choose, Conclude, Measure, Node
from workbench.triage.verdict import Verdict

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
        yes=Ask("lagging"),
        no=Choose(
            (
                ("lag_samples = 0 AND lag_bad_samples = 0", Verdict.NO_DATA),
                ("lag_samples > 0 AND last_sample_age_seconds > {stale_after_seconds}", Verdict.NO_DATA),
            ),
            otherwise=Verdict.UNUSABLE_DATA,
        ),
        words=wording.data,
        needs=(),
        measures=(
            Measure(
                "consumer_lag", "last_sample_age_seconds", "s since the last sample", threshold="stale_after_seconds"
            ),
            Measure("consumer_lag", "lag_samples", "usable samples"),
            Measure("consumer_lag", "lag_bad_samples", "unusable samples"),
        ),
    ),
    Node(
        id="lagging",
        number=2,
        question="Is the group lagging: late, growing or stalled?",
        short="lagging?",
        # Abandoned: no member will read these messages, however few they still are.
        test="(late AND NOT coalesce(draining, false)) OR growing OR stalled OR coalesce(abandoned, false)",
        yes=Ask("consuming"),
        no=Choose((("draining", Verdict.PRODUCER_BURST),), otherwise=Verdict.HEALTHY),
        words=wording.lagging,
        needs=("time_lag", "log_end_offset"),
        measures=(
            Measure("time_lag", "time_lag_seconds", "s", threshold="time_lag_objective_seconds"),
            Measure("consumer_lag", "lag_messages", "messages"),
            Measure("consumer_lag", "lag_slope", "messages/s"),
            Measure("log_end_offset", "arrival_per_second", "messages/s arriving"),
        ),
    ),
    Node(
        id="consuming",
        number=3,
        question="Is the group consuming: members, polls, commits?",
        short="group consuming?",
        test=(
            "CASE WHEN group_members_recent = 0 THEN false"
            # In a rebalance storm, members leave because they did not poll, and rejoin: the next question covers that.
            " WHEN size(hung_members) > 0 AND NOT coalesce(rebalances >= {rebalances}, false) THEN false"
            " WHEN live_members = 0 AND baseline_members > 0 AND committed_recent_per_second = 0 THEN false"
            # Some partitions are stuck, and no metric says whether their owner polls.
            " WHEN poll_age_seconds IS NULL AND (stuck_count > 0 OR moving_partitions = 0 AND frozen_count > 0) THEN NULL"
            " WHEN committed_moved > 0 OR group_members > 0 OR live_members > 0 THEN true END"
        ),
        yes=Ask("rebalancing"),
        no=Conclude(Verdict.CONSUMER_STOPPED),
        words=wording.consuming,
        needs=("group_members", "poll_age"),
        measures=(
            Measure("group_members", "group_members", "members"),
            Measure("poll_age", "poll_age_seconds", "s", threshold="poll_age_seconds"),
            Measure("committed_offset", "committed_moved", "messages committed"),
        ),
    ),
    Node(
        id="rebalancing",
        number=4,
        question="Does the group rebalance repeatedly?",
        short="rebalancing?",
        test="rebalances >= {rebalances}",
        yes=Conclude(Verdict.REBALANCE_STORM),
        no=Ask("stuck"),
        words=wording.rebalancing,
        needs=("rebalances",),
        measures=(
            Measure("rebalances", "rebalances", "in the window", threshold="rebalances"),
            Measure("reassigning_partitions", "reassigning_low", "partitions not with their target member, at least"),
        ),
        contributes=True,
    ),
    Node(
        id="stuck",
        number=5,
        question="Are some partitions stuck while others advance?",
        short="partitions stuck?",
        test=(
            "CASE WHEN size(stuck_partitions) > 0 AND size(stuck_partitions) <= few_partitions AND moving_partitions > 0 THEN true"
            " WHEN silent_partitions > 0 THEN NULL ELSE false END"
        ),
        yes=Conclude(Verdict.STUCK_PARTITION),
        no=Ask("queue_backed_up"),
        words=wording.stuck,
        needs=("committed_offset",),
        measures=(
            Measure("committed_offset", "stuck_count", "partitions that do not move"),
            Measure("committed_offset", "moving_partitions", "partitions that move"),
            Measure("oldest_incomplete_age", "oldest_incomplete_seconds", "s"),
        ),
        contributes=True,
    ),
    Node(
        id="queue_backed_up",
        number=6,
        question="Is the in-process queue backed up (enqueue time, queue length)?",
        short="queue backed up?",
        # One of the two signals is enough; without both, the answer is "cannot tell".
        test=(
            "coalesce(queue_long, entry_slow) OR coalesce(entry_slow, queue_long)"
            " OR (coalesce(queue_long, entry_slow) IS NOT NULL AND coalesce(delay_full, false))"
        ),
        yes=Ask("delay_full"),
        no=Ask("throttled"),
        words=wording.queue,
        needs=("queue_length", "queue_capacity", "enqueue_time"),
        measures=(
            Measure("queue_length", "queue_fill", "of capacity", threshold="queue_fill_ratio"),
            Measure(
                "enqueue_time",
                "enqueue_mean_seconds",
                "s",
                threshold="enqueue_seconds",
                baseline="enqueue_baseline_seconds",
            ),
        ),
    ),
    Node(
        id="delay_full",
        number=7,
        question="Is the delay queue full?",
        short="delay queue full?",
        test="delay_full",
        yes=Conclude(Verdict.DELAY_BACKLOG),
        no=Ask("one_slow"),
        words=wording.delay,
        needs=("delayed_length", "delayed_capacity"),
        measures=(
            Measure("delayed_length", "delay_fill", "of capacity", threshold="delay_fill_ratio"),
            Measure("delayed_length", "delay_high", "of capacity at most", threshold="delay_high_ratio"),
        ),
    ),
    Node(
        id="one_slow",
        number=8,
        question="Is one processor slow compared with its peers and its own baseline?",
        short="one processor slow?",
        test="one_slow",
        yes=Conclude(Verdict.SLOW_PROCESSOR),
        no=Ask("one_queue"),
        words=wording.one_slow,
        needs=("process_time",),
        measures=(
            Measure(
                "process_time",
                "slowest_seconds",
                "s",
                threshold="slow_ratio",
                baseline="slowest_baseline_seconds",
                peers="peers_seconds",
            ),
            Measure(
                "process_time", "slowest_slow_down", "× its baseline", threshold="slow_ratio", peers="peers_slow_down"
            ),
        ),
        contributes=True,
    ),
    Node(
        id="one_queue",
        number=9,
        question="Is one queue full while the others are idle (uneven keys)?",
        short="one queue full?",
        # If most of the full queues have full siblings, the keys are spread evenly, and the cause is another one.
        test="hot_queue_count > 0 AND 2 * hot_queue_count > full_queue_count",
        yes=Conclude(Verdict.HOT_KEY),
        no=Ask("all_slow"),
        words=wording.one_queue,
        needs=("queue_length", "queue_capacity"),
        measures=(
            Measure("queue_length", "hot_queue_count", "full queues beside idle ones"),
            Measure("queue_length", "full_queue_count", "full queues in all"),
        ),
        contributes=True,
    ),
    Node(
        id="all_slow",
        number=10,
        question="Are all processors slower than their baseline?",
        short="all slower?",
        test="median_slow_down >= {all_slow_ratio}",
        yes=Conclude(Verdict.SLOW_DOWNSTREAM),
        no=Conclude(Verdict.SATURATED_PROCESSORS),
        words=wording.all_slow,
        needs=("process_time",),
        measures=(Measure("process_time", "median_slow_down", "× their baseline", threshold="all_slow_ratio"),),
    ),
    Node(
        id="throttled",
        number=11,
        question="Is the broker throttling this client?",
        short="throttled?",
        test="throttle_seconds > {throttle_seconds}",
        yes=Conclude(Verdict.THROTTLED),
        no=Ask("slow_network"),
        words=wording.throttled,
        needs=("throttle_time",),
        measures=(Measure("throttle_time", "throttle_seconds", "s", threshold="throttle_seconds"),),
        contributes=True,
    ),
    Node(
        id="slow_network",
        number=12,
        question="Are fetches or round trips slow?",
        short="network slow?",
        # Fetched messages that wait in the client show that the network delivers enough, whatever the round trips.
        test=(
            "CASE WHEN fetch_queue_mean >= {fetch_queue_messages} THEN false"
            " ELSE rtt_seconds >= {rtt_seconds} AND rtt_seconds >= {rtt_ratio} * rtt_baseline_seconds END"
        ),
        yes=Conclude(Verdict.SLOW_NETWORK),
        no=Ask("frozen"),
        words=wording.network,
        needs=("broker_rtt", "fetch_queue_length"),
        measures=(
            Measure("broker_rtt", "rtt_seconds", "s", threshold="rtt_seconds", baseline="rtt_baseline_seconds"),
            Measure("fetch_queue_length", "fetch_queue_mean", "messages", threshold="fetch_queue_messages"),
        ),
    ),
    Node(
        id="frozen",
        number=13,
        question="Does any partition stand still, for none of these reasons?",
        short="any standing still?",
        # What stands still is not hot, and neither consumers nor partitions move it.
        test="stalled",
        yes=Conclude(Verdict.STUCK_PARTITION),
        no=Ask("hot_partition"),
        words=wording.frozen,
        needs=("committed_offset",),
        measures=(Measure("committed_offset", "frozen_count", "partitions whose commits have stopped"),),
    ),
    Node(
        id="hot_partition",
        number=14,
        question="Is most of the lag in a few partitions?",
        short="hot partitions?",
        test="size(hot_partitions) > 0 AND size(hot_partitions) <= few_partitions",
        yes=Conclude(Verdict.HOT_PARTITION),
        no=Ask("too_few"),
        words=wording.hot,
        needs=("consumer_lag",),
        measures=(
            Measure("consumer_lag", "highest_lag", "messages", threshold="hot_floor_messages", peers="typical_lag"),
            Measure("consumer_lag", "hot_count", "hot partitions"),
        ),
        contributes=True,
    ),
    Node(
        id="too_few",
        number=15,
        question="Are there fewer consumers than partitions?",
        short="fewer consumers?",
        test="group_members < partition_count",
        yes=Conclude(Verdict.TOO_FEW_CONSUMERS),
        no=Conclude(Verdict.PARTITION_CEILING),
        words=wording.too_few,
        needs=("group_members",),
        measures=(
            Measure("group_members", "group_members", "members"),
            Measure("log_end_offset", "partition_count", "partitions"),
        ),
    ),
)

TREE: dict[str, Node] = {node.id: node for node in _NODES}
ROOT = _NODES[0].id

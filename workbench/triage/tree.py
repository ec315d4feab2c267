"""The decision tree as data: Spark evaluates it, the report draws it, the documentation lists it.

A test is SQL over the features of a subscription (`features.subscriptions`, `triage.anomalies`) with thresholds in braces; NULL
means "cannot tell". Questions 11, 13, 15 to 17, 19 and 21 follow the usual procedure for a consumer framework with in-process queues:
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
            "lag_known_partitions > 0 AND last_sample_age_seconds <= stale_seconds AND lag_bad_samples <= lag_samples"
        ),
        yes=Ask("lost"),
        no=Choose(
            (
                ("lag_samples = 0 AND lag_bad_samples = 0", Verdict.NO_DATA),
                ("lag_bad_samples = 0 AND last_sample_age_seconds > stale_seconds", Verdict.NO_DATA),
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
        id="lost",
        number=2,
        question="Were records deleted or skipped before they were read?",
        short="records lost?",
        test=(
            "CASE WHEN coalesce(lost_messages, 0) > 0 OR coalesce(skipped_messages, 0) > 0 THEN true"
            " WHEN doubtful_messages > 0 THEN NULL ELSE false END"
        ),
        yes=Conclude(Verdict.RECORDS_LOST),
        no=Ask("reset"),
        words=wording.lost,
        needs=("log_start_offset", "committed_offset"),
        measures=(
            Measure("log_start_offset", "lost_messages", "messages deleted before they were read"),
            Measure("committed_offset", "skipped_messages", "messages passed by a commit", threshold="skip_pace_ratio"),
        ),
    ),
    Node(
        id="reset",
        number=3,
        question="Did commits go back, or are they above the log's end?",
        short="offsets reset?",
        test="coalesce(back_messages, 0) > 0 OR coalesce(above_end_messages, 0) > 0",
        yes=Conclude(Verdict.OFFSETS_RESET),
        no=Ask("lagging"),
        words=wording.reset,
        needs=("committed_offset", "log_end_offset"),
        measures=(
            Measure("committed_offset", "back_messages", "messages back"),
            Measure("committed_offset", "above_end_messages", "messages above the end"),
        ),
    ),
    Node(
        id="lagging",
        number=4,
        question="Is the group lagging: late, growing or stalled?",
        short="lagging?",
        # Abandoned: no member will read these messages, however few they still are.
        test=(
            "CASE WHEN steady OR batch_perhaps THEN NULL"
            " WHEN just_resumed AND NOT coalesce(comes_and_goes, false) THEN NULL"
            # What comes and goes is not over because it ends once more.
            " WHEN ((late OR growing) AND NOT coalesce(draining, false))"
            " OR stalled OR coalesce(comes_and_goes, false) OR coalesce(abandoned, false) THEN true"
            # An all-clear needs its proof.
            " WHEN unproven AND NOT coalesce(draining, false) THEN NULL"
            " WHEN late IS NULL OR growing IS NULL THEN NULL ELSE false END"
        ),
        yes=Ask("consuming"),
        no=Ask("draining"),
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
        id="draining",
        number=5,
        question="Is it catching up?",
        short="catching up?",
        test="coalesce(draining, false)",
        yes=Conclude(Verdict.PRODUCER_BURST),
        no=Ask("failing"),
        words=wording.draining,
        needs=("consumer_lag",),
        measures=(Measure("consumer_lag", "eta_drain_seconds", "s until nothing waits"),),
    ),
    Node(
        id="failing",
        number=6,
        question="Do more records fail than usual, although the group keeps up?",
        short="records failing?",
        test=(
            "coalesce(failing_share >= {failing_ratio}"
            " AND (failing_share >= 3 * failing_baseline_share OR failing_share >= 0.5), false)"
        ),
        yes=Conclude(Verdict.FAILING_RECORDS),
        no=Ask("silent"),
        words=wording.failing,
        needs=("processed",),
        measures=(
            Measure(
                "processed",
                "failing_share",
                "of the attempts",
                threshold="failing_ratio",
                baseline="failing_baseline_share",
            ),
        ),
        contributes=True,
    ),
    Node(
        id="silent",
        number=7,
        question="Does nothing arrive, although records usually do?",
        short="producer silent?",
        test="coalesce(quiet_seconds >= {silent_seconds} AND quiet_seconds >= 3 * usual_gap_seconds, false)",
        yes=Conclude(Verdict.PRODUCER_SILENT),
        no=Choose((("recovered_seconds IS NOT NULL", Verdict.RECOVERED),), otherwise=Verdict.HEALTHY),
        words=wording.silent,
        needs=("log_end_offset",),
        measures=(
            Measure("log_end_offset", "quiet_seconds", "s since the last arrival", threshold="silent_seconds"),
            Measure("log_end_offset", "usual_gap_seconds", "s at most before"),
            Measure("log_end_offset", "arrival_per_second", "messages/s arriving"),
        ),
    ),
    Node(
        id="consuming",
        number=8,
        question="Is the group consuming: members, polls, commits?",
        short="group consuming?",
        test=(
            # A commit that moves proves a consumer, whatever an exporter counts.
            "CASE WHEN group_members_recent = 0 AND NOT moving_now THEN false"
            # In a rebalance storm, members leave because they did not poll, and rejoin: the next question covers that.
            " WHEN rejoining THEN true"
            " WHEN size(hung_members) > 0 AND (stalled OR size(standing_partitions) > 0 OR coalesce(committed_moved, 0) = 0)"
            " AND NOT coalesce(rebalances >= {rebalances}, false) THEN false"
            " WHEN live_members = 0 AND baseline_members > 0 AND NOT moving_now THEN false"
            # Some partitions are stuck, and no metric says whether their owner polls. Fewer than one member owns are no lost member.
            " WHEN poll_age_seconds IS NULL AND (moving_partitions = 0 AND frozen_count > 0 OR stuck_count > 0"
            " AND NOT coalesce(stuck_count < floor(partition_count / group_members), false)) THEN NULL"
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
        number=9,
        question="Does the group rebalance repeatedly?",
        short="rebalancing?",
        test=(
            "CASE WHEN passing_members >= 3 AND baseline_members > 0 THEN true"
            " WHEN rejoining THEN true"
            " ELSE rebalances >= {rebalances} END"
        ),
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
        number=10,
        question="Are some partitions stuck while others advance?",
        short="partitions stuck?",
        test=(
            "CASE WHEN size(stuck_partitions) > 0 AND size(stuck_partitions) <= few_partitions AND moving_partitions > 0 THEN true"
            " WHEN frozen_count > 0 AND frozen_count <= few_partitions AND moving_partitions > 0"
            " AND queue_fill IS NULL AND enqueue_mean_seconds IS NULL THEN NULL"
            " WHEN silent_partitions > 0 AND moving_partitions = 0 THEN NULL ELSE false END"
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
        number=11,
        question="Is the in-process queue backed up (enqueue time, queue length)?",
        short="queue backed up?",
        # One of the two signals is enough; without both, the answer is "cannot tell".
        test=(
            "coalesce(queue_long, entry_slow) OR coalesce(entry_slow, queue_long)"
            " OR (coalesce(queue_long, entry_slow) IS NOT NULL AND (coalesce(delay_full, false) OR coalesce(held_inside, false)))"
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
        number=12,
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
        number=13,
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
        number=14,
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
        number=15,
        question="Are all processors slower than their baseline?",
        short="all slower?",
        # Full queues before idle threads are no want of threads: something holds them.
        test=(
            "CASE WHEN median_slow_down < {all_slow_ratio}"
            " AND (busy_share < 0.3 OR NOT coalesce(queue_long OR entry_slow, false)) THEN NULL"
            " ELSE median_slow_down >= {all_slow_ratio} END"
        ),
        yes=Conclude(Verdict.SLOW_DOWNSTREAM),
        no=Choose(
            (("coalesce(arrival_ratio >= {burst_ratio}, false)", Verdict.BURST),),
            otherwise=Verdict.SATURATED_PROCESSORS,
        ),
        words=wording.all_slow,
        needs=("process_time",),
        measures=(Measure("process_time", "median_slow_down", "× their baseline", threshold="all_slow_ratio"),),
    ),
    Node(
        id="throttled",
        number=16,
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
        number=17,
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
        number=18,
        question="Does any partition stand still, for none of these reasons?",
        short="any standing still?",
        # What stands still is not hot, and neither consumers nor partitions move it.
        test=(
            "CASE WHEN stalled THEN true"
            " WHEN size(standing_partitions) > 0 AND size(array_except(behind_partitions, standing_partitions)) = 0 THEN NULL"
            " ELSE false END"
        ),
        yes=Conclude(Verdict.STUCK_PARTITION),
        no=Ask("hot_partition"),
        words=wording.frozen,
        needs=("committed_offset",),
        measures=(Measure("committed_offset", "frozen_count", "partitions whose commits have stopped"),),
    ),
    Node(
        id="hot_partition",
        number=19,
        question="Is most of the lag in a few partitions?",
        short="hot partitions?",
        test="size(hot_partitions) > 0 AND size(hot_partitions) <= few_partitions",
        yes=Conclude(Verdict.HOT_PARTITION),
        no=Ask("burst"),
        words=wording.hot,
        needs=("consumer_lag",),
        measures=(
            Measure("consumer_lag", "highest_lag", "messages", threshold="hot_floor_messages", peers="typical_lag"),
            Measure("consumer_lag", "hot_count", "hot partitions"),
        ),
        contributes=True,
    ),
    Node(
        id="burst",
        number=20,
        question="Do far more records arrive than usual?",
        short="a burst?",
        test="coalesce(arrival_ratio >= {burst_ratio}, false)",
        yes=Conclude(Verdict.BURST),
        no=Ask("too_few"),
        words=wording.burst,
        needs=("log_end_offset",),
        measures=(
            Measure("log_end_offset", "arrival_ratio", "× the baseline", threshold="burst_ratio"),
            Measure(
                "log_end_offset", "arrival_per_second", "messages/s arriving", baseline="arrival_baseline_per_second"
            ),
        ),
        contributes=True,
    ),
    Node(
        id="too_few",
        number=21,
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

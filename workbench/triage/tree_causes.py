"""The questions of the tree about why a group lags.

Those about queues, processors, the network, and the number of consumers and partitions follow the usual procedure for a consumer
framework with in-process queues: enqueue time and queue length first, then process time by event type, then the network, then the
number of consumers and of partitions. A consumer without queues is asked the same of its client and its handlers.
"""

from __future__ import annotations

from workbench.triage import wording
from workbench.triage.node import Ask, Choose, Conclude, Measure, Node
from workbench.triage.own_work import NEVER_EMPTY, READ
from workbench.triage.verdict import Verdict

_MORE_WORK = 1.05  # times that of the baseline
_CATCHES_UP = 1.2  # times what arrives
_ROOM = 0.5  # of a thread for each member
_ALL_TIME = 0.9  # of a thread for each member
_LOST_PACE, _KEPT_PACE = 0.75, 0.95  # times the pace before
_MORE_ARRIVES = 1.1  # times the arrivals before
_WARM = 1.2  # times the arrivals of a typical partition
# Then neither members, nor rebalances, nor queues explain what stands still.
_BLOCKED = "coalesce(stall_cause = 'open_transaction', false)"

# Without process times: more is read than ever was needed before, or only a few partitions, to which more arrives, are late. Slower
# handlers would read less, and hold up every partition of a member.
_NOT_SLOWER = (
    "queueless AND median_slow_down IS NULL AND slowest_slow_down IS NULL"
    f" AND coalesce(pace_ratio >= {_KEPT_PACE} AND arrival_ratio >= {_MORE_ARRIVES} OR surely_hot, false)"
)

_AS_EVER = (
    f"coalesce(has_queues AND NOT coalesce(queue_long OR entry_slow, false) AND hot_arrival_ratio < {{hot_factor}}"
    f" AND coalesce(hot_growth < {_WARM}, hot_arrival_ratio < {_WARM}), false)"
)

# A few stand still, for not so long that they must be stuck, while their consumer works all the time and commits what it does: they may
# wait until it has read the others.
_WAITS_FOR_OTHERS = (
    "queueless AND own_work AND works_on AND moving_partitions > 0"
    " AND size(stuck_partitions) = 0 AND frozen_count BETWEEN 1 AND few_partitions"
)
# Where most of the others are behind, too, its work is the reason, and what stands still waits.
_WAITS_ITS_TURN = f"coalesce({_WAITS_FOR_OTHERS} AND 2 * size(behind_partitions) > partition_count, false)"

CAUSES = (
    Node(
        id="consuming",
        number=8,
        question="Is the group consuming: members, polls, commits?",
        short="group consuming?",
        test=(
            "CASE WHEN batch_missed THEN false"
            # A commit that moves proves a consumer, whatever an exporter counts.
            " WHEN group_members_recent = 0 AND NOT moving_now AND (count_disproved IS NULL OR frozen_count > 0) THEN false"
            # In a rebalance storm, members leave because they did not poll, and rejoin: the next question covers that.
            " WHEN rejoining THEN true"
            " WHEN size(hung_members) > 0 AND (stalled OR size(standing_partitions) > 0 OR coalesce(committed_moved, 0) = 0)"
            " AND NOT coalesce(rebalances >= {rebalances}, false) THEN false"
            " WHEN live_members = 0 AND baseline_members > 0 AND NOT moving_now THEN false"
            f" WHEN {_BLOCKED} THEN true"
            # It hangs, has paused, or its client gets nothing.
            " WHEN size(idle_members) > 0 AND NOT at_quota THEN NULL"
            # Some partitions are stuck, and no metric says whether their owner polls. Fewer than one member owns are no lost member.
            " WHEN polling IS NULL AND (moving_partitions = 0 AND frozen_count > 0 OR stuck_count > 0"
            " AND NOT coalesce(stuck_count < floor(partition_count / nullif(group_members, 0)), false)) THEN NULL"
            " WHEN committed_moved > 0 OR group_members > 0 OR live_members > 0 THEN true END"
        ),
        yes=Ask("rebalancing"),
        no=Choose((("batch_missed", Verdict.BATCH_MISSED),), otherwise=Verdict.CONSUMER_STOPPED),
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
            f" WHEN rebalances IS NULL AND ({_BLOCKED} OR works_on OR most_keep_up OR at_quota"
            f" OR coalesce(pace_ratio >= {_KEPT_PACE}, false)) THEN false"
            # Of members that poll too rarely, each round takes as long as the group allows: a window may have only one of several.
            " WHEN size(paused_members) > 0 AND rebalances_since >= {rebalances} AND 2 * rebalances >= {rebalances} THEN true"
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
            f"CASE WHEN {_BLOCKED} THEN true"
            " WHEN size(stuck_partitions) > 0 AND size(stuck_partitions) <= few_partitions AND moving_partitions > 0 THEN true"
            " WHEN frozen_count > 0 AND frozen_count <= few_partitions AND moving_partitions > 0"
            f" AND queue_fill IS NULL AND enqueue_mean_seconds IS NULL AND NOT {_WAITS_ITS_TURN} THEN NULL"
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
        question="Is the consumer's own work the limit (queue length, enqueue time; else fetched messages, idle time, process time)?",
        short="own work the limit?",
        # One of the two signals is enough. A consumer without queues is judged by its client and its handlers; a fact that explains
        # the lag by itself needs neither.
        test=(
            "CASE WHEN has_queues THEN coalesce(queue_long, entry_slow) OR coalesce(entry_slow, queue_long)"
            " OR (coalesce(queue_long, entry_slow) IS NOT NULL AND (coalesce(delay_full, false) OR coalesce(held_inside, false)))"
            " WHEN own_work IS NOT NULL THEN own_work"
            " WHEN surely_throttled OR surely_slow_network OR surely_hot THEN false END"
        ),
        yes=Ask("delay_full"),
        no=Ask("throttled"),
        words=wording.queue,
        needs=("queue_length", "enqueue_time", "fetch_queue_length", "poll_idle", "process_time"),
        measures=(
            Measure("fetch_queue_length", "fetched_low", "fetched messages wait at least"),
            Measure("poll_idle", "poll_idle", "of the time waiting for records"),
            Measure("process_time", "loop_busy", "busy threads a member", baseline="loop_busy_baseline"),
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
        test="CASE WHEN queueless THEN coalesce(delay_full, false) ELSE delay_full END",
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
        # Handlers that take less than half of a loop's time cannot be what holds it up.
        test=f"CASE WHEN queueless AND loop_busy <= 0.5 THEN false WHEN {_NOT_SLOWER} THEN false ELSE one_slow END",
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
                times="its baseline",
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
        test="CASE WHEN queueless THEN false ELSE hot_queue_count > 0 AND 2 * hot_queue_count > full_queue_count END",
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
            # Handlers with room are not the reason, unless their threads never wait: then more of the time is theirs than is measured.
            f"CASE WHEN queueless AND loop_busy <= {_ROOM} AND NOT coalesce(own_work AND median_slow_down >= {{all_slow_ratio}}, false)"
            f" THEN false WHEN {_NOT_SLOWER} THEN false"
            " WHEN NOT queueless AND median_slow_down < {all_slow_ratio}"
            " AND (busy_share < 0.3 OR NOT coalesce(queue_long OR entry_slow, false)) THEN NULL"
            " ELSE median_slow_down >= {all_slow_ratio} END"
        ),
        yes=Conclude(Verdict.SLOW_DOWNSTREAM),
        no=Ask("threads"),
        words=wording.all_slow,
        needs=("process_time",),
        measures=(Measure("process_time", "median_slow_down", "× their baseline", threshold="all_slow_ratio"),),
        contributes=True,
    ),
    Node(
        id="threads",
        number=16,
        question="Has the consumer queues and threads of its own, so that there could be more of them?",
        short="threads of its own?",
        # What comes and goes has room in between: more of it is no cure. A lag that rises with every commit's sawtooth looks the same,
        # but its consumer works more than in good times, and always has something left to do.
        test=(
            "CASE WHEN has_queues THEN true WHEN coalesce(comes_and_goes, false)"
            f" AND NOT coalesce(growing AND (fetched_low >= {NEVER_EMPTY} OR fetched_low IS NULL AND loop_busy >= {_ALL_TIME})"
            f" AND loop_busy > {_MORE_WORK} * loop_busy_baseline, false)"
            " THEN NULL WHEN queueless THEN false END"
        ),
        yes=Choose(
            (("coalesce(arrival_ratio >= {burst_ratio}, false)", Verdict.BURST),),
            otherwise=Verdict.SATURATED_PROCESSORS,
        ),
        # The room of a poll loop is members and partitions.
        no=Ask("frozen"),
        words=wording.threads,
        needs=("queue_length",),
        measures=(Measure("process_time", "loop_busy", "busy threads a member"),),
    ),
    Node(
        id="throttled",
        number=17,
        question="Is the broker throttling this client?",
        short="throttled?",
        # Averages of the client (Java: over 30 s) begin low: one that waits, and is throttled at all, may be throttled for long.
        test=(
            "CASE WHEN throttle_seconds > {throttle_seconds} THEN true"
            # Without a client's own word: it reads what its quota allows, and no more.
            " WHEN throttle_seconds IS NULL AND at_quota THEN true"
            " WHEN surely_slow_network OR surely_hot THEN false"
            f" WHEN throttle_seconds > 0 AND NOT own_work AND NOT coalesce(pace_ratio >= {_LOST_PACE}, false) THEN NULL"
            " WHEN throttle_seconds IS NOT NULL THEN false END"
        ),
        yes=Conclude(Verdict.THROTTLED),
        no=Ask("slow_network"),
        words=wording.throttled,
        needs=("throttle_time",),
        measures=(
            Measure("throttle_time", "throttle_seconds", "s", threshold="throttle_seconds"),
            Measure("read_quota", "quota_share", "of what its quota lets it read"),
        ),
        contributes=True,
    ),
    Node(
        id="slow_network",
        number=18,
        question="Are fetches or round trips slow?",
        short="network slow?",
        # Fetched messages that wait in the client show that the network delivers enough, whatever the round trips.
        test=(
            "CASE WHEN fetch_queue_mean >= {fetch_queue_messages} THEN false"
            # Nothing at all was fetched: that is not slow, and makes no round trips to measure.
            " WHEN rtt_seconds IS NULL AND stall_cause IS NOT NULL THEN false"
            " ELSE coalesce(rtt_seconds >= {rtt_seconds} AND rtt_seconds >= {rtt_ratio} * rtt_baseline_seconds,"
            " CASE WHEN surely_hot THEN false END) END"
        ),
        yes=Conclude(Verdict.SLOW_NETWORK),
        no=Ask("frozen"),
        words=wording.network,
        needs=("broker_rtt", "fetch_queue_length"),
        measures=(
            Measure("broker_rtt", "rtt_seconds", "s", threshold="rtt_seconds", baseline="rtt_baseline_seconds"),
            Measure("fetch_queue_length", "fetch_queue_mean", "messages", threshold="fetch_queue_messages"),
        ),
        contributes=True,
    ),
    Node(
        id="frozen",
        number=19,
        question="Does any partition stand still, for none of these reasons?",
        short="any standing still?",
        # What stands still is not hot, and neither consumers nor partitions move it.
        test=(
            f"CASE WHEN {_WAITS_FOR_OTHERS} THEN NULL WHEN stalled THEN true"
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
        number=20,
        question="Is most of the lag in a few partitions?",
        short="hot partitions?",
        # Partitions that are read less than the others, although no more arrives there, are not hot.
        test=(
            # How far behind those are that nobody measures any more is not known.
            "CASE WHEN size(array_intersect(hot_partitions, dark_partitions)) > 0 THEN NULL"
            " WHEN size(hot_partitions) > 0 AND size(hot_partitions) <= few_partitions THEN CASE"
            # Nor are those with the usual share of the arrivals, while all queues are empty: something else holds up the largest ones.
            f" WHEN NOT queueless AND {_AS_EVER} THEN NULL WHEN NOT queueless THEN NOT coalesce(pace_ratio < {_LOST_PACE}, false)"
            # Of a burst on all of them, one may have more to do than its member can.
            " WHEN own_work AND arrival_ratio >= {burst_ratio} AND hot_arrival_ratio < {hot_factor} THEN false"
            f" WHEN coalesce(hot_arrival_ratio >= {_WARM}, true) AND (coalesce(hot_growth >= {_WARM}, true)"
            " OR coalesce(hot_arrival_ratio >= {hot_factor}, false)) THEN true"
            # The others have room: more consumers for all are not what is missing.
            " WHEN own_work AND NOT size(behind_partitions) BETWEEN 1 AND few_partitions THEN false END"
            " ELSE false END"
        ),
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
        number=21,
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
        number=22,
        question="Are there fewer consumers than partitions?",
        short="fewer consumers?",
        # More consumers do not help those that wait. And who reads less than before, with as many members, has lost its pace to
        # something that was not found.
        test="CASE WHEN queueless AND NOT own_work THEN NULL"
        # Between two outages it has room enough. And where most keep up, and the few that do not have not moved lately, they may stand.
        " WHEN outages OR few_have_paused THEN NULL"
        # Less is read than before, although its queues are empty, and nothing waits in the client: it is not the limit.
        f" WHEN has_queues AND NOT coalesce(queue_long OR entry_slow, false) AND pace_ratio < {_KEPT_PACE}"
        " AND fetch_queue_mean < {fetch_queue_messages} THEN NULL"
        # Nor is more room wanted where more is read than arrives.
        f" WHEN committed_recent_per_second > {_CATCHES_UP} * arrival_per_second AND {READ} > arrival_per_second THEN NULL"
        # Threads that never wait, and handlers that do no more than before: what takes the time is not measured.
        f" WHEN queueless AND loop_busy <= {_ROOM} AND loop_busy <= {_MORE_WORK} * loop_busy_baseline THEN NULL"
        f" WHEN pace_ratio < {_LOST_PACE} THEN NULL ELSE group_members < partition_count END",
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

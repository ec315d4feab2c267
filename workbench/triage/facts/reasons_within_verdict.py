"""Causes within a verdict, in the order in which the first one that holds is named: why commits stand still, why members rebalance,
what holds up the processes of slow handlers.

The fact is decided by these reasons (`Partitions.stall_cause`, `Members.storm_cause`, `ProcessorFacts.held_up_by`), and the tree prints
them.
"""

from __future__ import annotations

from workbench.judgement_numbers import FAR, LESS, MOST, PART, SEVERAL
from workbench.triage.operand import Operand, Reason

_AGAIN = f"records are tried again, {SEVERAL:g} times or more and {FAR:g} × as often as before"
_NONE_MOVES = Operand("moving_partitions", "partitions advance", "=", number=0)

# Of partitions that stand still.
STALL_CAUSES: tuple[Reason[str], ...] = (
    # Standbys read changelogs too; but while nothing of the input is handled, nothing is written to them.
    Reason(
        "restoring",
        "restoring",
        "a Kafka Streams application restores its state stores, and no partition of the input advances: wait, do not restart",
        (Operand("restoring_messages", "messages of changelogs", ">", number=0), _NONE_MOVES),
    ),
    Reason(
        "held_long",
        "poison_record",
        f"a few of them have a record in a handler, for {MOST:g} × the time that their records wait, or longer",
        (
            Operand("held_count", "partitions", ">", number=0),
            Operand("held_count", "partitions", "<=", number=1, of="few_partitions"),
        ),
    ),
    Reason(
        "open_transaction",
        "open_transaction",
        "their commits stand at the last stable offset",
        (Operand("blocked_share", "of what stands still", ">", number=MOST),),
    ),
    Reason(
        "fells_its_owners",
        "poison_record",
        "a few are stuck, all others keep up, and a member rebalances as often as in a storm (`rebalances`): a record there ends each"
        " owner in turn",
        besides=lambda row: row.fells_its_owners,
    ),
    Reason(
        "commit_fails",
        "commit_fails",
        "what arrives there is read and handled as before, and the commits do not move",
        (Operand("read_share", "of what arrives there", ">=", number=LESS),),
        besides=lambda row: row.waits_inside is False,
    ),
    Reason(
        "tried_again",
        "poison_record",
        f"a few of them stand still, or no more than one member has, and {_AGAIN}",
        besides=lambda row: row.held_by_tries or (row.tried_again and len(row.still) <= row.few_partitions),
    ),
    Reason(
        "handlers_fail",
        "handlers_fail",
        f"no partition advances, and {_AGAIN}",
        (_NONE_MOVES,),
        besides=lambda row: row.tried_again,
    ),
    Reason(
        "paused",
        "paused",
        "a member has paused partitions",
        (Operand("paused_share", "of the time", ">=", number=MOST),),
    ),
    # Without the number of paused ones, partitions that somebody has paused look the same.
    Reason(
        "client_stalled",
        "client_stalled",
        "members poll, and get little of what arrives there; how many partitions are paused is measured",
        (
            Operand("read_share", "of what arrives there", "<", number=LESS),
            Operand("paused_share", "of the time paused", "<", number=MOST),
        ),
    ),
)

# Of handlers that are slower than before: what their process waits for, whatever they call.
PROCESS_CAUSES: tuple[Reason[str], ...] = (
    Reason(
        "cpu_limit",
        "cpu_limit",
        "its CPU limit stops the process far more often than before",
        (
            Operand("cpu_stopped_share", "of the periods", ">=", number=PART),
            Operand("cpu_stopped_share", "of the periods", ">=", number=FAR, of="cpu_stopped_before"),
        ),
    ),
    Reason(
        "garbage_collection",
        "garbage_collection",
        "its process collects garbage for far more of the time than before",
        (
            Operand("gc_share", "of the time", ">=", number=PART),
            Operand("gc_share", "of the time", ">=", number=FAR, of="gc_share_before"),
        ),
    ),
)

# A deploy replaces many members once; a crash loop restarts the same ones; too rare polls restart none. A slow deploy may have
# reached only a few members by the end of the window, but none of them twice. Members that only join, or come and go again, show
# neither: somebody may add and remove them.
STORM_CAUSES: tuple[Reason[str], ...] = (
    Reason(
        "rollout",
        "deploy",
        "two members or more started anew, or went while others came in their place: none of them twice, or half of all members and"
        " more, none more than twice",
        (Operand("replaced_members", "members", ">=", number=2),),
        besides=lambda row: row.rollout,
    ),
    Reason(
        "most_of_them",
        "deploy",
        "half of all members or more (at least two) started anew, each only so often, and none twice and before the window, too",
        (Operand("most_restarts", "times", "<=", setting="deploy_restarts"),),
        besides=lambda row: (
            len(row.restarted_members) >= 2
            and 2 * len(row.restarted_members) >= row.known_members
            and not row.restarts_go_on
        ),
    ),
    Reason(
        "member_crash",
        "member_crash",
        "a member started anew, and it is no deploy; or all have gone, again and again",
        besides=lambda row: bool(row.restarted_members) or row.loses_all_members,
    ),
    Reason(
        "metadata_change",
        "metadata_change",
        "no member came or went, and as many partitions appeared in the window as explain the rebalances",
        (
            Operand("new_partitions", "partitions", ">", number=0),
            Operand(
                "rebalances",
                "in the window",
                "<=",
                number=2,
                of="new_partitions",
                why="cooperative members take two rounds",
            ),
        ),
        besides=lambda row: row.new_partitions < row.partition_count and not row.changed_members,
    ),
    Reason(
        "poll_stall",
        "poll_stall",
        "no member came or went, and one did not poll for longer than `poll_age_seconds`",
        besides=lambda row: bool(row.paused_members) and not row.changed_members,
    ),
    # Some clients (franz-go, kafkajs) send no heartbeat to a broker that holds their answer back.
    Reason(
        "held_heartbeats",
        "held_heartbeats",
        "none of these, and its quota lets it read less than arrives: heartbeats may wait behind answers that the broker holds back",
        (Operand("arrival_per_second", "messages/s", ">", number=1, of="read_quota_per_second"),),
    ),
)

"""A few partitions are stuck while others advance: usually a record that the handler cannot process."""

from __future__ import annotations

from workbench.features.measured import PartitionFeatures
from workbench.humanize import listed, plural, shell_word
from workbench.triage.actions import DUMPS
from workbench.triage.checks import Check
from workbench.triage.finding import Action, Scope
from workbench.triage.leaf import Leaf
from workbench.triage.subject import Subject
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.verdict import Verdict


def _still(row: SubscriptionFeatures) -> list[int]:
    """Partitions that do not advance: for the whole window, or else for longer than usual."""
    return sorted(row.stuck_partitions or row.frozen_partitions)


def _first(row: SubscriptionFeatures) -> PartitionFeatures:
    return next(it for it in row.partitions if it.partition in _still(row))


def _offset(row: SubscriptionFeatures) -> int | None:
    """Committed offset; None if no recent sample reports it."""
    committed = _first(row).committed
    return None if committed is None else round(committed)


_WHY = {
    "poison_record": "a record that the handler cannot process holds the commit",
    "commit_fails": "records are read and processed, but the commits do not arrive",
    "open_transaction": "a transaction is open there, and what comes after it is not given to consumers with read_committed",
    "paused": "consumption is paused",
    "client_stalled": "the members poll, and get no records",
}


def _headline(row: SubscriptionFeatures) -> str:
    offset = _offset(row)
    where = f"partition {_first(row).partition}" + (f" at offset {offset:,}" if offset is not None else "")
    if len(_still(row)) > 1:
        where = f"partitions {listed(_still(row))}"
    why = f": {_WHY[row.stall_cause]}" if row.stall_cause else ""
    moving = row.moving_partitions
    if not moving:
        but = "" if why else ", although the group has members"
        return f"Stuck: {where} not advancing, and no other partition is{but}{why}."
    return f"Stuck: {where} not advancing, while {plural(moving, 'other')} {'is' if moving == 1 else 'are'}{why}."


def _scope(row: SubscriptionFeatures) -> Scope:
    return Scope(partitions=tuple(_still(row)), offset=_offset(row), cause=row.stall_cause)


def _actions(it: Subject, row: SubscriptionFeatures) -> list[Action]:
    number, offset = _first(row).partition, _offset(row)
    if offset is None:
        ask = f"Ask Kafka for the committed offset of partition {number}; the metrics have no recent one"
        return [Action(title=ask, command=it.describe, verify="you know the offset, and the record there")]
    moves = Check(feature="partitions", field="committed", items=(str(number),), relation=">", value=offset)
    passes = f"the committed offset of partition {number} passes {offset:,}"
    read = Action(
        title=f"Read the record at offset {offset:,} of partition {number}, where it stands",
        command=f"kcat -b {it.brokers} -C -t {shell_word(it.topic)} -p {number} -o {offset} -c 1 -J",
        verify="you know whether the handler can process it",
    )
    match row.stall_cause:
        case "poison_record":
            return [
                read,
                Action(
                    title="Send it to the dead-letter topic (lower max_attempts, or return Dead from the handler)",
                    command=None,
                    verify=passes,
                    kind="dead_letter",
                    parameters={"partition": number, "offset": offset, "max_attempts": 3},
                    checks=(moves,),
                ),
            ]
        case "open_transaction":
            return _end_transaction(it, row, passes, moves)
        case "commit_fails":
            return [
                Action(
                    title="Read the members' log for refused commits: rights on the group, a fenced member, a commit that times out; "
                    "what was processed since then is processed again after a restart",
                    command=it.members,
                    verify=passes,
                    checks=(moves,),
                )
            ]
        case "paused":
            return [
                Action(
                    title="Find who paused the partitions (a switch, a circuit breaker, a rate limit), and resume them",
                    command=it.members,
                    verify=passes,
                    kind="resume_partitions",
                    parameters={"partitions": _still(row)},
                    checks=(moves,),
                )
            ]
        case "client_stalled":
            return [
                *_rule_out_transactions(it, row),
                Action(
                    title=f"Take a thread dump of the members that own {listed(_still(row))} ({DUMPS}): "
                    "their client polls, and fetches nothing",
                    command=it.members,
                    verify="you know what the client waits for",
                ),
                Action(
                    title="Then restart these members, one at a time",
                    command=None,
                    verify=passes,
                    kind="restart_consumers",
                    parameters={"members": [], "partitions": _still(row)},
                    checks=(moves,),
                ),
            ]
    look = Action(
        title="Look at the owners' logs for what these partitions share: paused consumption, refused commits, a call that hangs",
        command=it.members,
        verify=passes,
        checks=(moves,),
    )
    first = [] if len(_still(row)) > row.few_partitions else [read]
    return [*first, *_rule_out_transactions(it, row), look]


def _transactions(it: Subject, words: str) -> str:
    return f"kafka-transactions --bootstrap-server {it.brokers} {words}"


def _producers(it: Subject, partition: int) -> str:
    return _transactions(it, f"describe-producers --topic {shell_word(it.topic)} --partition {partition}")


def _rule_out_transactions(it: Subject, row: SubscriptionFeatures) -> list[Action]:
    """Nothing may be there to read: then a restart would change nothing."""
    if any(part.last_stable is not None for part in row.partitions if part.partition in _still(row)):
        return []
    return [
        Action(
            title="Rule out an open transaction: nobody has asked Kafka for the last stable offset (setting: bootstrap)",
            command=_producers(it, _first(row).partition),
            verify="no producer has a CurrentTransactionStartOffset",
        )
    ]


def _end_transaction(it: Subject, row: SubscriptionFeatures, passes: str, moves: Check) -> list[Action]:
    starts = {
        part.partition: round(part.last_stable)
        for part in row.partitions
        if part.partition in _still(row) and part.last_stable is not None and part.last_stable < (part.log_end or 0.0)
    }
    first, start = next(iter(sorted(starts.items())))
    one = f"--topic {shell_word(it.topic)} --partition {first} --start-offset {start}"
    return [
        Action(
            title=f"Find the producer whose CurrentTransactionStartOffset in partition {first} is {start:,}",
            command=_producers(it, first),
            verify="you know its ProducerId, and how long ago it wrote (LastTimestamp)",
        ),
        Action(
            title="Find its transactional id, and whose it is. If it lives, let it commit or abort. "
            "If it has died, start it again with this id: it then aborts its own transaction",
            command=_transactions(it, "list --duration-filter 60000"),
            verify=passes,
            checks=(moves,),
        ),
        Action(
            title="Nobody can end it? Abort it in each partition: its records are never given to consumers with read_committed",
            command=_transactions(it, f"abort {one}"),
            verify=passes,
            kind="abort_transaction",
            parameters={"starts": {str(partition): offset for partition, offset in starts.items()}},
            checks=(moves,),
        ),
    ]


LEAF = Leaf(verdict=Verdict.STUCK_PARTITION, headline=_headline, scope=_scope, actions=_actions)

"""A few partitions are stuck while others advance: usually a record that the handler cannot process."""

from __future__ import annotations

from workbench.features.measured import PartitionFeatures
from workbench.humanize import listed, plural, shell_word
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


def _headline(row: SubscriptionFeatures) -> str:
    offset = _offset(row)
    where = f"partition {_first(row).partition}" + (f" at offset {offset:,}" if offset is not None else "")
    if len(_still(row)) > 1:
        where = f"partitions {listed(_still(row))}"
    moving = row.moving_partitions
    if not moving:
        return f"Stuck: {where} not advancing, and no other partition is, although the group has members."
    return f"Stuck: {where} not advancing, while {plural(moving, 'other')} {'is' if moving == 1 else 'are'}."


def _scope(row: SubscriptionFeatures) -> Scope:
    return Scope(partitions=tuple(_still(row)), offset=_offset(row))


def _actions(it: Subject, row: SubscriptionFeatures) -> list[Action]:
    number, offset = _first(row).partition, _offset(row)
    if offset is None:
        ask = f"Ask Kafka for the committed offset of partition {number}; the metrics have no recent one"
        return [Action(title=ask, command=it.describe, verify="you know the offset, and the record there")]
    if not row.moving_partitions and row.partition_count > 1:
        # All of them at once: hardly a record, rather something that all consumers share.
        log = "Look into the consumers' logs for what all partitions share: paused consumption, refused commits, a call that hangs"
        return [
            Action(title=log, command=it.describe, verify="you know what they wait for"),
            Action(
                title="Restart one member, and see whether its partitions move",
                command=None,
                verify=f"the committed offset of partition {number} passes {offset:,}",
            ),
        ]
    read = f"kcat -b {it.brokers} -C -t {shell_word(it.topic)} -p {number} -o {offset} -c 1 -J"
    return [
        Action(
            title=f"Read the record that blocks partition {number}, at offset {offset:,}",
            command=read,
            verify="you know why the handler cannot process it",
        ),
        Action(
            title="Send it to the dead-letter topic (lower max_attempts, or return Dead from the handler)",
            command=None,
            verify=f"the committed offset of partition {number} passes {offset:,}",
            kind="dead_letter",
            parameters={"partition": number, "offset": offset, "max_attempts": 3},
            checks=(Check(feature="partitions", field="committed", items=(str(number),), relation=">", value=offset),),
        ),
    ]


LEAF = Leaf(verdict=Verdict.STUCK_PARTITION, headline=_headline, scope=_scope, actions=_actions)

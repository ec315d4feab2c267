"""A few partitions do not move while their neighbours do: most often a record that its handler cannot take."""

from __future__ import annotations

from workbench.features.measured import PartitionFeatures
from workbench.humanize import listed, plural, shell_word
from workbench.triage.checks import Check
from workbench.triage.finding import Action, Scope
from workbench.triage.leaf import Leaf
from workbench.triage.subject import Subject
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.verdict import Verdict


def _first(row: SubscriptionFeatures) -> PartitionFeatures:
    return next(it for it in row.partitions if it.partition in row.stuck_partitions)


def _offset(row: SubscriptionFeatures) -> int | None:
    """None if the commit has not been reported lately: it did not move as long as it was."""
    committed = _first(row).committed
    return None if committed is None else round(committed)


def _headline(row: SubscriptionFeatures) -> str:
    offset = _offset(row)
    where = f"partition {_first(row).partition}" + (f" at offset {offset:,}" if offset is not None else "")
    if len(row.stuck_partitions) > 1:
        where = f"partitions {listed(sorted(row.stuck_partitions))}"
    moving = row.moving_partitions
    return f"Stuck: {where} not moving, while {plural(moving, 'other')} {'does' if moving == 1 else 'do'}."


def _scope(row: SubscriptionFeatures) -> Scope:
    return Scope(partitions=row.stuck_partitions, offset=_offset(row))


def _actions(it: Subject, row: SubscriptionFeatures) -> list[Action]:
    number, offset = _first(row).partition, _offset(row)
    if offset is None:
        ask = f"Ask Kafka at which offset partition {number} stands: its commit has not been reported lately"
        return [Action(title=ask, command=it.describe, verify="you know the offset, and the record there")]
    read = f"kcat -b {it.brokers} -C -t {shell_word(it.topic)} -p {number} -o {offset} -c 1 -J"
    return [
        Action(
            title=f"Look at the record that holds up partition {number}, at offset {offset:,}",
            command=read,
            verify="you know why its handler cannot take it",
        ),
        Action(
            title="Let the handler put it into the dead-letter topic (lower max_attempts, or return Dead for it)",
            command=None,
            verify=f"the committed offset of partition {number} passes {offset:,}",
            kind="dead_letter",
            parameters={"partition": number, "offset": offset, "max_attempts": 3},
            checks=(Check(feature="partitions", field="committed", items=(str(number),), relation=">", value=offset),),
        ),
    ]


LEAF = Leaf(verdict=Verdict.STUCK_PARTITION, headline=_headline, scope=_scope, actions=_actions)

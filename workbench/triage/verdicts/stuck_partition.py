"""A few partitions do not move while their neighbours do: most often a record that its handler cannot take."""

from __future__ import annotations

from workbench.humanize import listed, plural, shell_word
from workbench.triage.checks import Check
from workbench.triage.finding import Action, Scope
from workbench.triage.leaf import Leaf, Row
from workbench.triage.subject import Subject
from workbench.triage.verdict import Verdict


def _first(row: Row) -> Row:
    stuck = set(row["stuck_partitions"])
    return next(p for p in row["partitions"] if p["partition"] in stuck)


def _headline(row: Row) -> str:
    stuck = set(row["stuck_partitions"])
    first = _first(row)
    where = f"partition {first['partition']} at offset {int(first['committed']):,}"
    if len(stuck) > 1:
        where = f"partitions {listed(sorted(stuck))}"
    moving = row["moving_partitions"]
    return f"Stuck: {where} not moving, while {plural(moving, 'other')} {'does' if moving == 1 else 'do'}."


def _scope(row: Row) -> Scope:
    offset = _first(row)["committed"]
    return Scope(partitions=tuple(row["stuck_partitions"]), offset=None if offset is None else round(offset))


def _actions(it: Subject, row: Row) -> list[Action]:
    first = _first(row)
    number, offset = first["partition"], int(first["committed"])
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

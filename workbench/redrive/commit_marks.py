"""What the commits of a plan's group say beside its positions: who has the plan, how it ended, and which letters the target refused.

Kafka keeps a text with each committed offset. It is written in the transaction of the records, so it is never older or newer than they
are: a claim, an end and a refused letter survive whatever is killed, and are seen from every machine.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from workbench.redrive.picked_letter_offsets import Picks
from workbench.redrive.planfile import RedrivePlan

Place = tuple[int, int]  # partition and offset of a letter
MOST_BYTES = 4_000  # of a text; Kafka's offset.metadata.max.bytes is 4,096
_VERSION = "wb1"
_CODE = re.compile(r"[A-Za-z0-9_]{1,40}")


class PlanState(StrEnum):
    """State of a plan in Kafka. A plan that is begun claims all of its letters."""

    BEGUN = "begun"
    DONE = "done"
    DISCARDED = "discarded"
    GIVEN_UP = "given_up"  # what it had not produced is free again


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Text of the commit of one partition.

    Attributes:
        owner: random name of the run that wrote it.
        refused: letters of the partition that the target refused and that were left out, by Kafka's name of the error.
    """

    state: PlanState
    owner: str
    refused: Mapping[str, Picks] = field(default_factory=dict)

    def text(self) -> str:
        """The text; `parse` reads it."""
        words = [f"{code}={','.join(str(picks).split())}" for code, picks in sorted(self.refused.items())]
        return " ".join([_VERSION, self.state.value, self.owner, *words])

    @classmethod
    def parse(cls, text: str | None) -> Mark | None:
        """Read a text; None if there is none, or it is not ours: earlier releases wrote none."""
        version, _, rest = (text or "").partition(" ")
        state, _, rest = rest.partition(" ")
        owner, _, rest = rest.partition(" ")
        if version != _VERSION or state not in list(PlanState):
            return None
        refused = {}
        try:
            for word in rest.split():
                code, _, offsets = word.partition("=")
                refused[code] = Picks.parse(offsets.replace(",", " "))
        except ValueError:
            return None
        return cls(state=PlanState(state), owner=owner, refused=refused)


def marks_of(state: PlanState, owner: str, partitions: Collection[int], refused: Mapping[Place, str]) -> dict[int, str]:
    """Texts for the commits of these partitions."""
    by: dict[int, dict[str, list[int]]] = {number: {} for number in partitions}
    for (number, offset), code in refused.items():
        if number in by:
            known = code if _CODE.fullmatch(code) else "OTHER"
            by[number].setdefault(known, []).append(offset)
    return {
        number: Mark(
            state=state, owner=owner, refused={code: Picks.of(sorted(some)) for code, some in codes.items()}
        ).text()
        for number, codes in by.items()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanProgress:
    """What Kafka says about a plan.

    Attributes:
        positions: committed positions by partition; empty: nothing was committed.
        ordered: number of ordered letters that were produced or left out; None: no commit.
        marks: of the commits, by partition; None where an earlier release has committed.
    """

    positions: Mapping[int, int] = field(default_factory=dict)
    ordered: int | None = None
    marks: Mapping[int, Mark | None] = field(default_factory=dict)

    @property
    def state(self) -> PlanState | None:
        """State of the plan; None if nothing was committed. An end is written for all partitions at once."""
        if not self.positions:
            return None
        states = {mark.state for mark in self.marks.values() if mark is not None}
        ends = (PlanState.DISCARDED, PlanState.GIVEN_UP, PlanState.DONE)
        return next((state for state in ends if state in states), PlanState.BEGUN)

    @property
    def owners(self) -> frozenset[str]:
        """Runs whose commits are the last ones of some partition; an empty name stands for an earlier release."""
        return frozenset(mark.owner if mark is not None else "" for mark in self.marks.values())

    @property
    def refused(self) -> dict[Place, str]:
        """Letters that were left out, with Kafka's name of the error."""
        return {
            (number, offset): code
            for number, mark in sorted(self.marks.items())
            if mark is not None
            for code, picks in mark.refused.items()
            for offset in picks
        }

    def is_through(self, plan: RedrivePlan) -> bool:
        """Whether no letter of the plan is left."""
        return all(self.positions.get(part.partition, -1) >= part.stop for part in plan.partitions) and (
            (self.ordered or 0) >= len(plan.ordered)
        )


def all_letters(
    plan: RedrivePlan, *, below: Mapping[int, int] | None = None, ordered: int | None = None
) -> dict[int, Picks]:
    """Letters by partition: those below the positions, and the first `ordered` of those in an order of their own (None: all)."""
    special: dict[int, list[int]] = {}
    for number, offset in plan.ordered[:ordered]:
        special.setdefault(number, []).append(offset)
    return {
        part.partition: Picks.union(
            [
                part.parsed if below is None else part.parsed.cut(below=below.get(part.partition, 0)),
                Picks.of(sorted(special.get(part.partition, ()))),
            ]
        )
        for part in plan.partitions
    }


def handled_letters(plan: RedrivePlan, progress: PlanProgress) -> dict[int, Picks]:
    """Letters that no other plan may produce: all of one that is begun or discarded, those that were produced of one that has ended."""
    if progress.state is None:
        return {}
    if progress.state is PlanState.GIVEN_UP:
        found = all_letters(plan, below=progress.positions, ordered=progress.ordered or 0)
    else:
        found = all_letters(plan)
    is_over = progress.state is not PlanState.DISCARDED and progress.is_through(plan)
    if is_over or progress.state in (PlanState.GIVEN_UP, PlanState.DONE):
        refused: dict[int, list[int]] = {}
        for number, offset in progress.refused:
            refused.setdefault(number, []).append(offset)
        found |= {number: found[number].without(some) for number, some in refused.items() if number in found}
    return found

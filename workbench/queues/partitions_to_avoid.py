"""Which partitions a producer should leave out for a while, because their consumers are far behind those of the others.

A partition is hot if its lag is above `times` × min(mean, median) of all, and above a floor in messages: the smaller of the two,
because a few very late partitions raise the mean, and many the median. Only a share of all partitions may be left out, the latest
ones. One that was left out comes back when its lag is below half of the bound: at the bound itself it would come and go.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from workbench.errors import UsageError
from workbench.files import write_text
from workbench.limited_reads import first_problem, read_within

TIMES = 3.0  # the article has no number; at three times the others, a partition gets a third of their speed
FLOOR = 1_000  # messages; less is read in seconds
SHARE = 0.2  # of the partitions: the others must take what these would have got
_BACK = 0.5
_MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ExclusionRule:
    """The rule's numbers; see the module. `floor` is in messages, `share` 0 to 1."""

    times: float = TIMES
    floor: int = FLOOR
    share: float = SHARE


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusion:
    """Partitions of one topic to leave out.

    Attributes:
        partitions: all of them, in order.
        added, returned: what has changed.
        over_share: hot ones that are not left out, because only a share may be.
        unknown: those whose lag is not known: they stay as they were.
        bound: lag in messages above which one is hot; None: no lag is known.
    """

    partitions: tuple[int, ...]
    added: tuple[int, ...]
    returned: tuple[int, ...]
    over_share: tuple[int, ...]
    unknown: tuple[int, ...]
    bound: float | None


def exclude(
    lags: Mapping[int, int | None], *, before: Collection[int] = (), rule: ExclusionRule | None = None
) -> Exclusion:
    """Apply the rule.

    Args:
        lags: messages by partition; None: not known.
        before: what is left out now.
    """
    rule = rule or ExclusionRule()
    known = {number: lag for number, lag in lags.items() if lag is not None}
    unknown = sorted(set(lags) - set(known))
    stays = set(before) & set(unknown)
    bound: float | None = None
    hot: list[int] = []
    if known:
        bound = max(rule.floor, rule.times * min(statistics.fmean(known.values()), statistics.median(known.values())))
        hot = [number for number, lag in known.items() if lag > (bound * _BACK if number in before else bound)]
    most = int(rule.share * len(lags))
    # Those that are left out already come first: exchanging them for slightly later ones would only move the records.
    ranked = sorted(hot, key=lambda it: (it not in before, -known[it], it))
    chosen = sorted(stays | set(ranked[: max(0, most - len(stays))]))
    return Exclusion(
        partitions=tuple(chosen),
        added=tuple(sorted(set(chosen) - set(before))),
        returned=tuple(sorted(set(before) - set(chosen))),
        over_share=tuple(sorted(set(hot) - set(chosen))),
        unknown=tuple(unknown),
        bound=bound,
    )


class ExclusionList(BaseModel):
    """The list that producers read: partitions to leave out, by topic."""

    model_config = ConfigDict(hide_input_in_errors=True, extra="forbid", frozen=True)

    schema_: Literal["workbench.partitions/1"] = Field(alias="schema", default="workbench.partitions/1")
    topics: dict[str, list[Annotated[int, Field(ge=0)]]] = Field(default={})

    def of(self, topic: str) -> frozenset[int]:
        """Partitions of a topic."""
        return frozenset(self.topics.get(topic, ()))

    def with_topic(self, topic: str, partitions: Collection[int]) -> ExclusionList:
        """The list with a topic's partitions replaced."""
        others = {name: some for name, some in self.topics.items() if name != topic}
        return ExclusionList(topics={**others, **({topic: sorted(partitions)} if partitions else {})})

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return self.model_dump(mode="json", by_alias=True)


def read_list(path: Path) -> ExclusionList:
    """Read a list; an absent file is an empty one.

    Raises:
        UsageError: if it is no list.
    """
    if not path.exists():
        return ExclusionList()
    try:
        return ExclusionList.model_validate_json(read_within(path, _MOST_BYTES))
    except ValidationError as error:
        raise UsageError(f"{path} is no list of partitions: {first_problem(error, whole='it')}.") from None


def write_list(path: Path, found: ExclusionList) -> None:
    """Write a list as a whole or not at all.

    Raises:
        UsageError: if its folder does not exist.
    """
    if not path.absolute().parent.is_dir():
        raise UsageError(f"The folder of {path} does not exist.")
    write_text(path, json.dumps(found.document(), indent=1) + "\n")

"""Checks, as data, that show whether an action worked: a program can evaluate them on later features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from workbench.triage.facts.unknown_numbers import RELATIONS
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.verdict_names import Answer

# The field that identifies an element of an array of features.
_NAMES = {"partitions": "partition", "members": "member", "processors": "processor", "queues": "processor"}


@dataclass(frozen=True, slots=True)
class Check:
    """One comparison.

    Attributes:
        feature: field of a subscription's features (measured, or a fact of `triage.facts`), or one of its arrays.
        relation: one of < <= > >= =.
        value: the number to compare with, in the feature's unit.
        field, items: of an array, which field of which elements (all if none is named); each must pass.
    """

    feature: str
    relation: str
    value: float
    _: KW_ONLY
    field: str | None = None
    items: tuple[str, ...] = ()

    def holds(self, row: SubscriptionFeatures) -> Answer:
        """Whether later features pass; "cannot tell" if the feature is no longer known."""
        values = self._values(row)
        if not values or None in values:
            return Answer.CANNOT_TELL
        return Answer.YES if all(RELATIONS[self.relation](value, self.value) for value in values) else Answer.NO

    def _values(self, row: SubscriptionFeatures) -> list[Any]:
        if self.field is None:
            return [getattr(row, self.feature)]
        name = _NAMES[self.feature]
        chosen = [it for it in getattr(row, self.feature) if not self.items or str(getattr(it, name)) in self.items]
        values = [getattr(it, self.field) for it in chosen]
        if self.feature == "queues":
            # A queue that has ended while others of the same member and type continue was removed: it needs no answer.
            keys = [(it.processor, it.member) for it in chosen]
            heard = {key for key, value in zip(keys, values, strict=True) if value is not None}
            values = [value for key, value in zip(keys, values, strict=True) if value is not None or key not in heard]
        return values


def all_hold(checks: Sequence[Check], row: SubscriptionFeatures) -> Answer:
    """Whether every check passes; "cannot tell" without checks."""
    answers = [check.holds(row) for check in checks]
    if Answer.NO in answers:
        return Answer.NO
    return Answer.YES if answers and Answer.CANNOT_TELL not in answers else Answer.CANNOT_TELL

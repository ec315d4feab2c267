"""Features of a subscription without Spark: what a test does not name is not known, not there, or 0."""

from __future__ import annotations

from types import NoneType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from workbench.triage.question_order import TREE
from workbench.triage.subscription import FACTS, SubscriptionFeatures
from workbench.triage.verdict_names import Answer, Verdict

T = TypeVar("T")


def made(kind: type[T], **known: Any) -> T:
    """One of the declared features with these fields known."""
    hints = get_type_hints(kind)
    return kind(**{name: known[name] if name in known else _nothing(hint) for name, hint in hints.items()})


def subscription(**known: Any) -> SubscriptionFeatures:
    """A subscription of which only this is known; no question has an answer."""
    answers = dict.fromkeys(TREE, Answer.CANNOT_TELL)
    row = made(SubscriptionFeatures, **{"answers": answers, "reasons": {}, "verdict": Verdict.CANNOT_TELL, **known})
    vars(row).update({name: known[name] if name in known else _nothing(hint) for name, hint in FACTS.items()})
    return row


def _nothing(hint: Any) -> Any:
    if NoneType in get_args(hint):
        return None
    return () if get_origin(hint) is tuple else hint()

"""What pages about any tree have in common: answers in words, and the form of a question in `workbench.tree/1`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workbench.triage.verdict_names import Answer

SAID = {Answer.YES: "yes", Answer.NO: "no", Answer.CANNOT_TELL: "cannot tell"}


def said_of(rule: Any) -> str:
    """Its answer; a yes that only this cause makes is a proof."""
    return "proof" if rule.proof else SAID[rule.answer]


def question_document(it: Any, compares: Callable[[Any], list[str]], **more: Any) -> dict[str, Any]:
    """A question of either tree in the form of `workbench.tree/1`, with its rules by what they answer."""
    said = {
        rule.id: {
            "id": rule.id,
            "because": rule.because,
            "proof": rule.proof,
            "compares": compares(rule),
            "either": getattr(rule, "either", False),
            "look": rule.look,
        }
        for rule in it.rules
    }
    kinds = {"proves": Answer.YES, "contradicts": Answer.NO, "leaves_open": Answer.CANNOT_TELL}
    rules = {kind: [said[rule.id] for rule in it.rules if rule.answer is answer] for kind, answer in kinds.items()}
    return {"id": it.id, "question": it.question, "by": it.by, **rules, "order": list(said), **more}

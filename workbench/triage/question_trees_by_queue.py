"""Trees of queues whose subscriptions have questions of their own, beside that about Kafka's groups (`question_order`)."""

from __future__ import annotations

from types import ModuleType

from workbench.triage.pulsar import pulsar_reference
from workbench.triage.question_order import TREE
from workbench.triage.verdict_leaves import leaf_of
from workbench.triage.verdict_names import AnyVerdict, DispatchVerdict, Verdict

# Each is a module with QUESTIONS, LEAVES (by verdict), and what people see of them: asked_for, searched, beside, document,
# as_text and as_markdown of `workbench tree`, diagnosis and picture of runbooks.
OWN_TREES: tuple[ModuleType, ...] = (pulsar_reference,)


def tree_of(verdict: DispatchVerdict) -> ModuleType:
    """The tree that leads to a verdict."""
    return next(it for it in OWN_TREES if verdict in it.LEAVES)


def runbook_of(verdict: AnyVerdict) -> str | None:
    """File of a verdict's runbook; None if it needs none."""
    leaf = leaf_of(verdict) if isinstance(verdict, Verdict) else tree_of(verdict).LEAVES[verdict]
    found: str | None = leaf.runbook
    return found


def short_of(question: str) -> str:
    """A question of any tree in a word or two, by its id."""
    asked = (TREE.values(), *(own.QUESTIONS for own in OWN_TREES))
    return next(str(it.short) for questions in asked for it in questions if it.id == question)

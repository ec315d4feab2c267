"""Trees of queues whose subscriptions have questions of their own, beside that about Kafka's groups (`question_order`)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Protocol

from workbench.triage.pulsar import pulsar_reference
from workbench.triage.pulsar.dispatch_question import DispatchLeaf, DispatchQuestion
from workbench.triage.question_order import TREE
from workbench.triage.verdict import AnyVerdict, Verdict
from workbench.triage.verdict_leaves import leaf_of

Asked = list[DispatchQuestion]


class OwnTree(Protocol):
    """A module with what people see of such a tree: for `workbench tree`, docs/tree.md, runbooks and findings."""

    def question(self, name: str) -> DispatchQuestion | None:
        """A question by its id."""

    def leaf(self, verdict: AnyVerdict) -> DispatchLeaf | None:
        """The leaf of a verdict."""

    def asked_for(self, text: str, of_groups: Collection[str]) -> Asked:
        """Questions that a text asks for, rather than those about Kafka's groups with these names."""

    def searched(self, text: str) -> Asked:
        """Questions that say most of its words."""

    def beside(self, text: str) -> str:
        """A line for a page about Kafka's groups: how to ask this tree the same; empty if it does not name it."""

    def document(self, questions: Asked) -> dict[str, Any]:
        """The questions in the form of `workbench.tree/1`."""

    def as_text(self, questions: Asked) -> str:
        """For a terminal."""

    def as_markdown(self) -> list[str]:
        """Lines of docs/tree.md."""

    def diagnosis(self, verdict: AnyVerdict) -> str:
        """Write numbered steps in Markdown; of the last one every reason."""

    def picture(self, verdict: AnyVerdict) -> str:
        """Draw the questions as text, with those on the way to the verdict marked."""


OWN_TREES: tuple[OwnTree, ...] = (pulsar_reference,)


def tree_of(verdict: AnyVerdict) -> OwnTree:
    """The tree of a verdict that Kafka's groups do not have."""
    return next(it for it in OWN_TREES if it.leaf(verdict) is not None)


def runbook_of(verdict: AnyVerdict) -> str | None:
    """File of a verdict's runbook; None if it needs none."""
    if isinstance(verdict, Verdict):
        return leaf_of(verdict).runbook
    return next(leaf.runbook for it in OWN_TREES if (leaf := it.leaf(verdict)) is not None)


def short_of(question: str) -> str:
    """A question of any tree in a word or two, by its id."""
    if question in TREE:
        return TREE[question].short
    return next(found.short for it in OWN_TREES if (found := it.question(question)) is not None)

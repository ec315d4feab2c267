"""Short names of all questions: those about Kafka's groups, and those about subscriptions of Pulsar."""

from __future__ import annotations

from workbench.triage.pulsar.pulsar_questions import BY_ID
from workbench.triage.question_order import TREE


def short_of(question: str) -> str:
    """A question in a word or two, by its id."""
    return TREE[question].short if question in TREE else BY_ID[question].short

"""Short names of all questions: those about Kafka's groups, and those about subscriptions of Pulsar."""

from __future__ import annotations

from workbench.triage.order import TREE
from workbench.triage.pulsar.pulsar_order import BY_ID


def short_of(question: str) -> str:
    """A question in a word or two, by its id."""
    return TREE[question].short if question in TREE else BY_ID[question].short

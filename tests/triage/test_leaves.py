"""Rules of the leaves: what belongs to a verdict is in one place, and none is missing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from workbench.triage.leaf import Leaf
from workbench.triage.node import Conclude
from workbench.triage.tree import TREE
from workbench.triage.verdict import State, Verdict
from workbench.triage.verdicts import leaf_of, registry

LEAVES: dict[str, Leaf] = {verdict.value: leaf_of(verdict) for verdict in Verdict}


def test_every_verdict_has_its_own_leaf() -> None:
    """In the order of the verdicts, which is that of the rules and of the game's choices."""
    assert list(registry(LEAVES, TREE.values())) == list(Verdict)
    assert all(leaf.verdict.value == name for name, leaf in LEAVES.items())


def test_a_verdict_without_a_leaf_is_an_error() -> None:
    """It is named, with the module that is missing."""
    less = {name: leaf for name, leaf in LEAVES.items() if name != "hot_key"}
    with pytest.raises(TypeError, match=r"hot_key has no module hot_key\.py"):
        registry(less, TREE.values())


def test_a_leaf_under_another_name_is_an_error() -> None:
    """A copied module that still has the old verdict, or one for a verdict that there is not."""
    with pytest.raises(TypeError, match=r"hot_key\.py has the leaf of throttled"):
        registry({**LEAVES, "hot_key": LEAVES["throttled"]}, TREE.values())
    with pytest.raises(TypeError, match=r"cold_key\.py has the leaf of hot_key"):
        registry({**LEAVES, "cold_key": LEAVES["hot_key"]}, TREE.values())


def test_a_leaf_that_no_question_leads_to_is_an_error() -> None:
    """`cannot_tell` alone needs none: every question leads there when it has no answer."""
    nodes = [replace(node, yes=node.no) if node.yes == Conclude(Verdict.THROTTLED) else node for node in TREE.values()]
    with pytest.raises(TypeError, match="no node of the tree leads to throttled"):
        registry(LEAVES, nodes)


def test_a_lagging_verdict_is_never_called_healthy() -> None:
    """Every cause is a cause of lagging; missing data is "cannot tell"."""
    states = {verdict: leaf_of(verdict).state for verdict in Verdict}
    assert {verdict for verdict, state in states.items() if state is not State.LAGGING} == {
        Verdict.HEALTHY, Verdict.RECOVERED, Verdict.PRODUCER_SILENT, Verdict.PRODUCER_BURST,
        Verdict.NO_DATA, Verdict.UNUSABLE_DATA, Verdict.CANNOT_TELL,
    }  # fmt: skip
    assert {verdict for verdict, state in states.items() if state is State.HEALTHY} == {
        Verdict.HEALTHY, Verdict.RECOVERED, Verdict.PRODUCER_SILENT,
    }  # fmt: skip
    assert states[Verdict.NO_DATA] is states[Verdict.UNUSABLE_DATA] is State.CANNOT_TELL

"""Leaves by verdict: every one that a module of `triage/status` or `triage/causes` declares.

A new verdict is a member of `Verdict`, a leaf, and a question that leads to it; anything less fails at import.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable
from importlib import import_module

from workbench.triage import causes, status
from workbench.triage.question_order import TREE
from workbench.triage.question_types import Leaf, Node
from workbench.triage.verdict_names import Verdict


def registry(leaves: Iterable[Leaf], nodes: Iterable[Node]) -> dict[Verdict, Leaf]:
    """Leaves by verdict, in the order of `Verdict`.

    Raises:
        TypeError: if a verdict has no leaf or several, or no node of the tree leads to it.
    """
    found: dict[Verdict, list[Leaf]] = {verdict: [] for verdict in Verdict}
    for leaf in leaves:
        found[leaf.verdict].append(leaf)
    led_to = {verdict for node in nodes for verdict in node.verdicts} | {Verdict.CANNOT_TELL}
    wrong = [f"{verdict} has {len(them) or 'no'} leaves" for verdict, them in found.items() if len(them) != 1]
    wrong += [f"no node of the tree leads to {it}" for it in Verdict if it not in led_to]
    if wrong:
        raise TypeError(f"Verdicts, their leaves and the tree do not fit together: {'; '.join(wrong)}.")
    return {verdict: leaf for verdict, [leaf] in found.items()}


def _declared() -> Iterable[Leaf]:
    for package in (status, causes):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            yield from (it for it in vars(import_module(module.name)).values() if isinstance(it, Leaf))


_LEAVES = registry(_declared(), TREE.values())


def leaf_of(verdict: Verdict) -> Leaf:
    """Leaf of a verdict: its texts, sizing and actions."""
    return _LEAVES[verdict]

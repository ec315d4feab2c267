"""One module for each verdict, with its name and its `LEAF`; the modules of this package are discovered at import.

A new verdict is a member of `Verdict`, a module here, and a node of the tree that leads to it; anything less fails at import.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable, Mapping
from importlib import import_module

from workbench.triage.leaf import Leaf
from workbench.triage.node import Node
from workbench.triage.tree import TREE
from workbench.triage.verdict import Verdict

__all__ = ["leaf_of", "registry"]


def registry(leaves: Mapping[str, Leaf], nodes: Iterable[Node]) -> dict[Verdict, Leaf]:
    """Leaves by verdict, in the order of `Verdict`.

    Args:
        leaves: by the name of their module.
        nodes: the tree.

    Raises:
        TypeError: if a verdict has no module of its name, a module has another verdict's leaf, or no node leads to a leaf.
    """
    led_to = {verdict for node in nodes for verdict in node.verdicts} | {Verdict.CANNOT_TELL}
    wrong = [f"{it} has no module {it}.py" for it in Verdict if it.value not in leaves]
    wrong += [f"{name}.py has the leaf of {it.verdict}" for name, it in leaves.items() if it.verdict.value != name]
    wrong += [f"no node of the tree leads to {it}" for it in Verdict if it not in led_to]
    if wrong:
        raise TypeError(f"Verdicts, their leaves and the tree do not fit together: {'; '.join(wrong)}.")
    return {verdict: leaves[verdict.value] for verdict in Verdict}


_LEAVES = registry(
    {it.name: import_module(f"{__name__}.{it.name}").LEAF for it in pkgutil.iter_modules(__path__)}, TREE.values()
)


def leaf_of(verdict: Verdict) -> Leaf:
    """Leaf of a verdict: its texts, sizing and actions."""
    return _LEAVES[verdict]

"""The decision tree as data: triage walks it, the report draws it, the documentation lists it."""

from __future__ import annotations

from workbench.triage.node import Node
from workbench.triage.tree_causes import CAUSES
from workbench.triage.tree_status import STATUS

_NODES = (*STATUS, *CAUSES)
TREE: dict[str, Node] = {node.id: node for node in _NODES}
ROOT = _NODES[0].id

"""Notebook files, by the notebooks' own library."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

# jsonschema, which nbformat imports, builds the grammar of the format "iri" from it, if Jupyter's server has brought it. It takes over
# a second, twice as long as all else that a scheduled report imports, and no notebook has that format.
_GRAMMAR = "rfc3987_syntax"


def load() -> ModuleType:
    """Import nbformat; papermill and nbclient do, too, so this is called before them."""
    modules: dict[str, Any] = sys.modules
    is_early = "jsonschema" not in modules and _GRAMMAR not in modules
    if is_early:
        modules[_GRAMMAR] = None  # importing it fails, which jsonschema expects
    try:
        import nbformat
    finally:
        if is_early:
            del modules[_GRAMMAR]  # it may be of use to others
    found: ModuleType = nbformat
    return found

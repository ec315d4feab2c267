"""Hold a document against the schema that `workbench schema` prints for it."""

from __future__ import annotations

import json
from typing import Any

from jsonschema import Draft202012Validator

from workbench.reference.schemas import schema


def valid(name: str, document: Any) -> Any:
    """The document, after JSON and back; fails at its first field that the schema does not know, lacks or has of another type."""
    told = json.loads(json.dumps(document, allow_nan=False, default=str))
    found = sorted(
        Draft202012Validator(schema(name)).iter_errors(told), key=lambda it: list(map(str, it.absolute_path))
    )
    assert not found, f"{name}: {found[0].json_path}: {found[0].message[:300]}"
    return told

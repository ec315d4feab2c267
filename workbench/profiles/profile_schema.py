"""JSON schema of a profile, so that an editor completes and checks one while it is written."""

from __future__ import annotations

from typing import Any

from workbench.profiles import Profile
from workbench.samples import LABEL_COLUMNS
from workbench.signals import SIGNALS


def profile_schema() -> dict[str, Any]:
    """The schema of a profile's file: signals by name with their units, and the canonical labels."""
    schema = Profile.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["properties"].pop("name", None)  # the file's own name
    schema["required"] = ["signals"]
    rule = schema["$defs"]["MappingRule"]
    for name in ("labels", "constants"):
        rule["properties"][name]["propertyNames"] = {"enum": list(LABEL_COLUMNS)}
    schema["properties"]["signals"] = {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            name: {
                "allOf": [{"$ref": "#/$defs/MappingRule"}],
                "description": f"{signal.help} Unit: {signal.unit or 'count'}; {signal.kind}; per {signal.grain}.",
            }
            for name, signal in SIGNALS.items()
        },
    }
    return schema

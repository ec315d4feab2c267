"""JSON Schemas of what commands print with `--json`, of files and of what `workbench serve` answers (docs/schemas.md).

A field that a document may lack is not required; none has a field that its schema does not know.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, TypeAdapter, create_model
from pydantic.json_schema import GenerateJsonSchema

from workbench.errors import UsageError
from workbench.humanize import did_you_mean
from workbench.plans.journal import Entry
from workbench.plans.missing_records_file import MissingRecords
from workbench.queues.systems import own_parts
from workbench.redrive.planfile import RedrivePlan
from workbench.reference import audit_shapes, composed_documents, impact_shapes, reports
from workbench.reference.markdown_tables import code, page, table
from workbench.replay.planfile import Plan
from workbench.replay.receipt import Receipt, Rollback
from workbench.report.audit_state import AuditState
from workbench.report.state_before_kafka import UpstreamState
from workbench.serve import json_shapes
from workbench.triage.finding import Finding

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One document: its name, what writes it, its type, and whether that is a list of such."""

    name: str
    by: str
    kind: Any
    many: bool = False

    @property
    def says(self) -> str:
        """What it is, in a line."""
        return (inspect.getdoc(self.kind) or "").split("\n\n")[0].replace("\n", " ")

    @property
    def version(self) -> str:
        """Value of its field `schema`; empty if it has none."""
        found = schema(self.name)
        found = found.get("items", found)
        named = found.get("properties", {}).get("schema", {})
        return " ".join(map(str, named.get("enum", [named["const"]] if "const" in named else [])))


DOCUMENTS = (
    Document(name="triage", by="triage", kind=composed_documents.TriageDocument),
    Document(name="triage-compare", by="triage --compare", kind=composed_documents.ComparedDocument),
    Document(name="sweep", by="triage --all", kind=composed_documents.SweepDocument),
    Document(name="snapshot", by="snapshot", kind=composed_documents.SnapshotDocument),
    Document(name="snapshot-ranked", by="snapshot --limit, --sort", kind=composed_documents.RankedSnapshot),
    Document(name="impact", by="impact", kind=impact_shapes.ImpactDocument),
    Document(name="tree", by="tree", kind=composed_documents.Tree),
    Document(name="settings", by="settings", kind=composed_documents.SettingsKeys),
    Document(name="doctor", by="doctor", kind=composed_documents.DoctorCheck, many=True),
    Document(name="events", by="events list", kind=composed_documents.RecordedEvent, many=True),
    Document(name="profiles", by="profiles list", kind=composed_documents.ListedProfile, many=True),
    Document(name="plan", by="replay plan; the file plan.json", kind=Plan),
    Document(name="receipt", by="replay apply; the file plan.receipt.json", kind=Receipt),
    Document(name="rollback", by="the file plan.rollback.json", kind=Rollback),
    Document(name="replay-progress", by="replay follow, a line each", kind=composed_documents.ReplayProgressDocument),
    Document(name="replay-verify", by="replay verify", kind=composed_documents.ReplayVerified),
    *(
        Document(name=name, by=by, kind=kind)
        for own in own_parts("workbench.reference.{}_shapes").values()
        for name, by, kind in own.DOCUMENTS
    ),
    Document(name="journal", by="replay log", kind=Entry, many=True),
    Document(name="dlq-list", by="dlq list", kind=composed_documents.LetterTopicsDocument),
    Document(name="redrive-plan", by="dlq plan; the file redrive.json", kind=RedrivePlan),
    Document(name="redrive-receipt", by="dlq apply", kind=composed_documents.RedriveReceiptDocument),
    Document(name="audit-run", by="audit run", kind=audit_shapes.AuditRunDocument),
    Document(name="audit-windows", by="audit show", kind=audit_shapes.AuditWindowsDocument),
    Document(name="audit-gate", by="audit gate", kind=audit_shapes.AuditGateDocument),
    Document(name="audit-missing", by="audit missing; the file of --output", kind=MissingRecords),
    Document(name="audit-compare", by="audit compare", kind=audit_shapes.AuditCompareDocument),
    Document(name="audit-trace", by="audit trace", kind=audit_shapes.AuditTraceDocument),
    Document(name="audit-restarts", by="audit restarts", kind=audit_shapes.AuditRestartsDocument),
    Document(name="audit-upstream", by="audit upstream", kind=audit_shapes.AuditUpstreamDocument),
    Document(name="audit-state", by="audit publish; the file NAME.workbench_audit.json", kind=AuditState),
    Document(
        name="upstream-state",
        by="audit upstream --output; the file CLUSTER.workbench_upstream.json",
        kind=UpstreamState,
    ),
    Document(name="run", by="report run, list; the file run.json", kind=reports.PrintedRun),
    Document(name="health", by="the file result.json of a report", kind=reports.HealthDocument),
    Document(name="incidents", by="GET /api/incidents", kind=json_shapes.ServedIncidents),
    Document(name="incident-state", by="GET /api/incidents/ID", kind=json_shapes.IncidentState),
    Document(name="fleet", by="GET /api/fleet", kind=json_shapes.ServedFleet),
    Document(name="asked-triage", by="POST /api/triage", kind=json_shapes.AnsweredTriage),
    Document(name="incident", by="what a webhook gets from workbench serve", kind=json_shapes.IncidentPosted),
)
_BY_NAME = {it.name: it for it in DOCUMENTS}


class _AsPrinted(GenerateJsonSchema):
    """Of a dataclass all fields are printed, those with a default, too."""

    def field_is_required(self, field: Any, total: bool) -> bool:
        """Whether the document has it."""
        return field["type"] == "dataclass-field" or super().field_is_required(field, total)


@cache
def schema(name: str) -> dict[str, Any]:
    """JSON Schema of a document.

    Raises:
        UsageError: if there is no such document.
    """
    it = _BY_NAME.get(name)
    if it is None:
        raise UsageError(
            f"There is no document {name!r}.{did_you_mean(name, list(_BY_NAME))}", hint="workbench schema lists all."
        )
    found = TypeAdapter(it.kind).json_schema(by_alias=True, schema_generator=_AsPrinted)
    shared = found.pop("$defs", {})
    if "findings" in found.get("properties", {}):
        inner = _finding().model_json_schema(schema_generator=_AsPrinted)
        shared |= inner.pop("$defs", {})
        shared["Finding"] = inner
        found["properties"]["findings"]["items"] = {"$ref": "#/$defs/Finding"}
    if it.many:
        found = {"type": "array", "items": found}
    closed: dict[str, Any] = _closed({"$schema": _DIALECT, "title": it.name, **found, "$defs": shared})
    closed["title"] = it.name
    if not shared:
        del closed["$defs"]
    return closed


def _finding() -> type[BaseModel]:
    """The finding of a triage as it is printed: all fields but the features behind it."""
    hints = get_type_hints(Finding, localns={"SubscriptionFeatures": Any})
    at_times = ("record", "lag_entries")
    names = [it.name for it in fields(Finding) if it.name not in ("features", *at_times)]
    given: dict[str, Any] = {name: (hints[name], ...) for name in names} | {
        name: (hints[name], None) for name in at_times
    }
    made: type[BaseModel] = create_model("Finding", __config__=ConfigDict(hide_input_in_errors=True), **given)
    made.__doc__ = "The triage of one subscription."
    return made


def _closed(found: Any) -> Any:
    """A schema without generated titles, in which objects with named fields have no others."""
    if isinstance(found, list):
        return [_closed(it) for it in found]
    if not isinstance(found, dict):
        return found
    made = {key: _closed(it) for key, it in found.items() if key != "title" or not isinstance(it, str)}
    if "properties" in made and isinstance(made["properties"], dict):
        made["additionalProperties"] = False
    return made


def document() -> list[dict[str, str]]:
    """Every document, for `workbench schema --json`."""
    return [{"name": it.name, "schema": it.version, "by": it.by, "says": it.says} for it in DOCUMENTS]


def as_text() -> str:
    """The list for a terminal."""
    width = max(len(it.name) for it in DOCUMENTS)
    return "\n".join(f"{it.name:<{width}}  {it.by}\n{'':<{width}}  {it.says}" for it in DOCUMENTS)


def as_markdown() -> str:
    """The page docs/schemas.md."""
    lines = [
        "# JSON",
        "",
        "What commands print with `--json`, what the files hold, and what `workbench serve` answers. Printed from the code, and tests"
        " hold real output against it. `workbench schema NAME` prints the JSON Schema (2020-12) of one:",
        "",
        "```",
        "workbench schema triage > triage.schema.json",
        "```",
        "",
        "A document's field `schema` has its version: `workbench.triage/1`. A later release may add fields to a version; it takes none"
        " away and gives none another meaning. Times are ISO 8601 with a time zone, units stand in the names (`_seconds`,"
        " `_messages`), and `null` is *not known*: never 0.",
        "",
        *table(
            ["name", "schema", "written by", "what it is"],
            [(f"[{it.name}](#{it.name})", code(it.version), it.by, it.says) for it in DOCUMENTS],
        ),
    ]
    for it in DOCUMENTS:
        found = schema(it.name)
        body = found.get("items", found)
        needed = set(body.get("required", ()))
        lines += ["", f"## {it.name}", "", "A list; each element has:" if it.many else "Fields:", ""]
        lines += table(
            ["field", "type"],
            [
                (code(name) + ("" if name in needed else " (may be missing)"), _type(value))
                for name, value in body["properties"].items()
            ],
        )
    return page(lines)


def _type(value: dict[str, Any]) -> str:
    """A type in words."""
    if "$ref" in value:
        return str(value["$ref"]).rpartition("/")[2]
    for key in ("anyOf", "allOf", "oneOf"):
        if key in value:
            return " or ".join(dict.fromkeys(_type(it) for it in value[key]))
    if "const" in value:
        return code(str(value["const"]))
    if "enum" in value:
        return ", ".join(code(str(it)) for it in value["enum"])
    if value.get("type") == "array":
        inner = value.get("items")
        return f"list of {_type(inner)}" if inner else "list"
    if value.get("type") == "object":
        inner = value.get("additionalProperties")
        return f"object of {_type(inner)}" if isinstance(inner, dict) and inner else "object"
    return str(value.get("type", "any"))

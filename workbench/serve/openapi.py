"""The HTTP interface of the server as an OpenAPI document: every route with its parameters and its answers.

`app` has the routes; a test holds both against each other, and asks a running server for each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from workbench import __version__
from workbench.serve.access import COOKIE
from workbench.serve.asked_triages import MAX_REQUEST_BYTES, AskedTriage
from workbench.serve.json_shapes import AnsweredTriage, IncidentState, ServedFleet, ServedIncidents
from workbench.serve.request_limits import MAX_BODY_BYTES, MAX_FORM_BYTES

# nobody: no token. program: a bearer token. person: a bearer token or a visit, else sign in. form: a visit and its form's token.
Door = Literal["nobody", "program", "person", "form"]
_IN_PATH = {
    "incident": "Id of the incident.",
    "run": "Name of the run's folder.",
    "name": "Name of the file.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One method of one route.

    Attributes:
        parameters: of the query, with their meaning. fields: of the form that is sent. answers: meaning of each status.
        model: of the JSON that comes with 200. takes: of the JSON that is sent. kind: media type of 200.
    """

    path: str
    door: Door
    summary: str
    answers: Mapping[int, str]
    method: Literal["get", "post"] = "get"
    parameters: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, str] = field(default_factory=dict)
    model: type[BaseModel] | None = None
    takes: type[BaseModel] | None = None
    kind: str = "text/html"

    @property
    def in_path(self) -> Sequence[str]:
        """Parameters of the path."""
        return [name for name in _IN_PATH if f"{{{name}}}" in self.path]

    @property
    def all_answers(self) -> dict[int, str]:
        """With those that come of the door, and of the limits on every request."""
        doors: dict[Door, dict[int, str]] = {
            "nobody": {},
            "program": {401: "No valid bearer token."},
            "person": {303: "Not signed in: to the form."},
            "form": {
                401: "Not signed in.",
                403: "The form is not of this visit, or of another page.",
                400: "The body is not a form.",
                413: f"A body of more than {MAX_FORM_BYTES >> 10} KiB without a token, or {MAX_BODY_BYTES >> 20} MiB with one.",
            },
        }
        found = doors[self.door] | {503: "The database does not answer, or the server is full or stops."}
        return dict(sorted({**found, **self.answers}.items()))


_SHOWN = {200: "The page."}
_OR_NOT = {**_SHOWN, 404: "There is no such thing, or it is older than the database keeps."}
_FORMS = "application/x-www-form-urlencoded"

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        path="/alerts",
        method="post",
        door="program",
        kind="application/json",
        summary="Take alerts: the webhook of Alertmanager, or a list of alerts. 200 means that they are on the disk.",
        answers={
            200: "How many were `new`, `known` and `resolved`; `dropped` and `truncated` if some were left out.",
            400: "No alert in it could be read.",
            413: f"More than {MAX_BODY_BYTES >> 20} MiB.",
            503: "Too many alerts wait (`most_waiting`), or the database does not answer. Send them again.",
        },
    ),
    Operation(
        path="/api/fleet",
        door="program",
        kind="application/json",
        summary="Every subscription with its last verdict, worst first, at most 10,000.",
        answers={200: "The document `workbench.fleet/1`."},
        model=ServedFleet,
    ),
    Operation(
        path="/api/incidents",
        door="program",
        kind="application/json",
        summary="The latest 200 incidents, open ones first.",
        answers={200: "The document `workbench.incidents/1`."},
        model=ServedIncidents,
    ),
    Operation(
        path="/api/incidents/{incident}",
        door="program",
        kind="application/json",
        summary="One incident with its subscriptions, notes and messages.",
        answers={200: "The document `workbench.incident_state/1`.", 404: "There is no such incident."},
        model=IncidentState,
    ),
    Operation(
        path="/api/triage",
        method="post",
        door="program",
        kind="application/json",
        summary="Judge groups now, and wait for it: the route of `workbench triage --via`. An error also has `hint`, and `exit_code`"
        " of the command.",
        answers={
            200: "The document `workbench.asked_triage/1`, with `workbench.triage/1` in it.",
            400: "The request is wrong: a cluster, group or time, or one that is too large for a server.",
            413: f"More than {MAX_REQUEST_BYTES >> 10} KiB.",
            422: "The sources do not answer, or have no data.",
            500: "An internal error; the server's log has it.",
            503: "The server starts, is busy with others, or took too long. Ask again, or run the command without `--via`.",
        },
        model=AnsweredTriage,
        takes=AskedTriage,
    ),
    Operation(
        path="/healthz",
        door="nobody",
        kind="application/json",
        summary="Whether alerts are taken and judged.",
        answers={
            200: "`state` is ready or starting.",
            503: "An alert waits for over 10 minutes, a thread has ended, or alerts cannot be written: a full disk.",
        },
    ),
    Operation(
        path="/livez",
        door="nobody",
        kind="application/json",
        summary="Whether a new start would help: for a liveness probe.",
        answers={
            200: "`state` is ready or starting.",
            503: "An alert waits for over 10 minutes, or a thread has ended.",
        },
    ),
    Operation(
        path="/metrics",
        door="nobody",
        kind="text/plain",
        summary="Metrics of the server, in Prometheus' text format.",
        answers={200: "The metrics."},
    ),
    Operation(
        path="/openapi.json",
        door="nobody",
        kind="application/json",
        summary="This document.",
        answers={200: "OpenAPI 3.1."},
    ),
    Operation(
        path="/",
        door="person",
        summary="The fleet, worst first, 100 on a page.",
        answers=_SHOWN,
        parameters={
            "text": "Part of the name of a group or topic.",
            "state": "lagging, cannot_tell, draining or healthy.",
            "cluster": "Only this cluster.",
            "cause": "Key of a cause on brokers: what it holds up.",
            "sort": "worst, or another order of the page.",
            "skip": "How many to leave out, for the next page.",
        },
    ),
    Operation(
        path="/incidents",
        door="person",
        summary="Incidents, open ones first, 100 on a page.",
        answers=_SHOWN,
        parameters={"state": "open, closed, or all.", "skip": "How many to leave out, for the next page."},
    ),
    Operation(
        path="/incidents/{incident}",
        door="person",
        summary="One incident, at an address that stays.",
        answers=_OR_NOT,
        parameters={"group": "Show this group's chart.", "topic": "Of this topic."},
    ),
    Operation(
        path="/incidents/{incident}/notes",
        method="post",
        door="form",
        summary="Keep a note or a resolution; back to the incident.",
        answers={303: "Kept.", 404: "There is no such incident."},
        fields={
            "csrf": "Token of the visit's forms.",
            "words": "The note.",
            "author": "Who writes it.",
            "kind": "note or resolution.",
        },
    ),
    Operation(
        path="/incidents/{incident}/handling",
        method="post",
        door="form",
        summary="Acknowledge, mute or close an open incident; back to it. While it is muted, only its end is told.",
        answers={303: "Done.", 400: "There is no such action.", 404: "There is no such open incident."},
        fields={
            "csrf": "Token of the visit's forms.",
            "what": "acknowledge, mute, unmute or close.",
            "hours": "Of a mute: 1, 4 or 24.",
            "author": "Who does it.",
        },
    ),
    Operation(
        path="/group",
        door="person",
        summary="One group: its verdicts now, and in the last days.",
        answers=_OR_NOT,
        parameters={
            "cluster": "Of the group.",
            "group": "Its name.",
            "range": "24h, 7d or 30d; by default, what there is.",
            "asked": "When a triage was asked for, in seconds since 1970: the page says whether it has been judged since.",
        },
    ),
    Operation(
        path="/group/triage",
        method="post",
        door="form",
        summary="Judge the group's cluster now; back to the group.",
        answers={303: "It will be judged.", 409: "Another instance judges this cluster, or none."},
        parameters={"cluster": "Of the group.", "group": "Its name."},
        fields={"csrf": "Token of the visit's forms."},
    ),
    Operation(
        path="/audits",
        door="person",
        summary="Streams of audits, worst first, and what stands before Kafka.",
        answers=_SHOWN,
        parameters={"text": "Part of a stream's name.", "skip": "Number of rows to skip."},
    ),
    Operation(
        path="/audit",
        door="person",
        summary="One stream of an audit, by layer and window.",
        answers=_OR_NOT,
        parameters={"audit": "Its name.", "stream": "Name of the stream."},
    ),
    Operation(path="/reports", door="person", summary="Scheduled reports, the latest first.", answers=_SHOWN),
    Operation(path="/reports/{run}", door="person", summary="One report, as it was written.", answers=_OR_NOT),
    Operation(path="/runbooks/{name}", door="person", summary="A runbook: `SlowProcessor.md`.", answers=_OR_NOT),
    Operation(
        path="/sign-in",
        door="nobody",
        summary="The form for the token.",
        answers=_SHOWN,
        parameters={"to": "Path of this server to go to afterwards."},
    ),
    Operation(
        path="/sign-in",
        method="post",
        door="nobody",
        summary="Begin a visit of 12 hours, or until the token ends.",
        answers={
            303: "Signed in; a cookie is set.",
            400: "The body is not a form.",
            403: "The token is wrong, or the form comes from another page.",
            413: f"More than {MAX_FORM_BYTES >> 10} KiB.",
        },
        parameters={"to": "Path of this server to go to afterwards."},
        fields={"token": "One of the server's tokens."},
    ),
    Operation(
        path="/sign-out",
        method="post",
        door="form",
        summary="End the visit.",
        answers={303: "Signed out."},
        fields={"csrf": "Token of the visit's forms."},
    ),
    Operation(
        path="/static/{name}",
        door="nobody",
        summary="Style and script of the pages.",
        kind="text/css",
        answers={200: "The file.", 404: "There is no such file."},
    ),
)


@cache
def openapi() -> dict[str, Any]:
    """The OpenAPI 3.1 document."""
    models = [(it.model, "serialization") for it in OPERATIONS if it.model is not None]
    models += [(it.takes, "validation") for it in OPERATIONS if it.takes is not None]
    names, shared = models_json_schema(models, ref_template="#/components/schemas/{model}")  # type: ignore[arg-type]
    paths: dict[str, dict[str, Any]] = {}
    for it in OPERATIONS:
        reference = names[it.model, "serialization"] if it.model is not None else None
        taken = names[it.takes, "validation"] if it.takes is not None else {"type": ["object", "array"]}
        paths.setdefault(it.path, {})[it.method] = _operation(it, reference, taken)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Workbench",
            "version": __version__,
            "description": "Alerts in, verdicts out. `workbench serve`.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": shared.get("$defs", {}),
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer", "description": "A token of the server."},
                "visit": {"type": "apiKey", "in": "cookie", "name": COOKIE, "description": "Set by `/sign-in`."},
            },
        },
    }


def _operation(it: Operation, reference: Any, taken: Any) -> dict[str, Any]:
    answers: dict[str, Any] = {str(status): {"description": words} for status, words in it.all_answers.items()}
    if "200" in answers:
        answers["200"]["content"] = {it.kind: {"schema": reference} if reference is not None else {}}
    found: dict[str, Any] = {"summary": it.summary, "operationId": _name(it), "responses": answers}
    doors: dict[Door, list[dict[str, list[str]]]] = {
        "nobody": [],
        "program": [{"bearer": []}],
        "person": [{"bearer": []}, {"visit": []}],
        "form": [{"visit": []}],
    }
    found["security"] = doors[it.door]
    given = [
        {"name": name, "in": "path", "required": True, "description": _IN_PATH[name], "schema": {"type": "string"}}
        for name in it.in_path
    ]
    given += [
        {"name": name, "in": "query", "required": False, "description": words, "schema": {"type": "string"}}
        for name, words in it.parameters.items()
    ]
    if given:
        found["parameters"] = given
    if it.fields:
        fields = {name: {"type": "string", "description": words} for name, words in it.fields.items()}
        found["requestBody"] = {"content": {_FORMS: {"schema": {"type": "object", "properties": fields}}}}
    elif it.method == "post":
        found["requestBody"] = {"content": {"application/json": {"schema": taken}}}
    return found


def _name(it: Operation) -> str:
    words = [part.strip("{}") for part in it.path.split("/") if part] or ["fleet"]
    return "_".join([it.method, *words]).replace("-", "_").replace(".", "_")

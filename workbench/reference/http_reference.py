"""The HTTP interface of `workbench serve`, for people (docs/http.md)."""

from __future__ import annotations

from workbench.reference.markdown_tables import code, page, table
from workbench.serve.openapi import OPERATIONS, Door, Operation

_DOORS: dict[Door, tuple[str, str]] = {
    "program": ("Programs", 'With a bearer token: `Authorization: Bearer TOKEN`. Errors are JSON: `{"error": "…"}`.'),
    "nobody": ("Without a token", "They name no cluster, group or target."),
    "person": ("Pages", "With a bearer token or a visit (`/sign-in`); without one, to the form. An error is a page."),
    "form": (
        "Forms",
        "With a visit, and the token of its forms in the field `csrf`; from this server's own pages only.",
    ),
}


def as_markdown() -> str:
    """The page docs/http.md."""
    lines = [
        "# HTTP",
        "",
        "Routes of `workbench serve`, printed from the code; a test compares with the server. The same as OpenAPI 3.1:"
        " `GET /openapi.json`. Documents: [JSON](schemas.md). Tokens and TLS: [alerts](serve.md#access).",
        "",
        "```",
        'curl -H "Authorization: Bearer $(cat ~/.local/state/lag-workbench/serve.token)" http://127.0.0.1:8480/api/fleet',
        "```",
    ]
    for door, (title, words) in _DOORS.items():
        lines += ["", f"## {title}", "", words, ""]
        rows = []
        for it in OPERATIONS:
            if it.door == door:
                given = "<br>".join(
                    f"{code(name)}: {meaning}" for name, meaning in {**it.parameters, **it.fields, **_sent(it)}.items()
                )
                answers = "<br>".join(f"{status}: {meaning}" for status, meaning in it.all_answers.items())
                rows.append((code(f"{it.method.upper()} {it.path}"), it.summary, given, answers))
        lines += table(["route", "what it does", "parameters and fields", "answers"], rows)
    return page(lines)


def _sent(it: Operation) -> dict[str, str]:
    """Fields of the JSON that is sent."""
    fields = it.takes.model_fields if it.takes is not None else {}
    return {name: field.description or "" for name, field in fields.items()}

"""Rules of the OpenAPI document and docs/http.md: every route of the server is in it and no other, with the answers that it gives."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from jsonschema import Draft202012Validator
from starlette.routing import Route

from tests.serve.serving import TOKEN, Office, Running, alert, running
from workbench.serve import app, pages
from workbench.serve.openapi import OPERATIONS, Operation, openapi

BEARER = {"Authorization": f"Bearer {TOKEN}"}
IN_PATH = {"incident": "20260101-none", "run": "none", "name": "none"}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Running]:
    """A server with one incident."""
    office = Office(tmp_path)
    with running(office) as found:
        requests.post(f"{found.url}/alerts", json={"alerts": [alert()]}, headers=BEARER, timeout=10)
        yield found


def test_every_route_is_described_and_no_other(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By path and method: whoever adds a route describes it."""
    routes: list[Route] = []
    made = app.Starlette

    def noting(*, routes: list[Route], **others: object) -> object:
        noted.extend(routes)
        return made(routes=routes, **others)  # type: ignore[arg-type]

    noted = routes
    monkeypatch.setattr(app, "Starlette", noting)
    with running(Office(tmp_path)):
        pass
    found = {(it.path, method.lower()) for it in routes for method in it.methods or () if method != "HEAD"}
    assert found == {(it.path, it.method) for it in OPERATIONS}
    assert len(OPERATIONS) == len(found)
    assert {(path, method) for path, methods in openapi()["paths"].items() for method in methods} == found


def test_every_parameter_and_field_is_described_and_no_other() -> None:
    """As the source reads them."""
    source = inspect.getsource(pages) + inspect.getsource(app)
    asked = set(re.findall(r"_(?:asked|number)\(request, \"(\w+)\"\)", source))
    asked |= set(re.findall(r"query_params\.get\(\"(\w+)\"", source))
    asked |= {"text", "cluster"}  # of the fleet, in one loop with state and sort
    assert '("text", "state", "cluster", "sort", "cause")' in source
    assert {name for it in OPERATIONS for name in it.parameters} == asked | {"state", "sort", "cause"}
    fields = set(re.findall(r"fields\.get\(\"(\w+)\"", source))
    assert {name for it in OPERATIONS for name in it.fields} == fields


def ask(server: Running, it: Operation, **values: object) -> requests.Response:
    """Without what it needs, unless the test gives it."""
    path = it.path.format(**IN_PATH)
    return requests.request(it.method, server.url + path, timeout=30, allow_redirects=False, **values)  # type: ignore[arg-type]


@pytest.mark.parametrize("it", OPERATIONS, ids=lambda it: f"{it.method} {it.path}")
def test_each_answer_is_described(server: Running, it: Operation) -> None:
    """Without a token, with one, and with a body that is nonsense."""
    for values in ({}, {"headers": BEARER}, {"headers": BEARER, "data": b"\xff\xfe"}):
        answer = ask(server, it, **values)
        assert answer.status_code in it.all_answers, (values, answer.status_code, answer.text[:200])
        if answer.status_code == 200:
            assert answer.headers["content-type"].startswith((it.kind, "text/html" if it.door == "person" else it.kind))
    if it.door in ("program", "form"):
        assert ask(server, it).status_code == 401
    elif it.door == "person":
        assert ask(server, it).headers["location"].startswith("/sign-in")
    elif "{" not in it.path and it.method == "get":
        assert ask(server, it).status_code == 200


def test_the_document_is_openapi(server: Running) -> None:
    """Served as it is; references lead somewhere, and names of operations differ."""
    found = requests.get(f"{server.url}/openapi.json", timeout=10).json()
    assert found == openapi()
    assert found["openapi"].startswith("3.1")
    text = str(found)
    for reference in re.findall(r"#/components/schemas/(\w+)", text):
        Draft202012Validator.check_schema(found["components"]["schemas"][reference])
    names = [it["operationId"] for methods in found["paths"].values() for it in methods.values()]
    assert len(set(names)) == len(names)
    for methods in found["paths"].values():
        for it in methods.values():
            assert it["responses"] and all(answer["description"] for answer in it["responses"].values())
            schemes = {name for need in it["security"] for name in need}
            assert schemes <= found["components"]["securitySchemes"].keys()

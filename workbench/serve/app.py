"""The HTTP application: alerts in, state out; the pages are in `pages`."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlencode

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from workbench.alerts import NO_NAMES, Alert, AlertMessage, Names, left_out, parse_message, told
from workbench.errors import UsageError
from workbench.masking import masked, masked_document, masked_start
from workbench.serve.access import COOKIE, VISIT_SECONDS, Access, Visit, is_from_here
from workbench.serve.alert_journal import FullError, accept, fingerprint_of
from workbench.serve.asked_triages import MAX_REQUEST_BYTES, AskedTriages
from workbench.serve.audits import Shelf
from workbench.serve.incident_actions import MUTES, Handling, add_note, handle
from workbench.serve.limited_peer_warnings import warn
from workbench.serve.openapi import openapi
from workbench.serve.own_metrics import Metrics
from workbench.serve.page_queries import Reading
from workbench.serve.pages import STATIC, Pages
from workbench.serve.request_limits import Limits, let_in
from workbench.serve.server_database import Store, StoreError
from workbench.serve.worker import Worker
from workbench.serve_settings import ServeSettings

_log = logging.getLogger(__name__)
_STUCK_SECONDS = 600.0
_MAX_FIELDS = 10
_MAX_NOTE = 4000
_MAX_AUTHOR = 80
_MAX_SAID = 500
_FOR_PROGRAMS = ("/api/", "/alerts", "/metrics", "/healthz", "/livez", "/openapi.json", "/static/")
Answer = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """What the routes need.

    Attributes:
        cluster: of alerts without a cluster label. secure: cookies only over TLS. reports: folder of scheduled reports.
        audits: what audits have published.
        names: how alerts name groups and clusters, by the settings of now. asked: triages that programs wait for.
    """

    store: Store
    access: Access
    worker: Worker
    settings: ServeSettings
    cluster: str | None = None
    secure: bool = False
    reports: Path | None = None
    audits: Shelf | None = None
    names: Callable[[], Names] = lambda: NO_NAMES
    asked: AskedTriages | None = None

    @property
    def metrics(self) -> Metrics:
        """Those of the worker."""
        return self.worker.metrics


def application(server: Server) -> ASGIApp:
    """The application with its limits."""
    api, forms = _Api(server), _Forms(server)
    every_seconds = server.settings.fleet_every.total_seconds()
    pages = Pages(Reading(server.store), reports=server.reports, audits=server.audits, every_seconds=every_seconds)
    person = _Door(server).person
    program = _Door(server).program

    def shown(page: Callable[[Request, Visit | None], Response]) -> Answer:
        async def answer(request: Request) -> Response:
            return await person(request, page)

        return answer

    routes = [
        Route("/healthz", api.healthz),
        Route("/livez", api.livez),
        Route("/metrics", api.metrics),
        Route("/openapi.json", _openapi),
        Route("/alerts", program(api.alerts), methods=["POST"]),
        Route("/api/incidents", program(api.incidents)),
        Route("/api/incidents/{incident}", program(api.incident)),
        Route("/api/fleet", program(api.fleet)),
        Route("/api/triage", program(api.triage), methods=["POST"]),
        Route("/", shown(pages.fleet)),
        Route("/incidents", shown(pages.incidents)),
        Route("/incidents/{incident}", shown(pages.incident)),
        Route("/incidents/{incident}/notes", forms.note, methods=["POST"]),
        Route("/incidents/{incident}/handling", forms.handling, methods=["POST"]),
        Route("/group", shown(pages.group)),
        Route("/group/triage", forms.triage, methods=["POST"]),
        Route("/audits", shown(pages.audits)),
        Route("/audit", shown(pages.audit)),
        Route("/reports", shown(pages.reports)),
        Route("/reports/{run}", shown(pages.report)),
        Route("/runbooks/{name}", shown(pages.runbook)),
        Route("/sign-in", forms.sign_in, methods=["GET", "POST"]),
        Route("/sign-out", forms.sign_out, methods=["POST"]),
        Route("/static/{name}", _static),
    ]
    handlers = {HTTPException: _refused, StoreError: _without_database, 500: _failed}
    return Limits(Starlette(routes=routes, exception_handlers=handlers), metrics=server.metrics)


def for_bearers(app: ASGIApp, access: Access, metrics: Metrics) -> ASGIApp:
    """An application behind the limits and a bearer token."""

    async def checked(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            header = Headers(scope=scope).get("authorization")
            if not await run_in_threadpool(access.is_bearer, header):
                refusal = JSONResponse(
                    {"error": "A bearer token is required."}, 401, headers={"WWW-Authenticate": "Bearer"}
                )
                await refusal(scope, receive, send)
                return
            let_in(scope)
        await app(scope, receive, send)

    return Limits(checked, metrics=metrics)


def _answer(request: Request, status: int, words: str, headers: Mapping[str, str] | None = None) -> Response:
    """An error: a page for a browser that shows one, a document for a program."""
    if "text/html" in request.headers.get("accept", "") and not request.url.path.startswith(_FOR_PROGRAMS):
        return Pages.refused(status, words, headers)
    return JSONResponse({"error": words}, status, headers=dict(headers or {}))


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - what it is registered for
    return _answer(request, error.status_code, masked(error.detail), error.headers)


async def _without_database(request: Request, error: Exception) -> Response:
    _log.warning("%s", masked(str(error)))
    return _answer(request, 503, "The database does not answer. Try again.", {"Retry-After": "10"})


async def _failed(request: Request, _error: Exception) -> Response:
    return _answer(request, 500, "internal error")


async def _openapi(_request: Request) -> Response:
    return JSONResponse(openapi(), headers={"Cache-Control": "max-age=300"})


async def _static(request: Request) -> Response:
    found = STATIC.get(request.path_params["name"])
    if found is None:
        raise HTTPException(404, "There is no such file.")
    kind, text = found
    return Response(text(), media_type=kind, headers={"Cache-Control": "max-age=300"})


class _Door:
    """Who may enter."""

    def __init__(self, server: Server) -> None:
        self._access = server.access

    def program(self, answer: Answer) -> Answer:
        """Let programs in that send a bearer token."""

        async def checked(request: Request) -> Response:
            if not await run_in_threadpool(self._access.is_bearer, request.headers.get("authorization")):
                raise HTTPException(401, "A bearer token is required.", headers={"WWW-Authenticate": "Bearer"})
            let_in(request.scope)
            return await answer(request)

        return checked

    async def person(self, request: Request, page: Callable[[Request, Visit | None], Response]) -> Response:
        """Let people in who have signed in, and send others to the form."""
        visit = await run_in_threadpool(self._access.visit, request.cookies.get(COOKIE))
        if visit is None and not await run_in_threadpool(self._access.is_bearer, request.headers.get("authorization")):
            to = request.url.path + (f"?{request.url.query}" if request.url.query else "")
            return RedirectResponse(f"/sign-in?to={quote(to, safe='')}", 303)
        let_in(request.scope)
        return await run_in_threadpool(page, request, visit)


class _Api:
    def __init__(self, server: Server) -> None:
        self._server = server
        self._reading = Reading(server.store)
        self._refused: float | None = None  # since when alerts cannot be written, as on a full disk; monotonic

    async def healthz(self, _request: Request) -> Response:
        """200 while alerts are taken and judged; 503 otherwise. Needs no token, and tells nothing else."""
        refused = self._refused is not None and time.monotonic() - self._refused < _STUCK_SECONDS
        return self._state("failing" if refused or await self._hangs() else self._begun())

    async def livez(self, _request: Request) -> Response:
        """503 where a new start may help. On a full disk it does not: who runs shows what it knows, and nobody new could begin."""
        return self._state("failing" if await self._hangs() else self._begun())

    def _begun(self) -> str:
        return "ready" if self._server.worker.ready.is_set() else "starting"

    @staticmethod
    def _state(state: str) -> Response:
        return JSONResponse({"state": state}, 503 if state == "failing" else 200)

    async def _hangs(self) -> bool:
        worker, store = self._server.worker, self._server.store
        oldest = await run_in_threadpool(store.number, "SELECT min(received) FROM alert WHERE state = 'waiting'")
        return not worker.alive or (worker.leading and bool(oldest) and store.clock() - oldest > _STUCK_SECONDS)

    async def metrics(self, _request: Request) -> Response:
        """Metrics of the server. They name nothing, so they need no token."""
        page = await run_in_threadpool(self._server.metrics.page, self._server.store)
        return Response(page, media_type="text/plain; version=0.0.4; charset=utf-8")

    async def alerts(self, request: Request) -> Response:
        """Alertmanager's webhook. 200 means that the alerts are on the disk."""
        server = self._server
        try:
            text = (await request.body()).decode()
            message = await run_in_threadpool(self._read, text)
            found = await run_in_threadpool(
                accept,
                server.store,
                [_with_doubts(it) for it in message.alerts],
                cluster=server.cluster,
                most_waiting=server.settings.most_waiting,
            )
        except UnicodeDecodeError:
            raise HTTPException(400, "The body is not text.") from None
        except UsageError as error:
            raise HTTPException(400, error.message) from None
        except FullError as error:
            raise HTTPException(503, error.message, headers={"Retry-After": "30"}) from None
        except StoreError:
            self._refused = time.monotonic()
            raise
        self._refused = None
        server.worker.woken()
        counts = {"new": found.new, "known": found.known, "resolved": found.resolved}
        missing = {"dropped": message.dropped, "truncated": message.truncated}
        unread = sum(bool(it.unread) for it in message.alerts)
        for kind, number in {**counts, "dropped": message.dropped, "group_unread": unread}.items():
            server.metrics.alerts.labels(kind).inc(number)
        server.metrics.truncated.inc(found.truncated)
        return JSONResponse({"accepted": counts, **{kind: number for kind, number in missing.items() if number}})

    def _read(self, text: str) -> AlertMessage:
        message = parse_message(text, name="the body", names=self._server.names())
        for said in (*left_out(message), *told(message.alerts)):
            warn(_log, "%s", masked_start(said, _MAX_SAID), kind="alerts")
        return message

    async def triage(self, request: Request) -> Response:
        """A triage of now, for a program that waits for it."""
        body, asked = await request.body(), self._server.asked
        if len(body) > MAX_REQUEST_BYTES:
            raise HTTPException(413, f"The body may have {MAX_REQUEST_BYTES:,} bytes at most.")
        if asked is None:
            raise HTTPException(503, "This server judges nothing for programs.")
        return await asked.answer(body)

    async def incidents(self, _request: Request) -> Response:
        """The latest incidents, open ones first."""

        def made() -> Response:
            found = self._reading.incidents(state="", most=200)
            return _document({"schema": "workbench.incidents/1", "incidents": [dict(it) for it in found]})

        return await run_in_threadpool(made)

    async def incident(self, request: Request) -> Response:
        """One incident with its subscriptions, notes and messages."""

        def made() -> Response | None:
            found = self._reading.document(request.path_params["incident"])
            return _document(found) if found is not None else None

        answer = await run_in_threadpool(made)
        if answer is None:
            raise HTTPException(404, "There is no such incident.")
        return answer

    async def fleet(self, _request: Request) -> Response:
        """Every subscription with its verdict, worst first."""

        def made() -> Response:
            found = self._reading.subscriptions(most=10_000)
            return _document({"schema": "workbench.fleet/1", "causes": self._reading.causes(), "subscriptions": found})

        return await run_in_threadpool(made)


def _document(found: Mapping[str, Any]) -> Response:
    """A document with its secrets masked. Ten thousand rows take a second: make it in a thread, not where requests are answered."""
    return JSONResponse(masked_document(found))


class _Forms:
    """What people send; each form of a visit carries its token."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def _fields(self, request: Request) -> dict[str, str]:
        if not is_from_here(request.headers):
            raise HTTPException(403, "This form comes from another page.")
        try:
            found = parse_qs((await request.body()).decode(), max_num_fields=_MAX_FIELDS)
        except ValueError:
            raise HTTPException(400, "The body is not a form.") from None
        return {name: values[0] for name, values in found.items()}

    async def _visited(self, request: Request) -> dict[str, str]:
        visit = await run_in_threadpool(self._server.access.visit, request.cookies.get(COOKIE))
        if visit is None:
            raise HTTPException(401, "Sign in first.")
        let_in(request.scope)
        fields = await self._fields(request)
        if not self._server.access.is_form_of(visit, fields.get("csrf", "")):
            raise HTTPException(403, "This form is not of this visit. Open the page again.")
        return fields

    async def sign_in(self, request: Request) -> Response:
        """Show the form, or begin a visit."""
        to = _own_path(request.query_params.get("to", "/"))
        if request.method == "GET":
            return Pages.sign_in(to)
        fields = await self._fields(request)
        cookie = await run_in_threadpool(self._server.access.sign_in, fields.get("token", "").strip())
        if cookie is None:
            return Pages.sign_in(to, wrong=True)
        response = RedirectResponse(to, 303)
        response.set_cookie(
            COOKIE, cookie, max_age=int(VISIT_SECONDS), httponly=True, samesite="lax", secure=self._server.secure
        )
        return response

    async def sign_out(self, request: Request) -> Response:
        """End the visit."""
        await self._visited(request)
        await run_in_threadpool(self._server.access.sign_out, request.cookies.get(COOKIE))
        response = RedirectResponse("/sign-in", 303)
        response.delete_cookie(COOKIE)
        return response

    async def triage(self, request: Request) -> Response:
        """Judge a group's cluster now, and look again at its open incidents."""
        await self._visited(request)
        # In the address, not in fields: a browser would change the line breaks that a group's name may have.
        cluster, group = request.query_params.get("cluster", ""), request.query_params.get("group", "")
        store, worker = self._server.store, self._server.worker
        looked = await run_in_threadpool(look_now, store, cluster, group)
        if not await run_in_threadpool(worker.ask, cluster) and not looked:
            raise HTTPException(409, "Another instance judges this cluster, or none: it is judged when its turn comes.")
        asked = urlencode({"cluster": cluster, "group": group, "asked": int(store.clock())}, errors="backslashreplace")
        return RedirectResponse(f"/group?{asked}", 303)

    async def handling(self, request: Request) -> Response:
        """Acknowledge, mute or close an incident."""
        fields = await self._visited(request)
        incident, hours = request.path_params["incident"], fields.get("hours", str(MUTES[0]))
        if fields.get("what") not in list(Handling) or hours not in map(str, MUTES):
            raise HTTPException(400, "There is no such action.")
        done = await run_in_threadpool(
            handle, self._server.store, incident, Handling(fields["what"]), author=fields.get("author", "").strip()[:_MAX_AUTHOR],
            hours=int(hours), settings=self._server.settings,
        )  # fmt: skip
        if not done:
            raise HTTPException(404, "There is no such open incident.")
        return RedirectResponse(f"/incidents/{quote(incident, safe='')}", 303)

    async def note(self, request: Request) -> Response:
        """Keep a note or a resolution."""
        fields = await self._visited(request)
        incident = request.path_params["incident"]
        words, author = fields.get("words", "").strip()[:_MAX_NOTE], fields.get("author", "").strip()[:_MAX_AUTHOR]
        if not words:
            raise HTTPException(400, "The note is empty.")
        kind = "resolution" if fields.get("kind") == "resolution" else "note"
        if not await run_in_threadpool(add_note, self._server.store, incident, author=author, kind=kind, words=words):
            raise HTTPException(404, "There is no such incident.")
        return RedirectResponse(f"/incidents/{quote(incident, safe='')}#notes", 303)


def _with_doubts(alert: Alert) -> Alert:
    """The alert with a name that tells in each message what was not understood of it."""
    doubts = alert.doubts()
    if not doubts:
        return alert
    return replace(alert, name=f"{alert.name} ({doubts})", fingerprint=fingerprint_of(alert))


def look_now(store: Store, cluster: str, group: str) -> int:
    """Let the turn of a group's open incidents come now; return how many there are."""
    with store.writing() as db:
        return db.execute(
            "UPDATE incident SET looked = 0 WHERE closed IS NULL AND cluster = ? AND id IN (SELECT incident FROM member WHERE grp = ?)",
            (cluster, group),
        ).rowcount


def _own_path(to: str) -> str:
    """A path of this server; anything else would lead people elsewhere after they have signed in."""
    return to if to.startswith("/") and not to.startswith(("//", "/\\")) and to.isprintable() else "/"

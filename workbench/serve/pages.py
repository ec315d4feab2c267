"""Pages for people: rendered here, readable without JavaScript, on a phone, in the dark and by keyboard."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from workbench.assets import shipped
from workbench.errors import UsageError
from workbench.humanize import lines
from workbench.inputs import read_within
from workbench.report.html import environment
from workbench.report.runs.record import REPORT, latest_runs, run_named
from workbench.serve.access import Visit
from workbench.serve.reading import DAYS, SORTS, Reading
from workbench.serve.verdictline import verdict_line
from workbench.triage.verdict import State

_ROWS = 100
_MAX_QUERY = 200
_REPORT_BYTES = 64 << 20
# A report has its own policy, by hashes; in a sandbox it cannot use the reader's login.
_REPORT_POLICY = "sandbox allow-scripts; frame-ancestors 'none'"


def _own(package: str, name: str) -> Callable[[], str]:
    @cache
    def read() -> str:
        return resources.files(package).joinpath(name).read_text(encoding="utf-8")

    return read


@cache
def _style() -> str:
    return _own("workbench.report", "report.css")() + _own("workbench.serve", "serve.css")()


STATIC: Mapping[str, tuple[str, Callable[[], str]]] = {
    "serve.css": ("text/css", _style),
    "serve.js": ("text/javascript", _own("workbench.serve", "serve.js")),
}


def _moment(seconds: float | None) -> Markup:
    if not seconds:
        return Markup("–")
    at = datetime.fromtimestamp(seconds, UTC)
    return Markup('<time datetime="{}">{}</time>').format(at.isoformat(timespec="seconds"), f"{at:%Y-%m-%d %H:%M:%SZ}")


def _address(path: str, **values: object) -> str:
    """A path with its query; values that are empty are left out."""
    given = {name: str(value) for name, value in values.items() if value not in ("", None, 0)}
    return f"{path}?{urlencode(given, errors='backslashreplace')}" if given else path


@cache
def _templates() -> Environment:
    found = environment("workbench.serve")
    found.filters |= {"moment": _moment}
    found.globals |= {"address": _address, "states": [str(it) for it in State], "sorts": list(SORTS), "days": DAYS}
    return found


def _page(template: str, visit: Visit | None, status: int = 200, **values: Any) -> Response:
    text = _templates().get_template(template).render(visit=visit, **values)
    return HTMLResponse(text.encode(errors="xmlcharrefreplace"), status)


def _asked(request: Request, name: str) -> str:
    return request.query_params.get(name, "")[:_MAX_QUERY]


def _number(request: Request, name: str) -> int:
    text = request.query_params.get(name, "0")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 7 else 0


class Pages:
    """One method for each page."""

    def __init__(self, reading: Reading, *, reports: Path | None = None) -> None:
        self._reading, self._reports = reading, reports

    @staticmethod
    def sign_in(to: str, *, wrong: bool = False) -> Response:
        """The form for the token."""
        return _page("sign_in.html.j2", None, 403 if wrong else 200, to=to, wrong=wrong)

    def fleet(self, request: Request, visit: Visit | None) -> Response:
        """Every subscription, worst first."""
        asked = {name: _asked(request, name) for name in ("text", "state", "cluster", "sort")}
        asked["sort"] = asked["sort"] if asked["sort"] in SORTS else "worst"
        skip = _number(request, "skip")
        number, rows = self._reading.fleet(**asked, most=_ROWS, skip=skip)
        return _page(
            "fleet.html.j2", visit, asked=asked, rows=rows, number=number, skip=skip, step=_ROWS,
            counts=self._reading.counts(), clusters=self._reading.clusters(), waiting=self._reading.waiting(),
            opened=self._reading.incidents(state="open", most=10),
        )  # fmt: skip

    def incidents(self, request: Request, visit: Visit | None) -> Response:
        """Incidents, open ones first."""
        state, skip = _asked(request, "state"), _number(request, "skip")
        rows = self._reading.incidents(state=state, most=_ROWS + 1, skip=skip)
        return _page(
            "incidents.html.j2", visit, rows=rows[:_ROWS], state=state, skip=skip, step=_ROWS, more=len(rows) > _ROWS
        )

    def incident(self, request: Request, visit: Visit | None) -> Response:
        """One incident, at an address that stays."""
        group, topic = _asked(request, "group"), _asked(request, "topic")
        found = self._reading.incident(request.path_params["incident"], group=group, topic=topic)
        if found is None:
            return self._missing(visit, "There is no such incident. It may be older than the memory keeps them.")
        picture = Markup(found.picture) if found.picture else None  # noqa: S704 - rendered and escaped when it was judged
        return _page("incident.html.j2", visit, it=found, picture=picture)

    def group(self, request: Request, visit: Visit | None) -> Response:
        """The verdicts of one group in the last 30 days."""
        cluster, group = request.query_params.get("cluster", ""), request.query_params.get("group", "")
        present, findings, incidents = self._reading.of_group(cluster, group)
        if not (present or findings or incidents):
            return self._missing(visit, "Nothing is known of this group in the last 30 days.")
        now = self._reading.store.clock()
        topics: dict[str, list[Any]] = {}
        for row in findings:
            topics.setdefault(row["topic"], []).append(row)
        drawn = {topic: verdict_line(rows, now=now, days=DAYS) for topic, rows in topics.items()}
        latest = {topic: rows[::-1][:50] for topic, rows in topics.items()}
        return _page(
            "group.html.j2", visit, cluster=cluster, group=group, present=present, drawn=drawn, latest=latest, incidents=incidents
        )  # fmt: skip

    def reports(self, _request: Request, visit: Visit | None) -> Response:
        """Scheduled reports, the latest first."""
        found = latest_runs(self._reports, _ROWS) if self._reports is not None else []
        return _page("reports.html.j2", visit, configured=self._reports is not None, runs=found)

    def report(self, request: Request, visit: Visit | None) -> Response:
        """One scheduled report, as it was written."""
        found = run_named(self._reports, request.path_params["run"]) if self._reports is not None else None
        path = found[0] / REPORT if found is not None else None
        if path is None or not path.is_file() or path.is_symlink():
            return self._missing(visit, "There is no such report.")
        try:
            content = read_within(path, _REPORT_BYTES)
        except OSError:  # removed since, or larger than any of ours
            return self._missing(visit, "This report cannot be read.")
        return HTMLResponse(content, headers={"Content-Security-Policy": _REPORT_POLICY})

    def runbook(self, request: Request, visit: Visit | None) -> Response:
        """A runbook's text."""
        try:
            known = {it.name: it for it in shipped("runbooks").glob("*.md")}
        except UsageError:
            known = {}
        path = known.get(request.path_params["name"])
        if path is None:
            return self._missing(visit, "There is no such runbook.")
        return _page("runbook.html.j2", visit, name=path.stem, text=lines(path.read_text(encoding="utf-8")))

    @staticmethod
    def _missing(visit: Visit | None, words: str) -> Response:
        return _page("missing.html.j2", visit, 404, words=words)

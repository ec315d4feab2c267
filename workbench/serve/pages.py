"""Pages for people: rendered here, readable without JavaScript, on a phone, in the dark and by keyboard."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlencode, urlsplit

from jinja2 import Environment, pass_context
from jinja2.runtime import Context
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from workbench.errors import UsageError
from workbench.humanize import between
from workbench.limited_reads import read_within
from workbench.report.html_report import environment
from workbench.report.runs.run_record import REPORT, latest_runs, run_named
from workbench.serve.access import Visit
from workbench.serve.audits import Shelf, commands, mark_before_kafka, mark_of, runbooks_of
from workbench.serve.fleet_verdicts import stale_seconds
from workbench.serve.group_detail import unpacked
from workbench.serve.incident_actions import MUTES
from workbench.serve.page_queries import SORTS, Found, Reading, Whom
from workbench.serve.runbook_pages import rendered
from workbench.serve.server_database import Row
from workbench.serve.step_chart import RANGES, age_of, chosen_range, step_chart
from workbench.shipped_files import shipped
from workbench.triage.verdict_names import State

_ROWS = 100
_YEAR_DAYS = 300  # a month and a day alone would be taken for those of this year
_TOPICS = 12  # of one group are drawn
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


@pass_context
def _moment(context: Context, seconds: float | None) -> Markup:
    """A time in UTC with its date if that is not today's, and how long ago that was."""
    if not seconds:
        return Markup("–")
    at, now = datetime.fromtimestamp(seconds, UTC), datetime.fromtimestamp(context["now"], UTC)
    words = f"{at:%H:%M:%S} UTC" if at.date() == now.date() else f"{at:%b} {at.day} {at:%H:%M} UTC"
    if abs((now - at).days) > _YEAR_DAYS:
        words = f"{at:%Y-%m-%d %H:%M} UTC"
    shown = Markup('<time datetime="{}">{}</time> <span class="ago">{}</span>')
    return shown.format(at.isoformat(timespec="seconds"), words, _ago(now.timestamp() - seconds))


def _ago(seconds: float) -> str:
    if seconds < -1:
        return f"in {_ago(-seconds).removesuffix(' ago')}"
    for length, unit in ((2 * 86_400, "d"), (2 * 3600, "h"), (120, "min")):
        if seconds >= length:
            return f"{seconds // (length / 2):.0f} {unit} ago"
    return f"{seconds:.0f} s ago" if seconds >= 1 else "now"


def _address(path: str, **values: object) -> str:
    """A path with its query; values that are empty are left out."""
    given = {name: str(value) for name, value in values.items() if value not in ("", None, 0)}
    return f"{path}?{urlencode(given, errors='backslashreplace')}" if given else path


@cache
def _templates() -> Environment:
    found = environment("workbench.serve")
    found.filters |= {"moment": _moment, "age": age_of}
    found.globals |= {
        "address": _address,
        "states": [str(it) for it in State],
        "sorts": list(SORTS),
        "ranges": RANGES,
        "runbook_page": _runbook,
        "mutes": MUTES,
    }
    return found


def _page(
    template: str, visit: Visit | None, status: int = 200, *, now: float | None = None, **values: Any
) -> Response:
    text = _templates().get_template(template).render(visit=visit, now=now or time.time(), **values)
    return HTMLResponse(text.encode(errors="xmlcharrefreplace"), status)


def _asked(request: Request, name: str) -> str:
    return request.query_params.get(name, "")[:_MAX_QUERY]


def _since(request: Request) -> float | None:
    """When a triage was asked for, in seconds since 1970."""
    text = request.query_params.get("asked", "")
    return float(text) if text.isascii() and text.isdigit() and len(text) < 12 else None


def _runbook(address: str | None) -> str | None:
    """Our own page of a runbook; None if it is not one of ours."""
    name = f"{PurePosixPath(urlsplit(address or '').path).stem}.md"
    return f"/runbooks/{name}" if name in _runbooks() else None


@cache
def _runbooks() -> Mapping[str, Path]:
    try:
        return {it.name: it for it in shipped("runbooks").glob("*.md")}
    except UsageError:
        return {}


_LEAST_SECONDS = 3600.0  # of a picture


def _number(request: Request, name: str) -> int:
    text = request.query_params.get(name, "0")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 7 else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PageChart:
    """A picture with its values, the latest first; `objective` in seconds; `more` values are not listed."""

    picture: Markup
    objective: float | None
    rows: Sequence[Row]
    more: int


class Pages:
    """One method for each page.

    Args:
        reports: folder of scheduled reports. audits: what audits have published. every_seconds: pause between two triages of a
            cluster; what is older by far is marked.
    """

    def __init__(
        self,
        reading: Reading,
        *,
        reports: Path | None = None,
        audits: Shelf | None = None,
        every_seconds: float = 300.0,
    ) -> None:
        self._reading, self._reports, self._audits = reading, reports, audits
        self._stale_seconds = stale_seconds(every_seconds)

    def _page(self, template: str, visit: Visit | None, status: int = 200, **values: Any) -> Response:
        now = self._reading.store.clock()
        return _page(template, visit, status, now=now, stale_before=now - self._stale_seconds, **values)

    @staticmethod
    def sign_in(to: str, *, wrong: bool = False) -> Response:
        """The form for the token."""
        return _page("sign_in.html.j2", None, 403 if wrong else 200, to=to, wrong=wrong)

    @staticmethod
    def refused(status: int, words: str, headers: Mapping[str, str] | None = None) -> Response:
        """An error, for people."""
        answer = _page("missing.html.j2", None, status, code=status, words=words)
        answer.headers.update(headers or {})
        return answer

    def fleet(self, request: Request, visit: Visit | None) -> Response:
        """Every subscription, worst first."""
        asked = {name: _asked(request, name) for name in ("text", "state", "cluster", "sort", "cause")}
        asked["sort"] = asked["sort"] if asked["sort"] in SORTS else "worst"
        skip = _number(request, "skip")
        number, rows = self._reading.fleet(**asked, most=_ROWS, skip=skip)
        opened = self._reading.incidents(state="open", most=10)
        about = self._causes((it["cluster"], it["cause"]) for it in rows if it["cause"])
        return self._page(
            "fleet.html.j2", visit, asked=asked, rows=rows, number=number, skip=skip, step=_ROWS,
            counts=self._reading.counts(), clusters=self._reading.clusters(), waiting=self._reading.waiting(),
            latest=self._reading.latest(), opened=opened, whom=self._whom(opened), causes=about,
        )  # fmt: skip

    def _causes(self, named: Iterable[tuple[str, str]]) -> Mapping[tuple[str, str], Mapping[str, Any]]:
        """Causes on brokers of now, by cluster and key."""
        found = {it: self._reading.about_cause(*it) for it in dict.fromkeys(named)}
        return {it: one for it, one in found.items() if one is not None}

    def _whom(self, incidents: Sequence[Row]) -> Mapping[str, Whom]:
        return self._reading.whom([it["id"] for it in incidents])

    def incidents(self, request: Request, visit: Visit | None) -> Response:
        """Incidents, open ones first."""
        state, skip = _asked(request, "state"), _number(request, "skip")
        rows = self._reading.incidents(state=state, most=_ROWS + 1, skip=skip)
        return self._page(
            "incidents.html.j2", visit, rows=rows[:_ROWS], state=state, skip=skip, step=_ROWS, more=len(rows) > _ROWS,
            whom=self._whom(rows[:_ROWS]),
        )  # fmt: skip

    def incident(self, request: Request, visit: Visit | None) -> Response:
        """One incident, at an address that stays."""
        group, topic = _asked(request, "group"), _asked(request, "topic")
        found = self._reading.incident(request.path_params["incident"], group=group, topic=topic)
        if found is None:
            return self._missing(visit, "There is no such incident. It may be older than the database keeps them.")
        picture = Markup(found.picture) if found.picture else None  # noqa: S704 - rendered and escaped when it was judged
        return self._page("incident.html.j2", visit, it=found, picture=picture, **self._shown_in(found))

    def _shown_in(self, found: Found) -> dict[str, Any]:
        """The chart and the details of the subscription that an incident's page shows."""
        if found.shown is None:
            return {"chart": None, "detail": {}}
        cluster, group, topic = found.row["cluster"], found.shown["grp"], found.shown["topic"]
        closed, now = found.row["closed"], self._reading.store.clock()
        end = min(now, closed + 3600.0) if closed else now
        present = next((it for it in self._reading.present(cluster, group) if it["topic"] == topic), None)
        chart = self._chart(
            self._reading.history(cluster, group, start=end - RANGES["30d"], end=end).get(topic, []),
            present, end=end, asked=chosen_range("", found.row["opened"], now=end),
        )  # fmt: skip
        return {"chart": chart, "detail": unpacked(present["detail"] if present is not None else None)}

    def group(self, request: Request, visit: Visit | None) -> Response:
        """The verdicts of one group: now, and in the last days."""
        cluster, group = request.query_params.get("cluster", ""), request.query_params.get("group", "")
        now = self._reading.store.clock()
        present = self._reading.present(cluster, group)
        history = self._reading.history(cluster, group, start=now - RANGES["30d"], end=now)
        incidents, alerts = self._reading.about_group(cluster, group)
        if not (present or history or incidents):
            return self._missing(visit, "Nothing is known of this group in the last 30 days.")
        by_topic = {it["topic"]: it for it in present}
        first = min((rows[0]["at"] for rows in history.values()), default=None)
        asked = chosen_range(_asked(request, "range"), first, now=now)
        topics = list(dict.fromkeys([*by_topic, *history]))
        charts = {
            it: self._chart(history.get(it, []), by_topic.get(it), end=now, asked=asked, name=str(number))
            for number, it in enumerate(topics[:_TOPICS])
        }
        details = {it["topic"]: unpacked(it["detail"]) for it in present[:_TOPICS]}
        return self._page(
            "group.html.j2", visit, cluster=cluster, group=group, present=present, charts=charts, details=details,
            topics=len(topics), incidents=incidents, alerts=alerts, range=asked, judged_since=_since(request),
            causes=self._causes((cluster, it["cause"]) for it in present if it["cause"]),
        )  # fmt: skip

    def _chart(self, rows: Sequence[Row], present: Row | None, *, end: float, asked: str, name: str = "0") -> PageChart:
        samples: list[Row] = [*rows]
        until = rows[-1]["at"] if rows else end
        if present is not None and present["at"] <= end:
            samples.append(present)
            until = end if end - present["at"] < self._stale_seconds else present["at"]
        # What is known since a while ago is no empty day with a dot at its end.
        start = max(end - RANGES[asked], min([it["at"] for it in samples[:1]] + [end - _LEAST_SECONDS]))
        objective = unpacked(present["detail"] if present is not None else None).get("objective")
        picture = step_chart(samples, start=start, end=end, until=until, objective=objective, name=name)
        latest = [it for it in rows if it["at"] >= start][::-1]
        return PageChart(picture=picture, objective=objective, rows=latest[:_ROWS], more=max(0, len(latest) - _ROWS))

    def reports(self, _request: Request, visit: Visit | None) -> Response:
        """Scheduled reports, the latest first."""
        found = latest_runs(self._reports, _ROWS) if self._reports is not None else []
        return self._page("reports.html.j2", visit, configured=self._reports is not None, runs=found)

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

    def audits(self, request: Request, visit: Visit | None) -> Response:
        """Streams of every audit, worst first."""
        text, skip = _asked(request, "text"), _number(request, "skip")
        listed = self._audits.listed() if self._audits is not None else None
        now = datetime.fromtimestamp(self._reading.store.clock(), UTC)
        parts = []
        for state in listed.states if listed is not None else ():
            rows = [it for it in state.streams if text.lower() in it.stream.lower()]
            counts = Counter(mark_of(it) for it in state.streams)
            parts.append(
                {
                    "state": state, "stale": state.is_stale(now), "rows": rows[skip : skip + _ROWS], "number": len(rows),
                    "counts": [(*mark, number) for mark, number in counts.items()],
                }
            )  # fmt: skip
        return self._page(
            "audits.html.j2", visit, listed=listed, parts=parts, text=text, skip=skip, step=_ROWS, mark_of=mark_of,
            today=now, mark_before_kafka=mark_before_kafka,
        )  # fmt: skip

    def audit(self, request: Request, visit: Visit | None) -> Response:
        """One stream of an audit."""
        audit, stream = request.query_params.get("audit", ""), request.query_params.get("stream", "")
        states = self._audits.listed().states if self._audits is not None else ()
        found = next(
            ((state, it) for state in states if state.audit == audit for it in state.streams if it.stream == stream),
            None,
        )
        if found is None:
            return self._missing(visit, "No audit tells of this stream.")
        state, it = found
        now = datetime.fromtimestamp(self._reading.store.clock(), UTC)
        return self._page(
            "audit.html.j2", visit, state=state, it=it, stale=state.is_stale(now), runbooks=runbooks_of(it), mark_of=mark_of,
            windows=[row for row in state.windows if row.stream == stream][:_ROWS], between=between, commands=commands(state, it),
        )  # fmt: skip

    def runbook(self, request: Request, visit: Visit | None) -> Response:
        """A runbook's text."""
        path = _runbooks().get(request.path_params["name"])
        if path is None:
            return self._missing(visit, "There is no such runbook.")
        text = rendered(path.read_text(encoding="utf-8"))
        return self._page("runbook.html.j2", visit, name=path.stem, text=text)

    def _missing(self, visit: Visit | None, words: str) -> Response:
        return self._page("missing.html.j2", visit, 404, code=404, words=words)

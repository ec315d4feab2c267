"""Triages that programs ask for and wait for, on the Spark that is warm: `POST /api/triage`, and `workbench triage --via`.

Each reads its sources in a thread of its own, and has its turn on Spark between those of the judging thread (`spark_turns`). They
are few, limited in size and in time, and a server that is busy says so: alerts wait for these few, and for no more.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from starlette.responses import Response

from workbench import __version__
from workbench.api.run_progress import SILENT, Progress, StepNote
from workbench.background import in_background
from workbench.errors import DeadlineError, ExitCode, UsageError, WorkbenchError
from workbench.humanize import plural
from workbench.limited_reads import first_problem
from workbench.safe_output import json_of, rows_of
from workbench.serve.judge_groups import AT_ONCE
from workbench.serve.own_metrics import Metrics
from workbench.serve.spark_turns import SparkTurns
from workbench.terminal_tables import SafeConsole, Screen, print_done

_log = logging.getLogger(__name__)
MAX_REQUEST_BYTES = 64 << 10
_MOST = 4  # that run or wait for their turn
_SECONDS = 60.0  # for an answer
_TURN_SECONDS = 10.0  # to wait for Spark: without the server, the command has its answer by then
_LONGEST = timedelta(
    hours=24
)  # of the window and its baseline: a triage of a few hours more has all of Spark's memory for itself
_MOST_COLUMNS = 10_000
_ELSEWHERE = "Run without --via."
Name = Annotated[str, Field(max_length=1000)]
Time = Annotated[str, Field(max_length=200)]
Variable = Literal[
    "TERM", "COLORTERM", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "TTY_COMPATIBLE", "TTY_INTERACTIVE"
]


class _Asked(BaseModel):
    """A part of a request: these fields and no others."""

    model_config = ConfigDict(hide_input_in_errors=True, extra="forbid", frozen=True, strict=True)


class Printing(_Asked):
    """How the command would print the answer where it is asked for."""

    form: Literal["table", "wide", "json", "csv", "tsv"] = "table"
    terminals: tuple[bool, bool] = Field(
        default=(False, False), strict=False, description="Whether stdout and stderr are."
    )
    columns: int = Field(default=80, ge=1, le=_MOST_COLUMNS)
    environment: dict[Variable, Annotated[str, Field(max_length=100)]] = {}

    @model_validator(mode="after")
    def _is_no_wall(self) -> Printing:
        for name in ("COLUMNS", "LINES"):
            text = self.environment.get(name, "")
            if text.isdigit() and int(text) > _MOST_COLUMNS:
                raise ValueError(f"{name} is over {_MOST_COLUMNS:,}")
        return self

    def screens(self) -> tuple[Screen, Screen]:
        """Of stdout and stderr."""
        seen, wide = {str(name): text for name, text in self.environment.items()}, self.form == "wide"
        out, err = (Screen(terminal=it, columns=self.columns, environment=seen, wide=wide) for it in self.terminals)
        return out, err


class AskedTriage(_Asked):
    """The body of `POST /api/triage`."""

    cluster: Name | None = Field(
        default=None, description="Of the server's settings; their default one if it is left out."
    )
    groups: list[Name] = Field(default=[], max_length=AT_ONCE, description="Only these; empty: all.")
    topics: list[Name] = Field(default=[], max_length=AT_ONCE, description="Only these; empty: all.")
    since: Time | None = Field(default=None, description='Start of the window, such as "15m ago", or with a time zone.')
    until: Time | None = Field(default=None, description="End of the window. Default: now.")
    baseline: Time | None = Field(default=None, description='Length of the baseline, such as "1h".')
    version: Name | None = Field(default=None, description="Of the command that asks: a server of another one refuses.")
    printing: Printing | None = Field(
        default=None, description="Also what the command would print, and how it prints there."
    )


class BusyError(DeadlineError):
    """Others are asked for, or judged, already."""


@dataclass(slots=True)
class _Told:
    """The steps of one triage, as the command tells them."""

    console: SafeConsole

    @contextmanager
    def step(self, title: str) -> Iterator[StepNote]:
        """See `Progress`."""
        step, started = StepNote(), time.monotonic()
        yield step
        print_done(self.console, title, time.monotonic() - started, step.note)

    def say(self, text: str) -> None:
        """See `Progress`."""
        self.console.line_of(text)


@dataclass(slots=True, kw_only=True)
class AskedTriages:
    """Those of one server.

    Attributes:
        config: settings of the server: they say which clusters there are. ready: set when Spark is warm.
        most: that run or wait at once. seconds: for an answer. turn_seconds: to wait for Spark.
    """

    turns: SparkTurns
    metrics: Metrics
    ready: threading.Event
    config: Path | None = None
    most: int = _MOST
    seconds: float = _SECONDS
    turn_seconds: float = _TURN_SECONDS
    _under_way: int = field(default=0, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    async def answer(self, body: bytes) -> Response:
        """Answer a request: 200 with a verdict, 400 for a mistake, 422 for sources that give none, 503 from a busy server."""
        try:
            asked = _parsed(body)
            if not self.ready.is_set():
                raise BusyError("The server starts, and its Spark is not warm yet.", hint=_ELSEWHERE)
            with self._lock:
                if self._under_way >= self.most:
                    raise BusyError(f"The server is busy with {plural(self.most, 'other triage')}.", hint=_ELSEWHERE)
                self._under_way += 1
            # What has begun goes on, and counts until it ends, also if nobody waits for it any more.
            future = in_background(lambda: self._counted(asked), "serve-asked")
            try:
                return await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(future)), self.seconds)
            except TimeoutError:
                raise BusyError(f"No answer within {self.seconds:g} s.", hint=_ELSEWHERE) from None
        except WorkbenchError as error:
            return _refusal(error)

    def _counted(self, asked: AskedTriage) -> Response:
        started, result = time.monotonic(), "failed"
        try:
            found = self._run(asked)
            result = "ok" if found.status_code == 200 else "failed"
            return found
        finally:
            self.metrics.triages.labels("asked", result).inc()
            self.metrics.triage_seconds.labels("asked").observe(time.monotonic() - started)
            with self._lock:
                self._under_way -= 1

    def _run(self, asked: AskedTriage) -> Response:
        shown = asked.printing or Printing(form="json")
        out, err = (SafeConsole(screen=it) for it in shown.screens())
        names: list[str] = []
        try:
            return self._judged(asked, shown, out, err, names)
        except WorkbenchError as error:
            return _refusal(error, stderr=err.printed, cluster=next(iter(names), None))
        except Exception as error:  # of a library: its words stay here
            _log.exception("a triage that was asked for failed")
            return _refusal(
                WorkbenchError(f"Internal error of the server: {type(error).__name__}.", hint=_ELSEWHERE),
                stderr=err.printed,
            )

    def _judged(
        self, asked: AskedTriage, shown: Printing, out: SafeConsole, err: SafeConsole, names: list[str]
    ) -> Response:
        from workbench.api.load_measurements import measure
        from workbench.api.measurement_requests import Measurements, Times
        from workbench.api.triages import judge
        from workbench.settings import load_settings

        settings, name = load_settings(self.config), asked.cluster
        if name is None:
            default = settings.needed_cluster()
            name = default.name
            err.line_of(default.words)
        names.append(name)
        cluster = settings.cluster(name)
        if cluster.is_asked:
            raise UsageError(
                f"The cluster {name!r} is judged by asking its brokers, which needs no Spark.", hint=_ELSEWHERE
            )
        request = Measurements(
            cluster=name,
            groups=asked.groups,
            topics=asked.topics,
            times=Times(since=asked.since, until=asked.until, baseline=asked.baseline),
            config=self.config,
        )
        window = request.times.window(settings.windows_of(cluster))
        if window.end - window.baseline_start > _LONGEST:
            raise UsageError(
                f"A server judges a window with its baseline of {_LONGEST.total_seconds() / 3600:g} h at most.",
                hint=_ELSEWHERE,
            )
        progress: Progress = SILENT if shown.form == "json" else _Told(err)
        found = measure(request, progress=progress, spark=False)
        chosen = found.capture.samples_of(asked.groups, asked.topics)["group"].unique().to_pylist()
        number = sum(bool(it) for it in chosen)  # a topic's own samples have no group
        if number > AT_ONCE:
            raise UsageError(
                f"{plural(number, 'group')} are too many for one triage of a server (at most {AT_ONCE}).",
                hint=f"Name some with --group. Or: {_ELSEWHERE.lower()}",
            )
        result = judge(found, request, progress=progress, turn=self.turns.turn(seconds=self.turn_seconds))
        document = result.to_json()
        if asked.printing is None:
            return _json(200, json_of(_answer(result.exit_code, triage=document), indent=None))
        # What is printed has been masked, text by text; a second time, as a whole, would change it.
        printed = _answer(result.exit_code, stdout=_printed(result, document, shown, out), stderr=err.printed)
        return _json(200, json.dumps(printed))


def _printed(result: Any, document: dict[str, Any], shown: Printing, out: SafeConsole) -> str:
    from workbench.report.printed_triage import rows_of_triage, show_triage

    if shown.form == "json":
        return json_of(document)
    if shown.form in ("csv", "tsv"):
        return rows_of(rows_of_triage(result.findings), separator="," if shown.form == "csv" else "\t")
    show_triage(out, result.triage, result.capture)
    return out.printed


def _parsed(body: bytes) -> AskedTriage:
    try:
        asked = AskedTriage.model_validate_json(body)
    except ValidationError as error:
        raise UsageError(f"{first_problem(error, whole='the body')}.") from None
    if asked.version is not None and asked.version != __version__:
        raise UsageError(
            f"The server is Workbench {__version__}, and who asks it is {asked.version!r}.",
            hint=f"Use the same version on both sides. Or: {_ELSEWHERE.lower()}",
        )
    return asked


def _answer(code: int, *, triage: Any = None, stdout: str | None = None, stderr: str | None = None) -> dict[str, Any]:
    return {
        "schema": "workbench.asked_triage/1", "exit_code": int(code), "triage": triage, "stdout": stdout, "stderr": stderr,
    }  # fmt: skip


def _refusal(error: WorkbenchError, *, stderr: str = "", cluster: str | None = None) -> Response:
    statuses = {ExitCode.USAGE: 400, ExitCode.DEADLINE: 503, ExitCode.INTERNAL: 500}
    status = statuses.get(error.exit_code, 422)
    told = {
        "error": error.message, "hint": error.hint, "exit_code": int(error.exit_code), "stderr": stderr, "cluster": cluster,
    }  # fmt: skip
    return _json(status, json.dumps(told), {"Retry-After": "5"} if status == 503 else None)


def _json(status: int, ascii_text: str, headers: dict[str, str] | None = None) -> Response:
    """An answer; in ASCII, because names of foreign systems may have halves of characters, which no encoding takes."""
    return Response(ascii_text, status, headers=headers, media_type="application/json")

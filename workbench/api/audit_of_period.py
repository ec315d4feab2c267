"""What an audit says of a period: for pages, alert rules and notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.api.audit_silence import silence_of
from workbench.errors import EvidenceError, WindowError
from workbench.humanize import iso_instant
from workbench.report.audit_state import AuditState, EdgeState, SlowStream, StreamState, WindowLine
from workbench.window import instant_ms, parse_duration, parse_instant

if TYPE_CHECKING:
    from workbench.api.audits import AuditLedger

_MOST_WINDOWS = 200  # a page of more is read by nobody; `audit run` has all
_SUMS = (
    "sent", "lost", "doubled", "others", "missing_at_most", "open", "provisional", "final", "amended", "unknown", "late",
)  # fmt: skip


def audit_state(
    name: str | None = None,
    *,
    since: str = "6h",
    until: str = "now",
    every: str = "15m",
    rows: str | Path | None = None,
    topic: str | None = None,
    cluster: str | None = None,
    layers: Sequence[str] = (),
    window: str | None = None,
    lateness: str | None = None,
    config: Path | None = None,
) -> AuditState:
    """Make an audit and sum it up, the worst streams and windows first.

    Args:
        name, rows, topic, cluster, layers, window, lateness: as `workbench.api.audit`.
        since, until: of windows that begin in [since, until): "6h ago", or a timestamp with a time zone. What is overdue and who is
            silent is told as of `until`.
        every: when the next one is due; what is three times as old is stale.

    Raises:
        WindowError: if a time is none. EvidenceError: if no layer has told anything of the period. Else as `workbench.api.audit`.
    """
    return audited(
        name, since=since, until=until, every=every, rows=rows, topic=topic, cluster=cluster, layers=layers, window=window,
        lateness=lateness, config=config,
    )[1]  # fmt: skip


def audited(name: str | None, *, since: str, until: str, every: str, **source: Any) -> tuple[AuditLedger, AuditState]:
    """The ledger of a period, and its answer; arguments and errors as `audit_state`."""
    from workbench.api.audits import audit

    first, last, pause = parse_instant(since), parse_instant(until), parse_duration(every)
    if last <= first:
        raise WindowError("The windows end before they begin.", hint="Give --until a later time than --since.")
    ledger = audit(name=name, since_ms=instant_ms(first), **source)
    called = name or ledger.settings.topic or Path(str(ledger.settings.rows)).stem
    state = state_of(ledger, called, since=first, until=last, every=pause, named=_named(name, **source))
    return ledger.within(since_ms=instant_ms(first), until_ms=instant_ms(last)), state


def _named(
    name: str | None, *, layers: Sequence[str] = (), window: str | None = None, config: object = None, **given: object
) -> tuple[str, ...]:
    """Words by which commands find the audit; what is given beside a name comes before its settings."""
    del config  # where it is used is another machine's
    if (rows := given.get("rows")) is not None:
        given["rows"] = Path(str(rows)).absolute()  # the pages' reader is in another folder
    options = {**given, "layers": ",".join(layers) or None, "window-length": window}
    told = [(f"--{key}", str(value)) for key, value in options.items() if value is not None]
    return (*([name] if name is not None else []), *(word for pair in told for word in pair))


def state_of(
    ledger: AuditLedger,
    name: str,
    *,
    since: datetime,
    until: datetime,
    every: timedelta,
    named: Sequence[str] = (),
) -> AuditState:
    """Sum up a ledger.

    Args:
        named: see `AuditState`.

    Raises:
        EvidenceError: if no layer has told anything of the period. SourceUnreachableError: if the rows cannot be read.
    """
    first, last = instant_ms(since), instant_ms(until)
    mine = ledger.within(since_ms=first, until_ms=last)
    with mine.at_hand():
        sums = {(row["stream"], row["edge"]): row for row in mine.by_edge(now_ms=last)}
        unheard: dict[str, list[str]] = {}
        for stream, edge in ledger.unheard():
            unheard.setdefault(stream, []).append(edge)
        silence = silence_of(ledger, first_ms=first, now_ms=last)
        silent = silence.streams
        if not (sums or unheard or silent):
            raise EvidenceError(
                f"No layer has told the audit {name!r} anything of the period.",
                hint=f"It is from {iso_instant(first)} to {iso_instant(last)}. See: docs/audit.md",
            )
        untold, times = ledger.untold, ledger.times_to_last(since_ms=first, until_ms=last)
        layers, order = set(ledger.settings.layers), [edge for _, _, edge, _ in ledger.shape.sides()]
        streams = []
        for stream in sorted({it for it, _ in sums} | unheard.keys() | silent.keys()):
            slow = times.get(stream, untold)
            too_slow, words = (slow.problem() if slow is not None else None) or (False, None)
            edges = [sums[stream, edge] for edge in dict.fromkeys(order) if (stream, edge) in sums]
            streams.append(
                StreamState(
                    stream=stream,
                    grade=ledger.settings.grade_of(stream),
                    edges=tuple(_edge(ledger, row, layers, last) for row in edges),
                    unheard=tuple(unheard.get(stream, ())),
                    silent=tuple(silent.get(stream, ())),
                    slow=None if slow is None or not too_slow else SlowStream(
                        layer=ledger.settings.layers[-1], seconds=slow.at_least_ms / 1000, limit_seconds=slow.limit_ms / 1000
                    ),
                    latency_unknown=words if too_slow is None else None,
                )
            )  # fmt: skip
        streams.sort(key=lambda it: it.badness)
        return AuditState(
            audit=name, named=tuple(named), cluster=ledger.settings.cluster, made_at=datetime.now(UTC), since=since, until=until,
            reaches_to=None if silence.reach_ms is None else datetime.fromtimestamp(silence.reach_ms / 1000, UTC),
            window_seconds=ledger.shape.window_ms / 1000, every_seconds=every.total_seconds(), streams=tuple(streams),
            windows=tuple(_window(row) for row in mine.worst(most=_MOST_WINDOWS)),
        )  # fmt: skip


def _edge(ledger: AuditLedger, row: Any, layers: set[str], now_ms: int) -> EdgeState:
    from workbench.audit.completeness_gate import breach_of

    breach = breach_of(
        ledger.settings.grade_of(row["stream"]), sent=row["sent"], lost=row["lost"], doubled=row["doubled"], others=row["others"]
    )  # fmt: skip
    since = row["overdue_since_ms"]
    return EdgeState(
        edge=row["edge"],
        layer=row["edge"] if row["edge"] in layers else None,
        overdue_seconds=None if since is None else (now_ms - since) / 1000,
        breach=breach,
        **{it: row[it] for it in _SUMS},
    )


def _window(row: Any) -> WindowLine:
    return WindowLine(
        stream=row["stream"], edge=row["edge"], start=datetime.fromtimestamp(row["window_ms"] / 1000, UTC), state=row["state"],
        arrival=row["arrival"], lost_low=row["lost_low"], lost_high=row["lost_high"], doubled_low=row["doubled_low"],
        doubled_high=row["doubled_high"],
    )  # fmt: skip

"""Picture of a subscription's time lag: each sample holds until the next one, and where nothing was judged there is a gap.

The plot is stretched to the width of the page; what has text or a pattern is placed by per cent, so it keeps its shape on a phone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from html import escape
from itertools import pairwise

from markupsafe import Markup

from workbench.humanize import duration, one_line
from workbench.serve.fleet_verdicts import NOT_JUDGED
from workbench.serve.server_database import Row
from workbench.triage.verdict_names import State

DAY = 86_400.0
RANGES = {"24h": DAY, "7d": 7 * DAY, "30d": 30 * DAY}
_WORDS = {"24h": "24 h", "7d": "7 days", "30d": "30 days"}
_COLUMNS = 400  # what is shorter than a column is drawn as its worst, so a picture is at most some 30 kB
_PLOT, _TOP, _BAND, _HEIGHT = 140.0, 14.0, 20.0, 204.0  # pixels
_MARKS: Mapping[str, str] = {State.LAGGING: "L", State.DRAINING: "D", State.CANNOT_TELL: "?", State.HEALTHY: ""}
_BADNESS: Mapping[str, int] = {State.HEALTHY: 0, State.DRAINING: 1, State.CANNOT_TELL: 2, State.LAGGING: 3}
# Seconds between two lines of the scale.
_STEPS = (
    *(base * 10.0**power for power in range(-3, 1) for base in (1, 2, 5)), 10, 15, 30, 60, 120, 300, 600, 900, 1800,
    3600, 7200, 10_800, 21_600, 43_200, DAY, 2 * DAY, 7 * DAY, 30 * DAY, 365 * DAY,
)  # fmt: skip
_MOST_LINES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A verdict and a time lag that held from `start` to `end` (seconds since 1970); `lag` in seconds, None: not known."""

    start: float
    end: float
    state: str
    verdict: str
    lag: float | None


def chosen_range(asked: str, first: float | None, *, now: float) -> str:
    """The name of a range: the one asked for, or the shortest that shows all that is known."""
    if asked in RANGES:
        return asked
    return next((name for name, length in RANGES.items() if first is not None and now - first <= length), "30d")


def age_of(row: Row) -> str:
    """The time lag of a row, as it was said when it was judged ("about 13 min"); older rows have its seconds alone."""
    return str(row["time_lag_words"] or duration(row["time_lag"]))


def held(samples: Sequence[Row], *, start: float, until: float) -> list[Held]:
    """What held when, between two instants; samples oldest first. Nothing is known where a triage did not come."""
    found = []
    ends = [*(it["at"] for it in samples[1:]), until]
    for it, end in zip(samples, ends, strict=False):
        first, last = max(it["at"], start), min(end, until)
        if it["verdict"] != NOT_JUDGED and last > first:
            found.append(Held(start=first, end=last, state=it["state"], verdict=it["verdict"], lag=it["time_lag"]))
    return found


def step_chart(
    samples: Sequence[Row], *, start: float, end: float, until: float, objective: float | None = None, name: str = "0"
) -> Markup:
    """Draw the time lag and the verdicts of one subscription as inline SVG; every text is escaped.

    Args:
        samples: oldest first, with at, state, verdict, time_lag. start, end: of the picture, in seconds since 1970.
        until: what was judged last holds until then. objective: in seconds. name: makes ids unique within a page.
    """
    spans = list(_columns(held(samples, start=start, until=min(until, end)), (end - start) / _COLUMNS))
    last = next((it for it in samples[-1:] if start <= it["at"] <= end and it["time_lag"] is not None), None)
    newest = [last] if last is not None else []  # it has held for no time yet
    lines = _scale(
        max([*(it.lag for it in spans if it.lag is not None), *(it["time_lag"] for it in newest), objective or 0.0])
    )
    top = lines[-1]

    def x(at: float) -> str:
        return f"{(at - start) / (end - start) * 100:.2f}%"

    def y(lag: float) -> float:
        return _TOP + _PLOT * (1 - lag / top)

    parts = [
        f'<svg class="steps" width="100%" height="{_HEIGHT:g}" role="img" aria-label="{escape(_summary(spans, newest, start, end))}">',
        _patterns(name),
    ]
    for lag in lines:
        parts.append(f'<line class="grid" x1="0" x2="100%" y1="{y(lag):.1f}" y2="{y(lag):.1f}"/>')
    for at, words in _dates(start, end):
        parts.append(f'<line class="grid" x1="{x(at)}" x2="{x(at)}" y1="{_TOP:g}" y2="{_TOP + _PLOT + _BAND + 4:g}"/>')
        if 0.05 < (at - start) / (end - start) < 0.95:
            parts.append(f'<text class="date" x="{x(at)}" y="{_HEIGHT - 6:g}">{escape(words)}</text>')
    parts += [_plot(spans, start, end, top), *(_band(it, x, (end - start), name) for it in _bands(spans))]
    if objective is not None:
        parts.append(f'<line class="objective" x1="0" x2="100%" y1="{y(objective):.1f}" y2="{y(objective):.1f}"/>')
    if last is not None:
        parts.append(f'<circle class="last" cx="{x(last["at"])}" cy="{y(last["time_lag"]):.1f}" r="3.5"/>')
    for lag in lines[1:]:
        parts.append(f'<text class="scale" x="4" y="{y(lag) - 3:.1f}">{escape(duration(lag))}</text>')
    return Markup("".join(parts) + "</svg>")  # noqa: S704 - numbers, and words escaped above


def _scale(highest: float) -> list[float]:
    step = next((it for it in _STEPS if highest / it <= _MOST_LINES), _STEPS[-1])
    number = max(1, -int(-highest // step))
    return [step * it for it in range(number + 1)]


def _dates(start: float, end: float) -> Iterator[tuple[float, str]]:
    """Midnights of UTC, and the hours between them if it is a day."""
    short = end - start <= 2 * DAY
    every = timedelta(hours=6) if short else timedelta(days=max(1, round((end - start) / (6 * DAY))))
    at = datetime.fromtimestamp(start, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    while at.timestamp() <= end:
        if at.timestamp() >= start:
            yield at.timestamp(), f"{at:%H:%M}" if at.hour else f"{at:%b} {at.day}"
        at += every


def _columns(spans: Sequence[Held], narrowest: float) -> Iterator[Held]:
    """The same, with what is too short to be seen joined to what follows it: the worst of both is drawn."""
    kept: Held | None = None
    for it in spans:
        if kept is not None and kept.end - kept.start < narrowest and it.start - kept.end < narrowest:
            worse = max(kept, it, key=lambda one: _BADNESS.get(one.state, 2))
            lags = [one for one in (kept.lag, it.lag) if one is not None]
            kept = replace(worse, start=kept.start, end=it.end, lag=max(lags, default=None))
            continue
        if kept is not None:
            yield kept
        kept = it
    if kept is not None:
        yield kept


def _bands(spans: Sequence[Held]) -> Iterator[Held]:
    """Equal verdicts in a row as one."""
    kept: Held | None = None
    for it in spans:
        if kept is not None and (kept.verdict, kept.state, kept.end) == (it.verdict, it.state, it.start):
            kept = replace(kept, end=it.end)
            continue
        if kept is not None:
            yield kept
        kept = it
    if kept is not None:
        yield kept


def _plot(spans: Sequence[Held], start: float, end: float, top: float) -> str:
    scale, room = 1000 / (end - start), 100 / top
    line, area = [], []
    for before, it in pairwise((None, *spans)):
        if it is None or it.lag is None:
            continue
        left, right, high = (it.start - start) * scale, (it.end - start) * scale, 100 - it.lag * room
        joined = before is not None and before.lag is not None and before.end == it.start
        line.append(f"{f'V{high:.1f}' if joined else f'M{left:.1f} {high:.1f}'}H{right:.1f}")
        area.append(f"M{left:.1f} 100V{high:.1f}H{right:.1f}V100Z")
    if not line:
        return ""
    return (
        f'<svg y="{_TOP:g}" width="100%" height="{_PLOT:g}" viewBox="0 0 1000 100" preserveAspectRatio="none">'
        f'<path class="area" d="{"".join(area)}"/><path class="line" d="{"".join(line)}"/></svg>'
    )


def _band(it: Held, x: Callable[[float], str], length: float, name: str) -> str:
    left, width, y = x(it.start), f"{max(0.2, (it.end - it.start) / length * 100):.2f}%", _TOP + _PLOT + 4
    words = f"{it.verdict.replace('_', ' ')} for {duration(it.end - it.start)}"
    state = escape(it.state)
    place = f'x="{left}" y="{y:g}" width="{width}" height="{_BAND:g}"'
    parts = [f'<g class="{state}"><title>{escape(one_line(words))}</title><rect class="tint" {place}/>']
    if it.state in (State.LAGGING, State.CANNOT_TELL):
        parts.append(f'<rect {place} fill="url(#{escape(it.state)}-{escape(name)})"/>')
    mark = _MARKS.get(it.state, "")
    if mark and (it.end - it.start) / length > 0.04:
        parts.append(f'<text class="mark" x="{x((it.start + it.end) / 2)}" y="{y + 15:g}">{mark}</text>')
    return "".join([*parts, "</g>"])


def _patterns(name: str) -> str:
    """Lagging is hatched and "cannot tell" dotted: neither is told by its colour alone."""
    pattern = '<pattern id="{}-{}" width="6" height="6" patternUnits="userSpaceOnUse" class="{}">{}</pattern>'
    hatch = '<path class="hatch" d="M-1 1L1 -1M0 6L6 0M5 7L7 5"/>'
    dots = '<circle class="dot" cx="3" cy="3" r="1.2"/>'
    named = ((State.LAGGING, hatch), (State.CANNOT_TELL, dots))
    return f"<defs>{''.join(pattern.format(state, escape(name), state, inner) for state, inner in named)}</defs>"


def _summary(spans: Sequence[Held], newest: Sequence[Row], start: float, end: float) -> str:
    """The picture in words; the values themselves are in the table below it."""
    length = next(
        (words for name, words in _WORDS.items() if abs(RANGES[name] - (end - start)) < 1), duration(end - start)
    )
    known = [*(it.lag for it in spans if it.lag is not None), *(it["time_lag"] for it in newest)]
    if not spans and not newest:
        return f"Time lag, {length}: nothing is known."
    lag = f"at most {duration(max(known))}, last {age_of(newest[0]) if newest else 'unknown'}" if known else "not known"
    late = sum(it.end - it.start for it in spans if it.state == State.LAGGING)
    blank = (end - start) - sum(it.end - it.start for it in spans)
    parts = [f"Time lag, {length}: {lag}", *([f"lagging for {duration(late)}"] if late else [])]
    return "; ".join([*parts, *([f"not judged for {duration(blank)}"] if blank > 60 else [])]) + "."

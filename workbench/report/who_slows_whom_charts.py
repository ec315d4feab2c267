"""Who slows whom, in pictures: what the offender moves, who waits since then, and which groups are on which brokers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from workbench.features.broker_features import FloatArray, Neighbourhood
from workbench.features.chart_series import SeriesLine
from workbench.humanize import duration, numbered, plural, printable, size
from workbench.report.charts import COLOURS, Chart, Figure, chart_of, escape_plotly, with_begin
from workbench.triage.who_holds_up_whom import BlamedCause, Mover, moment_of
from workbench.window import Window

_ROWS = 24  # of the picture; the others are in the table
_LINES = 6
_LEAST, _MOST = 7.0, 30.0  # pixels of a mark


@dataclass(frozen=True, slots=True)
class _Times:
    times: FloatArray


def charts_of_cause(all_of: Neighbourhood, cause: BlamedCause) -> list[Chart]:
    """The offender's bytes over time; its victims' waiting on the same axis; and groups by brokers."""
    window = Window(
        baseline_start=moment_of(float(all_of.times[0])),
        start=moment_of(float(all_of.times[all_of.first])),
        end=moment_of(float(all_of.times[-1])),
    )
    timed = _Times(all_of.times)
    moves = moves_of(all_of, cause.offender)
    it = cause.offender
    title = (
        f"{it.words[:1].upper()}{it.words[1:]} takes {size(it.bytes_per_second)}/s of {numbered('broker', it.brokers)}"
    )
    lines = [SeriesLine(name=f"broker {broker}", values=line) for broker, line in sorted(moves.items())][: len(COLOURS)]
    found = [_since(chart_of("moves", title, "bytes per second", lines, timed, window), it)] if lines else []
    waits = [
        SeriesLine(name=printable(one.group), values=line)
        for one in cause.victims[:_LINES]
        if (line := waits_of(all_of, one.group, one.brokers)) is not None
    ]
    if waits:
        number = plural(len(cause.victims), "group")
        more = f", the worst {len(waits)} of them drawn" if len(cause.victims) > len(waits) else ""
        title = f"{number} wait{'s' if len(cause.victims) == 1 else ''} there since then{more}"
        found.append(_since(chart_of("waits", title, "seconds of what arrives", waits, timed, window), it))
    return [*found, _on_brokers(all_of, cause)]


def moves_of(all_of: Neighbourhood, it: Mover) -> dict[int, FloatArray]:
    """What somebody moves on each of its brokers, in bytes/s over time, as it was measured."""
    if it.measured_by == "topic_reads":
        told = {
            broker: all_of.groups[it.name, broker].read_bytes
            for broker in it.brokers
            if (it.name, broker) in all_of.groups
        }
        return {broker: line for broker, line in told.items() if line is not None}
    lines = all_of.writers if it.kind == "writer" else all_of.clients
    found: dict[int, FloatArray] = {}
    for broker in it.brokers:
        own = [lines[client, broker] for client in it.clients if (client, broker) in lines]
        if own:
            found[broker] = np.asarray(np.sum(own, axis=0), np.float64)
    return found


def waits_of(all_of: Neighbourhood, group: str, brokers: Sequence[int]) -> FloatArray | None:
    """What waits for a group on some brokers over time, in seconds of what usually arrives there; None without arrivals."""
    own = [all_of.groups[group, broker] for broker in brokers if (group, broker) in all_of.groups]
    if not own:
        return None
    arriving = np.sum([one.arrivals for one in own], axis=0)
    known = arriving[~np.isnan(arriving)]
    usual = float(np.mean(known)) if len(known) else 0.0
    return np.asarray(np.sum([one.lag for one in own], axis=0) / usual, np.float64) if usual > 0 else None


def _since(chart: Chart, it: Mover) -> Chart:
    return with_begin(chart, f"{moment_of(it.since):%Y-%m-%d %H:%M:%S}", "since", "it begins")


def _on_brokers(all_of: Neighbourhood, cause: BlamedCause) -> Chart:
    """Groups by brokers: who waits where, and how much each reads while it lasts."""
    it = cause.offender
    held = {(one.group, broker) for one in cause.victims for broker in one.brokers}
    behind = {one.group: one.behind_seconds for one in cause.victims}
    offender = it.words
    then = (all_of.times >= it.since) & (all_of.times <= (it.until or np.inf))
    places = {(offender, broker): _mean(line[then]) for broker, line in moves_of(all_of, it).items()}
    for (group, broker), one in all_of.groups.items():
        if not (it.kind == "group" and group == it.name):
            places[printable(group), broker] = None if one.read_bytes is None else _mean(one.read_bytes[then])
    victims = [printable(one.group) for one in cause.victims]
    others = [name for name in dict.fromkeys(name for name, _ in places) if name not in {offender, *victims}]
    rows = [offender, *victims, *others][:_ROWS]
    largest = max((value for value in places.values() if value), default=0.0)
    kinds: tuple[tuple[str, str, str], ...] = (
        ("takes more than before", "diamond", "#DC372E"),
        ("waits", "square", COLOURS[1]),
        ("does not wait", "circle", COLOURS[0]),
    )
    names = {printable(group): group for group in behind}
    traces: list[Figure] = []
    for number, (kind, symbol, colour) in enumerate(kinds):
        mine = [
            (name, broker)
            for (name, broker) in places
            if name in rows and number == (0 if name == offender else 1 if (names.get(name, ""), broker) in held else 2)
        ]
        if mine:
            traces.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "name": kind,
                    "x": [f"broker {broker}" for _, broker in mine],
                    "y": [escape_plotly(name) for name, _ in mine],
                    "text": [
                        _words(places[one], behind.get(names.get(one[0], "")) if number == 1 else None) for one in mine
                    ],
                    "marker": {
                        "symbol": symbol,
                        "color": colour,
                        "size": [round(_pixels(places[one], largest), 1) for one in mine],
                    },
                    "hovertemplate": "%{y} on %{x}: %{text}<extra></extra>",
                }
            )
    more = f" (the first {_ROWS} of {len(victims) + len(others) + 1})" if len(victims) + len(others) >= _ROWS else ""
    layout = {
        "height": 150 + 22 * len(rows),
        "margin": {"l": 60, "r": 12, "t": 40, "b": 36},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "xaxis": {
            "type": "category",
            "categoryorder": "array",
            "categoryarray": [f"broker {broker}" for broker in all_of.brokers],
            "automargin": True,
        },
        "yaxis": {
            "type": "category",
            "categoryorder": "array",
            "categoryarray": [escape_plotly(name) for name in reversed(rows)],
            "automargin": True,
        },
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom"},
        "showlegend": True,
        "shapes": [],
        "annotations": [],
        "hovermode": "closest",
    }
    title = f"Who is on which broker, and how much it reads there since then{more}"
    return Chart(id="on-brokers", title=title, figure={"data": traces, "layout": layout})


def _mean(line: FloatArray) -> float | None:
    return None if np.isnan(line).all() else float(np.nanmean(line))


def _words(bytes_per_second: float | None, behind: float | None) -> str:
    moved = "its bytes are not told" if bytes_per_second is None else f"{size(bytes_per_second)}/s"
    return moved if behind is None else f"{moved}, {duration(behind)} behind"


def _pixels(value: float | None, largest: float) -> float:
    """By area, as people compare marks."""
    return _LEAST if not value or largest <= 0 else _LEAST + (_MOST - _LEAST) * float(np.sqrt(value / largest))

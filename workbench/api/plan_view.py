"""HTML views of a replay: plan table, plan chart, receipt and verification. All text is escaped."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from workbench.humanize import counted, listed, moment, one_line, plural, printable, size
from workbench.replay.plan import kafka_command
from workbench.replay.plan_head import cards, instant, sentence
from workbench.replay.planfile import Plan, PlannedPartition, Resolution
from workbench.replay.receipt import Receipt
from workbench.replay.rollback_of_apply import RolledBack
from workbench.replay.verify import VerifyVerdict
from workbench.replay.verify_evidence import Checked
from workbench.report.charts import COLOURS, Chart, escape_plotly
from workbench.report.html_report import environment

MOST_ROWS = 40  # as on the terminal: read a plan of thousands of partitions in its file
_SYMBOLS = {
    Resolution.EXACT: ("circle", COLOURS[0]),
    Resolution.BEFORE_START: ("triangle-right", COLOURS[1]),
    Resolution.UNORDERED: ("diamond", COLOURS[1]),
    Resolution.UNREAD: ("diamond-open", COLOURS[3]),
    Resolution.NONE_INSIDE: ("circle-open", COLOURS[6]),
    Resolution.AFTER_END: ("x", COLOURS[3]),
    Resolution.EMPTY: ("square-open", COLOURS[6]),
}
_MEANINGS = {
    Resolution.EXACT: "at the first record at or after the start",
    Resolution.BEFORE_START: "later: earlier records are deleted or never existed",
    Resolution.UNORDERED: "timestamps are out of order: all of the window, and others",
    Resolution.UNREAD: "not known whether all of the window is in it",
    Resolution.NONE_INSIDE: "no record of the window",
    Resolution.AFTER_END: "no record at or after the start",
    Resolution.EMPTY: "the partition is empty",
}


def rendered(template: str, **values: Any) -> str:
    """A template of this package, with the style class of panels."""
    found = environment("workbench.api")
    found.filters |= {"size": size, "moment": moment, "line": one_line, "instant": instant}
    return f'<div class="wb">{found.get_template(template).render(**values)}</div>'


def rows_of(plan: Plan) -> list[PlannedPartition]:
    """Partitions to show: all, or those with the most messages."""
    if len(plan.partitions) <= MOST_ROWS:
        return list(plan.partitions)
    return sorted(plan.partitions, key=lambda part: -part.messages)[:MOST_ROWS]


def plan_html(plan: Plan, path: Path, bootstrap: str, login_file: str | None = None) -> str:
    """Review of a plan: window, totals, warnings, and each partition's first offset."""
    return rendered(
        "plan.html.j2",
        plan=plan,
        path=printable(path),
        rows=rows_of(plan),
        sentence=sentence(plan),
        cards=cards(plan),
        kafka=kafka_command(plan, bootstrap, login_file),
    )


def plan_chart(plan: Plan) -> Chart:
    """Chart with one line per partition on a common time axis, from its first record to the end of the window."""
    rows = rows_of(plan)
    end = plan.until or plan.created_at
    traces: list[dict[str, Any]] = []
    for resolution, (symbol, colour) in _SYMBOLS.items():
        mine = [part for part in rows if part.resolution is resolution]
        if not mine:
            continue
        xs: list[str | None] = []
        ys: list[str | None] = []
        for part in mine:
            begin = _axis(part.target_timestamp) if part.target_timestamp is not None else _axis_of(end)
            xs += [begin, _axis_of(end), None]
            ys += [_name(part), _name(part), None]
        shared: dict[str, Any] = {"legendgroup": resolution.value, "type": "scatter"}
        traces.append(
            {
                **shared,
                "mode": "markers",
                "name": _MEANINGS[resolution],
                "x": xs[::3],
                "y": ys[::3],
                "text": [_hover(part) for part in mine],
                "marker": {"symbol": symbol, "color": colour, "size": 10},
                "hovertemplate": "%{y}  %{x|%Y-%m-%d %H:%M:%S.%L}  %{text}<extra></extra>",
            }
        )
        line = {"color": colour, "width": 4}
        traces.append(
            {**shared, "mode": "lines", "name": "", "x": xs, "y": ys, "line": line, "opacity": 0.35, "showlegend": False,
             "hoverinfo": "skip", "connectgaps": False}
        )  # fmt: skip
    return Chart(
        id="plan",
        title=f"{sentence(plan)} {counted(plan.messages, 'message')} in all",
        figure=_figure(plan, traces, len(rows)),
    )


def _figure(plan: Plan, traces: list[dict[str, Any]], rows: int) -> dict[str, Any]:
    marks = [(plan.since, "start")] + ([(plan.until, "end")] if plan.until else [(plan.created_at, "planned")])
    return {
        "data": traces,
        "layout": {
            "height": 130 + 24 * rows,
            "margin": {"l": 60, "r": 12, "t": 8, "b": 36},
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "xaxis": {"type": "date", "title": {"text": "time of the record (UTC)"}, "automargin": True},
            "yaxis": {"type": "category", "title": {"text": "partition"}, "automargin": True, "autorange": "reversed"},
            "legend": {"orientation": "h", "y": 1.0 + 1.6 / (rows + 1), "yanchor": "bottom"},
            "showlegend": True,
            "hovermode": "closest",
            "shapes": [
                {"type": "line", "yref": "paper", "x0": _axis_of(at), "x1": _axis_of(at), "y0": 0, "y1": 1,
                 "line": {"color": COLOURS[6], "dash": "dot", "width": 1.5}}
                for at, _ in marks
            ],
            "annotations": [
                {"x": _axis_of(at), "y": 1, "yref": "paper", "text": words, "showarrow": False, "xanchor": "left",
                 "yanchor": "bottom"}
                for at, words in marks
            ],
        },
    }  # fmt: skip


def _name(part: PlannedPartition) -> str:
    return escape_plotly(f"{printable(part.topic)}-{part.partition}")


def _hover(part: PlannedPartition) -> str:
    where = "nothing is committed" if part.target is None else f"offset {part.target:,}"
    return escape_plotly(f"{printable(part.topic)}-{part.partition}: {where}, {plural(part.messages, 'message')}")


def _axis(timestamp_ms: int) -> str | None:
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    except (OverflowError, ValueError, OSError):  # a producer may write any timestamp
        return None


def _axis_of(iso: str) -> str:
    return datetime.fromisoformat(iso).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def receipt_html(receipt: Receipt) -> str:
    """Receipt: outcome, reasons, each partition that is not as planned, and what to do."""
    counts = ", ".join(f"{number:,} {name.replace('_', ' ')}" for name, number in sorted(receipt.counts().items()))
    return rendered(
        "receipt.html.j2",
        sentence=receipt.sentence,
        colour="healthy" if receipt.outcome.value in ("done", "dry_run") else "lagging",
        lines=[*receipt.reasons, f"Partitions: {counts}. {receipt.seconds:.1f} s."],
        rows=[(part.topic, part.partition, part.error) for part in receipt.partitions if part.error],
        notes=receipt.hints,
    )


def checked_html(found: Checked) -> str:
    """Verification: verdict, evidence, and each partition that is not verified."""
    colours = {VerifyVerdict.VERIFIED: "healthy", VerifyVerdict.INCOMPLETE: "lagging"}
    read = [part.records for part in found.partitions if part.records is not None]
    moved = len(found.old_moved)
    lines = [f"Evidence: {', '.join(found.evidence)}. {plural(len(found.partitions), 'partition')}."]
    lines += [f"Records read: {sum(read):,}."] if read else []
    lines.append(
        f"The old group has moved on in {plural(moved, 'partition')} since the plan was made (it continues independently)."
        if moved
        else "The old group's offsets have not changed since the plan was made."
    )
    good = (VerifyVerdict.VERIFIED, VerifyVerdict.NOT_PLANNED)
    return rendered(
        "receipt.html.j2",
        sentence=found.sentence,
        colour=colours.get(found.verdict, "cannot_tell"),
        lines=lines,
        rows=[
            (part.topic, part.partition, part.reason)
            for part in found.partitions
            if found.is_started and part.verdict not in good
        ],
        notes=found.notes,
    )


def rolled_back_html(found: RolledBack) -> str:
    """Result of a rollback."""
    names = listed([f"{topic}-{number}" for topic, number in found.failed])
    words = (
        f"NOT rolled back in {plural(len(found.failed), 'partition')}: {names}."
        if found.failed
        else "Rolled back: the group is as it was before."
    )
    return rendered(
        "receipt.html.j2",
        sentence=words,
        colour="lagging" if found.failed else "healthy",
        lines=["The group was deleted; it had no commits before."] if found.deleted and not found.restored else [],
        rows=[(*key, words) for key, words in sorted(found.failed.items())],
        notes=[],
    )

"""`workbench audit`: did everything arrive, in which layer not, which records, and may a downstream job begin?"""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from workbench.cli.audit_compare import compare_command, trace_command
from workbench.cli.audit_options import ledger_of, of_rows, since_option, span_of, until_option
from workbench.cli.audit_publish import publish_command
from workbench.cli.audit_restarts import restarts_command
from workbench.cli.audit_upstream import upstream_command
from workbench.cli.help import Group
from workbench.cli.options import PLACE, json_option
from workbench.errors import ExitCode, UsageError
from workbench.humanize import between, iso_instant, plural, printable
from workbench.safe_output import say, tell, write_json

if TYPE_CHECKING:
    from workbench.api.audit_silence import Silence
    from workbench.audit.missing_records import NamedInterval
    from workbench.audit.stream_fairness import DelayedStream

_COLUMNS = (
    "stream", "window_ms", "edge", "state", "arrival", "from_low", "from_high", "to_low", "to_high", "lost_low", "lost_high",
    "doubled_low", "doubled_high", "same",
)  # fmt: skip
_MOST_SHOWN = 20


@click.group(name="audit", cls=Group)
def command() -> None:
    """Did everything arrive? Counts by layer, exact after restarts.

    Each layer writes rows of what it took in and gave out, by positions (`workbench.audit/1`, docs/audit.md). Nothing here changes
    anything. NAME is an audit of the settings, `[audits.NAME]`.
    """


@command.command(name="run")
@of_rows
@click.option("-o", "--output", "out", required=True, type=PLACE, help="New folder for the ledger, Parquet.")
@json_option
def run_command(source: dict[str, Any], out: Path, as_json: bool) -> int:
    """Write the whole ledger: every window of every stream, between and inside the layers.

    Exit code 3 if records are lost or doubled, 4 if it cannot be told or is not final yet, or a layer is silent.
    """
    from workbench.api.audit_silence import silence_of

    if out.exists():
        raise UsageError(f"{out} exists already.", hint="Name a new folder.")
    if not out.absolute().parent.is_dir():
        raise UsageError(f"The folder of {out} does not exist.")
    ledger = ledger_of(source)
    counts = ledger.write(out)
    silence = silence_of(ledger)
    if as_json:
        document = {"schema": "workbench.audit-run/1", "output": str(out), "windows": counts}
        write_json({**document, **_silence_document(silence)})
    else:
        for arrival, count in sorted(counts.items()):
            tell(f"{arrival}: {plural(count, 'window')}")
        _tell_silence(silence)
        say(f"The ledger is in {out}.")
    if {"loss", "dup", "loss+dup"} & counts.keys():
        return ExitCode.FINDINGS
    return ExitCode.OK if counts.keys() == {"ok"} and not silence.streams else ExitCode.EVIDENCE


@command.command(name="show")
@of_rows
@click.option("--stream", help="Only this stream.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="Number of windows.")
@click.option(
    "--latency", is_flag=True, help="Also how long records take to each layer, and who waits for whose burst."
)
@json_option
def show_command(source: dict[str, Any], stream: str | None, limit: int, latency: bool, as_json: bool) -> int:
    """Show the windows where not everything arrived, the worst first.

    Exit code 3 if records are lost or doubled, 4 if it cannot be told or is not final yet, or a layer is silent.
    """
    from workbench.api.audit_silence import silence_of

    ledger = ledger_of(source, stream=stream)
    delayed: list[DelayedStream] = []
    if latency:
        every = ledger if stream is None else ledger_of(source)  # the burst is another stream's
        delayed = [it for it in every.delayed() if stream is None or it.stream == stream]
    with ledger.at_hand():
        arrivals = ledger.arrivals()
        found = ledger.worst(most=limit) if arrivals.keys() - {"ok"} else []  # most often there is nothing to look for
    unheard, silence = ledger.unheard(), silence_of(ledger)
    slow = [row.asDict() for row in ledger.latencies()] if latency else []
    if as_json:
        document: dict[str, Any] = {
            "schema": "workbench.audit-windows/1",
            "windows": [_document(row) for row in found],
        }
        told = {"latencies": slow, "delayed": [asdict(it) for it in delayed]} if latency else {}
        write_json({**document, **_silence_document(silence), **told})
    for row in found if not as_json else ():
        tell(_line(row))
    for it in slow if not as_json else ():
        tell(_latency(it))
    for one in delayed if not as_json else ():
        tell(_delay(one))
    for name, edge in unheard if not as_json else ():
        tell(f"{printable(name)}  {printable(edge)}  unknown: no row tells of it")
    if not as_json:
        _tell_silence(silence)
    if not arrivals and not unheard and not silence.streams:
        tell("No row tells of anything.")
    elif not found and not unheard and not silence.streams and not as_json:
        say("Everything arrived, in every window that the rows tell of.")
    if arrivals.keys() & {"loss", "dup", "loss+dup"}:
        return ExitCode.FINDINGS
    return ExitCode.EVIDENCE if unheard or silence.streams or arrivals.keys() != {"ok"} else ExitCode.OK


@command.command(name="gate")
@of_rows
@click.option("--stream", required=True, help="The stream.")
@since_option(required=True)
@until_option(required=True)
@click.option(
    "--grade",
    type=click.Choice(["S0", "S1", "S2", "S3"]),
    help="S0: all and the same; S1: 99.99 %; S2: 99.9 %; S3: 99 %. Default: that of the settings, or S1.",
)
@json_option
def gate_command(source: dict[str, Any], stream: str, since: str, until: str, grade: str | None, as_json: bool) -> int:
    """May a job begin with these windows? For schedulers such as Airflow.

    Exit code 0: yes. 3: no, too much is lost or doubled. 4: they are not final, or it cannot be told.
    """
    from workbench.audit.completeness_gate import Passage

    first, last = span_of(since, until)
    ledger = ledger_of(source, stream=stream, since_ms=first)
    found = ledger.gate(stream, since_ms=first or 0, until_ms=last or 0, grade=grade)
    if as_json:
        write_json(found.document())
    else:
        for reason in found.reasons:
            tell(reason)
        by = grade or ledger.settings.grade_of(stream)
        say(f"{found.passage.upper()}: {plural(found.windows, 'window')} of {printable(stream)} by grade {by}.")
    return {Passage.GO: ExitCode.OK, Passage.BREACH: ExitCode.FINDINGS}.get(found.passage, ExitCode.EVIDENCE)


@command.command(name="missing")
@of_rows
@click.option("--stream", required=True, help="The stream.")
@click.option("--layer", required=True, help="The layer that took in more than it gave out.")
@since_option()
@until_option()
@click.option(
    "--arrived",
    type=PLACE,
    help="File or folder with a column `id` of what came out (Parquet, JSON lines): needed where more than a few records are missing.",
)
@click.option("-o", "--output", "out", type=PLACE, help="File for `replay plan --from-audit`.")
@json_option
def missing_command(
    source: dict[str, Any],
    stream: str,
    layer: str,
    since: str | None,
    until: str | None,
    arrived: Path | None,
    out: Path | None,
    as_json: bool,
) -> int:
    """Name the records that a layer took in and did not give out. Only the positions that do not add up are read again.

    Exit code 3 if some are missing and named, 4 if it cannot be told which.
    """
    from workbench.plans.missing_records_file import MissingRecords, write_missing

    first, last = span_of(since, until)
    ledger = ledger_of(source, stream=stream)
    found = ledger.missing(stream, layer, since_ms=first, until_ms=last, arrived=arrived)
    named = MissingRecords.of(
        stream, layer, [(it.interval.topic, it.interval.partition, it.offsets or ()) for it in found],
        unnamed=sum(it.unnamed for it in found), topic_ids={it.interval.topic: it.topic_id for it in found if it.topic_id},
    )  # fmt: skip
    if out is not None:
        write_missing(out, named)
    if as_json:
        write_json(named.document())
    else:
        for part in named.partitions[:_MOST_SHOWN]:
            shown = ", ".join(
                str(start) if stop == start + 1 else f"{start}-{stop - 1}" for start, stop in part.ranges[:_MOST_SHOWN]
            )
            tell(f"{printable(part.topic)}-{part.partition}: {shown}{' …' if len(part.ranges) > _MOST_SHOWN else ''}")
        for it in (it for it in found if it.offsets is None):
            where = f"{printable(it.interval.topic)}-{it.interval.partition} [{it.interval.start}, {it.interval.stop})"
            tell(f"{where}: {_why_unnamed(it, is_at_hand=arrived is not None)}")
        say(
            f"{plural(named.records, 'record')} missing and named"
            + (f", {named.unnamed} not named." if named.unnamed else ".")
        )
    if any(it.offsets is None for it in found):
        return ExitCode.EVIDENCE
    return ExitCode.FINDINGS if named.records else ExitCode.OK


def _why_unnamed(it: NamedInterval, *, is_at_hand: bool) -> str:
    lost = it.interval.lost
    if not it.interval.is_told:
        return "rows are missing or cover it in part, so it cannot be told what is missing."
    only = "what arrived does not prove." if is_at_hand else "only --arrived can tell, if it has all."
    if lost > 0:
        return f"{plural(lost, 'record')} of {it.candidates} missing, or more, if others came out twice; which, {only}"
    if lost == 0:
        return f"at least 1 record of {it.candidates} missing, and as many came out twice; which, {only}"
    return f"{plural(-lost, 'record')} too many came out; whether any of {it.candidates} is missing too, {only}"


command.add_command(compare_command)
command.add_command(trace_command)
command.add_command(publish_command)
command.add_command(restarts_command)
command.add_command(upstream_command)


def _silence_document(found: Silence) -> dict[str, Any]:
    layers = [(stream, it) for stream, some in found.streams.items() for it in some]
    told = [{"stream": stream, **it.model_dump(mode="json")} for stream, it in layers]
    return {"silent": told, "reaches_to": iso_instant(found.reach_ms)}


def _tell_silence(found: Silence) -> None:
    many = len(found.streams)
    for stream, layers in list(found.streams.items())[:_MOST_SHOWN]:
        tell(f"{printable(stream)}  {printable('; '.join(it.words for it in layers))}")
    if many > _MOST_SHOWN:
        tell(f"And {plural(many - _MOST_SHOWN, 'more silent stream', 'more silent streams')}.")
    if found.reach_ms is not None:
        say(
            f"The oldest rows are of {iso_instant(found.reach_ms)}: of streams that fell silent before, nothing is known."
        )


def _document(row: Any) -> dict[str, Any]:
    found = {name: row[name] for name in _COLUMNS}
    at = datetime.fromtimestamp(found.pop("window_ms") / 1000, UTC)
    return {"window": at.isoformat(), **found}


def _line(row: Any) -> str:
    at = f"{datetime.fromtimestamp(row['window_ms'] / 1000, UTC):%Y-%m-%d %H:%M:%S}Z"
    many = [
        f"{between(row[f'{name}_low'], row[f'{name}_high'])} {name}"
        for name in ("lost", "doubled")
        if row[f"{name}_high"]
    ]
    words = " and ".join(many) or "other records than were sent"
    return f"{at}  {printable(row['stream'])}  {printable(row['edge'])}  {row['arrival']} ({row['state']}): {words}"


def _latency(row: dict[str, Any]) -> str:
    since = "since creation" if row["since"] == "created" else "since the layer before"
    times = ", ".join(f"{name} {_below(row[f'{name}_ms'])}" for name in ("p50", "p95", "p99"))
    return f"{printable(row['stream'])}  {printable(row['layer'])} {row['point']}: {times} {since}, {plural(row['records'], 'record')}"


def _delay(it: DelayedStream) -> str:
    where = f"{printable(it.stream)}  {printable(it.layer)} {it.point}"
    times = f"p99 {_below(it.p99_ms)} beside a burst of {printable(it.burst)}"
    if it.is_delayed is None:
        return (
            f"{where}: {times}; cannot tell whether that is longer than without it, of {plural(it.records, 'record')}"
        )
    return f"{where}: delayed, {times}, {_below(it.usual_p99_ms)} without"


def _below(milliseconds: int | None) -> str:
    return "over 5 min" if milliseconds is None else f"≤ {milliseconds:,} ms"

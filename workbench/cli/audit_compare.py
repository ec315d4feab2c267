"""`workbench audit compare` and `trace`: records of topics and tables."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from workbench.cli.audit_options import since_option, span_of, until_option
from workbench.cli.options import cluster_option, config_option, json_option
from workbench.errors import ExitCode
from workbench.humanize import plural, printable
from workbench.safe_output import say, tell, write_json


@click.command(name="compare")
@click.argument("one")
@click.argument("other")
@since_option()
@until_option()
@click.option(
    "--sample", type=click.IntRange(0, 1000), default=20, show_default=True, help="Records shown of each side."
)
@json_option
@config_option
def compare_command(
    one: str, other: str, since: str | None, until: str | None, sample: int, as_json: bool, config: Path | None
) -> int:
    """Compare the records of two topics or tables, whatever their order: a run of a new version beside the old one.

    Each is CLUSTER:TOPIC, or a file or folder of Parquet or JSON lines. Of topics, key and value count; of tables, all columns.
    Where producers set the times, what lies behind --until is read, too. Exit code 3 if they differ.
    """
    from workbench.api.compare_and_trace_records import compare

    first, last = span_of(since, until)
    found = compare(one, other, since_ms=first, until_ms=last, sample=sample, config=config)
    if as_json:
        write_json(found.document())
    else:
        for hour in (it for it in found.hours if not it["same"]):
            tell(f"{_at(hour['hour_ms'], 'no time')}  {hour['one']:,} and {plural(hour['other'], 'record')}")
        for name, only, places in zip(found.names, found.only, found.samples, strict=True):
            if only:
                tell(f"{plural(only, 'record')} only in {printable(name)}, such as: {printable(', '.join(places))}")
        words = "the same" if found.is_same else "not the same"
        say(f"{found.records[0]:,} and {plural(found.records[1], 'record')}: {words}.")
    return ExitCode.OK if found.is_same else ExitCode.FINDINGS


@click.command(name="trace")
@click.argument("record")
@cluster_option()
@click.option(
    "--topic",
    "topics",
    multiple=True,
    required=True,
    help="A topic to look in, also one of dead letters. May be repeated.",
)
@since_option()
@until_option()
@json_option
@config_option
def trace_command(
    record: str,
    cluster: str,
    topics: tuple[str, ...],
    since: str | None,
    until: str | None,
    as_json: bool,
    config: Path | None,
) -> int:
    """Where one record has been: by its id (header wb-id) or its key, in the order of time.

    Where producers set the times, what lies behind --until is read, too.
    Exit code 4 if it is in none of the topics (any more).
    """
    from workbench.api.compare_and_trace_records import trace

    first, last = span_of(since, until)
    found = trace(record, cluster=cluster, topics=topics, since_ms=first, until_ms=last, config=config)
    if as_json:
        write_json({"schema": "workbench.audit-trace/1", "record": record, "places": [_place(it) for it in found]})
    else:
        for it in found:
            died = f"  dead: {printable(it.error)}" if it.error else ""
            waited = (
                f"  {it.stored_ms - it.created_ms:,} ms after its creation" if it.stored_ms and it.created_ms else ""
            )
            tell(f"{_at(it.stored_ms, 'no time')}  {printable(it.topic)}-{it.partition}@{it.offset}{waited}{died}")
        say(f"{plural(len(found), 'place')}." if found else "It is in none of these topics.")
    return ExitCode.OK if found else ExitCode.EVIDENCE


def _place(it: Any) -> dict[str, Any]:
    return {name: getattr(it, name) for name in type(it).__slots__}


def _at(milliseconds: int | None, otherwise: str) -> str:
    if milliseconds is None:
        return otherwise
    return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d %H:%M:%S}Z"

"""`workbench audit`: did everything arrive, in which layer not, and may a downstream job begin?"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from workbench.cli.help import Group
from workbench.cli.options import A_TIME, json_option
from workbench.errors import ExitCode
from workbench.humanize import plural, printable
from workbench.screen import say, tell, write_json

if TYPE_CHECKING:
    from workbench.api.audits import AuditLedger

F = TypeVar("F", bound=Callable[..., Any])
_COLUMNS = (
    "stream", "window_ms", "edge", "state", "arrival", "from_low", "from_high", "to_low", "to_high", "lost_low", "lost_high",
    "doubled_low", "doubled_high", "same",
)  # fmt: skip


@click.group(name="audit", cls=Group)
def command() -> None:
    """Did everything arrive? Counts by layer, exact after restarts.

    Each layer writes rows of what it took in and gave out, by positions (`workbench.audit/1`, docs/audit.md). Nothing here changes
    anything.
    """


def _of_rows(function: F) -> F:
    for option in (
        click.option(
            "--rows",
            type=click.Path(path_type=Path),
            required=True,
            help="File or folder of rows: Parquet, or JSON lines.",
        ),
        click.option("--layers", required=True, help="Names of the layers in order, separated by commas."),
        click.option("--window-length", default="1m", show_default=True, help="Length of the windows in the rows."),
        click.option(
            "--lateness", default="10m", show_default=True, help="A window is final so long after its end has passed."
        ),
    ):
        function = option(function)
    return function


@command.command(name="show")
@_of_rows
@click.option("--stream", help="Only this stream.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="Number of windows.")
@json_option
def show_command(
    rows: Path, layers: str, window_length: str, lateness: str, stream: str | None, limit: int, as_json: bool
) -> int:
    """Show the windows where not everything arrived, the worst first.

    Exit code 3 if records are lost or doubled, 4 if it cannot be told or is not final yet.
    """
    ledger = _ledger(rows, layers, window_length, lateness)
    found = ledger.worst(stream=stream, most=limit)
    if as_json:
        write_json({"schema": "workbench.audit-windows/1", "windows": [_document(row) for row in found]})
    for row in found if not as_json else ():
        tell(_line(row))
    if not found and not as_json:
        say("Everything arrived, in every window that the rows tell of.")
    arrivals = {row["arrival"] for row in found}
    if arrivals & {"loss", "dup", "loss+dup"}:
        return ExitCode.FINDINGS
    return ExitCode.EVIDENCE if arrivals else ExitCode.OK


@command.command(name="gate")
@_of_rows
@click.option("--stream", required=True, help="The stream.")
@click.option("--since", required=True, help=f"Start of the first window: {A_TIME}.")
@click.option("--until", required=True, help=f"End of the last window, exclusive: {A_TIME}.")
@click.option(
    "--grade",
    type=click.Choice(["S0", "S1", "S2", "S3"]),
    default="S1",
    show_default=True,
    help="S0: all and the same; S1: 99.99 %; S2: 99.9 %; S3: 99 %.",
)
@json_option
def gate_command(
    rows: Path,
    layers: str,
    window_length: str,
    lateness: str,
    stream: str,
    since: str,
    until: str,
    grade: str,
    as_json: bool,
) -> int:
    """May a job begin with these windows? For schedulers such as Airflow.

    Exit code 0: yes. 3: no, too much is lost or doubled. 4: they are not final, or it cannot be told.
    """
    from workbench.audit.gate import Passage
    from workbench.errors import WindowError
    from workbench.window import instant_ms, parse_instant

    first, last = instant_ms(parse_instant(since)), instant_ms(parse_instant(until))
    if last <= first:
        raise WindowError("The windows end before they begin.", hint="Give --until a later time than --since.")
    found = _ledger(rows, layers, window_length, lateness).gate(stream, since_ms=first, until_ms=last, grade=grade)
    if as_json:
        write_json(found.document())
    else:
        for reason in found.reasons:
            tell(reason)
        say(f"{found.passage.upper()}: {plural(found.windows, 'window')} of {printable(stream)} by grade {grade}.")
    return {Passage.GO: ExitCode.OK, Passage.BREACH: ExitCode.FINDINGS}.get(found.passage, ExitCode.EVIDENCE)


def _ledger(rows: Path, layers: str, window_length: str, lateness: str) -> AuditLedger:
    from workbench.api.audits import audit

    names = [it.strip() for it in layers.split(",") if it.strip()]
    return audit(rows, layers=names, window=window_length, lateness=lateness)


def _document(row: Any) -> dict[str, Any]:
    found = {name: row[name] for name in _COLUMNS}
    at = datetime.fromtimestamp(found.pop("window_ms") / 1000, UTC)
    return {"window": at.isoformat(), **found}


def _line(row: Any) -> str:
    at = f"{datetime.fromtimestamp(row['window_ms'] / 1000, UTC):%Y-%m-%d %H:%M:%S}Z"
    many = [
        f"{_range(row[f'{name}_low'], row[f'{name}_high'])} {name}"
        for name in ("lost", "doubled")
        if row[f"{name}_high"]
    ]
    words = " and ".join(many) or "other records than were sent"
    return f"{at}  {printable(row['stream'])}  {printable(row['edge'])}  {row['arrival']} ({row['state']}): {words}"


def _range(low: int, high: int) -> str:
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"

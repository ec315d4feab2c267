"""`workbench audit publish`: what an audit says, as files for pages and alert rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from workbench.cli.audit_options import given, of_rows
from workbench.cli.options import A_TIME, json_option, output_folder
from workbench.errors import ExitCode
from workbench.humanize import plural, printable
from workbench.safe_output import say, tell, write_json

_MOST_SHOWN = 20


@click.command(name="publish")
@of_rows
@click.option("--since", default="6h ago", show_default=True, help=f"Start of the first window: {A_TIME}.")
@click.option("--until", default="now", show_default=True, help=f"End of the last window: {A_TIME}.")
@click.option(
    "--every", default="15m", show_default=True, help="When the next one is due; three times as old, it is stale."
)
@output_folder("Folder that serve and node_exporter read.")
@json_option
def publish_command(source: dict[str, Any], since: str, until: str, every: str, out: Path, as_json: bool) -> int:
    """Write what an audit says of the last hours, for the pages of `workbench serve` and for alert rules. Run it by a timer.

    Two files, each instead of the one before: NAME.workbench_audit.json for `serve` ([serve] audits = "FOLDER"), and
    NAME.workbench_audit.prom for node_exporter's textfile collector. If the audit fails, the old ones stay, and become stale.

    Exit code 3 if a stream breaks its grade, 4 if it cannot be told of one, or a layer is silent.
    """
    from workbench.api.audit_of_period import audit_state
    from workbench.files import writing
    from workbench.report.audit_state import write_state

    state = audit_state(since=since, until=until, every=every, **given(source))
    with writing(f"The folder {out}"):
        out.mkdir(parents=True, exist_ok=True)
    path = write_state(out, state)
    if as_json:
        write_json(state.model_dump(mode="json", by_alias=True))
    else:
        wrong = [it for it in state.streams if not it.is_complete]
        for it in wrong[:_MOST_SHOWN]:
            tell(f"{printable(it.stream)}  {it.grade}{' broken' if it.is_breach else ''}: {printable(it.words)}")
        if len(wrong) > _MOST_SHOWN:
            tell(f"And {plural(len(wrong) - _MOST_SHOWN, 'more stream', 'more streams')}.")
        say(state.unseen)
        say(f"{plural(len(state.streams), 'stream')}, {len(wrong):,} of them not complete: {path}")
    if any(it.is_breach for it in state.streams):
        return ExitCode.FINDINGS
    return ExitCode.EVIDENCE if any(it.is_open for it in state.streams) else ExitCode.OK

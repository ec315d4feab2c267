"""`workbench triage` of a Pulsar: two looks at its subscriptions instead of a window of samples."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workbench.cli.options import wrote_rows
from workbench.cli.triage import measurements_of
from workbench.errors import UsageError, WorkbenchError
from workbench.files import require_empty
from workbench.safe_output import write_json

_NOT_YET = {
    "html": "--html", "watch": "--watch", "compare": "--compare", "alert": "--alert", "store": "--store",
    "parquet": "--parquet",
}  # fmt: skip


def triage(given: Mapping[str, Any]) -> int | None:
    """Run the command for a Pulsar; None if the cluster is another one, or none is given.

    Raises:
        UsageError: for an option that does not work on a Pulsar yet. WorkbenchError: as `api.triages.dispatched`.
    """
    folder = given["folder"]
    if not (_is_recorded(folder) if folder is not None else given["cluster"] is not None and _is_pulsar(given)):
        return None
    if asked := [option for name, option in _NOT_YET.items() if given[name]]:
        raise UsageError(
            f"{asked[0]} does not work on a Pulsar yet: {str(folder or given['cluster'])!r} is one.",
            hint="What works: --group, --topic, --all, --observe, --save and the formats of the output.",
        )
    if given["everything"] and (given["groups"] or given["topics"]):
        raise UsageError("--all takes no --group and no --topic.")
    from workbench.api.triages import dispatched
    from workbench.cli.progress import Steps
    from workbench.report.printed_triage import rows_of_triage

    if (save := given["save"]) is not None:
        require_empty(save)
    with Steps(quiet=given["as_json"]) as steps:
        result = dispatched(measurements_of(given), progress=steps, records=save is not None)
        assert result is not None  # it is a Pulsar  # noqa: S101
        if save is not None:
            from workbench.collect.capture import write_capture

            write_capture(save, result.capture)
            steps.say(f"Saved as {save}.")
    if given["as_json"]:
        write_json(result.to_json())
    elif not wrote_rows(
        lambda: [
            {**row, "lag_entries": it.lag_entries}
            for row, it in zip(rows_of_triage(result.findings), result.findings, strict=True)
        ]
    ):
        from workbench.report.terminal import show
        from workbench.terminal_tables import SafeConsole

        most = {"most": given["top"]} if given["everything"] else {}
        show(SafeConsole(), result.triage, result.capture.samples, **most)
    return result.exit_code


def _is_recorded(folder: Path) -> bool:
    from workbench.collect.capture_info import ANSWERS, read_info

    try:
        return ANSWERS in read_info(folder.expanduser()).files
    except WorkbenchError:  # said where captures are read
        return False


def _is_pulsar(given: Mapping[str, Any]) -> bool:
    from workbench.settings import load_settings

    try:
        return load_settings(given["config"]).cluster(given["cluster"]).system == "pulsar"
    except WorkbenchError:  # said where the options have been checked
        return False

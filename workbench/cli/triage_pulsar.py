"""`workbench triage` of a Pulsar: two looks at its subscriptions instead of a window of samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from workbench.cli.options import wrote_rows
from workbench.errors import UsageError, WorkbenchError
from workbench.screen import write_json

if TYPE_CHECKING:
    from workbench.triage.finding import Finding

_NOT_YET = {
    "save": "--save", "html": "--html", "watch": "--watch", "compare": "--compare", "alert": "--alert", "store": "--store",
    "parquet": "--parquet",
}  # fmt: skip


def triage_pulsar(given: Mapping[str, Any], row_of: Callable[[Finding], dict[str, Any]]) -> int | None:
    """Run the command for a Pulsar; None if the cluster is another one, or none is given.

    Args:
        row_of: makes a row of a finding, for `-o csv`.

    Raises:
        UsageError: for an option that does not work on a Pulsar yet. WorkbenchError: as `api.look.dispatched`.
    """
    if given["cluster"] is None or given["folder"] is not None or not _is_pulsar(given):
        return None
    if asked := [option for name, option in _NOT_YET.items() if given[name]]:
        raise UsageError(
            f"{asked[0]} does not work on a Pulsar yet: {given['cluster']!r} is one.",
            hint="What works: --group, --topic, --all, --observe and the formats of the output.",
        )
    if given["everything"] and (given["groups"] or given["topics"]):
        raise UsageError("--all takes no --group and no --topic.")
    from workbench.api.look import dispatched
    from workbench.api.requests import Measurements, Times
    from workbench.cli.progress import Steps

    request = Measurements(
        cluster=given["cluster"],
        groups=given["groups"],
        topics=given["topics"],
        times=Times(since=given["since"], until=given["until"], baseline=given["baseline"]),
        observe=given["observe"],
        config=given["config"],
    )
    with Steps(quiet=given["as_json"]) as steps:
        result = dispatched(request, progress=steps)
    assert result is not None  # it is a Pulsar  # noqa: S101
    if given["as_json"]:
        write_json(result.to_json())
    elif not wrote_rows(lambda: [{**row_of(it), "lag_entries": it.lag_entries} for it in result.findings]):
        from workbench.console import open_console
        from workbench.report.terminal import show

        most = {"most": given["top"]} if given["everything"] else {}
        show(open_console(), result.triage, result.capture.samples, **most)
    return result.exit_code


def _is_pulsar(given: Mapping[str, Any]) -> bool:
    from workbench.queues.dispatch import is_dispatched
    from workbench.settings import load_settings

    try:
        return is_dispatched(load_settings(given["config"]).cluster(given["cluster"]))
    except WorkbenchError:  # said where the options have been checked
        return False

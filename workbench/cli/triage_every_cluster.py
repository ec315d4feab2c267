"""`workbench triage --all` without a cluster: all clusters of the settings, one after the other. One that cannot be read is named."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from workbench.cli.options import asked_for_rows
from workbench.errors import ExitCode, UsageError, WorkbenchError
from workbench.safe_output import say_error, tell_page


def clusters_to_triage(given: Mapping[str, Any]) -> list[str]:
    """Names of the clusters of a `triage --all`; empty unless it names none, and the settings have several and no default.

    Raises:
        UsageError: for an output that holds one cluster's table.
    """
    if not given["everything"] or given["cluster"] is not None or given["store"] is not None:
        return []
    from workbench.settings import load_settings

    settings = load_settings(given["config"])
    if settings.default_cluster() is not None or len(settings.clusters) < 2:
        return []
    if asked_for_rows() or given["html"] is not None or given["parquet"] is not None:
        raise UsageError(
            "--html, --parquet, -o csv and -o tsv hold the table of one cluster.", hint="Name it with --cluster."
        )
    return sorted(settings.clusters)


def triage_each(names: list[str], one: Callable[[str], int], *, as_json: bool) -> int:
    """Triage these clusters; with `as_json`, a document each on stdout.

    Args:
        one: triages the cluster of this name, and returns its exit code.

    Returns:
        3 if something lags; else 4 if a cluster could not be read, or a verdict is missing; the code of the first error if none could
        be read.
    """
    codes, failed = list[int](), list[WorkbenchError]()
    for name in names:
        if not as_json:
            tell_page(f"Cluster {name}\n")
        try:
            codes.append(one(name))
        except WorkbenchError as error:  # the other clusters are judged all the same
            failed.append(error)
            say_error(error.message if repr(name) in error.message else f"{name}: {error.message}", error.hint)
    if not codes:
        return failed[0].exit_code
    if ExitCode.FINDINGS in codes:
        return ExitCode.FINDINGS
    return ExitCode.EVIDENCE if failed or ExitCode.EVIDENCE in codes else ExitCode.OK

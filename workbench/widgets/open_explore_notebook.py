"""The notebook `explore`: opens what its parameters, the page's address or the environment name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.api.sql_over_samples import open_samples
from workbench.widgets.prefill import prefill

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def explore(**given: str) -> DataFrame:
    """Read the samples of a cluster or a capture, and register them as the SQL view `samples`.

    Args:
        given: by the names of `Inputs`; `otherwise`: a capture that is read if nothing else is named.

    Raises:
        WorkbenchError: as `api.samples`.
    """
    otherwise = given.pop("otherwise", "")
    it = prefill(given)
    return open_samples(
        (it.capture or (None if it.cluster else otherwise)) or None,
        cluster=it.cluster or None,
        groups=(it.group,) if it.group else (),
        topics=(it.topic,) if it.topic else (),
        since=it.since or None,
        until=it.until or None,
    )

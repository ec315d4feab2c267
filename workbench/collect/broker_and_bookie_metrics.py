"""What the brokers and bookies of a queue that sends entries tell by metrics: from a Prometheus, or from their own pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pyarrow as pa

from workbench.collect.samples_from_prometheus import PrometheusSource
from workbench.collect.scrape import fetch_all, page_series
from workbench.collect.scraped_timestamps import OwnTimes
from workbench.errors import SourceUnreachableError, WorkbenchError
from workbench.judgement_numbers import CHANGE_SECONDS
from workbench.profiles import Profile, load_profile
from workbench.samples import SAMPLES_SCHEMA, concat
from workbench.settings import Cluster
from workbench.window import Window


class DispatcherMetrics:
    """Read once with each look at a cluster.

    A Prometheus is asked once, for half an hour. Pages are those of the settings (`metrics`); without any the brokers' own, at the
    addresses of their admin, where one that tells nothing is no gap: nobody has said that it would. Tokens are not sent.

    Attributes:
        missing: what was asked for and is not there, a sentence each.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._profiles = [load_profile(it) for it in cluster.profiles]
        self._pages = cluster.metrics or [f"{url}/metrics/" for url in cluster.web_addresses]
        self._tables: list[pa.Table] = []
        self._own_times = OwnTimes()
        self.missing: list[str] = []

    def look(self) -> None:
        """Read the pages, unless a Prometheus has them."""
        if self._cluster.prometheus is not None:
            return
        for page in fetch_all(self._pages, timeout_seconds=self._cluster.timeout_seconds):
            error = page.error
            try:
                series = page_series(
                    replace(page, text=_needed(page.text, self._profiles)),
                    self._profiles,
                    cluster=self._cluster.name,
                    own_times=self._own_times,
                )
                self._tables += [it.to_samples() for it in series]
            except SourceUnreachableError as told:
                error = told.message
            if error is not None and self._cluster.metrics:
                self.missing.append(error)
        self.missing += [it for it in self._own_times.refused if it not in self.missing]

    def samples(self, end: datetime) -> pa.Table:
        """All that was read, in `SAMPLES_SCHEMA`; of a Prometheus the half hour before a time."""
        if self._cluster.prometheus is not None:
            start = end - timedelta(seconds=CHANGE_SECONDS)
            try:
                found = PrometheusSource.of(self._cluster, self._profiles).collect(
                    Window(baseline_start=start, start=start, end=end)
                )
            except WorkbenchError as error:
                self.missing.append(error.message)
                return SAMPLES_SCHEMA.empty_table()
            self.missing += found.incomplete
            return found.series.to_samples()
        return concat(self._tables) if self._tables else SAMPLES_SCHEMA.empty_table()


def _needed(text: str, profiles: Sequence[Profile]) -> str:
    """The lines of these profiles: a page of a thousand subscriptions has a hundred thousand others, and parsing is slow."""
    names = tuple(name for it in profiles for name in it.metrics())
    return "".join(line for line in text.splitlines(keepends=True) if line.startswith(names))

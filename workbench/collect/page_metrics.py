"""Names and labels of what metrics pages show, as `PrometheusSource` tells them of a Prometheus: to find profiles, and to draft one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from workbench.collect.samples_from_prometheus import PrometheusSource
from workbench.collect.scrape import exported, fetch_all
from workbench.errors import SourceUnreachableError, UsageError
from workbench.profiles import Profile
from workbench.profiles.profile_fit import asked_for
from workbench.settings import Cluster


@dataclass(slots=True, kw_only=True)
class PageMetrics:
    """All pages of a cluster without a Prometheus; each is read once.

    Attributes:
        silent, partial: a sentence for each page that has not answered while others have.
    """

    urls: Sequence[str]
    profiles: Sequence[Profile] = ()
    timeout_seconds: float = 30.0
    silent: tuple[str, ...] = ()
    _found: dict[str, list[dict[str, str]]] | None = field(default=None)

    @property
    def partial(self) -> tuple[str, ...]:
        """The same as `silent`."""
        return self.silent

    def names(self, *, at: datetime | None = None) -> frozenset[str]:
        """All metric names.

        Raises:
            SourceUnreachableError: if no page answers. UsageError: if a past moment is asked for.
        """
        if at is not None:
            raise UsageError("Metrics pages tell of no past moment.", hint="Leave out --at.")
        return frozenset(self._read())

    def recent(
        self, names: Iterable[str], *, most: int = 1, each: str | None = None, at: datetime | None = None
    ) -> dict[str, list[dict[str, str]]]:
        """Labels of some series of each name; with `each`, as many of each value of this label.

        Raises:
            SourceUnreachableError: if no page answers. UsageError: if a past moment is asked for.
        """
        there = self.names(at=at)
        found: dict[str, list[dict[str, str]]] = {}
        for name in sorted(there.intersection(names)):
            counted: dict[str | None, int] = {}
            for labels in self._read()[name]:
                value = labels.get(each) if each is not None else None
                counted[value] = counted.get(value, 0) + 1
                if counted[value] <= most:
                    found.setdefault(name, []).append(labels)
        return found

    def examples(self, *, at: datetime | None = None, among: frozenset[str] | None = None) -> dict[str, dict[str, str]]:
        """Every exported metric name of the profiles, with the labels of the series that has most (and those that its name carries).

        Raises:
            SourceUnreachableError: if no page answers. UsageError: if a past moment is asked for.
        """
        wanted = asked_for(self.profiles, self.names(at=at) if among is None else among)
        told = {metric: max(self._read()[metric], key=len) for metric in wanted}
        return {wanted[metric][0]: {**labels, **wanted[metric][1]} for metric, labels in told.items()}

    def _read(self) -> dict[str, list[dict[str, str]]]:
        if self._found is not None:
            return self._found
        found: dict[str, list[dict[str, str]]] = {}
        failed = []
        for page in fetch_all(self.urls, timeout_seconds=self.timeout_seconds):
            try:
                for name, labels in list(exported(page)):
                    found.setdefault(name, []).append({"__name__": name, **labels})
            except SourceUnreachableError as error:
                failed.append(error)
        if failed and len(failed) == len(self.urls):
            raise SourceUnreachableError(" ".join(it.message for it in failed), hint=failed[0].hint)
        self._found, self.silent = found, tuple(it.message for it in failed)
        return found


def names_of_metrics(
    cluster: Cluster,
    profiles: Sequence[Profile],
    *,
    timeout_seconds: float | None = None,
    match: Mapping[str, str] | None = None,
) -> PrometheusSource | PageMetrics:
    """What tells which metrics a cluster has: its Prometheus, as that is what a triage reads, or without one its pages.

    Args:
        timeout_seconds: of one request; None: that of the settings.
        match: only series with these labels, besides those of the settings.

    Raises:
        UsageError: if labels are asked for, and there are only pages.
    """
    seconds = cluster.timeout_seconds if timeout_seconds is None else timeout_seconds
    addresses = cluster.prometheus_servers
    if addresses:
        if match:
            addresses = tuple(it.model_copy(update={"match": {**(it.match or {}), **match}}) for it in addresses)
        return PrometheusSource.of(cluster, profiles, addresses=addresses, timeout_seconds=seconds)
    if match:
        raise UsageError(
            "Metrics pages tell of no scrape job, and have no labels of a scrape.", hint="Leave out --job and --match."
        )
    return PageMetrics(urls=cluster.metrics, profiles=profiles, timeout_seconds=seconds)

"""What processes measure in their threads, out of pages that were scraped: read at the end of a recording, as a Prometheus with all of
its samples would be.

Whose threads these are, and how many records a call had, only all that the clients beside them have told in that time says.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workbench.collect.groups_of_processes import READ
from workbench.collect.matrix_parser import Matrix
from workbench.collect.one_prometheus import AskedPrometheus
from workbench.collect.samples_from_prometheus import Collected, PrometheusSource
from workbench.collect.selectors import LabelMatcher, MatcherType
from workbench.errors import MixedSourcesError
from workbench.profiles import Profile
from workbench.prometheus_settings import PrometheusAddress
from workbench.samples import SeriesTable, concat, most_trusted
from workbench.window import Window

_Labels = tuple[tuple[str, str], ...]


@dataclass(slots=True, kw_only=True)
class PageHistory:
    """Samples of the profiles whose members are threads, and of the clients beside them, with the labels of their pages.

    Args:
        profiles: of the recording, in order of trust.
    """

    profiles: Sequence[Profile]
    _threads: tuple[Profile, ...] = field(init=False)
    _clients: tuple[Profile, ...] = field(init=False)
    # Of a metric's name: whether nothing, one sample or all of them are kept.
    _most: dict[str, int | None] = field(default_factory=dict)
    _kept: dict[_Labels, tuple[array[int], array[float]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Without a profile of threads, nothing is kept."""
        self._threads = tuple(it for it in self.profiles if it.member_is == "thread")
        self._clients = tuple(it for it in self.profiles if it.member_is == "client_id") if self._threads else ()

    def keep(self, metric: str, labels: Mapping[str, str], at: float, value: float) -> None:
        """Keep a sample that is wanted, of a client's others the first alone."""
        most = self._most[metric]
        key = tuple(sorted({**labels, "__name__": metric}.items()))
        times, values = self._kept.setdefault(key, (array("q"), array("d")))
        if most is None or len(times) < most:
            times.append(round(at * 1e6))
            values.append(value)

    def wants(self, metric: str) -> bool:
        """Whether samples of this name are kept: of clients, all of what they have read, and of the rest that it is there."""
        if metric not in self._most:
            read = [(it, name[0]) for it in self._clients if (name := it.read_name(metric)) is not None]
            meant = {signal for it, name in read for signal, *_ in it.metrics()[name]}
            is_threads = any(it.read_name(metric) is not None for it in self._threads)
            self._most[metric] = None if is_threads or READ in meant else len(read[:1])
        return self._most[metric] != 0

    def with_threads(
        self, samples: pa.Table, window: Window, *, cluster: str, members: Mapping[str, str], aliases: Mapping[str, str]
    ) -> tuple[pa.Table, tuple[str, ...]]:
        """The samples of a recording with what its threads tell in place of what single looks told of them, and notes on copies.

        Args:
            samples: of the recording.
            window: all of it.
            members: client id or application to group.
            aliases: names in `samples` of clients that have the name of another one.
        """
        if not self._kept:
            return samples, ()
        try:
            found = self._collected(window, cluster, members, pc.unique(samples["topic"]).drop_null().to_pylist())
        except MixedSourcesError as error:  # what was recorded stays, without what cannot be told
            return samples, (error.message,)
        own = [it.name for it in self._threads]
        threads = found.series.where(pc.is_in(found.series.names["source"], pa.array(own)))
        if not len(threads):
            return samples, ()
        # The first client of a name has it in the recording as it is.
        of_clients = samples.filter(
            pc.is_in(samples["source"], pa.array([it.name for it in self._clients], pa.string()))
        )
        alone = {*pc.unique(of_clients["member"]).to_pylist()} - aliases.keys()
        told = ((it, (it or "").rpartition(" (")[0]) for it in threads.names["member"].to_pylist())
        named = threads.renamed("member", [name if name in alone and it not in aliases else it for it, name in told])
        rest = samples.filter(pc.invert(pc.is_in(samples["source"], pa.array(own))))
        is_told = pc.is_in(rest["signal"], pc.unique(named.names["signal"]))
        by_trust = [
            named.where(pc.equal(named.names["source"], it.name))
            if it in self._threads
            else SeriesTable.of_samples(rest.filter(pc.and_(is_told, pc.equal(rest["source"], it.name)))).merged()
            for it in self.profiles
        ]
        others = pc.invert(pc.is_in(rest["source"], pa.array([it.name for it in self.profiles])))
        kept = rest.filter(pc.or_(pc.invert(is_told), others))
        return concat([kept, most_trusted(by_trust).to_samples()]), found.sources

    def _collected(self, window: Window, cluster: str, members: Mapping[str, str], topics: Sequence[str]) -> Collected:
        profiles = [it for it in self.profiles if it in (*self._threads, *self._clients)]
        pages = PrometheusAddress(url="http://pages")  # nobody asks it
        source = PrometheusSource(addresses=[pages], cluster=cluster, profiles=profiles, members=members, topics=topics)
        source.servers = [_Kept(url=pages.url, name="pages", kept=self._kept)]
        return source.collect(window)


@dataclass(slots=True)
class _Kept(AskedPrometheus):
    """Answers as a Prometheus does that has these samples."""

    kept: Mapping[_Labels, tuple[array[int], array[float]]] = field(default_factory=dict)

    def fetch(self, matchers: Sequence[LabelMatcher], window: Window, *, by_chunks: bool) -> Iterator[Matrix]:
        """Yield the series that are meant, whole."""
        del window, by_chunks
        found = [(labels, *samples) for key, samples in self.kept.items() if _is_meant(labels := dict(key), matchers)]
        yield Matrix(
            [labels for labels, *_ in found],
            np.array([len(times) for _, times, _ in found], np.int64),
            np.concatenate([np.zeros(0, np.int64), *(np.asarray(it, np.int64) for _, it, _ in found)]),
            np.concatenate([np.zeros(0), *(np.asarray(it) for *_, it in found)]),
        )


def _is_meant(labels: Mapping[str, str], matchers: Sequence[LabelMatcher]) -> bool:
    return all(
        (labels.get(it.name, "") == it.value)
        if it.type is MatcherType.EQUAL
        else re.fullmatch(it.value, labels.get(it.name, "")) is not None
        for it in matchers
    )

"""Samples of a cluster from its Prometheus, or from several: each is asked for everything, their series are joined, and then judged.

Whether a source is trusted, a copy, late or silent is decided over the joined series, so it does not depend on which server has them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workbench.background import in_background
from workbench.collect.current_partition_owner import of_present_owners
from workbench.collect.duplicate_series import OFFSETS, count_once
from workbench.collect.groups_of_processes import GroupsOfProcesses, with_all_time
from workbench.collect.join_answers_of_servers import joined
from workbench.collect.matrix_parser import Matrix
from workbench.collect.one_prometheus import AskedPrometheus
from workbench.collect.processes_of_one_name import place_of
from workbench.collect.restore_underscored_names import Spelling, in_full_first, underscored
from workbench.collect.selectors import LabelMatcher, named, one_of
from workbench.collect.source_join import (
    also_as_written,
    named_by_client,
    namesakes,
    with_derived,
    with_groups,
    with_patterns,
)
from workbench.collect.whole_from_parts_or_rates import Wholes
from workbench.errors import SourceUnreachableError
from workbench.humanize import listed
from workbench.profiles import LeftOut, MappingRule, Profile, Quality
from workbench.profiles.profile_fit import asked_for
from workbench.prometheus_settings import PrometheusAddress, names_of
from workbench.samples import OF_A_MEMBER, SampleBatch, SeriesTable, concat_series, most_trusted
from workbench.settings import Cluster
from workbench.signals import SIGNALS, Grain, Kind
from workbench.window import Window

_MOST_NAMES_IN_QUERY = 200  # a longer list would make the URL too long for some proxies; then all topics are queried
_EXAMPLES = 3  # of each name, to find one with all of its labels
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """Samples by series, what is known to be missing, of it what a server did not answer, and how many sources measured the same."""

    series: SeriesTable
    incomplete: tuple[str, ...] = ()
    unanswered: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class PrometheusSource:
    """All Prometheus of a cluster.

    Args:
        addresses: one or more.
        cluster: name for the samples' `cluster` column.
        profiles: in order of trust.
        timeout_seconds: for one query.
        members: client id or application to group, for profiles without a group.
        topics: that are known to be there.
        copies: labels that tell copies of one measurement apart.
        step_seconds: forces a resolution; None: raw samples, or a suitable step for long windows.
    """

    addresses: Sequence[PrometheusAddress]
    cluster: str
    profiles: Sequence[Profile]
    timeout_seconds: float = 30.0
    step_seconds: int | None = None
    members: Mapping[str, str] = field(default_factory=dict)
    topics: Collection[str] = ()
    copies: Sequence[str] = ()
    servers: list[AskedPrometheus] = field(init=False)
    _silent: dict[int, SourceUnreachableError] = field(default_factory=dict)
    _shared: set[int] = field(default_factory=set)
    _left_out: LeftOut = field(default_factory=LeftOut)

    def __post_init__(self) -> None:
        """Name the servers; none is asked yet."""
        self.servers = [
            AskedPrometheus(
                url=it.url,
                name=name,
                headers=it.headers or {},
                match=it.match or {},
                timeout_seconds=self.timeout_seconds,
                step_seconds=self.step_seconds,
                is_one_of_several=len(self.addresses) > 1,
            )
            for it, name in zip(self.addresses, names_of(self.addresses), strict=True)
        ]

    @classmethod
    def of(cls, cluster: Cluster, profiles: Sequence[Profile], **more: Any) -> PrometheusSource:
        """Every Prometheus of a cluster's settings; `more` are further arguments, or others than the settings'."""
        settings: dict[str, Any] = {
            "addresses": cluster.prometheus_servers,
            "timeout_seconds": cluster.timeout_seconds,
            "copies": cluster.copies,
        }
        return cls(cluster=cluster.name, profiles=profiles, **(settings | more))

    def collect(
        self, window: Window, *, groups: Sequence[str] | None = None, topics: Sequence[str] | None = None
    ) -> Collected:
        """Query all signals of the profiles, over baseline and window.

        Raises:
            SourceUnreachableError: if no Prometheus answers, or each with an error. What some do not answer is `incomplete`.
            MixedSourcesError: if two clusters answer.
        """
        self._begin()
        tables: dict[int, SeriesTable] = {}
        sources: list[str] = []
        spelling = Spelling.of_groups([*self.members.values(), *(groups or ())])
        spelling.known["topic"].update(topics or (), self.topics)
        processes = GroupsOfProcesses()
        for at in in_full_first(self.profiles):
            generations = self.profiles[at].generations()
            found = [
                self._of_generation(it, window, groups, topics, sources, spelling, processes) for it in generations
            ]
            tables[at] = most_trusted(found, by=OF_A_MEMBER)
        series, former = of_present_owners(most_trusted([tables[at] for at in sorted(tables)]), self.profiles)
        return Collected(
            series=with_derived(series),
            incomplete=(*self.partial, *self._left_out.words(), *dict.fromkeys(spelling.notes)),
            unanswered=self.partial,
            sources=tuple(dict.fromkeys([*self._shared_words(), *sources, *former, *self._left_out.notes()])),
        )

    def _of_generation(
        self,
        profile: Profile,
        window: Window,
        groups: Sequence[str] | None,
        topics: Sequence[str] | None,
        sources: list[str],
        spelling: Spelling,
        processes: GroupsOfProcesses,
    ) -> SeriesTable:
        """Series of a profile with one name for each metric, with their groups; notes on copies are added to `sources`."""
        by_group = [rule for _, rule in profile.rules() if "group" in rule.labels]
        told = [(SIGNALS[signal].grain, rule) for signal, rule in profile.rules() if "group" not in rule.labels]
        others = [rule for grain, rule in told if grain is not Grain.PROCESS]
        of_processes = [rule for grain, rule in told if grain is Grain.PROCESS]
        found = self._collect(profile, by_group, window, groups=groups, topics=topics)
        # Groups that this exporter does not know may need the ends of its logs: which topics they read is not known here.
        for_others = any(map(_needs_ends, self.profiles))
        if others and (len(found.series) or not by_group or for_others):
            known, named = (pc.unique(found.series.names[it].drop_null()).to_pylist() for it in ("group", "topic"))
            all_here = bool(groups) and (not for_others or set(known).issuperset(groups or ()))
            seen = topics or (sorted(named) if all_here else None)
            found = _joined([found, self._collect(profile, others, window, groups=None, topics=seen)])
        # Every process of a company has them: only those of the clients are asked for.
        for label, places in processes.by_label.items() if of_processes else ():
            for at in range(0, len(places), _MOST_NAMES_IN_QUERY):
                theirs = one_of(label, places[at : at + _MOST_NAMES_IN_QUERY])
                more = self._collect(profile, of_processes, window, groups=None, topics=None, only=theirs)
                found = _joined([found, more])
        members = dict(self.members)
        if profile.member_is == "client_id":
            clients = pc.unique(found.series.names["member"]).to_pylist()
            # Who is listed is no guess.
            listed_first = {**named_by_client(clients, spelling.known["group"]), **members}
            members = with_patterns(listed_first, found.series.names["member"])
            if any(it.member_is == "thread" for it in self.profiles):
                processes.learn(found.series, found.labels, members)
        elif profile.member_is == "thread":
            called = [*pc.unique(found.series.names["member"]).to_pylist(), *map(place_of, found.labels)]
            settled = also_as_written(self.members) if "member" in profile.underscored else self.members
            mapped = with_patterns(settled, pa.chunked_array([called], pa.string()))
            called_alike = namesakes(spelling.known["group"])
            found = _Found(*processes.threads(found.series, found.labels, mapped, namesakes=called_alike))
        counted = count_once(found.series, found.labels, profile, copies=self.copies)
        sources += counted.notes
        members |= {to: members[of] for to, of in counted.aliases.items() if of in members}
        once = with_all_time(counted.series) if of_processes else counted.series
        whole = spelling.corrected(Wholes(profile).of(once), profile)
        return with_groups(whole, profile, members, groups=groups)

    @property
    def partial(self) -> tuple[str, ...]:
        """What is missing from the last answers: as the servers report it, and the servers that are silent."""
        if len(self.servers) == 1:
            return self.servers[0].partial
        told = [f"{it.name}: {text}" for it in self.servers for text in it.partial]
        return tuple(dict.fromkeys([*told, *self.silent]))

    @property
    def silent(self) -> tuple[str, ...]:
        """A sentence for each server that did not answer while others did."""
        return tuple(
            f"{error.message} What only this Prometheus measures is missing."
            for _, error in sorted(self._silent.items())
        )

    def names(self, *, at: datetime | None = None) -> frozenset[str]:
        """All metric names, also of series without recent samples.

        Args:
            at: in the hour before this instant; default: whatever the servers have.

        Raises:
            SourceUnreachableError: if no Prometheus answers.
        """
        return frozenset().union(*self._each(lambda it: it.names(at=at)).values())

    def recent(
        self, names: Iterable[str], *, most: int = 1, each: str | None = None, at: datetime | None = None
    ) -> dict[str, list[dict[str, str]]]:
        """Labels of some series that have samples in the last ten minutes (`RECENT_SECONDS`).

        Args:
            names: metric names.
            most: series of each; with `each`, of each value of this label.
            at: the end of these minutes; default: now.

        Raises:
            SourceUnreachableError: if no Prometheus answers.
        """
        wanted = list(names)
        found: dict[str, list[dict[str, str]]] = {}
        for answer in self._each(lambda it: it.recent(wanted, most=most, each=each, at=at)).values():
            for name, series in answer.items():
                known = found.setdefault(name, [])
                known += [labels for labels in series if labels not in known][
                    : most - len(known) if each is None else None
                ]
        return dict(sorted(found.items()))

    def examples(self, *, at: datetime | None = None, among: frozenset[str] | None = None) -> dict[str, dict[str, str]]:
        """Every exported metric name of the profiles, with the labels of one recent series (and those that its name carries).

        Of a client's own count and those of its topics, under one name, it is one with most labels.

        Args:
            at: the end of the minutes that count as recent; default: now.
            among: of `names`, if they are known already.

        Raises:
            SourceUnreachableError: if no Prometheus answers.
        """
        wanted = asked_for(self.profiles, self.names(at=at) if among is None else among)
        found = self.recent(wanted, most=_EXAMPLES, at=at)
        told = {metric: max(those, key=len) for metric, those in found.items()}
        return {wanted[metric][0]: {**labels, **wanted[metric][1]} for metric, labels in told.items()}

    def read(self, metric: str, window: Window) -> Iterator[tuple[dict[str, str], np.ndarray, np.ndarray]]:
        """Labels, µs since the epoch and values of every series of a metric, whatever its labels are.

        Raises:
            SourceUnreachableError: if no Prometheus answers.
        """
        for matrix in self._fetch([one_of("__name__", [metric])], window, by_chunks=False):
            yield from matrix.series()

    def _begin(self) -> None:
        self._silent.clear()
        self._shared.clear()
        self._left_out = LeftOut()
        for it in self.servers:
            it.begin()

    def _collect(
        self,
        profile: Profile,
        rules: Iterable[MappingRule],
        window: Window,
        *,
        groups: Sequence[str] | None,
        topics: Sequence[str] | None,
        only: LabelMatcher | None = None,
    ) -> _Found:
        tables = []
        wanted = {id(rule) for rule in rules}
        by_labels: dict[tuple[str | None, str | None], list[str]] = {}
        for name, meanings in profile.metrics().items():
            rules_of = [rule for _, rule, _ in meanings if id(rule) in wanted]
            of = {(rule.asked_by("group", name), rule.asked_by("topic", name)) for rule in rules_of}
            if of:  # meanings with other labels than each other are asked for without any: each series once
                by_labels.setdefault(of.pop() if len(of) == 1 else (None, None), []).append(name)
        for (group_label, topic_label), names in by_labels.items():
            matchers = [named(sorted(names)), *([only] if only is not None else [])]
            if groups and group_label:
                matchers.append(one_of(group_label, groups))
            if topics and topic_label and len(topics) <= _MOST_NAMES_IN_QUERY:
                also = {underscored(it) for it in topics} if profile.topics_twice else ()
                matchers.append(one_of(topic_label, sorted({*topics, *also})))
            narrow = len(matchers) > 1
            for matrix in self._fetch(matchers, window, by_chunks=not narrow):
                for view in profile.views():
                    tables.append(_to_series(matrix, view, self.cluster, window, self._left_out))
        return _joined(tables)

    def _fetch(self, matchers: Sequence[LabelMatcher], window: Window, *, by_chunks: bool) -> Iterator[Matrix]:
        """Yield the samples of all servers, in parts of the window."""
        if len(self.servers) == 1:
            yield from self.servers[0].fetch(matchers, window, by_chunks=by_chunks)
            return
        parts = [it.fetch(matchers, window, by_chunks=by_chunks) for it in self.servers]
        of_server = {id(it): part for it, part in zip(self.servers, parts, strict=True)}
        while True:
            found = self._each(lambda it: next(of_server[id(it)], None))
            answers = {at: matrix for at, matrix in found.items() if matrix is not None}
            if not answers:
                return
            whole = joined(list(answers.values()), rises=self._rises)
            self._shared.update(list(answers)[at] for at in whole.shared)
            yield whole.matrix

    def _each(self, ask: Callable[[AskedPrometheus], T]) -> dict[int, T]:
        """Answers by the server's place in the settings; one that fails is not asked again until the next `collect`."""
        if len(self.servers) == 1:
            return {0: ask(self.servers[0])}
        asked = [at for at in range(len(self.servers)) if at not in self._silent]
        running = {at: in_background(partial(ask, self.servers[at]), name="prometheus") for at in asked}
        answers: dict[int, T] = {}
        for at, answer in running.items():
            try:
                answers[at] = answer.result()
            except SourceUnreachableError as error:
                self._silent[at] = error
        if len(self._silent) == len(self.servers):
            errors = [self._silent[at] for at in sorted(self._silent)]
            raise SourceUnreachableError(" ".join(it.message for it in errors), hint=errors[0].hint)
        return answers

    def _rises(self, labels: Mapping[str, str]) -> bool:
        """Whether the values of such a series only grow, until they begin anew: counters and offsets."""
        found = [it.meaning(labels.get("__name__", ""), labels) for it in self.profiles]
        signals = {it.signal for it in found if it is not None}
        return any(it in OFFSETS or SIGNALS[it].kind is not Kind.GAUGE for it in signals)

    def _shared_words(self) -> list[str]:
        """A note on the servers that measure the same."""
        if not self._shared:
            return []
        names = listed([self.servers[at].name for at in sorted(self._shared)])
        return [f"{names} have the same series: each counts once, and one fills the gaps of another"]


@dataclass(frozen=True, slots=True)
class _Found:
    """Series with the server's own labels of each, (k,)."""

    series: SeriesTable
    labels: Sequence[Mapping[str, str]]


def _needs_ends(profile: Profile) -> bool:
    """Whether it tells how far groups have read, and neither their lag nor the ends of the logs: another profile tells those.

    An end that is a proxy is none: Spark's is that of the batch which it has read, so nothing would ever wait behind it.
    """
    exact = profile.quality("log_end_offset") is Quality.EXACT
    return "committed_offset" in profile.signals and "consumer_lag" not in profile.signals and not exact


def _joined(tables: Sequence[_Found]) -> _Found:
    return _Found(concat_series([it.series for it in tables]), [of for it in tables for of in it.labels])


def _to_series(matrix: Matrix, profile: Profile, cluster: str, window: Window, left_out: LeftOut) -> _Found:
    batch = SampleBatch(cluster, profile.name)
    known = np.zeros(len(matrix), bool)
    states = np.full(len(matrix), np.nan)  # placeholder for the values of a series
    present = np.zeros(len(matrix), bool)
    for at, labels in enumerate(matrix.labels):
        meaning = profile.meaning(labels.get("__name__", ""), labels, left_out=left_out)
        if meaning is None:
            continue
        known[at] = True
        if meaning.value is not None:
            states[at], present[at] = meaning.value, meaning.by_presence
        batch.name(
            meaning.signal, meaning.labels,
            stat=meaning.stat, le=meaning.le, scale=meaning.scale, plus=meaning.plus, counted_twice=meaning.counted_twice,
        )  # fmt: skip
    first, last = round(window.baseline_start.timestamp() * 1e6), round(window.end.timestamp() * 1e6)
    inside = (matrix.ts_us >= first) & (matrix.ts_us <= last)  # chunks and servers differ at the edges
    if not known.all():
        inside &= np.repeat(known, matrix.lengths)
    found = matrix.where(inside)
    values = found.values
    if (stated := ~np.isnan(states)).any():
        values = np.where(
            np.repeat(stated, found.lengths),
            np.where((values != 0) | np.repeat(present, found.lengths), np.repeat(states, found.lengths), np.nan),
            values,
        )
    lengths = found.lengths[known]
    batch.fill(lengths, found.ts_us, values)
    here = np.flatnonzero(known)[lengths > 0]  # a series without samples is left out
    return _Found(batch.to_series(), [matrix.labels[at] for at in here])

"""Several series with one meaning: copies of one measurement, parts of one, or two clusters.

Two series of a profile have the same canonical labels if they differ only in labels that the profile does not map:

- replica labels (a pair of Prometheus servers behind Thanos or Mimir), or two exporters of one cluster, or a pod that has moved:
  *copies*. The measurement counts once. One source is used as long as it has samples; another one fills its gaps.
- a label of the metric itself on a counter (an error type): *parts*. They are added up, those of each copy by themselves.
- the same client id on two pods: two *members*.
- labels of the partition's owner (a client id): *owners*, one after the other; a former one's series stands
  (`collect.current_partition_owner`).
- labels that change with what is described (`passing` in a profile): *one series*, of which the part that began last counts.
- two clusters. No sum or choice would be right, so this is refused. A label such as `cluster` tells them apart; where only the scrape
  target differs, the offsets do: one log has one end. If that is so for a few groups or topics alone, those have no usable values.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import pyarrow as pa

from workbench.collect.current_partition_owner import OWNER_LABELS, latest_begun, owner_at
from workbench.collect.disputed_groups import Unit, contradicted, dispute_notes, without_disputed
from workbench.collect.measurer_labels import CLUSTER_LABELS, PLACE_LABELS, REPLICA_LABELS, Found, Source, varying
from workbench.collect.processes_of_one_name import place_of
from workbench.collect.source_agreement import (
    Measured,
    compared_lag,
    compared_offsets,
    has_gap,
    in_gaps,
    measured,
    reaches,
    surely_whole,
)
from workbench.collect.sum_counter_series import CounterParts
from workbench.errors import MixedSourcesError
from workbench.humanize import listed
from workbench.profiles import Profile
from workbench.samples import NAMES_SCHEMA, SeriesTable, codes_of, concat_series

OFFSETS = ("log_end_offset", "committed_offset", "log_start_offset")
# Of each pair of sources at first, besides one of each topic and group: the offsets of one log already decide.
_COMPARED_KEYS = 200
_TOGETHER_US = 60_000_000  # a restarted process and its former self are both there for a moment
_COVERED_RATIO = 0.9
_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """The result of counting each measurement once.

    Attributes:
        series: without copies.
        notes: how many sources measured the same, in words.
        aliases: new name of a member to its own, where two members had one name.
    """

    series: SeriesTable
    notes: tuple[str, ...] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)


def count_once(
    series: SeriesTable, labels: Sequence[Mapping[str, str]], profile: Profile, *, copies: Sequence[str] = ()
) -> Counted:
    """Merge copies and parts; tell members of one name apart.

    Args:
        series: of one profile.
        labels: what the server said of each series, (k,).
        profile: says which labels have a meaning.
        copies: labels that the settings declare to tell copies apart.

    Raises:
        MixedSourcesError: if two clusters, or two sources that contradict each other in most of what they share, have series of the
            same names.
    """
    notes = _clusters_named(labels)
    codes = codes_of(series.names, NAMES_SCHEMA.names)
    repeated = np.flatnonzero((np.bincount(codes) > 1)[codes]) if len(codes) else codes
    if not len(repeated):
        return Counted(series=series, notes=notes)
    mapped: dict[tuple[str, str], frozenset[str]] = {}
    signals = series.names["signal"].to_pylist()
    extras = [_unmapped(labels[at], signals[at], profile, mapped) for at in repeated.tolist()]
    by_code: dict[int, dict[Source, list[int]]] = defaultdict(lambda: defaultdict(list))
    for at, code, extra in zip(repeated.tolist(), codes[repeated].tolist(), extras, strict=True):
        by_code[code][extra].append(at)
    passing = frozenset(name for _, rule in profile.rules() for name in rule.passing)
    several = {code: found for code, found in by_code.items() if len(found) > 1}
    series, clashes = CounterParts(series, frozenset(copies), passing).added_up(several)
    if not clashes:
        return Counted(series=series, notes=notes)  # one series in several parts of the window
    return _Clashes(series, clashes, frozenset(copies), passing).settled()


def _clusters_named(labels: Sequence[Mapping[str, str]]) -> tuple[str, ...]:
    """A note if the series name several clusters, whose groups and topics have other names."""
    notes = []
    for name in sorted(CLUSTER_LABELS & labels[0].keys()) if labels else ():
        values = sorted({of[name] for of in labels if name in of})
        if len(values) > 1:
            shown = listed([f'{name}="{value}"' for value in values], most=_SHOWN)
            notes.append(f"the series carry {shown}: more than one cluster may answer (setting: match)")
    return tuple(notes)


def _unmapped(
    labels: Mapping[str, str], signal: str, profile: Profile, mapped: dict[tuple[str, str], frozenset[str]]
) -> Source:
    """Labels without a meaning for a signal; `mapped` keeps the others by metric and signal.

    What tells outcomes apart where they are counted, makes parts of the times.
    """
    metric = labels.get("__name__", "")
    used = mapped.get((metric, signal))
    if used is None:
        used = frozenset({"__name__", "le"})
        named = profile.read_name(metric)
        for of, rule, _ in profile.metrics()[named[0]] if named is not None else ():
            used |= rule.used - set(rule.passing) if of == signal else frozenset()
        mapped[metric, signal] = used
    return tuple(sorted([pair for pair in labels.items() if pair[0] not in used]))


class _Clashes:
    """Keys with several series: which of them are copies or members, and the sources behind them."""

    def __init__(
        self,
        series: SeriesTable,
        clashes: Found,
        declared: frozenset[str],
        passing: frozenset[str],
    ) -> None:
        self.series = series
        self.passing = passing
        self.clashes = clashes
        self.declared = declared
        self.starts = series.starts
        self.signals = series.names["signal"].to_pylist()
        self.members = series.names["member"].to_pylist()
        self.units: list[Unit] = list(
            zip(series.names["group"].to_pylist(), series.names["topic"].to_pylist(), strict=True)
        )
        self.whole = surely_whole(series.ts_us, series.values, series.lengths)
        # As lists: numpy's numbers are slow one by one, and a fleet has a million series.
        self.firsts: list[int] = series.ts_us[self.starts].tolist()
        self.lasts: list[int] = series.ts_us[self.starts + series.lengths - 1].tolist()
        self.lengths: list[int] = series.lengths.tolist()
        known: dict[tuple[Source, ...], frozenset[str]] = {}
        self.varying = {code: varying(found, known) for code, found in clashes.items()}
        self.telling = tuple(sorted(set().union(*self.varying.values())))  # the labels that tell sources apart
        self.source_of: dict[Source, Source] = {}
        self.disputed: dict[Unit, str] = {}  # with the label that tells the sources apart

    def _first(self, code: int) -> int:
        return next(iter(self.clashes[code].values()))[0]

    def settled(self) -> Counted:
        passed = {code for code in self.clashes if self.varying[code] <= self.passing}
        owned = {code for code in self.clashes if self.varying[code] <= OWNER_LABELS} - passed
        copied = {code: found for code, found in self.clashes.items() if code not in owned | passed}
        clusters = {name for code in copied for name in self.varying[code] & CLUSTER_LABELS} - self.declared
        if clusters:
            self._refuse(copied, sorted(clusters)[0], "Two clusters answer")
        sources = {code: {source: self._source(source) for source in found} for code, found in copied.items()}
        members = self._told_apart(copied, sources)
        rank, notes = self._ranked({code: found for code, found in copied.items() if code not in members}, sources)
        dropped: list[int] = []
        made: list[SeriesTable] = []
        for code, found in copied.items():
            if code in members:
                continue
            units = sorted(found.items(), key=lambda item: rank.get(sources[code][item[0]], len(rank)))
            used = self._filled([at for _, at in units])
            if used is not None:
                made.append(used)
                dropped += [at for _, ats in units for at in ats]
            else:
                dropped += [at for _, ats in units[1:] for at in ats]
        for code, commits in self._commits_of(owned).items():
            made.append(self._of_owners(code, commits))
            dropped += [at for ats in self.clashes[code].values() for at in ats]
        for code in passed:
            ats = [at for found in self.clashes[code].values() for at in found]
            made.append(latest_begun(self.series.take(np.array(ats, np.int64))))
            dropped += ats
        series, aliases = self._with_members(members, sources)
        kept = np.ones(len(series), bool)
        kept[dropped] = False
        whole = concat_series([series.where(pa.array(kept)), *made])
        return Counted(
            series=without_disputed(whole, self.disputed),
            notes=(*notes, *dispute_notes(self.disputed)),
            aliases=aliases,
        )

    def _source(self, extra: Source) -> Source:
        found = self.source_of.get(extra)
        if found is None:
            found = self.source_of[extra] = tuple(pair for pair in extra if pair[0] in self.telling)
        return found

    # Copies

    def _ranked(
        self, copied: Mapping[int, Mapping[Source, list[int]]], sources: Mapping[int, Mapping[Source, Source]]
    ) -> tuple[dict[Source, int], tuple[str, ...]]:
        """Order of the sources, best first; sources that contradict each other are refused."""
        samples: dict[Source, int] = defaultdict(int)
        for code, found in copied.items():
            for extra, ats in found.items():
                samples[sources[code][extra]] += sum([self.lengths[at] for at in ats])
        if not samples:
            return {}, ()
        behind = self._behind(copied, sources)
        order = sorted(samples, key=lambda source: (source in behind, -samples[source], source))
        used = ", ".join(f"{name}={value}" for name, value in order[0]) or "without these labels"
        several = f"{len(order)} sources measure the same ({listed(self.telling)})"
        note = f"{several}: each measurement counts once, from {used}, while it has samples"
        late = [", ".join(f"{name}={value}" for name, value in source) for source in order if source in behind]
        notes = [note, *(f"the source {name} stands still or is late: not used" for name in late[:_SHOWN])]
        return {source: place for place, source in enumerate(order)}, tuple(notes)

    def _behind(
        self, copied: Mapping[int, Mapping[Source, list[int]]], sources: Mapping[int, Mapping[Source, Source]]
    ) -> set[Source]:
        """Sources that lie behind another one of the same cluster."""
        pairs: dict[tuple[Source, Source], list[int]] = defaultdict(list)
        for wanted in OFFSETS:
            for code, found in copied.items():
                if self.signals[self._first(code)] != wanted:
                    continue
                named = sorted((sources[code][extra], extra) for extra in found)
                for at, (one, _) in enumerate(named):
                    for other, _ in named[at + 1 :]:
                        pairs[one, other].append(code)
        compare = compared_offsets
        if not pairs:
            pairs, compare = self._by_lag(copied, sources), compared_lag
        behind: set[Source] = set()
        for (one, other), codes in pairs.items():

            @cache
            def answer(code: int, one: Source = one, other: Source = other) -> str | None:
                by_source = {sources[code][extra]: ats for extra, ats in copied[code].items()}
                return compare(self._samples(by_source[one]), self._samples(by_source[other]))

            units: dict[Unit, list[int]] = defaultdict(list)
            for code in codes:
                units[self.units[self._first(code)]].append(code)
            some = {*codes[:_COMPARED_KEYS], *(found[0] for found in units.values())}
            counts = Counter(answer(code) for code in some)
            late = "first" if counts["first"] >= counts["second"] else "second"
            # A person who says that they are copies knows better; but one of those may stand still, too.
            if not varying({one: None, other: None}) <= REPLICA_LABELS | self.declared:
                wrong, is_most = contradicted(units, some, answer, besides=late)
                if is_most:
                    self._refuse(copied, _most_telling(one, other), "Sources contradict each other")
                self.disputed |= dict.fromkeys(wrong, _most_telling(one, other))
            behind |= ({one} if late == "first" else {other}) if counts[late] else set()
        return behind

    def _by_lag(
        self, copied: Mapping[int, Mapping[Source, list[int]]], sources: Mapping[int, Mapping[Source, Source]]
    ) -> dict[tuple[Source, Source], list[int]]:
        """Exporters with lag alone."""
        pairs: dict[tuple[Source, Source], list[int]] = defaultdict(list)
        for code, found in copied.items():
            if self.signals[self._first(code)] == "consumer_lag":
                named = sorted(sources[code][extra] for extra in found)
                pairs[named[0], named[1]].append(code)
        return pairs

    def _samples(self, ats: Sequence[int]) -> Measured:
        return measured(self.series, self.starts, ats)

    def _filled(self, units: Sequence[Sequence[int]]) -> SeriesTable | None:
        """The first unit with its gaps filled from the others; None if it has none."""
        lengths = [sum([self.lengths[at] for at in unit]) for unit in units]
        begin, end = self._span([at for unit in units for at in unit])
        covered = reaches(*self._span(units[0]), lengths[0], begin=begin, end=end)
        enough = lengths[0] >= _COVERED_RATIO * max(lengths) and covered
        gapless = len(units[0]) == 1 and self.whole[units[0][0]]
        if enough and (gapless or not has_gap(self._samples(units[0])[0])):
            return None
        whole = self.series.take(np.array([at for unit in units for at in unit], np.int64))
        unit_of = np.repeat(np.repeat(np.arange(len(units)), [len(unit) for unit in units]), whole.lengths)
        kept = unit_of == 0
        for number in range(1, len(units)):
            have = np.sort(whole.ts_us[kept])
            mine = unit_of == number
            kept |= mine & in_gaps(have, whole.ts_us)
        order = np.argsort(whole.ts_us[kept], kind="stable")
        return SeriesTable(
            whole.names.slice(0, 1),
            np.array([int(kept.sum())]),
            whole.ts_us[kept][order],
            whole.values[kept][order],
            whole.flags[kept][order],
        )

    def _span(self, unit: Sequence[int]) -> tuple[int, int]:
        return min([self.firsts[at] for at in unit]), max([self.lasts[at] for at in unit])

    # Owners

    def _commits_of(self, owned: set[int]) -> dict[int, int | None]:
        """For each series that names owners, the commits of the same partition."""
        where = {}
        for code in owned:
            names = self.series.names.slice(self._first(code), 1).to_pylist()[0]
            where[code] = names["signal"], (names["group"], names["topic"], names["partition"])
        commits = {key: code for code, (signal, key) in where.items() if signal == "committed_offset"}
        return {code: commits.get(key) for code, (_, key) in where.items()}

    def _of_owners(self, code: int, commits: int | None) -> SeriesTable:
        """One series: at each time that of the owner."""
        found = self.clashes[code]
        deciding = self.clashes[commits] if commits is not None else found
        owners = [self._samples(deciding.get(extra, ())) for extra in found]
        whole = self.series.take(np.array([at for ats in found.values() for at in ats], np.int64))
        unit_of = np.repeat(np.repeat(np.arange(len(found)), [len(ats) for ats in found.values()]), whole.lengths)
        order = np.argsort(whole.ts_us, kind="stable")
        times = whole.ts_us[order]
        kept = order[owner_at(times, owners, moves=commits is not None) == unit_of[order]]
        first = whole.names.slice(0, 1)
        return SeriesTable(first, np.array([len(kept)]), whole.ts_us[kept], whole.values[kept], whole.flags[kept])

    # Members

    def _told_apart(
        self, copied: Mapping[int, Mapping[Source, list[int]]], sources: Mapping[int, Mapping[Source, Source]]
    ) -> set[int]:
        """Series of several members of one name.

        Processes that one of them has shown to be two are two in all of their series: of a partition that goes from one to the other,
        both tell something for a moment alone.
        """
        processes = {
            code: {(self.members[self._first(code)], it) for it in sources[code].values()}
            for code in copied
            if self._may_be_members(code)
        }
        shown = set[tuple[str | None, Source]]().union(
            *(it for code, it in processes.items() if self._are_members(code))
        )
        return {code for code, it in processes.items() if it <= shown}

    def _may_be_members(self, code: int) -> bool:
        """Whether only a scrape's target tells series of one client id apart."""
        place = self.varying[code] & PLACE_LABELS and not self.varying[code] & self.declared
        return self.members[self._first(code)] is not None and bool(place)

    def _are_members(self, code: int) -> bool:
        """Whether both have samples at the same time, so that they are two processes."""
        spans = sorted(
            (int(times[0]), int(times[-1]))
            for ats in self.clashes[code].values()
            if len(times := self._samples(ats)[0])
        )
        # Each beside the one that began before it and stays longest: one that ends at once may stand between two that stay.
        until = itertools.accumulate((end for _, end in spans), max)
        return any(
            min(longest, end) - begin > max(_TOGETHER_US, (end - begin) // 4)
            for longest, (begin, end) in zip(until, spans[1:], strict=False)
        )

    def _with_members(
        self, members: set[int], sources: Mapping[int, Mapping[Source, Source]]
    ) -> tuple[SeriesTable, dict[str, str]]:
        if not members:
            return self.series, {}
        names = self.series.names["member"].to_pylist()
        aliases: dict[str, str] = {}
        for code in members:
            for extra, ats in self.clashes[code].items():
                where = dict(sources[code][extra])
                place = place_of(where) or ",".join(where.values())
                for at in ats:
                    alias = f"{names[at]} ({place})"
                    aliases[alias] = names[at]
                    names[at] = alias
        return self.series.renamed("member", names), aliases

    def _refuse(self, copied: Mapping[int, Mapping[Source, list[int]]], label: str, what: str) -> None:
        values = sorted({dict(extra).get(label, "") for found in copied.values() for extra in found})
        code = next(iter(copied))
        at = self._first(code)
        subject = " ".join(
            f"{name} {value}"
            for name in ("group", "topic", "member")
            if (value := self.series.names[name][at].as_py()) is not None
        )
        shown = listed([f'{label}="{value}"' for value in values[:_SHOWN]])
        raise MixedSourcesError(
            f"{what}: the series of {subject} are there with {shown}.",
            hint=f'Say which are yours in workbench.toml: match = {{{label} = "{values[0]}"}}. '
            f'If they measure one cluster: copies = ["{label}"].',
        )


def _most_telling(one: Source, other: Source) -> str:
    """The label to ask for: a target's own name changes with each deploy, so another one is better."""
    names = sorted(varying({one: None, other: None}))
    poor = ("instance", "pod", "pod_name", "kubernetes_pod_name", "ip", "uid", "pod_uid", "container_id")
    return next((name for name in names if name not in poor), names[0])

"""Names of groups and topics that stand in the names of metrics, where dots and dashes are underscores: which ones they really are.

Some exporters (Flink's) write labels so, too, and Kafka's Java clients before 4.1 the dots of topics. Other sources tell (Kafka's
member list, exporters with labels, which are read first). A name that nobody else tells stays as it is written. One that two real names
are written as is nobody's: that its series are left out is said.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from workbench.humanize import listed
from workbench.profiles import Profile
from workbench.profiles.labels_in_metric_names import as_written
from workbench.samples import SeriesTable

_SPELLED = ("group", "topic")


def in_full_first(profiles: Sequence[Profile]) -> list[int]:
    """Places of profiles in the order to read them: those that write names in full tell those of the others.

    Clients come before the threads of their processes.
    """
    return sorted(
        range(len(profiles)),
        key=lambda at: (profiles[at].member_is == "thread", bool(profiles[at].carried or profiles[at].topics_twice)),
    )


def underscored(topic: str) -> str:
    """A topic as Kafka's Java clients before 4.1 tell it (KIP-1109): a cluster has no other topic that is written so."""
    return topic.replace(".", "_")


@dataclass(slots=True)
class Spelling:
    """Real names of groups and topics, as far as they are known, and what could not be told (`notes`)."""

    known: dict[str, set[str]] = field(default_factory=lambda: {name: set() for name in _SPELLED})
    notes: list[str] = field(default_factory=list)

    @classmethod
    def of_groups(cls, groups: Iterable[str]) -> Spelling:
        """With these groups known."""
        found = cls()
        found.known["group"].update(groups)
        return found

    def learn(self, series: SeriesTable) -> None:
        """Take the names of a source that writes them in full."""
        for name in _SPELLED:
            self.known[name].update(pc.unique(series.names[name].drop_null()).to_pylist())

    def corrected(self, series: SeriesTable, profile: Profile) -> SeriesTable:
        """The series of a profile with the real names; what the profile has in labels is learnt."""
        if profile.topics_twice and len(series):
            series = self._with_dots(series)
        carried = profile.carried
        if not carried or not len(series):
            self.learn(series)
            return series
        signals = series.names["signal"]
        in_name = {of: pc.is_in(signals, pa.array(sorted(those), pa.string())) for of, those in carried.items()}
        for name in _SPELLED:
            told = series.names[name].filter(pc.invert(in_name[name])) if name in in_name else series.names[name]
            self.known[name].update(pc.unique(told.drop_null()).to_pylist())
        keep = pa.array([True] * len(series))
        for name in sorted(carried.keys() & set(_SPELLED)):
            written = series.names[name]
            real = self._real(name, written.filter(in_name[name]))
            spelled = pa.array([real.get(it, it) for it in written.to_pylist()], pa.string())
            corrected = pc.if_else(in_name[name], spelled, written)
            keep = pc.and_(keep, pc.equal(pc.is_null(corrected), pc.is_null(written)))
            series = series.renamed(name, corrected)
        return series.where(keep)

    def _with_dots(self, series: SeriesTable) -> SeriesTable:
        """Series of Java clients with the topics' own names; those of a client that tells both names stay for who drops the second."""
        with_dots = {underscored(it): it for it in self.known["topic"] if "." in it}
        if not with_dots:
            return series
        keys = list(zip(*(series.names[name].to_pylist() for name in ("signal", "member", "topic")), strict=True))
        both = {(*key[:2], underscored(key[2])) for key in keys if key[2] is not None and "." in key[2]}
        topics = [topic if (*key, topic) in both else with_dots.get(topic, topic) for *key, topic in keys]
        return series.renamed("topic", topics)

    def _real(self, name: str, written: pa.ChunkedArray) -> Mapping[str, str | None]:
        """Written name to the real one; None if there are several."""
        of_written = defaultdict[str, set[str]](set)
        for real in self.known[name]:
            of_written[as_written(real)].add(real)
        found: dict[str, str | None] = {}
        for value in sorted(set(written.drop_null().to_pylist())):
            real_ones = of_written.get(value, {value})
            found[value] = next(iter(real_ones)) if len(real_ones) == 1 else None
            if len(real_ones) > 1:
                shown = listed(sorted(real_ones), most=3)
                self.notes.append(f"series of {value} left out: it may be the {name} {shown}")
        return found

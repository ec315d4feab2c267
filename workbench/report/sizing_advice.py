"""Capacity advice: partitions per broker, rate per partition, and the needs of each lagging subscription."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workbench.collect.capture import Capture
from workbench.humanize import count, counted, plural, printable, rate
from workbench.signals import OF_BROKERS, SIGNALS
from workbench.triage.finding import Finding

# Both from the published practice of a large consumer platform: at most 4,000 partitions for a broker; 5 to 10 MB/s for a partition.
PARTITIONS_PER_BROKER = 4000
PARTITION_MB_PER_SECOND = (5.0, 10.0)
_SHOWN = 10
_BY_ADDRESS = frozenset(it.name for it in SIGNALS.values() if it.grain in OF_BROKERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class SizingAdvice:
    """Capacity advice and its evidence.

    Attributes:
        partitions: of all topics that are read. brokers: at least so many; None if nothing names one.
        advice: sentences. unknown: what could not be judged, and why.
    """

    partitions: int
    brokers: int | None
    advice: tuple[str, ...]
    unknown: tuple[str, ...]


def sizing_of(findings: Sequence[Finding], capture: Capture) -> SizingAdvice:
    """Compute capacity advice."""
    topics: dict[str, int] = {}
    fastest: dict[str, float] = {}
    for it in findings:
        topics[it.topic] = max(topics.get(it.topic, 0), len(it.partitions))
        if it.arrival_per_second is not None and it.partitions:
            each = it.arrival_per_second / len(it.partitions)
            fastest[it.topic] = max(fastest.get(it.topic, 0.0), each)
    partitions = sum(topics.values())
    brokers = _brokers(capture)
    advice, unknown = [], []
    if brokers is None:
        unknown.append(
            "Partitions per broker: unknown, because no broker is measured, and no client exports those it talks to."
        )
    elif partitions > brokers * PARTITIONS_PER_BROKER:
        advice.append(
            f"{counted(partitions, 'partition')} on {plural(brokers, 'broker')} that are measured: more than "
            f"{count(PARTITIONS_PER_BROKER)} each, without counting replicas. Add brokers, or merge small topics."
        )
    else:
        each = partitions / brokers
        advice.append(
            f"{counted(partitions, 'partition')} on {plural(brokers, 'broker')} that are measured: about {count(each)} each, "
            f"of at most {count(PARTITIONS_PER_BROKER)} (replicas not counted)."
        )
    if fastest:
        topic, each = max(fastest.items(), key=lambda item: item[1])
        if each > 0:
            kilobytes = PARTITION_MB_PER_SECOND[1] * 1000 / each
            advice.append(
                f"The busiest partitions are those of {printable(topic)}: {rate(each)} each. That stays under "
                f"{PARTITION_MB_PER_SECOND[1]:g} MB/s as long as a message has less than {count(kilobytes)} kB."
            )
    unknown.append(
        "MB/s per partition: unknown, because no signal has the size of messages. Only their number is judged."
    )
    needing = [it for it in findings if it.scope.needed]
    advice += [
        f"{printable(it.group)} ← {printable(it.topic)} ({str(it.verdict).replace('_', ' ')}) needs "
        f"{it.scope.needed_words} to keep up."
        for it in needing[:_SHOWN]
    ]
    if len(needing) > _SHOWN:
        advice.append(f"{len(needing) - _SHOWN} more need capacity; see their findings.")
    return SizingAdvice(partitions=partitions, brokers=brokers, advice=tuple(advice), unknown=tuple(unknown))


def _brokers(capture: Capture) -> int | None:
    """Clients name brokers by their ids, and the brokers' own pages by their addresses: those of one kind are all different ones."""
    rows = capture.samples.select(["signal", "broker"]).group_by(["signal", "broker"]).aggregate([]).to_pylist()
    names: dict[bool, set[str]] = {True: set(), False: set()}
    for row in rows:
        if row["broker"] is not None:
            names[row["signal"] in _BY_ADDRESS].add(row["broker"])
    return max(map(len, names.values())) or None

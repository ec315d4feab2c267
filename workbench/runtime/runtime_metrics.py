"""Prometheus metrics of the runtime, derived from the table of signals: name, unit and labels are defined once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from workbench.humanize import is_text
from workbench.runtime.guarantee_counters import Sentinels
from workbench.runtime.thread_counters import AttemptBook, Tally
from workbench.signals import SIGNALS, Kind, ProcessingOutcome

# From 0.5 ms (no I/O) to a minute (the default timeout), about 2.5 × apart.
PROCESS_TIME_BUCKETS = (
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
    60.0,
)
# Enqueueing is immediate or waits for room; few buckets, because every partition has its own series.
ENQUEUE_TIME_BUCKETS = (0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 30.0)
MAX_EVENT_TYPES = 100  # a hostile or broken producer can create any number of types; the rest is counted as "other"
OTHER = "other"

# (signal, its label values in the order of the signal's labels, value)
GaugeReading = tuple[str, tuple[str, ...], float]


class RuntimeMetrics:
    """Counters and histograms that the threads write, and gauges that are computed at a scrape."""

    def __init__(self, group: str, *, member: str = "", gauges: Callable[[], Iterable[GaugeReading]]) -> None:
        self.registry = CollectorRegistry()
        self._group = group
        self._types: set[str] = set()
        self._attempts = AttemptBook(PROCESS_TIME_BUCKETS, label=self.type_label)
        self.attempted = self._attempts.count
        self._member = member  # of all attempts
        # (topic, partition, member): removed when the partition is revoked; a stale series would look like a stuck partition
        self._enqueue_times: dict[tuple[str, int, str], Tally] = {}
        self._deserialized: dict[tuple[str, str], int] = {}
        self.held_bytes: Callable[[], Mapping[str, int]] = dict  # by member; a task sets it
        self.sentinels = Sentinels(group, self.registry)
        self._dead_letters = self._counter("dead_letters")
        self.undecodable = Counter(
            "wb_undecodable",
            "Records that could not be decoded into an event.",
            ("group", "topic"),
            registry=self.registry,
        )
        self.log_restarts = Counter(
            "wb_log_restarts",
            "Logs that were truncated or recreated below the position.",
            ("group", "topic"),
            registry=self.registry,
        )
        self.skipped_offsets = Counter(
            "wb_skipped_offsets",
            "Offsets that were deleted before they were read.",
            ("group", "topic"),
            registry=self.registry,
        )
        self.commits = Counter("wb_commits", "Commits, by result.", ("group", "result"), registry=self.registry)
        self.registry.register(_Reader(lambda: self._families(gauges)))

    def _counter(self, signal: str) -> Counter:
        definition = SIGNALS[signal]
        return Counter(definition.metric, definition.help, definition.labels, registry=self.registry)

    def type_label(self, event_type: str) -> str:
        """Label for an event type: the type, or "other" if there are too many or if it is not text."""
        if event_type in self._types:
            return event_type
        if len(self._types) >= MAX_EVENT_TYPES:
            return OTHER
        if not is_text(event_type):
            return OTHER  # it would break the metrics page
        self._types.add(event_type)
        return event_type

    def decoded(self, topic: str, member: str, count: int) -> None:
        """Count decoded records; one thread for each member."""
        self._deserialized[topic, member] = self._deserialized.get((topic, member), 0) + count

    def enqueue_time(self, topic: str, partition: int, member: str) -> Tally:
        """Enqueue-time histogram of one partition; its consumer thread writes it."""
        return self._enqueue_times.setdefault((topic, partition, member), Tally(ENQUEUE_TIME_BUCKETS))

    def forget_partition(self, topic: str, partition: int, member: str) -> None:
        """Remove the series of a revoked partition."""
        self._enqueue_times.pop((topic, partition, member), None)

    def dead_letter(self, topic: str, member: str, event_type: str) -> Counter:
        """Counter of dead letters of one processor."""
        return self._dead_letters.labels(self._group, topic, member, self.type_label(event_type))

    def totals(self) -> dict[str, int]:
        """Attempts that completed their event, and dead letters, over all labels (for the status page)."""
        outcomes = [outcomes for _, _, outcomes in self._attempts.totals()]
        letters = [sample for metric in self._dead_letters.collect() for sample in metric.samples]
        return {
            "processed": sum(sum(found.values()) - found.get(ProcessingOutcome.RETRY, 0) for found in outcomes),
            "dead_letters": sum(int(sample.value) for sample in letters if sample.name.endswith("_total")),
        }

    # A scrape

    def _families(self, gauges: Callable[[], Iterable[GaugeReading]]) -> Iterator[Metric]:
        deserialized = self._family("deserialized", CounterMetricFamily)
        for (topic, member), count in list(self._deserialized.items()):
            deserialized.add_metric((self._group, topic, member), count)
        enqueue = self._family("enqueue_time", HistogramMetricFamily)
        for (topic, partition, member), tally in list(self._enqueue_times.items()):
            enqueue.add_metric((self._group, topic, str(partition), member), tally.buckets(), tally.total)
        process = self._family("process_time", HistogramMetricFamily)
        processed = self._family("processed", CounterMetricFamily, "outcome")
        for (topic, label), times, outcomes in self._attempts.totals():
            labels = (self._group, topic, self._member, label)
            process.add_metric(labels, times.buckets(), times.total)
            for outcome, count in outcomes.items():
                processed.add_metric((*labels, outcome.value), count)
        held = GaugeMetricFamily(
            "wb_held_bytes", "Bytes of the records that are read and not finished.", labels=("group", "member_id")
        )
        for member, size in self.held_bytes().items():
            held.add_metric((self._group, member), size)
        yield held
        yield from (deserialized, enqueue, process, processed)
        yield from _gauge_families(gauges())

    def _family(self, signal: str, family: Callable[..., Any], *extra: str) -> Any:
        definition = SIGNALS[signal]
        return family(definition.metric, definition.help, labels=(*definition.labels, *extra))


def _gauge_families(readings: Iterable[GaugeReading]) -> Iterator[Metric]:
    families: dict[str, Any] = {}
    for name, labels, value in readings:
        definition = SIGNALS[name]
        if name not in families:
            family = CounterMetricFamily if definition.kind is Kind.COUNTER else GaugeMetricFamily
            families[name] = family(definition.metric, definition.help, labels=definition.labels)
        families[name].add_metric(labels, value)
    yield from families.values()


class _Reader(Collector):
    """Collector that reads the runtime's state at the scrape, so no series can go stale."""

    def __init__(self, read: Callable[[], Iterable[Metric]]) -> None:
        self._read = read

    def collect(self) -> Iterable[Metric]:
        return self._read()

    def describe(self) -> Iterable[Metric]:
        return ()

"""The runtime's Prometheus metrics, derived from the table of signals, so that name, unit and labels stand in one place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from workbench.runtime.sentinels import Sentinels
from workbench.signals import SIGNALS, Kind, Outcome

# From half a millisecond (no I/O) to a minute (the default timeout), about 2.5 × apart.
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
# Entry into a queue is instant or waits for room; few buckets, because there is one series set per partition.
ENQUEUE_TIME_BUCKETS = (0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 30.0)
MAX_EVENT_TYPES = 100  # a hostile or broken producer can invent types without end; the rest is counted as "other"
OTHER = "other"

# (signal, its label values in the order of the signal's labels, value)
GaugeReading = tuple[str, tuple[str, ...], float]


class RuntimeMetrics:
    """Counters and histograms that the threads write, and gauges that are read off when somebody asks."""

    def __init__(self, group: str, *, gauges: Callable[[], Iterable[GaugeReading]]) -> None:
        self.registry = CollectorRegistry()
        self._group = group
        self._types: set[str] = set()
        # Looking a child up by its labels costs more than counting does.
        self._process_times: dict[tuple[str, str], Histogram] = {}
        self._outcomes: dict[tuple[str, str, Outcome], Counter] = {}
        self.sentinels = Sentinels(group, self.registry)
        self._deserialized = self._counter("deserialized")
        self._processed = self._counter("processed", extra=("outcome",))
        self._dead_letters = self._counter("dead_letters")
        self._enqueue_time = self._histogram("enqueue_time", ENQUEUE_TIME_BUCKETS)
        self._process_time = self._histogram("process_time", PROCESS_TIME_BUCKETS)
        self.undecodable = Counter(
            "wb_undecodable", "Records that no event could be made of.", ("group", "topic"), registry=self.registry
        )
        self.commits = Counter("wb_commits", "Commits, by result.", ("group", "result"), registry=self.registry)
        self.registry.register(_GaugeCollector(gauges))

    def _counter(self, signal: str, extra: tuple[str, ...] = ()) -> Counter:
        definition = SIGNALS[signal]
        return Counter(definition.metric, definition.help, (*definition.labels, *extra), registry=self.registry)

    def _histogram(self, signal: str, buckets: tuple[float, ...]) -> Histogram:
        definition = SIGNALS[signal]
        return Histogram(definition.metric, definition.help, definition.labels, registry=self.registry, buckets=buckets)

    def type_label(self, event_type: str) -> str:
        """The label for an event type: itself, or "other" once there are too many."""
        if event_type in self._types:
            return event_type
        if len(self._types) >= MAX_EVENT_TYPES:
            return OTHER
        self._types.add(event_type)
        return event_type

    def deserialized(self, topic: str, member: str) -> Counter:
        """Counter of decoded records of one topic."""
        return self._deserialized.labels(self._group, topic, member)

    def enqueue_time(self, topic: str, partition: int, member: str) -> Histogram:
        """Histogram of one partition."""
        return self._enqueue_time.labels(self._group, topic, str(partition), member)

    def forget_partition(self, topic: str, partition: int, member: str) -> None:
        """Drop what is labelled with a partition that was given away: a stale series would look like a frozen one."""
        self._enqueue_time.remove(self._group, topic, str(partition), member)

    def attempted(self, topic: str, member: str, event_type: str, outcome: Outcome, seconds: float) -> None:
        """Count one attempt of a processor, its end and its time."""
        histogram = self._process_times.get((topic, event_type))
        if histogram is None:
            histogram = self._process_time.labels(self._group, topic, member, self.type_label(event_type))
            if self.type_label(event_type) == event_type:  # what is not remembered is bounded, as its label is
                self._process_times[topic, event_type] = histogram
        histogram.observe(seconds)
        counter = self._outcomes.get((topic, event_type, outcome))
        if counter is None:
            counter = self._processed.labels(self._group, topic, member, self.type_label(event_type), outcome.value)
            if self.type_label(event_type) == event_type:
                self._outcomes[topic, event_type, outcome] = counter
        counter.inc()

    def totals(self) -> dict[str, int]:
        """Attempts that completed their event, and dead letters, over all labels (for the status page)."""
        retry = Outcome.RETRY.value
        return {
            "processed": sum(
                int(sample.value)
                for metric in self._processed.collect()
                for sample in metric.samples
                if sample.name.endswith("_total") and sample.labels["outcome"] != retry
            ),
            "dead_letters": sum(
                int(sample.value)
                for metric in self._dead_letters.collect()
                for sample in metric.samples
                if sample.name.endswith("_total")
            ),
        }

    def dead_letter(self, topic: str, member: str, event_type: str) -> Counter:
        """Counter of dead letters of one processor."""
        return self._dead_letters.labels(self._group, topic, member, self.type_label(event_type))


class _GaugeCollector(Collector):
    """Reads the runtime's state at the moment of the scrape: no gauge can go stale."""

    def __init__(self, gauges: Callable[[], Iterable[GaugeReading]]) -> None:
        self._gauges = gauges

    def collect(self) -> Iterator[Metric]:
        families: dict[str, Any] = {}
        for name, labels, value in self._gauges():
            definition = SIGNALS[name]
            if name not in families:
                family = CounterMetricFamily if definition.kind is Kind.COUNTER else GaugeMetricFamily
                families[name] = family(definition.metric, definition.help, labels=definition.labels)
            families[name].add_metric(labels, value)
        yield from families.values()

    def describe(self) -> Iterator[Metric]:
        return iter(())

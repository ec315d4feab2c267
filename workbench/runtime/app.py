"""The runtime: consumer threads, processor threads and what they share."""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from time import monotonic, time
from types import FrameType

from prometheus_client import start_http_server

from workbench.errors import ConfigError
from workbench.runtime.config import RuntimeConfig
from workbench.runtime.consumer import ConsumerThread
from workbench.runtime.dead_letters import DeadLetters
from workbench.runtime.event import Decoder, Event, Handler, TopicPartition, decode_by_header
from workbench.runtime.kafka_source import KafkaSource
from workbench.runtime.metrics import GaugeReading, RuntimeMetrics
from workbench.runtime.offsets import LogEnds
from workbench.runtime.processors import ANY_TYPE, Processors
from workbench.runtime.source import Source
from workbench.signals import Outcome

_log = logging.getLogger(__name__)

_LOG_ENDS_PERIOD_SECONDS = 1.0

MakeSource = Callable[[RuntimeConfig, str], Source]


class Runtime:
    """A consumer group member that handles events by key, commits only what is done, and shows what it is doing.

    Args:
        config: what to read and how.
        processors: a handler for each event type; `"*"` handles the others.
        decode: makes an event of a record; by default the type is the header `event_type`.
        make_source: the message queue; Kafka unless a test says otherwise.

    Raises:
        ConfigError: if a type is configured that no processor handles.
    """

    def __init__(
        self,
        config: RuntimeConfig,
        processors: Mapping[str, Handler],
        *,
        decode: Decoder = decode_by_header,
        make_source: MakeSource = lambda config, member: KafkaSource(config, member=member),
    ) -> None:
        if not processors:
            raise ConfigError("The runtime has no processor.", hint='Give one for each event type, or one for "*".')
        for name in config.processors:
            if name not in processors and ANY_TYPE not in processors:
                raise ConfigError(
                    f"processors.{name}: the event type {name!r} is configured, but no processor handles it.",
                    hint=f"There are processors for: {', '.join(sorted(processors))}.",
                )
        self.config = config
        self._metrics = RuntimeMetrics(config.group, gauges=self._gauges)
        handlers = dict(processors)
        if ANY_TYPE in handlers:  # types with settings of their own get a pool of their own
            handlers = {**dict.fromkeys(config.processors, handlers[ANY_TYPE]), **handlers}
        connection = {**_client_properties(config), "bootstrap.servers": config.bootstrap}
        self._dead_letters = DeadLetters(config.dead_letter_topic, connection) if config.dead_letter_topic else None
        self._processors = Processors(handlers, config, reporter=self, clock=monotonic)
        self._consumers = [
            self._consumer(f"{config.client_id}-{index}", decode, make_source) for index in range(config.consumers)
        ]
        self._log_ends = LogEnds(
            {**connection, "client.id": f"{config.client_id}-log-ends"},
            partitions=self._assigned,
            period_seconds=_LOG_ENDS_PERIOD_SECONDS,
        )
        self._stopping = threading.Event()
        self.metrics_address: tuple[str, int] | None = None

    def _consumer(self, member: str, decode: Decoder, make_source: MakeSource) -> ConsumerThread:
        return ConsumerThread(
            self.config,
            make_source(self.config, member),
            member=member,
            decode=decode,
            processors=self._processors,
            metrics=self._metrics,
        )

    # Life

    def start(self) -> None:
        """Start all threads and the metrics page; returns at once."""
        server, _ = start_http_server(
            self.config.metrics_port, self.config.metrics_address, registry=self._metrics.registry
        )
        self.metrics_address = (self.config.metrics_address, server.server_port)
        for pool in self._processors:
            pool.start()
        self._log_ends.start()
        for consumer in self._consumers:
            consumer.start()

    def run(self) -> None:
        """`start`, then `wait`."""
        self.start()
        self.wait()

    def wait(self) -> None:
        """Work until SIGTERM, SIGINT or `stop`; a consumer thread that dies ends the whole. Main thread only.

        Raises:
            BaseException: what a consumer thread died of.
        """
        for name in (signal.SIGTERM, signal.SIGINT):
            signal.signal(name, self._on_signal)
        while not self._stopping.wait(0.2):
            if self._dead_letters is not None:
                self._dead_letters.poll()
            if not all(consumer.is_alive() for consumer in self._consumers):
                break
        self.stop()
        for consumer in self._consumers:
            if consumer.failure is not None:
                raise consumer.failure

    def _on_signal(self, _signal: int, _frame: FrameType | None) -> None:
        self._stopping.set()

    def stop(self) -> None:
        """Stop reading, let what is at work finish (up to `shutdown_seconds`), commit, leave the group."""
        self._stopping.set()
        for consumer in self._consumers:
            consumer.stop()
        deadline = monotonic() + self.config.shutdown_seconds + self.config.rebalance_drain_seconds
        for consumer in self._consumers:
            while consumer.is_alive() and monotonic() < deadline:
                if self._dead_letters is not None:
                    self._dead_letters.poll()
                consumer.join(0.05)
        for pool in self._processors:
            pool.stop(1.0)
        self._log_ends.stop()
        if self._dead_letters is not None:
            self._dead_letters.close(5.0)

    # What processors report (any processor thread)

    def attempted(self, event: Event, seconds: float, outcome: Outcome) -> None:
        """See `Reporter`."""
        topic, member = event.record.topic, self.config.client_id
        self._metrics.process_time(topic, member, event.type).observe(seconds)
        self._metrics.processed(topic, member, event.type, outcome).inc()

    def finished(self, event: Event) -> None:
        """See `Reporter`."""
        owner = event.owner
        owner.completions.append((owner, event.record.offset))

    def dead(self, event: Event, code: str) -> None:
        """See `Reporter`."""
        if self._dead_letters is None:
            self.finished(event)
            return
        self._metrics.dead_letter(event.record.topic, self.config.client_id, event.type).inc()
        self._dead_letters.put(event, code, safe=lambda: self.finished(event))

    def wanted(self, event: Event) -> bool:
        """See `Reporter`."""
        return not (event.owner.draining or event.owner.revoked)

    # What a scrape sees (the metrics page's thread)

    def _assigned(self) -> list[TopicPartition]:
        return [partition for consumer in self._consumers for partition in list(consumer.partitions)]

    def _gauges(self) -> Iterator[GaugeReading]:
        group, now = self.config.group, monotonic()
        for consumer in self._consumers:
            yield from self._member_gauges(consumer, group, now)
            yield from self._partition_gauges(consumer, group, now)
        for pool in self._processors:
            for slot in pool.slots:
                labels = (group, self.config.client_id, pool.name, str(slot.index))
                yield "queue_length", labels, len(slot.queue)
                yield "queue_capacity", labels, slot.queue.capacity
                yield "in_flight", labels, (slot.work is not None) + slot.overdue

    def _member_gauges(self, consumer: ConsumerThread, group: str, now: float) -> Iterator[GaugeReading]:
        labels = (group, consumer.member)
        yield "rebalances", labels, consumer.rebalances
        yield "poll_age", labels, now - consumer.last_poll
        yield "delayed_length", labels, len(consumer.delayed)
        yield "delayed_capacity", labels, consumer.delayed.capacity
        yield "paused_partitions", labels, sum(state.paused for state in list(consumer.partitions.values()))
        health = consumer.source.health()
        if health is None:
            return
        if health.heartbeat_age is not None:
            yield "heartbeat_age", labels, health.heartbeat_age + (now - health.taken_at)
        for broker, seen in health.brokers.items():
            if seen.rtt_seconds is not None:
                yield "broker_rtt", (*labels, broker), seen.rtt_seconds
            if seen.throttle_seconds is not None:
                yield "throttle_time", (*labels, broker), seen.throttle_seconds
        for (topic, partition), waiting in health.fetch_queue.items():
            if (topic, partition) in consumer.partitions:
                yield "fetch_queue_length", (group, topic, str(partition), consumer.member), waiting

    def _partition_gauges(self, consumer: ConsumerThread, group: str, now: float) -> Iterator[GaugeReading]:
        now_ms = time() * 1000
        for (topic, number), state in list(consumer.partitions.items()):
            labels = (group, topic, str(number), consumer.member)
            end = self._log_ends.ends.get((topic, number))
            if end is not None:  # what was read and committed since the broker was asked lies in the log, too
                end = max(end, state.position or 0, state.committed or 0)
            start = self._log_ends.starts.get((topic, number))
            if end is not None:
                yield "log_end_offset", (topic, str(number)), end
            if start is not None:
                yield "log_start_offset", (topic, str(number)), start
            if state.committed is not None:
                yield "committed_offset", labels, state.committed
                if end is not None:
                    yield "consumer_lag", labels, end - state.committed
            time_lag = state.time_lag(now_ms=now_ms, log_end=end)
            if time_lag is not None:
                yield "time_lag", labels, time_lag
            oldest = state.tracker.oldest
            yield "oldest_incomplete_age", labels, now - oldest[2] if oldest else 0.0


def _client_properties(config: RuntimeConfig) -> dict[str, str | int | float | bool]:
    """Of the consumer's properties, those that any client takes: security, sockets and the like."""
    prefixes = ("security.", "sasl.", "ssl.", "socket.", "broker.", "metadata.", "client.dns", "enable.ssl")
    return {name: value for name, value in config.kafka.items() if name.startswith(prefixes)}


@contextlib.contextmanager
def running(runtime: Runtime) -> Iterator[Runtime]:
    """A started runtime that stops at the end of the block (for notebooks and tests)."""
    runtime.start()
    try:
        yield runtime
    finally:
        runtime.stop()

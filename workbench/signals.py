"""The canonical signals: what is measured, in which unit, and at which grain.

The only table of signals. The runtime's metrics, its profile, the profile check and the documentation are derived from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from workbench.broker_and_bookie_signals import OF_DISPATCHERS
from workbench.job_signals import OF_JOBS
from workbench.process_signals import OF_PROCESSES
from workbench.signals_before_kafka import OF_GATEWAYS


class Kind(StrEnum):
    """How the values of a signal behave over time."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


class Grain(StrEnum):
    """Entity of one series of a signal; `GRAIN_LABELS` has its labels."""

    GROUP = "group"
    TOPIC = "topic"
    PARTITION = "partition"  # of a topic, for all groups
    GROUP_PARTITION = "group_partition"  # of a topic, for one group
    MEMBER = "member"
    PROCESS = "process"  # that members run in
    BROKER = "broker"  # for one member
    QUEUE = "queue"
    PROCESSOR = "processor"
    SERVER = "server"  # a broker's own, for everybody
    SERVER_TOPIC = "server_topic"  # of a topic, on one broker
    SERVER_CLIENT = "server_client"  # of a client id, on one broker
    DISPATCHER = "dispatcher"  # of a queue that sends entries: a server, a topic or a subscription there
    GATEWAY = "gateway"  # a process before Kafka, for each destination


OF_BROKERS = frozenset({Grain.SERVER, Grain.SERVER_TOPIC, Grain.SERVER_CLIENT})  # what brokers tell of themselves
GRAIN_LABELS: dict[Grain, tuple[str, ...]] = {
    Grain.GROUP: ("group",),
    Grain.TOPIC: ("group", "topic", "member"),
    Grain.PARTITION: ("topic", "partition"),
    Grain.GROUP_PARTITION: ("group", "topic", "partition", "member"),
    Grain.MEMBER: ("group", "member"),
    Grain.PROCESS: ("group", "member"),
    Grain.BROKER: ("group", "member", "broker"),
    Grain.QUEUE: ("group", "member", "processor", "queue"),
    Grain.PROCESSOR: ("group", "topic", "member", "processor"),
    Grain.SERVER: ("broker",),
    Grain.SERVER_TOPIC: ("broker", "topic"),
    Grain.SERVER_CLIENT: ("broker", "member"),
    Grain.DISPATCHER: ("broker", "topic", "group"),
    Grain.GATEWAY: ("member", "queue"),
}


class ProcessingOutcome(StrEnum):
    """Outcome of one attempt at an event; the `stat` column of the signal `processed`."""

    OK = "ok"
    RETRY = "retry"
    FAILED = "failed"
    TIMEOUT = "timeout"
    DEAD = "dead"
    SKIP = "skip"


FAILURES = (ProcessingOutcome.FAILED, ProcessingOutcome.TIMEOUT, ProcessingOutcome.DEAD)

# Values of the signal `group_state`: Kafka's states in the order of a group's life cycle.
GROUP_STATES: dict[str, int] = {
    "dead": 0,
    "empty": 1,
    "preparing_rebalance": 2,
    "completing_rebalance": 3,
    "stable": 4,
    # Of groups of the newer protocols: the assignment is being computed, the members move to it, internal topics are missing.
    "assigning": 2,
    "reconciling": 3,
    "not_ready": 2,
}
REJOINING = (GROUP_STATES["preparing_rebalance"], GROUP_STATES["completing_rebalance"])

# Offsets that mean "none": -1 is "no record", -1001 is librdkafka's "never committed" (both observed on real exporters and brokers).
SENTINELS = (-1.0, -1001.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """One canonical measurement."""

    name: str
    unit: str
    kind: Kind
    grain: Grain
    help: str
    sentinel: bool = False  # whether a negative value can only be an exporter's placeholder for "none"

    @property
    def labels(self) -> tuple[str, ...]:
        """Label columns that identify a series of this signal."""
        return GRAIN_LABELS[self.grain]

    @property
    def metric(self) -> str:
        """Name of the runtime's Prometheus metric for this signal, by Prometheus' naming rules (base unit, `_total`)."""
        if self.kind is Kind.COUNTER:
            return f"wb_{self.name}_total"
        named = self.name.endswith(self.unit)  # no second "partitions" for "paused_partitions"
        return f"wb_{self.name}" if named else f"wb_{self.name}_{self.unit}"


def _signal(
    name: str, unit: str, kind: Kind, grain: Grain, help_text: str, *, sentinel: bool = False
) -> tuple[str, Signal]:
    return name, Signal(name=name, unit=unit, kind=kind, grain=grain, help=help_text, sentinel=sentinel)


def _server(
    name: str, unit: str, help_text: str, *, kind: Kind = Kind.GAUGE, grain: Grain = Grain.SERVER
) -> tuple[str, Signal]:
    return _signal(name, unit, kind, grain, help_text)


SIGNALS: dict[str, Signal] = dict(
    (
        _signal(
            "consumer_lag",
            "messages",
            Kind.GAUGE,
            Grain.GROUP_PARTITION,
            "Messages between the committed offset and the end of the log.",
            sentinel=True,
        ),
        _signal(
            "committed_offset",
            "offset",
            Kind.GAUGE,
            Grain.GROUP_PARTITION,
            "Next offset the group would read after a restart.",
            sentinel=True,
        ),
        _signal(
            "log_end_offset",
            "offset",
            Kind.GAUGE,
            Grain.PARTITION,
            "Offset of the next produced message.",
            sentinel=True,
        ),
        _signal(
            "log_start_offset",
            "offset",
            Kind.GAUGE,
            Grain.PARTITION,
            "Oldest available offset.",
            sentinel=True,
        ),
        _signal(
            "last_stable_offset",
            "offset",
            Kind.GAUGE,
            Grain.PARTITION,
            "Offset at which the oldest open transaction begins, or else the log end: consumers with read_committed read up to it.",
            sentinel=True,
        ),
        _signal(
            "leader",
            "broker",
            Kind.GAUGE,
            Grain.PARTITION,
            "Id of the broker that leads the partition; none without a leader.",
            sentinel=True,
        ),
        _signal(
            "local_start_offset",
            "offset",
            Kind.GAUGE,
            Grain.PARTITION,
            "Oldest offset on the broker's own disk: what is before it is in remote storage (KIP-405).",
            sentinel=True,
        ),
        _signal(
            "missing_replicas",
            "replicas",
            Kind.GAUGE,
            Grain.PARTITION,
            "Replicas of the partition that are not in sync.",
        ),
        _signal(
            "time_lag",
            "seconds",
            Kind.GAUGE,
            Grain.GROUP_PARTITION,
            "Age of the oldest message that is not committed; 0 when there is none.",
            sentinel=True,
        ),
        _signal(
            "group_members",
            "members",
            Kind.GAUGE,
            Grain.GROUP,
            "Members of the group as the coordinator counts them.",
        ),
        _signal("group_state", "state", Kind.GAUGE, Grain.GROUP, "State of the group, 0 dead to 4 stable."),
        _signal(
            "reassigning_partitions",
            "partitions",
            Kind.GAUGE,
            Grain.GROUP,
            "Partitions that members must still give up or take over to reach the coordinator's target (KIP-848).",
        ),
        _signal(
            "assigned",
            "",
            Kind.GAUGE,
            Grain.GROUP_PARTITION,
            "1 where a member of the group has the partition, 0 where none has, as the coordinator says.",
        ),
        _signal(
            "restoring",
            "messages",
            Kind.GAUGE,
            Grain.GROUP,
            "What a Kafka Streams application must still read of its changelogs before it handles records.",
        ),
        _signal(
            "read_quota",
            "messages_per_second",
            Kind.GAUGE,
            Grain.GROUP,
            "What the brokers' quotas let all members read together, by the mean size of a record on disk.",
        ),
        _signal("rebalances", "", Kind.COUNTER, Grain.MEMBER, "Number of new assignments of this member."),
        _signal("heartbeat_age", "seconds", Kind.GAUGE, Grain.MEMBER, "Time since the last contact with the group."),
        _signal(
            "start_time",
            "seconds",
            Kind.GAUGE,
            Grain.MEMBER,
            "Start time of the member's process, since the epoch: a change is a restart.",
        ),
        _signal("poll_age", "seconds", Kind.GAUGE, Grain.MEMBER, "Time since the consumer thread last polled."),
        _signal(
            "poll_idle",
            "ratio",
            Kind.GAUGE,
            Grain.MEMBER,
            "Share of the time that the consumer thread waits for records: near 0 while its own work takes all of it.",
        ),
        _signal("deserialized", "messages", Kind.COUNTER, Grain.TOPIC, "Messages that were decoded to events."),
        _signal(
            "enqueue_time",
            "seconds",
            Kind.HISTOGRAM,
            Grain.GROUP_PARTITION,
            "Time from decoding an event to its place in a queue: long if the queue is full.",
        ),
        _signal("queue_length", "events", Kind.GAUGE, Grain.QUEUE, "Events that wait in the queue."),
        _signal("queue_capacity", "events", Kind.GAUGE, Grain.QUEUE, "Events the queue can hold."),
        _signal("delayed_length", "events", Kind.GAUGE, Grain.MEMBER, "Events that wait in the delay queue."),
        _signal("delayed_capacity", "events", Kind.GAUGE, Grain.MEMBER, "Events the delay queue can hold."),
        _signal(
            "process_time",
            "seconds",
            Kind.HISTOGRAM,
            Grain.PROCESSOR,
            "Duration of one attempt of a processor at one event.",
        ),
        _signal(
            "processed",
            "events",
            Kind.COUNTER,
            Grain.PROCESSOR,
            "Attempts that ended, by outcome ok, retry, failed, timeout, dead or skip.",
        ),
        _signal("in_flight", "events", Kind.GAUGE, Grain.QUEUE, "Events in flight: being processed at this moment."),
        _signal(
            "oldest_incomplete_age",
            "seconds",
            Kind.GAUGE,
            Grain.GROUP_PARTITION,
            "Time since the oldest unfinished event was read; this event blocks the commit.",
        ),
        _signal("fetch_latency", "seconds", Kind.GAUGE, Grain.BROKER, "Mean duration of a fetch in the last second."),
        _signal(
            "broker_rtt",
            "seconds",
            Kind.GAUGE,
            Grain.BROKER,
            "Mean round trip to the broker in the last second, long polls included.",
        ),
        _signal(
            "throttle_time",
            "seconds",
            Kind.GAUGE,
            Grain.BROKER,
            "Mean throttle time by the broker in the last second.",
        ),
        _signal(
            "fetch_queue_length",
            "messages",
            Kind.GAUGE,
            Grain.GROUP_PARTITION,
            "Messages fetched from the broker but not yet polled by the consumer thread.",
        ),
        _signal(
            "paused_partitions",
            "partitions",
            Kind.GAUGE,
            Grain.MEMBER,
            "Partitions that this member has paused because a queue is full.",
        ),
        _signal("dead_letters", "events", Kind.COUNTER, Grain.PROCESSOR, "Events sent to the dead-letter topic."),
        _server(
            "request_time", "seconds", "99th percentile of the time that requests take on a broker, by kind of request."
        ),
        _server(
            "request_handler_idle", "ratio", "Share of time for which a broker's request handlers have nothing to do."
        ),
        _server(
            "request_handler_idle_time",
            "seconds",
            "Seconds for which a broker's request handlers had nothing to do, of the mean handler: counts before the idle share.",
            kind=Kind.COUNTER,
        ),
        _server("network_idle", "ratio", "Share of time for which a broker's network threads have nothing to do."),
        _server("request_queue_length", "requests", "Requests that wait for a handler of a broker."),
        _server(
            "metadata_requests",
            "requests",
            "Requests for metadata that a broker has had; kinds (the version of the request) are added up.",
            kind=Kind.COUNTER,
        ),
        _server("under_replicated", "partitions", "Partitions led by a broker that lack a replica in sync."),
        _server("offline", "partitions", "Partitions without a leader, as the controller says."),
        _server(
            "broker_traffic",
            "bytes",
            "Bytes that a broker has taken from producers and given to consumers, by direction.",
            kind=Kind.COUNTER,
        ),
        _server(
            "log_flush_time", "seconds", "99th percentile of the time that a broker takes to flush a log to its disk."
        ),
        _server(
            "segment_failovers",
            "segments",
            "Segments that a broker has left because a flush took too long, to go on in a new one.",
            kind=Kind.COUNTER,
        ),
        _server("server_start_time", "seconds", "Start of a broker's process, since the epoch; its id is the kind."),
        _server(
            "request_queue_time",
            "seconds",
            "99th percentile of the time for which requests wait for a handler of a broker, by kind of request.",
        ),
        _server(
            "request_local_time",
            "seconds",
            "99th percentile of the time that a broker itself works on a request, by kind of request.",
        ),
        _server(
            "response_send_time",
            "seconds",
            "99th percentile of the time that a broker takes to send an answer, by kind of request.",
        ),
        _server(
            "under_min_isr",
            "partitions",
            "Partitions led by a broker that have fewer replicas in sync than writes with acks=all need.",
        ),
        _server(
            "isr_shrinks",
            "",
            "Times that a replica fell out of sync of partitions that a broker leads.",
            kind=Kind.COUNTER,
        ),
        _server("replica_lag", "messages", "How far the partition is behind its leader that a broker follows worst."),
        _server(
            "remote_failures", "", "Reads from and copies to remote storage that failed, by kind.", kind=Kind.COUNTER
        ),
        _server(
            "remote_reader_idle",
            "ratio",
            "Share of time for which the threads that read from remote storage have nothing to do.",
        ),
        _server("remote_reader_queue", "tasks", "Reads from remote storage that wait for a thread."),
        _server(
            "coordinator_partitions",
            "partitions",
            "Partitions of the topic of commits that a broker coordinates groups by, by state: active, loading or failed.",
        ),
        _server(
            "topic_reads",
            "bytes",
            "Bytes of a topic that a broker has given to consumers.",
            kind=Kind.COUNTER,
            grain=Grain.SERVER_TOPIC,
        ),
        _server(
            "topic_writes",
            "bytes",
            "Bytes of a topic that a broker has taken from producers.",
            kind=Kind.COUNTER,
            grain=Grain.SERVER_TOPIC,
        ),
        _server(
            "remote_reads",
            "bytes",
            "Bytes of a topic that a broker has read from remote storage.",
            kind=Kind.COUNTER,
            grain=Grain.SERVER_TOPIC,
        ),
        _server(
            "remote_copy_lag",
            "bytes",
            "Bytes of a topic that a broker has not yet copied to remote storage, of those that it must.",
            grain=Grain.SERVER_TOPIC,
        ),
        _server(
            "client_reads",
            "bytes_per_second",
            "What a broker gives to one client id; brokers measure it where a quota of any client exists.",
            grain=Grain.SERVER_CLIENT,
        ),
        _server(
            "client_writes",
            "bytes_per_second",
            "What a broker takes from one client id; brokers measure it where a quota of any client exists.",
            grain=Grain.SERVER_CLIENT,
        ),
        _server(
            "client_request_time",
            "ratio",
            "Time of a broker's threads that one client id's requests take, 1 is one thread; measured where a request quota exists.",
            grain=Grain.SERVER_CLIENT,
        ),
        *(_signal(name, unit, Kind(kind), Grain.DISPATCHER, text) for name, unit, kind, text in OF_DISPATCHERS),
        *(_signal(it[0], it[1], Kind(it[2]), Grain.GATEWAY, it[3], sentinel=it[2] == "gauge") for it in OF_GATEWAYS),
        *(_signal(*it[:2], Kind.GAUGE, Grain(it[2]), it[3], sentinel=it[4]) for it in OF_JOBS),
        *(_signal(name, unit, Kind.COUNTER, Grain.PROCESS, text) for name, unit, text in OF_PROCESSES),
    )
)

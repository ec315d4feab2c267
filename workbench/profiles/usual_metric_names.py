"""How exporters usually name metrics and labels, for drafts of profiles."""

from __future__ import annotations

import re
from dataclasses import dataclass

# Labels by which a service tells its event types apart; a `type` or a `name` may be anything's.
EVENT_TYPES = (
    *("(event|message|job|task|work)type", "processor(id|name)?", "handler(name)?", "listener(id|name)?"),
    "(event|task|actor)(name)?",
)
# Label names by what they usually contain, best first: patterns of the whole name in lower case without separators and `PREFIXES`.
LABELS: dict[str, tuple[str, ...]] = {
    "group": ("consumergroup(id|name)?", "group(id|name)?", "cgroup|cg", "subscription(id|name)?", "consumer"),
    "topic": ("topic(id|name)?", "destination(name)?", "stream(name)?"),
    "partition": ("(topic|destination)?partition(id|index|number)?", "shard(id)?"),
    "member": (
        "clientid",
        "memberid",
        "consumerid",
        "member",
        "client",
        "application(id|name)?",
        "component(id|name)?",
    ),
    "broker": ("broker(id)?", "nodeid", "node"),
    "event_type": EVENT_TYPES,
    "processor": (*EVENT_TYPES, "type", "kind", "name", "operation(name)?", "(stage|step|phase)(name)?"),
    "queue": ("queue(id|name)?", "chan(nel)?(id|name)?", "worker(id|name)?", "shard", "thread(id|name)?"),
}
# What systems put before a label's own name.
PREFIXES = "(kafka|messaging|redpanda)*"
# What is of a group by its name, and whose label `name` is the group's then. No process tells that of itself.
OF_GROUPS = re.compile(r"consumer_?groups?(_|$)")
INTERESTING = re.compile(
    r"back_?log|keda_scaler|start_time|duration|lag|offset|consum|group|kafka|rebalanc|poll|heartbeat|process|handl|queue|partition|dead_?letter|dlq"
    r"|poison|throttl|fetch|water_?mark|messages|records|events|in_?flight|rtt|request_latency|worker|executor_active",
)
OTLP_RATIO = re.compile(r"(?<=lag|set|ers)_ratio$")
DERIVED_END = r"_(max|min|avg|mean|sum|count|rate)$"
# A label by which a counter tells how attempts ended.
OUTCOME = "(processing)?(outcome|status|result|success|acked)"

# Words for how attempts ended, as values of such a label, or in the names of counters.
WENT_WELL = "ok|success|successful|succeeded|succeed|processed|handled|completed|complete|done|acked|true"
FAILED = "failed|failure|failures|fail|error|errors|errored|exception|exceptions|nack|nacked|rejected|false"

# Labels of the target that tell the processes of a service apart, where its own metrics do not; best first.
OF_TARGET = ("pod", "podname", "kubernetespodname", "hostname", "host", "instance")
# What CloudWatch's exporters and Prometheus put before a label's own name.
BEFORE_LABELS = re.compile(r"^(dimension|exported)_", re.IGNORECASE)


def in_words(name: str) -> str:
    """A name as Prometheus' guide would have it: `messageHandleTime` is `message_handle_time`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


@dataclass(frozen=True, slots=True)
class Pattern:
    """How a signal's metric is usually named.

    Attributes:
        wanted: patterns in the name with their weights; one with a positive weight must match.
        never: a name that matches is another signal.
        labels: canonical labels that the series need.
        without: canonical labels that they must not have.
        more: labels that are mapped if they are there.
    """

    wanted: tuple[tuple[str, float], ...]
    never: str = r"$^"
    labels: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    more: tuple[str, ...] = ()


_SENT = r"produc|buffer|sent|send|publish|outgoing|written"  # what a producer does is no work of a consumer
_OF_LOG = r"(^|_)(log|end|latest|newest|oldest|earliest|high|hi|low|lo|start|begin|beginning|first|stable|ls|eof)(_|$)"
_DONE = r"process|processed|processing|handled|handling|handler|executed|executions?|completed|completions?"
_TAKEN = r"consumed?|received?|fetch|fetched|delivered|deserialized|decoded|read"
_RECORDS = r"(records?|messages?|events?|msgs?|tasks?|rows?|items?)"
_TIME = r"seconds|millis|(?:^|_)(?:ms|time|age|latency|duration)(?:_|$)"
_AGE = r"(?<![a-z])age(?![a-z])"  # not the end of "message", nor that of "average"
TIMED = r"_(seconds|ms|millis|milliseconds|us|micros)"  # the end of a timer's name
TO_DRAIN = r"to_drain|(^|_)eta(_|$)|estimat"  # how long it will take, not how long messages have waited
# Units of other things than a count, by which a metric of that name is no count.
NO_COUNT = r"_(seconds|millis|milliseconds|ms|micros|us|nanos|ns|minutes|hours|bytes|ratio|percent|per_second)(_|$)"
_SPREAD = r"max|min|count|std_?dev|_p[0-9]+"  # how values are spread, where a mean is meant
_DERIVED = r"_max|_min|_avg|_mean|_sum|sum_|max_|_rate|per_sec|_created|_bucket|_count\b|percent|ratio|slope|velocity"
LIKE_LAG = re.compile(r"lag(?:_|$)|backlog|back_log|offset|keda_scaler")
UNITS = (
    (r"_(ms|millis|milliseconds)(_|$)", 0.001),
    (r"_(us|micros|microseconds)(_|$)", 1e-6),
    (r"_(ns|nanos|nanoseconds)(_|$)", 1e-9),
    (r"_minutes(_|$)", 60.0),
)
PATTERNS: dict[str, Pattern] = {
    "consumer_lag": Pattern(
        ((r"lag|uncommitted", 3), (r"group|consumer", 1), (r"offset|records|messages", 0.5), (r"partition", 0.5)),
        never=rf"{_TIME}|{_DERIVED}|total_?lag|predict|lead|replica|fetcher|follower|event_?loop",
        labels=("topic", "partition"),
        more=("group", "member"),
    ),
    "time_lag": Pattern(
        (
            (rf"lag.*(seconds|millis|_ms\b|time|{_AGE})|(time|{_AGE}|seconds).*lag|(oldest|message).*{_AGE}", 3),
            (r"group|consumer", 1),
        ),
        never=rf"_bucket|_created|percent|_max\b.*_max\b|{TO_DRAIN}|replica|event_?loop",
        labels=("topic", "partition"),
        more=("group", "member"),
    ),
    "committed_offset": Pattern(
        (
            (r"commit", 3),
            (r"(current|consumer|group).*(offset|position)|(^|_)(offset|position)s?$", 2),
            (r"offset", 1),
            (r"group", 0.5),
        ),
        never=rf"lag|uncommitted|rate|latency|{_TIME}|commits?_total|_count\b|_max\b|_sum\b|{_OF_LOG}",
        labels=("topic", "partition"),
        more=("group", "member"),
    ),
    "log_end_offset": Pattern(
        (
            (
                r"(end|latest|newest|high|head|last|highwater|watermark|written|max|(^|_)hi_).*offset|offset.*(end|latest|newest|high)|high_?water",
                3,
            ),
            (r"(partition|topic)_(current_|next_)?offset(_sum)?$|log_end", 2),
            (r"offset", 1),
        ),
        never=rf"lag|commit|low|(^|_)lo_|oldest|earliest|start|begin|group|stable|lso|{_TIME}|_sum\b|delta|rate",
        labels=("topic", "partition"),
    ),
    "last_stable_offset": Pattern(
        ((r"last_?stable|(?:^|_)lso(?:_|$)", 3), (r"offset", 1)),
        never=rf"lag|commit|group|client|member|{_TIME}|_sum\b|rate",
        labels=("topic", "partition"),
        without=("group", "member"),
    ),
    "log_start_offset": Pattern(
        (
            (
                r"(start|oldest|earliest|low|begin|first|beginning|min|(^|_)lo_).*offset|offset.*(start|oldest|earliest|low)|low_?water",
                3,
            ),
        ),
        never=rf"lag|commit|group|{_TIME}|_sum\b|rate",
        labels=("topic", "partition"),
        without=("group",),
    ),
    "group_members": Pattern(
        ((r"members?\b|members?_|num_consumers|consumers?\b", 3), (r"group", 1)),
        never=rf"lag|offset|{_TIME}|rebalance|info|_topic|assign|empty|partition",
        labels=("group",),
        without=("topic", "partition", "member"),
    ),
    "group_state": Pattern(
        ((r"group\w*(state|info)|state", 3),),
        never=r"count|total|seconds|_time",
        labels=("group",),
        without=("partition", "topic", "member"),
    ),
    "rebalances": Pattern(
        ((r"rebalance|group_join|assignments?_total", 3), (r"total|count|cnt", 1)),
        never=r"latency|rate|per_hour|seconds|_ms|fail|error|avg|max|age\b|_ago",
        labels=("member",),
        more=("group",),
    ),
    "heartbeat_age": Pattern(
        ((r"last_heartbeat|heartbeat.*(ago|age|seconds)", 3),),
        never=r"rate|total|max|timestamp",
        labels=("member",),
        more=("group",),
    ),
    "poll_age": Pattern(
        ((r"last_poll|poll.*(ago|age)", 3),),
        never=r"rate|total|avg|max|idle|timestamp",
        labels=("member",),
        more=("group",),
    ),
    "start_time": Pattern(((r"start_time", 3),), never=r"offset", labels=("member",), more=("group",)),
    "poll_idle": Pattern(((r"poll_idle", 3), (r"avg", 1)), never=r"max|min|total", labels=("member",), more=("group",)),
    "deserialized": Pattern(
        (
            (rf"(^|_)({_TAKEN})_(\w+_)?{_RECORDS}_(\w+_)?total|(^|_){_RECORDS}_({_TAKEN})_(\w+_)?total", 3),
            (rf"(consumer|receiver|reader|subscriber)_{_RECORDS}_total", 3),
            (r"deserial|decod", 1),
        ),
        never=rf"batch|error|fail|dead|dlq|retr|lag|offset|drop|discard|skip|size|{_SENT}",
        labels=("member",),
        more=("group", "topic"),
    ),
    "processed": Pattern(
        (
            (rf"(^|_)({_DONE})_(\w+_)?total|_(processed|handled)_", 2),
            (rf"(^|_){_RECORDS}_({WENT_WELL})(_total)?$", 2),  # a team's own counter may lack the end
            (rf"(^|_){_RECORDS}_\w*total", 1),
            (r"processed|handled", 1),
        ),
        never=rf"fetch|lag|offset|rebalance|commit|error|fail|dead|retr|size|heartbeat|join|sync|poll|{_SENT}|receiv|request",
        labels=("member",),
        more=("group", "topic", "processor"),
    ),
    "process_time": Pattern(
        (
            (
                r"(process|handl|listener|execution|task|job|step|stage|consume(?!r))\w*(seconds|duration|time|millis|_ms)|(duration|time)_\w*process",
                3,
            ),
            (r"(process|handl)\w*_latency", 3),
            (rf"(^|_){_RECORDS}_(runtime|duration)", 3),
            (r"_duration_(seconds|ms|milliseconds)$", 1),
            (r"batch", -0.5),  # a call takes many records
        ),
        never=r"cpu|poll|commit|rebalance|fetch|heartbeat|request|gc|process_start|^jvm|^http|queue|idle|enqueue"
        rf"|grpc|rpc|sql|query|scrape|redis|cache|connect|login|{_SENT}",
        more=("group", "topic", "member", "processor"),
    ),
    "queue_length": Pattern(
        ((r"(queue|chan(nel)?_)\w*(size|len|length|depth|items|events|tasks)|(pending|queued)_(tasks|events)", 3),),
        never=rf"fetch|capacity|max|limit|remaining|delay|request|unsent|application|background|{_SENT}",
        more=("group", "member", "processor", "queue"),
        labels=("member",),
    ),
    "queue_capacity": Pattern(
        # Not of channels: where one is full, triage asks for the delay queue, which nobody measures beside channels.
        ((r"queue\w*(capacity|limit)", 3),),
        never=rf"fetch|remaining|delay|request|{_SENT}",
        more=("group", "member", "processor", "queue"),
        labels=("member",),
    ),
    "in_flight": Pattern(
        (
            (
                r"in_?flight|in_(process|progress)(_|$)|being_processed|(busy|active)_(workers|handlers|threads|tasks)|(workers?|handlers?|tasks?)_busy$",
                3,
            ),
            (_RECORDS, 1),
        ),
        never=rf"request|fetch|http|rpc|scrape|max|total|{_SENT}",
        more=("group", "member", "processor", "queue"),
        labels=("member",),
    ),
    "fetch_queue_length": Pattern(
        (
            (
                r"fetchq\w*(cnt|messages)|fetch_?queue|(buffered|prefetched)\w*(fetch|records|messages)|fetch\w*buffered",
                3,
            ),
        ),
        never=r"bytes|size$|produce|max|limit|request",
        labels=("member",),
        more=("group", "topic", "partition"),
    ),
    "broker_rtt": Pattern(
        (
            (
                r"(^|_)rtt(\w*(avg|mean)|(_seconds|_ms|_us)?$)|fetch_latency_avg|request_latency\w*\{broker\}|\{broker\}\w*request_latency",
                3,
            ),
            (r"_(avg|mean)$", 0.5),
        ),
        never=rf"total|produce|{_SPREAD}",
        labels=("member",),
        more=("group", "broker"),
    ),
    "throttle_time": Pattern(
        ((r"throttle", 3), (r"avg|mean", 1)),
        never=rf"produce|cnt|_sum|total|bytes|rate|{_SPREAD}",
        labels=("member",),
        more=("group", "broker"),
    ),
    "paused_partitions": Pattern(
        ((r"paused", 3), (r"partition", 1)), never=r"total|time|seconds", labels=("member",), more=("group",)
    ),
    "dead_letters": Pattern(
        ((r"dead_?letter|dlq|_dlt|poison", 3), (r"total", 1)),
        never=r"lag|offset|error|fail|size|length",
        more=("group", "topic", "member", "processor"),
    ),
}
# Units of clients that do not say them in a name: librdkafka's round trips in µs, the others, as Kafka's own client, in ms.
OWN_UNITS = ((r"rtt", 1e-6), (r"throttle|latency_avg", 0.001))
# Lag of a topic as a whole, where there is none by partition.
OF_TOPIC = Pattern(
    ((r"lag|uncommitted|binder_kafka_offset", 3), (r"group|consumer", 1), (r"sum|total|topic", 0.5)),
    never=rf"{_TIME}|max|min(?:_|$)|avg|mean|rate|per_sec|_created|_bucket|percent|slope|velocity|predict|lead",
    labels=("group", "topic"),
    without=("partition",),
)

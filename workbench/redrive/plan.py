"""Planning of a redrive: what the cluster says now, one pass over the letters, and the plan. Writes nothing and joins no group."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np

from workbench.errors import EvidenceError, GuardError, SourceUnreachableError, UnknownGroupError
from workbench.humanize import counted, did_you_mean, duration, listed, plural, shell_word
from workbench.plans.refusal import NO_RIGHT
from workbench.plans.strict_document import current_user
from workbench.queues.replay_port import ClusterView, Gateway, LogView, TopicSettings
from workbench.record_settings import is_of_retries
from workbench.redrive.every_log_must_answer import whole_logs
from workbench.redrive.groups_reading_targets import Readers, audience_words
from workbench.redrive.key_order import Columns, duplicates, out_of_order
from workbench.redrive.letter_headers import Reader
from workbench.redrive.picked_letter_offsets import Picks
from workbench.redrive.planfile import (
    MOST_PLAN_BYTES,
    Dedup,
    Destination,
    Left,
    LetterPartition,
    Order,
    RedrivePlan,
    TargetTopic,
    To,
)
from workbench.redrive.read_letters_for_plan import Route, Rules, Wanted, survey
from workbench.redrive.redrive_ports import LetterReader, LettersGoneError
from workbench.redrive.selection import Selection

# Letters in an order of their own are held in memory while they are produced.
MOST_ORDERED = 100_000
MOST_ORDERED_BYTES = 256 << 20
_MOST_ERRORS = 50  # classes that a plan names
_RECORD_OVERHEAD = 100  # bytes of a record around key, value and headers; the limit of a topic counts them
_MOST_ABSENT = 100  # topics that are asked for by name
_TIGHT_RETENTION_SECONDS = 24 * 3600.0
HTTP_BATCH = 100  # requests between two commits of the position


@dataclass(frozen=True, slots=True, kw_only=True)
class RedriveRequest:
    """What a person asks for.

    Attributes:
        mapping: headers of unknown frameworks, from the settings.
        done, discarded: letters that earlier plans have handled, by partition, and those of them that they have discarded.
    """

    cluster: str
    topic: str
    selection: Selection = field(default_factory=Selection)
    destination: Destination = field(default_factory=lambda: Destination(kind=To.SOURCE))
    dedup: Dedup = Dedup.ORIGIN
    order: Order = Order.ORIGIN
    again: bool = False
    max_rounds: int = 3
    max_records_per_second: float | None = None
    max_bytes_per_second: float | None = None
    mapping: Mapping[str, str] = field(default_factory=dict)
    done: Mapping[int, Picks] = field(default_factory=dict)
    discarded: Mapping[int, Picks] = field(default_factory=dict)
    reason: str | None = None


def route_of(plan: RedrivePlan) -> Route:
    """The route of a plan's letters."""
    it = plan.destination
    return Route(kind=it.kind, letters_topic=plan.topic, topic=it.topic, fallback=it.fallback)


def make_redrive_plan(
    request: RedriveRequest,
    gateway: Gateway,
    letters: LetterReader,
    limit_of: Callable[[str], int],
    *,
    readers: Callable[[Sequence[str]], Readers | None] | None = None,
) -> RedrivePlan:
    """Make a plan.

    Args:
        readers: committed offsets of the groups that read some topics; None: the plan does not name them.
        limit_of: largest record of a topic in bytes.

    Raises:
        UnknownGroupError: if the topic does not exist.
        GuardError: if no letter is left to redrive, or the order of the keys takes too much.
        SourceUnreachableError: if Kafka does not answer or a topic may not be read.
    """
    view = gateway.cluster([request.topic])
    if request.topic in view.denied:
        raise SourceUnreachableError(f"These credentials may not read the topic {request.topic!r}.", hint=NO_RIGHT)
    if request.topic not in view.topics:
        raise UnknownGroupError(
            f"The cluster has no topic {request.topic!r}.{did_you_mean(request.topic, sorted(view.topics))}",
            hint=f"Topics with dead letters: workbench dlq list --cluster {shell_word(request.cluster)}",
        )
    parts = [(request.topic, number) for number in sorted(view.topics[request.topic].leaders)]
    logs = whole_logs(gateway, parts, stable=True)
    start = {number: logs.starts[key] for key in parts for number in key[1:]}
    stop = {
        number: max(logs.starts[key], logs.stable_ends.get(key, logs.ends[key])) for key in parts for number in key[1:]
    }
    destination = request.destination
    if destination.kind is To.TOPIC and destination.topic not in view.topics:
        means = did_you_mean(destination.topic or "", sorted(view.topics))
        raise UnknownGroupError(f"The cluster has no topic {destination.topic!r}.{means}")
    sizes: dict[str, int] = {}
    absent: set[str] = set()

    def limit(topic: str) -> int | None:
        if topic not in view.topics and len(absent) < _MOST_ABSENT:
            absent.add(topic)
        if topic not in sizes and topic in view.topics:
            sizes[topic] = limit_of(topic) - _RECORD_OVERHEAD
        return sizes.get(topic)

    known: dict[str, TopicSettings] = {}

    def settings_of(topic: str) -> TopicSettings:
        if topic not in known:
            known[topic] = gateway.settings([topic]).get(topic, TopicSettings())
        return known[topic]

    rules = Rules(
        reader=Reader(request.mapping),
        route=Route(
            kind=destination.kind,
            letters_topic=request.topic,
            topic=destination.topic,
            fallback=destination.fallback,
        ),
        selection=request.selection,
        dedup=request.dedup,
        max_rounds=request.max_rounds,
        done=request.done,
        discarded=request.discarded,
        limits=limit,
        settings=settings_of,
        has_original_times=destination.timestamps == "original",
        now_ms=datetime.now(UTC).timestamp() * 1000,
    )
    try:
        wanted = survey(letters, start, stop, rules)
    except LettersGoneError as error:
        raise EvidenceError(
            f"Letters were deleted while they were read: {error.where}.", hint="Plan again: retention is deleting them."
        ) from None
    # A list of all topics leaves out those that may not be described; asked by name, the broker says so.
    denied = sorted(gateway.cluster(sorted(absent)).denied) if absent else []
    return _planned(request, view, logs, gateway, start, stop, wanted, denied, readers)


def _planned(
    request: RedriveRequest,
    view: ClusterView,
    logs: LogView,
    gateway: Gateway,
    start: Mapping[int, int],
    stop: Mapping[int, int],
    wanted: Wanted,
    denied: Sequence[str],
    readers: Callable[[Sequence[str]], Readers | None] | None,
) -> RedrivePlan:
    rows, left = wanted.columns, Counter(wanted.left)
    new, repeated = rows.handled == 0, duplicates(rows, request.dedup)
    kept = new & ~repeated
    left[Left.DUPLICATE.value] += int((new & repeated).sum())
    if request.selection.most is not None and kept.sum() > request.selection.most:
        over = np.flatnonzero(kept)[request.selection.most :]
        left[Left.OVER_LIMIT.value] += len(over)
        kept[over] = False
    if not kept.any():
        reasons = ", ".join(f"{number:,} {name.replace('_', ' ')}" for name, number in left.most_common() if number)
        hidden = _behind_transaction(logs)
        raise GuardError(
            f"No letter of {request.topic!r} is left to redrive"
            + (f" ({reasons})." if reasons else "." if hidden else ": it is empty.")
            + (f" Those behind an open transaction cannot be read yet: {hidden}." if hidden else ""),
            hint=f"{_denied_words(denied)} {NO_RIGHT}"
            if denied
            else f"See them with: workbench dlq show {shell_word(request.topic)} --cluster {shell_word(request.cluster)}",
        )
    rows = rows.where(kept)
    size, checksum, target = wanted.size[kept], wanted.checksum[kept], wanted.target[kept]
    special, sequence = out_of_order(rows, request.order)
    if len(sequence) > MOST_ORDERED or int(size[sequence].sum()) > MOST_ORDERED_BYTES:
        raise GuardError(
            f"{plural(len(sequence), 'letter belongs', 'letters belong')} to keys whose letters are in another order than their "
            f"records, or in several partitions; at most {MOST_ORDERED:,} can be put in order.",
            hint="Select fewer, or keep the order of the dead-letter topic with --order log.",
        )
    names = [name for at, name in enumerate(wanted.targets) if name and (target == at).any()]
    ends = whole_logs(gateway, [(name, number) for name in names for number in sorted(view.topics[name].leaders)])
    targets = [
        TargetTopic(
            topic=name,
            topic_id=gateway.cluster([name]).topics[name].topic_id,
            ends=[ends.ends[name, number] for number in sorted(view.topics[name].leaders)],
            letters=int((target == wanted.targets.index(name)).sum()),
            bytes=int(size[target == wanted.targets.index(name)].sum()),
            origins=_origins(rows, wanted.source_names.index(name)) if name in wanted.source_names else [],
        )
        for name in names
    ]
    settings = gateway.settings([request.topic, *(it.topic for it in targets)])
    by_error = np.bincount(wanted.error[kept], minlength=len(wanted.error_names))
    frequent = Counter(dict(zip(wanted.error_names, map(int, by_error), strict=True))).most_common(_MOST_ERRORS)
    gave_up = wanted.gave_up[kept]
    by_group = np.bincount(gave_up[gave_up >= 0], minlength=len(wanted.group_names))
    plan = RedrivePlan(
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        created_by=current_user(),
        host=socket.gethostname(),
        reason=request.reason,
        cluster=request.cluster,
        cluster_id=view.cluster_id,
        topic=request.topic,
        topic_id=view.topics[request.topic].topic_id,
        headers=dict(request.mapping),
        selection=request.selection,
        destination=request.destination,
        dedup=request.dedup,
        order=request.order,
        again=request.again,
        max_rounds=request.max_rounds,
        max_records_per_second=request.max_records_per_second,
        max_bytes_per_second=request.max_bytes_per_second,
        partitions=_partitions(rows, special, size, checksum, start, stop),
        ordered=[(int(rows.partition[at]), int(rows.offset[at])) for at in sequence],
        targets=targets,
        left={name: number for name, number in sorted(left.items()) if number},
        errors={name: number for name, number in frequent if number},
        gave_up={name: int(number) for name, number in zip(wanted.group_names, by_group, strict=True) if number},
        warnings=[],
    )
    warnings = _warnings(plan, settings, logs, now_ms=datetime.now(UTC).timestamp() * 1000)
    if denied:
        warnings.append(f"{_denied_words(denied)} Their letters stay.")
    if readers is not None and plan.targets:
        warnings += audience_words(plan, readers([it.topic for it in plan.targets]))
    made = plan.model_copy(update={"warnings": warnings})
    if (size_bytes := sum(len(part.picks) for part in made.partitions)) > MOST_PLAN_BYTES // 2:
        raise GuardError(
            f"The plan would have {size_bytes >> 20:,} MiB: {counted(made.letters, 'letter')} that are not next to each other.",
            hint="Select fewer: by time (--since, --until), by --offset, or with --most; then plan the rest.",
        )
    return made.sealed()


def _origins(rows: Columns, source: int) -> list[tuple[int, int, int]]:
    """Partition, first and last offset of the source records of one topic."""
    mine = rows.source == source
    found = []
    for number in np.unique(rows.source_partition[mine]):
        offsets = rows.source_offset[mine & (rows.source_partition == number)]
        found.append((int(number), int(offsets.min()), int(offsets.max())))
    return found


def _partitions(
    rows: Columns,
    special: np.ndarray,
    size: np.ndarray,
    checksum: np.ndarray,
    start: Mapping[int, int],
    stop: Mapping[int, int],
) -> list[LetterPartition]:
    found = []
    for number in sorted(start):
        mine = rows.partition == number
        if not mine.any():
            continue
        times = rows.timestamp[mine]
        times = times[times >= 0]
        found.append(
            LetterPartition(
                partition=number,
                log_start=start[number],
                stop=stop[number],
                picks=str(Picks.of(map(int, rows.offset[mine & ~special]))),
                letters=int(mine.sum()),
                bytes=int(size[mine].sum()),
                checksum=int(checksum[mine].sum()),
                first_timestamp=int(times.min()) if len(times) else None,
            )
        )
    return found


def seconds_of(plan: RedrivePlan) -> float | None:
    """Duration at the plan's cap; None without one."""
    found = []
    if plan.max_records_per_second is not None:
        found.append(plan.letters / plan.max_records_per_second)
    if plan.max_bytes_per_second is not None:
        found.append(plan.bytes / plan.max_bytes_per_second)
    return max(found, default=None)


def bytes_per_broker_of(plan: RedrivePlan, view: ClusterView) -> dict[int, tuple[int, int]]:
    """Bytes that each broker reads and writes for a redrive, by the current leaders.

    The records of a target are counted as spread evenly over its partitions. Followers read and write as much again.
    """
    read, write = Counter[int](), Counter[int]()
    topic = view.topics.get(plan.topic)
    for part in plan.partitions:
        if topic is not None and part.partition in topic.leaders:
            read[topic.leaders[part.partition]] += part.bytes
    for target in plan.targets:
        if (there := view.topics.get(target.topic)) is not None and there.leaders:
            for broker in there.leaders.values():
                write[broker] += target.bytes // len(there.leaders)
    return {broker: (read[broker], write[broker]) for broker in sorted({*read, *write})}


def margin_seconds(plan: RedrivePlan, settings: TopicSettings, *, now_ms: float) -> float | None:
    """Seconds until retention may delete the oldest letter of the plan; None if that cannot be."""
    oldest = min((part.first_timestamp for part in plan.partitions if part.first_timestamp is not None), default=None)
    if oldest is None or settings.retention_ms is None or settings.retention_ms < 0:
        return None
    return (oldest + settings.retention_ms - now_ms) / 1000


def _denied_words(topics: Sequence[str]) -> str:
    return f"These credentials may not describe {listed([repr(name) for name in topics])}: no target."


def _warnings(plan: RedrivePlan, settings: Mapping[str, TopicSettings], logs: LogView, *, now_ms: float) -> list[str]:
    found = ["Consumers of the target process these records again: side effects must be idempotent."]
    if is_of_retries(plan.topic):
        found.append(
            f"{plan.topic} has the retries of a subscription, whose consumers take them again by themselves, or have already: what is "
            "redriven is handled twice, unless those are gone."
        )
    mine = settings.get(plan.topic, TopicSettings())
    if mine.compacted:
        found.append(
            f"{plan.topic} is compacted: a letter may be gone before it is produced, and `apply` then stops. Letters "
            "that a later one of the same key has replaced may be gone already: nothing tells how many."
        )
    left, needed = margin_seconds(plan, mine, now_ms=now_ms), seconds_of(plan) or 0.0
    if mine.retention_ms is None:
        found.append(f"{plan.topic}: its retention cannot be read, so the margin is unknown.")
    elif left is not None and left - needed < _TIGHT_RETENTION_SECONDS:
        due = "now" if left <= 0 else f"in {duration(left)}"
        found.append(f"{plan.topic}: retention may delete letters of the plan {due}. Raise retention.ms first.")
    for target in plan.targets:
        theirs = settings.get(target.topic, TopicSettings())
        if theirs.compacted:
            found.append(
                f"{target.topic} is compacted: a redriven record replaces a newer one of its key, and of several letters of "
                "a key only the last one stays."
            )
        if theirs.retention_ms is not None and theirs.retention_ms >= 0 and plan.destination.timestamps == "original":
            found.append(f"{target.topic}: with their original timestamps, retention may delete the records at once.")
    stays = {
        Left.POISON: "redriven too often",
        Left.LEFT_OUT: "without a part of the record",
        Left.NO_SOURCE: "no source topic in the headers",
    }
    stays |= {
        Left.NO_TARGET: "no possible target",
        Left.TOO_LARGE: "too large for the target",
        Left.NO_KEY: "no key, and a compacted target",
        Left.WRONG_TIME: "a timestamp that the target refuses",
        Left.UNREADABLE: "headers that cannot be read",
    }
    for reason, words in stays.items():
        if number := plan.left.get(reason.value):
            found.append(f"{plural(number, 'letter stays', 'letters stay')}: {words}.")
    if plan.ordered:
        found.append(
            f"Produced last, in the order of their source records: {counted(len(plan.ordered), 'letter')} of keys in another order, "
            "or in several partitions."
        )
    if hidden := _behind_transaction(logs):
        found.append(f"Letters behind an open transaction are not in the plan: {hidden}.")
    if plan.destination.kind is To.HTTP:
        found.append(
            f"HTTP has no transactions: after a crash, up to {HTTP_BATCH} requests are sent again, with the same Idempotency-Key."
        )
    return found


def _behind_transaction(logs: LogView) -> str | None:
    """Partitions whose last letters are behind an open transaction, in words."""
    hidden = sorted(key[1] for key, end in logs.ends.items() if logs.stable_ends.get(key, end) < end)
    return f"partitions {listed(hidden)}" if hidden else None

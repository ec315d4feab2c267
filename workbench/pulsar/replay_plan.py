"""A replay on Pulsar: a new subscription that begins at a time, on every partition of a topic. The plan is a file with a hash.

The old subscription is only looked at. Entries that every subscription has acknowledged are kept as long as the namespace's retention
says, so what a plan can reach is what is still there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, ConfigDict, Field

from workbench.errors import EvidenceError, GuardError, UnknownGroupError, UsageError
from workbench.humanize import did_you_mean, duration, plural, printable, size
from workbench.plans.confirm import Confirmation
from workbench.plans.strict_document import Offset, StrictDocument, canonical_hash, read_document, validated
from workbench.pulsar.admin import AT_ONCE, NotThereError, PulsarAdmin
from workbench.pulsar.policies import NOT_TOLD, BacklogQuota, backlog_quotas, retention_words, ttl_seconds
from workbench.pulsar.topic_log import PulsarLog, partitions_of, place, position_at, published_ms, read_log
from workbench.pulsar.topic_names import TopicName, part_name
from workbench.queues.position import Position, unpacked
from workbench.window import instant_ms

_REPLICATOR = "pulsar.repl."  # of the cursors by which brokers send a topic to other clusters (replicatorPrefix)
SCHEMA = "workbench.pulsar-replay/1"


def _is_place(text: str) -> str:
    place(text)
    return text


T = TypeVar("T")
R = TypeVar("R")
M = TypeVar("M", bound=StrictDocument)
Place = Annotated[str, AfterValidator(_is_place)]

Missing = Mapping[int, Sequence[tuple[int, int]]]


class PulsarWindow(StrictDocument):
    """One partition: the entries in [start, stop), which are positions `ledger:entry`.

    Attributes:
        partition: -1 of a topic without partitions.
        entries: how many were kept there when the plan was made.
        oldest, oldest_ms: the oldest entry that was kept, and when it was published; None if not known, or if there was none.
    """

    partition: Annotated[int, Field(ge=-1)]
    start: Place
    stop: Place
    entries: Offset
    oldest: Place
    oldest_ms: Offset | None

    @property
    def begin(self) -> Position:
        """Position where the new subscription begins."""
        return place(self.start)

    @property
    def end(self) -> Position:
        """Position after the last entry of the window."""
        return place(self.stop)


class PulsarReplayPlan(StrictDocument):
    """What `replay plan` writes for a Pulsar.

    Attributes:
        clusters: names that its admin knows: another Pulsar is refused.
        since_ms, until_ms: the window of publish times; None: up to the last entry when the plan was made.
        retention: of what every subscription has acknowledged, in words.
        ttl_seconds: age at which brokers acknowledge an entry that nobody has read; 0 without one, None if not told.
        quota: the backlog quota that the new subscription would exceed, in a sentence; None: none that is told.
        quotas_told: whether all of them are told.
        is_replicated: whether a window of times is of a topic that other clusters have, too: what comes from there may come late.
    """

    schema_: Literal["workbench.pulsar-replay/1"] = Field(alias="schema", default="workbench.pulsar-replay/1")
    made_at: str
    cluster: str
    clusters: list[str]
    topic: str
    from_subscription: str
    new_subscription: str
    since_ms: Offset
    until_ms: Offset | None
    written: str
    retention: str
    ttl_seconds: Offset | None
    reason: str | None
    windows: list[PulsarWindow]
    quota: str | None = None
    quotas_told: bool = True
    is_replicated: bool = False
    hash: str = ""

    model_config = ConfigDict(
        hide_input_in_errors=True, extra="forbid", frozen=True, strict=True, populate_by_name=True
    )

    @property
    def name(self) -> TopicName:
        """The topic."""
        return topic_of(self.topic)

    @property
    def entries(self) -> int:
        """Of all partitions."""
        return sum(it.entries for it in self.windows)

    @property
    def begins_ms(self) -> int | None:
        """No entry of the window was published before this, ms since the epoch; None if there is none."""
        times = (max(self.since_ms, it.oldest_ms or 0) for it in self.windows if it.entries)
        return min(times, default=None)

    def outlived(self, ttl: int | None, *, now_ms: float) -> str | None:
        """Whether a time-to-live (seconds) takes entries of the window unread, in a sentence."""
        if not ttl or self.begins_ms is None or self.begins_ms + ttl * 1000 > now_ms:
            return None
        return f"The topic's time-to-live is {duration(ttl)}, and the window begins before: brokers acknowledge its entries unread."

    def over_quota(self, quotas: Sequence[BacklogQuota], logs: Mapping[int, PulsarLog], *, now_ms: float) -> str | None:
        """Which backlog quota the new subscription exceeds from its begin on, in a sentence.

        Args:
            logs: by partition, as they are now.
        """
        most = max((logs[it.partition].bytes_from(it.begin) for it in self.windows if it.partition in logs), default=0)
        for quota in quotas:
            if quota.is_age and self.begins_ms is not None and self.begins_ms + quota.most * 1000 <= now_ms:
                return f"{quota.words} The window begins before that."
            if not quota.is_age and most > quota.most:
                return f"{quota.words} From the begin of the window on, a partition has {size(most)}."
        return None

    @property
    def confirmation(self) -> Confirmation:
        """What is typed before it is applied."""
        asked = "the new subscription and the number of entries"
        return Confirmation(hash=self.hash, name=self.new_subscription, number=self.entries, asked=asked)

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return self.model_dump(mode="json", by_alias=True)

    def warnings(self) -> list[str]:
        """What to read before it is applied."""
        found = []
        oldest = [it.oldest_ms for it in self.windows if it.oldest_ms is not None]
        late = [it for it in oldest if it > self.since_ms]
        if late and len(late) == len(self.windows):
            found.append(
                f"This is ALL of what is kept: the oldest entry was published {_instant(min(late))}, and you wrote "
                f"{_instant(self.since_ms)}. Is the time zone right? Older entries may have been acknowledged and are gone."
            )
        elif late:
            found.append(
                f"{plural(len(late), 'partition keeps', 'partitions keep')} nothing as old as the start: "
                "what was acknowledged there may be gone."
            )
        made_ms = datetime.fromisoformat(self.made_at).timestamp() * 1000
        if (words := self.outlived(self.ttl_seconds, now_ms=made_ms)) is not None:
            found.append(f"{words} `apply` will refuse this.")
        if self.quota is not None:
            found.append(f"{self.quota} `apply` will refuse this.")
        if self.ttl_seconds is None:
            found.append(
                f"The topic's time-to-live is {NOT_TOLD}. Brokers acknowledge what is older, and nobody reads it."
            )
        if not self.quotas_told:
            found.append(
                "Whether the topic has a backlog quota is not told. Brokers may acknowledge what is beyond, and nobody reads it."
            )
        if self.is_replicated:
            found.append(
                "The topic is replicated: entries of other clusters keep their publish times, and may have come long after. Begin "
                "as much earlier as the replication was behind: brokers search as if publish times only rise."
            )
        if not self.entries:
            found.append("There is no entry in this window.")
        return found


def topic_of(text: str) -> TopicName:
    """Read `tenant/namespace/topic`, with or without `persistent://`.

    Raises:
        UsageError: if it is none.
    """
    found = TopicName.parse(text if "://" in text else f"persistent://{text}")
    if found is None:
        raise UsageError(f"{text!r} is no persistent topic.", hint="Write it as tenant/namespace/topic.")
    return found


def make_pulsar_plan(
    admin: PulsarAdmin,
    *,
    cluster: str,
    topic: str,
    from_subscription: str,
    new_subscription: str,
    since: datetime | None,
    until: datetime | None = None,
    missing: Missing | None = None,
    written: str,
    reason: str | None = None,
) -> PulsarReplayPlan:
    """Find where a new subscription begins on each partition. Changes nothing.

    Args:
        since: None: at the first of the missing ones.
        missing: by partition (0 of a topic without partitions), ranges of packed positions in order; others get nothing.
        written: the window as the user wrote it.

    Raises:
        UsageError: if the window is empty or not over, or the names are equal. UnknownGroupError: if the old subscription is not there.
        SourceUnreachableError: if the admin does not answer. EvidenceError: if nobody can read its answer, or missing ones are gone.
    """
    name = topic_of(topic)
    old, new = (it.removesuffix(f"@{name}") for it in (from_subscription, new_subscription))
    if new in ("", ".", ".."):
        raise UsageError(f"{new!r} is no name for a subscription: in a URL it means something else.")
    if old == new:
        raise UsageError("A replay needs a new subscription: the old one is never changed.", hint="Give another name.")
    since_ms, until_ms = 0 if since is None else instant_ms(since), None if until is None else instant_ms(until)
    if until_ms is not None and until_ms <= since_ms:
        raise UsageError("The window ends before it begins.", hint="Give --until after --since.")
    if until is not None and until > datetime.now(UTC):
        raise UsageError(
            "The window is not over: a plan holds the entries that are there when it is made.",
            hint="Leave --until out: then it ends at the last entry. Or plan once the window is over.",
        )
    try:
        numbers = partitions_of(admin, name)
    except NotThereError:
        raise UsageError(
            f"There is no topic {name} on {cluster!r}.",
            hint="See the topics with: workbench snapshot --cluster CLUSTER",
        ) from None
    if gone := sorted(set(missing or ()) - {max(0, number) for number in numbers}):
        raise EvidenceError(
            f"{name} has no partition {gone[0]}, and messages of it are missing.",
            hint="Was the topic made anew, with fewer partitions? Then they are gone.",
        )
    logs = dict(zip(numbers, each(numbers, lambda number: read_log(admin, name, number)), strict=True))
    if not any(old in log.cursors for log in logs.values()):
        others = sorted({subscription for log in logs.values() for subscription in log.cursors})
        raise UnknownGroupError(f"There is no subscription {old!r} on {name}.{did_you_mean(old, others)}")

    def window(number: int) -> PulsarWindow:
        log = logs[number]
        if missing is not None:
            return _window_of_missing(name, number, log, missing.get(max(0, number), ()))
        start = min(max(position_at(admin, name, number, log, since_ms), log.first), log.stop)
        stop = log.stop if until_ms is None else min(position_at(admin, name, number, log, until_ms), log.stop)
        stop, empty = max(start, stop), log.first == log.stop
        return PulsarWindow(
            partition=number,
            start=str(start),
            stop=str(stop),
            entries=log.entries_between(start, stop),
            oldest=str(log.first),
            oldest_ms=None if empty else published_ms(admin, name, number, log.first),
        )

    windows = each(numbers, window)
    if missing is not None:
        begun = [published_ms(admin, name, it.partition, it.begin) for it in windows if it.entries]
        since_ms = min((it for it in begun if it is not None), default=0)
    plan = PulsarReplayPlan(
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        cluster=cluster,
        clusters=names_of(admin),
        topic=str(name),
        from_subscription=old,
        new_subscription=new,
        since_ms=since_ms,
        until_ms=until_ms,
        written=written,
        retention=retention_words(admin, name),
        ttl_seconds=ttl_seconds(admin, name),
        reason=reason,
        windows=windows,
        is_replicated=missing is None
        and any(it.startswith(_REPLICATOR) for log in logs.values() for it in log.cursors),
    )
    quotas, are_told = backlog_quotas(admin, name)
    over = plan.over_quota(quotas, logs, now_ms=datetime.now(UTC).timestamp() * 1000)
    plan = plan.model_copy(update={"quota": over, "quotas_told": are_told})
    return plan.model_copy(update={"hash": canonical_hash(plan.document())})


def _window_of_missing(
    topic: TopicName, number: int, log: PulsarLog, ranges: Sequence[tuple[int, int]]
) -> PulsarWindow:
    """From the entry of the first one to that of the last one."""
    start = stop = log.stop
    if ranges:
        (first, entry, _), (last, end, _) = unpacked(ranges[0][0]), unpacked(ranges[-1][1] - 1)
        start, stop = Position((first, entry)), Position((last, end + 1))
        if start < log.first or stop > log.stop:
            raise EvidenceError(
                f"Missing messages of {part_name(topic, number)} are not kept any more, or are none of this topic.",
                hint="What every subscription has acknowledged goes, unless there is a retention.",
            )
    return PulsarWindow(
        partition=number, start=str(start), stop=str(stop), entries=log.entries_between(start, stop), oldest=str(log.first),
        oldest_ms=None,
    )  # fmt: skip


def read_plan(path: Path) -> PulsarReplayPlan:
    """Read a plan that nobody has changed.

    Raises:
        UsageError: if the file cannot be read, or is no such plan. GuardError: if it was changed.
    """
    return read_sealed(PulsarReplayPlan, SCHEMA, path, "plan")


def read_sealed(model: type[M], schema: str, path: Path, what: str) -> M:
    """Read a file with a hash that nobody has changed.

    Raises:
        UsageError: if it cannot be read, or is another file. GuardError: if it was changed.
    """
    document = read_document(path, what)
    if not isinstance(document, dict) or document.get("schema") != schema:
        raise UsageError(
            f"{path} is not a {what} of a replay on Pulsar.",
            hint="`workbench replay plan` makes a plan, and `apply` the rollback file next to it.",
        )
    found = validated(model, document, path, what)
    if document.get("hash") != canonical_hash(document):
        raise GuardError(f"The {what} {path} was changed: its hash does not fit.", hint="Make a new plan.")
    return found


def names_of(admin: PulsarAdmin) -> list[str]:
    """Names of the clusters that an admin knows.

    Raises:
        SourceUnreachableError: if it does not answer. EvidenceError: if it names none: one could not be told from another.
    """
    found = admin.get("clusters")
    if not isinstance(found, list) or not found or not all(isinstance(it, str) for it in found):
        raise EvidenceError("The names of the clusters that the admin knows cannot be read.")
    return sorted(found)


def each(items: Sequence[T], ask: Callable[[T], R]) -> list[R]:
    """Ask for each, some at once; in order."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        asked = [pool.submit(ask, it) for it in items]
        try:
            return [it.result() for it in asked]
        finally:
            pool.shutdown(cancel_futures=True)  # after an error, thousands would still be asked


def _instant(ms: int) -> str:
    return printable(datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds"))

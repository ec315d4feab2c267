"""A cluster in memory behind the port: records with times, groups with commits; it counts what is written and can be made to fail."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from workbench.errors import SourceUnreachableError
from workbench.plans.journal import Journal
from workbench.queues.replay_port import (
    ABSENT,
    Audience,
    ClusterView,
    FirstRecord,
    KeptCommit,
    LogView,
    ReadLimits,
    ReadTimes,
    TopicSettings,
    TopicView,
)
from workbench.queues.snapshot_views import GroupView, Member, Partition
from workbench.replay.plan import make_plan, survey
from workbench.replay.planfile import AfterEnd, Plan
from workbench.replay.replay_request import PlanRequest

CLUSTER_ID = "fake-cluster-id-0000000"


@dataclass
class FakeGateway:
    """One broker. A log is a list of (offset, timestamp in ms); its end may lie behind the last record."""

    records: dict[Partition, list[tuple[int, int]]]
    ends: dict[Partition, int] = field(default_factory=dict)
    starts: dict[Partition, int] = field(default_factory=dict)
    stable: dict[Partition, int] = field(default_factory=dict)  # where an open transaction begins
    groups: dict[str, dict[Partition, int]] = field(default_factory=dict)
    members: dict[str, list[str]] = field(default_factory=dict)
    assigned: dict[str, list[Partition]] = field(default_factory=dict)  # what members read and have never committed
    kinds: dict[str, str] = field(default_factory=dict)  # of groups that are there; classic by default
    topic_settings: dict[str, TopicSettings] = field(default_factory=dict)
    under_replicated: tuple[Partition, ...] = ()
    cluster_id: str = CLUSTER_ID
    topic_ids: dict[str, str] = field(default_factory=dict)  # of those that were made anew
    denied: set[str] = field(default_factory=set)  # topics that may not be seen
    silent: set[Partition] = field(default_factory=set)  # without a leader
    unreadable: str | None = None  # why records cannot be read
    most_read: int | None = None  # of records, by one call of `times`
    by_broker_from: int | None = None  # offset from which on the broker has set the timestamps
    stored: dict[str, dict[Partition, str]] = field(default_factory=dict)  # notes of groups
    described: set[str] = field(default_factory=set)  # topics that may be described only: no commit is taken
    hides: bool = False  # whether there is somebody who could hide topics
    others_unknown: str | None = None  # why other groups cannot be told
    quota: float | None = None  # bytes/s of each broker, of any client id
    local_start: int | None = None  # of every partition: where the brokers' own disks begin
    writes: list[tuple[str, str]] = field(default_factory=list)
    refuse: dict[Partition, str] = field(default_factory=dict)
    before_commit: Callable[[], None] | None = None
    die_at: int | None = None  # the number of the call at which the process "dies"
    die_after_writing: bool = False
    calls: int = 0

    def _call(self) -> None:
        self.calls += 1
        if self.calls == self.die_at:
            raise SourceUnreachableError("the line is dead")

    def end(self, part: Partition) -> int:
        log = self.records[part]
        return self.ends.get(part, log[-1][0] + 1 if log else self.starts.get(part, 0))

    def start(self, part: Partition) -> int:
        return self.starts.get(part, self.records[part][0][0] if self.records[part] else self.end(part))

    def cluster(self, topics: Iterable[str] = ()) -> ClusterView:
        self._call()
        asked, known = set(topics), dict[str, dict[int, int]]()
        for topic, number in self.records:
            if topic not in self.denied:  # a list of all topics leaves them out
                known.setdefault(topic, {})[number] = 1
        views = {
            name: TopicView(
                topic=name,
                leaders=leaders,
                under_replicated=tuple(number for topic, number in self.under_replicated if topic == name),
                topic_id=self.topic_ids.get(name, f"id-of-{name}") if name in asked else None,
            )
            for name, leaders in known.items()
        }
        denied = dict.fromkeys(asked & self.denied, "Broker: Topic authorization failed")
        return ClusterView(cluster_id=self.cluster_id, brokers={1: "b:9092"}, topics=views, denied=denied)

    def settings(self, topics: Iterable[str]) -> Mapping[str, TopicSettings]:
        self._call()
        return {topic: self.topic_settings.get(topic, TopicSettings(retention_ms=-1)) for topic in topics}

    def logs(
        self, partitions: Sequence[Partition], *, instants_ms: Sequence[int] = (), stable: bool = False
    ) -> LogView:
        self._call()
        denied = {part for part in partitions if part[0] in self.denied}
        if partitions and denied == set(partitions):
            raise SourceUnreachableError("Kafka at b:9092 refuses: Broker: Topic authorization failed.")
        silent = self.silent & set(partitions)
        partitions = [part for part in partitions if part not in denied | silent]
        return LogView(
            errors=dict.fromkeys(denied, "Broker: Topic authorization failed")
            | dict.fromkeys(silent, "Broker: Leader not available"),
            denied=frozenset(denied),
            starts={part: self.start(part) for part in partitions},
            ends={part: self.end(part) for part in partitions},
            stable_ends={part: min(self.end(part), self.stable.get(part, self.end(part))) for part in partitions}
            if stable
            else {},
            found={instant: {part: self._first(part, instant) for part in partitions} for instant in instants_ms},
        )

    def _first(self, part: Partition, instant: int) -> FirstRecord:
        for offset, timestamp in self.records[part]:
            if offset >= self.start(part) and timestamp >= instant:
                return FirstRecord(offset=offset, timestamp_ms=timestamp)
        return FirstRecord()

    def group(self, name: str) -> GroupView:
        self._call()
        names = self.members.get(name, ())
        read = sorted({*self.groups.get(name, {}), *self.assigned.get(name, ())} & set(self.records))
        members = tuple(
            Member(member_id=f"{who}-id", client_id=who, host="/h", partitions=tuple(read[at :: len(names)]))
            for at, who in enumerate(names)
        )
        here = name in self.groups or name in self.kinds
        state = "stable" if members else "empty" if here else ABSENT
        kind = self.kinds.get(name, "classic")
        return GroupView(group=name, state=state, protocol=kind, coordinator=1, members=members)

    def commits(self, group: str) -> Mapping[Partition, int]:
        self._call()
        return {part: offset for part, offset in self.groups.get(group, {}).items() if part[0] not in self.denied}

    def times(
        self, spans: Mapping[Partition, tuple[int, int]], limits: ReadLimits, *, committed: bool = False
    ) -> Mapping[Partition, ReadTimes]:
        self._call()
        if self.unreadable is not None:
            raise SourceUnreachableError(self.unreadable)
        left = limits.records if self.most_read is None else min(limits.records, self.most_read)
        found = {}
        for part, (start, stop) in spans.items():
            stop = min(stop, self.end(part), *([self.stable[part]] if committed and part in self.stable else []))
            log = [it for it in self.records[part] if max(start, self.start(part)) <= it[0] < stop]
            through = stop if len(log) <= left else log[left][0]
            log = log[:left]
            left -= len(log)
            by_broker = self.by_broker_from is not None and all(at >= self.by_broker_from for at, _ in log)
            found[part] = ReadTimes(records=log, through=max(start, through), by_broker=by_broker or not log)
        return found

    def notes(self, group: str) -> Mapping[Partition, str]:
        self._call()
        return self.stored.get(group, {})

    def kept_commits(self, group: str) -> Mapping[Partition, KeptCommit]:
        notes = self.stored.get(group, {})
        return {key: KeptCommit(at, notes.get(key, "").encode()) for key, at in self.commits(group).items()}

    def may_hide(self) -> bool:
        return self.hides or bool(self.denied)

    def lacking(self, group: str, topics: Mapping[str, str], transactions: Sequence[str] = ()) -> tuple[str, ...]:
        return tuple(
            f"'me' lacks {topics[name]} on topic {name!r}." for name in sorted(topics) if name in self.described
        )

    def restore(self, group: str, commits: Mapping[Partition, KeptCommit]) -> Mapping[Partition, str]:
        failed = self.commit(group, {key: it.offset for key, it in commits.items()})
        for key, it in commits.items():
            if key not in failed and it.metadata:
                self.stored.setdefault(group, {})[key] = it.metadata.decode()
        return failed

    def audience(self, topics: Collection[str]) -> Audience:
        self._call()
        found = {
            name: len(self.members.get(name, ()))
            for name, commits in self.groups.items()
            if any(topic in topics for topic, _ in commits)
        }
        return Audience(groups=found, unknown=self.others_unknown)

    def record_bytes(self, starts: Mapping[Partition, int]) -> Mapping[str, float]:
        self._call()
        return {topic: 100.0 for topic, _ in starts}

    def read_quota(self, clients: Collection[str]) -> float | None:
        return self.quota if clients else None

    def local_starts(self, leaders: Mapping[Partition, int]) -> Mapping[Partition, int]:
        return dict.fromkeys(leaders, self.local_start) if self.local_start is not None else {}

    def commit(self, group: str, offsets: Mapping[Partition, int]) -> Mapping[Partition, str]:
        if self.before_commit is not None:
            self.before_commit()
        if not self.die_after_writing:
            self._call()
        self.writes.append(("commit", group))
        if self.members.get(group):
            return dict.fromkeys(offsets, "UNKNOWN_MEMBER_ID: the group has members")
        refuse = {part: "UNKNOWN_TOPIC_OR_PART" for part in offsets if part not in self.records} | self.refuse
        refuse |= {part: "TOPIC_AUTHORIZATION_FAILED" for part in offsets if part[0] in self.denied}
        good = {part: offset for part, offset in offsets.items() if part not in refuse}
        self.groups.setdefault(group, {}).update(good)
        for part in good:
            self.stored.get(group, {}).pop(part, None)
        if self.die_after_writing:
            self._call()
        return {part: words for part, words in refuse.items() if part in offsets}

    def delete_commits(self, group: str, partitions: Collection[Partition]) -> Mapping[Partition, str]:
        self._call()
        self.writes.append(("forget", group))
        if self.members.get(group):
            return dict.fromkeys(partitions, "GROUP_SUBSCRIBED_TO_TOPIC")
        for part in partitions:
            self.groups.get(group, {}).pop(part, None)
            self.stored.get(group, {}).pop(part, None)
        return {}

    def delete_group(self, name: str) -> str | None:
        self._call()
        self.writes.append(("delete", name))
        if self.members.get(name):
            return "NON_EMPTY_GROUP"
        self.groups.pop(name, None)
        self.stored.pop(name, None)
        return None


def now_ms() -> int:
    """The instant of the call, in ms: "5m ago" means another instant when a test runs than when its module was read."""
    return int(time.time() * 1000)


def orders(partitions: int = 4, records: int = 10) -> FakeGateway:
    """A topic whose records are a minute apart, the last one half a minute ago; the old group has read everything."""
    last = now_ms() - 30_000
    logs = {
        ("orders", number): [(offset, last - (records - 1 - offset) * 60_000) for offset in range(records)]
        for number in range(partitions)
    }
    return FakeGateway(logs, groups={"old": dict.fromkeys(logs, records)})


def instant(ms: int) -> datetime:
    """Milliseconds as an instant."""
    return datetime.fromtimestamp(ms / 1000, UTC)


def request(since_ms: int | None = None, **changes: object) -> PlanRequest:
    """A replay of the topic `orders`, of its last five minutes unless an instant is given."""
    since_ms = now_ms() - 5 * 60_000 if since_ms is None else since_ms
    fields: dict[str, object] = {
        "cluster": "c", "from_group": "old", "new_group": "new", "topics": ["orders"],
        "since": instant(since_ms), "requested_since": "5m ago", "after_end": AfterEnd.FAIL,
    }  # fmt: skip
    return PlanRequest(**{**fields, **changes})  # type: ignore[arg-type]


def plan_of(gateway: FakeGateway, asked: PlanRequest | None = None) -> Plan:
    """The plan of a request."""
    asked = asked or request()
    return make_plan(asked, *survey(gateway, asked))


def killed_before_its_last_line(journal: Journal) -> None:
    """Cut the last line of a journal off: the run did its change and was killed before it could tell so."""
    journal.path.write_text("".join(journal.path.read_text().splitlines(keepends=True)[:-1]))

"""Kafka behind the observer's port: one connection, and what is asked besides snapshots."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa

from workbench.errors import SourceUnreachableError
from workbench.kafka.assigned_partitions import (
    Read,
    assigned_samples,
    ends_in,
    held_by,
    never_committed,
    read_partitions,
    without_owner,
)
from workbench.kafka.cluster_snapshot import KafkaCluster
from workbench.kafka.connection import KafkaConnection
from workbench.kafka.last_stable_offsets import StandingStill, standing
from workbench.kafka.leaders import leader_of, topics_of
from workbench.kafka.local_log_starts import local_starts
from workbench.kafka.messages_within_quota import read_limits, samples_of
from workbench.kafka.quotas import all_limits, of_clients
from workbench.kafka.unread_ages import ages
from workbench.queues.observer import Ages, Listing, Round
from workbench.queues.snapshot_views import Partition, Snapshot, log_samples
from workbench.samples import SeriesTable
from workbench.settings import Cluster

NO_LEADER = -1  # as metadata say it
_LIMITS_SECONDS = 15.0  # between two looks at quotas and leaders, which change rarely
_METADATA_SECONDS = 5.0  # who leads is worth no longer wait


class KafkaObserver:
    """See `Observer`."""

    def __init__(self, cluster: Cluster, *, seconds: float | None = None) -> None:
        self._cluster = cluster
        deadline = seconds or cluster.timeout_seconds
        self._kafka = KafkaCluster(cluster.bootstrap or "", cluster.kafka, deadline_seconds=deadline)

    def cluster_id(self) -> str:
        """See `Observer`."""
        return self._kafka.cluster_id()

    def snapshot(self, *, groups: Sequence[str] | None = None, all_known: bool = True) -> Snapshot:
        """See `Observer`."""
        return self._kafka.snapshot(groups=groups, all_known=all_known)

    def members(self, *, groups: Sequence[str] | None = None, all_known: bool = True) -> Snapshot:
        """See `Observer`; costs one request per group."""
        return self._kafka.members(groups=groups, all_known=all_known)

    def listing(self) -> Listing:
        """See `Observer`."""
        found = self._kafka.others()
        kinds = {it.group: it.kind for it in found.listed.values()}
        return Listing(kinds=kinds, views=found.views, shares=found.shares, incomplete=found.incomplete)

    def ages(self, snapshot: Snapshot, incomplete: list[str]) -> Ages:
        """See `Observer`."""
        return ages(self._kafka, snapshot, incomplete)

    def of_now(self, series: SeriesTable, views: pa.Table, at: float, incomplete: list[str]) -> list[pa.Table]:
        """See `Observer`."""
        name, held = self._cluster.name, held_by(views)
        read, measured = read_partitions(series), ends_in(series)
        without = self._never_committed(held, read, incomplete)
        read |= without
        topics = _topics(self._kafka, {topic for _, topic, _ in read})
        of_groups = {it[:2] for it in read}
        left_out = {it for it in without_owner(held, topics) if it[:2] in of_groups} - read
        read |= left_out
        parts = {(topic, part) for _, topic, part in read}
        found = [assigned_samples(held, read, name, at), *_of_logs(self._kafka, parts, topics, name, at)]
        never = Snapshot(taken_at=at, groups=(), commits=dict.fromkeys(without), ends={}, starts={})
        found.append(never.to_samples(name))
        if unknown := sorted({(topic, part) for _, topic, part in left_out | without} - measured):
            found.append(self._ends(unknown, at, incomplete))
        try:
            if stable := self._kafka.last_stable(standing(series), incomplete):
                found.append(log_samples("last_stable_offset", stable, name, at))
        except SourceUnreachableError as error:
            incomplete.append(error.message)
        if limits := read_limits(self._kafka, views):
            found.append(samples_of(limits, name, at))
        return found

    def _never_committed(
        self, held: Mapping[str, Collection[Partition]], read: Collection[Read], incomplete: list[str]
    ) -> set[Read]:
        """What no exporter shows because it has no commit, unlike groups that an exporter is told to leave out."""
        shown = {key[:2] for key in read}
        asked = sorted(
            {group for group, parts in held.items() if any((group, topic) not in shown for topic, _ in parts)}
        )
        if not asked:
            return set()
        try:
            snapshot = self._kafka.snapshot(groups=asked, all_known=False)
        except SourceUnreachableError as error:
            incomplete.append(error.message)
            return set()
        incomplete += snapshot.incomplete
        return {key for key in never_committed(snapshot) if key[:2] not in shown}

    def _ends(self, parts: Sequence[Partition], at: float, incomplete: list[str]) -> pa.Table:
        """Where logs end that no exporter shows: those of partitions without a commit."""
        try:
            found = self._kafka.ends_of(parts, time.monotonic() + _METADATA_SECONDS, incomplete, {})
        except SourceUnreachableError as error:
            incomplete.append(error.message)
            found = {}
        return log_samples("log_end_offset", found, self._cluster.name, at)

    def client_quotas(self) -> dict[tuple[str, bool], float] | None:
        """See `Observer`."""
        limits = all_limits(self._kafka.bootstrap, self._kafka.properties, seconds=_METADATA_SECONDS)
        return None if limits is None else of_clients(limits)

    def rounds(self) -> KafkaRounds:
        """See `Observer`."""
        return KafkaRounds(self._kafka, self._cluster.name)


class KafkaRounds:
    """See `Rounds`. Quotas and leaders are looked at now and then, as they change rarely."""

    def __init__(self, kafka: KafkaCluster, name: str) -> None:
        self._kafka, self._name = kafka, name
        self._still = StandingStill()
        self._ask_at = -math.inf

    def next(self, *, groups: Sequence[str] | None = None, all_known: bool = True) -> Round:
        """See `Rounds`."""
        snapshot = self._kafka.snapshot(groups=groups, all_known=all_known)
        missing, at = list(snapshot.incomplete), snapshot.taken_at
        views = snapshot.to_groups(self._name)
        tables = [snapshot.to_samples(self._name), assigned_samples(held_by(views), snapshot.commits, self._name, at)]
        if stable := self._kafka.last_stable(self._still.of(snapshot), missing):
            tables.append(log_samples("last_stable_offset", stable, self._name, at))
        if time.monotonic() >= self._ask_at:
            parts = {(topic, part) for _, topic, part in snapshot.commits}
            topics = _topics(self._kafka, {topic for topic, _ in parts})
            tables += _of_logs(self._kafka, parts, topics, self._name, at)
            if limits := read_limits(self._kafka, views):
                tables.append(samples_of(limits, self._name, at))
            self._ask_at = time.monotonic() + _LIMITS_SECONDS
        series = [SeriesTable.of_samples(table) for table in tables]
        return Round(snapshot=snapshot, views=views, series=series, incomplete=missing)


def _topics(kafka: KafkaConnection, names: Collection[str]) -> dict[str, Any]:
    """Metadata of topics; none if no broker answers in time."""
    from confluent_kafka import KafkaException

    try:
        return topics_of(kafka, names, _METADATA_SECONDS) if names else {}
    except KafkaException:
        return {}


def _of_logs(
    kafka: KafkaConnection, parts: Collection[Partition], topics: Mapping[str, Any], cluster: str, at: float
) -> list[pa.Table]:
    """Who leads these partitions, how many replicas are not in sync, and where the leader's own disk begins, in `SAMPLES_SCHEMA`."""
    described = {part: topics[part[0]].partitions.get(part[1]) for part in parts if part[0] in topics}
    leaders = {part: leader_of(topics, part) for part in described}
    led = {part: leader for part, leader in leaders.items() if leader is not None}
    found = {
        "leader": {part: NO_LEADER if leader is None else leader for part, leader in leaders.items()},
        "missing_replicas": {part: len(it.replicas) - len(it.isrs) for part, it in described.items() if it is not None},
        "local_start_offset": local_starts(kafka.bootstrap, kafka.properties, led) if led else {},
    }
    return [log_samples(signal, values, cluster, at) for signal, values in found.items()]

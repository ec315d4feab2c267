"""Snapshot of groups, commits and log ends from Kafka itself.

Commits are read before log ends, so lag may be too high by the messages produced in between, but is never negative. It sends one
request per hundred groups of a coordinator and one per leader (and thousand partitions), none per partition: tools with requests per
partition need minutes where this needs seconds.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

from workbench.errors import UnknownGroupError
from workbench.kafka.assigned_partitions import is_settled, without_owner
from workbench.kafka.connection import COORDINATOR_SECONDS, KafkaConnection, is_over, seconds_left
from workbench.kafka.group_listing import Others
from workbench.kafka.groups import groups_of
from workbench.kafka.librdkafka_errors import (
    denied_resource,
    error_words,
    group_right,
    is_absent,
    is_loading,
    is_lost,
    is_other_kind,
)
from workbench.kafka.patient_reads import ClusterReading, read
from workbench.kafka.read_commits_for_snapshot import IN_FLIGHT, commits_of
from workbench.kafka.read_offsets_for_snapshot import BY_TIME, offsets_of, topic_right
from workbench.queues.group_kinds import REDRIVE, cannot_judge, is_redrive_plan
from workbench.queues.snapshot_views import NOT_PERMITTED, GroupView, Partition, Snapshot, group_view

_DESCRIBE_BATCH = 200
_DESCRIBE_BATCHES = 2  # concurrent batches: while one is read here, the broker answers the next
_LOADING_SECONDS = (
    10.0  # longest wait for a starting coordinator to load its groups; after that, the group counts as missing
)
_LOADING_PAUSE_SECONDS = 0.2
_LIST_MARGIN_SECONDS = 0.5  # the client answers a little after its own time limit
_NOT_ASKED = "not requested: the deadline has passed"
_CLUSTER_RIGHT = "DESCRIBE on the cluster"
_NOT_ALL = "list of groups without those that it may not describe"


class KafkaCluster(KafkaConnection):
    """Reads one cluster. It joins no group and writes nothing.

    Brokers that do not answer cost a few seconds (`kafka.patient_reads`), and are named together with what is missing. What the client
    may not read is named as not permitted.
    """

    __slots__ = ()

    def snapshot(
        self, *, groups: Sequence[str] | None = None, all_known: bool = True, every_kind: bool = True
    ) -> Snapshot:
        """Read groups of every kind, commits and ends, of all groups or of some.

        Args:
            groups: only these, if any are named.
            all_known: whether an unknown group is an error; otherwise it is reported, and the others are read.
            every_kind: False: without share, Streams, Connect and other groups that librdkafka does not list.

        Raises:
            SourceUnreachableError: if the cluster does not answer in time, or refuses this client.
            ConfigError: if librdkafka does not accept the settings.
            UnknownGroupError: if a requested group does not exist.
        """

        def work(reading: ClusterReading) -> Snapshot:
            views, unknown, others = self._views(reading, groups, all_known, every_kind)
            commits = self._commits(reading, views)
            topics: dict[str, Any] = {}
            asked = {(topic, number) for _, topic, number in (*commits, *others.shares)}
            ends, starts = self._ends_and_starts(reading, sorted(asked), topics)
            held = {
                it.group: {part for member in it.members for part in member.partitions}
                for it in views
                if is_settled(it.state, it.protocol)
            }
            unread = {it: None for it in without_owner(held, topics) if it not in commits}
            if unread:
                commits |= unread
                more = sorted({(topic, number) for _, topic, number in unread} - asked)
                for known_ones, found in zip((ends, starts), self._ends_and_starts(reading, more, topics), strict=True):
                    known_ones |= found
            taken_at = time.time()
            # Without the right to describe a topic, "no commit" may be one that is not shown.
            known = {
                key: offset
                for key, offset in commits.items()
                if offset is not None or not reading.is_denied(topic_right(key[1]))
            }
            return Snapshot(
                taken_at=taken_at,
                groups=tuple(views),
                commits=known,
                ends=ends,
                starts=starts,
                incomplete=tuple(reading.incomplete),
                unknown=tuple(unknown),
                shares=others.shares,
            )

        return read(self, work)

    def members(self, *, groups: Sequence[str] | None = None, all_known: bool = True) -> Snapshot:
        """Read groups of every kind and their members only: a snapshot without offsets. It costs one request per group.

        Args:
            groups, all_known: as in `snapshot`.

        Raises:
            SourceUnreachableError, ConfigError, UnknownGroupError: as `snapshot`.
        """

        def work(reading: ClusterReading) -> Snapshot:
            views, unknown, others = self._views(reading, groups, all_known, True)
            return Snapshot(
                taken_at=time.time(),
                groups=tuple(views),
                commits={},
                ends={},
                starts={},
                incomplete=tuple(reading.incomplete),
                unknown=tuple(unknown),
                shares=others.shares,
            )

        return read(self, work)

    def others(self, *, only: Collection[str] | None = None) -> Others:
        """List all groups, and describe those that are neither classic nor consumer groups.

        Args:
            only: describe these; None: all.

        Raises:
            SourceUnreachableError: if the cluster does not answer.
        """

        def work(reading: ClusterReading) -> Others:
            found = groups_of(reading, only, lambda: self._list_groups(reading))
            found.deny(reading)
            found.incomplete += reading.incomplete
            return found

        return read(self, work)

    def _views(
        self, reading: ClusterReading, groups: Sequence[str] | None, all_known: bool, every_kind: bool
    ) -> tuple[list[GroupView], list[str], Others]:
        views, unknown, others = self._described(reading, groups, all_known, every_kind)
        return [replace(it, protocol=REDRIVE) if is_redrive_plan(it.group) else it for it in views], unknown, others

    def _described(
        self, reading: ClusterReading, groups: Sequence[str] | None, all_known: bool, every_kind: bool
    ) -> tuple[list[GroupView], list[str], Others]:
        """The groups, and requested ones that do not exist. All groups are listed only if none is named, or one does not exist."""
        if groups is None:
            others = self._groups(reading, None if every_kind else ())
            views, vanished = self._describe(reading, sorted(others.consumers))
            reading.incomplete += [f"group {name!r}: the cluster has no such group" for name in vanished]
            return sorted(others.added_to(views, reading), key=lambda view: view.group), [], others
        views, absent = self._describe(reading, list(dict.fromkeys(groups)))
        if not absent:
            return views, [], Others()
        others = self._groups(reading, absent if every_kind else ())
        missing = [name for name in absent if name not in others.consumers]
        # What some broker did not tell may be there.
        unknown = [name for name in missing if name not in others.views] if not others.incomplete else []
        if unknown and all_known:
            raise UnknownGroupError(
                f"The cluster at {self.bootstrap} has no group {unknown[0]!r}.",
                hint=_similar(unknown[0], {*others.consumers, *others.listed})
                or "List its groups with: workbench snapshot --cluster CLUSTER",
            )
        for name in absent:
            if name not in others.views:
                what = "the cluster has no such group" if name in unknown else "its coordinator describes no such group"
                reading.incomplete.append(f"group {name!r}: {what}")
        return others.added_to(views, reading), unknown, others

    def _groups(self, reading: ClusterReading, only: Collection[str] | None) -> Others:
        found = groups_of(reading, only, lambda: self._list_groups(reading))
        if not found.lists_all:
            reading.deny(_NOT_ALL, _CLUSTER_RIGHT)
        return found

    def _list_groups(self, reading: ClusterReading) -> set[str]:
        """List groups by librdkafka."""
        patience = min(reading.deadline, time.monotonic() + _LOADING_SECONDS)
        while True:
            limit = reading.list_seconds
            asked = reading.ask(lambda admin, limit=limit: admin.list_consumer_groups(request_timeout=limit))  # type: ignore[misc]
            result = reading.wait(asked, at_least=limit + _LIST_MARGIN_SECONDS)
            silent = len(reading.brokers.silent) if reading.brokers is not None else 0
            lost = [error for error in result.errors if is_lost(error)]
            # A second attempt waits little: a broker that lives and is late is asked again.
            is_late = len(lost) > silent and reading.knows_silent
            if not (is_late or any(map(is_loading, result.errors))) or time.monotonic() >= patience:
                break
            time.sleep(_LOADING_PAUSE_SECONDS)
        if lost:
            reading.begin_again()
        # Those that answer may have no group.
        if len(result.errors) > (silent if result.errors == lost else 0) and not result.valid:
            raise self.unreachable(result.errors[0], needs=_CLUSTER_RIGHT)
        if reading.brokers is not None and reading.knows_silent:
            of = " and ".join(map(str, reading.brokers.silent))
            reading.incomplete.append(f"list of groups: those that broker {of} coordinates are missing")
        others = [error for error in result.errors if not is_lost(error)] + lost[silent:]
        reading.incomplete += [f"list of groups from one broker: {error_words(error)}" for error in others]
        self._check_cluster_right(reading)
        return {item.group_id for item in result.valid}

    def _check_cluster_right(self, reading: ClusterReading) -> None:
        """Without the right to describe the cluster, brokers list only the groups that the client may describe, and do not say so."""
        from confluent_kafka import KafkaException

        if not self.has_login:
            return
        try:
            described = reading.wait(
                reading.ask(
                    lambda admin: admin.describe_cluster(
                        include_authorized_operations=True, request_timeout=seconds_left(reading.deadline)
                    )
                )
            )
        except (KafkaException, TimeoutError) as error:
            reading.incomplete.append(f"rights on the cluster: {error_words(error)}")
            return
        # None without the right; and from brokers before 2.3, which do not tell.
        if "DESCRIBE" not in {operation.name for operation in described.authorized_operations or ()}:
            reading.deny(_NOT_ALL, _CLUSTER_RIGHT)

    def _describe(self, reading: ClusterReading, names: Sequence[str]) -> tuple[list[GroupView], list[str]]:
        """Describe groups; also those that do not exist. A coordinator that is loading is asked again."""
        found: dict[str, GroupView] = {}
        absent: list[str] = []
        patience = min(reading.deadline, time.monotonic() + _LOADING_SECONDS)
        left = list(names)
        while left:
            left = self._describe_once(reading, left, found, absent, is_last=time.monotonic() >= patience)
            if left:
                time.sleep(_LOADING_PAUSE_SECONDS)
        return [found[name] for name in names if name in found], absent

    def _describe_once(
        self,
        reading: ClusterReading,
        names: Sequence[str],
        found: dict[str, GroupView],
        absent: list[str],
        *,
        is_last: bool,
    ) -> list[str]:
        from confluent_kafka import KafkaException

        waiting: list[Mapping[str, Future[Any]]] = []
        loading: list[str] = []

        def collect(keep: int) -> None:
            while len(waiting) > keep:
                for name, future in waiting.pop(0).items():
                    try:
                        found[name] = group_view(name, reading.wait(future))
                        if found[name].state == "dead":  # so brokers before 4.0 call a group that does not exist
                            del found[name]
                            absent.append(name)
                    except (KafkaException, TimeoutError) as error:
                        if is_absent(error) or is_other_kind(error):
                            absent.append(name)
                        elif is_loading(error) and not is_last:
                            loading.append(name)
                        else:
                            found[name] = _not_described(reading, name, error)

        # The client answers for all groups of a call at once, when the last of them is known.
        size, calls = (1, IN_FLIGHT) if reading.knows_silent else (_DESCRIBE_BATCH, _DESCRIBE_BATCHES)
        for at in range(0, len(names), size):
            batch = list(names[at : at + size])
            if is_over(reading.deadline):
                found |= {name: group_view(name, None) for name in batch}
                reading.incomplete += [f"group {name!r}: {_NOT_ASKED}" for name in batch]
                continue
            waiting.append(
                reading.ask(
                    lambda admin, batch=batch: admin.describe_consumer_groups(  # type: ignore[misc]
                        batch, request_timeout=COORDINATOR_SECONDS
                    )
                )
            )
            collect(calls - 1)
        collect(0)
        return loading

    def _commits(self, reading: ClusterReading, views: Iterable[GroupView]) -> dict[tuple[str, str, int], int | None]:
        commits: dict[tuple[str, str, int], int | None] = {}
        asked = []
        for view in views:
            if cannot_judge(view.protocol) is not None:  # these commit nothing, or nothing that can lag
                continue
            for member in view.members:  # also report partitions that are assigned but never committed
                for topic, number in member.partitions:
                    commits[view.group, topic, number] = None
            if view.state != NOT_PERMITTED:  # the same right would be lacking
                asked.append(view.group)
        found = commits_of(reading, asked)
        commits |= found.offsets
        for name in found.denied:
            reading.deny(f"commits of group {name!r}", group_right(name))
        reading.incomplete += [f"commits of group {name!r}: {words}" for name, words in found.missing.items()]
        if unread := {*found.denied, *found.missing}:  # nobody knows whether these have committed
            commits = {key: offset for key, offset in commits.items() if offset is not None or key[0] not in unread}
        for (name, topic, number), words in found.errors.items():
            commits.pop((name, topic, number), None)  # one that cannot be read is not a missing one
            reading.incomplete.append(f"commit of group {name!r} on {topic}-{number}: {words}")
        return commits

    def _ends_and_starts(
        self, reading: ClusterReading, partitions: Sequence[Partition], topics: dict[str, Any]
    ) -> tuple[dict[Partition, int], dict[Partition, int]]:
        from confluent_kafka.admin import OffsetSpec

        specs = {"latest offset": OffsetSpec.latest(), "earliest offset": OffsetSpec.earliest()}
        ends, starts = offsets_of(reading, partitions, specs, known=topics)
        return ends, starts

    def last_stable(self, partitions: Sequence[Partition], incomplete: list[str]) -> dict[Partition, int]:
        """Offset from which an open transaction holds consumers with read_committed back, or else the log end.

        Partitions without an answer are left out; the first reason is added to `incomplete`.

        Raises:
            SourceUnreachableError: if the cluster does not answer in time, or refuses this client.
        """
        from confluent_kafka import IsolationLevel
        from confluent_kafka.admin import OffsetSpec

        def work(reading: ClusterReading) -> dict[Partition, int]:
            [found] = offsets_of(
                reading,
                partitions,
                {"last stable offset": OffsetSpec.latest()},
                isolation_level=IsolationLevel.READ_COMMITTED,
            )
            incomplete.extend(reading.incomplete[:1])
            return found

        return read(self, work) if partitions else {}

    def offsets_at(
        self,
        partitions: Sequence[Partition],
        instant: float,
        deadline: float,
        incomplete: list[str],
        known: dict[str, Any],
    ) -> dict[Partition, int | None]:
        """First offset at or after a time (seconds since the epoch); None without one; partitions without an answer are left out.

        What is found out about topics goes to `known`, for calls that follow at once.
        """
        from confluent_kafka.admin import OffsetSpec

        spec = OffsetSpec.for_timestamp(round(instant * 1000))
        found = self._looked_up(BY_TIME, spec, partitions, deadline, incomplete, known)
        return {part: offset if offset >= 0 else None for part, offset in found.items()}

    def ends_of(
        self, partitions: Sequence[Partition], deadline: float, incomplete: list[str], known: dict[str, Any]
    ) -> dict[Partition, int]:
        """Where logs end now; partitions without an answer are left out. `known` as for `offsets_at`."""
        from confluent_kafka.admin import OffsetSpec

        return self._looked_up("latest offset", OffsetSpec.latest(), partitions, deadline, incomplete, known)

    def _looked_up(
        self,
        what: str,
        spec: Any,
        partitions: Sequence[Partition],
        deadline: float,
        incomplete: list[str],
        known: dict[str, Any],
    ) -> dict[Partition, int]:
        def work(reading: ClusterReading) -> dict[Partition, int]:
            reading.deadline = deadline
            if reading.brokers is not None:  # a new client, which knows nothing
                known.clear()
            [found] = offsets_of(reading, partitions, {what: spec}, known=known)
            incomplete.extend(reading.incomplete)
            return found

        return read(self, work)


def _not_described(reading: ClusterReading, name: str, error: BaseException) -> GroupView:
    """View of a group that was not described, with a line about the reason."""
    resource = denied_resource(error)
    if resource == "group":
        reading.deny(f"group {name!r}", group_right(name))
        return group_view(name, None, state=NOT_PERMITTED)
    if resource is not None:
        words = f"not permitted: {reading.kafka.principal} lacks DESCRIBE on a {resource} of it: {error_words(error)}"
    else:
        words = error_words(error)
    reading.incomplete.append(f"group {name!r}: {words}")
    return group_view(name, None)


def _similar(name: str, known: Iterable[str]) -> str | None:
    import difflib

    close = difflib.get_close_matches(name, list(known), n=3)
    return f"Did you mean {' or '.join(repr(item) for item in close)}?" if close else None

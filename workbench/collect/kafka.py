"""Snapshot of groups, commits and log ends from Kafka itself.

Commits are read before log ends, so lag may be too high by the messages produced in between, but is never negative. It sends one
request per group and one per leader (and thousand partitions), none per partition: tools with requests per partition need minutes
where this needs seconds.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

from workbench.collect.kafka_connection import KafkaConnection, error_words, is_loading, is_over, seconds_left
from workbench.collect.kafka_groups import NotListedError, Others, in_background, listed_by_librdkafka, read_others
from workbench.collect.kafka_kinds import UNKNOWN, cannot_judge
from workbench.collect.kafka_views import GroupView, Partition, Snapshot, group_view
from workbench.errors import SourceUnreachableError, UnknownGroupError

_IN_FLIGHT = 64  # concurrent group requests; the broker's request queue holds 500 by default
_DESCRIBE_BATCH = 200
_DESCRIBE_BATCHES = 2  # concurrent batches: while one is read here, the broker answers the next
_OFFSETS_BATCH = 1_000  # partitions per call: the client's work is quadratic (measured, see ARCHITECTURE.md)
_LOADING_SECONDS = (
    10.0  # longest wait for a starting coordinator to load its groups; after that, the group counts as missing
)
_LOADING_PAUSE_SECONDS = 0.2
_NOT_ASKED = "not requested: the deadline has passed"


class KafkaCluster(KafkaConnection):
    """Reads one cluster. It joins no group and writes nothing."""

    __slots__ = ()

    def snapshot(
        self, *, groups: Sequence[str] | None = None, all_known: bool = True, every_kind: bool = True
    ) -> Snapshot:
        """Read groups of every kind, commits and ends, of all groups or of some.

        Args:
            groups: only these, if any are named.
            all_known: whether an unknown group is an error; otherwise it is reported, and the others are read.
            every_kind: False: classic and consumer groups only, as librdkafka lists them.

        Raises:
            SourceUnreachableError: if the cluster does not answer in time.
            UnknownGroupError: if a requested group does not exist.
        """
        deadline = time.monotonic() + self.deadline_seconds
        admin = self.connect()
        asked = (
            self._ask_others(deadline, None) if groups is None and every_kind else None
        )  # it runs while librdkafka is asked
        known, incomplete = self._list_groups(deadline)
        missing = set(groups or ()) - known if every_kind else set()
        others = self._told(self._ask_others(deadline, missing), known, missing, deadline) if missing else Others()
        # An incomplete list cannot prove that a group does not exist.
        here = known | others.views.keys()
        complete = not incomplete and not others.incomplete
        unknown = [name for name in groups or () if name not in here] if complete else []
        if unknown and all_known:
            raise UnknownGroupError(
                f"The cluster at {self.bootstrap} has no group {unknown[0]!r}.",
                hint=_similar(unknown[0], {*here, *others.listed}) or "List its groups with: workbench snapshot.",
            )
        incomplete += [f"group {name!r}: the cluster has no such group" for name in unknown]
        names = [name for name in groups or sorted(known) if name not in unknown and name not in others.views]
        views = self._describe(admin, names, deadline, incomplete)
        if asked is not None:
            others = self._told(asked, known, None, deadline)
        incomplete += others.incomplete
        views = [*(_with_state(view, others) for view in views), *others.views.values()]
        if groups is None:
            views.sort(key=lambda view: view.group)
        commits = self._commits(admin, views, deadline, incomplete)
        partitions = sorted({(topic, number) for _, topic, number in (*commits, *others.shares)})
        ends = self._offsets(admin, partitions, "latest", deadline, incomplete)
        taken_at = time.time()
        starts = self._offsets(admin, partitions, "earliest", deadline, incomplete)
        return Snapshot(
            taken_at=taken_at,
            groups=tuple(views),
            commits=commits,
            ends=ends,
            starts=starts,
            incomplete=tuple(incomplete),
            unknown=tuple(unknown),
            shares=others.shares,
        )

    def others(self, *, only: Collection[str] | None = None) -> Others:
        """List all groups, and describe those that are neither classic nor consumer groups.

        Args:
            only: describe these; None: all.

        Raises:
            SourceUnreachableError: if the cluster does not answer.
        """
        deadline = time.monotonic() + self.deadline_seconds
        try:
            return self._counted(self._ask_others(deadline, only), deadline)
        except NotListedError as error:
            self.connect()
            known, incomplete = self._list_groups(deadline)
            found = self._by_librdkafka(known, only, str(error), deadline)
            found.incomplete += incomplete
            return found

    def _ask_others(self, deadline: float, only: Collection[str] | None) -> Future[Others]:
        return in_background(lambda: read_others(self.bootstrap, self.properties, deadline, only=only))

    def _told(
        self, asked: Future[Others], known: Collection[str], only: Collection[str] | None, deadline: float
    ) -> Others:
        try:
            return self._counted(asked, deadline)
        except NotListedError as error:
            return self._by_librdkafka(known, only, str(error), deadline)

    def _counted(self, asked: Future[Others], deadline: float) -> Others:
        try:
            found = asked.result(seconds_left(deadline))
        except TimeoutError:
            raise NotListedError("no answer in time") from None
        self.requests += found.requests
        return found

    def _by_librdkafka(self, known: Collection[str], only: Collection[str] | None, why: str, deadline: float) -> Others:
        try:
            return self.ask(lambda: listed_by_librdkafka(self._admin, known, why, seconds_left(deadline), only=only))
        except SourceUnreachableError as error:
            return Others(incomplete=[f"share, Streams and Connect groups: {why}; {error.message}"])

    def _list_groups(self, deadline: float) -> tuple[set[str], list[str]]:
        patience = min(deadline, time.monotonic() + _LOADING_SECONDS)
        while True:
            result = self.ask(
                lambda: self._admin.list_consumer_groups(request_timeout=seconds_left(deadline)).result(
                    seconds_left(deadline)
                )
            )
            if not any(is_loading(error) for error in result.errors) or time.monotonic() >= patience:
                break
            time.sleep(_LOADING_PAUSE_SECONDS)
        if result.errors and not result.valid:
            raise self.unreachable(result.errors[0])
        return {item.group_id for item in result.valid}, [
            f"list of groups from one broker: {error_words(error)}" for error in result.errors
        ]

    def _describe(self, admin: Any, names: Sequence[str], deadline: float, incomplete: list[str]) -> list[GroupView]:
        views: list[GroupView] = []
        waiting: list[Mapping[str, Future[Any]]] = []

        def collect(keep: int) -> None:
            while len(waiting) > keep:
                for name, future in waiting.pop(0).items():
                    views.append(group_view(name, _result(future, deadline, f"group {name!r}", incomplete)))

        for at in range(0, len(names), _DESCRIBE_BATCH):
            batch = list(names[at : at + _DESCRIBE_BATCH])
            if is_over(deadline):
                views += [group_view(name, None) for name in batch]
                incomplete += [f"group {name!r}: {_NOT_ASKED}" for name in batch]
                continue
            waiting.append(
                self.ask(
                    lambda batch=batch: admin.describe_consumer_groups(batch, request_timeout=seconds_left(deadline))  # type: ignore[misc]
                )
            )
            collect(_DESCRIBE_BATCHES - 1)
        collect(0)
        return views

    def _commits(
        self, admin: Any, views: Iterable[GroupView], deadline: float, incomplete: list[str]
    ) -> dict[tuple[str, str, int], int | None]:
        from confluent_kafka import ConsumerGroupTopicPartitions as Ask

        commits: dict[tuple[str, str, int], int | None] = {}
        waiting: list[tuple[str, Future[Any]]] = []

        def collect(keep: int) -> None:
            while len(waiting) > keep:
                name, future = waiting.pop(0)
                result = _result(future, deadline, f"commits of group {name!r}", incomplete)
                for part in result.topic_partitions if result is not None else ():
                    never = part.offset < 0 or part.error is not None
                    commits[name, part.topic, part.partition] = None if never else part.offset

        for view in views:
            if cannot_judge(view.protocol) is not None:  # these commit nothing
                continue
            for member in view.members:  # also report partitions that are assigned but never committed
                for topic, number in member.partitions:
                    commits.setdefault((view.group, topic, number), None)
            if is_over(deadline):
                incomplete.append(f"commits of group {view.group!r}: {_NOT_ASKED}")
                continue
            if not view.group:  # Kafka allows this name (the oldest clients use it), but the client does not accept it
                incomplete.append("commits of group '': the client cannot request them")
                continue
            request = self.ask(
                lambda view=view: admin.list_consumer_group_offsets(  # type: ignore[misc]
                    [Ask(view.group)], request_timeout=seconds_left(deadline)
                )
            )
            waiting.append((view.group, request[view.group]))
            collect(_IN_FLIGHT)
        collect(0)
        return commits

    def _offsets(
        self, admin: Any, partitions: Sequence[Partition], which: str, deadline: float, incomplete: list[str]
    ) -> dict[Partition, int]:
        from confluent_kafka.admin import OffsetSpec

        spec = OffsetSpec.latest() if which == "latest" else OffsetSpec.earliest()
        found = self._list_offsets(admin, partitions, spec, f"{which} offset", deadline, incomplete)
        return {part: offset for part, offset in found.items() if offset >= 0}

    def offsets_at(
        self, partitions: Sequence[Partition], instant: float, deadline: float, incomplete: list[str]
    ) -> dict[Partition, int | None]:
        """First offset at or after a time (seconds since the epoch); None without one; partitions without an answer are left out."""
        from confluent_kafka.admin import OffsetSpec

        spec = OffsetSpec.for_timestamp(round(instant * 1000))
        found = self._list_offsets(self.connect(), partitions, spec, "offset by time", deadline, incomplete)
        return {part: offset if offset >= 0 else None for part, offset in found.items()}

    def _list_offsets(
        self, admin: Any, partitions: Sequence[Partition], spec: Any, what: str, deadline: float, incomplete: list[str]
    ) -> dict[Partition, int]:
        from confluent_kafka import TopicPartition

        found = {}
        for at in range(0, len(partitions), _OFFSETS_BATCH):
            batch = partitions[at : at + _OFFSETS_BATCH]
            if is_over(deadline):
                incomplete += [f"{what} of {topic}-{number}: {_NOT_ASKED}" for topic, number in batch]
                continue
            futures = self.ask(
                lambda batch=batch: admin.list_offsets(  # type: ignore[misc]
                    {TopicPartition(*part): spec for part in batch}, request_timeout=seconds_left(deadline)
                )
            )
            for part, future in futures.items():
                result = _result(future, deadline, f"{what} of {part.topic}-{part.partition}", incomplete)
                if result is not None:
                    found[part.topic, part.partition] = result.offset
        return found


def _result(future: Future[Any], deadline: float, what: str, incomplete: list[str]) -> Any:
    """Result of a future, or None with a line in `incomplete`: a failed group must not affect the others."""
    from confluent_kafka import KafkaException

    try:
        return future.result(seconds_left(deadline))
    except (KafkaException, TimeoutError) as error:
        incomplete.append(f"{what}: {error_words(error)}")
        return None


def _with_state(view: GroupView, others: Others) -> GroupView:
    """A group with the state of the broker's list, where librdkafka has no name for it (`reconciling`)."""
    listed = others.listed.get(view.group)
    return replace(view, state=listed.state) if listed is not None and view.state == UNKNOWN else view


def _similar(name: str, known: Iterable[str]) -> str | None:
    import difflib

    close = difflib.get_close_matches(name, list(known), n=3)
    return f"Did you mean {' or '.join(repr(item) for item in close)}?" if close else None

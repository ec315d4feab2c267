"""Log end offsets and topic ids, requested from the broker periodically.

A consumer learns the log end only with fetched records, and a paused partition is not fetched: under back-pressure, its own lag
would not change. One request per leader and period is cheap.

A topic that is deleted and recreated immediately keeps its name, and the client continues at its old position in the new log: it
silently skips the records below (observed with librdkafka 2.16). The topic id changes, and reveals it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from time import monotonic
from typing import Any

from confluent_kafka import KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from workbench.commit_note import NO_TOPIC_ID
from workbench.runtime.event import TopicPartition as Partition
from workbench.runtime.runtime_queue import Remade

_log = logging.getLogger(__name__)

_TIMEOUT_SECONDS = 10.0
_STEP_SECONDS = 0.1


class LogEnds:
    """Log start and end offsets of the assigned partitions; calls `on_remade` for recreated topics."""

    def __init__(
        self,
        properties: dict[str, Any],
        *,
        partitions: Callable[[], Iterable[Partition]],
        period_seconds: float,
        topics: Iterable[str] = (),
        on_remade: Callable[[Remade], None] = lambda _remade: None,
        enabled: bool = True,
    ) -> None:
        self.ends: dict[Partition, int] = {}
        self.starts: dict[Partition, int] = {}
        self._partitions = partitions
        self._period = period_seconds
        self._topics = frozenset(topics)  # topics whose ids are watched, assigned or not
        self._on_remade = on_remade
        # "cluster:topic" id of assigned topics, and when each was last seen.
        self.ids: dict[str, tuple[str, float]] = {}
        self._past_ids: set[str] = set()
        self._asked_soon: set[str] = set()  # topics whose ids are needed before the next period
        self._cluster: str | None = None
        self._led: set[Partition] = set()  # partitions with a leader, as the client has just been told
        self._looked_at: set[str] = set()  # topics whose id was requested since their assignment
        self._enabled = enabled
        self._properties = properties
        self._admin: AdminClient | None = None
        self.ends_at = 0.0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="log-ends", daemon=True)

    def known(self, topic: str) -> tuple[str, float] | None:
        """See `TopicIds`."""
        return self.ids.get(topic)

    def ask_soon(self, topic: str) -> bool:
        """See `TopicIds`; any thread may ask."""
        if self._enabled:
            self._asked_soon.add(topic)
        return self._enabled

    def start(self) -> None:
        """Start the requests."""
        if self._enabled:
            self._thread.start()

    def stop(self) -> None:
        """Stop the requests."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(_TIMEOUT_SECONDS)

    def _run(self) -> None:
        next_look = monotonic() + self._period
        while not self._stopping.wait(min(_STEP_SECONDS, self._period)):
            # Taken before the request: topics added during the request are requested again.
            soon, self._asked_soon = self._asked_soon, set()
            wanted = list(self._partitions())
            topics = {topic for topic, _ in wanted} | self._topics
            self._forget_others(topics)
            try:
                if topics and (soon or monotonic() >= next_look):
                    next_look = monotonic() + self._period
                    self._look(wanted, topics)
                elif unknown := topics - self._looked_at:
                    self._look_at_ids(unknown)  # immediately: a topic is not watched before its id is known
            except Exception as error:
                # Whatever the error, continue: without this thread, a recreated topic would not be noticed.
                _log.warning("the log offsets cannot be read: %s: %s", type(error).__name__, error)
                self._admin = None

    def _look(self, wanted: Sequence[Partition], topics: set[str]) -> None:
        remade = self._look_at_ids(topics)
        try:
            self.ends = self._ask(wanted, OffsetSpec.latest()) if wanted else {}
            self.ends_at = monotonic()
            self.starts = self._ask(wanted, OffsetSpec.earliest()) if wanted else {}
        finally:  # report them in any case: the next request sees no change
            for topic, last_seen in remade.items():
                self._on_remade(Remade(topic, self.ids[topic][0], last_seen, self.starts))

    def _forget_others(self, topics: set[str]) -> None:
        """Forget the ids of unassigned topics: by the next assignment they may have been recreated."""
        for topic in self.ids.keys() - topics:
            del self.ids[topic]
        self._looked_at &= topics

    def _ask(self, wanted: Iterable[Partition], spec: OffsetSpec) -> dict[Partition, int]:
        """Request offsets by partition; a partition without an answer is left out, so no old offset looks current.

        A client that does not know a leader is not asked: it can end the process (librdkafka 2.16, if metadata arrive in that moment).
        """
        found: dict[Partition, int] = {}
        led = {TopicPartition(*partition): spec for partition in wanted if partition in self._led}
        if self._admin is None or not led:
            return found
        try:
            answers = self._admin.list_offsets(led, request_timeout=_TIMEOUT_SECONDS)
            for part, answer in answers.items():
                found[part.topic, part.partition] = answer.result(_TIMEOUT_SECONDS).offset
        except (KafkaException, TimeoutError) as error:
            _log.warning("the log end offsets are unknown: %s", error)
            # The client caches leader epochs: after a broker restart, all its requests were rejected (FENCED_LEADER_EPOCH).
            self._admin = None
        return found

    def _look_at_ids(self, topics: set[str]) -> dict[str, float]:
        """Topics whose id has changed, with the last time at which they had the old one."""
        asked_at = monotonic()
        self._looked_at |= topics
        if self._admin is None:
            self._admin = AdminClient(self._properties, logger=_log)
        if self._cluster is None:
            self._cluster = self._admin.describe_cluster(request_timeout=_TIMEOUT_SECONDS).result().cluster_id or ""
        changed = {}
        self._led = {it for it in self._led if it[0] not in topics}
        answers = self._admin.describe_topics(TopicCollection(sorted(topics)), request_timeout=_TIMEOUT_SECONDS)
        is_answered = False
        for topic, answer in answers.items():
            try:
                described = answer.result(_TIMEOUT_SECONDS)
                is_answered = True
            except (KafkaException, TimeoutError) as error:  # deleted, or no permission to see it: keep what is known
                _log.debug("the id of topic %s is unknown: %s", topic, error)
                is_answered |= isinstance(error, KafkaException) and error.args[0].code() > 0  # by a broker
                continue
            self._led |= {(topic, part.id) for part in described.partitions if part.leader is not None}
            now = str(described.topic_id)
            if now == NO_TOPIC_ID:
                continue  # a broker without topic ids
            now = f"{self._cluster}:{now}"
            if now in self._past_ids:
                continue  # a broker with outdated metadata
            before, last_seen = self.ids.get(topic, (now, asked_at))
            self.ids[topic] = (now, asked_at)
            if now != before:
                self._past_ids.add(before)
                changed[topic] = last_seen
        if not is_answered:
            self._admin = None  # it may never find a broker again: see `clients_without_brokers`
        return changed

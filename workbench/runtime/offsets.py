"""Where the log ends, and whether it is still the same one, asked of the broker on a period.

The consumer itself learns of new messages only with what it fetches, and a paused partition is not fetched: under back-pressure its
own lag would stand still. One request per leader and period costs next to nothing.

A topic that is deleted and created again at once keeps its name, and the client goes on at its position in the new log: what lies
below is skipped without a word (seen with librdkafka 2.16). Its id is another one, and tells.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any

from confluent_kafka import KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from workbench.runtime.committer import NO_TOPIC_ID
from workbench.runtime.event import TopicPartition as Partition

_log = logging.getLogger(__name__)

_TIMEOUT_SECONDS = 10.0
_STEP_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Remade:
    """A topic that was deleted and created again.

    Attributes:
        topic_id: its new id.
        last_seen: the last instant (monotonic) at which it was the old one.
        starts: where its new logs begin, as far as the broker has told.
    """

    topic: str
    topic_id: str
    last_seen: float
    starts: Mapping[Partition, int]


class LogEnds:
    """Ends and starts of the log of the partitions that are assigned here; `on_remade` is told of topics that were made anew."""

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
        self._topics = frozenset(topics)  # whose ids are watched whether they are assigned here or not
        self._on_remade = on_remade
        # "cluster:topic" id of topics that are assigned here, and when each was last seen.
        self.ids: dict[str, tuple[str, float]] = {}
        self._past_ids: set[str] = set()
        self._asked_soon: set[str] = set()  # topics whose ids are wanted before the period is over
        self._cluster: str | None = None
        self._looked_at: set[str] = set()  # topics whose id was asked for since they were assigned here
        self._enabled = enabled
        self._properties = properties
        self._admin: AdminClient | None = None
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
        """Begin asking."""
        if self._enabled:
            self._thread.start()

    def stop(self) -> None:
        """End."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(_TIMEOUT_SECONDS)

    def _run(self) -> None:
        next_look = monotonic() + self._period
        while not self._stopping.wait(min(_STEP_SECONDS, self._period)):
            # Taken before the question: what is wanted while it is under way is asked again.
            soon, self._asked_soon = self._asked_soon, set()
            wanted = list(self._partitions())
            topics = {topic for topic, _ in wanted} | self._topics
            self._forget_others(topics)
            try:
                if topics and (soon or monotonic() >= next_look):
                    next_look = monotonic() + self._period
                    self._look(wanted, topics)
                elif unknown := topics - self._looked_at:
                    self._look_at_ids(unknown)  # at once: a topic is not watched before its id is known
            except Exception as error:
                # Whatever it is, the next look may be luckier; without any, a topic that is made anew would be read on in silence.
                _log.warning("the log offsets cannot be read: %s: %s", type(error).__name__, error)
                self._admin = None

    def _look(self, wanted: Sequence[Partition], topics: set[str]) -> None:
        remade = self._look_at_ids(topics)
        try:
            self.ends = self._ask(wanted, OffsetSpec.latest()) if wanted else {}
            self.starts = self._ask(wanted, OffsetSpec.earliest()) if wanted else {}
        finally:  # they are told in any case: the next look sees nothing new in them
            for topic, last_seen in remade.items():
                self._on_remade(Remade(topic, self.ids[topic][0], last_seen, self.starts))

    def _forget_others(self, topics: set[str]) -> None:
        """Forget the ids of topics that are not assigned here: when they come back, they may have been made anew long ago."""
        for topic in self.ids.keys() - topics:
            del self.ids[topic]
        self._looked_at &= topics

    def _ask(self, wanted: Iterable[Partition], spec: OffsetSpec) -> dict[Partition, int]:
        """Offsets by partition; a partition that does not answer is left out, so that nothing old passes for new."""
        found: dict[Partition, int] = {}
        try:
            if self._admin is None:
                self._admin = AdminClient(self._properties, logger=_log)
            answers = self._admin.list_offsets(
                {TopicPartition(*partition): spec for partition in wanted}, request_timeout=_TIMEOUT_SECONDS
            )
            for part, answer in answers.items():
                found[part.topic, part.partition] = answer.result(_TIMEOUT_SECONDS).offset
        except (KafkaException, TimeoutError) as error:
            _log.warning("the log end offsets are unknown: %s", error)
            # The client keeps what it knew of the leaders: after a restart of the broker it was refused for good (FENCED_LEADER_EPOCH).
            self._admin = None
        return found

    def _look_at_ids(self, topics: set[str]) -> dict[str, float]:
        """Those of the topics whose id has changed, with the last instant at which it was the old one."""
        asked_at = monotonic()
        self._looked_at |= topics
        if self._admin is None:
            self._admin = AdminClient(self._properties, logger=_log)
        if self._cluster is None:
            self._cluster = self._admin.describe_cluster(request_timeout=_TIMEOUT_SECONDS).result().cluster_id or ""
        changed = {}
        answers = self._admin.describe_topics(TopicCollection(sorted(topics)), request_timeout=_TIMEOUT_SECONDS)
        for topic, answer in answers.items():
            try:
                now = str(answer.result(_TIMEOUT_SECONDS).topic_id)
            except (KafkaException, TimeoutError) as error:  # deleted, or no right to see it: what is known of it stays
                _log.debug("the id of topic %s is unknown: %s", topic, error)
                continue
            if now == NO_TOPIC_ID:
                continue  # a broker that knows no ids
            now = f"{self._cluster}:{now}"
            if now in self._past_ids:
                continue  # a broker that is behind the others
            before, last_seen = self.ids.get(topic, (now, asked_at))
            self.ids[topic] = (now, asked_at)
            if now != before:
                self._past_ids.add(before)
                changed[topic] = last_seen
        return changed

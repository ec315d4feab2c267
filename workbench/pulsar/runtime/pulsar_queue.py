"""Pulsar behind the runtime's port."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any
from weakref import WeakSet

from workbench.errors import ConfigError
from workbench.pulsar.runtime.dead_letter_writer import PulsarLetterWriter
from workbench.pulsar.runtime.places_as_offsets import behind_entry, offset_of_packed, shown
from workbench.pulsar.runtime.pulsar_audit_rows import PulsarPlaces, PulsarRows
from workbench.pulsar.runtime.pulsar_source import PulsarSource, access_of, topic_name
from workbench.pulsar.runtime.topic_ends import TopicEnds
from workbench.runtime.config import RuntimeConfig
from workbench.runtime.event import TopicPartition
from workbench.runtime.ranges_to_process import Ranges, RangeTable
from workbench.runtime.runtime_queue import Remade
from workbench.runtime.source import ReadCommits, RecordSource


class PulsarQueue:
    """See `RuntimeQueue`."""

    counts_records = False

    def __init__(self) -> None:
        self._sources: WeakSet[PulsarSource] = WeakSet()

    def shown(self, offset: int) -> str:
        """See `RuntimeQueue`."""
        return shown(offset)

    def source(self, config: RuntimeConfig, member: str) -> PulsarSource:
        """See `RuntimeQueue`."""
        made = PulsarSource(config, member=member)
        self._sources.add(made)
        return made

    def log_watch(
        self,
        config: RuntimeConfig,
        *,
        partitions: Callable[[], Iterable[TopicPartition]],  # noqa: ARG002 - the sources know them
        period_seconds: float,
        on_remade: Callable[[Remade], None],  # noqa: ARG002 - ledgers have new numbers in a topic that was made again
        enabled: bool,
    ) -> TopicEnds:
        """See `RuntimeQueue`."""

        def mine() -> list[PulsarSource]:
            return [it for it in list(self._sources) if it.config is config]

        return TopicEnds(mine, period_seconds=period_seconds, enabled=enabled)

    def letters(
        self,
        config: RuntimeConfig,
        topic: str,
        *,
        clock: Callable[[], float],
        make_producer: Any = None,  # noqa: ARG002 - the port's
    ) -> PulsarLetterWriter:
        """See `RuntimeQueue`.

        Raises:
            ConfigError: if the topic has no name of Pulsar's.
        """
        name = topic_name(topic)
        if name is None:
            raise ConfigError(f"dead_letter_topic: {topic} is no tenant/namespace/topic.")
        return PulsarLetterWriter(name, access_of(config), subscription=config.group, clock=clock)

    def rows(self, config: RuntimeConfig, topic: str) -> PulsarRows:
        """See `RuntimeQueue`.

        Raises:
            ConfigError: if the topic has no name of Pulsar's.
        """
        name = topic_name(topic)
        if name is None:
            raise ConfigError(f"audit.topic: {topic} is no tenant/namespace/topic.")
        return PulsarRows(name, access_of(config))

    def row_places(self, source: RecordSource) -> PulsarPlaces:
        """See `RuntimeQueue`: packed positions, as readers of a Pulsar have them."""
        return PulsarPlaces(source.batch_size if isinstance(source, PulsarSource) else lambda *_: None)

    def ranges(self, table: RangeTable) -> Ranges:
        """See `RuntimeQueue`: of packed positions. Behind the last one, the rest of its batch is acknowledged with it."""
        found = {
            topic: {
                number: [(offset_of_packed(start), offset_of_packed(end)) for start, end in some]
                for number, some in parts.items()
            }
            for topic, parts in table.items()
        }
        return Ranges(found, behind=behind_entry)

    def commits(self, config: RuntimeConfig) -> ReadCommits:
        """See `RuntimeQueue`: what is acknowledged, by the consumers that are there."""

        def read(partitions: Iterable[TopicPartition]) -> dict[TopicPartition, tuple[int, str | None]]:
            wanted = set(partitions)
            found = {
                part: at for it in list(self._sources) if it.config is config for part, at in it.acknowledged().items()
            }
            named = {(topic, max(0, number)): (at, None) for (topic, number), at in found.items()}
            return {part: it for part, it in named.items() if part in wanted}

        return read


QUEUE = PulsarQueue()

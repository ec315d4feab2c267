"""The closer look where Spark works: each task reads the samples of some subscriptions, and condenses them as a triage does.

A task opens the files that may hold its subscriptions, and decodes the row groups that do. So what it holds is as large as they are,
however large the fleet is, and no sample passes the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from workbench.samples import SAMPLES_SCHEMA
from workbench.settings_of_groups import Expectations
from workbench.sweep.condense_store import StoreReading
from workbench.sweep.fleet_store import FleetStore
from workbench.sweep.read_store import rows_of
from workbench.sweep.store_places import address_of, file_at
from workbench.thresholds import Thresholds
from workbench.window import Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Names = tuple[tuple[str, str], ...]  # (group, topic) of some subscriptions
# Of a task: each partition of five slots of 24 min has a thousand samples, lag, commits and log together.
_SUBSCRIPTIONS, _PARTITIONS = 25, 250
_ORDER = (
    "cluster",
    "group",
    "topic",
    "partition",
    "member",
    "processor",
    "queue",
    "signal",
    "stat",
    "source",
    "period",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Looking:
    """What one task looks at: (group, topic), and the files that may hold them, each by its address and digest."""

    names: Names
    files: tuple[tuple[str, str], ...]


def in_tasks(subscriptions: Iterable[tuple[str, str, int]]) -> list[Names]:
    """Divide (group, topic, number of partitions) into parts of bounded size, in order; pure."""
    parts: list[list[tuple[str, str]]] = []
    held = 0
    for group, topic, partitions in sorted(subscriptions):
        if not parts or len(parts[-1]) == _SUBSCRIPTIONS or held + partitions > _PARTITIONS:
            parts.append([])
            held = 0
        parts[-1].append((group, topic))
        held += partitions
    return [tuple(part) for part in parts]


def looked_at(
    spark: SparkSession,
    store: FleetStore,
    reading: StoreReading,
    parts: Sequence[Names],
    *,
    window: Window,
    limits: Thresholds,
    expected: Expectations,
) -> DataFrame:
    """The rows of `features.condense_by_subscription.condense_each` of these subscriptions, a task for each part.

    A worker that cannot read a file fails as `store_places.told_by_workers` expects it.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    from workbench.features.condense_by_subscription import CONDENSED_SCHEMA

    files = store.files(store.landed_of(window))
    looks = []
    for part in parts:
        among = reading.among(part)
        mine = tuple((address_of(file.path), file.digest) for file in files if among(file))
        looks.append(Looking(names=part, files=mine))
    numbers = spark.range(0, len(looks), 1, len(looks))
    work = _worker(tuple(looks), window, limits, expected)
    return numbers.mapInArrow(work, from_arrow_schema(CONDENSED_SCHEMA))


def together(rows: DataFrame, subscriptions: int) -> DataFrame:
    """The rows of a group in one task and always in the same order: sums of doubles depend on it."""
    tasks = 2 * -(-subscriptions // (8 * _SUBSCRIPTIONS))
    return rows.repartition(tasks, "cluster", "group").sortWithinPartitions(*_ORDER)


def chosen(samples: pa.Table, names: Iterable[tuple[str, str]]) -> pa.Table:
    """The samples of these (group, topic), their logs and their groups, and of no other topic of theirs; pure."""
    pairs = pa.array(sorted({f"{group}\0{topic}" for group, topic in names}), pa.string())
    both = pc.binary_join_element_wise(samples["group"], samples["topic"], "\0")
    return samples.filter(
        pc.or_kleene(pc.is_in(both, pairs), pc.or_(pc.is_null(samples["group"]), pc.is_null(samples["topic"])))
    )


def condensed_look(looking: Looking, window: Window, limits: Thresholds, expected: Expectations) -> pa.Table:
    """What one task does.

    Raises:
        DamagedCaptureError: if a file cannot be read. SlotReplacedError: if it is gone.
        SourceUnreachableError: if object storage refuses, or does not answer.
    """
    from workbench.features.condense_by_subscription import CONDENSED_SCHEMA, condense_each

    groups, topics = {group for group, _ in looking.names}, {topic for _, topic in looking.names}
    parts = (rows_of(file_at(address), groups, topics, digest=digest) for address, digest in looking.files)
    samples = chosen(pa.concat_tables([SAMPLES_SCHEMA.empty_table(), *parts]), looking.names)
    if not samples.num_rows:
        return CONDENSED_SCHEMA.empty_table()
    return condense_each(samples, window, lambda group: expected.limits(limits, group)).cast(CONDENSED_SCHEMA)


def _worker(
    looks: tuple[Looking, ...], window: Window, limits: Thresholds, expected: Expectations
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch["id"].to_pylist():
                yield from condensed_look(looks[number], window, limits, expected).combine_chunks().to_batches()

    return work

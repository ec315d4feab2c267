"""The closer look: triage of some subscriptions of a fleet from their samples, in rounds of bounded size."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from workbench.errors import SlotReplacedError
from workbench.settings_of_groups import Expectations
from workbench.spark.session import for_little_data
from workbench.sweep.condense_store import NOTHING_READ, StoreReading
from workbench.sweep.fleet_store import FleetStore
from workbench.sweep.looks_by_workers import Names, chosen, in_tasks, looked_at, together
from workbench.sweep.reads_while_replaced import tries
from workbench.sweep.store_places import told_by_workers
from workbench.thresholds import Thresholds
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.triage_engine import answered, judged_rows
from workbench.window import Window

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Compiling the plan of a closer look takes 40 s; without that, each subscription takes 25 ms instead of 5.
_COMPILED = 2_500  # from so many subscriptions on
_ROUND = 2_000  # subscriptions that are judged in one plan, out of many


@dataclass(slots=True)
class CloserTriage:
    """The closer look: triage of some subscriptions from their samples, each by its own onset; its rows are kept for the findings.

    Attributes:
        kept: all samples, of a fleet that is small; else those of a closer look are read for it.
    """

    store: FleetStore
    spark: SparkSession
    window: Window
    limits: Thresholds
    expected: Expectations
    answered: dict[tuple[str, str], SubscriptionFeatures] = field(default_factory=dict)
    kept: pa.Table | None = None
    _reading: StoreReading = NOTHING_READ

    def here(self, names: Sequence[tuple[str, str]]) -> list[SubscriptionFeatures]:
        """The judged rows of these (group, topic) of a small fleet."""
        with for_little_data(self.spark):
            return self._mine(answered(self.spark, self.samples(names), self.window, self.limits, self.expected), names)

    def by_workers(self, reading: StoreReading, unclear: Sequence[tuple[str, str, int]]) -> list[SubscriptionFeatures]:
        """The judged rows of these (group, topic, number of partitions), of those that have a sample."""
        self._reading = reading
        parts = in_tasks(unclear)
        found: list[SubscriptionFeatures] = []
        with for_little_data(self.spark) if len(unclear) <= _COMPILED else nullcontext():
            while parts:
                names: list[tuple[str, str]] = []
                mine = []
                while parts and len(names) + len(parts[0]) <= _ROUND:
                    mine.append(parts.pop(0))
                    names += mine[-1]
                found += self._mine(self._judged(reading, mine, len(names)), names)
        return found

    def _judged(self, reading: StoreReading, parts: Sequence[Names], subscriptions: int) -> list[SubscriptionFeatures]:
        from workbench.features.condense_by_subscription import features_among

        replaced = SlotReplacedError(self.store.root)
        for _ in tries():
            rows = looked_at(
                self.spark,
                self.store,
                reading,
                parts,
                window=self.window,
                limits=self.limits,
                expected=self.expected,
            ).cache()  # read once, whatever is asked of it
            try:
                with told_by_workers(self.store.root):
                    present = set(rows.select("signal").distinct().toArrow()["signal"].to_pylist())
                    features = features_among(
                        together(rows, subscriptions), present, stale_after_seconds=self.limits.stale_after_seconds
                    )
                    table = features.toArrow()
            except SlotReplacedError as error:
                replaced = error
            else:
                return judged_rows(table, self.window, self.limits, self.expected)
            finally:
                rows.unpersist()
        raise replaced

    def _mine(
        self, rows: Iterable[SubscriptionFeatures], names: Iterable[tuple[str, str]]
    ) -> list[SubscriptionFeatures]:
        wanted = set(names)
        mine = [row for row in rows if (row.group, row.topic) in wanted]
        self.answered.update({(row.group, row.topic): row for row in mine})
        return mine

    def samples(self, names: Sequence[tuple[str, str]]) -> pa.Table:
        """Samples of these subscriptions, their logs and their groups, and of no other topic of theirs."""
        if self.kept is not None:
            return chosen(self.kept, names)
        return chosen(self.store.samples_of(self.window, names, self._reading.among(names)), names)

    def samples_of_nobody(self) -> pa.Table:
        """Samples of no group and no topic, beside others for a small fleet."""
        if self.kept is not None:
            return self.kept
        return self.store.samples_of_nobody(self.window, self._reading.among_nobodys())

"""The sweep: triage of every subscription of a cluster in one Spark plan, from a store of landed samples.

files → condensed, each once (`condense_store`) → summary → features → what is certainly healthy (`closer_look`)
→ the rest from its samples, as a triage does → a table; findings for the worst only

A small fleet is judged from its samples at once: it takes hardly longer than one group.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from workbench.errors import NoSeriesError
from workbench.history.backlog_before_kafka import words_of_lag_before
from workbench.humanize import shell_word, with_missing
from workbench.queues.group_kinds import REDRIVE_PREFIX, Unjudged
from workbench.samples import SAMPLES_SCHEMA
from workbench.spark.parsed_sql_cache import columns
from workbench.spark.session import in_tasks_of, is_local
from workbench.sweep.closer_triage import CloserTriage
from workbench.sweep.condense_store import StoreReading, condense_missing
from workbench.sweep.fleet_store import FleetStore
from workbench.sweep.read_store import whole_file
from workbench.sweep.store_places import told_by_workers
from workbench.sweep.table_order import with_mutes, worst_first
from workbench.thresholds import Thresholds
from workbench.triage.finding import Finding
from workbench.triage.owner_links_commands import WAITING, waits
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.triage_engine import ORDER, Triage, finding_of, profiles_named
from workbench.triage.verdict_leaves import leaf_of
from workbench.triage.verdict_names import State, Verdict
from workbench.window import Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "workbench.sweep/1"
TOP = 20  # number of full findings; the table has all subscriptions

# Of every subscription: verdict and state; `time_lag_seconds` of its oldest message, with the method; `lag_messages`;
# `lag_slope` and `arrival_per_second` (messages/s); partitions, members; `eta_loss_seconds` until retention deletes unread messages.
# Each by its column of `features.subscription_features`.
_WAITING = pa.array([WAITING])
_TABLE = {
    "cluster": "cluster",
    "group": "`group`",
    "topic": "topic",
    "verdict": "verdict",
    "time_lag_seconds": "time_lag_seconds",
    "time_lag_method": "oldest.time_lag_method",
    "lag_messages": "lag_messages",
    "lag_slope": "lag_slope",
    "arrival_per_second": "arrival_per_second",
    "partitions": "partition_count",
    "members": "group_members",
    "eta_loss_seconds": "loss_seconds",
}
_WHOLE = {"partitions": pa.int64()}
_TEXTS = ("cluster", "group", "topic", "verdict", "time_lag_method")
_ROWS = pa.schema([(name, pa.string() if name in _TEXTS else _WHOLE.get(name, pa.float64())) for name in _TABLE])


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """All verdicts of one sweep of a fleet.

    Attributes:
        table: a row for each subscription, worst first: the columns of `_TABLE` and `state`.
        findings: full findings of the worst subscriptions.
        reading: what was read for it.
        partial: what the sources left out of the window's slots, and what waits before Kafka.
        shorter: slots of the baseline that have not landed.
        not_judged: groups that cannot be judged; their rows of the table are `cannot_tell`.
    """

    window: Window
    source: dict[str, Any]
    table: pa.Table
    findings: tuple[Finding, ...]
    reading: StoreReading
    partial: tuple[str, ...] = ()
    shorter: tuple[str, ...] = ()
    not_judged: tuple[Unjudged, ...] = ()

    @property
    def incomplete(self) -> tuple[str, ...]:
        """Everything that is known to be missing, a sentence each."""
        return (*self.partial, *self.shorter)

    @property
    def verdicts(self) -> dict[str, int]:
        """Number of subscriptions by verdict, worst state first."""
        counted = Counter(self.table["verdict"].to_pylist())
        order = sorted(counted, key=lambda name: (ORDER.index(leaf_of(Verdict(name)).state), -counted[name], name))
        return {name: counted[name] for name in order}

    @property
    def states(self) -> dict[str, int]:
        """Number of subscriptions by state, worst first."""
        counted = Counter(self.table["state"].to_pylist())
        return {str(state): counted[str(state)] for state in ORDER if counted[str(state)]}

    @property
    def lagging(self) -> int:
        """Number of lagging subscriptions that are not muted."""
        return self._loud(State.LAGGING)

    @property
    def unsure(self) -> int:
        """Number of subscriptions and groups that could not be judged and are not muted."""
        return self._loud(State.CANNOT_TELL)

    def _loud(self, state: State) -> int:
        table = self.table.filter(pc.and_(pc.equal(self.table["state"], str(state)), pc.is_null(self.table["muted"])))
        return int(table.num_rows)

    def unwell(self) -> pa.Table:
        """Rows of the subscriptions that are not healthy."""
        return self.table.filter(pc.not_equal(self.table["state"], str(State.HEALTHY)))

    def as_triage(self) -> Triage:
        """The worst subscriptions as a triage, for the report."""
        return Triage(
            window=self.window,
            source=self.source,
            findings=self.findings,
            incomplete=self.incomplete,
            not_judged=self.not_judged,
        )

    def to_json(self) -> dict[str, Any]:
        """The document `workbench.sweep/1`: healthy subscriptions are counted, not listed."""
        reading = self.reading
        return {
            "schema": SCHEMA,
            "window": self.window.to_json(),
            "source": self.source,
            "incomplete": list(self.incomplete),
            "reading": {
                "files": reading.files,
                "files_read": reading.condensed,
                "bytes_read": reading.bytes_read,
                "samples_read": reading.samples_read,
            },
            "subscriptions": self.table.num_rows,
            "states": self.states,
            "verdicts": self.verdicts,
            "unwell": self.unwell().to_pylist(),
            "findings": [finding.to_json() for finding in self.findings],
            "not_judged": [group.to_json() for group in self.not_judged],
        }


def sweep(
    store: FleetStore,
    spark: SparkSession,
    *,
    window: Window | None = None,
    thresholds: Thresholds | None = None,
    top: int = TOP,
    events: Sequence[Mapping[str, Any]] = (),
    kinds: Mapping[str, str] | None = None,
    others: Sequence[Unjudged] = (),
    unseen: Callable[[Set[str]], Sequence[Unjudged]] | None = None,
    missing: Sequence[str] = (),
) -> Sweep:
    """Run triage on every subscription of a store.

    Args:
        store: of landed samples.
        spark: the Spark session; it and its executors must be able to read the store's folder.
        window: of the store (`FleetStore.window`); default: the newest.
        thresholds: replace the store's own.
        top: number of full findings, worst first; healthy subscriptions have none.
        events: of the cluster, as in a capture.
        kinds: group to its kind, if Kafka was asked (`collect.capture_in_memory.other_groups`).
        others: groups that cannot be judged; each is a row of the table, whatever samples there are of it.
        unseen: asks for groups that are not among these, such as those that have never committed.
        missing: what Kafka did not tell about them.

    Raises:
        NoSeriesError: if the window's slot has not landed, or has no lag.
        DamagedCaptureError: if a landed file has changed.
    """
    seen, limits = window or store.window(), thresholds or store.info.thresholds
    ends = store.landed_of(seen)
    if seen.end not in ends:
        raise NoSeriesError(
            f"The slot that ends at {seen.end:%Y-%m-%d %H:%M:%SZ} has not landed in {store.root}.",
            hint="Without a time, the newest slot is used.",
        )
    expected = store.expectations
    looked = CloserTriage(store, spark, seen, limits, expected)
    small = _whole_fleet(looked, ends)
    reading, table = small if small is not None else _screened_fleet(looked, ends)
    waiting = {key for key, row in looked.answered.items() if waits(row, store.begun)}
    table = with_mutes(worst_first(table, waiting), expected, seen, waiting)
    if unseen is not None:
        others = (*others, *unseen({*table["group"].to_pylist(), *(it.group for it in others)}))
    others = tuple(replace(it, muted=expected.of(it.group).muted(seen.end)) for it in others)
    table = with_kinds(table, kinds or {}, others)
    judged = pc.invert(pc.is_in(table["group"], pa.array([it.group for it in others], pa.string())))
    worst = table.filter(pc.and_(judged, pc.not_equal(table["state"], str(State.HEALTHY)))).slice(0, top)
    findings = _findings(looked, worst, events, kinds or {})
    return Sweep(
        window=seen,
        source={"kind": store.info.source, "cluster": store.info.cluster, "profiles": store.info.profiles},
        table=table,
        findings=findings,
        reading=reading,
        partial=tuple(
            f"the slot that ends at {end:%Y-%m-%d %H:%M:%SZ} is incomplete: {text}"
            for end in ends
            for text in store.missing_of(end)
        )
        + tuple(missing)
        + words_of_lag_before(
            looked.samples_of_nobody(),
            seen,
            late_seconds=limits.time_lag_objective_seconds,
            stale_seconds=limits.stale_after_seconds,
            source=f"--cluster {shell_word(store.info.cluster)}",
        ),
        not_judged=tuple(others),
        shorter=tuple(
            f"the slot that ends at {end:%Y-%m-%d %H:%M:%SZ} has not landed, so the baseline is shorter"
            for end in store.slots_of(seen)
            if end not in ends
        ),
    )


_ROWS_OF_TASK = 350_000  # of summaries: those of 3,000 subscriptions with eight partitions


def _screened_fleet(looked: CloserTriage, ends: Sequence[datetime]) -> tuple[StoreReading, pa.Table]:
    """The columns of `_TABLE` for a large fleet: from its summaries, and what these leave open from its samples."""
    from workbench.sweep.closer_look import SCREEN, screened

    store, spark, limits, expected = looked.store, looked.spark, looked.limits, looked.expected
    reading = condense_missing(store, spark, ends)
    summary = _summary(spark, reading, looked.window, store)
    wanted = [f"{sql} AS `{name}`" for name, sql in _TABLE.items() if name != "verdict"]
    with told_by_workers(store.root), in_tasks_of(spark, reading.rows, each=_ROWS_OF_TASK):
        seen_all = screened(summary, limits, expected).select(*columns(*wanted, SCREEN)).toArrow()
    if not seen_all.num_rows:
        raise _no_lag(store, ends)
    seen_all = seen_all.filter(pc.invert(pc.starts_with(seen_all["group"], REDRIVE_PREFIX)))  # their lag is nobody's
    unwell = seen_all.filter(seen_all[SCREEN])
    unclear = list(zip(*(unwell[name].to_pylist() for name in ("group", "topic", "partitions")), strict=True))
    parts = [_cleared(seen_all.filter(pc.invert(seen_all[SCREEN])))]
    parts.append(_as_table(looked.by_workers(reading, unclear)))
    parts.append(_without_samples(seen_all, {it[:2] for it in unclear} - looked.answered.keys()))
    return reading, pa.concat_tables([part.cast(_ROWS) for part in parts])


# So many are summarised in about a second; of more, summaries that are kept, and the screen of what is certainly healthy, pay.
SMALL_SAMPLES = 1_000_000
_SMALL = 250  # subscriptions, likewise


def _whole_fleet(looked: CloserTriage, ends: Sequence[datetime]) -> tuple[StoreReading, pa.Table] | None:
    """The same for a small fleet, from all of its samples in one plan, as a triage does it; None if the fleet is not small."""
    if not is_local(looked.spark):  # somebody with a cluster wants the work done there
        return None
    if sum(looked.store.rows_of(end) for end in ends) > SMALL_SAMPLES:
        return None
    found = looked.store.read(ends, whole_file)
    files, samples = (
        [file for file, _ in found],
        pa.concat_tables([SAMPLES_SCHEMA.empty_table(), *(it for _, it in found)]),
    )
    both = pc.and_(pc.is_valid(samples["group"]), pc.is_valid(samples["topic"]))
    pairs = samples.filter(both).group_by(["group", "topic"]).aggregate([])
    pairs = pairs.filter(pc.invert(pc.starts_with(pairs["group"], REDRIVE_PREFIX)))
    if pairs.num_rows > _SMALL:
        return None
    names = list(zip(pairs["group"].to_pylist(), pairs["topic"].to_pylist(), strict=True))
    looked.kept = samples
    rows = looked.here(names)
    if not rows:
        raise _no_lag(looked.store, ends)
    size = sum(file.size for file in files)
    reading = StoreReading(
        files=len(files),
        condensed=len(files),
        bytes_read=size,
        samples_read=samples.num_rows,
        summaries=(),
        counters=False,
    )
    return reading, _as_table(rows)


def _no_lag(store: FleetStore, ends: Sequence[datetime]) -> NoSeriesError:
    missing = [text for end in ends for text in store.missing_of(end)]
    return NoSeriesError(with_missing(f"No lag of any group in the window's slots of {store.root}.", missing))


def _as_table(rows: Iterable[SubscriptionFeatures]) -> pa.Table:
    """The columns of `_TABLE`."""

    def value(row: SubscriptionFeatures, name: str) -> Any:
        if name == "oldest.time_lag_method":
            return row.oldest.time_lag_method if row.oldest is not None else None
        return getattr(row, name.strip("`"))

    return pa.Table.from_pylist([{name: value(row, sql) for name, sql in _TABLE.items()} for row in rows], _ROWS)


def _cleared(screen: pa.Table) -> pa.Table:
    """What needs no closer look is healthy."""
    verdicts = pa.array([Verdict.HEALTHY.value] * screen.num_rows, pa.string())
    return screen.append_column("verdict", verdicts).select(list(_TABLE))


def _without_samples(screen: pa.Table, names: Set[tuple[str, str]]) -> pa.Table:
    """What has no sample of its own any more has no data: a row of the first pass alone judges nothing."""
    keys = zip(screen["group"].to_pylist(), screen["topic"].to_pylist(), strict=True)
    theirs = screen.filter(pa.array([key in names for key in keys], pa.bool_()))
    verdicts = pa.array([Verdict.NO_DATA.value] * theirs.num_rows, pa.string())
    return theirs.append_column("verdict", verdicts).select(list(_TABLE))


def _summary(spark: SparkSession, reading: StoreReading, window: Window, store: FleetStore) -> DataFrame:
    from workbench.features.condense import SUMMARY_SCHEMA
    from workbench.features.summary_of_slots import of_slots

    slots = store.place.frame(spark, reading.summaries, SUMMARY_SCHEMA)
    return of_slots(slots, store.slots_of(window), counters=reading.counters)


def with_kinds(table: pa.Table, kinds: Mapping[str, str], others: Sequence[Unjudged]) -> pa.Table:
    """Add the kind of each group, and a row "cannot tell" for each one that cannot be judged in place of its other rows; pure."""
    without = pc.invert(pc.is_in(table["group"], pa.array([it.group for it in others], pa.string())))
    table = table.filter(without)
    table = table.append_column("kind", pa.array([kinds.get(name) for name in table["group"].to_pylist()], pa.string()))
    if not others:
        return table
    rows = [
        {
            "cluster": it.cluster,
            "group": it.group,
            "topic": ", ".join(it.topics),
            "kind": it.kind,
            "verdict": str(Verdict.CANNOT_TELL),
            "state": str(State.CANNOT_TELL),
            "lag_messages": it.lag_messages,
            "members": it.members,
            "muted": it.muted,
        }
        for it in others
    ]
    more = pa.Table.from_pylist([{name: row.get(name) for name in table.column_names} for row in rows], table.schema)
    lagging = pc.and_(pc.equal(table["state"], str(State.LAGGING)), pc.is_null(pc.index_in(table["muted"], _WAITING)))
    at = pc.sum(lagging).as_py() or 0
    return pa.concat_tables([table.slice(0, at), more, table.slice(at)])


def _findings(
    looked: CloserTriage, worst: pa.Table, events: Sequence[Mapping[str, Any]], kinds: Mapping[str, str]
) -> tuple[Finding, ...]:
    keys = zip(worst["group"].to_pylist(), worst["topic"].to_pylist(), strict=True)
    # What kept the answer of the first pass has no features to tell from.
    wanted = [key for key in keys if key in looked.answered]
    if not wanted:
        return ()
    samples = looked.samples(wanted)
    profiles = profiles_named(looked.store.info.profiles)
    return tuple(
        finding_of(
            looked.answered[key],
            samples,
            looked.window,
            looked.expected,
            profiles=profiles,
            bootstrap=looked.store.info.bootstrap,
            login_file=looked.store.login_file,
            events=events,
            kind=kinds.get(key[0]),
            begun=looked.store.begun,
        )
        for key in wanted
    )

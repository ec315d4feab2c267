"""The first step for a triage: each subscription is condensed for its own judged time, with its own copies of what it shares.

A sweep's slots are the same for all. Here each has rows of its own: those of the log under the name of its
group, those of members and queues under the topic that they serve; so nothing has to be spread afterwards.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workbench.equal_row_runs import runs_of
from workbench.features.condense import COLUMNS, SUMMARY_SCHEMA, condense
from workbench.features.subscription_features import of_summary
from workbench.features.summary_of_slots import of_periods
from workbench.features.summary_schema import BASELINE_PERIODS, CUMULATIVE, LATER, NOW, STORY, WORK
from workbench.history.partition_histories import Chronicle, JudgedHistory, Subscription, facts
from workbench.history.partition_histories import read as read_chronicle
from workbench.samples import SERIES_ORDER
from workbench.samples_by_subscription import SamplesBySubscription, places_of
from workbench.spark.plan_templates import filled
from workbench.spark.session import frame_of
from workbench.spark.upload_rows import spread
from workbench.thresholds import Thresholds
from workbench.window import Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PERIOD = pa.field("period", pa.int32())
CONDENSED_SCHEMA = SUMMARY_SCHEMA.append(_PERIOD)  # of `condense_each`
# Up to so many rows all of it is one task: what is in one place needs no shuffle, and each costs more than it saves (an incident of
# one group: a third off the time that the job takes).
_ONE_TASK_ROWS = 10_000
_PIECE_ROWS = 250_000


def features_of(spark: SparkSession, rows: pa.Table, *, stale_after_seconds: float) -> DataFrame:
    """All features of the subscriptions of `condense_each`: the rows of `features.subscription_features.of_summary`.

    Raises:
        SetupError: if they are too many for a Spark Connect server.
    """
    few = rows.num_rows <= _ONE_TASK_ROWS
    present = set(rows["signal"].unique().to_pylist())
    if not few:  # a plan of their own without what is not there is worth more than one that is made already
        return features_among(spread(spark, rows), present, stale_after_seconds=stale_after_seconds)
    counters = not set(CUMULATIVE).isdisjoint(present)
    return filled(
        frame_of(spark, rows),
        f"features few={few} counters={counters} stale_after_seconds={stale_after_seconds!r}",
        lambda frame: of_summary(
            summary_of(frame, few=few, counters=counters), stale_after_seconds=stale_after_seconds
        ),
    )


def features_among(frame: DataFrame, present: Collection[str], *, stale_after_seconds: float) -> DataFrame:
    """The same of a frame of such rows, which have these signals."""
    summary = summary_of(frame, few=False, counters=not set(CUMULATIVE).isdisjoint(present))
    return of_summary(summary, stale_after_seconds=stale_after_seconds, present=present)


def summary_of(frame: DataFrame, *, few: bool, counters: bool) -> DataFrame:
    """The rows of `condense_each` as `features.summary_of_slots.of_periods` says; `few`: all of it is one task.

    Every row has a group and a topic. Facts of `PartitionHistory` are rows of the signal `features.summary_schema.STORY`, their name in
    `stat`, their number in `last`.
    """
    return of_periods(frame.coalesce(1) if few else frame, 0.0, counters=counters)


def condense_each(samples: pa.Table, window: Window, limits_of: Callable[[str], Thresholds]) -> pa.Table:
    """The rows of `condense` with `period`, for each subscription, and their times from the window's end on; without Spark.

    Samples (`SAMPLES_SCHEMA`) are in any order; those outside of baseline and window are left out.
    """
    mine = samples.select(list(COLUMNS))
    if mine.num_rows <= 2 * _PIECE_ROWS:
        return _condense_each(mine, window, limits_of)
    # Of a fleet, one part after the other: to sort all of it at once takes twice its memory.
    parts = SamplesBySubscription(mine).by_groups(rows=_PIECE_ROWS)
    return pa.concat_tables([CONDENSED_SCHEMA.empty_table(), *(_condense_each(it, window, limits_of) for it in parts)])


def _condense_each(samples: pa.Table, window: Window, limits_of: Callable[[str], Thresholds]) -> pa.Table:
    times = [pa.scalar(at, samples["ts"].type) for at in (window.baseline_start, window.end)]
    inside = pc.and_(pc.greater_equal(samples["ts"], times[0]), pc.less_equal(samples["ts"], times[1]))
    order = [(name, "ascending") for name in (*SERIES_ORDER, "ts")]
    ordered = throttles_in_force(samples.filter(inside).sort_by(order))
    chronicle = read_chronicle(ordered, window, limits_of)
    places = _Places(ordered)
    parts = [_facts(chronicle)]
    usual = [key for key in places.subscriptions if key not in chronicle.judged]
    if usual:
        whole = ordered if len(usual) == len(places.subscriptions) else places.of(usual)
        parts.append(_for(whole, _whole(window), window, usual, places))
    for key, judged in chronicle.judged.items():
        parts.append(_for(places.of([key]), judged, window, [key], places))
    return pa.concat_tables(parts)


def throttles_in_force(ordered: pa.Table) -> pa.Table:
    """Let each throttle time count for as long as it lasts.

    A broker tells it with an answer, and then keeps quiet for that time: librdkafka shows 30 s in one second, and 0 in the next thirty.
    """
    mine = pc.equal(ordered["signal"], "throttle_time").to_numpy(zero_copy_only=False)
    at = np.flatnonzero(mine)
    values = ordered["value"].to_numpy().copy()
    if not np.any(values[at] > 0):
        return ordered
    micros = pc.cast(ordered["ts"], pa.int64()).to_numpy()
    for begin, end in zip(*runs_of(ordered.filter(pa.array(mine)), SERIES_ORDER), strict=True):
        of_series = at[begin:end]
        until = micros[of_series] + np.nan_to_num(values[of_series]) * 1e6
        longest = np.maximum.accumulate(until)
        told = np.maximum.accumulate(np.where(until == longest, np.arange(len(until)), 0))
        values[of_series] = values[of_series][told]
    where = ordered.schema.get_field_index("value")
    return ordered.set_column(where, ordered.schema.field("value"), pa.array(values, mask=np.isnan(values)))


def _whole(window: Window) -> JudgedHistory:
    start = _micros(window.start)
    good_until = start if window.baseline_seconds > 0 else None
    return JudgedHistory(start_us=start, good_until_us=good_until, work_from_us=start)


def _for(
    samples: pa.Table, judged: JudgedHistory, window: Window, wanted: Sequence[Subscription], places: _Places
) -> pa.Table:
    if judged.work_from_us > judged.start_us:
        work = pc.is_in(samples["signal"], pa.array(WORK))
        later = replace(judged, start_us=judged.work_from_us)
        parts = [(samples.filter(pc.invert(work)), judged), (samples.filter(work), later)]
        return pa.concat_tables(_since(part, it, window, wanted, places) for part, it in parts)
    return _since(samples, judged, window, wanted, places)


def _since(
    samples: pa.Table, judged: JudgedHistory, window: Window, wanted: Sequence[Subscription], places: _Places
) -> pa.Table:
    edges, periods = _edges(judged, window)
    rows = condense(samples, edges, origin_us=_micros(window.end))
    slots = {at - _micros(window.end): period for at, period in zip(edges[1:], periods, strict=True)}
    numbers = pa.array([slots[at] for at in rows["slot_us"].to_pylist()], pa.int32())
    return _shared(rows.append_column(_PERIOD, numbers), wanted, places)


def _edges(judged: JudgedHistory, window: Window) -> tuple[list[int], list[int]]:
    """Bounds of the slots in µs since the epoch, and the period of each."""
    first, end = _micros(window.baseline_start) - 1, _micros(window.end)
    start = max(judged.start_us, first + 1)
    if judged.good_until_us is None:
        return ([first, start, end], [LATER, NOW]) if start > first + 1 else ([first, end], [NOW])
    good = min(judged.good_until_us, start)
    inner = [first + 1 + (good - first - 1) * number // BASELINE_PERIODS for number in range(1, BASELINE_PERIODS)]
    edges, periods = [first, *inner, good], list(range(BASELINE_PERIODS))
    if good < start:  # since the onset, and before the window
        edges, periods = [*edges, start], [*periods, LATER]
    return [*edges, end], [*periods, NOW]


def _micros(at: datetime) -> int:
    return round(at.timestamp() * 1e6)


class _Places:
    """Where the rows of each group and topic are in a sorted table, and which topic a member or a queue serves."""

    def __init__(self, ordered: pa.Table) -> None:
        self._rows = SamplesBySubscription(ordered)
        own = ordered.filter(pc.and_(pc.is_valid(ordered["group"]), pc.is_valid(ordered["partition"])))
        own = own.select(["cluster", "group", "topic", "member"])
        pairs = own.group_by(["cluster", "group", "topic"]).aggregate([]).to_pylist()
        self.subscriptions: list[Subscription] = sorted((it["cluster"], it["group"], it["topic"]) for it in pairs)
        self.topics: dict[str, list[str]] = defaultdict(list)
        self.groups: dict[str, list[str]] = defaultdict(list)
        for _, group, topic in self.subscriptions:
            self.topics[group].append(topic)
            self.groups[topic].append(group)
        # What of a group with several topics belongs to one of them.
        many = pa.array([group for group, topics in self.topics.items() if len(topics) > 1], pa.string())
        # By what serves it, "member" or "processor", with its group and name.
        self.served: dict[tuple[str, str, str], set[str]] = defaultdict(set)
        for name, rows in (("member", own), ("processor", ordered)) if len(many) else ():
            known = pc.and_(pc.is_valid(rows["topic"]), pc.is_valid(rows[name]))
            rows = rows.filter(pc.and_(pc.is_in(rows["group"], many), known))
            for it in rows.group_by(["group", "topic", name]).aggregate([]).to_pylist():
                self.served[name, it["group"], it[name]].add(it["topic"])

    def of(self, wanted: Iterable[Subscription]) -> pa.Table:
        """Rows of some subscriptions, with those of their groups and logs, in order."""
        return self._rows.at({place for _, group, topic in wanted for place in places_of(group, topic)})


def _shared(rows: pa.Table, wanted: Sequence[Subscription], places: _Places) -> pa.Table:
    """Rows of logs under each group that reads them, rows of groups under each topic that they serve."""
    chosen = set(wanted)
    take, group_of, topic_of = [np.empty(0, np.int64)], list[str](), list[str]()
    names = ("cluster", "group", "topic", "member", "processor")
    starts, ends = runs_of(rows, names)
    labels = rows.select(list(names)).take(pa.array(starts)).to_pylist()
    for label, begin, end in zip(labels, starts, ends, strict=True):
        cluster, group, topic = label["cluster"], label["group"], label["topic"]
        if group is None:
            targets = [(it, topic) for it in places.groups.get(topic, ())]
        elif topic is None:
            targets = [(group, it) for it in _topics_of(label, places)]
        else:
            targets = [(group, topic)]
        for target in targets:
            if (cluster, *target) in chosen:
                take.append(np.arange(begin, end))
                group_of += [target[0]] * int(end - begin)
                topic_of += [target[1]] * int(end - begin)
    made = rows.take(pa.array(np.concatenate(take)))
    for name, values in (("group", group_of), ("topic", topic_of)):
        made = made.set_column(made.schema.get_field_index(name), name, pa.array(values, pa.string()))
    return made


def _topics_of(label: dict[str, str | None], places: _Places) -> Iterable[str]:
    """Topics that a row of a group is about: those that its processor or its member serves, or all."""
    group = label["group"] or ""
    topics = places.topics.get(group, [])
    if len(topics) < 2:
        return topics
    for name in ("processor", "member"):
        if served := places.served.get((name, group, label[name] or "")):
            return [it for it in topics if it in served]
    return topics


def _facts(chronicle: Chronicle) -> pa.Table:
    told = list(facts(chronicle))
    count = len(told)
    given: dict[str, Sequence[object]] = {
        **{name: [it.key[at] for it in told] for at, name in enumerate(("cluster", "group", "topic"))},
        **{name: [getattr(it, name) for it in told] for name in ("partition", "member")},
        "signal": [STORY] * count,
        "stat": [it.name for it in told],
        "slot_us": [0] * count,
        "samples": [1] * count,
        "bad_samples": [0] * count,
        "last": [it.value for it in told],
        "last_us": [None if it.at is None else round(it.at * 1e6) for it in told],
        "period": [0 if it.before else NOW for it in told],
    }
    columns = [pa.array(given.get(it.name, [None] * count), it.type) for it in CONDENSED_SCHEMA]
    return pa.table(columns, schema=CONDENSED_SCHEMA)

"""Time lag from offsets alone: a lag exporter counts messages, and the log's end says when each of them was produced."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workbench.history.next_message_age import ages, from_lag, is_measured, newest_log, without_glitches
from workbench.history.partition_histories import lines_of
from workbench.history.partition_series import BoolArray, FloatArray, Track, step_of, tracks_of
from workbench.history.partition_story import is_idle
from workbench.judgement_numbers import MISSED
from workbench.quantiles import median
from workbench.window import Window

DERIVED = pa.schema(
    [
        ("ts", pa.timestamp("us", tz="UTC")),
        ("group", pa.string()),
        ("topic", pa.string()),
        ("value", pa.float64()),
        ("sure", pa.bool_()),
    ]
)


def derived_time_lag(samples: pa.Table, window: Window) -> pa.Table:
    """Derive the time lag of partitions for the times at which nobody measures it: while their consumers are down, or never.

    Samples are in the order of `workbench.samples.SERIES_ORDER`, then time.

    Returns:
        A row of `DERIVED` for each sample of a commit: seconds that the oldest message has waited. Not `sure`: at least so long, since
        it was produced before the data begin, or when the log's end was measured no more.
    """
    lines, _ = lines_of(samples, window)
    whole = samples.filter(pc.and_(pc.equal(samples["signal"], "time_lag"), pc.is_null(samples["partition"])))
    whole = whole.filter(pc.and_(pc.is_valid(whole["value"]), pc.equal(whole["stat"], "value")))
    of_all = {(it["group"], it["topic"]): line for it, line in tracks_of(whole, ("group", "topic"), window)}
    end_us = round(window.end.timestamp() * 1e6)
    found = [DERIVED.empty_table()]
    for (cluster, group, topic, partition), own in lines.items():
        if group is None:
            continue
        end, _ = newest_log(lines.get((cluster, None, topic, partition), {}).get("log_end", Track()))
        committed = own.get("committed", Track())
        if not len(committed):
            committed = from_lag(own.get("lag", Track()), end)
        if not len(committed) or not len(end):
            continue
        step = median(np.diff(committed.at)) if len(committed) > 2 else 0.0
        told = (own.get("time_lag", Track()), of_all.get((group, topic), Track()))
        untold = ~np.logical_or.reduce([_is_told(it, committed.at, step) for it in told])
        if not untold.any():
            continue
        age, known = ages(committed, end, Track(), step)
        if age is None:
            continue
        idle = is_idle(committed, end)
        age = np.zeros(len(age)) if idle else without_glitches(committed.at, age)
        sure = known | idle | ((age == 0) & is_measured(end, committed.at, step))
        micros, count = np.round(committed.at[untold] * 1e6).astype(np.int64) + end_us, int(untold.sum())
        ts = pa.array(micros).cast(DERIVED.field("ts").type)
        columns = [ts, pa.repeat(group, count), pa.repeat(topic, count), age[untold], sure[untold]]
        found.append(pa.table(columns, schema=DERIVED))
    return pa.concat_tables(found).combine_chunks()


def _is_told(time_lag: Track, at: FloatArray, step: float) -> BoolArray:
    """Whether somebody measures a time lag at these times, or has just measured it."""
    if not len(time_lag):
        return np.zeros(len(at), dtype=bool)
    latest = np.maximum(np.searchsorted(time_lag.at, at, side="right") - 1, 0)
    return np.asarray(np.abs(at - time_lag.at[latest]) <= MISSED * max(step, step_of(time_lag.at)))

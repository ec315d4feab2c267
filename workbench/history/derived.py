"""Time lag from offsets alone: a lag exporter counts messages, and the log's end says when each of them was produced."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workbench.history.message_ages import ages, from_lag, is_measured, newest_log, without_glitches
from workbench.history.partition_histories import lines_of
from workbench.history.partition_series import Track
from workbench.history.partition_story import is_idle
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
    """Derive the time lag of subscriptions that nobody measures it of.

    Args:
        samples: in the order of `workbench.samples.SERIES_ORDER`, then time.
        window: the samples to read, baseline and window.

    Returns:
        A row of `DERIVED` for each sample of a commit: seconds that the oldest message has waited. Not `sure`: at least so long, since
        it was produced before the data begin, or when the log's end was measured no more.
    """
    with_signal = samples.filter(pc.equal(samples["signal"], "time_lag")).select(["group", "topic"])
    measured = set(zip(with_signal["group"].to_pylist(), with_signal["topic"].to_pylist(), strict=True))
    lines, _ = lines_of(samples, window)
    end_us = round(window.end.timestamp() * 1e6)
    parts: list[pa.Table] = []
    for (cluster, group, topic, partition), own in lines.items():
        if group is None or (group, topic) in measured:
            continue
        end, _ = newest_log(lines.get((cluster, None, topic, partition), {}).get("log_end", Track()))
        committed = own.get("committed", Track())
        if not len(committed):
            committed = from_lag(own.get("lag", Track()), end)
        if not len(committed) or not len(end):
            continue
        step = float(np.median(np.diff(committed.at))) if len(committed) > 2 else 0.0
        age, known = ages(committed, end, Track(), step)
        if age is None:
            continue
        idle = is_idle(committed, end)
        age = np.zeros(len(age)) if idle else without_glitches(committed.at, age)
        columns = {
            "ts": np.round(committed.at * 1e6).astype(np.int64) + end_us,
            "group": [group] * len(age),
            "topic": [topic] * len(age),
            "value": age,
            "sure": known | idle | ((age == 0) & is_measured(end, committed.at, step)),
        }
        parts.append(pa.Table.from_pydict(columns, schema=DERIVED))
    return pa.concat_tables(parts) if parts else DERIVED.empty_table()

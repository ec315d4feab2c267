"""What a summary has: its periods, the labels and kinds of its rows, and SQL over it.

A summary has one row per series and period. The window is one period ("now"), the baseline four (its quarters). A baseline value is the
lower median over the quarters, so an incident that has taken up to half of the baseline does not become the norm.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from workbench.signals import SIGNALS, Grain, Kind

BASELINE_PERIODS = 4
NOW = BASELINE_PERIODS  # periods 0 to 3 are the baseline, 4 is the window
LATER = NOW + 1  # neither: after the onset, and before the window
STORY = "story"  # signal of the facts of `history.partition_series.PartitionHistory`, one `stat` each

LABELS = ("cluster", "group", "topic", "partition", "member", "broker", "processor", "queue")
CUMULATIVE = tuple(signal.name for signal in SIGNALS.values() if signal.kind is not Kind.GAUGE)
# Signals of a partition or a processor are one series whichever member reports them (a partition moves between members); what is told
# of the processes of a group adds up.
MEMBERLESS = tuple(
    signal.name
    for signal in SIGNALS.values()
    if signal.grain in (Grain.PARTITION, Grain.GROUP_PARTITION, Grain.PROCESSOR, Grain.TOPIC, Grain.PROCESS)
)
# ... but a client lists what it has fetched of every partition of the topic: 0 of those that are not its own.
EACH_MEMBERS = ("fetch_queue_length",)
# What members do, measured as a mean or a rate that stands beside what was usual: good time must not be mixed with it.
WORK = (
    *("process_time", "processed", "enqueue_time", "queue_length", "delayed_length", "fetch_queue_length"),
    *("poll_idle", "paused_partitions", "throttle_time", "cpu_periods", "gc_time"),
)
TOLD = ("mean", "batch")  # `stat` of what a client tells as a mean of its last half to whole minute
BAD_FLAGS = ("nan", "inf", "sentinel", "stale", "mixed")


def sql_list(names: Sequence[str]) -> str:
    """Names as an SQL list of strings."""
    return "(" + ", ".join(f"'{name}'" for name in names) + ")"


def signals_in(features: Mapping[str, str]) -> tuple[str, ...]:
    """Signals that the SQL of these features reads."""
    return tuple(dict.fromkeys(re.findall(r"signal = '(\w+)'", " ".join(features.values()))))


def of(
    aggregate: str,
    column: str,
    signal: str,
    *,
    stat: str | None = None,
    period: int | None = NOW,
    baseline: bool = False,
) -> str:
    """SQL for an aggregate over one signal: in the window, in one quarter of the baseline, in all of the baseline, or in all.

    `of("max", "last", "consumer_lag")` → `max(last) FILTER (WHERE signal = 'consumer_lag' AND period = 4)`.
    """
    of_stat = "" if stat is None else f" AND stat = '{stat}'"
    when = f" AND period < {NOW}" if baseline else "" if period is None else f" AND period = {period}"
    return f"{aggregate}({column}) FILTER (WHERE signal = '{signal}'{of_stat}{when})"


def lasted(signal: str, **where: Any) -> str:
    """SQL for the seconds from the first to the last sample of one signal; `where` as in `of`."""
    return f"{of('max', 'last_seconds', signal, **where)} - {of('min', 'first_seconds', signal, **where)}"


def spread(signal: str, **where: Any) -> str:
    """SQL for the way from the lowest to the highest value of one signal; `where` as in `of`."""
    return f"{of('max', 'high', signal, **where)} - {of('min', 'low', signal, **where)}"


def quarters(column: str, signal: str) -> str:
    """SQL for an array with the highest of one signal in each quarter of the baseline."""
    return in_quarters(lambda period: of("max", column, signal, period=period))


def in_quarters(one: Callable[[int], str]) -> str:
    """SQL for an array with a value of each quarter of the baseline, given its SQL by the quarter's period."""
    return f"array({', '.join(map(one, range(BASELINE_PERIODS)))})"


def ratio(numerator: str, denominator: str) -> str:
    """SQL for a quotient; null where the denominator is 0.

    Not Spark's `nullif`: in a self-join, its columns are not renamed like others (pyspark 4.3.0).
    """
    return f"CASE WHEN ({denominator}) != 0 THEN ({numerator}) / ({denominator}) END"


def lower_median(array: str) -> str:
    """SQL for the lower median of an array without its nulls; null for an empty one."""
    present = f"array_compact({array})"
    return f"get(sort_array({present}), cast((size({present}) + 1) div 2 - 1 AS int))"

"""Error budget of each subscription: time over the time-lag objective in a period, and time without measurements."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workbench.features.chart_series import spacing
from workbench.history.time_lag_by_offsets import DERIVED, derived_time_lag
from workbench.json_values import fields_of
from workbench.settings_of_groups import NOTHING_EXPECTED, Expectations
from workbench.thresholds import Thresholds
from workbench.window import Window

# 99.99 % is what the published consumer platforms promise: 4.32 minutes in 30 days, 8.6 s in one.
OBJECTIVE = 0.9999
# Over an hour or more, a minute is what an alert resolves; below, only the samples' own spacing is fine enough.
_MINUTE, _HOUR = 60.0, 3600.0
# From here on, 0.01 % of the period is a second, and samples are a second apart at best: in 18 s it would be 1.8 ms.
SHORTEST_SECONDS = 3 * _HOUR
# With less of the period measured than this, "within budget" would be a guess; "over budget" may still be certain.
_ENOUGH_KNOWN = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Seconds over the objective against those allowed.

    Attributes:
        period_seconds: the whole period.
        known_seconds: where time lag was measured, or follows from the offsets.
        late_seconds: where it was over the objective.
        allowed_seconds: 0.01 % of the period.
        resolution_seconds: length of the slots that are counted; nothing shorter is seen.
        too_short: whether the period is too short for an error budget.
        holds: True within the budget, False over it, None if too little is known to say "within", or if the period is too short.
    """

    period_seconds: float
    known_seconds: float
    late_seconds: float
    allowed_seconds: float
    resolution_seconds: float

    @property
    def known_share(self) -> float:
        """Share of the period with measurements, 0 to 1."""
        return min(1.0, self.known_seconds / self.period_seconds)

    @property
    def too_short(self) -> bool:
        """Whether the period is too short for an error budget."""
        return self.period_seconds < SHORTEST_SECONDS

    @property
    def holds(self) -> bool | None:
        """Whether the budget holds."""
        if self.too_short:
            return None
        if self.late_seconds > self.allowed_seconds:
            return False
        return True if self.known_share >= _ENOUGH_KNOWN else None

    def to_json(self) -> dict[str, float | bool | None]:
        """For result.json."""
        return {"objective": OBJECTIVE, **fields_of(self), "too_short": self.too_short, "holds": self.holds}


def resolution(samples: pa.Table, period_seconds: float) -> float:
    """Length of the slots: a minute for an hour or more, else as far apart as the samples are; never below that."""
    apart = math.ceil(max(spacing(samples, signal) for signal in ("time_lag", "committed_offset")))
    return max(_MINUTE, float(apart)) if period_seconds >= _HOUR else max(1.0, float(apart))


def budgets(
    samples: pa.Table,
    *,
    start: datetime,
    end: datetime,
    objective_seconds: float,
    expectations: Expectations = NOTHING_EXPECTED,
) -> Mapping[tuple[str, str], Budget]:
    """Compute (group, topic) to budget in [start, end]; subscriptions without a time lag and without offsets are left out.

    Where nobody measures the time lag (with a lag exporter alone, or while consumers that tell it themselves are down), it is derived:
    the log's end says when the next message was produced. If that was before the data begin, the time lag is at least so long: over the
    objective counts as late, and anything else as not known.

    A slot is late if any partition exceeded the objective in it: the objective applies to every message, not to the average.
    """
    length = (end - start).total_seconds()
    slot = resolution(samples, length)
    told = samples.filter(pc.and_(pc.equal(samples["signal"], "time_lag"), pc.equal(samples["stat"], "value")))
    told = told.select(["ts", "group", "topic", "value"]).append_column("sure", pa.repeat(True, told.num_rows))
    derived = derived_time_lag(samples, Window(baseline_start=start, start=start, end=end))
    rows = pa.concat_tables([told.cast(DERIVED), derived])
    known = [pc.is_valid(rows[name]) for name in ("group", "topic")] + [pc.is_finite(rows["value"])]
    rows = rows.filter(reduce(pc.and_, known))
    at = pc.cast(rows["ts"], pa.int64()).to_numpy() / 1e6
    inside = (at >= start.timestamp()) & (at < end.timestamp())
    slots = np.floor((at[inside] - start.timestamp()) / slot).astype(np.int64)
    rows = rows.filter(pa.array(inside)).append_column("slot", pa.array(slots))
    each = rows.group_by(["group", "topic", "slot"]).aggregate([("value", "max"), ("sure", "all")])
    limits = Thresholds(time_lag_objective_seconds=objective_seconds, commit_every_seconds=0)
    groups = each["group"].combine_chunks().dictionary_encode()
    most = np.array([_latest(expectations.limits(limits, it)) for it in groups.dictionary.to_pylist()])
    late = each["value_max"].to_numpy() > most[groups.indices.to_numpy()]
    sure = each["sure_all"].to_numpy()
    each = each.select(["group", "topic"]).append_column("late", pa.array(late.astype(np.int64)))
    each = each.append_column("known", pa.array((sure | late).astype(np.int64)))
    found = each.group_by(["group", "topic"]).aggregate([("known", "sum"), ("late", "sum")]).to_pylist()
    return {
        (row["group"], row["topic"]): Budget(
            period_seconds=length,
            known_seconds=min(length, row["known_sum"] * slot),
            late_seconds=min(length, row["late_sum"] * slot),
            allowed_seconds=length * (1 - OBJECTIVE),
            resolution_seconds=slot,
        )
        for row in found
        if row["known_sum"]
    }


def _latest(limits: Thresholds) -> float:
    """Seconds after which a message is late: a group that commits rarely may be late by as much more."""
    return limits.time_lag_objective_seconds + limits.commit_every_seconds

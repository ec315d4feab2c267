"""Other methods on the same cases: Burrow's and klag's documented rules, and two statistics that rank metrics, n-sigma and BARO.

The rules are re-stated from their documentation and code (LinkedIn Burrow, `caching.go`; themoah/klag, its `Diagnoser`), the statistics
from their definitions (RCAEval's `nsigma` and `baro`: the largest z-score of a metric after the fault began, by mean and standard
deviation, or by median and interquartile range). The statistics are told when the fault began, as in their papers, which triage is not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from evaluation.stories import END
from evaluation.stories.score import Mark, mark_of
from evaluation.tiers.cases import Case
from evaluation.tiers.score import Outcome
from workbench.triage.verdict_names import State

_INTERVALS = 15  # of Burrow's sample configuration
_HOT_SIGMAS, _HOT_PARTITIONS = 2.0, 3  # klag's defaults
_NOTABLE_LAG, _STUCK_SECONDS = 100.0, 300.0
_DEADBAND = 1.0
# A rank is a verdict by the signal that it is about; which one is the best that can be said for a signal.
_MEANS = {
    "throttle_time": "throttled",
    "broker_rtt": "slow_network",
    "process_time": "slow_processor",
    "group_members": "consumer_stopped",
    "poll_age": "consumer_stopped",
    "heartbeat_age": "consumer_stopped",
    "rebalances": "rebalance_storm",
    "queue_length": "saturated_processors",
    "enqueue_time": "saturated_processors",
    "fetch_queue_length": "too_few_consumers",
    "log_end_offset": "burst",
    "paused_partitions": "stuck_partition",
    "dead_letters": "failing_records",
    "processed": "failing_records",
    "delayed_length": "delay_backlog",
}
Line = tuple[np.ndarray, np.ndarray]
Series = Mapping[tuple[str, ...], Line]


def series(table: pa.Table, topic: str) -> dict[tuple[str, ...], Line]:
    """By (signal, stat, partition or member …): seconds before the look, and values."""
    names = ("signal", "stat", "topic", "partition", "member", "broker", "processor", "queue")
    columns = [table[name].to_pylist() for name in names]
    at = np.asarray(table["ts"].cast(pa.int64()).to_numpy(), dtype=float) / 1e6 - END.timestamp()
    values = table["value"].to_numpy(zero_copy_only=False)
    rows: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for number, key in enumerate(zip(*columns, strict=True)):
        if key[2] in (None, topic):
            rows[tuple("" if it is None else str(it) for it in key)].append(number)
    found = {}
    for key, chosen in rows.items():
        order = np.asarray(chosen)[np.argsort(at[chosen], kind="stable")]
        known = np.isfinite(values[order].astype(float))
        if known.any():
            found[key] = (at[order][known], values[order][known].astype(float))
    return found


def _by_partition(found: Series, signal: str) -> dict[int, Line]:
    return {int(key[3]): line for key, line in found.items() if key[0] == signal and key[3]}


def burrow(case: Case, found: Series) -> Outcome:
    """Its status of each partition, in the order of its code; the worst counts. It names no cause."""
    ends = _by_partition(found, "log_end_offset")
    statuses: dict[int, str] = {}
    for partition, (at, committed) in _by_partition(found, "committed_offset").items():
        at, committed = at[-_INTERVALS:], committed[-_INTERVALS:]
        if partition not in ends or len(at) < 2 or committed[-1] < 0:
            statuses[partition] = "OK"
            continue
        end = np.interp(at, *ends[partition])
        lag = np.maximum(end - committed, 0)
        moved = np.flatnonzero(np.diff(committed) != 0) + 1
        # Burrow sees commits; most clients commit an offset again if nothing new was read.
        last, first = at[-1], at[0]
        if lag[-1] <= 0:
            statuses[partition] = "OK"
        elif -last > last - first and not (ends[partition][1] <= committed[-1]).any():
            statuses[partition] = "STOP"
        elif (np.diff(committed) < 0).any() and committed[-1] < committed.max():
            statuses[partition] = "REWIND"
        elif (lag > 0).all() and not len(moved):
            statuses[partition] = "STALL"
        elif (lag > 0).all() and not (np.diff(lag) < 0).any():
            statuses[partition] = "WARN"
        else:
            statuses[partition] = "OK"
    bad = {partition: status for partition, status in statuses.items() if status != "OK"}
    if not bad:
        return _said(case, "Burrow's rules", "healthy", ())
    kinds = set(bad.values())
    if kinds == {"REWIND"}:
        return _said(case, "Burrow's rules", "offsets_reset", ("offsets_reset",))
    if "STALL" in kinds and len(bad) < len(statuses):
        return _said(case, "Burrow's rules", "cannot_tell", ("stuck_partition",))
    if "STALL" in kinds or "STOP" in kinds:
        return _said(case, "Burrow's rules", "cannot_tell", ("consumer_stopped", "stuck_partition"))
    return _said(case, "Burrow's rules", "cannot_tell", ("too_few_consumers",))


def klag(case: Case, found: Series) -> Outcome:
    """Its diagnoses by severity: data loss, a dead or empty group, stuck, hot partition, growing."""
    starts, ends = _by_partition(found, "log_start_offset"), _by_partition(found, "log_end_offset")
    commits = _by_partition(found, "committed_offset")
    lags, stuck, lost, velocity = {}, False, False, 0.0
    for partition, (at, committed) in commits.items():
        if partition not in ends:
            continue
        end = np.interp(at, *ends[partition])
        lag = end - committed
        lags[partition] = lag[-1]
        start = np.interp(at[-1], *starts[partition]) if partition in starts else 0.0
        lost |= bool(committed[-1] < start)
        moved = np.flatnonzero(np.diff(committed) != 0) + 1
        since = at[moved[-1]] if len(moved) else at[0]
        stuck |= bool(lag[-1] > 0 and -since >= _STUCK_SECONDS)
        recent = at > -300
        if recent.sum() > 1:
            velocity += float(np.polyfit(at[recent], lag[recent], 1)[0])
    total = sum(lags.values())
    members = [line for key, line in found.items() if key[0] == "group_members"]
    if lost:
        return _said(case, "klag's rules", "records_lost", ("records_lost",))
    if members and members[0][1][-1] == 0:
        return _said(case, "klag's rules", "consumer_stopped", ("consumer_stopped",))
    if stuck:
        return _said(case, "klag's rules", "stuck_partition", ("stuck_partition",))
    values = np.array(list(lags.values()))
    if (
        total >= _NOTABLE_LAG
        and len(values) >= _HOT_PARTITIONS
        and values.max() > values.mean() + _HOT_SIGMAS * values.std()
    ):
        return _said(case, "klag's rules", "hot_partition", ("hot_partition",))
    if velocity > _DEADBAND and total >= _NOTABLE_LAG:
        return _said(case, "klag's rules", "cannot_tell", ("too_few_consumers",))
    return _said(case, "klag's rules", "healthy", ())


def ranked(case: Case, found: Series, *, robust: bool) -> Outcome:
    """Metrics by how far they left their usual values; each stands for the verdict that its signal speaks for."""
    name = "BARO" if robust else "n-sigma"
    begin = -(case.truth.onset or 600.0)
    scores: dict[str, float] = {}
    for label, (at, values) in _metrics(found).items():
        before, after = values[at < begin], values[at >= begin]
        if len(before) < 3 or not len(after):
            continue
        if robust:
            low, middle, high = np.percentile(before, [25, 50, 75])
            spread = high - low
        else:
            middle, spread = before.mean(), before.std()
        spread = spread if spread > 0 else 1.0  # as scikit-learn's scalers do
        scores[label] = float(np.max((after - middle) / spread))
    order = sorted(scores, key=lambda it: -scores[it])
    verdicts: list[str] = []
    for label in order:
        verdict = _MEANS.get(label.partition("|")[0])
        if label.startswith("lag|"):
            verdict = "hot_partition"
        if verdict is not None and verdict not in verdicts:
            verdicts.append(verdict)
    # They rank; whether there is anything to rank is not theirs to say.
    return _said(case, name, verdicts[0] if verdicts else "cannot_tell", tuple(verdicts))


def _metrics(found: Series) -> dict[str, Line]:
    metrics: dict[str, Line] = {}
    for key, (at, values) in found.items():
        signal, stat = key[0], key[1]
        label = "|".join([signal, *[it for it in key[3:] if it]])
        if signal == "process_time" and stat == "sum":
            counts = found.get((signal, "count", *key[2:]))
            if counts is None or len(counts[1]) != len(values):
                continue
            more = np.diff(counts[1])
            metrics[label] = (at[1:], np.where(more > 0, np.diff(values) / np.maximum(more, 1), 0.0))
        elif signal == "process_time" or (signal == "enqueue_time" and stat == "sum"):
            continue
        elif signal in ("rebalances", "log_end_offset", "dead_letters", "processed", "enqueue_time"):
            if len(at) > 2:
                metrics[label] = (at[1:], np.diff(values) / np.maximum(np.diff(at), 1e-3))
        elif signal == "consumer_lag":
            metrics["lag|" + label] = (at, values)
        elif signal == "group_members":
            metrics[label] = (at, -values)  # fewer is worse, and the largest score counts
        elif signal in _MEANS:
            metrics[label] = (at, values)
    return metrics


def _said(case: Case, method: str, verdict: str, ranking: tuple[str, ...]) -> Outcome:
    state = State.HEALTHY if verdict == "healthy" else State.CANNOT_TELL if verdict == "cannot_tell" else State.LAGGING
    mark = mark_of(case.truth, verdict, state, None)
    if mark is Mark.RIGHT and verdict == "cannot_tell" and case.truth.sick:
        mark = Mark.UNKNOWN
    named = ranking if verdict == "cannot_tell" else (verdict, *(it for it in ranking if it != verdict))
    return Outcome(
        case=case, method=method, ranking=("cannot_tell", *named) if verdict == "cannot_tell" else named, mark=mark
    )


def all_of(case: Case) -> list[Outcome]:
    """All four."""
    found = series(case.samples, case.topic)
    return [
        burrow(case, found),
        klag(case, found),
        ranked(case, found, robust=False),
        ranked(case, found, robust=True),
    ]

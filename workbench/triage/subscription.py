"""Row that triage judges: all features of one subscription, its outliers, the answers and the verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workbench.features.measured import MeasuredSubscription, QueueFeatures
from workbench.triage.verdict import Answer, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowestProcessor:
    """Event type with the largest slow-down against its own baseline, of those that have one."""

    slow_down: float
    processor: str
    process_seconds: float
    baseline_seconds: float
    attempts: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionFeatures(MeasuredSubscription):
    """One answered subscription; `triage.rows` builds it from Spark's row and checks every column.

    The columns of `features.subscriptions` come first; those of `triage.anomalies` are declared here.

    Attributes:
        objective_seconds, commit_every_seconds: what is expected of the group.
        few_partitions: the largest number of partitions that counts as "a few".
        waited_seconds, waited_lowest_seconds: the lag divided by the arrival rate, from the lows of the window's last third.
        stuck_partitions, hot_partitions: their numbers; `stuck_count` and `hot_count` how many.
        lags: of the partitions where it is known, in messages; `typical_lag` and `highest_lag` of these.
        hung_members, paused_members, changed_members: those that do not poll, polled too late, or joined or left.
        storm_cause: poll_stall, member_crash, deploy or metadata_change; None if the data do not show it.
        median_slow_down: of all processors, as a multiple of the baseline; `peers_slow_down` of all but the slowest.
        answers: by the id of the question, on the path or off it.
    """

    objective_seconds: float
    commit_every_seconds: float
    few_partitions: int
    late: bool | None
    burst_over: bool | None
    waited_seconds: float | None
    waited_lowest_seconds: float | None
    abandoned: bool | None
    growing: bool | None
    draining: bool | None
    # Partitions.
    stuck_partitions: tuple[int, ...]
    moving_partitions: int
    silent_partitions: int
    new_partitions: int
    lags: tuple[float, ...]
    stuck_count: int
    stalled: bool
    typical_lag: float | None
    highest_lag: float | None
    hot_partitions: tuple[int, ...]
    hot_count: int
    # Members.
    hung_members: tuple[str, ...]
    paused_members: tuple[str, ...]
    changed_members: tuple[str, ...]
    most_restarts: int | None
    known_members: int | None
    storm_cause: str | None
    # Queues.
    queue_fill: float | None
    full_queues: tuple[QueueFeatures, ...]
    hot_queues: tuple[QueueFeatures, ...]
    full_queue_count: int | None
    hot_queue_count: int | None
    delay_full: bool | None
    queue_long: bool | None
    entry_slow: bool | None
    # Processors.
    slow_processors: tuple[str, ...]
    unknown_count: int
    known_count: int
    slowest: SlowestProcessor | None
    median_slow_down: float | None
    one_slow: bool | None
    slowest_seconds: float | None
    slowest_baseline_seconds: float | None
    slowest_slow_down: float | None
    peers_seconds: float | None
    peers_slow_down: float | None

    answers: Mapping[str, Answer]
    verdict: Verdict

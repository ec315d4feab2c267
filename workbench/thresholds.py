"""Thresholds of the tree that an operator can set: each with its unit, its default and the reason for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field, model_validator

from workbench.settings_base import Strict

_GONE = ("burst_over_ratio",)  # thresholds that recordings and settings of earlier versions have, and no rule


class Thresholds(Strict):
    """Thresholds of the tree. Relative ones (to the subscription's own baseline, to its peers) come before absolute ones."""

    @model_validator(mode="before")
    @classmethod
    def _without_those_of_before(cls, given: Any) -> Any:
        return {name: it for name, it in given.items() if name not in _GONE} if isinstance(given, Mapping) else given

    time_lag_objective_seconds: float = Field(
        default=120.0,
        gt=0,
        description="Older than this is late. 2 min: what people notice before an alert of 5 min fires.",
    )
    commit_every_seconds: float = Field(
        default=0.0,
        ge=0,
        description="Expected time between two commits: so much older than the objective is not late. 0: they are frequent.",
    )
    growth_ratio: float = Field(
        default=0.05,
        gt=0,
        description="Lag that grows by more than this share of the arrival rate is growing. 5 %: above the noise.",
    )
    growth_floor_ratio: float = Field(
        default=0.5,
        ge=0,
        description="Growth counts once the lows of the time lag exceed this share of the objective; below are commits and jitter.",
    )
    stale_after_seconds: float = Field(
        default=90.0, gt=0, description="A series whose last sample is older has ended. 90 s: three scrapes at 30 s."
    )
    poll_age_seconds: float = Field(
        default=60.0,
        gt=0,
        description="A consumer that has not polled for this long is not consuming. 1/5 of Kafka's 300 s.",
    )
    rebalances: int = Field(
        default=4,
        ge=1,
        description="Rebalances of one member in the window that make a storm; one restart makes up to 3 (leave, join, hand-over).",
    )
    deploy_restarts: int = Field(
        default=2,
        ge=1,
        description="A member that restarts more often than this in the window is crashing; a deploy restarts it once.",
    )
    few_partitions_ratio: float = Field(
        default=1 / 3, gt=0, le=1, description="More than this share of the partitions is no longer 'a few'."
    )
    queue_fill_ratio: float = Field(
        default=0.5, gt=0, le=1, description="A queue this full on average is backed up; a healthy one is near empty."
    )
    enqueue_seconds: float = Field(
        default=0.1,
        gt=0,
        description="Enqueueing takes microseconds; 0.1 s on average means that it waited for room.",
    )
    enqueue_ratio: float = Field(default=5.0, gt=1, description="... and this many times the baseline.")
    delay_fill_ratio: float = Field(
        default=0.5,
        gt=0,
        le=1,
        description="A blocking delay queue is this full on average: the consumer pauses when it is full, until it is half empty ...",
    )
    delay_high_ratio: float = Field(default=0.95, gt=0, le=1, description="... and it was this full at some moment.")
    slow_ratio: float = Field(
        default=3.0, gt=1, description="One processor is slow at this many times its own baseline ..."
    )
    slow_peers_ratio: float = Field(
        default=2.0,
        gt=1,
        description="... and at this many times the median slow-down of its peers; a member, at this many times their process times.",
    )
    all_slow_ratio: float = Field(
        default=1.5, gt=1, description="All are slow when the median processor takes this many times its baseline."
    )
    idle_queue_ratio: float = Field(
        default=0.2,
        gt=0,
        lt=1,
        description="A queue less full than this counts as idle next to a full one: the keys are uneven.",
    )
    throttle_seconds: float = Field(
        default=0.01, gt=0, description="Mean throttle time; without a quota it is exactly 0."
    )
    rtt_seconds: float = Field(
        default=0.2, gt=0, description="A round trip below this is fast, whatever the baseline (long polls last 0.1 s)."
    )
    rtt_ratio: float = Field(default=3.0, gt=1, description="Round trips this many times their baseline are slow.")
    fetch_queue_messages: float = Field(
        default=50.0,
        ge=0,
        description="If more fetched messages than this wait in the client, the network delivers enough.",
    )
    hot_factor: float = Field(
        default=3.0,
        gt=1,
        description="A hot partition lags more than this times min(mean, median) of all (Bilibili's rule).",
    )
    burst_ratio: float = Field(
        default=2.0, gt=1, description="Arrivals at this many times their baseline are a burst, not a want of capacity."
    )
    failing_ratio: float = Field(
        default=0.02,
        gt=0,
        le=1,
        description="More than this share of the attempts fail, and three times as many as in the baseline: records fail.",
    )
    silent_seconds: float = Field(
        default=300.0,
        gt=0,
        description="Nothing arrives for this long, and three times as long as ever before: the producer is silent.",
    )
    skip_pace_ratio: float = Field(
        default=20.0,
        gt=1,
        description="A commit that passes what waits at this many times the usual pace may have skipped records, not read them.",
    )
    hot_floor_messages: float = Field(default=100.0, ge=0, description="... and more than this many messages.")

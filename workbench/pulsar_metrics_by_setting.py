"""Metrics of Pulsar's brokers that a setting turns on: what a finding lacks without one, and what `workbench doctor` looks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class MetricSetting:
    """A setting of `broker.conf`.

    Attributes:
        is_default: whether brokers have it on without being told, as of 4.0.
        lacks: what there is not while it is off.
    """

    name: str
    is_default: bool
    lacks: str

    @property
    def turned_on(self) -> str:
        """As it is to be written, with the reason why one has to."""
        return f"{self.name}=true" + ("" if self.is_default else ", which is off by default")


TOPICS: Final = MetricSetting(
    "exposeTopicLevelMetricsInPrometheus",
    True,
    "the alerts of runbooks/rules/pulsar.yml have no series, and misses of the cache cannot be told",
)
CONSUMERS: Final = MetricSetting(
    "exposeConsumerLevelMetricsInPrometheus", False, "the alert on consumers without permits has no series"
)
CURSORS: Final = MetricSetting(
    "exposeManagedCursorMetricsInPrometheus", False, "how much of the writes acknowledgements are cannot be told"
)
BOOKIE_CLIENT: Final = MetricSetting(
    "bookkeeperClientExposeStatsToPrometheus",
    False,
    "how long writes to bookies take, and which bookies are in quarantine, cannot be told",
)
METRIC_SETTINGS: Final = (TOPICS, CONSUMERS, CURSORS, BOOKIE_CLIENT)

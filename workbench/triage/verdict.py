"""The names of verdicts, states and answers; what belongs to a verdict stands in its module in `triage/verdicts`."""

from __future__ import annotations

from enum import StrEnum


class Verdict(StrEnum):
    """Why a subscription lags, or that it does not."""

    HEALTHY = "healthy"
    PRODUCER_BURST = "producer_burst"
    NO_DATA = "no_data"
    UNUSABLE_DATA = "unusable_data"
    CONSUMER_STOPPED = "consumer_stopped"
    REBALANCE_STORM = "rebalance_storm"
    STUCK_PARTITION = "stuck_partition"
    DELAY_BACKLOG = "delay_backlog"
    SLOW_PROCESSOR = "slow_processor"
    HOT_KEY = "hot_key"
    SLOW_DOWNSTREAM = "slow_downstream"
    SATURATED_PROCESSORS = "saturated_processors"
    THROTTLED = "throttled"
    SLOW_NETWORK = "slow_network"
    HOT_PARTITION = "hot_partition"
    TOO_FEW_CONSUMERS = "too_few_consumers"
    PARTITION_CEILING = "partition_ceiling"
    CANNOT_TELL = "cannot_tell"


class State(StrEnum):
    """How the subscription is doing, whatever the reason."""

    LAGGING = "lagging"
    DRAINING = "draining"
    HEALTHY = "healthy"
    CANNOT_TELL = "cannot_tell"


class Answer(StrEnum):
    """The answer to one question; three-valued, as in SQL."""

    YES = "yes"
    NO = "no"
    CANNOT_TELL = "cannot_tell"

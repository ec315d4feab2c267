"""Names of verdicts, states and answers; everything else about a verdict is in `triage/causes` or `triage/status`."""

from __future__ import annotations

import math
from enum import StrEnum


class Verdict(StrEnum):
    """Why a subscription lags, or that it does not."""

    HEALTHY = "healthy"
    RECOVERED = "recovered"
    PRODUCER_SILENT = "producer_silent"
    PRODUCER_BURST = "producer_burst"
    NO_DATA = "no_data"
    UNUSABLE_DATA = "unusable_data"
    RECORDS_LOST = "records_lost"
    OFFSETS_RESET = "offsets_reset"
    FAILING_RECORDS = "failing_records"
    BATCH_MISSED = "batch_missed"
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
    BURST = "burst"
    COLD_READ = "cold_read"
    TOO_FEW_CONSUMERS = "too_few_consumers"
    PARTITION_CEILING = "partition_ceiling"
    CANNOT_TELL = "cannot_tell"


class State(StrEnum):
    """State of the subscription, whatever the cause."""

    LAGGING = "lagging"
    DRAINING = "draining"
    HEALTHY = "healthy"
    CANNOT_TELL = "cannot_tell"


class Answer(StrEnum):
    """The answer to one question; three-valued, as in SQL."""

    YES = "yes"
    NO = "no"
    CANNOT_TELL = "cannot_tell"


class DispatchVerdict(StrEnum):
    """Why a subscription lags whose brokers send entries; `Verdict` has what is said of both: healthy, unusable data, cannot tell."""

    DELAYED_MESSAGES = "delayed_messages"
    CATCHING_UP = "catching_up"
    EXPIRING = "expiring"
    DEAD_SUBSCRIPTION = "dead_subscription"
    BLOCKED_ON_UNACKED = "blocked_on_unacked"
    KEY_SHARED_BLOCKED = "key_shared_blocked"
    ACK_HOLE = "ack_hole"
    DISPATCH_THROTTLED = "dispatch_throttled"
    REDELIVERING = "redelivering"
    REDELIVERY_CACHE_MISS = "redelivery_cache_miss"
    BAD_LOAD_REPORT = "bad_load_report"
    UNLOAD_STORM = "unload_storm"
    ACK_WRITE_AMPLIFICATION = "ack_write_amplification"
    BOOKIE_QUARANTINE = "bookie_quarantine"
    DISPATCHER_STUCK = "dispatcher_stuck"
    NO_PERMITS = "no_permits"


AnyVerdict = Verdict | DispatchVerdict


def waits(seconds: float | None, messages: float | None) -> float:
    """How long the oldest message waits, in a list with the worst first: longest of all where it waits and nobody knows since when."""
    if seconds is not None:
        return seconds
    return math.inf if messages else 0.0

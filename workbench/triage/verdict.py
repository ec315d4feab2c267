"""Verdicts: the leaves of the tree."""

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


STATE_OF: dict[Verdict, State] = {
    Verdict.HEALTHY: State.HEALTHY,
    Verdict.PRODUCER_BURST: State.DRAINING,
    Verdict.NO_DATA: State.CANNOT_TELL,
    Verdict.UNUSABLE_DATA: State.CANNOT_TELL,
    Verdict.CANNOT_TELL: State.CANNOT_TELL,
}


def state_of(verdict: Verdict) -> State:
    """The state that goes with a verdict; every cause is a cause of lagging."""
    return STATE_OF.get(verdict, State.LAGGING)


def runbook_of(verdict: Verdict) -> str | None:
    """The runbook's file by the verdict's name, `slow_processor` → `runbooks/SlowProcessor.md`; health needs none."""
    return None if verdict is Verdict.HEALTHY else f"runbooks/{verdict.value.title().replace('_', '')}.md"

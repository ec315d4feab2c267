"""Candidates of a "cannot tell", the likeliest first: by what of the shortfall each could explain, as far as the offsets show it."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.judgement_numbers import LESS, MORE, NOISE
from workbench.triage.second_faults import proven
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.verdict_names import Verdict

_V = Verdict
# Where no fact speaks for or against them: how often each is the reason.
_USUAL = (
    _V.SLOW_DOWNSTREAM, _V.SLOW_PROCESSOR, _V.TOO_FEW_CONSUMERS, _V.THROTTLED, _V.SLOW_NETWORK, _V.BURST, _V.SATURATED_PROCESSORS,
    _V.PARTITION_CEILING, _V.HOT_PARTITION, _V.STUCK_PARTITION, _V.CONSUMER_STOPPED, _V.REBALANCE_STORM, _V.HOT_KEY, _V.DELAY_BACKLOG,
)  # fmt: skip


def likeliest_first(candidates: Sequence[Verdict], row: SubscriptionFeatures) -> list[Verdict]:
    """The candidates in another order, without what cannot be: no run is missed where the settings name no batch."""
    no_batch = row.batch_due_seconds is None and row.batch_every_seconds is None
    candidates = [it for it in candidates if not (it is _V.BATCH_MISSED and no_batch)]
    # A client that waits, and that the broker does throttle: the mean over its last fetches hides by how much.
    quota = (_V.THROTTLED,) if (row.throttle_seconds or 0) > 0 and row.own_work is False else ()
    # Who sees its members replaced sees why nothing was read meanwhile.
    rollout = (_V.REBALANCE_STORM,) if row.rollout else ()
    first = [it for it in (*quota, *rollout, *_speaking(row)) if it in candidates]
    order = {verdict: place for place, verdict in enumerate(dict.fromkeys([*first, *_USUAL]))}
    ranked = sorted(candidates, key=lambda it: order.get(it, len(order)))
    # A second fault that is measured comes before guesses at the first one, also if the path does not ask about it.
    return list(dict.fromkeys([*ranked[:1], *proven(row), *ranked[1:]]))


def _speaking(row: SubscriptionFeatures) -> tuple[Verdict, ...]:
    """What the offsets speak for."""
    still, moving = row.frozen_count or len(row.standing_partitions), row.moving_partitions
    lagging = max(len(row.behind_partitions), row.frozen_count)
    if not moving and (still or row.committed_moved == 0):
        # All stand still, or nearly so, perhaps for as long as the data show: nobody reads, or nobody can commit.
        return _V.CONSUMER_STOPPED, _V.STUCK_PARTITION, _V.REBALANCE_STORM
    if still and 2 * still >= lagging:
        return _V.STUCK_PARTITION, _V.CONSUMER_STOPPED, _V.REBALANCE_STORM
    if row.comes_and_goes:
        return _V.REBALANCE_STORM, _V.CONSUMER_STOPPED, _V.STUCK_PARTITION
    few = 0 < len(row.behind_partitions) <= row.few_partitions < row.partition_count
    if few or 0 < row.hot_count <= row.few_partitions:
        # Where clearly no more arrives than elsewhere, it is who reads there, or what the records are.
        even = row.hot_arrival_ratio is not None and row.hot_arrival_ratio < MORE
        return _V.SLOW_DOWNSTREAM if even else _V.HOT_PARTITION, _V.STUCK_PARTITION, _V.HOT_KEY
    if row.pace_ratio is None:
        return ()
    if row.pace_ratio >= (1 - NOISE):
        fewer = row.group_members is None or row.group_members < row.partition_count
        room = (_V.TOO_FEW_CONSUMERS, _V.PARTITION_CEILING) if fewer else (_V.PARTITION_CEILING, _V.TOO_FEW_CONSUMERS)
        # It reads as ever: more has come, or what waits is from before. Where no more arrives, nothing speaks for a burst.
        burst = (_V.BURST,) if row.arrival_ratio is None or row.arrival_ratio > 1 + NOISE else ()
        return (*burst, room[0], _V.SATURATED_PROCESSORS, room[1])
    return (_V.SLOW_DOWNSTREAM, _V.SLOW_PROCESSOR, _V.THROTTLED, _V.SLOW_NETWORK) if row.pace_ratio < LESS else ()

"""How much of what is not read each cause explains: arrivals minus consumption, and what would be read without one of them.

A group that kept up could read what arrives. A cause that takes a share of its capacity (handlers with twice their usual time: a
half) costs as much of the arrivals. Each part is an estimate of its own, from the numbers of the window and the baseline. Causes
overlap (a burst that handlers as fast as ever cannot take, handlers that are slower than ever), so the parts need not add up: none is
more than the whole.
"""

from __future__ import annotations

from collections.abc import Iterator

from workbench.judgement_numbers import NOISE
from workbench.triage.finding import Part, Shortfall
from workbench.triage.subscription import SubscriptionFeatures as Row
from workbench.triage.verdict_leaves import leaf_of
from workbench.triage.verdict_names import State, Verdict

_V = Verdict
# The order of parts of the same size.
_ORDER = (
    _V.STUCK_PARTITION, _V.CONSUMER_STOPPED, _V.SLOW_PROCESSOR, _V.SLOW_DOWNSTREAM, _V.THROTTLED, _V.SLOW_NETWORK, _V.REBALANCE_STORM,
    _V.HOT_PARTITION, _V.BURST,
)  # fmt: skip


def shortfall_of(row: Row, state: State) -> Shortfall | None:
    """The shortfall of a group that lags; None if its lag does not grow, or nothing measured explains a part of it."""
    arriving, missing = row.arrival_per_second, row.lag_slope
    if state not in (State.LAGGING, State.CANNOT_TELL) or not arriving or missing is None:
        return None
    if missing <= 0 or missing < NOISE * arriving:
        return None
    found = [
        Part(cause=str(cause), words=words, per_second=min(amount, missing), share=min(1.0, amount / missing))
        for cause, words, amount in _amounts(row, arriving)
        if amount >= NOISE * missing
    ]
    if not found:
        return None
    found.sort(key=lambda it: -it.per_second)
    return Shortfall(arriving_per_second=arriving, missing_per_second=missing, parts=tuple(found))


def _amounts(row: Row, arriving: float) -> Iterator[tuple[Verdict, str, float]]:
    """What each cause explains: the cause, what is measured, and messages/s."""
    shares = [(cause, *share) for cause in _ORDER for share in leaf_of(cause).share(row, arriving)]
    own = [amount for cause, _, amount in shares if cause in (_V.SLOW_PROCESSOR, _V.SLOW_DOWNSTREAM)]
    # Where its own work is the limit, what reaches it late costs no more than that.
    most = max(own) if own and row.own_work else arriving
    for cause, words, amount in shares:
        yield cause, words, min(amount, most) if cause in (_V.THROTTLED, _V.SLOW_NETWORK) else amount

"""How much of what is not read each cause explains: arrivals minus consumption, and what would be read without one of them.

A group that kept up could read what arrives. A cause that takes a share of its capacity (handlers with twice their usual time: a
half) costs as much of the arrivals. Each part is an estimate of its own, from the numbers of the window and the baseline. Causes
overlap (a burst that handlers as fast as ever cannot take, handlers that are slower than ever), so the parts need not add up: none is
more than the whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from workbench.features.measured import PartitionFeatures, ProcessorFeatures
from workbench.humanize import count, listed, percent, plural, rate, times
from workbench.numbers import FETCH_SECONDS, MORE, NOISE
from workbench.signals import GROUP_STATES
from workbench.triage.pace import held_by_own_work, lost_pace, slow_network
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.verdict import Answer, State, Verdict

_STABLE, _PREPARING = GROUP_STATES["stable"], GROUP_STATES["preparing_rebalance"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What one cause explains.

    Attributes:
        cause: the verdict that it would be alone; of a consumer whose own work takes longer, without process times, the likeliest one.
        words: what is measured.
        per_second: messages/s that would be read, too, without it; at most the whole shortfall.
        share: of the whole shortfall, 0 to 1.
    """

    cause: str
    words: str
    per_second: float
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortfall:
    """By how much the lag grows, and why.

    Attributes:
        arriving_per_second, missing_per_second: messages/s that arrive, and that of these are not read.
        parts: the largest first.
    """

    arriving_per_second: float
    missing_per_second: float
    parts: tuple[Part, ...]

    @property
    def words(self) -> str:
        """The whole, in a sentence."""
        return f"Of {rate(self.arriving_per_second)} arriving, {rate(self.missing_per_second)} are not read"


def shortfall_of(row: SubscriptionFeatures, state: State) -> Shortfall | None:
    """The shortfall of a group that lags; None if its lag does not grow, or nothing measured explains a part of it."""
    arriving, missing = row.arrival_per_second, row.lag_slope
    if state not in (State.LAGGING, State.CANNOT_TELL) or not arriving or missing is None:
        return None
    if missing < NOISE * arriving:
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


_Amount = tuple[Verdict, str, float]


def _amounts(row: SubscriptionFeatures, arriving: float) -> Iterator[_Amount]:
    yield from _standing(row)
    yield from _gone(row, arriving)
    own = [*_handlers(row, arriving), *_own_work(row)]
    yield from own
    # Where its own work is the limit, what reaches it late costs no more than that.
    most = max(amount for _, _, amount in own) if own and row.own_work else arriving
    for cause, words, amount in (*_throttled(row, arriving), *_network(row, arriving)):
        yield cause, words, min(amount, most)
    yield from _rebalancing(row, arriving)
    yield from _hot(row)
    yield from _more(row, arriving)


def _of(row: SubscriptionFeatures, numbers: Iterable[int]) -> list[PartitionFeatures]:
    wanted = set(numbers)
    return [it for it in row.partitions if it.partition in wanted]


def _standing(row: SubscriptionFeatures) -> Iterator[_Amount]:
    still = sorted({*row.frozen_partitions, *row.stuck_partitions})
    if not still or row.at_quota:  # under a quota, partitions wait for their turn
        return
    amount = sum(it.arrival_per_second or 0.0 for it in _of(row, still))
    if len(still) == len(row.partitions):
        yield Verdict.CONSUMER_STOPPED, "no partition is read", amount
    else:
        yield Verdict.STUCK_PARTITION, f"{plural(len(still), 'partition')} ({listed(still)}) not read", amount


def _gone(row: SubscriptionFeatures, arriving: float) -> Iterator[_Amount]:
    usual, now = row.usual_members, row.group_members_recent
    if usual and now and usual - now >= 1:
        words = f"{plural(round(now), 'member')} instead of {count(usual)}"
        yield Verdict.CONSUMER_STOPPED, words, arriving * (1 - now / usual)


def _handlers(row: SubscriptionFeatures, arriving: float) -> Iterator[_Amount]:
    if row.answers.get("queue_backed_up") is Answer.NO or (not row.has_queues and row.own_work is False):
        return  # they wait for records
    timed = [it for it in row.processors if it.process_seconds and it.baseline_seconds and it.rate_per_second]
    now, usual = _work(timed), _work(timed, usual=True)
    if not usual or now < MORE * usual:
        return
    slow = [it for it in timed if it.processor in row.slow_processors]
    if slow and len(slow) < len(timed):
        names, which = listed([it.processor for it in slow]), slow
        words = f"{names} takes {times(_work(which) / _work(which, usual=True))} its usual time"
        yield Verdict.SLOW_PROCESSOR, words, arriving * (1 - usual / now)
    else:
        cause = Verdict.SLOW_PROCESSOR if len(timed) == 1 else Verdict.SLOW_DOWNSTREAM
        yield cause, f"handlers take {times(now / usual)} their usual time", arriving * (1 - usual / now)


def _own_work(row: SubscriptionFeatures) -> Iterator[_Amount]:
    late = held_by_own_work(row)
    if (pace := lost_pace(row, late)) is not None:
        words = f"its own work reads {times(pace)} as much as before, and fetched messages wait"
        yield Verdict.SLOW_DOWNSTREAM, words, sum(max(0.0, it.lag_slope or 0.0) for it in late)


def _work(processors: Iterable[ProcessorFeatures], *, usual: bool = False) -> float:
    """Seconds of work per second, with the process times of now or of the baseline."""
    return sum(
        (it.rate_per_second or 0.0) * ((it.baseline_seconds if usual else it.process_seconds) or 0.0)
        for it in processors
    )


def _throttled(row: SubscriptionFeatures, arriving: float) -> Iterator[_Amount]:
    if row.at_quota and row.read_quota_per_second is not None and row.throttle_seconds is None:
        limit = row.read_quota_per_second
        yield Verdict.THROTTLED, f"a quota of about {rate(limit)}", arriving - limit
    elif row.answers.get("throttled") is Answer.YES and row.throttle_seconds:
        fetch = row.rtt_baseline_seconds or FETCH_SECONDS
        held = min((1 - NOISE), row.throttle_seconds / (row.throttle_seconds + fetch))
        yield (
            Verdict.THROTTLED,
            f"the broker holds fetches back for {percent(held)} of the time",
            arriving * held,
        )


def _network(row: SubscriptionFeatures, arriving: float) -> Iterator[_Amount]:
    now, usual = row.rtt_seconds, row.rtt_baseline_seconds
    if slow_network(row) and now and usual:
        yield (
            Verdict.SLOW_NETWORK,
            f"round trips take {times(now / usual)} their usual time",
            arriving * (1 - usual / now),
        )


def _rebalancing(row: SubscriptionFeatures, arriving: float) -> Iterator[_Amount]:
    if row.answers.get("rebalancing") is Answer.YES and row.group_state_mean is not None:
        share = min(1.0, max(0.0, (_STABLE - row.group_state_mean) / (_STABLE - _PREPARING)))
        yield Verdict.REBALANCE_STORM, f"in rebalances for about {percent(share)} of the time", arriving * share


def _hot(row: SubscriptionFeatures) -> Iterator[_Amount]:
    if row.hot_partitions and row.answers.get("hot_partition") is Answer.YES:
        hot = _of(row, row.hot_partitions)
        words = f"{plural(len(hot), 'partition')} ({listed(row.hot_partitions)}) with more than a member reads"
        yield Verdict.HOT_PARTITION, words, sum(max(0.0, it.lag_slope or 0.0) for it in hot)


def _more(row: SubscriptionFeatures, arriving: float) -> Iterator[_Amount]:
    usual = row.arrival_baseline_per_second
    if usual and arriving >= MORE * usual:
        yield Verdict.BURST, f"{times(arriving / usual)} the usual arrivals", arriving - usual

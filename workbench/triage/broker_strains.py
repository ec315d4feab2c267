"""What a broker's own signals show now that they did not show before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from workbench.features.broker_features import FloatArray, Neighbourhood
from workbench.judgement_numbers import ANSWER_SECONDS, FAR, PART, TENTH
from workbench.triage.finding import Evidence
from workbench.triage.who_holds_up_whom import Strain

_PARTS = ("request_queue_time", "request_local_time", "response_send_time")
_IDLE = ("request_handler_idle", "network_idle", "remote_reader_idle")
_COUNTS = ("under_replicated", "under_min_isr", "offline", "isr_shrinks")
# All that shows whether reading is too much for a broker.
WATCHED = frozenset({*_PARTS, "request_handler_idle", "network_idle"})


def is_calm(all_of: Neighbourhood, broker: int, begin: int, end: int, *, peers: Sequence[int] = ()) -> bool:
    """Whether a broker tells all that would show a strain in a span of the grid and what is usual before it, and shows none.

    What it shows is compared with the calmest of its peers, too: one that was strained before, such as by an earlier incident, cannot
    show that it became so, because percentiles of brokers decay over minutes.
    """
    told = list(_before_and_now(all_of, broker, begin, end, peers))
    limits = (
        (now, max(FAR * min(theirs, default=0.0), ANSWER_SECONDS)) for (it, _), _, now, theirs in told if it in _PARTS
    )
    return {signal for (signal, _), *_ in told} >= WATCHED and all(now < limit for now, limit in limits)


def strains_of(
    all_of: Neighbourhood, broker: int, begin: int, end: int, *, peers: Sequence[int] = ()
) -> Iterator[Strain]:
    """Signals of a broker that are worse in a span of the grid than before it, and than on its peers meanwhile.

    A signal without a value in one of the two parts says nothing.
    """
    for (signal, kind), before, now, theirs in _before_and_now(all_of, broker, begin, end, peers):
        median = float(np.median(theirs)) if theirs else None
        if (found := _compared(signal, kind, before, now, median)) is not None:
            yield Strain(broker=broker, kind="" if kind == "value" else kind, evidence=found)


def _before_and_now(
    all_of: Neighbourhood, broker: int, begin: int, end: int, peers: Sequence[int]
) -> Iterator[tuple[tuple[str, str], float, float, list[float]]]:
    """Each signal that a broker tells before a span of the grid and in it, both means, and those of its peers meanwhile."""
    for key, line in sorted(all_of.servers.get(broker, {}).items()):
        before, now = mean_of(line[:begin]), mean_of(line[begin:end])
        if before is not None and now is not None:
            lines = (it for peer in peers if (it := all_of.servers.get(peer, {}).get(key)) is not None)
            yield key, before, now, [value for it in lines if (value := mean_of(it[begin:end])) is not None]


def _compared(signal: str, kind: str, before: float, now: float, peers: float | None) -> Evidence | None:
    """The rule of one signal, if it holds."""
    # The whole time of a fetch includes its waiting for records.
    if signal in _PARTS or (signal, kind) == ("request_time", "Produce"):
        limit = max(FAR * before, FAR * (peers or 0.0), ANSWER_SECONDS)
        holds, unit, rule = now >= limit, "s", f"{FAR:g} × before and its peers, and {ANSWER_SECONDS:g} s"
    elif signal in _IDLE:
        limit = float(PART)
        holds, unit, rule = now < limit and before - now >= TENTH, "of the time", "a tenth less than before, too"
    elif signal in _COUNTS:
        limit, holds, rule = before, now > before, "before"
        unit = "per second" if signal == "isr_shrinks" else "partitions"
    else:
        return None
    found = Evidence(signal=signal, value=now, unit=unit, threshold=limit, baseline=before, peers=peers, rule=rule)
    return found if holds else None


def mean_of(line: FloatArray) -> float | None:
    """Mean of what is known of a line; None if nothing is."""
    return float(np.nanmean(line)) if (~np.isnan(line)).any() else None

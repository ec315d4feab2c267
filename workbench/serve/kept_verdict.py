"""What a triage says about one subscription, reduced to what is kept and sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from workbench.humanize import plural, printable
from workbench.serve.broker_causes import SharedCause
from workbench.serve.server_database import fit_text
from workbench.triage.verdict_names import State, Verdict, waits

# Worst first, as `triage.triage_engine.ORDER`.
_WORST_FIRST = (State.LAGGING, State.CANNOT_TELL, State.DRAINING, State.HEALTHY)
_ORDER = {str(state): number for number, state in enumerate(_WORST_FIRST)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One subscription's verdict.

    Attributes:
        cause: subscriptions of a cluster with the same cause belong to one incident.
        time_lag_seconds: age of the oldest message that is not committed. time_lag_words: as screens say it; None: by the seconds.
        lag_messages: behind the log's end.
        actions: what to do, a sentence each. picture: the finding as escaped HTML. trend: its lag as a line of text.
        detail: see `serve.group_detail`. origin: of a cause on brokers that stands for the groups that it hits; else None.
    """

    group: str
    topic: str
    verdict: str
    state: str
    headline: str
    cause: str
    time_lag_seconds: float | None = None
    time_lag_words: str | None = None
    lag_messages: int | None = None
    actions: tuple[str, ...] = ()
    runbook: str | None = None
    owner: str | None = None
    muted: str | None = None
    picture: str | None = None
    trend: str | None = None
    detail: bytes | None = None
    origin: SharedCause | None = None


def worse(judged: Judged) -> tuple[int, float]:
    """Sort key: worst first."""
    return _ORDER.get(judged.state, 1), -waits(judged.time_lag_seconds, judged.lag_messages)


def fitted(judged: Judged) -> Judged:
    """With texts as the database holds them, so that what is read from it is found among what a triage says."""
    group, topic = fit_text(judged.group), fit_text(judged.topic)
    return judged if (group, topic) == (judged.group, judged.topic) else replace(judged, group=group, topic=topic)


def unknown(group: str, topic: str, reason: str, *, cause: str) -> Judged:
    """A subscription without a verdict, and why."""
    return Judged(
        group=group,
        topic=topic,
        verdict=str(Verdict.CANNOT_TELL),
        state=str(State.CANNOT_TELL),
        headline=f"No verdict: {reason}",
        cause=cause,
    )


def attributed(judged: Sequence[Judged], origins: Sequence[SharedCause]) -> list[Judged]:
    """The verdicts with the origins among them: whoever an origin hits shares its cause, and says the rest by itself."""
    found = list(judged)
    for origin in origins:
        mine = [
            place
            for place, it in enumerate(found)
            if it.origin is None and it.state != State.HEALTHY and it.cause not in {one.key for one in origins}
            if it.group in origin.concerned
        ]  # fmt: skip
        for place in mine:
            found[place] = replace(found[place], cause=origin.key)
        found.append(_member(origin, [found[place] for place in mine]))
    return found


def _age(judged: Judged) -> float:
    return judged.time_lag_seconds or 0.0


def _member(origin: SharedCause, hit: Sequence[Judged]) -> Judged:
    muted = next((it.muted for it in hit), None) if all(it.muted for it in hit) else None
    oldest = max((it for it in hit if it.time_lag_seconds is not None), key=_age, default=None)
    return Judged(
        group="",
        topic=origin.key,
        verdict=origin.verdict,
        state=str(State.LAGGING),
        headline=origin.headline,
        cause=origin.key,
        time_lag_seconds=None if oldest is None else oldest.time_lag_seconds,
        time_lag_words=None if oldest is None else oldest.time_lag_words,
        actions=tuple(title for title, _, _ in origin.actions[:3]),
        runbook=origin.runbook,
        muted=muted,
        origin=origin,
    )


def over(origin: SharedCause) -> Judged:
    """An origin that is no longer found."""
    headline = f"Over: {printable(origin.name)}; held up {plural(origin.number, 'group')}."
    return replace(_member(origin, ()), state=str(State.HEALTHY), headline=headline)


def no_longer_found(key: str) -> Judged:
    """What a later look says of an origin that is over."""
    healthy = str(State.HEALTHY)
    return Judged(group="", topic=key, verdict=healthy, state=healthy, headline="No longer found.", cause=key)

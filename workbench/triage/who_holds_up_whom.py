"""What `neighbours.blame` finds: who holds whom up on which brokers, with what was compared, and a cap that would end it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from workbench.humanize import clock, duration, listed, numbered, percent, plural, printable, quantity, shell_word, size
from workbench.json_values import fields_of
from workbench.judgement_numbers import SEVERAL
from workbench.queues.tool_words import Tools
from workbench.triage.finding import Action, Evidence
from workbench.triage.verdict_names import Answer

CORRELATION = "A correlation in time and place: it does not prove that one is the cause of the other."
_KINDS = {"group": "group", "client": "client", "writer": "producer"}


def named(kind: str, name: str) -> str:
    """`group "backfill"`."""
    return f'{_KINDS[kind]} "{printable(name)}"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Strain:
    """A broker's own signal that is worse than before: its kind ("Produce"; "" without one) and what was compared."""

    broker: int
    kind: str
    evidence: Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Mover:
    """Somebody that brokers give bytes to, or take them from.

    Attributes:
        kind: a group, a client id of no known group, or a client id that writes.
        clients: its client ids, as far as they are known.
        shared_clients: those of them that several groups have: a cap would hit the others, too.
        brokers: those on which it moves more than before.
        since, until: when it did, in seconds since the epoch; `until` is None if it still does.
        bytes_per_second_before, bytes_per_second: on these brokers together, before that and during it.
        share_of_rise: its part of all that is moved more there, 0 to 1.
        measured_by: the signal that tells its bytes.
        behind_seconds: age of what it reads; None if nobody measures it.
        unread_bytes: what it still has to read; None if not known.
    """

    kind: Literal["group", "client", "writer"]
    name: str
    clients: tuple[str, ...]
    brokers: tuple[int, ...]
    since: float
    until: float | None
    bytes_per_second_before: float
    bytes_per_second: float
    share_of_rise: float
    measured_by: str
    shared_clients: tuple[str, ...] = ()
    behind_seconds: float | None = None
    unread_bytes: float | None = None

    @property
    def words(self) -> str:
        """`group "backfill"`."""
        return named(self.kind, self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """A group that is held up.

    Attributes:
        brokers: where.
        since: when it began to wait, in seconds since the epoch.
        behind_seconds_before, behind_seconds: what waits there, in seconds of what arrives there.
        lag_growth_of_arrivals: of its lag there, as a share of what arrives; below 0 if it catches up.
        lag_growth_elsewhere: the same on brokers that do not serve the offender; None if it reads from no such broker.
    """

    group: str
    brokers: tuple[int, ...]
    since: float
    behind_seconds_before: float
    behind_seconds: float
    lag_growth_of_arrivals: float
    lag_growth_elsewhere: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BlamedCause:
    """One offender and its victims: a correlation of reads, waiting and the brokers' own signals in time and place.

    Attributes:
        groups_served: those that read from its brokers, besides itself.
        groups_elsewhere, held_up_elsewhere: those that read from other brokers that nobody is blamed for, and how many of them are
            held up.
        cap_bytes_per_second: for each of its client ids on each broker, leaves the others what they need; None if not known.
        done_seconds_at_cap: how long it then takes to reach the end of its logs.
    """

    offender: Mover
    victims: tuple[Victim, ...]
    strains: tuple[Strain, ...]
    groups_served: int
    groups_elsewhere: int
    held_up_elsewhere: int
    cap_bytes_per_second: float | None
    done_seconds_at_cap: float | None

    @property
    def headline(self) -> str:
        """In one sentence."""
        it = self.offender
        verb, way = ("writes", "to") if it.kind == "writer" else ("reads", "from")
        return (
            f"{it.words[:1].upper()}{it.words[1:]} {verb} {rate_of(it.bytes_per_second)} {way} {numbered('broker', it.brokers)}"
            f" (before: {size(it.bytes_per_second_before)}/s), and {plural(len(self.victims), 'group')} there"
            f" {'is' if len(self.victims) == 1 else 'are'} held up."
        )

    @property
    def comparison(self) -> str:
        """What speaks for it being the offender and not only busy."""
        of = f"{len(self.victims)} of {plural(self.groups_served, 'group')} that share its brokers fell behind after it began"
        if not self.groups_elsewhere:
            return f"{of}; it moves data on every broker, so there is none to compare with: only before and after."
        return f"{of}; of {self.groups_elsewhere} on other brokers {self.held_up_elsewhere} did."

    @property
    def facts(self) -> list[str]:
        """What speaks for it, a line each: since when, its share of the rise, whom it slows, what the brokers show."""
        it = self.offender
        found = [f"since {clock(it.since)}" + (f" until {clock(it.until)}" if it.until else "")]
        found.append(
            f"{percent(it.share_of_rise)} of the rise in bytes on these brokers (measured by {it.measured_by})"
        )
        if it.behind_seconds is not None:
            found.append(f"it reads from {duration(it.behind_seconds)} behind the end of the log")
        return [*found, self.comparison, *map(strain_words, self.strains)]

    @property
    def cap_words(self) -> str | None:
        """What the cap would do; None if none can be computed."""
        if self.cap_bytes_per_second is None:
            return None
        done = self.done_seconds_at_cap
        then = f"; it then reaches the end of its logs in {duration(done)}" if done else ""
        return f"A cap of {rate_of(self.cap_bytes_per_second)} for each client id and broker leaves the others what they need{then}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleared:
    """A busy reader that is not accused, and the reason."""

    who: str
    bytes_per_second: float
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Impact:
    """Who slows whom.

    Attributes:
        answer: yes with causes; no if nobody is held up, or nobody else's reads explain it; else it cannot be told.
        sentence: the answer in words.
        held_up: groups that are held up on a broker and are in no cause: group to brokers.
        busiest: per broker, the first of its readers, for the picture: (reader, broker) to bytes/s.
        missing: signals of which there is no sample, and that the answer would need.
    """

    answer: Answer
    sentence: str
    start: float
    end: float
    step: float
    brokers: tuple[int, ...]
    causes: tuple[BlamedCause, ...] = ()
    cleared: tuple[Cleared, ...] = ()
    held_up: Mapping[str, tuple[int, ...]] | None = None
    missing: tuple[str, ...] = ()


def actions_of(
    cause: BlamedCause, tools: Tools, quotas: Mapping[tuple[str, bool], float] | None = None
) -> Sequence[Action]:
    """The cap with its command, what shows that it works, and the way back.

    Args:
        quotas: of client ids now, as `Observer.client_quotas` tells them; None: not known.
    """
    it, cap = cause.offender, cause.cap_bytes_per_second
    if cap is None or not it.clients:
        return [
            Action(
                title=f"Find what {it.words} is, and pause it or let it read less: no cap can be computed, because {_why_none(it)}",
                command=tools.list_quotas(),
                verify="the groups that are held up catch up",
            )
        ]
    writes, rate = it.kind == "writer", round(cap)
    before = {client: (quotas or {}).get((client, writes)) for client in it.clients}
    # A cap above what is set already would only give it more.
    looser = {client: was for client, was in before.items() if was is None or was > rate}
    if not looser:
        title = f"Pause {it.words}: {_ids(it.clients)} may have no more than {size(cap)}/s from each broker already"
        return [Action(title=title, command=tools.list_quotas(), verify="the groups that are held up catch up")]

    def action(clients: Collection[str], title: str, verify: str, to: float | None) -> Action:
        words = [shell_word(it) for it in clients]
        word = words[0] if len(words) == 1 else '"$id"'
        limit, lift = tools.limit_client, tools.lift_quota
        each = lift(word, writes=writes) if to is None else limit(word, round(to), writes=writes)
        if each is not None and len(words) > 1:
            each = f"for id in {' '.join(words)}; do {each}; done"
        parameters = {"clients": list(clients), "writes": writes, "bytes_per_second": to}
        return Action(title=title, command=each, verify=verify, parameters=parameters)

    found = [
        action(
            looser,
            f"Cap {_ids(looser)} at {size(cap)}/s{' each' if len(looser) > 1 else ''} on each broker, whoever uses it:"
            " quotas of its user, if there are any, count before it",
            f"it moves at most {size(cap)}/s from each broker, and the groups that are held up catch up",
            rate,
        )
    ]
    if free := [client for client, was in looser.items() if was is None]:
        had = (
            "it has none now" if quotas is not None else "if it has one now, note it first, and set that again instead"
        )
        title = f"The way back: take the cap of {_ids(free)} away ({had})"
        found.append(action(free, title, "no quota of it is listed", None))
    for was in sorted({was for was in looser.values() if was is not None}):
        same = [client for client, its in looser.items() if its == was]
        title = f"The way back: set the former cap of {_ids(same)} again ({size(was)}/s)"
        found.append(action(same, title, "its former quota is listed", was))
    return found


def _why_none(it: Mover) -> str:
    if it.shared_clients:
        return f"other groups use {_ids(it.shared_clients)}, too, and would be capped with it: give it an id of its own"
    return "its client ids are not known" if not it.clients else "what the brokers give in all is not known"


def _ids(clients: Collection[str]) -> str:
    return f"client id{'s' if len(clients) > 1 else ''} {listed([printable(it) for it in clients], most=int(SEVERAL))}"


def rate_of(bytes_per_second: float) -> str:
    """`1.2 MB/s`."""
    return f"{size(bytes_per_second)}/s"


def moment_of(seconds: float) -> datetime:
    """Seconds since the epoch as a time in UTC."""
    return datetime.fromtimestamp(seconds, UTC)


def instant(seconds: float | None) -> str | None:
    """Seconds since the epoch as ISO 8601."""
    return None if seconds is None else moment_of(seconds).isoformat(timespec="seconds")


def strain_words(it: Strain) -> str:
    """`broker 1: response_send_time of FetchConsumer 1.2 s, before 3 ms`."""
    one = it.evidence
    kind = f" of {printable(it.kind)}" if it.kind else ""
    before = f", before {quantity(one.baseline, one.unit)}" if one.baseline is not None else ""
    return f"broker {it.broker}: {one.signal}{kind} {quantity(one.value, one.unit)}{before}"


def document(found: Impact, cluster: str, actions: Sequence[Sequence[Action]]) -> dict[str, Any]:
    """The document `workbench.impact/1`."""
    return {
        "schema": "workbench.impact/1",
        "cluster": cluster,
        "start": instant(found.start),
        "end": instant(found.end),
        "step_seconds": found.step,
        "brokers": list(found.brokers),
        "answer": found.answer,
        "sentence": found.sentence,
        "causes": [_cause(it, taken) for it, taken in zip(found.causes, actions, strict=True)],
        "cleared": [asdict(it) for it in found.cleared],
        "held_up": {group: list(brokers) for group, brokers in (found.held_up or {}).items()},
        "missing": list(found.missing),
    }


def _cause(it: BlamedCause, actions: Sequence[Action]) -> dict[str, Any]:
    return {
        "headline": it.headline,
        "comparison": it.comparison,
        **asdict(it),
        "offender": _dated(it.offender) | {"until": instant(it.offender.until)},
        "victims": [_dated(one) for one in it.victims],
        "strains": [strain_json(one) for one in it.strains],
        "actions": [action_json(one) for one in actions],
    }


def _dated(it: Mover | Victim) -> dict[str, Any]:
    return {**fields_of(it), "since": instant(it.since)}


def strain_json(it: Strain) -> dict[str, Any]:
    """A signal of a broker and what was compared."""
    one = it.evidence
    return {
        "broker": it.broker,
        "signal": one.signal,
        "kind": it.kind,
        "value": one.value,
        "before": one.baseline,
        "limit": one.threshold,
        "unit": one.unit,
        "rule": one.rule,
    }


def action_json(it: Action) -> dict[str, Any]:
    """An action without what only a program needs."""
    return {"title": it.title, "command": it.command, "verify": it.verify, "parameters": dict(it.parameters)}

"""Causes on brokers: one that holds many groups up is one member of an incident, and the groups that it hits are the others.

An origin is kept as a member without a group, whose topic is the origin's key. So what leads an incident, what is told and when it is
over follow from the same rules as for any other member.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from workbench.humanize import listed, numbered
from workbench.triage.verdict_names import Answer

if TYPE_CHECKING:
    from workbench.api.who_slows_whom import ImpactResult
    from workbench.triage.broker_findings import BrokerFinding, BrokerLook
    from workbench.triage.finding import Action
    from workbench.triage.who_holds_up_whom import BlamedCause

SLOWS_OTHERS = "slows_others"
_ON_BROKERS = "brokers"  # key of brokers in trouble by themselves: a broker that is lost shows in several verdicts, and is one cause
_FACTS = 12
_GROUPS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedCause:
    """One cause on brokers.

    Attributes:
        key: the same as long as it is the same cause. name: whose fault: `group "backfill" on broker 1`, `brokers 1 and 2`.
        verdict: `slows_others`, or that of a broker. offender: the group that slows others; None if it is no group.
        groups: that it hits, the worst first. since: seconds since 1970; None: not known.
        facts: what was compared, a sentence each. actions: title, command or None, and what shows that it works.
    """

    key: str
    name: str
    verdict: str
    headline: str
    brokers: tuple[int, ...]
    groups: tuple[str, ...]
    offender: str | None = None
    since: float | None = None
    facts: tuple[str, ...] = ()
    actions: tuple[tuple[str, str | None, str | None], ...] = ()
    runbook: str | None = None
    group_count: int = 0  # of all groups, where only the first are kept

    @property
    def number(self) -> int:
        """Of the groups that it hits."""
        return max(self.group_count, len(self.groups))

    @property
    def concerned(self) -> frozenset[str]:
        """The groups that it hits, and its offender."""
        return frozenset(self.groups) | ({self.offender} if self.offender else frozenset())

    def to_json(self) -> str:
        """As the database keeps it, with the first groups only."""
        return json.dumps({**asdict(self), "groups": self.groups[:_GROUPS], "group_count": self.number})


def kept_origin(text: str | None) -> dict[str, Any] | None:
    """An origin that was kept, as a document; None if there is none."""
    found: dict[str, Any] | None = None if text is None else json.loads(text)
    return found


def origin_of(text: str | None) -> SharedCause | None:
    """The same as an `SharedCause`."""
    found = kept_origin(text)
    if found is None:
        return None
    lists = {name: tuple(value) for name, value in found.items() if isinstance(value, list)}
    return SharedCause(**{**found, **lists, "actions": tuple(tuple(it) for it in found["actions"])})


def origins_of(found: ImpactResult) -> list[SharedCause]:
    """Who slows others, each by itself; then all that is wrong with the brokers, as one.

    What is wrong with brokers of an offender only is its doing, and said with it. Of the groups on a broker, those that wait are hit.
    """
    impact = found.found
    made = [
        _of_cause(cause, actions, found.brokers.findings)
        for cause, actions in zip(impact.causes, found.actions, strict=True)
    ]
    taken = [set(it.brokers) for it in made]
    rest = [
        it for it in found.brokers.findings if not it.brokers or not any(set(it.brokers) <= theirs for theirs in taken)
    ]
    waiting = {*(impact.held_up or {}), *(one.group for cause in impact.causes for one in cause.victims)}
    return [*made, _of_brokers(rest, found.brokers, waiting - {it.offender for it in made})] if rest else made


def _of_cause(cause: BlamedCause, actions: Sequence[Action], findings: Sequence[BrokerFinding]) -> SharedCause:
    from workbench.triage.who_holds_up_whom import CORRELATION, strain_words

    it = cause.offender
    theirs = [one for one in findings if one.brokers and set(one.brokers) <= set(it.brokers)]
    facts = [cause.comparison, *map(strain_words, cause.strains), *(one.headline for one in theirs), CORRELATION]
    return SharedCause(
        key=f"slows:{it.kind}:{it.name}",
        name=f"{it.words} on {numbered('broker', it.brokers)}",
        verdict=SLOWS_OTHERS,
        headline=cause.headline,
        brokers=it.brokers,
        groups=tuple(one.group for one in cause.victims),
        offender=it.name if it.kind == "group" else None,
        since=it.since,
        facts=_first_and_last(facts),
        actions=tuple(_action(one) for one in actions),
    )


def _of_brokers(findings: Sequence[BrokerFinding], look: BrokerLook, waiting: set[str]) -> SharedCause:
    from workbench.triage.broker_findings import BrokerVerdict
    from workbench.triage.who_holds_up_whom import strain_words

    worst = findings[0]
    # One that tells nothing any more is whose fault it is; the others say that they miss it.
    brokers = look.silent or tuple(dict.fromkeys(broker for it in findings for broker in it.brokers))
    # Of a partition without a leader nobody measures a lag: who reads it is hit.
    hit = [
        group for it in findings for group in it.groups if group in waiting or it.verdict == BrokerVerdict.LEADERLESS
    ]
    more = [f"{it.verdict.replace('_', ' ')}: {it.headline}" for it in findings[1:]]
    at_risk = {group: number for it in findings for group, number in it.at_risk.items()}
    silence = [look.silence] if look.silence is not None else []
    facts = [*silence, *more, *(strain_words(strain) for it in findings for strain in it.strains)]
    if at_risk:
        facts.append(f"Not read yet, and on partitions that lack a replica: {listed(list(at_risk))}")
    return SharedCause(
        key=_ON_BROKERS,
        name=numbered("broker", brokers) if brokers else "the brokers",
        verdict=str(worst.verdict),
        headline=worst.headline,
        brokers=brokers,
        groups=tuple(dict.fromkeys(hit)),
        facts=tuple(facts[:_FACTS]),
        actions=tuple(_action(it.actions[0]) for it in findings if it.actions),
        runbook=worst.verdict.runbook,
    )


def _first_and_last(facts: Sequence[str]) -> tuple[str, ...]:
    return (*facts[:-1][: _FACTS - 1], facts[-1])


def _action(it: Action) -> tuple[str, str | None, str | None]:
    return it.title, it.command, it.verify


def is_over(key: str, verdict: str, found: ImpactResult) -> bool:
    """Whether an origin that is not found is known to be over; else what would show it is not measured."""
    if key == _ON_BROKERS:
        return verdict not in found.brokers.unknown
    return found.found.answer is not Answer.CANNOT_TELL

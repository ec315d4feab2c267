"""What is found about brokers: verdicts, a finding with its victims, and the whole look."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from workbench.humanize import numbered, quantity
from workbench.triage.finding import Action, Evidence
from workbench.triage.who_holds_up_whom import Strain, action_json, strain_json


class BrokerVerdict(StrEnum):
    """What is wrong with a broker."""

    LEADERLESS = "leaderless"
    UNDER_REPLICATED = "under_replicated"
    METADATA_STORM = "metadata_storm"
    REQUEST_QUEUE_FULL = "request_queue_full"
    FLUSH_SLOW = "flush_slow"
    REMOTE_STORAGE_FAILING = "remote_storage_failing"
    SLOW_BROKER = "slow_broker"
    COORDINATOR_MOVING = "coordinator_moving"

    @property
    def runbook(self) -> str:
        """Its file."""
        return f"runbooks/{self.value.title().replace('_', '')}.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFinding:
    """One verdict, on which brokers, with what was compared.

    Attributes:
        brokers: concerned.
        groups: its victims: those that read what it is about.
        at_risk: groups to messages on partitions short of replicas that they have not read: lost if one more broker is.
        strains: what was compared, by broker.
    """

    verdict: BrokerVerdict
    headline: str
    brokers: tuple[int, ...]
    groups: tuple[str, ...] = ()
    at_risk: Mapping[str, int] = field(default_factory=dict)
    strains: tuple[Strain, ...] = ()
    actions: tuple[Action, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """For `workbench.impact/1`."""
        return {
            "verdict": self.verdict,
            "headline": self.headline,
            "brokers": list(self.brokers),
            "groups": list(self.groups),
            "at_risk": dict(self.at_risk),
            "strains": [strain_json(it) for it in self.strains],
            "runbook": self.verdict.runbook,
            "actions": [action_json(it) for it in self.actions],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLook:
    """All findings about brokers, worst first.

    Attributes:
        unknown: verdicts that cannot be told, with the signals that they lack.
        unsuited: verdicts that are not asked of such brokers, with the reason.
        silent: brokers that told of themselves before and do so no more, while others do.
    """

    findings: tuple[BrokerFinding, ...]
    unknown: Mapping[BrokerVerdict, tuple[str, ...]]
    unsuited: Mapping[BrokerVerdict, str] = field(default_factory=dict)
    silent: tuple[int, ...] = ()

    @property
    def silence(self) -> str | None:
        """It in words; None if all tell."""
        verb = "tells nothing of itself" if len(self.silent) == 1 else "tell nothing of themselves"
        words = numbered("broker", self.silent)
        return f"{words[:1].upper()}{words[1:]} {verb} any more." if self.silent else None


def finding_of(
    verdict: BrokerVerdict,
    headline: str,
    strains: Sequence[Strain],
    groups: Iterable[str],
    title: str,
    verify: str,
    command: str | None = None,
) -> BrokerFinding:
    """A finding about the brokers that are strained, with the one action that comes first."""
    return BrokerFinding(
        verdict=verdict,
        headline=headline,
        brokers=brokers_of(strains),
        groups=tuple(groups),
        strains=tuple(strains),
        actions=(Action(title=title, command=command, verify=verify),),
    )


def brokers_of(strains: Iterable[Strain]) -> tuple[int, ...]:
    """Brokers that are strained, each once."""
    return tuple(dict.fromkeys(it.broker for it in strains))


def strain_of(
    broker: int, signal: str, value: float, unit: str, limit: float, kind: str = "", *, before: float | None = None
) -> Strain:
    """A broker's signal against its limit."""
    evidence = Evidence(signal=signal, value=value, unit=unit, threshold=limit, baseline=before)
    return Strain(broker=broker, kind=kind, evidence=evidence)


def first_words(strains: Sequence[Strain]) -> str:
    """The first of them, for a headline."""
    one = strains[0].evidence
    return f"{one.signal} {quantity(one.value, one.unit)}"

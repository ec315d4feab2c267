"""Processes that tell one name: Java's default client id is the same in every process of a group, and each has a page of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from workbench.profiles import Meaning, Profile
from workbench.signals import SIGNALS

# Labels that name a process best, in this order; a page that is its own has its address alone.
_PODS = ("pod", "pod_name", "kubernetes_pod_name")
_NAMING = (*_PODS, "host", "hostname", "instance")


def place_of(labels: Mapping[str, str]) -> str:
    """What a series' labels call its process; empty if they do not."""
    return next((labels[it] for it in _NAMING if labels.get(it)), "")


def process_of(labels: Mapping[str, str]) -> str:
    """The same, where it must be one process and no other: a host may have several."""
    return labels.get(process_label(labels), "")


def process_label(labels: Mapping[str, str]) -> str:
    """Which label says it; empty if none does."""
    return next((it for it in (*_PODS, "instance") if labels.get(it)), "")


def is_of_members(signal: str) -> bool:
    """Whether a signal is told of members; the end of a log is the same, whichever process tells it."""
    return "member" in SIGNALS[signal].labels


@dataclass(slots=True)
class ProcessNames:
    """Remembers who had a name first, for pages that are read again and again: others are told apart by their process, as with a
    Prometheus. Mixed in one series, the counters of two would seem to begin anew with each sample.

    Attributes:
        aliases: name of another process to the name that it tells.
    """

    aliases: dict[str, str] = field(default_factory=dict)
    _first: dict[int, str] = field(default_factory=dict)  # by hashes, as there may be 100,000 series

    def told_apart(self, meaning: Meaning, profile: Profile, labels: Mapping[str, str]) -> dict[str, Any]:
        """Canonical labels of a series, with the process in the member's name if another one has the same name.

        A client id is one process's in all of its series. An application is many processes: only what two of them tell is told apart.
        A thread without a name is its process.
        """
        member, place = meaning.labels.get("member"), place_of(labels)
        if member is None:
            own = profile.member_is == "thread" and is_of_members(meaning.signal)
            return {**meaning.labels, "member": place} if own else meaning.labels
        is_client = profile.member_is == "client_id"
        series = () if is_client else (meaning.signal, meaning.stat, meaning.le, frozenset(meaning.labels.items()))
        if self._first.setdefault(hash((profile.name, member, series)), place) == place:
            return meaning.labels
        alias = f"{member} ({place})"
        self.aliases[alias] = member
        return {**meaning.labels, "member": alias}

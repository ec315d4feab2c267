"""Six settings of a broker that have made incidents: what each does at its value, what curing it costs, and in which versions. Pure.

The incidents are those of a published talk on Pulsar at Tencent (2022), and of the changes that came of them: #14985, #13609, #14515,
PIP-143 in apache/pulsar, #2947 in apache/bookkeeper. Defaults are those of a running 4.0.7. A value that is missing or cannot be read
is "cannot tell": another file, the environment or a namespace's policy may set it.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from workbench.errors import UsageError
from workbench.humanize import count, duration, printable
from workbench.judgement_numbers import STOP_SECONDS

Version = tuple[int, int, int]
_VERSION = re.compile(r"(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?(?:[.-].*)?")
_ALIKE = 0.93  # two names of Pulsar that differ are less alike; with one letter wrong they are more


class Soundness(StrEnum):
    """What a setting means for its incident."""

    FINE = "fine"
    AT_RISK = "at risk"
    UNKNOWN = "cannot tell"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """What is known of a broker.

    Attributes:
        values: its settings; those that are not known are missing.
        version: None if not known.
        cursors: durable subscriptions on it, each on each of its topics and partitions; None if not known.
        publish_rate: entries that producers write to it, per second; None if not known.
    """

    values: Mapping[str, str]
    version: Version | None = None
    cursors: int | None = None
    publish_rate: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedSetting:
    """One incident and the setting that decides.

    Attributes:
        value: as it is set; None if not known.
        why: the rule with its values.
        cure: what to set or do. cost: what that costs.
    """

    incident: str
    setting: str
    value: str | None
    soundness: Soundness
    why: str
    cure: str
    cost: str


Judged = tuple[Soundness, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Check:
    incident: str
    setting: str
    judge: Callable[[BrokerSettings, str | None], Judged]
    cure: str
    cost: str


def is_version(text: str) -> bool:
    """Whether `parse_version` reads it."""
    return _VERSION.fullmatch(text.strip()) is not None


def parse_version(text: str) -> Version:
    """Read `4.0.7`, `2.10` or `3.0.1-SNAPSHOT`.

    Raises:
        UsageError: if it is none.
    """
    found = _VERSION.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"{text!r} is not a version of Pulsar.", hint="For example: 4.0.7")
    return int(found[1]), int(found[2]), int(found[3] or 0)


def check_config(broker: BrokerSettings) -> list[CheckedSetting]:
    """Judge the six settings, those at risk first."""
    found = []
    for it in _CHECKS:
        value = broker.values.get(it.setting)
        soundness, why = it.judge(broker, value)
        shown = value if it.setting != _VERSION_OF else _dotted(broker.version)
        found.append(
            CheckedSetting(
                incident=it.incident,
                setting=it.setting,
                value=shown,
                soundness=soundness,
                why=why,
                cure=it.cure,
                cost=it.cost,
            )
        )
    order = [Soundness.AT_RISK, Soundness.UNKNOWN, Soundness.FINE]
    return sorted(found, key=lambda it: order.index(it.soundness))


def misspelt(values: Mapping[str, str]) -> list[tuple[str, str]]:
    """Names in the file that are no setting and look like one of the six that is missing: brokers ignore them without a word."""
    missing = [name for name in _NAMES if name not in values]
    near = (
        (name, difflib.get_close_matches(name, missing, n=1, cutoff=_ALIKE)) for name in values if name not in _NAMES
    )
    return [(name, like[0]) for name, like in near if like]


def _flag(value: str | None) -> bool | None:
    return {"true": True, "false": False}.get(value.strip().lower()) if value is not None else None


def _number(value: str | None) -> float | None:
    try:
        found = float(value) if value is not None else math.nan
    except ValueError:
        return None
    return found if math.isfinite(found) else None


def _unread(value: str | None, default: str) -> Judged:
    if value is None:
        return Soundness.UNKNOWN, f"it is not in what was read; the default is {default}"
    return Soundness.UNKNOWN, f"{printable(value)!r} is no value of it"


def _cache(broker: BrokerSettings, value: str | None) -> Judged:
    if broker.version is not None and broker.version >= (4, 1, 0):
        return Soundness.UNKNOWN, "4.1 evicts by another algorithm (PIP-430), and no rule for it is known here"
    by_acks, kept = _flag(value), _number(broker.values.get(_CACHE_TIME))
    if by_acks is None:
        return _unread(value, "false, since 2.10.3 and 2.11; older ones do not have it")
    if not by_acks:
        return (
            Soundness.AT_RISK,
            "what consumers were sent leaves the cache; after a restart of many it is read from bookies",
        )
    if kept is None:
        return (
            Soundness.UNKNOWN,
            f"it waits for acknowledgements, but {_CACHE_TIME} is not known, and the default is 1 s",
        )
    if kept / 1000 < STOP_SECONDS:
        return Soundness.AT_RISK, (
            f"it waits for acknowledgements, but {_CACHE_TIME} drops everything after {duration(kept / 1000)}, and a client's restart "
            f"takes up to {duration(STOP_SECONDS)}"
        )
    return Soundness.FINE, f"entries wait in the cache for acknowledgements, up to {duration(kept / 1000)}"


def _load_report(broker: BrokerSettings, _value: str | None) -> Judged:
    version = broker.version
    if version is None:
        return Soundness.UNKNOWN, "the version is not known; it is cured in 2.8.3, 2.9.2 and from 2.10 on"
    if version >= (2, 9, 2) or (2, 8, 3) <= version < (2, 9, 0):
        return Soundness.FINE, "the load is measured at fixed delays (#13609)"
    share = _number(broker.values.get("loadBalancerHistoryResourcePercentage"))
    forever = (
        ""
        if share == 0
        else ", and with a history (loadBalancerHistoryResourcePercentage) the broker never recovers from it"
    )
    return (
        Soundness.AT_RISK,
        f"after a garbage collection a load may be reported as infinite: all bundles are unloaded{forever}",
    )


def _pending_acks(broker: BrokerSettings, value: str | None) -> Judged:
    if broker.version is not None and broker.version >= (4, 0, 0):
        return Soundness.FINE, "4.0 keeps pending acknowledgements in a map that shrinks; it has no such setting"
    shrinks = _flag(value)
    if shrinks is None:
        return _unread(value, "false, before 4.0")
    if shrinks:
        return Soundness.FINE, "the map of pending acknowledgements gives memory back"
    return Soundness.AT_RISK, "the map of pending acknowledgements only grows: nearly empty, it has held 9 GB of heap"


def _ack_writes(broker: BrokerSettings, value: str | None) -> Judged:
    limit = _number(value)
    if limit is None:
        return _unread(value, "1.0")
    if limit <= 0:
        return Soundness.AT_RISK, "there is no limit: each acknowledgement may be a write to bookies"
    each = f"each cursor may be written {count(limit)} times a second"
    if broker.cursors is None or broker.publish_rate is None:
        return (
            Soundness.UNKNOWN,
            f"{each}; for how many cursors, beside how much of producers? (--cursors, --publish-rate)",
        )
    writes = limit * broker.cursors
    told = f"{each}: {count(writes)}/s for {count(broker.cursors)} cursors, beside {count(broker.publish_rate)}/s of producers"
    return (Soundness.AT_RISK if writes > broker.publish_rate else Soundness.FINE), told


def _splits(_broker: BrokerSettings, value: str | None) -> Judged:
    if value is None:
        return _unread(value, "all four algorithms, in 4.0")
    known = {it.strip() for it in value.strip("[] ").split(",")}
    if "specified_positions_divide" in known:
        return Soundness.FINE, "a bundle can be split between its hot topics"
    return (
        Soundness.AT_RISK,
        "a bundle is split by its range or by the number of topics: two hot topics that lie close stay together",
    )


def _quarantine(broker: BrokerSettings, value: str | None) -> Judged:
    checks = _flag(value)
    if checks is None:
        return _unread(value, "true")
    if not checks:
        return Soundness.FINE, "a bookie that restarts is not avoided; neither is one that fails"
    seconds = _number(broker.values.get("bookkeeperClientHealthCheckQuarantineTimeInSeconds"))
    long = f"for {duration(seconds)}" if seconds is not None else "for a time that is not known (default: 30 min)"
    return (
        Soundness.AT_RISK,
        f"in a rolling restart, a bookie that was away gets no new ledgers {long}: few others carry all",
    )


_VERSION_OF = "(version)"
_CACHE_TIME = "managedLedgerCacheEvictionTimeThresholdMillis"
_CHECKS: Sequence[_Check] = (
    _Check(
        incident="Redelivery misses the cache",
        setting="cacheEvictionByMarkDeletedPosition",
        judge=_cache,
        cure=f"cacheEvictionByMarkDeletedPosition=true, and {_CACHE_TIME} above the time of a client's restart",
        cost="memory: entries that one slow subscription has not acknowledged stay in the cache, up to managedLedgerCacheSizeMB",
    ),
    _Check(
        incident="An infinite load report unloads bundles again and again",
        setting=_VERSION_OF,
        judge=_load_report,
        cure="upgrade; until then loadBalancerHistoryResourcePercentage=0",
        cost="without a history, load shedding follows every short peak",
    ),
    _Check(
        incident="Pending acknowledgements fill the heap",
        setting="autoShrinkForConsumerPendingAcksMap",
        judge=_pending_acks,
        cure="autoShrinkForConsumerPendingAcksMap=true, or 4.0",
        cost="the map is copied when it shrinks",
    ),
    _Check(
        incident="Acknowledgements are most of the writes to bookies",
        setting="managedLedgerDefaultMarkDeleteRateLimit",
        judge=_ack_writes,
        cure="a lower managedLedgerDefaultMarkDeleteRateLimit, such as 0.01; a namespace's persistence policy stands over it",
        cost="after a broker's crash, what was acknowledged since the last write is delivered again: up to 100 s of it at 0.01",
    ),
    _Check(
        incident="Two hot topics stay in one bundle",
        setting="supportedNamespaceBundleSplitAlgorithms",
        judge=_splits,
        cure="add specified_positions_divide, and find the position with: workbench pulsar split-plan",
        cost="a restart; bundles that are split cannot be merged again",
    ),
    _Check(
        incident="A rolling restart of bookies puts them into quarantine",
        setting="bookkeeperClientHealthCheckEnabled",
        judge=_quarantine,
        cure="before the roll, switch the health check off (bkctl healthCheck switch), and after it on (the same with -e)",
        cost="while it is off, a bookie that really fails is still chosen for new ledgers",
    ),
)
_NAMES = (*(it.setting for it in _CHECKS if it.setting != _VERSION_OF), _CACHE_TIME)


def _dotted(version: Version | None) -> str | None:
    return ".".join(map(str, version)) if version is not None else None

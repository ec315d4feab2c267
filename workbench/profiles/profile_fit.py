"""Check which profiles fit the metrics of a Prometheus (or of a metrics page), and why a signal is missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from workbench.humanize import duration, listed
from workbench.profiles import MappingRule, Profile, Quality, why_absent
from workbench.signals import SIGNALS, Kind
from workbench.signals_before_kafka import OF_GATEWAYS

# What was sampled so lately is there: a managed cloud hands its values out five minutes late, one a minute.
RECENT_SECONDS = 600.0
# Labels of one recent series for each exported series name.
Examples = Mapping[str, Mapping[str, str]]
# A series without them cannot be placed; other labels only make it finer.
_NEEDED = ("group", "topic", "partition", "member")
# Any process tells when it started: that is no sign of a broker.
_EVERYBODYS = {"start_time", "server_start_time"}
# What no exporter tells, and a cluster with `bootstrap` does.
_ASKED_OF_KAFKA = (
    "assigned",
    "leader",
    "local_start_offset",
    "missing_replicas",
    "read_quota",
    "reassigning_partitions",
)


class RuleState(StrEnum):
    """Result of the check of one rule."""

    FOUND = "found"
    NO_METRIC = "no such metric"
    NO_LABEL = "metric without the label"
    STALE = "no recent samples"
    NATIVE = "native histogram"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleCheck:
    """One rule of a profile against the exported series.

    Attributes:
        signal, metric: of the rule.
        state: the result.
        detail: the same in words, with what is there instead.
    """

    signal: str
    metric: str
    state: RuleState
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Coverage of a profile.

    Attributes:
        found: signals whose metric exists with the required labels.
        absent: signals of the profile without such a metric.
        checks: every rule, with the reason if it was not found.
    """

    profile: Profile
    found: tuple[str, ...]
    absent: tuple[str, ...]
    checks: tuple[RuleCheck, ...] = field(default=(), repr=False)

    @property
    def share(self) -> float:
        """Share of its signals that were found."""
        return len(self.found) / max(1, len(self.found) + len(self.absent))


def asked_for(profiles: Sequence[Profile], there: Iterable[str]) -> dict[str, tuple[str, Mapping[str, str]]]:
    """Of these metrics those of the profiles, native histograms included: each with the profile's name, and the labels in its own."""
    native = {metric for profile in profiles for _, rule in profile.rules() for metric in rule.metrics}
    found: dict[str, tuple[str, Mapping[str, str]]] = {}
    for metric in there:
        read = next((it for profile in profiles if (it := profile.read_name(metric)) is not None), None)
        if read is not None or metric in native:
            found[metric] = read or (metric, {})
    return found


def fit(profile: Profile, examples: Examples, *, names: frozenset[str] = frozenset()) -> Fit:
    """Compare a profile with the exported series; `names`: all metric names, also of series without recent samples."""
    names = names.union(it[0] for it in map(profile.read_name, names) if it is not None)
    checks = tuple(_check(profile, signal, rule, examples, names) for signal, rule in profile.signals.items())
    found = tuple(it.signal for it in checks if it.state is RuleState.FOUND)
    absent = tuple(signal for signal in profile.signals if signal not in found)
    return Fit(profile=profile, found=found, absent=absent, checks=checks)


def _check(profile: Profile, signal: str, rule: MappingRule, examples: Examples, names: frozenset[str]) -> RuleCheck:
    histogram = SIGNALS[signal].kind is Kind.HISTOGRAM
    exported = [name for name, _, _ in rule.exported(SIGNALS[signal].kind)]
    here = [name for name in exported if name in examples]
    # An example of a name with several meanings is one of them: it need not have the labels of the others.
    single = all(len(profile.metrics()[name]) == 1 for name in exported)
    needed = {theirs for name, theirs in rule.labels.items() if name in _NEEDED and single}
    if not here:
        native = next((metric for metric in rule.metrics if histogram and metric in {*examples, *names}), None)
        if native is not None:
            state, detail = (
                RuleState.NATIVE,
                f"{native} is a native histogram: also scrape the classic one (always_scrape_classic_histograms)",
            )
        elif stale := next((name for name in exported if name in names), None):
            state, detail = RuleState.STALE, f"{stale} has no sample in the last {duration(RECENT_SECONDS)}"
        else:
            near = _near(rule.metric, {*names, *examples})
            state, detail = RuleState.NO_METRIC, f"no metric {rule.metric}" + (f"; there is {near}" if near else "")
    elif lacking := sorted(needed - set().union(*(examples[name].keys() for name in here))):
        has = sorted(set(examples[here[0]]) - {"__name__", "le"})
        state, detail = (
            RuleState.NO_LABEL,
            f"{here[0]} has no label {listed(lacking)}; it has {listed(has, most=8) or 'none'}",
        )
    else:
        state, detail = RuleState.FOUND, here[0]
    return RuleCheck(signal=signal, metric=rule.metric, state=state, detail=detail)


def _near(metric: str, names: set[str]) -> str | None:
    """A metric of nearly this name: agents and versions differ in `_total` and in prefixes."""
    bare = metric.removesuffix("_total")
    for name in (bare, f"{bare}_total", f"{bare}_seconds", f"{bare}_count"):
        if name != metric and name in names:
            return name
    return next((name for name in sorted(names) if name.endswith(f"_{bare}") or bare.endswith(f"_{name}")), None)


def fitting(profiles: Sequence[Profile], examples: Examples, *, names: frozenset[str] = frozenset()) -> list[Fit]:
    """Profiles with at least one signal of their own, best first: by signals found, then by share."""
    fits = [fit(profile, examples, names=names) for profile in profiles]
    return sorted(
        (it for it in fits if set(it.found) - _EVERYBODYS), key=lambda it: (-len(it.found), -it.share, it.profile.name)
    )


def recommended(fits: Sequence[Fit]) -> list[Fit]:
    """Recommend profiles without redundancy, in order of trust: first those with Kafka's view of the group, then any that add a signal.

    A consumer's own metrics end with it: if they came first, the lag would disappear when it dies. Agents and gateways are named by
    hand: nothing in their metrics says that they send to this Kafka.
    """
    chosen: list[Fit] = []
    covered = {name for name, *_ in OF_GATEWAYS}
    for it in sorted(fits, key=lambda it: not _from_outside(it)):
        if set(it.found) - covered:
            chosen.append(it)
            covered |= set(it.found)
    return chosen


def _from_outside(it: Fit) -> bool:
    rule = it.profile.signals.get("consumer_lag") or it.profile.signals.get("committed_offset")
    return rule is not None and "member" not in rule.labels and "consumer_lag" in it.found


def coverage(fits: Sequence[Fit]) -> dict[str, tuple[Quality, str | None]]:
    """Signal to (quality, profile that gives it), over all signals."""
    found: dict[str, tuple[Quality, str | None]] = {}
    for signal in SIGNALS:
        giving = next((it.profile for it in fits if signal in it.found), None)
        found[signal] = (giving.quality(signal), giving.name) if giving is not None else (Quality.ABSENT, None)
    return found


def without_work(fits: Sequence[Fit], source: str) -> str | None:
    """What to do if nothing tells of work; None if something does. `source`: options that name the cluster, to be copied.

    A lag exporter always fits: what the consumers call their own metrics, no known profile may read.
    """
    if any("process_time" in it.found for it in fits):
        return None
    return (
        "Nothing tells how long handlers take, so most causes stay open. If your consumers export it under their own names,"
        f" draft a profile: workbench profiles new {source}"
    )


def what_to_add(signal: str, profiles: Sequence[Profile], *, fitting: Sequence[Profile] = ()) -> str:
    """Say which exporter could provide a signal; or why there is none, for the queue that the profiles that fit are about."""
    if (reason := why_absent(signal, fitting)) is not None:
        return reason
    givers = [
        p.name for p in profiles if p.quality(signal) is not Quality.ABSENT and p.name not in ("runtime", "group_state")
    ]
    if not givers and signal == "last_stable_offset":
        return "no known exporter has it: Workbench asks Kafka itself, for partitions that stand still (setting: bootstrap)"
    if not givers and signal in _ASKED_OF_KAFKA:
        return "no known exporter has it: Workbench asks Kafka itself (setting: bootstrap)"
    if not givers and signal == "restoring":
        return "the restoring clients of Kafka Streams tell it, in the profiles of Java clients"
    if not givers and all(p.quality(signal) is Quality.ABSENT for p in profiles):
        return "no known exporter has it, and no question needs it"
    own = any(p.name == "runtime" and p.quality(signal) is not Quality.ABSENT for p in profiles)
    if givers and not own:
        return (
            f"the profile {givers[0]} has it" if len(givers) == 1 else f"the profiles {listed(givers, most=3)} have it"
        )
    others = f"; also in {', '.join(givers[:3])}" if givers else ""
    return f"the reference runtime exports it as {SIGNALS[signal].metric}{others}"

"""Check which profiles fit the metrics of a Prometheus (or of a metrics page), and which signals are missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workbench.profiles import Profile, Quality
from workbench.signals import SIGNALS

# Labels of one example for each exported series name.
Examples = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Coverage of a profile.

    Attributes:
        found: signals whose metric exists with the required labels.
        absent: signals of the profile without such a metric.
    """

    profile: Profile
    found: tuple[str, ...]
    absent: tuple[str, ...]

    @property
    def share(self) -> float:
        """Share of its signals that were found."""
        return len(self.found) / max(1, len(self.found) + len(self.absent))


def fit(profile: Profile, examples: Examples) -> Fit:
    """Compare a profile with the exported series."""
    found: dict[str, None] = {}
    for metric, (signal, rule, _) in profile.metrics().items():
        labels = examples.get(metric)
        if labels is None:
            continue
        needed = {theirs for name, theirs in rule.labels.items() if name in ("group", "topic", "partition", "member")}
        if needed <= labels.keys():
            found[signal] = None
    absent = tuple(signal for signal in profile.signals if signal not in found)
    return Fit(profile=profile, found=tuple(found), absent=absent)


def fitting(profiles: Sequence[Profile], examples: Examples) -> list[Fit]:
    """Profiles with at least one signal, best first: by signals found, then by share."""
    fits = [fit(profile, examples) for profile in profiles]
    return sorted((it for it in fits if it.found), key=lambda it: (-len(it.found), -it.share, it.profile.name))


def recommended(fits: Sequence[Fit]) -> list[Fit]:
    """Recommend profiles without redundancy, in order of trust: first those with Kafka's view of the group, then any that add a signal.

    A consumer's own metrics end with it: if they came first, the lag would disappear when it dies.
    """
    chosen: list[Fit] = []
    covered: set[str] = set()
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


def what_to_add(signal: str, profiles: Sequence[Profile]) -> str:
    """Say which exporter could provide a signal."""
    givers = [
        p.name for p in profiles if p.quality(signal) is not Quality.ABSENT and p.name not in ("runtime", "group_state")
    ]
    if not givers and all(p.quality(signal) is Quality.ABSENT for p in profiles):
        return "no known exporter has it, and no question needs it"
    others = f"; also in {', '.join(givers[:3])}" if givers else ""
    return f"the reference runtime exports it as {SIGNALS[signal].metric}{others}"

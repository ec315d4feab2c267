"""PromQL over the metrics of the profiles in use: by signal, with canonical labels."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workbench.profiles import MappingRule, Profile, Quality
from workbench.profiles.labels_in_metric_names import places
from workbench.queues.group_kinds import REDRIVE_PREFIX

# What a window of `rate` needs: four scrapes at 30 s and some.
RATE_WINDOW = "5m"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredQuery:
    """A signal as a profile measures it."""

    signal: str
    profile: str
    rule: MappingRule


def measured(profiles: Sequence[Profile]) -> dict[str, MeasuredQuery]:
    """Each signal from the first profile that has it, as in a triage; PromQL cannot group by what a metric's name carries."""
    found: dict[str, MeasuredQuery] = {}
    for profile in profiles:
        for name, rule in profile.signals.items():
            if profile.quality(name) is not Quality.ABSENT and not places(rule.metric):
                found.setdefault(name, MeasuredQuery(signal=name, profile=profile.name, rule=rule))
    return found


def selector(it: MeasuredQuery, match: Mapping[str, str], *, variables: bool, suffix: str = "") -> str:
    """`metric{label="value",...}`; with `variables`, the dashboard's `$group` and `$topic` narrow it."""
    matchers = [matcher(name, text) for name, text in match.items()]
    matchers += [f'{label}=~"{pattern}|"' for label, pattern in _escaped(it.rule.where).items()]
    labels = it.rule.labels
    if "group" in labels:
        matchers.append(f'{labels["group"]}!~"{REDRIVE_PREFIX}.*"')  # positions of redrive plans: their lag is nobody's
    if variables:
        matchers += [f'{labels[name]}=~"${name}"' for name in ("group", "topic") if name in labels]
    return f"{it.rule.metric}{suffix}{{{','.join(matchers)}}}" if matchers else f"{it.rule.metric}{suffix}"


def _escaped(where: Mapping[str, str]) -> dict[str, str]:
    return {label: json.dumps(pattern)[1:-1] for label, pattern in where.items()}


def matcher(name: str, text: str) -> str:
    """A label of the settings' `match` as PromQL has it."""
    for sign in ("=~", "!~", "!="):
        if text.startswith(sign):
            return f"{name}{sign}{json.dumps(text[2:])}"
    return f"{name}={json.dumps(text)}"


def by(it: MeasuredQuery, *names: str) -> str:
    """The exporter's labels for canonical ones, for `by (...)`; those that it lacks are left out."""
    return ", ".join(it.rule.labels[name] for name in names if name in it.rule.labels)


def renamed(expression: str, it: MeasuredQuery, *names: str) -> str:
    """The expression with canonical labels, so that alerts of all exporters look the same."""
    for name in names:
        label = it.rule.labels.get(name)
        if label is not None and label != name:
            expression = f'label_replace({expression}, "{name}", "$1", "{label}", "(.*)")'
    return expression


def lag(
    found: Mapping[str, MeasuredQuery], match: Mapping[str, str], *names: str, variables: bool = False
) -> str | None:
    """Messages by canonical labels, summed over partitions; negative values stand for "no commit"."""
    it = found.get("consumer_lag")
    if it is None:
        return None
    total = f"sum by ({by(it, *names)}) ({selector(it, match, variables=variables)} >= 0)"
    return renamed(total, it, *names)


def time_lag(found: Mapping[str, MeasuredQuery], match: Mapping[str, str], *, variables: bool = False) -> str | None:
    """Seconds that a group is behind on a topic: measured, or else its lag at the rate of its commits.

    The estimate is 0 without lag, and infinite for lag without commits.
    """
    names = ("group", "topic")
    if (it := found.get("time_lag")) is not None:
        scale = f" * {it.rule.scale:g}" if it.rule.scale != 1 else ""
        return renamed(f"max by ({by(it, *names)}) ({selector(it, match, variables=variables)}{scale})", it, *names)
    waiting = lag(found, match, *names, variables=variables)
    commits = found.get("committed_offset")
    if waiting is None or commits is None:
        return None
    moved = f"clamp_min(deriv({selector(commits, match, variables=variables)}[{RATE_WINDOW}]), 0)"
    pace = renamed(f"sum by ({by(commits, *names)}) ({moved})", commits, *names)
    messages, speed = (f"sum by (group, topic) ({expression})" for expression in (waiting, pace))
    return f"{messages} / ({speed} > 0) or {messages} * Inf > 0 or {messages}"

"""Draft a profile from what a Prometheus shows: candidates by name, unit and labels. A person checks it; `profiles check` helps."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import yaml

from workbench.profiles.patterns import BEFORE_LABELS, IN_A_PROCESS, LABELS, OF_TARGET, OF_TOPIC, PATTERNS, Pattern
from workbench.signals import SIGNALS, Kind

# Labels of some recent series of each metric name.
Seen = Mapping[str, Sequence[Mapping[str, str]]]

_LIKE_LAG = re.compile(r"lag(?:_|$)|backlog|back_log|offset|keda_scaler")
_MOST_LEFT = 8
_INTERESTING = re.compile(
    r"back_log|backlog|keda_scaler|start_time|duration|lag|offset|consumer|group|kafka|rebalanc|poll|heartbeat|process|handl|queue|partition|dead_?letter|dlq|throttl|fetch",
)
_HISTOGRAM = ("_bucket", "_sum", "_count")
_MOSTLY = 0.6
_UNITS = (
    (r"_(ms|millis|milliseconds)(_|$)", 0.001),
    (r"_(us|micros|microseconds)(_|$)", 1e-6),
    (r"_(ns|nanos|nanoseconds)(_|$)", 1e-9),
    (r"_minutes(_|$)", 60.0),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafted:
    """A signal of the draft.

    Attributes:
        rule: as in a profile.
        others: further metrics that may be it, best first.
    """

    rule: Mapping[str, object]
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A profile in the making.

    Attributes:
        name: of the profile.
        signals: what was found.
        missing: signals for which there is no candidate, with the reason.
        member_is: content of the label that tells members apart.
        left: metrics that look like lag or offsets and are not in it, with the reason.
    """

    name: str
    signals: Mapping[str, Drafted]
    missing: Mapping[str, str] = field(default_factory=dict)
    member_is: str = "member"
    left: Mapping[str, str] = field(default_factory=dict)

    def to_yaml(self) -> str:
        """The file, with what else could be meant, and what is missing, in comments."""
        lines = ["# A draft: check every line, then `workbench profiles check`.", f"title: {self.name}"]
        if self.member_is != "member":
            lines.append(f"member_is: {self.member_is}")
        lines.append("signals:" if self.signals else "signals: {}")
        for signal, drafted in self.signals.items():
            rule = yaml.safe_dump(dict(drafted.rule), default_flow_style=True, sort_keys=False, width=1000).strip()
            lines.append(f"  {signal}: {rule}")
            if drafted.others:
                lines.append(f"    # or: {', '.join(drafted.others)}")
        lines += [f"# {signal}: {reason}" for signal, reason in self.missing.items()]
        lines += [f"# Not used: {metric}: {reason}" for metric, reason in self.left.items()]
        return "\n".join(lines) + "\n"


def interesting(names: Iterable[str]) -> list[str]:
    """Metric names that may belong to a consumer."""
    return sorted(name for name in names if _INTERESTING.search(name) and not name.endswith(("_created", "_info")))


def draft(name: str, seen: Seen) -> Draft:
    """Draft a profile.

    Args:
        name: of the profile.
        seen: labels of some recent series of each metric.
    """
    signals: dict[str, Drafted] = {}
    missing: dict[str, str] = {}
    used: set[str] = set()
    namespace = _namespace(seen)
    by_client = not any(_label(labels, "group") for series in seen.values() for labels in series[:1])
    for signal, pattern in PATTERNS.items():
        scored = sorted(
            (
                (score, metric)
                for metric in seen
                if (score := _score(signal, pattern, metric, seen[metric], namespace=namespace)) > 0
            ),
            key=lambda item: (-item[0], len(item[1]), item[1]),
        )
        candidates = list(dict.fromkeys(_base(signal, metric) for _, metric in scored))
        candidates = [metric for metric in candidates if metric not in used]
        if not candidates:
            missing[signal] = _why_not(signal, pattern, seen)
            continue
        metric = candidates[0]
        used.add(metric)
        labels = next(seen[it] for _, it in scored if _base(signal, it) == metric)[0]
        signals[signal] = Drafted(rule=_rule(signal, pattern, metric, labels), others=tuple(candidates[1:4]))
    if "consumer_lag" in missing and (whole := _of_topic(seen, used, namespace)) is not None:
        signals = {"consumer_lag": whole, **signals}
        used.add(str(whole.rule["metric"]))
        del missing["consumer_lag"]
    _without_a_strangers_start(signals, missing, seen)
    named = [drafted.rule["labels"] for drafted in signals.values()]
    homeless = by_client or any(isinstance(it, Mapping) and "member" in it and "group" not in it for it in named)
    return Draft(
        name=name,
        signals=signals,
        missing=missing,
        member_is="client_id" if homeless else "member",
        left=_left(seen, {*used, *(other for it in signals.values() for other in it.others)}),
    )


def _of_topic(seen: Seen, used: set[str], namespace: str) -> Drafted | None:
    """Lag of topics as a whole, as some exporters sum it up, and as it is kept where there are too many partitions."""
    scored = sorted(
        (-score, len(metric), metric)
        for metric in seen
        if metric not in used and (score := _score("consumer_lag", OF_TOPIC, metric, seen[metric], namespace=namespace))
    )
    if not scored:
        return None
    names = [metric for _, _, metric in scored]
    rule = _rule("consumer_lag", OF_TOPIC, names[0], seen[names[0]][0])
    note = "of a topic as a whole: a stuck or hot partition cannot be seen"
    return Drafted(rule={**rule, "quality": "proxy", "note": note}, others=tuple(names[1:4]))


def _without_a_strangers_start(signals: dict[str, Drafted], missing: dict[str, str], seen: Seen) -> None:
    """Every program has `process_start_time_seconds`: it is a member's only if the same target tells of its work."""
    start = signals.get("start_time")
    if start is None or start.rule["metric"] != "process_start_time_seconds":
        return

    def targets(metric: str) -> set[tuple[str | None, str | None]]:
        names = (metric, *(f"{metric}{end}" for end in _HISTOGRAM))
        return {(it.get("job"), it.get("instance")) for name in names for it in seen.get(name, ())}

    works = [str(signals[it].rule["metric"]) for it in ("process_time", "processed", "queue_length") if it in signals]
    if not any(targets(it) & targets("process_start_time_seconds") for it in works):
        del signals["start_time"]
        missing["start_time"] = "process_start_time_seconds is of a target that tells of no work of a consumer"


def _left(seen: Seen, used: set[str]) -> dict[str, str]:
    """Metrics that look like lag or offsets and are not used, with the reason; those of a used metric's family are not told."""
    found: dict[str, str] = {}
    for metric, series in sorted(seen.items()):
        if metric in used or not _LIKE_LAG.search(metric) or not series or len(found) >= _MOST_LEFT:
            continue
        labels = series[0]
        lacking = [it for it in ("group", "topic", "partition") if not _label(labels, it)]
        if lacking:
            there = ", ".join(sorted(name for name in labels if name not in ("__name__", "job", "instance"))) or "none"
            found[metric] = f"no label looks like {', '.join(lacking)} (there are: {there})"
    return found


def _base(signal: str, metric: str) -> str:
    if SIGNALS[signal].kind is Kind.HISTOGRAM:
        return re.sub(r"_(bucket|sum|count)$", "", metric)
    return metric


def _namespace(names: Iterable[str]) -> str:
    """The first word that most metrics of an exporter have: it may contain "lag" or "offset" and says nothing."""
    counted = Counter(name.partition("_")[0] for name in names)
    word, count = counted.most_common(1)[0] if counted else ("", 0)
    return word if count > _MOSTLY * counted.total() else ""


def _without_namespace(name: str, namespace: str) -> str:
    return name.removeprefix(f"{namespace}_") if namespace else name


def _state_label(labels: Mapping[str, str]) -> str | None:
    return next((name for name in labels if name.lower() in ("state", "status", "group_state", "groupstate")), None)


def _score(
    signal: str, pattern: Pattern, metric: str, series: Sequence[Mapping[str, str]], *, namespace: str = ""
) -> float:
    histogram = SIGNALS[signal].kind is Kind.HISTOGRAM
    if histogram != metric.endswith(_HISTOGRAM) and histogram:
        return 0.0
    if not histogram and (metric.endswith("_bucket") or (metric.endswith("_sum") and pattern is not OF_TOPIC)):
        return 0.0
    # By OTLP, a gauge of the unit 1 ends with _ratio; CloudWatch's exporters end with the statistic.
    plain = re.sub(r"(?<=lag|set|ers)_ratio$|_maximum$|_average$", "", _base(signal, metric) if histogram else metric)
    name = _without_namespace(plain, namespace)
    if re.search(pattern.never, name):
        return 0.0
    matched = [weight for text, weight in pattern.wanted if re.search(text, name)]
    if not matched or max(matched) < 2:
        return 0.0
    labels = series[0] if series else {}
    lacking = [
        it for it in pattern.labels if not _label(labels, it) and not (it == "member" and _target(signal, labels))
    ]
    if signal == "consumer_lag" and not _label(labels, "group") and not _label(labels, "member"):
        return 0.0
    if signal == "committed_offset" and not _label(labels, "group") and "commit" not in name:
        return 0.0
    if signal == "group_state" and _state_label(labels) is None:
        return 0.0
    if lacking or any(_label(labels, it) for it in pattern.without):
        return 0.0
    # Finer labels are better, and so is a group of its own.
    return sum(matched) + 0.5 * bool(_label(labels, "group")) + 0.1 * (metric.endswith("_bucket"))


def _label(labels: Mapping[str, str], canonical: str) -> str | None:
    """The exporter's label for a canonical one, by its name; a partition also by its values."""
    plain = {
        re.sub(r"[^a-z0-9]", "", BEFORE_LABELS.sub("", name).lower()): name
        for name in labels
        if name not in ("__name__", "le", "exported_instance")
    }
    for wanted in LABELS[canonical]:
        name = plain.get(wanted)
        if name is not None and (canonical != "partition" or re.fullmatch(r"[0-9]+", labels[name])):
            return name
    return None


def _target(signal: str, labels: Mapping[str, str]) -> str | None:
    """Label of the target that names the process, for metrics of a process that do not name it themselves."""
    if signal not in IN_A_PROCESS:
        return None
    plain = {re.sub(r"[^a-z0-9]", "", name.lower()): name for name in labels}
    return next((plain[it] for it in OF_TARGET if it in plain), None)


def _rule(signal: str, pattern: Pattern, metric: str, labels: Mapping[str, str]) -> dict[str, object]:
    wanted = (*pattern.labels, *pattern.more)
    mapped = {
        it: theirs
        for it in ("group", "topic", "partition", "member", "broker", "processor", "queue")
        if it in wanted and (theirs := _label(labels, it))
    }
    mapped = {
        it: theirs for it, theirs in mapped.items() if list(mapped.values()).index(theirs) == list(mapped).index(it)
    }
    if "member" in wanted and "member" not in mapped and (process := _target(signal, labels)) is not None:
        mapped["member"] = process
    rule: dict[str, object] = {"metric": metric, "labels": mapped}
    if SIGNALS[signal].unit == "seconds":
        scale = next((factor for text, factor in _UNITS if re.search(text, metric)), None)
        if scale is not None:
            rule["scale"] = scale
    if signal == "throttle_time" and "scale" not in rule and "seconds" not in metric:
        rule["scale"] = 0.001  # the Kafka clients' own unit
    if signal == "group_state":
        rule["state_label"] = _state_label(labels)
    if signal == "consumer_lag" and "group" not in mapped:
        rule |= {"quality": "proxy", "note": "a client's own lag is behind its position, not behind the commit"}
    if signal == "time_lag":
        rule |= {"quality": "proxy", "note": "estimated by the exporter; exact only if it reads the records"}
    return rule


def _why_not(signal: str, pattern: Pattern, seen: Seen) -> str:
    for metric, series in seen.items():
        named = any(weight >= 2 and re.search(text, metric) for text, weight in pattern.wanted)
        if named and not re.search(pattern.never, metric) and series:
            lacking = [it for it in pattern.labels if not _label(series[0], it)]
            if lacking:
                return f"{metric} may be it, but no label of it looks like {' or '.join(lacking)}"
    return f"no metric looks like {SIGNALS[signal].help[0].lower()}{SIGNALS[signal].help[1:].rstrip('.')}"

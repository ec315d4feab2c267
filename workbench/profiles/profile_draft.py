"""Draft a profile from what a Prometheus shows: candidates by name, unit and labels. A person checks it; `profiles check` helps."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace

from workbench.profiles.draft_file import Draft, Drafted
from workbench.profiles.draft_labels import label_of, plain_label, state_label_of, target_of
from workbench.profiles.draft_labels_from_names import NUMBERS, Seen, by_place, namespace_of
from workbench.profiles.draft_outcomes import outcome_label, outcome_rule
from workbench.profiles.draft_services import HISTOGRAM, matcher_of, series_of, services_of, target_labels
from workbench.profiles.labels_in_metric_names import places as places_of
from workbench.profiles.usual_metric_names import (
    DERIVED_END,
    INTERESTING,
    LIKE_LAG,
    NO_COUNT,
    OF_TARGET,
    OF_TOPIC,
    OTLP_RATIO,
    OWN_UNITS,
    PATTERNS,
    TIMED,
    TO_DRAIN,
    UNITS,
    Pattern,
    in_words,
)
from workbench.signals import SIGNALS, Grain, Kind

_MOST_LEFT = 8
_ENOUGH = 2  # weight of a word by which a metric may be the signal's; the others only tell candidates apart
_POSITIONS = ("consumer_lag", "committed_offset", "time_lag")
# What only a process that consumes tells; and what it tells of itself where the name says that it does.
_WORK = ("process_time", "processed", "deserialized")
_OF_A_CONSUMER = ("rebalances", "heartbeat_age", "poll_age", "poll_idle")


def interesting(names: Iterable[str]) -> list[str]:
    """Metric names that may belong to a consumer."""
    return sorted(
        it
        for it in names
        if not it.endswith(("_created", "_info")) and (INTERESTING.search(in_words(it)) or _named(it))
    )


def _named(metric: str) -> bool:
    """Whether it is called as a signal's metric usually is: then no other word of its name has to be a consumer's.

    A count of records may have a label that tells how they ended.
    """
    name = in_words(metric)
    return any(
        (weight >= _ENOUGH or signal == "processed") and re.search(text, name) and not re.search(it.never, name)
        for signal, it in PATTERNS.items()
        for text, weight in it.wanted
    )


def draft(name: str, seen: Seen, *, most: int | None = None) -> Draft:
    """Draft a profile: of the scrape job that tells most of groups, and of the one that tells most of a consumer's own work.

    Metrics of two services are not mixed: a profile has one metric for each signal.

    Args:
        name: of the profile.
        seen: labels of some recent series of each metric.
        most: of a metric's series in one job, no more are in it; None: all are.
    """
    seen = by_place(
        seen, {it[label] for of in seen.values() for it in of for label in [label_of(it, "topic")] if label}
    )
    pages: dict[str, dict[str, list[Mapping[str, str]]]] = {}
    for metric, series in seen.items():
        for labels in series:
            pages.setdefault(labels.get("job", ""), {}).setdefault(metric, []).append(labels)
    services = {(job, at): of for job, page in sorted(pages.items()) for at, of in enumerate(_services(page, most))}
    drafts = {place: _of_job(name, page, most) for place, page in services.items()}
    if len(drafts) < 2:
        return next(iter(drafts.values()), _of_job(name, seen, most))
    inside = max(drafts, key=lambda place: len(_part(drafts[place], of_group=False)))
    outside = max(drafts, key=lambda place: len(_part(drafts[place], of_group=True)))
    work, group = _part(drafts[inside], of_group=False), _part(drafts[outside], of_group=True)
    if not group:  # no exporter: the consumer's own view of its lag
        outside, group = inside, {it: of for it, of in drafts[inside].signals.items() if it not in work}
    for ends in drafts.values():  # whose logs they are does not matter
        for signal, drafted in ends.signals.items():
            if group and SIGNALS[signal].grain is Grain.PARTITION:
                group.setdefault(signal, drafted)
    signals = {it: (group | work)[it] for it in PATTERNS if it in group | work}
    told = {str(it.rule["metric"]) for it in signals.values()}
    others = {
        place: [metric for it in _part(of, of_group=False).values() if (metric := str(it.rule["metric"])) not in told]
        for place, of in drafts.items()
        if place != inside
    }
    beside = {
        str(drafts[place].signals["process_time"].rule["metric"]): services[place]
        for place, metrics in others.items()
        if metrics and place[0] == inside[0] and "process_time" in drafts[place].signals
    }
    return replace(
        drafts[outside],
        signals=signals,
        missing={
            it: why for it, why in {**drafts[outside].missing, **drafts[inside].missing}.items() if it not in signals
        },
        member_is=drafts[inside].member_is if work else drafts[outside].member_is,
        left={**drafts[outside].left, **drafts[inside].left},
        jobs=tuple(dict.fromkeys(job for (job, _), metrics in others.items() if metrics and job != inside[0])),
        services={metric: matcher_of(page, metric) for metric, page in beside.items()},
    )


def _services(page: Seen, most: int | None) -> list[Seen]:
    timers = [it for it in page if _score("process_time", PATTERNS["process_time"], it, page[it], names=page) > 0]
    return services_of(page, timers, most)


def _part(of: Draft, *, of_group: bool) -> dict[str, Drafted]:
    """Signals that tell of groups from outside, if there is a lag or a commit among them; or of a consumer's own work."""
    if not of_group:
        return {it: drafted for it, drafted in of.signals.items() if it not in _POSITIONS and not _shared(it)}
    found = {
        it: drafted
        for it, drafted in of.signals.items()
        if _shared(it) or (it in _POSITIONS and "group" in drafted.labels)
    }
    return found if any(it in found for it in _POSITIONS) else {}


def _shared(signal: str) -> bool:
    return SIGNALS[signal].grain in (Grain.GROUP, Grain.PARTITION)


def _of_job(name: str, seen: Seen, most: int | None) -> Draft:
    signals: dict[str, Drafted] = {}
    missing: dict[str, str] = {}
    used: set[str] = set()
    namespace = namespace_of(seen)
    by_client = not any(label_of(labels, "group", metric) for metric, of in seen.items() for labels in of[:1])
    for signal, pattern in PATTERNS.items():
        scored = sorted(
            (
                (score, metric)
                for metric in seen
                if (score := _score(signal, pattern, metric, seen[metric], names=seen, namespace=namespace)) > 0
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
        signals[signal] = Drafted(rule=_rule(signal, pattern, metric, labels, seen), others=tuple(candidates[1:4]))
    if "processed" in missing and (counted := _counted_by(signals.get("process_time"), seen)) is not None:
        signals = {
            it: counted if it == "processed" else signals[it] for it in PATTERNS if it == "processed" or it in signals
        }
        del missing["processed"]
    if "consumer_lag" in missing and (whole := _of_topic(seen, used, namespace)) is not None:
        signals = {"consumer_lag": whole, **signals}
        used.add(str(whole.rule["metric"]))
        del missing["consumer_lag"]
    _without_strangers(signals, missing, seen, most)
    homeless = by_client or any("member" in it.labels and "group" not in it.labels for it in signals.values())
    return Draft(
        name=name,
        signals=signals,
        missing=missing,
        member_is="client_id" if homeless else "member",
        left=_left(seen, {*used, *(other for it in signals.values() for other in it.others)}),
    )


def _counted_by(timed: Drafted | None, seen: Seen) -> Drafted | None:
    """Attempts by their outcome, as a timer with such a label counts them, too."""
    metric = f"{timed.rule['metric']}_count" if timed is not None else ""
    labels = next(iter(seen.get(metric, ())), {})
    if outcome_label(labels) is None:
        return None
    return Drafted(rule=_rule("processed", PATTERNS["processed"], metric, labels, seen))


def _of_topic(seen: Seen, used: set[str], namespace: str) -> Drafted | None:
    """Lag of topics as a whole, as some exporters sum it up, and as it is kept where there are too many partitions."""
    scored = sorted(
        (-score, len(metric), metric)
        for metric in seen
        if metric not in used
        and (score := _score("consumer_lag", OF_TOPIC, metric, seen[metric], names=seen, namespace=namespace))
    )
    if not scored:
        return None
    names = [metric for _, _, metric in scored]
    rule = _rule("consumer_lag", OF_TOPIC, names[0], seen[names[0]][0], names)
    note = "of a topic as a whole: a stuck or hot partition cannot be seen"
    return Drafted(rule={**rule, "quality": "proxy", "note": note}, others=tuple(names[1:4]))


def _without_strangers(signals: dict[str, Drafted], missing: dict[str, str], seen: Seen, most: int | None) -> None:
    """What names no member but its target (every program tells when it began) is a member's only if this target tells of its work."""

    def targets(metric: str) -> set[tuple[str | None, str | None]]:
        return {target_labels(it) for it in series_of(seen, metric)}

    telling = {it: str(signals[it].rule["metric"]) for it in (*_WORK, *_OF_A_CONSUMER) if it in signals}
    working = [targets(metric) for it, metric in telling.items() if it in _WORK or "consumer" in metric]
    for signal, drafted in list(signals.items()):
        metric = str(drafted.rule["metric"])
        unnamed = "group" not in drafted.labels and plain_label(drafted.labels.get("member", "")) in OF_TARGET
        if unnamed and signal not in (*_WORK, "consumer_lag") and not any(targets(metric) & it for it in working):
            # Of a service with more pods, each metric has other ones here.
            if most is not None and len(seen.get(metric, ())) >= most:
                note = "only if the pods of the consumers tell it: not all of its series were looked at"
                signals[signal] = replace(drafted, rule={**drafted.rule, "note": note})
                continue
            del signals[signal]
            missing[signal] = f"{metric} is of a target that tells of no work of a consumer"


def _left(seen: Seen, used: set[str]) -> dict[str, str]:
    """Metrics that look like lag or offsets and are not used, with the reason; those of a used metric's family are not told."""
    found: dict[str, str] = {}
    for metric, series in sorted(seen.items()):
        unlike = not LIKE_LAG.search(metric) or re.search(r"event_?loop|_bucket$", metric)
        if metric in used or unlike or not series or len(found) >= _MOST_LEFT:
            continue
        labels = series[0]
        lacking = [it for it in ("group", "topic", "partition") if not label_of(labels, it, metric)]
        if lacking:
            there = ", ".join(sorted(name for name in labels if name not in ("__name__", "job", "instance"))) or "none"
            found[metric] = f"no label looks like {', '.join(lacking)} (there are: {there})"
        elif re.search(DERIVED_END, metric) and f"{metric.rpartition('_')[0]}_max" not in used:
            found[metric] = "a statistic of many values by its name, not the value of the moment"
        elif re.search(TO_DRAIN, metric):
            found[metric] = "the time that it will take to drain, not how long messages have waited"
    return found


def _base(signal: str, metric: str) -> str:
    if SIGNALS[signal].kind is Kind.HISTOGRAM:
        return re.sub(r"_(bucket|sum|count)$", "", metric)
    return metric


def _of_summary(metric: str, names: Container[str]) -> bool:
    """Whether it is the maximum of values that were counted and added up: the last one is told by nothing else."""
    whole = metric.removesuffix("_max")
    return whole != metric and whole not in names and f"{whole}_sum" in names and f"{whole}_count" in names


def _score(
    signal: str,
    pattern: Pattern,
    metric: str,
    series: Sequence[Mapping[str, str]],
    *,
    names: Container[str],
    namespace: str = "",
) -> float:
    histogram = SIGNALS[signal].kind is Kind.HISTOGRAM
    if histogram != metric.endswith(HISTOGRAM) and histogram:
        return 0.0
    if not histogram and (metric.endswith("_bucket") or (metric.endswith("_sum") and pattern is not OF_TOPIC)):
        return 0.0
    # By OTLP, a gauge of the unit 1 ends with _ratio; CloudWatch's exporters end with the statistic.
    plain = re.sub(r"_maximum$|_average$", "", OTLP_RATIO.sub("", _base(signal, metric) if histogram else metric))
    if SIGNALS[signal].grain in (Grain.PARTITION, Grain.GROUP_PARTITION) and _of_summary(metric, names):
        plain = plain.removesuffix("_max")
    plain = in_words(plain)
    name = plain.removeprefix(f"{namespace}_") if namespace else plain
    if re.search(pattern.never, name) or _odd_unit(signal, plain):
        return 0.0
    labels = series[0] if series else {}
    matched = [weight for text, weight in pattern.wanted if re.search(text, name)]
    if signal == "processed" and matched and outcome_label(labels) is not None:
        matched.append(2)  # what counts how things ended counts what was done
    if signal == "process_time" and outcome_label(labels) is not None and re.search(rf"{TIMED}$", name):
        matched.append(1)  # what is timed and ends this way or that is an attempt
    if signal == "process_time" and matched and (label_of(labels, "topic") or label_of(labels, "event_type")):
        matched.append(2)  # any duration by topic or by event type is one of a handler
    if not matched or max(matched) < _ENOUGH:
        return 0.0
    if signal == "deserialized" and _score("processed", PATTERNS["processed"], metric, series, names=names):
        return 0.0  # what counts how things ended does not count what was taken
    lacking = _lacking(signal, pattern, metric, labels)
    if signal in ("consumer_lag", "time_lag") and not any(
        (label_of(labels, "group", metric), label_of(labels, "member"), target_of(signal, metric, labels))
    ):
        return 0.0
    if signal == "committed_offset" and not label_of(labels, "group", metric) and "commit" not in name:
        return 0.0
    if signal == "group_state" and state_label_of(labels) is None:
        return 0.0
    if lacking or any(label_of(labels, it) for it in pattern.without):
        return 0.0
    # Finer labels are better, and so is a group of its own.
    finer = sum(
        bool(label_of(labels, it, metric))
        for it in ("group", "broker", "processor")
        if it in (*pattern.labels, *pattern.more)
    )
    return sum(matched) + 0.5 * finer + 0.1 * (metric.endswith("_bucket"))


def _rule(
    signal: str, pattern: Pattern, metric: str, labels: Mapping[str, str], names: Iterable[str]
) -> dict[str, object]:
    wanted = (*pattern.labels, *pattern.more)
    mapped: dict[str, str] = {
        it: theirs
        for it in ("group", "topic", "partition", "member", "broker", "processor", "queue")
        if it in wanted and (theirs := label_of(labels, it, metric))
    }
    mapped = {
        it: theirs for it, theirs in mapped.items() if list(mapped.values()).index(theirs) == list(mapped).index(it)
    }
    if "member" in wanted and "member" not in mapped and (process := target_of(signal, metric, labels)) is not None:
        mapped["member"] = process
    rule: dict[str, object] = {"metric": metric, "labels": mapped}
    numbers = [it for it in places_of(metric) if it in NUMBERS]
    if "partition" in mapped and "group" not in mapped and not numbers:
        numbers = [mapped["partition"]]  # clients made with librdkafka have one of their own, -1
    if numbers:
        rule["where"] = dict.fromkeys(numbers, "[0-9]+")
    notes = []
    if SIGNALS[signal].unit == "seconds" and signal != "start_time":
        words = in_words(metric)
        scale = next((factor for text, factor in UNITS if re.search(text, words)), None)
        if scale is None and not re.search(r"seconds|_s(_|$)", words):
            scale = next((factor for text, factor in OWN_UNITS if re.search(text, words)), None)
            notes += [] if scale is not None else ["its name has no unit: taken for seconds"]
        if scale is not None:
            rule["scale"] = scale
    if signal == "poll_idle" and metric.endswith("poll_idle_ratio_avg"):
        rule["counted_twice"] = True
        notes.append("a share as Java's clients tell it; librdkafka's needs no counted_twice")
    if signal == "group_state":
        rule["state_label"] = state_label_of(labels)
    if signal == "processed":
        told, noted = outcome_rule(metric, labels, names)
        rule, notes = rule | told, [*notes, *noted]
    if (proxy := _proxy(signal, metric, mapped)) is not None:
        rule["quality"] = "proxy"
        notes.insert(0, proxy)
    if notes:
        rule["note"] = "; ".join(notes)
    return rule


def _proxy(signal: str, metric: str, mapped: Mapping[str, str]) -> str | None:
    """Why a metric is less than its signal."""
    if signal == "consumer_lag" and "group" not in mapped:
        return "a client's own lag is behind its position, not behind the commit"
    if SIGNALS[signal].kind is Kind.GAUGE and metric.endswith("_max"):
        return "the largest value of the last minutes"
    if signal == "time_lag":
        return "estimated by the exporter; exact only if it reads the records"
    if signal == "deserialized" and not re.search("deserial|decod", metric):
        return "messages delivered to the application"
    if signal == "fetch_queue_length" and "partition" not in mapped:
        return "of the whole client"
    if signal == "broker_rtt" and "fetch" in metric:
        return "of fetches, long polls included"
    if signal == "broker_rtt" and "request" in metric:
        return "of all requests, long polls included"
    return None


def _why_not(signal: str, pattern: Pattern, seen: Seen) -> str:
    for metric, series in seen.items():
        named = any(weight >= _ENOUGH and re.search(text, metric) for text, weight in pattern.wanted)
        if named and series and not re.search(pattern.never, metric) and not _odd_unit(signal, metric):
            lacking = _lacking(signal, pattern, metric, series[0])
            if lacking:
                return f"{metric} may be it, but no label of it looks like {' or '.join(lacking)}"
    return f"no metric looks like {SIGNALS[signal].help[0].lower()}{SIGNALS[signal].help[1:].rstrip('.')}"


def _lacking(signal: str, pattern: Pattern, metric: str, labels: Mapping[str, str]) -> list[str]:
    return [
        it
        for it in pattern.labels
        if not label_of(labels, it, metric) and not (it == "member" and target_of(signal, metric, labels))
    ]


def _odd_unit(signal: str, metric: str) -> bool:
    """Whether a metric has the unit of a time or a size by its name, and the signal is a count."""
    return SIGNALS[signal].unit not in ("seconds", "ratio") and re.search(NO_COUNT, metric) is not None

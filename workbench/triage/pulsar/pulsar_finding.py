"""A finding about a subscription of Pulsar: that of its worst partition, and what is different on the others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import fields

from workbench.humanize import listed, plural
from workbench.queues.dispatching_queues import DispatchTools
from workbench.thresholds import Thresholds
from workbench.triage.finding import Finding, Missing, PartitionLag, PathStep, Scope, TimeLag
from workbench.triage.measured_from_spark_rows import measured_from
from workbench.triage.pulsar.pulsar_facts import Known
from workbench.triage.pulsar.pulsar_status import behind
from workbench.triage.pulsar.pulsar_walk import DispatchStep, JudgedPart, worst_first
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.verdict_names import AnyVerdict, State, Verdict


def pulsar_finding(cluster: str, group: str, parts: Sequence[JudgedPart], *, tools: DispatchTools) -> Finding:
    """Build the finding of one subscription of its partitions, at least one."""
    ordered = worst_first(parts)
    worst = ordered[0]
    known, leaf = worst.known, worst.leaf
    same = [it.known.part.partition for it in ordered if it.verdict is worst.verdict]
    where = _where(same, len(parts)) if leaf.state is not State.HEALTHY else ""
    entries = [it.known.part.entries for it in parts]
    ages = [_age(it.known) for it in parts]
    return Finding(
        cluster=cluster,
        group=group,
        topic=known.part.topic,
        verdict=worst.verdict,
        state=leaf.state,
        headline=where + _headline(worst),
        scope=Scope(partitions=tuple(sorted(same)) if len(parts) > 1 and leaf.state is not State.HEALTHY else ()),
        time_lag=_time_lag(ages),
        lag_messages=0 if entries and not any(it != 0 for it in entries) else None,
        lag_entries=_sum(entries),
        arrival_per_second=None,
        lag_slope=None,
        eta_drain_seconds=known.drain_seconds if leaf.state is State.DRAINING else None,
        eta_loss_seconds=None,
        path=tuple(_step(it, known) for it in worst.path),
        partitions=tuple(
            PartitionLag(
                partition=it.known.part.partition,
                committed=None,
                log_end=None,
                lag_messages=0 if it.known.part.entries == 0 else None,
                time_lag_seconds=age,
            )
            for it, age in zip(parts, ages, strict=True)
        ),
        candidates=worst.candidates,
        missing=tuple(_missing(worst)),
        actions=tuple(leaf.actions(tools, known)),
        runbook=leaf.runbook,
        kind=known.part.kind,
        not_ruled_out=tuple(
            f"{question.short.rstrip('?').capitalize()}: {rule.because}."
            for question, rule in worst.passed
            if worst.verdict is not Verdict.CANNOT_TELL
        ),
        also_seen=_also_seen(ordered, worst),
        features=_nothing_measured(cluster, group, known.part.topic),
    )


def _nothing_measured(cluster: str, group: str, topic: str) -> SubscriptionFeatures:
    """Features of the tree for Kafka's groups: none of them is known of such a subscription."""
    measured = measured_from({"cluster": cluster, "group": group, "topic": topic})
    return SubscriptionFeatures(
        **{it.name: getattr(measured, it.name) for it in fields(measured)},
        limits=Thresholds(),
        schedule=None,
        at=None,
        answers={},
        reasons={},
        verdict=Verdict.CANNOT_TELL,
    )


def _headline(it: JudgedPart) -> str:
    """In one sentence; of "cannot tell" the question that has ended the walk."""
    if it.verdict is Verdict.CANNOT_TELL and it.passed:
        return f"Cannot tell: {behind(it.known)}; {it.passed[-1][1].because}."
    return it.leaf.headline(it.known)


def _where(partitions: Sequence[int], of: int) -> str:
    if of == 1 or len(partitions) == of:
        return ""
    return f"Partition {partitions[0]}: " if len(partitions) == 1 else f"Partitions {listed(sorted(partitions))}: "


def _age(known: Known) -> float | None:
    return 0.0 if known.part.entries == 0 else known.age_seconds


def _time_lag(ages: Sequence[float | None]) -> TimeLag:
    told = [it for it in ages if it is not None]
    oldest = max(told, default=None) if len(told) == len(ages) else None
    return TimeLag(seconds=oldest, method="unknown" if oldest is None else "publish_time", low=oldest, high=oldest)


def _sum(numbers: Sequence[int | None]) -> int | None:
    told = [it for it in numbers if it is not None]
    return sum(told) if len(told) == len(numbers) else None


def _step(step: DispatchStep, known: Known) -> PathStep:
    question, rule = step
    return PathStep(
        node=question.id,
        question=question.question,
        answer=rule.answer,
        words=rule.words(known),
        evidence=(),
        because=rule.because_of(known),
    )


def _missing(worst: JudgedPart) -> list[Missing]:
    """Open questions of "cannot tell", each with what would decide."""
    if worst.verdict is not Verdict.CANNOT_TELL:
        return []
    return [
        Missing(
            signal=question.short.rstrip("?").capitalize(),
            how_to_get_it=f"{rule.because[0].upper()}{rule.because[1:]}. To decide: {rule.look}.",
        )
        for question, rule in worst.passed
    ]


def _also_seen(ordered: Sequence[JudgedPart], worst: JudgedPart) -> tuple[str, ...]:
    """Why it lags beside a loss, and other verdicts of the subscription's partitions, a sentence each."""
    others: dict[AnyVerdict, list[JudgedPart]] = defaultdict(list)
    for it in ordered:
        others[it.verdict].append(it)
    del others[worst.verdict]
    found = [f"It lags, too. {it.leaf.headline(it.known)}" for it in (worst.besides,) if it is not None]
    for them in others.values():
        if them[0].leaf.state is State.HEALTHY:
            found.append(f"{plural(len(them), 'partition')} healthy.")
        else:
            found.append(_where([it.known.part.partition for it in them], len(ordered) + 1) + _headline(them[0]))
    return tuple(found)

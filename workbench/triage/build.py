"""From a row of answered features to a finding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from workbench.humanize import listed
from workbench.profiles import Profile, Quality
from workbench.settings import Thresholds
from workbench.signals import SIGNALS
from workbench.triage import capacity
from workbench.triage.actions import actions_for
from workbench.triage.finding import Evidence, Finding, Missing, PartitionLag, PathStep, Scope, TimeLag
from workbench.triage.tree import TREE, Measure, Node
from workbench.triage.verdict import Answer, Verdict, runbook_of, state_of
from workbench.triage.walk import answers_of, candidates, open_questions, path_of
from workbench.triage.wording import answer_words, headline

Row = Mapping[str, Any]


def build_finding(
    row: Row,
    *,
    thresholds: Thresholds,
    profiles: Sequence[Profile],
    since: datetime | None = None,
    bootstrap: str | None = None,
) -> Finding:
    """The finding of one subscription.

    Args:
        row: a row of `triage.walk.with_verdicts`, nested structs as dictionaries.
        since: when it began, if that is known.
        bootstrap: of the cluster, for the commands, if it is known.
        thresholds: those that the row was answered with.
        profiles: those that the samples came through; they say how a missing signal could be had.
    """
    answers = answers_of(row)
    verdict = Verdict(row["verdict"])
    path = path_of(answers)
    sizing = capacity.sizing_for(verdict, row, objective_seconds=thresholds.time_lag_objective_seconds)
    return Finding(
        cluster=row["cluster"],
        group=row["group"],
        topic=row["topic"],
        verdict=verdict,
        state=state_of(verdict),
        headline=headline(verdict, row),
        scope=_scope(verdict, row, sizing.keep_up if sizing is not None else None),
        time_lag=_time_lag(row),
        lag_messages=_whole(row["lag_messages"]),
        arrival_per_second=row["arrival_per_second"],
        lag_slope=row["lag_slope"],
        eta_drain_seconds=capacity.drain_seconds(row),
        eta_loss_seconds=row["loss_seconds"],
        path=tuple(_step(node, answers[node.id], row, thresholds) for node in path),
        partitions=tuple(_partition(item) for item in row["partitions"]),
        candidates=tuple(candidates(answers)) if verdict is Verdict.CANNOT_TELL else (),
        contributing=_contributing(answers, path, verdict, row),
        missing=_missing(answers, verdict, row, profiles),
        actions=actions_for(verdict, row, thresholds=thresholds, since=since, bootstrap=bootstrap),
        runbook=runbook_of(verdict),
        since=since,
        sizing=sizing.words if sizing is not None else None,
        features=row,
    )


def _step(node: Node, answer: Answer, row: Row, thresholds: Thresholds) -> PathStep:
    return PathStep(
        node=node.id,
        question=node.question,
        answer=answer,
        words=answer_words(node.id, row),
        evidence=tuple(_evidence(measure, row, thresholds) for measure in node.measures),
    )


def _evidence(measure: Measure, row: Row, thresholds: Thresholds) -> Evidence:
    return Evidence(
        signal=measure.signal,
        value=row[measure.column],
        unit=measure.unit,
        threshold=getattr(thresholds, measure.threshold) if measure.threshold else None,
        baseline=row[measure.baseline] if measure.baseline else None,
        peers=row[measure.peers] if measure.peers else None,
    )


def _time_lag(row: Row) -> TimeLag:
    oldest = row["oldest"]
    if oldest is None or oldest["time_lag_seconds"] is None:
        return TimeLag(seconds=None, method="unknown")
    return TimeLag(
        seconds=oldest["time_lag_seconds"],
        method=oldest["time_lag_method"],
        low=oldest["time_lag_low"],
        high=oldest["time_lag_high"],
    )


def _partition(item: Row) -> PartitionLag:
    return PartitionLag(
        partition=item["partition"],
        committed=_whole(item["committed"]),
        log_end=_whole(item["log_end"]),
        lag_messages=_whole(item["lag_messages"]),
        time_lag_seconds=item["time_lag_seconds"],
    )


def _scope(verdict: Verdict, row: Row, needed: int | None) -> Scope:
    match verdict:
        case Verdict.SLOW_PROCESSOR:
            return Scope(processors=tuple(row["slow_processors"]), needed=needed)
        case Verdict.SATURATED_PROCESSORS:
            names = tuple(sorted({queue["processor"] for queue in row["full_queues"]}))
            return Scope(processors=names, needed=needed)
        case Verdict.HOT_KEY:
            hot = row["hot_queues"]
            return Scope(
                processors=tuple(sorted({queue["processor"] for queue in hot})),
                queues=tuple(f"{queue['member']}/{queue['processor']}/{queue['queue']}" for queue in hot),
                members=tuple(sorted({queue["member"] for queue in hot})),
            )
        case Verdict.STUCK_PARTITION:
            stuck = tuple(row["stuck_partitions"])
            offset = next((p["committed"] for p in row["partitions"] if p["partition"] in stuck), None)
            return Scope(partitions=stuck, offset=_whole(offset))
        case Verdict.HOT_PARTITION:
            return Scope(partitions=tuple(row["hot_partitions"]))
        case Verdict.TOO_FEW_CONSUMERS | Verdict.PARTITION_CEILING:
            return Scope(needed=needed)
        case Verdict.SLOW_NETWORK:
            slow = [m for m in row["members"] or () if m["rtt_seconds"] == row["rtt_seconds"]]
            return Scope(
                members=tuple(m["member"] for m in slow),
                brokers=tuple(sorted({m["rtt_broker"] for m in slow if m["rtt_broker"]})),
            )
        case Verdict.CONSUMER_STOPPED:
            gone = tuple(m["member"] for m in row["members"] or () if not m["live"])
            return Scope(members=tuple(row["hung_members"] or ()) or gone)
        case Verdict.REBALANCE_STORM:
            cause = row["storm_cause"]
            who = row["paused_members"] if cause == "poll_stall" else row["changed_members"]
            return Scope(cause=cause, members=tuple(who or ()) if cause not in (None, "metadata_change") else ())
        case _:
            return Scope()


def _contributing(answers: Mapping[str, Answer], path: Sequence[Node], verdict: Verdict, row: Row) -> tuple[str, ...]:
    """What is also true off the path; of a healthy subscription nothing is worth the line."""
    if state_of(verdict) != state_of(Verdict.SLOW_PROCESSOR):
        return ()
    asked = {node.id for node in path}
    also = []
    if verdict is not Verdict.REBALANCE_STORM and (changed := row["changed_members"]):
        also.append(f"Members that came, went or restarted in the window: {listed(sorted(changed))}.")
    return (
        *also,
        *(
            f"{node.short.rstrip('?').capitalize()}: {answer_words(node.id, row)}."
            for node in TREE.values()
            if node.contributes and node.id not in asked and answers[node.id] is Answer.YES
        ),
    )


def _missing(
    answers: Mapping[str, Answer], verdict: Verdict, row: Row, profiles: Sequence[Profile]
) -> tuple[Missing, ...]:
    """What the open questions on the ways that are left would need; what is there already is not asked for again."""
    if verdict is not Verdict.CANNOT_TELL:
        return ()
    found: dict[str, None] = {}
    for node in open_questions(answers):
        known = {measure.signal for measure in node.measures if row[measure.column] is not None}
        absent = [name for name in node.needs if name not in known]
        found |= dict.fromkeys(absent or node.needs)
    return tuple(Missing(signal=name, how_to_get_it=_how_to_get(name, profiles)) for name in found)


def _how_to_get(signal: str, profiles: Sequence[Profile]) -> str:
    definition = SIGNALS[signal]
    giving = [profile for profile in profiles if profile.quality(signal) is not Quality.ABSENT]
    if giving:
        metric = giving[0].signals[signal].metric
        return f"The profile {giving[0].name} reads it from {metric}, which has no series here: is its target up?"
    return (
        f"No profile in use gives it. It is: {definition.help} The reference runtime exports it as {definition.metric}."
    )


def _whole(number: float | None) -> int | None:
    return None if number is None else round(number)

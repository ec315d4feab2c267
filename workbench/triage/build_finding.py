"""Build a finding from a row of answered features."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from workbench.features.subscription_measurements import PartitionFeatures
from workbench.humanize import duration, significant
from workbench.judgement_numbers import LOSS_SECONDS, MOST
from workbench.profiles import Profile, Quality, lag_arrives_late, load_profile, profile_names, system_among, why_absent
from workbench.profiles.profile_fit import what_to_add
from workbench.queues.group_kinds import cannot_judge
from workbench.signals import SIGNALS
from workbench.triage import capacity
from workbench.triage.action_subject import Recording, Subject
from workbench.triage.finding import (
    MEASURED,
    Action,
    Because,
    Compared,
    Evidence,
    Finding,
    Missing,
    PartitionLag,
    PathStep,
    Shortfall,
    TimeLag,
)
from workbench.triage.lag_share_by_cause import shortfall_of
from workbench.triage.question_order import TREE
from workbench.triage.question_types import Ask, Measure, Node
from workbench.triage.rank_candidate_causes import likeliest_first
from workbench.triage.second_faults import also_true, said_of
from workbench.triage.shared_actions import keep_longer, offered
from workbench.triage.status import lagging, reset
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.tree_walk import candidates, open_questions, proven_by, way_of
from workbench.triage.verdict_leaves import leaf_of
from workbench.triage.verdict_names import Answer, State, Verdict


def build_finding(
    row: SubscriptionFeatures,
    *,
    profiles: Sequence[Profile],
    since: datetime | None = None,
    bootstrap: str | None = None,
    login_file: str | None = None,
    recording: Recording | None = None,
) -> Finding:
    """Build the finding of one subscription.

    Args:
        row: of `triage.measured_from_spark_rows.features_of`.
        since: onset, if it is known.
        bootstrap: of the cluster, for the commands, if it is known.
        login_file: for its own tools, of `Cluster`.
        recording: that the row was read from; None: a live cluster.
        profiles: those that mapped the samples; they say how to get a missing signal.
    """
    answers, verdict = row.answers, row.verdict
    path = [TREE[name] for name in row.path]
    leaf = leaf_of(verdict)
    sizing = leaf.sizing(row)
    at_risk = _is_at_risk(row, leaf.state)
    when = f"in about {duration(row.loss_seconds)}" if row.loss_seconds and round(row.loss_seconds) else "now"
    loss = f"Retention deletes unread messages {when}. " if at_risk else ""
    shortfall = shortfall_of(row, leaf.state)
    beside, late = _beside(row), lag_arrives_late(profiles)
    subject = Subject(
        row.cluster, row.group, row.topic, since, bootstrap, recording, system_among(profiles), login_file
    )
    return Finding(
        cluster=row.cluster,
        group=row.group,
        topic=row.topic,
        verdict=verdict,
        state=leaf.state,
        headline="".join(
            (
                loss,
                leaf.headline(row),
                _most_of_it(shortfall) if verdict is Verdict.CANNOT_TELL else "",
                f" These values are {duration(late)} old when they arrive: so it was then." if late else "",
            )
        ),
        scope=replace(
            leaf.scope(row),
            needed=sizing.keep_up if sizing is not None else None,
            needed_what=sizing.what if sizing is not None else None,
        ),
        time_lag=TimeLag.of(row.oldest),
        lag_messages=_whole(row.lag_messages),
        arrival_per_second=row.arrival_per_second,
        lag_slope=lagging.trend(row),
        eta_drain_seconds=_eta_drain(row),
        eta_loss_seconds=row.loss_seconds,
        path=tuple(_step(node, row) for node in path),
        partitions=tuple(_partition(item) for item in row.partitions),
        candidates=tuple(likeliest_first(candidates(answers), row)) if verdict is Verdict.CANNOT_TELL else (),
        contributing=also_true(row, path, leaf),
        missing=_missing(answers, verdict, row, profiles),
        not_ruled_out=tuple(
            said_of(TREE[name], TREE[name].rule(row.reasons[name]).because)
            for name in row.passed
            if TREE[name].by != "side"
        ),
        also_seen=_also_seen(row, beside),
        actions=tuple(
            offered(subject, (*(_keep(subject, row) if at_risk else ()), *_actions(subject, row, beside, shortfall)))
        ),
        runbook=leaf.runbook,
        since=since,
        sizing=sizing.words if sizing is not None else None,
        shortfall=shortfall,
        features=row,
    )


def of_kind(finding: Finding, kind: str | None) -> Finding:
    """The finding with the kind of its group; for a kind that the questions are not about, the verdict is "cannot tell"."""
    why = cannot_judge(kind) if kind is not None else None
    if why is None:
        return replace(finding, kind=kind)
    it = finding
    return Finding(
        cluster=it.cluster,
        group=it.group,
        topic=it.topic,
        kind=kind,
        verdict=Verdict.CANNOT_TELL,
        state=State.CANNOT_TELL,
        headline=f"Cannot tell: {why}.",
        lag_messages=it.lag_messages,
        arrival_per_second=it.arrival_per_second,
        lag_slope=it.lag_slope,
        partitions=it.partitions,
        runbook=leaf_of(Verdict.CANNOT_TELL).runbook,
        features=it.features,
    )


def _most_of_it(shortfall: Shortfall | None) -> str:
    """What measured part explains most of what is not read, where nothing decides why."""
    most = shortfall.parts[0] if shortfall is not None else None
    return f" Measured: {most.words}." if most is not None and most.share >= MOST else ""


def _also_seen(row: SubscriptionFeatures, beside: SubscriptionFeatures | None) -> tuple[str, ...]:
    """What an open side question leaves possible; and, where records were lost or commits set back, why the group lags."""
    found = []
    for node in (TREE[name] for name in row.passed if TREE[name].by == "side"):
        look = node.rule(row.reasons[node.id]).look
        found.append(f"{node.words(row).capitalize()}." + (f" To decide: {look}." if look is not None else ""))
    if beside is not None:
        found.append(f"It lags, too. {leaf_of(beside.verdict).headline(beside)}")
    return tuple(found)


def _beside(row: SubscriptionFeatures) -> SubscriptionFeatures | None:
    """The same, as it is judged by its lag alone, where records were lost or commits set back; None: it does not lag."""
    if row.verdict not in (Verdict.RECORDS_LOST, Verdict.OFFSETS_RESET) or row.answers["lagging"] is not Answer.YES:
        return None
    way = way_of(row.answers, proven_by(row.reasons), row, Ask("lagging"))
    return replace(row, verdict=way.verdict, path=tuple(it.id for it in way.path))


def _actions(
    it: Subject, row: SubscriptionFeatures, beside: SubscriptionFeatures | None, shortfall: Shortfall | None
) -> Iterator[Action]:
    """Those of the verdict, and then of what else keeps the lag."""
    first = list(leaf_of(row.verdict).actions(it, row))
    yield from first
    # Commits that were set back keep it themselves, as long as that is read again.
    reset_keeps_it = row.verdict is Verdict.OFFSETS_RESET and not reset.read_again(row)
    second = beside.verdict if beside is not None else _larger(row, shortfall)
    if second not in (None, Verdict.CANNOT_TELL) and not reset_keeps_it:
        told = {action.title for action in first}
        yield from (action for action in leaf_of(second).actions(it, beside or row) if action.title not in told)


def _larger(row: SubscriptionFeatures, shortfall: Shortfall | None) -> Verdict | None:
    """Another cause that the data show, and that leaves more unread than the verdict's."""
    if shortfall is None or row.verdict is Verdict.CANNOT_TELL:
        return None
    largest = Verdict(shortfall.parts[0].cause)
    shown = {it for node in TREE.values() if row.answers[node.id] is Answer.YES for it in node.yes.verdicts}
    return largest if largest in shown - {row.verdict} else None


def _is_at_risk(row: SubscriptionFeatures, state: State) -> bool:
    if state is State.HEALTHY or row.loss_seconds is None or row.loss_seconds > LOSS_SECONDS:
        return False
    return row.eta_drain_seconds is None or row.eta_drain_seconds >= row.loss_seconds


def _keep(it: Subject, row: SubscriptionFeatures) -> tuple[Action, ...]:
    """First of all, keep what has not been read."""
    if row.verdict is Verdict.RECORDS_LOST:  # whose own actions begin with it
        return ()
    return (
        keep_longer(
            it,
            "Keep the unread messages: raise the topic's retention.ms until the group has caught up",
            "the log start no longer comes closer to the commits",
        ),
    )


def _eta_drain(row: SubscriptionFeatures) -> float | None:
    """Until the last partition has caught up; None if one that is late does not."""
    if row.behind_partitions or row.frozen_partitions:
        return None
    if row.eta_drain_seconds is not None:
        return row.eta_drain_seconds
    return capacity.drain_seconds(row.lag_messages, row.lag_slope)


def _step(node: Node, row: SubscriptionFeatures) -> PathStep:
    return PathStep(
        node=node.id,
        question=node.question,
        answer=row.answers[node.id],
        words=node.words(row),
        evidence=tuple(_evidence(measure, row) for measure in node.measures),
        because=because(node, row),
    )


def because(node: Node, row: SubscriptionFeatures) -> Because | None:
    """The rule that answered a question, with the comparisons of it that hold; None for a row whose questions were not asked.

    A rule may have several ways to hold, and one of its numbers may not be known: what decided otherwise is no evidence.
    """
    name = row.reasons.get(node.id)
    if name is None:
        return None
    rule = node.rule(name)
    return Because(
        rule=rule.id,
        sentence=rule.because,
        operands=tuple(
            Compared(
                name=it.fact,
                value=getattr(row, it.fact),
                unit=it.unit,
                relation=it.relation,
                limit=it.limit(row),
                origin=it.origin,
            )
            for it in rule.operands
            if it.holds(row) is True
        ),
        look=rule.look,
    )


def _evidence(measure: Measure, row: SubscriptionFeatures) -> Evidence:
    limit = getattr(row.limits, measure.threshold) if measure.threshold else None
    baseline = getattr(row, measure.baseline) if measure.baseline else None
    rule = None
    if limit is not None and measure.times is not None:
        # A multiple: the limit itself is in the unit of the value, if it is known what the multiple is of.
        rule = f"{significant(limit)} × {measure.times}"
        limit = limit * baseline if baseline is not None else None
    return Evidence(
        signal=measure.signal,
        value=getattr(row, measure.column),
        unit=measure.unit,
        threshold=limit,
        rule=rule,
        baseline=baseline,
        peers=getattr(row, measure.peers) if measure.peers else None,
    )


def _partition(item: PartitionFeatures) -> PartitionLag:
    return PartitionLag(
        partition=item.partition,
        committed=_whole(item.committed),
        log_end=_whole(item.log_end),
        lag_messages=_whole(item.lag_messages),
        time_lag_seconds=item.time_lag_seconds,
    )


def _missing(
    answers: Mapping[str, Answer], verdict: Verdict, row: SubscriptionFeatures, profiles: Sequence[Profile]
) -> tuple[Missing, ...]:
    """Signals that the open questions need and that have no data."""
    if verdict is not Verdict.CANNOT_TELL:
        return ()
    found: dict[str, Missing] = {}
    # By all questions: one that compares it with before knows nothing of it where there is no good time to compare with.
    known = {it.signal for node in TREE.values() for it in node.measures if getattr(row, it.column) is not None}
    for node in open_questions(answers):
        absent = [name for name in node.needs if name not in known]
        found |= {name: _how_to_get(name, profiles) for name in absent}
        if not absent:
            found |= {name: Missing(signal=name, how_to_get_it=_why_open(node, row)) for name in node.needs}
    return tuple(found.values())


def _why_open(node: Node, row: SubscriptionFeatures) -> str:
    """Why a question is open although its signals are there, and the look that would decide."""
    name = row.reasons.get(node.id)
    rule = node.rule(name) if name is not None else None
    if rule is None:
        return f"{MEASURED}it does not decide this question: look again in a minute, or at another window."
    look = f" To decide: {rule.look}." if rule.look is not None else ""
    return f"{MEASURED}{rule.because}.{look}"


def _how_to_get(signal: str, profiles: Sequence[Profile]) -> Missing:
    definition = SIGNALS[signal]
    giving = [profile for profile in profiles if profile.quality(signal) is not Quality.ABSENT]
    if giving:
        name, metric = giving[0].name, giving[0].signals[signal].metric
        of_calls = _of_calls(profiles) if giving[0].member_is == "thread" and signal == "process_time" else ""
        words = f"The profile {name} reads it from {metric}, which has no series in this window{of_calls}. Is its target up?"
        return Missing(signal=signal, how_to_get_it=words, profile=name, metric=metric)
    if (reason := why_absent(signal, profiles)) is not None:
        return Missing(signal=signal, how_to_get_it=reason)
    how = what_to_add(signal, [load_profile(name) for name in profile_names()])
    words = f"No profile in use has this signal: {definition.help} {how[0].upper()}{how[1:]}."
    return Missing(signal=signal, how_to_get_it=words)


def _of_calls(profiles: Sequence[Profile]) -> str:
    """Why the times of a framework's calls may be left out: a call may take many records, and only clients tell how many."""
    counts = [it.signals["deserialized"].metric for it in profiles if "deserialized" in it.signals]
    by = f"by {counts[0]} of the same process" if counts else "and no profile in use counts what clients read"
    return f", or nothing tells how many records a call of it takes ({by})"


def _whole(number: float | None) -> int | None:
    return None if number is None else round(number)

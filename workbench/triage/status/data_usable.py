"""Is there data, and is it usable? If not: no data, or data that cannot be used."""

from __future__ import annotations

from workbench.humanize import count, counted, duration, listed, numbered, plural
from workbench.triage.action_subject import Subject
from workbench.triage.facts.unknown_numbers import above, all_of, at_most, times
from workbench.triage.finding import Action
from workbench.triage.operand import Operand
from workbench.triage.question_types import Ask, Conclude, Leaf, Measure, Node, always, no, yes
from workbench.triage.shared_actions import see_the_source
from workbench.triage.subscription import SubscriptionFeatures as Row
from workbench.triage.verdict_names import State, Verdict


def is_empty(row: Row) -> bool:
    """Whether no partition has a record, by samples that are not old: then there is nothing to commit, and no lag to measure."""
    return bool(row.partitions) and all(
        all_of(
            at_most(p.log_end, p.log_start if p.log_start is not None else 0.0),
            at_most(times(-1, p.log_end_last_seconds), row.stale_seconds),
        )
        is True
        for p in row.partitions
    )


def has_no_sample(row: Row) -> bool:
    """Whether nothing was measured, or nothing lately."""
    if row.lag_bad_samples:
        return False
    is_old = above(row.last_sample_age_seconds, row.stale_seconds) is True
    return not row.lag_samples or (is_old and row.repeated_seconds is None)


def _words(row: Row) -> str:
    if row.reasons.get("data_usable") == "empty":
        return f"the topic has no record ({plural(row.partition_count, 'empty partition')})"
    if not row.lag_samples and not row.lag_bad_samples:
        return f"no lag samples in the window{_of_commits_alone(row)}"
    known, all_partitions = row.lag_known_partitions, row.partition_count
    unknown = [it.partition for it in row.partitions if it.lag_messages is None]
    without = f" (not of {listed(unknown)})" if unknown and known else ""
    bad = f", {counted(row.lag_bad_samples, 'unusable sample')}" if row.lag_bad_samples else ""
    age = row.last_sample_age_seconds
    repeats = (
        f", all offsets stand while handlers go on, for {duration(row.repeated_seconds)}"
        if row.repeated_seconds
        else ""
    )
    last = f", last sample {duration(max(0.0, age))} ago" if age is not None else ""
    return f"lag of {known} of {plural(all_partitions, 'partition')} known{without}{last}{bad}{repeats}"


def _of_commits_alone(row: Row) -> str:
    """Where clients tell their commits and nobody the log's end, a target that is down is not what is wrong."""
    committed = [it for it in row.partitions if it.committed is not None]
    if not committed or any(it.log_end is not None for it in row.partitions):
        return ""
    return f": commits of {plural(len(committed), 'partition')} are known, and no log end: a profile of a lag exporter has it"


QUESTION = Node(
    id="data_usable",
    by="gate",
    question="Is there data, and is it finite and consistent?",
    short="data usable?",
    rules=(
        yes("empty", "no partition of the topic has a record", is_empty),
        no(
            "no_lag",
            "no partition's lag is known, or what is known is too old",
            lambda row: row.lag_known_partitions == 0,
        ),
        no("repeated", "its source only repeats old offsets", lambda row: row.repeated_seconds is not None),
        no(
            "to_and_fro",
            "commits go to and fro between two positions, or moved on at a lower one and leapt back: those of two readers, or of two"
            " clusters, have one name",
            lambda row: bool(row.to_and_fro_partitions),
        ),
        no(
            "bad",
            "more samples are unusable than usable",
            Operand("lag_bad_samples", "samples", ">", number=1.0, of="lag_samples"),
        ),
        yes(
            "usable",
            "lag is known, recent and finite",
            always,  # a lag is known only by a recent sample
            Operand("last_sample_age_seconds", "s", "<=", number=1.0, of="stale_seconds"),
        ),
    ),
    yes=Ask("lost"),
    no=Conclude(
        Verdict.UNUSABLE_DATA, unless=((has_no_sample, Verdict.NO_DATA, "no lag was measured, or none lately"),)
    ),
    words=_words,
    needs=(),
    measures=(
        Measure("consumer_lag", "last_sample_age_seconds", "s since the last sample"),
        Measure("consumer_lag", "lag_samples", "usable samples"),
        Measure("consumer_lag", "lag_bad_samples", "unusable samples"),
    ),
)


def see_commits(it: Subject) -> Action:
    """Look at the commits that Kafka has."""
    return Action(
        title="See whether the group has ever committed: CURRENT-OFFSET is “-” where it has not",
        command=it.describe,
        verify="you know whether it commits to Kafka at all; without commits there is no lag to judge",
    )


def _has_never_committed(row: Row) -> bool:
    """Whether members have the topic, as the coordinator says, and nobody has seen a commit or a lag of it."""
    return any(p.assigned == 1 for p in row.partitions) and not any(
        p.committed_high is not None or p.lag_ever_samples for p in row.partitions
    )


def _without_data(row: Row) -> str:
    """Some exporters leave out the lag of a group that has no members: then it is not the target that is down."""
    if _has_never_committed(row):
        held = sum(p.assigned == 1 for p in row.partitions)
        return (
            f"No data: members have {plural(held, 'partition')} of the topic, and the group has no commit there: it has never "
            "committed, or stores its positions elsewhere. Whether it reads is not known."
        )
    nobody = above(row.usual_members, 0) is True and row.group_members == 0
    gone = "; the group usually has members and has none, and its exporter may leave out the lag of such a group"
    return f"No data: {_words(row)}{gone if nobody else ''}."


NO_DATA = Leaf(
    verdict=Verdict.NO_DATA,
    state=State.CANNOT_TELL,
    headline=_without_data,
    actions=lambda it, row: (see_commits(it),) if _has_never_committed(row) else (see_the_source(it),),
)


def _headline(row: Row) -> str:
    if row.repeated_seconds is not None:
        since = f"although the group's handlers go on, all offsets have stood for {duration(row.repeated_seconds)}"
        # What fails is handled again and again.
        why = (
            "its lag exporter repeats them"
            if not row.lag_messages
            else "its lag exporter repeats them, or all that is handled fails"
        )
        return f"The data cannot be used: {since}: {why}."
    if row.to_and_fro_partitions:
        once = not set(row.to_and_fro_partitions) - {it for it, swung in row.told("swung").items() if swung}
        how = (
            "went back, moved on there, and leapt forward again in one step: somebody sets them back and forth,"
            if once
            else "go to and fro between two positions, again and again:"
        )
        return (
            f"The data cannot be used: commits of {numbered('partition', row.to_and_fro_partitions)} {how} two processes commit for"
            " one group, or two clusters are measured under one name."
        )
    bad, all_samples = row.lag_bad_samples, row.lag_samples + row.lag_bad_samples
    no_commits = ", and no partition has a commit" if _no_commits(row) else ""
    return (
        f"The data cannot be used: {count(bad)} of {counted(all_samples, 'lag sample is', 'lag samples are')} NaN, infinite or a "
        f"placeholder for “none”{no_commits}."
    )


def _no_commits(row: Row) -> bool:
    return bool(row.partitions) and all(part.committed_high is None for part in row.partitions)


def _actions(it: Subject, row: Row) -> list[Action]:
    see = see_the_source(it)
    if row.to_and_fro_partitions:
        two = Action(
            title="Find who else has this group's name: consumers that assign their partitions themselves, or an exporter of another"
            " cluster or topic whose series differ in no label (settings: match, copies)",
            command=it.members,
            verify="one position of each partition is left",
        )
        return [two, see]
    if not _no_commits(row):
        return [see]
    return [see_commits(it), see]


UNUSABLE_DATA = Leaf(verdict=Verdict.UNUSABLE_DATA, state=State.CANNOT_TELL, headline=_headline, actions=_actions)

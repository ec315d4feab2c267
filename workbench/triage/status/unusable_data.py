"""Samples arrive, but most of them are not usable numbers."""

from __future__ import annotations

from workbench.humanize import count, counted, duration
from workbench.triage.actions import see_the_source
from workbench.triage.finding import Action
from workbench.triage.leaf import Leaf
from workbench.triage.subject import Subject
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.verdict import State, Verdict


def _headline(row: SubscriptionFeatures) -> str:
    if row.repeated_seconds is not None:
        since = f"although the group's handlers go on, all offsets have stood for {duration(row.repeated_seconds)}"
        # What fails is handled again and again.
        why = (
            "its lag exporter repeats them"
            if not row.lag_messages
            else "its lag exporter repeats them, or all that is handled fails"
        )
        return f"The data cannot be used: {since}: {why}."
    bad, all_samples = row.lag_bad_samples, row.lag_samples + row.lag_bad_samples
    no_commits = ", and no partition has a commit" if _no_commits(row) else ""
    return (
        f"The data cannot be used: {count(bad)} of {counted(all_samples, 'lag sample is', 'lag samples are')} NaN, infinite or a "
        f"placeholder for “none”{no_commits}."
    )


def _no_commits(row: SubscriptionFeatures) -> bool:
    return bool(row.partitions) and all(part.committed_high is None for part in row.partitions)


def _actions(it: Subject, row: SubscriptionFeatures) -> list[Action]:
    see = see_the_source(it)
    if not _no_commits(row):
        return [see]
    ever = Action(
        title="See whether the group has ever committed: CURRENT-OFFSET is “-” where it has not",
        command=it.describe,
        verify="you know whether it commits to Kafka at all; without commits there is no lag to judge",
    )
    return [ever, see]


LEAF = Leaf(
    verdict=Verdict.UNUSABLE_DATA,
    state=State.CANNOT_TELL,
    headline=_headline,
    actions=_actions,
)

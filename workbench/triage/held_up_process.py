"""What holds up the process of slow handlers itself: a CPU limit, or garbage collection; for the causes that name slow handlers."""

from __future__ import annotations

from workbench.humanize import percent
from workbench.triage.action_subject import Subject
from workbench.triage.finding import Action
from workbench.triage.outcome_checks import Check
from workbench.triage.subscription import SubscriptionFeatures as Row


def held_up_words(row: Row) -> str:
    """The end of a sentence about slow handlers: what holds their process up; empty where nothing is known to."""
    match row.held_up_by:
        case "cpu_limit":
            was = percent(row.cpu_stopped_before)
            return (
                f", and the CPU limit stops the process in {percent(row.cpu_stopped_share)} of its periods, was {was}"
            )
        case "garbage_collection":
            was = percent(row.gc_share_before)
            return f", and the process collects garbage for {percent(row.gc_share)} of the time, was {was}"
        case _:
            return ""


def held_up_actions(it: Subject, row: Row, *, as_before: Check, verify: str) -> list[Action]:
    """What helps the process; nothing where nothing is known to hold it up."""
    match row.held_up_by:
        case "cpu_limit":
            title = (
                f"Raise the CPU limit of the consumers' pods, or remove it, and see what uses more CPU than before{it.when}"
                " (a deploy, larger records, more of them)"
            )
        case "garbage_collection":
            title = (
                f"See what keeps more memory than before{it.when} (a heap histogram: jmap -histo, larger records, a cache), and give"
                " the process more memory until it is mended"
            )
        case _:
            return []
    return [Action(title=title, command=it.changes, verify=verify, checks=(as_before,))]

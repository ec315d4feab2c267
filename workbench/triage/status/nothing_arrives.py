"""Nothing arrives, although records usually do; else the group is well, or has recovered."""

from __future__ import annotations

from workbench.humanize import duration
from workbench.judgement_numbers import FAR
from workbench.triage.operand import Operand
from workbench.triage.question_types import Conclude, Leaf, Measure, Node, always, no, yes
from workbench.triage.status import lagging
from workbench.triage.subscription import SubscriptionFeatures as Row
from workbench.triage.verdict_names import State, Verdict


def _words(row: Row) -> str:
    if row.silent_for_seconds is None:
        return "no arrival in the data" if row.arrival_per_second is not None else "arrivals are not measured"
    gap = f", before at most {duration(row.usual_gap_seconds)} apart" if row.usual_gap_seconds is not None else ""
    return f"last arrival {duration(row.silent_for_seconds)} ago{gap}"


QUESTION = Node(
    id="silent",
    by="side",
    question="Does nothing arrive, although records usually do?",
    short="producer silent?",
    rules=(
        yes(
            "silent",
            "nothing has arrived for far longer than ever before",
            Operand("silent_for_seconds", "s", ">=", setting="silent_seconds"),
            Operand(
                "silent_for_seconds", "s", ">=", number=FAR, of="usual_gap_seconds", why="longer than any gap so far"
            ),
        ),
        no(
            "arrives",
            "no silence longer than usual is seen: records arrive, or none ever did, or nobody measures it",
            always,
        ),
    ),
    yes=Conclude(Verdict.PRODUCER_SILENT),
    no=Conclude(
        Verdict.HEALTHY,
        unless=((lambda row: row.recovered_seconds is not None, Verdict.RECOVERED, "it was late before"),),
    ),
    words=_words,
    needs=("log_end_offset",),
    measures=(
        Measure("log_end_offset", "silent_for_seconds", "s since the last arrival", threshold="silent_seconds"),
        Measure("log_end_offset", "usual_gap_seconds", "s at most before"),
        Measure("log_end_offset", "arrival_per_second", "messages/s arriving"),
    ),
)

PRODUCER_SILENT = Leaf(
    verdict=Verdict.PRODUCER_SILENT,
    state=State.HEALTHY,
    headline=lambda row: (
        f"Nothing arrives: the last record came {duration(row.silent_for_seconds)} ago, before at most "
        f"{duration(row.usual_gap_seconds)} apart. The group itself keeps up; look at the producers."
    ),
)


def _headline(row: Row) -> str:
    since = min(row.told("late_from").values(), default=0.0)
    until = max(row.told("late_to").values(), default=0.0)
    peak = max(row.told("late_peak").values(), default=0.0)
    return (
        f"Recovered {duration(-until)} ago: late for {duration(until - since)}, up to {duration(peak)} behind; "
        f"now {lagging.words(row)}."
    )


RECOVERED = Leaf(verdict=Verdict.RECOVERED, state=State.HEALTHY, headline=_headline)

HEALTHY = Leaf(verdict=Verdict.HEALTHY, state=State.HEALTHY, headline=lambda row: f"Healthy: {lagging.words(row)}.")

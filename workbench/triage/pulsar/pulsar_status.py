"""Is there data, is anything waiting, is it late, and does it get better by itself?"""

from __future__ import annotations

from workbench.humanize import count, counted, duration
from workbench.judgement_numbers import DRAIN_SECONDS, MORE, PAUSE_SECONDS
from workbench.queues.dispatching_queues import DispatchTools
from workbench.triage.finding import Action
from workbench.triage.pulsar.pulsar_facts import Known
from workbench.triage.pulsar.question_types import (
    NOT_KNOWN,
    DispatchLeaf,
    DispatchQuestion,
    Test,
    says_no,
    says_yes,
    stays_open,
)
from workbench.triage.verdict_names import DispatchVerdict, State, Verdict

_LATE = Test("age_seconds", ">", 1, "objective_seconds")

TOLD = DispatchQuestion(
    id="backlog_told",
    question="Does the broker tell the backlog, and is it the same topic at both looks?",
    short="backlog told?",
    rules=(
        says_no("no_backlog", "the admin does not tell the backlog", Test("entries", NOT_KNOWN)),
        says_no(
            "loaded_anew",
            "counters went back: between the looks the broker has loaded the topic anew, or somebody has reset the subscription",
            Test("counters_back", "=", 1),
        ),
        says_yes("told", "the admin tells it"),
    ),
    no=Verdict.UNUSABLE_DATA,
    by="gate",
)

WAITING = DispatchQuestion(
    id="anything_waiting",
    question="Is anything waiting?",
    short="anything waiting?",
    rules=(
        says_no("nothing", "everything is acknowledged", Test("entries", "=", 0)),
        says_yes("waits", "entries are not acknowledged", Test("entries", ">", 0)),
        says_yes("unclear", "entries may be waiting"),
    ),
    no=Verdict.HEALTHY,
    by="gate",
)

DELAYED = DispatchQuestion(
    id="only_delayed",
    question="Is all that waits delayed on its producers' wish?",
    short="only delayed?",
    rules=(
        says_yes(
            "all_delayed",
            "what waits is to be sent later",
            Test("delayed_entries", ">", 0),
            Test("ready_entries", "=", 0),
            Test("consumers", ">", 0),
        ),
        says_no("ready", "entries that are not delayed wait", Test("ready_entries", ">", 0)),
        stays_open(
            "nobody_takes",
            "what waits is delayed, or was until its time came, and nobody is connected to take it",
            Test("ready_entries", "=", 0),
            Test("consumers", "=", 0),
            look="whether its consumers come back: look again in some minutes",
        ),
        stays_open(
            "not_told",
            "what is delayed, or whether a consumer waits for it, is not told",
            look="msgDelayed and consumers in the topic's statistics",
        ),
    ),
    yes=DispatchVerdict.DELAYED_MESSAGES,
)

BEHIND = DispatchQuestion(
    id="behind",
    question="Is it late, or kept from moving?",
    short="behind?",
    rules=(
        says_no(
            "moves_in_time",
            "what waits is younger than the objective, and acknowledged as it comes",
            Test("age_seconds", "<=", 1, "objective_seconds"),
            Test("acked_per_second", ">", 0),
        ),
        says_no(
            "delays_aside",
            "at this pace what is not delayed is acknowledged in time",
            Test("delayed_entries", ">", 0),
            Test("ready_seconds", "<=", 1, "objective_seconds"),
        ),
        says_yes("late", "the first entry waits for longer than the objective", _LATE),
        says_yes("kept_back", "the broker sends nothing before something is acknowledged", Test("blocked", "=", 1)),
        says_yes(
            "ready_late",
            "beside delayed ones, so many wait that they are late at this pace",
            Test("delayed_entries", ">", 0),
            Test("ready_seconds", ">", 1, "objective_seconds"),
        ),
        says_yes(
            "ready_stands",
            "where delayed ones wait, nothing was acknowledged for longer than the objective",
            Test("delayed_entries", ">", 0),
            Test("acked_per_second", "=", 0),
            Test("acked_seconds", ">", 1, "objective_seconds"),
        ),
        stays_open(
            "not_late_yet",
            "nothing was acknowledged between the looks, and nothing is late",
            Test("age_seconds", "<=", 1, "objective_seconds"),
            Test("acked_per_second", "=", 0),
            look="look again, or for longer: --observe 60s",
        ),
        stays_open(
            "due_since",
            "since when those are due that are not delayed any more is not known, nor when anything was acknowledged",
            Test("delayed_entries", ">", 0),
            look="lastAckedTimestamp, 0 until somebody acknowledges after the topic was loaded; look again, or for longer",
        ),
        stays_open(
            "age_not_known",
            "the age of what waits, or its pace, is not known",
            look="getEarliestTimeInBacklog and internalStats of the topic, which the token must be allowed to read",
        ),
    ),
    no=Verdict.HEALTHY,
    by="gate",
)

CATCHING_UP = DispatchQuestion(
    id="catching_up",
    question="Is it catching up?",
    short="catching up?",
    rules=(
        says_yes(
            "shrinks",
            "clearly more is acknowledged than arrives, from the first entry on, and the end is near",
            Test("acked_per_second", ">=", MORE, "arrived_per_second"),
            Test("drain_seconds", "<=", DRAIN_SECONDS),
            Test("mark_delete_seconds", "<=", 1, "objective_seconds"),
        ),
        says_no("nothing", "nothing is acknowledged", Test("acked_per_second", "=", 0)),
        says_no(
            "keeps_up",
            "hardly more is acknowledged than arrives",
            Test("acked_per_second", "<", MORE, "arrived_per_second"),
        ),
        says_no("far", "the end is far away at this pace", Test("drain_seconds", ">", DRAIN_SECONDS)),
        says_no(
            "first_stands",
            "the first entry is not acknowledged",
            Test("mark_delete_seconds", ">", 1, "objective_seconds"),
        ),
        stays_open(
            "not_counted",
            "what arrives and is acknowledged was not counted at both looks",
            look="internalStats of the topic, which the token must be allowed to read",
        ),
    ),
    yes=DispatchVerdict.CATCHING_UP,
    by="side",
)

STARTING = DispatchQuestion(
    id="just_connected",
    question="Have its consumers connected only now?",
    short="just connected?",
    rules=(
        stays_open(
            "only_now",
            "no consumer has been connected for longer than a start takes",
            Test("connected_seconds", "<=", PAUSE_SECONDS),
            look="look again in 2 minutes; if they connect again and again, their logs say why",
        ),
        says_no("longer", "a consumer has been connected for longer than a start takes", Test("connected_seconds", ">", PAUSE_SECONDS)),
        says_no("not_told", "the broker does not tell since when consumers are connected"),
    ),
    by="gate",
)  # fmt: skip


def _look_again(tools: DispatchTools, it: Known) -> list[Action]:
    return [
        Action(
            title="See what the broker tells of its consumers and of its positions",
            command=f"{tools.topic_stats(it.part.topic, it.part.partition)}\n"
            f"{tools.internal_stats(it.part.topic, it.part.partition)}",
            verify="you know which number is missing, or that the topic has been loaded for some minutes",
        )
    ]


def entries_a_second(rate: float | None) -> str:
    """ "16.3 entries/s"."""
    return f"{count(rate)} entries/s"


def behind(it: Known) -> str:
    """ "1,200 entries, the first 3 min old"."""
    age = it.age_seconds
    old = f", the first {duration(age)} old" if age is not None else ""
    return counted(it.part.entries, "entry", "entries") + old


def _healthy(it: Known) -> str:
    if it.part.entries == 0:
        return "Healthy: everything is acknowledged."
    return f"Healthy: {behind(it)}, and {entries_a_second(it.acked_per_second)} are acknowledged."


LEAVES = (
    DispatchLeaf(Verdict.HEALTHY, _healthy, state=State.HEALTHY, has_runbook=False),
    DispatchLeaf(
        Verdict.UNUSABLE_DATA,
        lambda it: (
            "Cannot tell: the topic was loaded anew, or the subscription reset, while it was looked at."
            if it.part.counters_back
            else "Cannot tell: the admin does not tell the backlog."
        ),
        _look_again,
        state=State.CANNOT_TELL,
    ),
    DispatchLeaf(
        Verdict.CANNOT_TELL,
        lambda it: f"Cannot tell: {behind(it)}, and nothing that was read proves why.",
        _look_again,
        state=State.CANNOT_TELL,
    ),
    DispatchLeaf(
        DispatchVerdict.DELAYED_MESSAGES,
        lambda it: (
            f"Healthy: {counted(it.part.delayed_entries, 'entry', 'entries')} wait for their time, and nothing else."
        ),
        has_runbook=False,
        state=State.HEALTHY,
    ),
    DispatchLeaf(
        DispatchVerdict.CATCHING_UP,
        lambda it: f"Catching up: {behind(it)}, drained in {duration(it.drain_seconds)} at this pace.",
        has_runbook=False,
        state=State.DRAINING,
    ),
)

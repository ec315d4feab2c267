"""All processors are slower than their baseline: a shared dependency is slow, or one member is, whatever it handles."""

from __future__ import annotations

from collections.abc import Iterator

from workbench.features.subscription_measurements import PartitionFeatures
from workbench.humanize import listed, plural, printable
from workbench.humanize import times as multiple
from workbench.judgement_numbers import LESS, MORE, NEVER_EMPTY, PART
from workbench.triage.action_subject import Subject
from workbench.triage.causes.slow_processor import handlers_work, no_comparison
from workbench.triage.facts.reasons_within_verdict import PROCESS_CAUSES
from workbench.triage.facts.unknown_numbers import Known, all_of, at_least, below
from workbench.triage.finding import Action, Scope
from workbench.triage.held_up_process import held_up_actions, held_up_words
from workbench.triage.operand import Operand
from workbench.triage.outcome_checks import Check
from workbench.triage.question_types import Conclude, Leaf, Measure, Node, leaves_open, no, yes
from workbench.triage.shared_actions import DUMPS
from workbench.triage.status.limited_by_own_work import HAS_ROOM, NO_BASELINE, NOT_SLOWER, queues_are_full
from workbench.triage.subscription import SubscriptionFeatures as Row
from workbench.triage.verdict_names import Answer, Verdict


def _handlers_have_room(row: Row) -> Known:
    # Unless their threads never wait: then more of the time is theirs than is measured.
    never_waits = all_of(row.own_work, at_least(row.median_slow_down, row.limits.all_slow_ratio))
    return row.queueless and not never_waits and HAS_ROOM.holds(row)


def _threads_idle(row: Row) -> bool:
    """Full queues before idle threads are no want of threads: something holds them."""
    idle = below(row.busy_share, PART) is True or queues_are_full(row) is not True
    return not row.queueless and below(row.median_slow_down, row.limits.all_slow_ratio) is True and idle


def _names(row: Row) -> str:
    return listed([printable(it) for it in row.slow_members])


def _words(row: Row) -> str:
    if row.slow_members:
        others = "the others" if (row.live_members or 0) > 2 else "the other one"
        return f"{_names(row)} takes {multiple(row.slowest_member_ratio)} as long as {others} for the same processors"
    if row.median_slow_down is None:
        return no_comparison(row)
    if row.known_count == 1:
        return f"its processor takes {multiple(row.median_slow_down)} its baseline"
    return f"half of the processors take at least {multiple(row.median_slow_down)} their baseline"


HELD_UP = (
    Measure("cpu_periods", "cpu_stopped_share", "of the periods", baseline="cpu_stopped_before"),
    Measure("gc_time", "gc_share", "of the time", baseline="gc_share_before"),
)

QUESTION = Node(
    id="all_slow",
    question="Are all processors slower than their baseline, or one member than its peers?",
    short="handlers slower?",
    rules=(
        yes(
            "member",
            "the handlers of one member take longer than those of its peers, for records of the same processors",
            lambda row: row.slow_members,
            Operand("slowest_member_ratio", "× its peers' time", ">=", setting="slow_peers_ratio"),
        ),
        no(
            "room",
            "handlers that take less than half of a loop's time are not the reason",
            _handlers_have_room,
            HAS_ROOM,
        ),
        NOT_SLOWER,
        leaves_open(
            "idle_threads",
            "queues are full, or were, before threads with little to do: something holds them that is not measured",
            _threads_idle,
            Operand(
                "busy_share", "of a thread for each queue", "<", number=PART, why="then threads are not what is short"
            ),
            look="a thread dump of the process",
        ),
        yes(
            "slower",
            "the typical processor takes longer than before",
            Operand("median_slow_down", "× its baseline", ">=", setting="all_slow_ratio"),
        ),
        # Then handlers that are a little slower are as good a reason as their number.
        leaves_open(
            "little_slower",
            "the typical processor takes clearly longer than before, and with the process times of before it would keep up",
            Operand("median_slow_down", "× its baseline", ">=", number=MORE),
            Operand(
                "median_slow_down",
                "× its baseline",
                ">=",
                number=1.0,
                of="arriving_per_read",
                why="so much more arrives than it reads",
            ),
            look="what changed in the handlers when the lag began",
        ),
        no(
            "as_before",
            "the typical processor takes about as long as before, or was never fast enough for what arrives",
            lambda row: row.median_slow_down is not None,
        ),
        NO_BASELINE,
    ),
    yes=Conclude(Verdict.SLOW_DOWNSTREAM),
    words=_words,
    needs=("process_time",),
    measures=(
        Measure("process_time", "median_slow_down", "× their baseline", threshold="all_slow_ratio"),
        *HELD_UP,
    ),
    causes=PROCESS_CAUSES,
    look=f"See three times where a member spends its time ({DUMPS})",
    contributes=True,
)


def _headline(row: Row) -> str:
    if row.slow_members:
        one = len(row.slow_members) == 1
        whose = "One member is slow: the" if one else f"{plural(len(row.slow_members), 'member')} are slow: the"
        ratio = f"{multiple(row.slowest_member_ratio)} as long as {'its' if one else 'their'} peers'"
        return f"{whose} handlers of {_names(row)} take {ratio}, for the same processors."
    factor, held_up = multiple(row.median_slow_down), held_up_words(row)
    if row.known_count == 1:
        return f"The handler is slow: it takes {factor} its baseline{held_up}."
    why = held_up or ", which points to a shared dependency"
    return f"Processors are slow: half of them take at least {factor} their baseline{why}."


def _actions(it: Subject, row: Row) -> list[Action]:
    if row.slow_members:
        title = (
            f"Compare {_names(row)} with its peers, and check what changed there{it.when}: its host and zone, what its handlers"
            " call, the records of its partitions; if it is the host, start it on another one"
        )
        as_peers = Check("slowest_member_ratio", "<", row.limits.slow_peers_ratio)
        return [
            Action(
                title=title,
                command=it.changes,
                verify=f"its process times are below {multiple(row.limits.slow_peers_ratio)} those of its peers",
                checks=(as_peers,),
            )
        ]
    verify = f"process times are below {multiple(row.limits.all_slow_ratio)} their baseline"
    as_before = Check("median_slow_down", "<", row.limits.all_slow_ratio)
    return held_up_actions(it, row, as_before=as_before, verify=verify) or [
        Action(
            title=f"Check what all processors depend on, and what changed there{it.when}: database, service, lock, the host",
            command=it.changes,
            verify=verify,
            checks=(as_before,),
        )
    ]


def held_by_own_work(row: Row) -> list[PartitionFeatures]:
    """Partitions that are read, and late, because their consumer's own work takes longer; empty if the data do not show that.

    Without process times: fetched messages wait in the client, or its thread never waits, and less is read than before. What in the
    consumer takes longer, its handlers or something else, is not known.
    """
    if not row.queueless or row.own_work is not True or row.known_count or row.at_quota:
        return []
    if row.answers.get("rebalancing") is Answer.YES:  # which hold it up as well
        return []
    still = {*row.frozen_partitions, *row.stuck_partitions, *row.standing_partitions}
    late = [it for it in row.behind if it.partition not in still]
    pace = row.pace_of(late)
    return late if pace is not None and pace < LESS else []


def fetched_wait(row: Row) -> bool:
    """Whether it is measured that fetched messages always wait in the client."""
    return at_least(row.fetched_low, NEVER_EMPTY) is True


def _share(row: Row, arriving: float) -> Iterator[tuple[str, float]]:
    timed, slow, now, usual = handlers_work(row)
    if len(timed) > 1 and not slow:
        yield f"handlers take {multiple(now / usual)} their usual time", arriving * (1 - usual / now)
    late = held_by_own_work(row)
    if (pace := row.pace_of(late)) is not None:
        words = f"its own work reads {multiple(pace)} as much as before{', and fetched messages wait' if fetched_wait(row) else ''}"
        yield words, sum(max(0.0, it.lag_slope or 0.0) for it in late)


LEAF = Leaf(
    verdict=Verdict.SLOW_DOWNSTREAM,
    headline=_headline,
    scope=lambda row: Scope(members=row.slow_members, cause=None if row.slow_members else row.held_up_by),
    actions=_actions,
    share=_share,
)

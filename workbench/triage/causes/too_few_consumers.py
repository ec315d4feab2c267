"""Processing runs at its usual speed, and the group has fewer consumers than partitions."""

from __future__ import annotations

from workbench.humanize import plural
from workbench.judgement_numbers import BUSY, MORE, MOST, NOISE, UTILISATION
from workbench.triage import capacity
from workbench.triage.action_subject import Subject
from workbench.triage.facts.unknown_numbers import all_of, at_most, times
from workbench.triage.finding import Action
from workbench.triage.operand import Operand
from workbench.triage.outcome_checks import Check
from workbench.triage.question_types import Conclude, Leaf, Measure, Node, always, leaves_open, no, yes
from workbench.triage.shared_actions import SHRINKS
from workbench.triage.status.limited_by_own_work import LOST_PACE
from workbench.triage.subscription import SubscriptionFeatures as Row
from workbench.triage.verdict_names import Verdict


def _threads_hide_something(row: Row) -> bool:
    as_before = at_most(row.loop_busy, times((1 + NOISE), row.loop_busy_baseline))
    return row.queueless and at_most(row.loop_busy, MOST) is True and as_before is True


# Who has queues of its own handles what is in them, whichever partition it is of.
_ONE_EACH = (
    Operand("busy_handlers", "busy handler threads", ">=", number=BUSY, of="partition_count"),
    Operand("busy_handlers", "busy handler threads", "<=", number=MORE, of="partition_count"),
)


_IF_EVEN = Operand("busiest_if_even", "of the busiest member's time", "<=", number=UTILISATION)


def _some_have_room(row: Row) -> bool:
    """Whether who waits has nothing to read. Where every partition is late, it has, and does not ask: its handlers are elsewhere."""
    return len(row.behind_partitions) < row.partition_count and _IF_EVEN.holds(row) is True


def _stands_at_times(row: Row) -> bool:
    """Whether its commits stood, and it did too: handlers that are busy as long as before, all the time, wait for a checkpoint."""
    return row.outages and not (row.never_rests and row.handlers_as_before)


def _has_caught_up(row: Row) -> bool:
    """Whether it is in time, or on the way, after it was late several times: who has too few for what arrives stays behind."""
    return row.comes_again is not None and (row.late is not True or row.draining is True)


def _words(row: Row) -> str:
    members = row.group_members
    if members is None:
        return "number of members unknown"
    return f"{plural(int(members), 'member')} for {plural(row.partition_count, 'partition')}"


_RULED_OUT = "every cause on the way is ruled out (a burst only if the baseline is long enough to know one)"

QUESTION = Node(
    id="too_few",
    by="elimination",
    question="Are there fewer consumers than partitions?",
    short="fewer consumers?",
    rules=(
        leaves_open(
            "reads_more",
            "it reads faster than records arrive, or has done so since it is behind: more consumers are not needed",
            Operand("best_read_per_second", "messages/s", ">", number=MORE, of="arrival_per_second"),
            look="look again in a minute: it may catch up; if it has slowed down, find what else happens at such times",
        ),
        leaves_open(
            "again",
            "it has stood still again and again, or was late again and again and has caught up each time: there are enough consumers"
            " while they read",
            lambda row: _stands_at_times(row) or _has_caught_up(row),
            look="what happens at the same times: a job, a flush, a restart",
        ),
        leaves_open(
            "uneven",
            "some members are late and others wait for records: divided evenly, the partitions leave time to each of them",
            _some_have_room,
            _IF_EVEN,
            look="which member has how many partitions, and why (the assignor, a subscription to several topics)",
        ),
        leaves_open(
            "hidden",
            "its handlers take half of a thread or less, and no more than before, but nothing waits for records: what takes the"
            " time is not measured",
            _threads_hide_something,
            look="a profile of the process",
        ),
        LOST_PACE,
        no(
            "as_many",
            f"{_RULED_OUT}, and there are as many consumers as partitions",
            Operand("group_members", "members", ">=", number=1.0, of="partition_count"),
        ),
        leaves_open(
            "waits",
            "it has no queues of its own and waits for messages, and nothing that holds these up was found: whether more members get"
            " more is not known",
            lambda row: row.queueless and row.own_work is False,
            look="what brokers take for its fetches: their disks, if it reads old records; and what its clients ask for at a time",
        ),
        leaves_open(
            "all_busy",
            "it has no queues of its own, and as many handlers are busy as there are partitions, and no more: if each partition has one"
            " of its own, more members do not help; if a member has a pool of this size, they do",
            lambda row: row.queueless and all_of(*(it.holds(row) for it in _ONE_EACH)) is True,
            *_ONE_EACH,
            look="how many handlers a member runs: one for each partition (then add partitions), or a pool (then add members)",
        ),
        yes(
            "fewer",
            f"{_RULED_OUT}, and there are fewer consumers than partitions",
            Operand("group_members", "members", "<", number=1.0, of="partition_count"),
        ),
        leaves_open(
            "no_members",
            "the number of members is not known",
            always,
            look="how many members the group has (needs `bootstrap`, or an exporter of members)",
        ),
    ),
    yes=Conclude(Verdict.TOO_FEW_CONSUMERS),
    no=Conclude(Verdict.PARTITION_CEILING),
    words=_words,
    needs=("group_members",),
    measures=(
        Measure("group_members", "group_members", "members"),
        Measure("log_end_offset", "partition_count", "partitions"),
    ),
)


def _members(row: Row) -> int:
    return round(row.group_members or 0)


def _gone(row: Row) -> int:
    """How many fewer members than usual there are."""
    return max(0, round(row.usual_members or 0) - _members(row))


def _headline(row: Row) -> str:
    members = plural(_members(row), "member") + (f" instead of {round(row.usual_members or 0)}" if _gone(row) else "")
    limit = ", and their own work is the limit" if row.own_work is True else ""
    words = ", and their queues are not full" if row.has_queues else limit
    return f"Too few consumers: {members} for {plural(row.partition_count, 'partition')}{words}."


def _of_job(row: Row) -> str:
    return (
        ""
        if row.count_disproved is None
        else " (a job that no coordinator counts, as Flink's: raise the parallelism of its source)"
    )


def _actions(it: Subject, row: Row) -> list[Action]:
    members, partitions = _members(row), row.partition_count
    sizing = capacity.consumers(row)
    target = max(members + 1, min(partitions, sizing.drain if sizing is not None else partitions))
    words = f": {sizing.words}" if sizing is not None else ""
    gone = plural(_gone(row), "member is", "members are")
    lost = Action(
        title=f"Find out why {gone} gone: scaled down, or a process that crashes before it has joined (its log, its pod's restarts)",
        command=it.members,
        verify="the group has as many members as before, or you know why not",
    )
    return [
        *([lost] if _gone(row) else []),
        Action(
            title=f"Add consumers{_of_job(row)}, from {members} to {target} (useful up to {plural(partitions, 'partition')}){words}",
            command=it.members,
            verify="the new members have partitions, and the lag shrinks",
            kind="add_consumers",
            parameters={"members": target},
            checks=(Check("group_members", ">=", target), SHRINKS),
        ),
    ]


LEAF = Leaf(verdict=Verdict.TOO_FEW_CONSUMERS, headline=_headline, sizing=capacity.consumers, actions=_actions)

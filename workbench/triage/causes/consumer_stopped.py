"""No member consumes: the group has no members, or they do not poll."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import floor

from workbench.humanize import count, counted, duration, listed, plural
from workbench.judgement_numbers import TREND_SAMPLES
from workbench.triage.action_subject import Subject
from workbench.triage.causes.stuck_partition import is_blocked
from workbench.triage.facts.unknown_numbers import Known, above, all_of
from workbench.triage.finding import Action, Scope
from workbench.triage.operand import Operand
from workbench.triage.outcome_checks import Check
from workbench.triage.question_types import Ask, Conclude, Leaf, Measure, Node, always, leaves_open, no, yes
from workbench.triage.shared_actions import consume_again, hung_or_gone
from workbench.triage.status.limited_by_own_work import since
from workbench.triage.subscription import SubscriptionFeatures as Row
from workbench.triage.verdict_names import Verdict


def _counts_nobody(row: Row) -> bool:
    # A count that is 0 while commits move counts somebody else: those that assign partitions themselves (Flink), or that use KIP-848
    # before an old exporter, are never among its members.
    return row.group_members_recent == 0 and row.count_disproved is None and not row.moving_now


def _count_says_nothing(row: Row) -> bool:
    stands = row.frozen_count > 0 and row.moving_partitions == 0
    nobody_told = row.group_members_recent == 0 and row.count_disproved is not None and row.polling is None
    return nobody_told and stands and _are_gone(row) is not True


def _are_gone(row: Row) -> Known:
    before = above(row.baseline_members, 0)
    return all_of(row.live_members == 0, before, row.committed_moved is not None and not row.moving_now)


def _hangs(row: Row) -> bool:
    waits = row.stalled or bool(row.standing_partitions) or not row.committed_moved
    return bool(row.hung_members) and waits and not row.rebalances_often


def _may_hang(row: Row) -> bool:
    # Records that are tried again, by members whose handlers all end what they begin: nobody hangs.
    alive = row.tried_again and row.every_member_works
    if row.moving_partitions == 0 and row.frozen_count > 0:
        return row.polling is None and not alive
    # Fewer than one member owns are no lost member; and where others go on, it is no proof that somebody polls.
    each = row.each_members_partitions
    fewer = each is not None and row.stuck_count < floor(each)
    return row.stuck_count > 0 and not fewer and not (row.every_member_polls or alive or row.rebalances_often)


def _words(row: Row) -> str:
    parts = []
    if row.group_members is not None:
        parts.append(plural(int(row.group_members), "member"))
    if row.baseline_members:
        earlier = plural(row.baseline_members, "earlier member")
        still = sum(1 for it in row.members if it.live and it.in_baseline)
        parts.append(f"{still} of {earlier} still {'reports' if still == 1 else 'report'}")
    if row.poll_age_seconds is not None:
        parts.append(f"last poll {duration(row.poll_age_seconds)} ago")
    if row.committed_moved is None:
        parts.append("commits are not measured")
    else:
        parts.append(f"{counted(row.committed_moved, 'message')} committed{since(row) or ' in the window'}")
    idle = [m.worked_ago_seconds for m in row.members if m.member in row.idle_members]
    if known := [it for it in idle if it is not None]:
        others = ", while others did" if len(idle) < len(row.members) else ""
        parts.append(f"{listed(row.idle_members)} did no work for {duration(min(known))}{others}")
    return ", ".join(parts)


QUESTION = Node(
    id="consuming",
    by="gate",
    question="Is the group consuming: members, polls, commits?",
    short="group consuming?",
    rules=(
        no("batch_missed", "no run came that was due", lambda row: row.batch_missed),
        # The next question asks why.
        yes(
            "come_and_go",
            "its members come and go, all of them, again and again",
            lambda row: row.loses_all_members,
        ),
        no("no_members", "the group has no members, and no commit is seen to move", _counts_nobody),
        no(
            "unsubscribed",
            "its members read other topics: none of them has a partition of this one",
            lambda row: row.unsubscribed,
        ),
        yes(
            "unowned",
            "members have the other partitions, and nobody has those that wait",
            lambda row: row.unowned_partitions,
        ),
        yes("restoring", "its state stores are restored first", lambda row: row.stall_cause == "restoring"),
        leaves_open(
            "count_says_nothing",
            "commits have stopped, and the count of members says nothing: it was 0 while commits moved",
            _count_says_nothing,
            look="whether the job runs, and whether its checkpoints or commits succeed: its own log or console",
        ),
        # In a storm, members leave because they did not poll, and rejoin: the next question covers that.
        yes("rejoining", "its members are rejoining", lambda row: row.rejoining),
        no(
            "hung",
            "members do not poll (or their clients' statistics stand), or their handlers hold records and finish none while others do,"
            " and what they own stands still; it hardly rebalances",
            _hangs,
            Operand("poll_age_seconds", "s", ">", setting="poll_age_seconds"),
        ),
        no(
            "gone",
            "the members of before are gone, and no commit moves",
            _are_gone,
        ),
        leaves_open(
            "just_back",
            "all of it stood still until a moment ago: what is measured since then does not show yet how fast it reads",
            Operand("returned_seconds", "s since it went on", "<", number=TREND_SAMPLES, of="sample_interval_seconds"),
            look="look again in some minutes: it may catch up; until then, find why it had stopped",
        ),
        yes("blocked", "everything that may be read has been read: an open transaction holds the rest", is_blocked),
        leaves_open(
            "idle_member",
            "a member does no work (its handlers finish nothing; or nobody counts them, and it reads nothing) while as many partitions"
            " as it may own wait, or no member does, and nothing moves: hung, paused or not served",
            lambda row: row.idle_members and not row.at_quota,
            look="what that member does: has it paused its partitions, does it poll? Its logs, or a thread dump",
        ),
        leaves_open(
            "owner_unknown",
            "partitions stand still, and nothing shows whether their owner polls",
            _may_hang,
            look="who owns them, and whether that member polls",
        ),
        yes(
            "reads",
            "commits move, members are there, or what waits is being read",
            lambda row: (
                row.polling is True
                or any(above(it, 0) for it in (row.committed_moved, row.group_members, row.live_members))
            ),
        ),
        leaves_open(
            "nobody_known",
            "nothing that is measured shows whether anybody reads: no member is known to be there, and no commit is seen",
            always,
            look="whether the group has members, and what they commit (needs `bootstrap`)",
        ),
    ),
    yes=Ask("rebalancing"),
    no=Conclude(
        Verdict.CONSUMER_STOPPED,
        unless=((lambda row: row.batch_missed, Verdict.BATCH_MISSED, "a run that was due has not come"),),
    ),
    words=_words,
    needs=("group_members", "poll_age"),
    measures=(
        Measure("group_members", "group_members", "members"),
        Measure("poll_age", "poll_age_seconds", "s", threshold="poll_age_seconds"),
        Measure("committed_offset", "committed_moved", "messages committed"),
    ),
    look="See which member owns which partition, and whether it is alive",
)


def _headline(row: Row) -> str:
    if row.group_members == 0:
        return "Consumer stopped: the group has no members."
    if row.unsubscribed:
        others = f"; its {plural(round(row.group_members), 'member')} read other topics" if row.group_members else ""
        return f"Nobody reads this topic any more: no member of the group has a partition of it{others}."
    hung = row.hung_members
    if row.held_members and hung == row.held_members:
        ages = [m.worked_ago_seconds or 0.0 for m in row.members if m.member in hung]
        who = "A member hangs" if len(hung) == 1 else "Members hang"
        return f"{who}: no handler of {listed(hung)} has ended for {duration(min(ages))}, with records in them."
    if hung and len(hung) < (row.live_members or 0):
        ages = [m.poll_age_seconds for m in row.members if m.member in hung and m.poll_age_seconds is not None]
        who, has, own = ("A member hangs", "has", "it owns") if len(hung) == 1 else ("Members hang", "have", "they own")
        if not ages:
            return f"{who}: the statistics of {listed(hung)} no longer change, and what {own} is not read."
        return f"{who}: {listed(hung)} {has} not polled for {duration(max(ages))}, so what {own} is not read."
    if hung and row.poll_age_seconds is None:
        return f"Consumer stopped: the members' statistics no longer change, and {_commits(row)}."
    if row.poll_age_seconds is not None and row.live_members:
        return f"Consumer stopped: no member has polled for {duration(row.poll_age_seconds)}."
    return "Consumer stopped: the earlier members no longer report metrics, and no commits arrive."


def _commits(row: Row) -> str:
    return "commits are not measured" if row.committed_moved is None else "no commits arrive"


def _actions(it: Subject, row: Row) -> Sequence[Action]:
    """A commit that is left over is no outage; but a topic that was left out by mistake is."""
    if not row.unsubscribed:
        return consume_again(it, row)
    return [
        Action(
            title="Find out whether the group is still to read this topic: its subscription in the code or settings of its members",
            command=it.members,
            verify="you know whether the topic was taken out on purpose",
        ),
        Action(
            title="By mistake? Subscribe to it again: the members go on at the committed offsets",
            command=None,
            verify="members have its partitions, and the committed offsets advance",
            kind="restart_consumers",
            parameters={"members": []},
            checks=(Check("committed_recent_per_second", ">", 0.0),),
        ),
        Action(
            title="On purpose? Delete what the group has committed of it, once nothing of it is needed: it counts as lag for ever",
            command=it.tools.delete_offsets(it.group, it.topic),
            verify="the group has no lag on this topic",
        ),
    ]


def _share(row: Row, arriving: float) -> Iterator[tuple[str, float]]:
    if row.unread and len(row.unread) == len(row.partitions):
        yield "no partition is read", sum(it.arrival_per_second or 0.0 for it in row.unread)
    usual, now = row.usual_members, row.group_members_recent
    if usual and now and usual - now >= 1:
        yield f"{plural(round(now), 'member')} instead of {count(usual)}", arriving * (1 - now / usual)


LEAF = Leaf(
    verdict=Verdict.CONSUMER_STOPPED,
    headline=_headline,
    scope=lambda row: Scope(members=hung_or_gone(row)),
    actions=_actions,
    share=_share,
)

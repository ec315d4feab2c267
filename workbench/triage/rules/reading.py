"""Does anybody read: members, rebalances, partitions that stand still?"""

from __future__ import annotations

from math import floor

from workbench.numbers import NOISE, SEVERAL
from workbench.settings import Thresholds
from workbench.triage.facts.unknown import above, at_least, ratio
from workbench.triage.rule import Operand, always, leaves_open, no, proves, yes
from workbench.triage.subscription import SubscriptionFeatures as Row

KEPT_PACE = 1 - NOISE  # times the pace before
_REBALANCES = Operand("rebalances", "in the window", ">=", setting="rebalances")


def is_blocked(row: Row, _t: Thresholds) -> bool:
    """Whether an open transaction holds it up: neither members, nor rebalances, nor queues explain what stands still then."""
    return row.stall_cause == "open_transaction"


def waits_for_others(row: Row, _t: Thresholds) -> bool:
    """A few stand still, for not so long that they must be stuck, while their consumer works all the time and commits what it does.

    They may wait until it has read the others.
    """
    works = row.queueless and row.own_work is True and row.works_on and row.moving_partitions > 0
    return works and not row.stuck_partitions and 1 <= row.frozen_count <= row.few_partitions


def has_missed_its_batch(row: Row, _t: Thresholds) -> bool:
    """Whether no run came that was due."""
    return row.batch_missed


def _counts_nobody(row: Row, _t: Thresholds) -> bool:
    # A count that is 0 while commits move counts somebody else: those that assign partitions themselves (Flink), or that use KIP-848
    # before an old exporter, are never among its members.
    return row.group_members_recent == 0 and row.count_disproved is None and not row.moving_now


def _count_says_nothing(row: Row, _t: Thresholds) -> bool:
    stands = row.frozen_count > 0 and row.moving_partitions == 0
    return row.group_members_recent == 0 and row.count_disproved is not None and stands and row.polling is None


def _hangs(row: Row, t: Thresholds) -> bool:
    waits = row.stalled or bool(row.standing_partitions) or not row.committed_moved
    return bool(row.hung_members) and waits and at_least(row.rebalances, t.rebalances) is not True


def _may_hang(row: Row, _t: Thresholds) -> bool:
    if row.polling is not None:
        return False
    # Fewer than one member owns are no lost member.
    each = ratio(row.partition_count, row.group_members)
    fewer = each is not None and row.stuck_count < floor(each)
    all_stand = row.moving_partitions == 0 and row.frozen_count > 0
    return all_stand or (row.stuck_count > 0 and not fewer)


CONSUMING = (
    no("batch_missed", "no run came that was due", has_missed_its_batch),
    no("no_members", "the group has no members, and no commit moves", _counts_nobody),
    leaves_open(
        "count_says_nothing",
        "commits have stopped, and the count of members says nothing: it was 0 while commits moved",
        _count_says_nothing,
        look="whether the job runs, and whether its checkpoints or commits succeed: its own log or console",
    ),
    # In a storm, members leave because they did not poll, and rejoin: the next question covers that.
    yes("rejoining", "its members are rejoining", lambda row, _: row.rejoining is True),
    no(
        "hung",
        "members do not poll, and what they own stands still",
        _hangs,
        Operand("poll_age_seconds", "s", ">", setting="poll_age_seconds"),
    ),
    no(
        "gone",
        "the members of before are gone, and no commit moves",
        lambda row, _: row.live_members == 0 and above(row.baseline_members, 0) is True and not row.moving_now,
    ),
    yes("blocked", "everything that may be read has been read: an open transaction holds the rest", is_blocked),
    leaves_open(
        "idle_member",
        "the handlers of a member finish nothing while as many partitions as it may own wait: hung, paused or not served",
        lambda row, _: bool(row.idle_members) and not row.at_quota,
        look="whether that member polls: its logs, or a thread dump",
    ),
    leaves_open(
        "owner_unknown",
        "partitions stand still, and nothing shows whether their owner polls",
        _may_hang,
        look="who owns them, and whether that member polls",
    ),
    yes(
        "reads",
        "commits move, or members are there",
        lambda row, _: any(above(it, 0) for it in (row.committed_moved, row.group_members, row.live_members)),
    ),
    leaves_open("nobody_known", "neither members nor commits are measured", always),
)


def _rounds_are_long(row: Row, t: Thresholds) -> bool:
    half = at_least(row.rebalances, t.rebalances / 2) is True
    return bool(row.paused_members) and at_least(row.rebalances_since, t.rebalances) is True and half


def _moves_without_pauses(row: Row) -> bool:
    return row.moving_partitions > 0 and row.comes_and_goes is not True and not row.handled_again


REBALANCING = (
    proves(
        "passing",
        "members start, and are gone again: a crash loop under new names",
        lambda row, _: (
            row.passing_members is not None and row.passing_members >= SEVERAL and above(row.baseline_members, 0)
        ),
        Operand("passing_members", "members", ">=", number=SEVERAL, why="a deploy replaces each member once"),
    ),
    proves("rejoining", "its members are rejoining, now and most of the time", lambda row, _: row.rejoining is True),
    no(
        "works_on",
        "its handlers are busy all the time, and what they handle is committed",
        lambda row, _: row.rebalances is None and row.works_on,
    ),
    no(
        "stays",
        "no member has come or gone, and commits move on without a pause: each rebalance is one",
        lambda row, _: row.rebalances is None and row.members_stay is True and _moves_without_pauses(row),
    ),
    leaves_open(
        "not_counted",
        "nobody counts rebalances",
        lambda row, _: row.rebalances is None,
        look="the members' logs: how often they rejoined since the onset",
    ),
    # Of members that poll too rarely, each round takes as long as the group allows: a window may have only one of several.
    proves("long_rounds", "members miss polls, and have rebalanced again and again since the onset", _rounds_are_long),
    proves(
        "often", "it rebalances again and again", lambda row, t: at_least(row.rebalances, t.rebalances), _REBALANCES
    ),
    no("rarely", "it hardly rebalances", always, Operand("rebalances", "in the window", "<", setting="rebalances")),
)


def _few_freeze_unseen(row: Row, t: Thresholds) -> bool:
    few = 0 < row.frozen_count <= row.few_partitions and row.moving_partitions > 0
    unseen = row.queue_fill is None and row.enqueue_mean_seconds is None
    # Where most of the others are behind, too, its work is the reason, and what stands still waits.
    its_turn = waits_for_others(row, t) and 2 * len(row.behind_partitions) > row.partition_count
    return few and unseen and not its_turn


STUCK = (
    proves("blocked", "an open transaction holds up everything behind it", is_blocked),
    proves(
        "stuck",
        "a few partitions stand still while others advance, and nothing in the consumer explains it",
        lambda row, _: 0 < row.stuck_count <= row.few_partitions and row.moving_partitions > 0,
    ),
    leaves_open(
        "frozen",
        "a few partitions stand still, and nothing shows whether their consumer works on them",
        _few_freeze_unseen,
        look="read the record at the commit; look again in a minute",
    ),
    leaves_open(
        "no_commits",
        "the commits of partitions with lag are hardly measured",
        lambda row, _: row.silent_partitions > 0 and row.moving_partitions == 0,
        look="look again when there are three samples",
    ),
    no("advance", "partitions advance, or all stand still", always),
)

FROZEN = (
    leaves_open(
        "waits_for_others",
        "what stands still may wait until its consumer, which works all the time, has read the others",
        waits_for_others,
        look="look again in some minutes: whether it has moved",
    ),
    yes("stalled", "partitions stand still for none of the reasons above", lambda row, _: row.stalled),
    leaves_open(
        "standing",
        "all that are behind may have stopped, too lately to be sure",
        lambda row, _: bool(row.standing_partitions) and not set(row.behind_partitions) - set(row.standing_partitions),
        look="look again in a minute",
    ),
    no("none", "what is behind moves", always),
)

"""The tests of the questions about why a group lags."""

from __future__ import annotations

from math import floor

from workbench.settings import Thresholds
from workbench.triage.facts.unknown import (
    Known,
    above,
    all_of,
    any_of,
    at_least,
    at_most,
    below,
    first_known,
    ratio,
    times,
)
from workbench.triage.facts.work import NEVER_EMPTY
from workbench.triage.subscription import SubscriptionFeatures as Row

_MORE_WORK = 1.05  # times that of the baseline
_CATCHES_UP = 1.2  # times what arrives
_ROOM = 0.5  # of a thread for each member
_ALL_TIME = 0.9  # of a thread for each member
_LOST_PACE, _KEPT_PACE = 0.75, 0.95  # times the pace before
_MORE_ARRIVES = 1.1  # times the arrivals before
_WARM = 1.2  # times the arrivals of a typical partition
_PASSING_MEMBERS = 3  # a crash loop under new names
_IDLE_QUEUES = 0.3  # of one thread for each queue


def _is_blocked(row: Row) -> bool:
    """Then neither members, nor rebalances, nor queues explain what stands still."""
    return row.stall_cause == "open_transaction"


def _queues_wait(row: Row) -> Known:
    return first_known(row.queue_long, row.entry_slow)


def _queues_are_full(row: Row) -> Known:
    return any_of(row.queue_long, row.entry_slow)


def _not_slower(row: Row) -> bool:
    """Without process times: more is read than ever was needed before, or only a few partitions, to which more arrives, are late.

    Slower handlers would read less, and hold up every partition of a member.
    """
    if not row.queueless or row.median_slow_down is not None or row.slowest_slow_down is not None:
        return False
    kept = all_of(at_least(row.pace_ratio, _KEPT_PACE), at_least(row.arrival_ratio, _MORE_ARRIVES))
    return kept is True or row.surely_hot is True


def _waits_for_others(row: Row) -> bool:
    """A few stand still, for not so long that they must be stuck, while their consumer works all the time and commits what it does.

    They may wait until it has read the others.
    """
    works = row.queueless and row.own_work is True and row.works_on and row.moving_partitions > 0
    return works and not row.stuck_partitions and 1 <= row.frozen_count <= row.few_partitions


def _waits_its_turn(row: Row) -> bool:
    """Where most of the others are behind, too, its work is the reason, and what stands still waits."""
    return _waits_for_others(row) and 2 * len(row.behind_partitions) > row.partition_count


def has_missed_its_batch(row: Row, _t: Thresholds) -> bool:
    """Whether no run came that was due."""
    return row.batch_missed


def is_consuming(row: Row, t: Thresholds) -> Known:
    """Whether there are members, polls, commits."""
    if row.batch_missed:
        return False
    nobody = row.group_members_recent == 0 and (row.count_disproved is None or row.frozen_count > 0)
    # A commit that moves proves a consumer, whatever an exporter counts.
    if nobody and not row.moving_now:
        return False
    # In a rebalance storm, members leave because they did not poll, and rejoin: the next question covers that.
    if row.rejoining is True:
        return True
    rebalances = at_least(row.rebalances, t.rebalances) is True
    waits = row.stalled or bool(row.standing_partitions) or not row.committed_moved
    if row.hung_members and waits and not rebalances:
        return False
    if row.live_members == 0 and above(row.baseline_members, 0) and not row.moving_now:
        return False
    if _is_blocked(row):
        return True
    # It hangs, has paused, or its client gets nothing.
    if row.idle_members and not row.at_quota:
        return None
    if row.polling is None:
        # Some partitions are stuck, and no metric says whether their owner polls. Fewer than one member owns are no lost member.
        each = ratio(row.partition_count, row.group_members)
        fewer = each is not None and row.stuck_count < floor(each)
        all_stand = row.moving_partitions == 0 and row.frozen_count > 0
        if all_stand or (row.stuck_count > 0 and not fewer):
            return None
    anybody = any(above(it, 0) for it in (row.committed_moved, row.group_members, row.live_members))
    return True if anybody else None


def is_rebalancing(row: Row, t: Thresholds) -> Known:
    """Whether it rebalances again and again."""
    passing = at_least(row.passing_members, _PASSING_MEMBERS)
    if (passing and above(row.baseline_members, 0)) or row.rejoining is True:
        return True
    if row.rebalances is None:
        kept = at_least(row.pace_ratio, _KEPT_PACE) is True
        return False if _is_blocked(row) or row.works_on or row.most_keep_up or row.at_quota or kept else None
    # Of members that poll too rarely, each round takes as long as the group allows: a window may have only one of several.
    if row.paused_members and at_least(row.rebalances_since, t.rebalances) and 2 * row.rebalances >= t.rebalances:
        return True
    return row.rebalances >= t.rebalances


def is_stuck(row: Row, _t: Thresholds) -> Known:
    """Whether some partitions are stuck while others advance."""
    if _is_blocked(row):
        return True
    moves = row.moving_partitions > 0
    if row.stuck_partitions and row.stuck_count <= row.few_partitions and moves:
        return True
    unseen = row.queue_fill is None and row.enqueue_mean_seconds is None
    if 0 < row.frozen_count <= row.few_partitions and moves and unseen and not _waits_its_turn(row):
        return None
    return None if row.silent_partitions > 0 and not moves else False


def is_own_work(row: Row, _t: Thresholds) -> Known:
    """Whether the consumer's own work is the limit.

    One of the two signals of queues is enough. A consumer without queues is judged by its client and its handlers; a fact that explains
    the lag by itself needs neither.
    """
    if row.has_queues:
        inside = row.delay_full is True or row.held_inside is True
        seen = _queues_wait(row) is not None
        return any_of(_queues_wait(row), first_known(row.entry_slow, row.queue_long), seen and inside)
    if row.own_work is not None:
        return row.own_work
    return False if row.surely_throttled or row.surely_slow_network or row.surely_hot is True else None


def is_delay_full(row: Row, _t: Thresholds) -> Known:
    """Whether the delay queue is full."""
    return row.delay_full is True if row.queueless else row.delay_full


def is_one_slow(row: Row, _t: Thresholds) -> Known:
    """Whether one processor is slow. Handlers that take less than half of a loop's time cannot be what holds it up."""
    has_room = row.queueless and at_most(row.loop_busy, _ROOM) is True
    return False if has_room or _not_slower(row) else row.one_slow


def is_one_queue_full(row: Row, _t: Thresholds) -> Known:
    """Whether one queue is full while others are idle.

    If most of the full queues have full siblings, the keys are spread evenly, and the cause is another one.
    """
    if row.queueless:
        return False
    if row.hot_queue_count is None or row.full_queue_count is None:
        return None
    return row.hot_queue_count > 0 and 2 * row.hot_queue_count > row.full_queue_count


def are_all_slow(row: Row, t: Thresholds) -> Known:
    """Whether all processors are slower than before."""
    slower = at_least(row.median_slow_down, t.all_slow_ratio)
    if row.queueless:
        # Handlers with room are not the reason, unless their threads never wait: then more of the time is theirs than is measured.
        never_waits = all_of(row.own_work, slower) is True
        if at_most(row.loop_busy, _ROOM) is True and not never_waits:
            return False
    if _not_slower(row):
        return False
    # Full queues before idle threads are no want of threads: something holds them.
    if not row.queueless and slower is False:
        idle = below(row.busy_share, _IDLE_QUEUES)
        if any_of(idle, _queues_are_full(row) is not True):
            return None
    return slower


def has_threads(row: Row, _t: Thresholds) -> Known:
    """Whether it has queues and threads of its own, so that there could be more of them."""
    if row.has_queues:
        return True
    # What comes and goes has room in between: more of it is no cure. A lag that rises with every commit's sawtooth looks the same, but
    # its consumer works more than in good times, and always has something left to do.
    if row.comes_and_goes is True:
        fetched = at_least(row.fetched_low, NEVER_EMPTY)
        always = any_of(fetched, at_least(row.loop_busy, _ALL_TIME) if row.fetched_low is None else False)
        more = above(row.loop_busy, times(_MORE_WORK, row.loop_busy_baseline))
        if all_of(row.growing, always, more) is not True:
            return None
    return False if row.queueless else None


def is_burst(row: Row, t: Thresholds) -> Known:
    """Whether far more arrives than usual."""
    return at_least(row.arrival_ratio, t.burst_ratio) is True


def is_throttled(row: Row, t: Thresholds) -> Known:
    """Whether the broker throttles this client.

    Averages of the client (Java: over 30 s) begin low: one that waits, and is throttled at all, may be throttled for long.
    """
    if above(row.throttle_seconds, t.throttle_seconds):
        return True
    # Without a client's own word: it reads what its quota allows, and no more.
    if row.throttle_seconds is None and row.at_quota:
        return True
    if row.surely_slow_network or row.surely_hot is True:
        return False
    keeps = at_least(row.pace_ratio, _LOST_PACE) is True
    if above(row.throttle_seconds, 0) and row.own_work is False and not keeps:
        return None
    return False if row.throttle_seconds is not None else None


def is_network_slow(row: Row, t: Thresholds) -> Known:
    """Whether fetches or round trips are slow.

    Fetched messages that wait in the client show that the network delivers enough, whatever the round trips.
    """
    if at_least(row.fetch_queue_mean, t.fetch_queue_messages):
        return False
    # Nothing at all was fetched: that is not slow, and makes no round trips to measure.
    if row.rtt_seconds is None and row.stall_cause is not None:
        return False
    grown = at_least(row.rtt_seconds, times(t.rtt_ratio, row.rtt_baseline_seconds))
    slow = all_of(at_least(row.rtt_seconds, t.rtt_seconds), grown)
    return first_known(slow, False if row.surely_hot is True else None)


def is_frozen(row: Row, _t: Thresholds) -> Known:
    """Whether any partition stands still. What stands still is not hot, and neither consumers nor partitions move it."""
    if _waits_for_others(row):
        return None
    if row.stalled:
        return True
    only_these = not set(row.behind_partitions) - set(row.standing_partitions)
    return None if row.standing_partitions and only_these else False


def _as_ever(row: Row, t: Thresholds) -> bool:
    """The usual share of the arrivals, while all queues are empty: something else holds up the largest ones."""
    grown = first_known(below(row.hot_growth, _WARM), below(row.hot_arrival_ratio, _WARM))
    share = below(row.hot_arrival_ratio, t.hot_factor)
    return row.has_queues and _queues_are_full(row) is not True and all_of(share, grown) is True


def is_hot(row: Row, t: Thresholds) -> Known:
    """Whether most of the lag is in a few partitions.

    Partitions that are read less than the others, although no more arrives there, are not hot.
    """
    # How far behind those are that nobody measures any more is not known.
    if set(row.hot_partitions) & set(row.dark_partitions):
        return None
    if not 1 <= row.hot_count <= row.few_partitions:
        return False
    if not row.queueless:
        return None if _as_ever(row, t) else below(row.pace_ratio, _LOST_PACE) is not True
    far_more = at_least(row.hot_arrival_ratio, t.hot_factor)
    # Of a burst on all of them, one may have more to do than its member can.
    if all_of(row.own_work, at_least(row.arrival_ratio, t.burst_ratio), below(row.hot_arrival_ratio, t.hot_factor)):
        return False
    warm = at_least(row.hot_arrival_ratio, _WARM) is not False
    if warm and (at_least(row.hot_growth, _WARM) is not False or far_more is True):
        return True
    # The others have room: more consumers for all are not what is missing.
    few = 1 <= len(row.behind_partitions) <= row.few_partitions
    return False if row.own_work is True and not few else None


def are_too_few(row: Row, t: Thresholds) -> Known:
    """Whether there are fewer consumers than partitions.

    More consumers do not help those that wait. And who reads less than before, with as many members, has lost its pace to something
    that was not found.
    """
    if row.queueless and row.own_work is False:
        return None
    # Between two outages it has room enough. And where most keep up, and the few that do not have not moved lately, they may stand.
    if row.outages or row.few_have_paused:
        return None
    # Less is read than before, although its queues are empty, and nothing waits in the client: it is not the limit.
    empty = row.has_queues and _queues_are_full(row) is not True
    less = all_of(below(row.pace_ratio, _KEPT_PACE), below(row.fetch_queue_mean, t.fetch_queue_messages))
    if empty and less:
        return None
    # Nor is more room wanted where more is read than arrives.
    read = sum(p.committed_per_second or 0.0 for p in row.partitions)
    catches_up = above(row.committed_recent_per_second, times(_CATCHES_UP, row.arrival_per_second))
    if catches_up and above(read, row.arrival_per_second):
        return None
    # Threads that never wait, and handlers that do no more than before: what takes the time is not measured.
    as_before = at_most(row.loop_busy, times(_MORE_WORK, row.loop_busy_baseline))
    if row.queueless and at_most(row.loop_busy, _ROOM) and as_before:
        return None
    return None if below(row.pace_ratio, _LOST_PACE) else below(row.group_members, row.partition_count)

"""The members of a group: which hang, which came or went, and what a rebalance storm comes from."""

from __future__ import annotations

from functools import cached_property
from math import floor

from workbench.features.subscription_measurements import MemberFeatures
from workbench.judgement_numbers import APART, BUSY, LESS, MISSED, PART, PAUSE_SECONDS, SEVERAL, STABLE_STATE
from workbench.signals import REJOINING
from workbench.triage.facts import fact
from workbench.triage.facts.reasons_within_verdict import STORM_CAUSES
from workbench.triage.facts.stuck_or_hot_partitions import Partitions
from workbench.triage.facts.unknown_numbers import (
    Known,
    Number,
    above,
    all_of,
    at_least,
    at_most,
    below,
    least,
    most,
    ratio,
    times,
)
from workbench.triage.facts.work_or_arrivals import told
from workbench.triage.operand import first_of


class Members(Partitions):
    """Facts about the members."""

    @fact
    def idle_members(self) -> tuple[str, ...]:
        """Those that do no work, while others do or nothing moves, and as many partitions as they may own have stopped.

        That a client polls says nothing of other threads that handle what it has read (a pool, Quarkus): it counts only where it is
        measured that nothing waits for them.
        """
        frozen = [p for p in self.partitions if self.is_frozen(p)]
        inside = all(above(p.fetch_queue_recent_low, 0) is not False for p in frozen)
        told_by_client = any(it.poll_age_seconds is not None or it.stats_stand is not None for it in self.members)
        each = self.each_members_partitions
        if (told_by_client and not inside) or each is None or not at_most(self.group_members, self.partition_count):
            return ()
        if self.frozen_count < max(1, floor(each)):
            return ()
        nothing_moves = self.moving_partitions == 0
        return tuple(it.member for it in self.members if self._has_stopped(it, beside_others=not nothing_moves))

    def _has_stopped(self, it: MemberFeatures, *, beside_others: bool = True) -> bool:
        """Whether its handlers finish nothing, `beside_others` that do, for as long as partitions stand still."""
        ago = it.worked_ago_seconds
        others = not beside_others or any(at_most(o.worked_ago_seconds, times(PART, ago)) for o in self.members)
        long = all_of(at_least(ago, self.soon_seconds), at_least(ago, times(LESS, self._frozen_for)))
        return it.live and others and long is True

    @cached_property
    def _frozen_for(self) -> Number:
        """For how long partitions have stood still whose commits have stopped, each of them at least."""
        return least(*(p.moved_ago_seconds for p in self.partitions if self.is_frozen(p)))

    @fact
    def held_members(self) -> tuple[str, ...]:
        """Those whose handlers hold something all the while, and finish nothing: they hang, whether or not their client polls."""
        limit = self.limits.poll_age_seconds

        def is_held(it: MemberFeatures) -> bool:
            ago = it.worked_ago_seconds
            return all_of(above(ago, limit), at_least(it.held_seconds, times(LESS, ago)), self._has_stopped(it)) is True

        return tuple(it.member for it in self.members if is_held(it))

    @fact
    def hot_members(self) -> tuple[str, ...]:
        """Those whose handlers are busy all the time, while most others' hardly are: half of all at most.

        Only of a pipeline, which divides by key what it has read: else whoever has the partitions that get more is busy.
        """
        told = [(it.member, it.busy) for it in self.members if it.live and it.busy is not None]
        hot = tuple(member for member, busy in told if busy >= BUSY)
        idle = sum(1 for _, busy in told if busy <= PART)
        uneven = hot and 2 * len(hot) <= len(told) and 2 * idle > len(told) - len(hot)
        return hot if uneven and self.queueless and self.has_read_ahead and not self.few_are_behind else ()

    @fact
    def rejoining(self) -> Known:
        """Its members wait for each other, most of the time and now."""
        state = self.group_state
        return all_of(None if state is None else state in REJOINING, below(self.group_state_mean, STABLE_STATE))

    @fact
    def loses_all_members(self) -> bool:
        """Whether the last member of a group that usually has some has gone again and again."""
        return all_of(at_least(self.emptied, SEVERAL), above(self.usual_fewest_members, 0)) is True

    @fact
    def paused_members(self) -> tuple[str, ...]:
        """Those that polled too late."""
        return tuple(it.member for it in self.members if above(it.poll_age_high, self.limits.poll_age_seconds))

    @fact
    def restarted_members(self) -> tuple[str, ...]:
        """Those that started anew in the window, under the same name."""
        return tuple(it.member for it in self.members if above(it.restarts, 0))

    @fact
    def new_members(self) -> tuple[str, ...]:
        """Those that joined after the good time, whether or not they are still there. (Without one, every member is new.)"""
        before = above(self.baseline_members, 0) is True
        return tuple(it.member for it in self.members if before and it.in_baseline is False)

    @fact
    def gone_members(self) -> tuple[str, ...]:
        """Those that were there in the window, and are no more."""
        return tuple(it.member for it in self.members if it.last_seconds is not None and not it.live)

    @fact
    def changed_members(self) -> tuple[str, ...]:
        """Those that left, joined or restarted."""
        changed = {*self.restarted_members, *self.new_members, *self.gone_members}
        return tuple(it.member for it in self.members if it.member in changed)

    @fact
    def passing_members(self) -> int:
        """Started after the baseline, and gone again: a crash loop under new names, or somebody who adds and removes them."""
        return sum(1 for it in self.members if it.in_baseline is False and it.member in self.gone_members)

    @fact
    def passing_rounds(self) -> int:
        """How many of these came one after another, each when the one before had gone.

        Those that were there together have a place each: a rollout that the next one replaces, or takes back, is one round.
        """
        mine = [it for it in self.members if it.in_baseline is False and it.member in self.gone_members]
        rounds, until = 0, None
        for it in sorted(mine, key=lambda it: it.last_seconds or 0.0):
            if until is None or above(it.first_seconds, until) is not False:
                rounds, until = rounds + 1, it.last_seconds
        return rounds

    @fact
    def replaced_members(self) -> int:
        """How many started anew, or went while another one came in their place, and stays."""
        went = len(self.gone_members) - self.passing_members
        return len(self.restarted_members) + min(went, len(self.new_members) - self.passing_members)

    @fact
    def rollout(self) -> bool:
        """Whether members were replaced, one by one, as by one rollout, or half of them and more as by two: one and its rollback.

        A storm has the same ones again and again, and no end.
        """
        restarts = self.most_restarts or 0
        # Without a good time, those that are there are all that is known.
        half = at_least(2 * self.replaced_members, most(self.baseline_members, self.live_members) or None) is True
        twice = (
            half and self.passing_rounds <= 1 and restarts <= self.limits.deploy_restarts and not self.restarts_go_on
        )
        return self.replaced_members >= 2 and (twice or not (self.passing_members or restarts > 1))

    @fact
    def restarts_go_on(self) -> bool:
        """Whether a member started anew more than once in the window, and some did before it, too."""
        return above(self.most_restarts, 1) is True and any(above(it.restarts_before, 0) for it in self.members)

    @cached_property
    def rebalances_over(self) -> bool:
        """Whether it reads, and more time has passed since the last rebalance than lay between them."""
        ago = self.rebalanced_ago
        # A number may have grown by several between two samples: then it is not known how far apart they were.
        apart = above(ago, times(MISSED, self.rebalances_apart)) is not False
        return self.moving_now and above(ago, PAUSE_SECONDS) is True and apart

    @cached_property
    def storms_on(self) -> bool:
        """Whether it was late in the window and is no more, while its members rebalance as often as in a storm, and still do."""
        often = at_least(self.rebalances, self.limits.rebalances) is True
        passes = self.rollout or self.added_members or self.rebalances_over
        return self.recovered_seconds is not None and often and not passes

    @fact
    def added_members(self) -> int:
        """How many joined and stay beside those that were there: nobody has gone or restarted in their place."""
        return max(0, len(self.new_members) - self.passing_members - self.replaced_members)

    @fact
    def most_restarts(self) -> int | None:
        """Of the member with most."""
        return max((it.restarts for it in self.members if it.restarts is not None), default=None)

    @fact
    def known_members(self) -> int:
        """Those that were measured in the window."""
        return sum(1 for it in self.members if it.last_seconds is not None)

    @fact
    def longest_way_back(self) -> float:
        """The longest time without a poll in the window after which a member polled again, in seconds."""
        back = (
            it.poll_age_high
            for it in self.members
            if it.poll_age_high is not None
            and it.poll_age_seconds is not None
            and it.poll_age_seconds < it.poll_age_high
        )
        return max(back, default=0.0)

    def _hangs(self, it: MemberFeatures) -> bool:
        limit = self.limits.poll_age_seconds
        if not it.live:
            return False
        # What one poll has brought may take its handlers long; they finish one record after the other meanwhile, or try one again.
        # Handlers of a process with several clients are counted together: some are its own.
        worked = it.worked_ago_seconds if it.worked_ago_seconds is not None else self.shared_stand_seconds
        if below(worked, limit) is True:
            return False
        if it.poll_age_seconds is None:
            return it.stats_stand is True
        # Some handlers take minutes: what is usual is no hang, nor what members of the group have come back from lately; while the lag
        # grows, each batch is longer than the one before. Without a good time to compare with: not once in the whole window.
        if it.poll_age_seconds <= max(limit, APART * max(it.poll_age_usual or 0.0, self.longest_way_back)):
            return False
        return it.poll_age_usual is not None or above(it.poll_age_low, limit) is True

    @fact
    def hung_members(self) -> tuple[str, ...]:
        """Those that do not poll, or whose handlers do not end."""
        return tuple(it.member for it in self.members if self._hangs(it) or it.member in self.held_members)

    @fact
    def members_stay(self) -> Known:
        """Whether no member has come, gone or restarted since the good time, by their names: a number hides who restarts at once."""
        named = self.known_members and above(self.baseline_members, 0)
        return not self.changed_members if named else None

    @fact
    def handled_again(self) -> bool:
        """Whether its handlers finish clearly more than is committed: after a rebalance, the next owner does it again.

        What stands still is handled as well, if its commits fail. What was handled since the last commit is no more than one rhythm's.
        """
        open_seconds = most(*(told(p, "rhythm") for p in self.partitions)) or 0.0
        window_seconds = most(*(ratio(p.attempts, p.rate_per_second) for p in self.processors)) or 0.0
        committed = self.read_per_second * window_seconds + self.handled_per_second * open_seconds
        clearly = self.read_per_second < LESS * self.handled_per_second
        return not self.frozen_partitions and clearly and committed < self.handled_per_second * window_seconds

    @fact
    def storm_cause(self) -> str | None:
        """Why members rebalance; None if the data do not show it."""
        return first_of(STORM_CAUSES, self)

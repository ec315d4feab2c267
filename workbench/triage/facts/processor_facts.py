"""Queues and processors, compared with their peers and their own baseline."""

from __future__ import annotations

from workbench.features.subscription_measurements import ProcessorFeatures, QueueFeatures
from workbench.judgement_numbers import MORE, MOST, TENTH
from workbench.triage.facts import fact
from workbench.triage.facts.lag_facts import Lag
from workbench.triage.facts.reasons_within_verdict import PROCESS_CAUSES
from workbench.triage.facts.unknown_numbers import (
    Known,
    Number,
    above,
    all_of,
    at_least,
    at_most,
    below,
    lower_median,
    most,
    ratio,
    times,
)
from workbench.triage.operand import first_of


class ProcessorFacts(Lag):
    """Facts about queues and processors."""

    @fact
    def busy_share(self) -> Number:
        """Process time per second and queue: of one thread for each queue."""
        busy = sum(times(p.rate_per_second, p.process_seconds) or 0.0 for p in self.processors)
        return ratio(busy, len(self.queues))

    @fact
    def queue_fill(self) -> Number:
        """Of the fullest queue."""
        return most(*(it.fill for it in self.queues))

    @fact
    def full_queues(self) -> tuple[QueueFeatures, ...]:
        """Queues that are full."""
        return tuple(it for it in self.queues if at_least(it.fill, self.limits.queue_fill_ratio))

    @fact
    def hot_queues(self) -> tuple[QueueFeatures, ...]:
        """Full ones, while most others of their processor and member are idle."""

        def is_hot(queue: QueueFeatures) -> bool:
            if queue.processor is None or queue.member is None:
                return False
            siblings = [
                it
                for it in self.queues
                if (it.processor, it.member) == (queue.processor, queue.member) and it.queue != queue.queue
            ]
            idle = [it for it in siblings if at_most(it.fill, self.limits.idle_queue_ratio)]
            return bool(siblings) and 2 * len(idle) > len(siblings)

        return tuple(it for it in self.full_queues if is_hot(it))

    @fact
    def full_queue_count(self) -> int | None:
        """How many; None without a queue whose fill is known."""
        return len(self.full_queues) if self.queue_fill is not None else None

    @fact
    def hot_queue_count(self) -> int | None:
        """How many; None without a queue whose fill is known."""
        return len(self.hot_queues) if self.queue_fill is not None else None

    @fact
    def delay_full(self) -> Known:
        """Whether the delay queue is full."""
        t = self.limits
        return all_of(at_least(self.delay_fill, t.delay_fill_ratio), at_least(self.delay_high, t.delay_high_ratio))

    @fact
    def queue_long(self) -> Known:
        """Whether a queue is full, or the delay queue: then nothing enters the others."""
        return self.delay_full or at_least(self.queue_fill, self.limits.queue_fill_ratio)

    @fact
    def entry_slow(self) -> Known:
        """Whether events wait long before they enter a queue."""
        entry, t = self.enqueue_mean_seconds, self.limits
        before = self.enqueue_baseline_seconds or 0.0
        return all_of(at_least(entry, t.enqueue_seconds), at_least(entry, t.enqueue_ratio * before))

    # Slow processors: compared with their own baseline first, then with the slow-down of their peers.

    def _is_held_up(self, p: ProcessorFeatures) -> bool:
        """A slow processor with an empty queue delays nothing."""
        return self.held_inside or at_least(p.fill, self.limits.queue_fill_ratio) is not False

    def _others(self, than: str) -> list[ProcessorFeatures]:
        return [it for it in self.processors if it.processor != than and above(it.attempts, 0)]

    def _is_slow(self, p: ProcessorFeatures) -> bool:
        t = self.limits
        peers = lower_median(it.slow_down for it in self._others(p.processor)) or 0.0
        slow = all_of(at_least(p.slow_down, t.slow_ratio), at_least(p.slow_down, t.slow_peers_ratio * peers))
        return slow is True and self._is_held_up(p)

    @fact
    def slow_processors(self) -> tuple[str, ...]:
        """Event types that are slow against their own baseline and their peers, or else far slower than their peers."""
        return tuple(p.processor for p in self.processors if self._is_slow(p)) or self.slow_by_peers

    def _towers(self, p: ProcessorFeatures) -> bool:
        peers = lower_median(it.process_seconds for it in self._others(p.processor))
        every = sum(times(it.rate_per_second, it.process_seconds) or 0.0 for it in self.processors)
        most_of_it = above(times(p.rate_per_second, p.process_seconds), MOST * every)
        far = at_least(times(TENTH, p.process_seconds), peers)
        return p.slow_down is None and all_of(most_of_it, far) is True and self._is_held_up(p)

    @fact
    def slow_by_peers(self) -> tuple[str, ...]:
        """Of an incident without a good time before it: event types that take ten times their peers' time, and most of all of it."""
        return tuple(p.processor for p in self.processors if self._towers(p))

    @fact
    def unknown_count(self) -> int:
        """Processors that work, and have no baseline to compare with."""
        return sum(1 for p in self.processors if above(p.attempts, 0) and p.slow_down is None and self._is_held_up(p))

    @fact
    def known_count(self) -> int:
        """Processors with a baseline."""
        return sum(1 for p in self.processors if p.slow_down is not None)

    @fact
    def slowest(self) -> ProcessorFeatures | None:
        """The event type with the largest slow-down against its own baseline, of those that have one."""
        slowed = [p for p in self.processors if p.slow_down is not None]
        return max(slowed, key=lambda it: (it.slow_down or 0.0, it.processor), default=None)

    @fact
    def median_slow_down(self) -> Number:
        """Of all processors, as a multiple of the baseline."""
        return lower_median(p.slow_down for p in self.processors)

    @fact
    def handlers_as_before(self) -> bool:
        """Whether handlers are measured, and those of a new version, too, take no longer than before."""
        return below(self.median_slow_down, MORE) is True

    @fact
    def one_slow(self) -> Known:
        """Whether one is slow; if more than half of them are, the question about all of them covers that."""
        slow, every = len(self.slow_processors), len(self.processors)
        if slow and (2 * slow <= every or every == 1):
            return True
        return None if not self.known_count or self.unknown_count else False

    @fact
    def held_up_by(self) -> str | None:
        """What holds up the processes themselves, whatever they handle; None where nothing is known to."""
        return first_of(PROCESS_CAUSES, self)

    # Slow members: compared with their peers at the same processors, whatever was before.

    @fact
    def slow_members(self) -> tuple[str, ...]:
        """Those whose handlers take far longer than their peers' for records of the same processors; at most half of all."""
        slow = [it for it in self.members if it.live and at_least(it.against_peers, self.limits.slow_peers_ratio)]
        return tuple(it.member for it in slow) if 2 * len(slow) <= (self.live_members or 0) else ()

    @fact
    def slowest_member_ratio(self) -> Number:
        """Time that the slowest member's handlers take, as a multiple of its peers'."""
        return most(*(it.against_peers for it in self.members if it.live))

    @fact
    def slowest_seconds(self) -> Number:
        """Duration of an attempt of the slowest."""
        return self.slowest.process_seconds if self.slowest is not None else None

    @fact
    def slowest_baseline_seconds(self) -> Number:
        """The same in the baseline."""
        return self.slowest.baseline_seconds if self.slowest is not None else None

    @fact
    def slowest_slow_down(self) -> Number:
        """Their ratio."""
        return self.slowest.slow_down if self.slowest is not None else None

    @fact
    def peers_seconds(self) -> Number:
        """Duration of an attempt of a typical other one."""
        if self.slowest is None:
            return None
        return lower_median(p.process_seconds for p in self._others(self.slowest.processor))

    @fact
    def peers_slow_down(self) -> Number:
        """Slow-down of a typical other one."""
        if self.slowest is None:
            return None
        return lower_median(p.slow_down for p in self._others(self.slowest.processor))

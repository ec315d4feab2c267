"""What happened to the offsets, and what arrives: losses, skips, resets, silence, bursts."""

from __future__ import annotations

from functools import cached_property

from workbench.features.subscription_measurements import PartitionFeatures, ProcessorFeatures
from workbench.judgement_numbers import COUNTED, DEPLOY_SECONDS, FAR, FEW_SAMPLES, PART, SEVERAL, SKIP_RATE
from workbench.triage.facts import fact
from workbench.triage.facts.processor_facts import ProcessorFacts
from workbench.triage.facts.unknown_numbers import (
    Known,
    Number,
    above,
    all_of,
    any_of,
    at_least,
    at_most,
    below,
    least,
    ratio,
    times,
    total,
)
from workbench.triage.facts.work_or_arrivals import told


class Events(ProcessorFacts):
    """Facts about offsets and arrivals."""

    def _total(self, name: str) -> float:
        return sum(told(p, name) or 0.0 for p in self.partitions if above(told(p, name), 0))

    @fact
    def lost_messages(self) -> Number:
        """Deleted by retention before they were read."""
        return self._total("lost")

    @fact
    def leapt_messages(self) -> Number:
        """Passed unread on the way from a place that was deleted to the log's end."""
        return self._total("leapt")

    @fact
    def back_messages(self) -> Number:
        """By which commits went back."""
        return self._total("back")

    @fact
    def above_end_messages(self) -> Number:
        """By which commits are above the log's end."""
        return self._total("above_end")

    @fact
    def to_and_fro_partitions(self) -> tuple[int, ...]:
        """Whose commits go to and fro between two positions: those of two readers, or of two clusters."""
        return tuple(
            p.partition
            for p in self.partitions
            if at_least(told(p, "to_and_fro"), SEVERAL) is True or told(p, "swung") == 1
        )

    @fact
    def began_anew(self) -> bool:
        """Whether a log has fewer samples since it began anew than a commit above its end needs."""
        few = ((p, times(FEW_SAMPLES - 1, p.committed_interval_seconds)) for p in self.partitions)
        return any(at_most(told(p, "recreated_ago"), seconds) for p, seconds in few)

    # A commit that passed what waited in one step.

    @cached_property
    def _skips(self) -> list[PartitionFeatures]:
        return [p for p in self.partitions if above(told(p, "skipped"), 0)]

    def _is_unread(self, p: PartitionFeatures) -> bool:
        """The handlers were counted, and it went on at the log's end, where a reset leads: that decides, whatever the pace.

        Amid a backlog, offsets that compaction or an aborted transaction has left look the same.
        """
        at_end = any_of(told(p, "skip_alone") == 1, told(p, "skip_outran") != 1)
        return all_of(below(told(p, "skip_read"), PART), at_end) is True

    def _is_too_fast(self, p: PartitionFeatures) -> bool:
        """Without counted handlers: at a pace that hardly anybody reads at.

        That proves nothing: compaction and aborted transactions leave offsets that no record has, and passing them takes no time.
        """
        return told(p, "skip_read") is None and at_least(told(p, "skip_pace"), self.limits.skip_pace_ratio) is True

    def _is_unsure(self, p: PartitionFeatures) -> Known:
        if told(p, "skip_read") is not None:
            return all_of(below(told(p, "skip_read"), PART), not self._is_unread(p))
        # Between two samples nobody knows how fast it can read: what it has shown before is all there is.
        faster = any_of(told(p, "skip_outran") == 1, at_least(told(p, "skip_pace"), FAR))
        # Who was away for no longer than a deploy takes goes on where it was.
        long = above(told(p, "skip_waited"), DEPLOY_SECONDS)
        shown = any_of(*(told(p, name) == 1 for name in ("skip_uncounted", "skip_beside", "skip_new")))
        return any_of(shown, all_of(faster is not False, long), self._far_too_fast and self._is_too_fast(p))

    @cached_property
    def _far_too_fast(self) -> bool:
        """A slow topic's consumer has room to read whole hours in seconds, so the rate counts, too."""
        return sum(told(p, "skip_rate") or 0.0 for p in self.partitions if self._is_too_fast(p)) >= SKIP_RATE

    @cached_property
    def _skipped(self) -> list[PartitionFeatures]:
        return [p for p in self._skips if self._is_unread(p)]

    @fact
    def skipped_partitions(self) -> tuple[int, ...]:
        """Where a commit passed messages that nobody read."""
        return tuple(p.partition for p in self._skipped)

    @fact
    def skipped_messages(self) -> Number:
        """How many."""
        return sum((told(p, "skipped") or 0.0 for p in self._skipped), 0.0)

    @fact
    def doubtful_partitions(self) -> tuple[int, ...]:
        """Where messages were passed so fast that they were skipped, or read by a consumer with much room."""
        return tuple(p.partition for p in self._unsure)

    @cached_property
    def _unsure(self) -> list[PartitionFeatures]:
        # A handful of records is read in one step by anybody.
        found = [p for p in self._skips if self._is_unsure(p)]
        return found if sum(told(p, "skipped") or 0.0 for p in found) >= COUNTED else []

    @fact
    def doubtful_messages(self) -> Number:
        """How many."""
        return sum(told(p, "skipped") or 0.0 for p in self._unsure)

    # What arrives, and what fails.

    @fact
    def usual_gap_seconds(self) -> Number:
        """The longest time without an arrival before."""
        return least(*(told(p, "usual_gap") for p in self.partitions))

    @fact
    def arrival_ratio(self) -> Number:
        """Arrivals as a multiple of the baseline's."""
        return ratio(self.arrival_per_second, self.arrival_baseline_per_second)

    @cached_property
    def _with_outcomes(self) -> list[ProcessorFeatures]:
        """Where somebody counts how attempts end: that none is counted to fail is then more than that nobody counts."""
        return [p for p in self.processors if p.wordless is None or p.failed is not None]

    @fact
    def failing_share(self) -> Number:
        """Failures, of all attempts that ended; None where nobody counts how they end."""
        ended = sum(p.outcomes or 0.0 for p in self._with_outcomes)
        return ratio(sum(p.failed or 0.0 for p in self._with_outcomes), ended)

    @fact
    def failing_baseline_share(self) -> Number:
        """The same in the baseline."""
        ended = sum(p.outcomes or 0.0 for p in self._with_outcomes)
        return ratio(total(times(p.failing_baseline, p.outcomes) for p in self._with_outcomes if p.outcomes), ended)

    @fact
    def unnamed_share(self) -> Number:
        """Attempts that ended with an exporter's own word, which may mean a failure, of all."""
        unnamed = sum(p.unnamed or 0.0 for p in self.processors)
        return ratio(unnamed, unnamed + sum(p.outcomes or 0.0 for p in self.processors))

    @fact
    def unnamed_baseline_share(self) -> Number:
        """The same in the baseline."""
        ended = {p.processor: (p.unnamed or 0.0) + (p.outcomes or 0.0) for p in self.processors}
        return ratio(
            total(times(p.unnamed_baseline, ended[p.processor]) for p in self.processors if ended[p.processor]),
            sum(ended.values()),
        )

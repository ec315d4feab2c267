"""Apply a redrive plan: checks, journal, transactions. After a kill at any point it can be repeated, and continues.

What was produced is never remembered here: each start, and each retry after an error, fences the former producer and asks Kafka for
the position that was committed together with the records.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from workbench.errors import EvidenceError, GuardError, SourceUnreachableError
from workbench.humanize import listed
from workbench.humanize import size as _bytes
from workbench.plans.journal import Journal, only_one
from workbench.queues.replay_port import ClusterView
from workbench.redrive.commit_marks import Place, PlanProgress, PlanState, marks_of
from workbench.redrive.guard import (
    HINTS,
    RedriveLimits,
    RedriveNow,
    check_claims,
    check_redrive,
    check_topics,
    ended_words,
)
from workbench.redrive.plan import HTTP_BATCH
from workbench.redrive.planfile import RedrivePlan, To
from workbench.redrive.produce_letters import AllClearError, Lanes
from workbench.redrive.rate_cap import SendPace
from workbench.redrive.receipt import (
    RedriveOutcome,
    RedriveReceipt,
    keep_receipt,
    load_of,
    places_of,
    redrive_receipt_path,
)
from workbench.redrive.redrive_ledger import EndedPlan, Ledger, ended_of
from workbench.redrive.redrive_ports import (
    FencedError,
    LetterReader,
    LettersGoneError,
    LettersRefusedError,
    Sink,
    SlowError,
)
from workbench.redrive.transaction_size import LetterFlow
from workbench.redrive.verify import produced_of

__all__ = ["Redrive", "RedriveOutcome", "RedriveReceipt", "keep_receipt", "redrive_receipt_path"]

_RECORDS = 20_000  # of a transaction: its markers cost little, and a kill repeats the reading of no more than these
_MOST_TRIES = 5  # without progress
_RETRY_SECONDS = 1.0
_TAKEOVER_SECONDS = 3.0  # in this time, a run that has fenced this one signs the positions


@dataclass(slots=True, kw_only=True)
class Redrive:
    """One run of a plan.

    Args:
        make_sink: makes a new sink; each is used until its first error.
        look: the cluster's current state, given the plan.
        topics: the cluster's current view of the plan's topics alone.
        owner: random name of this run; its commits carry it, so that a takeover can be told from a time-out.
    """

    plan: RedrivePlan
    letters: LetterReader
    make_sink: Callable[[], Sink]
    look: Callable[[], RedriveNow]
    topics: Callable[[], ClusterView]
    journal: Journal
    ledger: Ledger
    limits: RedriveLimits = field(default_factory=RedriveLimits)
    pace: SendPace | None = None
    owner: str = field(default_factory=lambda: uuid4().hex[:12])
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    on_progress: Callable[[int], None] = lambda _produced: None
    _positions: dict[int, int] = field(default_factory=dict)
    _ordered: int | None = None
    _committed: int = 0
    _flow: LetterFlow = field(init=False)
    _pace: SendPace = field(init=False)

    def __post_init__(self) -> None:
        self._flow = LetterFlow(most=HTTP_BATCH if self.plan.destination.kind is To.HTTP else _RECORDS)

    def run(self, *, dry_run: bool = False) -> RedriveReceipt:
        """Check, and produce what is left of the plan.

        Raises:
            GuardError: if another process applies the plan, or has taken it over; or if its letters were claimed by another plan.
            SourceUnreachableError: if Kafka stops answering; repeat it then.
            EvidenceError: if a planned letter is gone, or a topic of the plan.
        """
        plan = self.plan
        with only_one(plan.id):
            if (ended := self.ledger.ended(plan)) is not None:
                begun = self.journal.open_change(plan.id, plan.cluster_id)
                if ended.outcome == "done" and begun is not None and begun.action == "redrive":
                    self._note("end", "done", "told by the ledger after an interruption")
                return self._after(ended)
            now = self.look()
            before = produced_of(plan, now.positions, now.ordered or 0, now.refused)
            if refusals := check_redrive(plan, now, self.limits):
                reasons = list(dict.fromkeys(_with_place(it.message, it.partition) for it in refusals))
                hints = list(dict.fromkeys(HINTS[it.code] for it in refusals))
                return self._receipt(RedriveOutcome.REFUSED, reasons=reasons, hints=hints, before=before)
            if dry_run:
                return self._receipt(RedriveOutcome.DRY_RUN, notes=load_of(plan, now))
            self.ledger.keep(plan)
            self._positions = dict(now.positions)
            self._note("begin")
            self._pace = self.pace or SendPace(plan.max_records_per_second, plan.max_bytes_per_second)
            began = self.clock()
            try:
                self._produce_all()
            except BaseException as error:
                self._note(
                    "end", "unknown" if isinstance(error, SourceUnreachableError) else "partial", _words(error), error
                )
                raise
            refused = places_of(self._flow.refused)
            done = PlanProgress(positions=self._positions, ordered=self._ordered)
            self.ledger.end(plan, ended_of("done", plan, done, refused=self._flow.refused))
            self._note("end", "done", f"left out: {listed(list(refused))}" if refused else None)
            self._check_topics(with_letters=False)  # one that was recreated meanwhile takes the rest without a word
            outcome = RedriveOutcome.PARTIAL if refused else RedriveOutcome.DONE
            seconds = self.clock() - began
            return self._receipt(outcome, resumed=bool(now.positions), before=before, seconds=seconds, refused=refused)

    def _after(self, ended: EndedPlan) -> RedriveReceipt:
        """What a plan that has ended still says; nothing is produced."""
        if ended.outcome == "done":
            outcome = RedriveOutcome.PARTIAL if ended.refused else RedriveOutcome.DONE
            before = self.plan.letters - len(ended.refused)
            return self._receipt(outcome, resumed=True, before=before, refused=dict(ended.refused))
        why = ended_words(self.plan, ended.outcome) + f" ({ended.at}{f': {ended.reason}' if ended.reason else ''})."
        return self._receipt(RedriveOutcome.REFUSED, reasons=[why], hints=[HINTS[ended.outcome]])

    def _receipt(self, outcome: RedriveOutcome, *, seconds: float = 0.0, **fields: Any) -> RedriveReceipt:
        return RedriveReceipt(
            plan=self.plan.hash,
            outcome=outcome,
            letters=self.plan.letters,
            produced=self._committed,
            seconds=round(seconds, 3),
            **fields,
        )

    def _note(
        self, phase: Any, outcome: str | None = None, detail: str | None = None, after: BaseException | None = None
    ) -> None:
        self.journal.append(
            plan=self.plan.hash,
            cluster_id=self.plan.cluster_id,
            group=self.plan.id,
            action="redrive",
            phase=phase,
            outcome=outcome,
            detail=detail,
            after=after,
            changes=[
                (self.plan.topic, part.partition, self._positions.get(part.partition), part.stop, None)
                for part in self.plan.partitions
            ],
        )

    def _produce_all(self) -> None:
        """Produce what is left; after an error with a new sink, from the position in Kafka.

        A refused letter and a transaction that was too large change what the next one has; only what brings nothing further counts as a
        try.
        """
        plan, tries = self.plan, 0
        while True:
            before, sink = self._committed, self.make_sink()
            lanes: Lanes | None = None
            try:
                lanes = self._lanes(sink)
                lanes.run()
                return
            except LettersGoneError as error:
                gone = [it for it in check_redrive(plan, self.look(), self.limits) if it.code == "letters_deleted"]
                tries = 1 if self._committed > before else tries + 1
                if gone or tries >= _MOST_TRIES:  # else nothing that was planned is among them
                    raise EvidenceError(
                        _with_place(gone[0].message, gone[0].partition)
                        if gone
                        else f"Planned letters are deleted: {error.where}.",
                        hint="Give the plan up (dlq give-up), and make a new one of what is left.",
                    ) from None
            except LettersRefusedError as error:
                self._flow.was_refused(lanes.places if lanes is not None else [], error.code, error.named)
                tries = 0
            except AllClearError:
                tries = 0
            except SlowError as error:
                places, size = (lanes.places, lanes.size) if lanes is not None else ([], 0)
                if not self._flow.was_slow(places, size):
                    raise SourceUnreachableError(
                        f"The letter {_named(places)} of {_bytes(size)} cannot be produced within one transaction: {error}.",
                        hint="See the quotas of this user (dlq apply --dry-run names them).",
                    ) from None
                tries = 0
            except FencedError:
                tries = 1 if self._committed > before else tries + 1
                if tries >= _MOST_TRIES or self._is_taken_over():
                    raise
            except SourceUnreachableError:
                self._flow.was_slow([], self._flow.bytes)
                self._check_topics(with_letters=True)
                tries = 1 if self._committed > before else tries + 1
                if tries >= _MOST_TRIES:
                    raise
            finally:
                sink.close()
            self.sleep(_RETRY_SECONDS * tries)

    def _check_topics(self, *, with_letters: bool) -> None:
        """End where a topic of the plan is gone or is another one; what cannot be told ends nothing."""
        with suppress(SourceUnreachableError):
            check_topics(self.plan, self.topics(), with_letters=with_letters)

    def _is_taken_over(self) -> bool:
        """Whether another run has committed since: each one signs all positions before its first record."""
        self.sleep(_TAKEOVER_SECONDS)
        sink = self.make_sink()
        try:
            return bool(sink.progress().owners - {self.owner})
        finally:
            sink.close()

    def _lanes(self, sink: Sink) -> Lanes:
        """Take the plan: claim its letters if nobody did, sign its positions, and continue from them."""
        plan = self.plan
        careful = bool(self._flow.suspects)
        sink.begin(careful=careful)
        progress = sink.progress()
        numbers = [part.partition for part in plan.partitions]
        missing = [number for number in numbers if number not in progress.positions]
        lost = missing and (len(missing) < len(numbers) or self.ledger.was_started(plan))
        if lost or (not missing and plan.ordered and progress.ordered is None):
            raise GuardError("The position of the plan in Kafka has expired.", hint=HINTS["position_expired"])
        if missing:
            start = {part.partition: part.log_start for part in plan.partitions}
            marks = marks_of(PlanState.BEGUN, self.owner, numbers, {})
            progress = sink.claim(start, 0 if plan.ordered else None, marks, lambda: check_claims(plan, self.look()))
        if progress.state in (PlanState.DISCARDED, PlanState.GIVEN_UP):
            raise GuardError(f"{ended_words(plan, progress.state)}.", hint=HINTS[progress.state.value])
        self.ledger.start(plan)
        self._flow.refused = {**progress.refused, **self._flow.refused}
        self._positions, self._ordered = dict(progress.positions), progress.ordered
        if progress.owners != {self.owner}:
            sink.commit(
                self._positions, self._ordered, marks_of(PlanState.BEGUN, self.owner, numbers, self._flow.refused)
            )
        return Lanes(
            plan=plan,
            sink=sink,
            sink_is_careful=careful,
            letters=self.letters,
            flow=self._flow,
            pace=self._pace,
            owner=self.owner,
            positions=dict(self._positions),
            ordered=self._ordered,
            clock=self.clock,
            on_commit=self._on_commit,
        )

    def _on_commit(self, produced: int, positions: Mapping[int, int], ordered: int | None) -> None:
        self._positions, self._ordered = dict(positions), ordered
        self._committed += produced
        self.on_progress(self._committed)


def _named(places: Sequence[Place]) -> str:
    return f"{places[0][0]}:{places[0][1]}" if places else "(none)"


def _with_place(message: str, partition: tuple[str, int] | None) -> str:
    return message if partition is None else f"{partition[0]}-{partition[1]}: {message}"


def _words(error: BaseException) -> str:
    return str(error) or type(error).__name__

"""Apply a redrive plan: checks, journal, transactions. After a kill at any point it can be repeated, and continues.

What was produced is never remembered here: each start, and each retry after an error, fences the former producer and asks Kafka for
the position that was committed together with the records.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from workbench.errors import EvidenceError, GuardError, SourceUnreachableError
from workbench.humanize import duration, listed, plural, size
from workbench.redrive.gateway import LetterReader, LettersGoneError, Sink, letters_at
from workbench.redrive.guard import HINTS, RedriveLimits, RedriveNow, check_redrive
from workbench.redrive.ledger import Ended, Ledger
from workbench.redrive.letters import Letter, Reader
from workbench.redrive.pace import Pace
from workbench.redrive.picks import Walk
from workbench.redrive.plan import HTTP_BATCH, bytes_per_broker_of, route_of, seconds_of
from workbench.redrive.planfile import RedrivePlan, To
from workbench.replay.journal import Journal, only_one
from workbench.replay.planfile import write_file

_RECORDS = 20_000  # of a transaction: its markers cost little, and a kill repeats the reading of no more than these
_SECONDS = 0.5  # so that consumers of committed records do not wait longer
_WHOLE_SECONDS = 3600.0  # positions that do not move are committed again, because Kafka forgets them one by one
_MOST_TRIES = 5  # without progress
_RETRY_SECONDS = 1.0


class RedriveOutcome(StrEnum):
    """Result of a run."""

    DONE = "done"
    DRY_RUN = "dry_run"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class RedriveReceipt:
    """What a run has done.

    Attributes:
        produced: records of this run; letters: of the plan.
        resumed: whether an earlier run had begun.
        seconds: of producing.
        notes: of a dry run: duration at the cap, and the bytes of each broker.
    """

    plan: str
    outcome: RedriveOutcome
    letters: int
    produced: int = 0
    resumed: bool = False
    seconds: float = 0.0
    reasons: list[str] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def sentence(self) -> str:
        """The outcome in words."""
        if self.outcome is RedriveOutcome.REFUSED:
            return "Refused: nothing was produced."
        if self.outcome is RedriveOutcome.DRY_RUN:
            return f"All safety checks passed for {plural(self.letters, 'letter')}."
        whole = f"; with the earlier runs all {self.letters:,}." if self.resumed else "."
        return f"Done: {plural(self.produced, 'record')} produced in {duration(self.seconds)}{whole}"

    def document(self) -> dict[str, Any]:
        """As plain values."""
        names = ("plan", "letters", "produced", "resumed", "seconds", "reasons", "hints", "notes")
        head = {"schema": "workbench.redrive-receipt/1", "outcome": self.outcome.value}
        return {**head, **{name: getattr(self, name) for name in names}}


def redrive_receipt_path(plan: Path) -> Path:
    """File of the receipt, next to the plan."""
    return plan.with_suffix(".receipt.json")


@dataclass(slots=True, kw_only=True)
class Redrive:
    """One run of a plan.

    Args:
        make_sink: makes a new sink; each is used until its first error.
        look: the cluster's current state, given the plan.
    """

    plan: RedrivePlan
    letters: LetterReader
    make_sink: Callable[[], Sink]
    look: Callable[[], RedriveNow]
    journal: Journal
    ledger: Ledger
    limits: RedriveLimits = field(default_factory=RedriveLimits)
    pace: Pace | None = None
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    on_progress: Callable[[int], None] = lambda _produced: None
    _positions: dict[int, int] = field(default_factory=dict)
    _ordered: int | None = None
    _produced: int = 0
    _committed: int = 0

    def run(self, *, dry_run: bool = False) -> RedriveReceipt:
        """Check, and produce what is left of the plan.

        Raises:
            GuardError: if another process applies the plan, or has taken it over.
            SourceUnreachableError: if Kafka stops answering; repeat it then.
            EvidenceError: if a planned letter is gone.
        """
        plan = self.plan
        with only_one(plan.id):
            now = self.look()
            if refusals := check_redrive(plan, now, self.limits):
                reasons = list(dict.fromkeys(_with_place(it.message, it.partition) for it in refusals))
                hints = list(dict.fromkeys(HINTS[it.code] for it in refusals))
                return self._receipt(RedriveOutcome.REFUSED, reasons=reasons, hints=hints)
            if dry_run:
                return self._receipt(RedriveOutcome.DRY_RUN, notes=_load(plan, now))
            if self.ledger.ended(plan) is not None:
                return self._receipt(RedriveOutcome.DONE, resumed=True)
            self.ledger.keep(plan)
            resumed = bool(now.positions)
            self._positions = dict(now.positions)
            self._note("begin")
            began = self.clock()
            try:
                self._produce_all()
            except BaseException as error:
                self._note("end", "unknown" if isinstance(error, SourceUnreachableError) else "partial", _words(error))
                raise
            self.ledger.end(plan, Ended(outcome="done", at=datetime.now(UTC).isoformat(timespec="seconds")))
            self._note("end", "done")
            return self._receipt(RedriveOutcome.DONE, resumed=resumed, seconds=self.clock() - began)

    def _receipt(self, outcome: RedriveOutcome, *, seconds: float = 0.0, **fields: Any) -> RedriveReceipt:
        return RedriveReceipt(
            plan=self.plan.hash,
            outcome=outcome,
            letters=self.plan.letters,
            produced=self._committed,
            seconds=round(seconds, 3),
            **fields,
        )

    def _note(self, phase: Any, outcome: str | None = None, detail: str | None = None) -> None:
        self.journal.append(
            plan=self.plan.hash,
            cluster_id=self.plan.cluster_id,
            group=self.plan.id,
            action="redrive",
            phase=phase,
            outcome=outcome,
            detail=detail,
            changes=[
                (self.plan.topic, part.partition, self._positions.get(part.partition), part.stop, None)
                for part in self.plan.partitions
            ],
        )

    def _produce_all(self) -> None:
        """Produce what is left; after an error with a new sink, from the position in Kafka."""
        tries = 0
        while True:
            before, sink = self._committed, self.make_sink()
            try:
                self._pass(sink)
                return
            except LettersGoneError as error:
                raise EvidenceError(
                    f"Planned letters are deleted: {error}.", hint="Make a new plan with the letters that are left."
                ) from None
            except SourceUnreachableError:
                tries = 1 if self._committed > before else tries + 1
                if tries >= _MOST_TRIES:
                    raise
            finally:
                sink.close()
            self.sleep(_RETRY_SECONDS * tries)

    def _pass(self, sink: Sink) -> None:
        plan = self.plan
        sink.begin()
        positions, ordered = sink.progress()
        self._positions, self._ordered = dict(positions), ordered
        parts = {part.partition: part for part in plan.partitions}
        missing = [number for number in parts if number not in positions]
        lost = missing and (len(missing) < len(parts) or self.ledger.was_started(plan))
        if lost or (not missing and plan.ordered and ordered is None):
            raise GuardError("The position of the plan in Kafka has expired.", hint=HINTS["position_expired"])
        if missing:
            self._positions = {number: part.log_start for number, part in parts.items()}
            self._ordered = 0 if plan.ordered else None
            sink.commit(self._positions, self._ordered)
        self.ledger.start(plan)
        _Lanes(self, sink).run()

    def committed(self, produced: int) -> None:
        """Count what a transaction has produced."""
        self._committed += produced
        self.on_progress(self._committed)


class _Lanes:
    """Produces through one sink: first the partitions, in the order of their logs; then the ordered letters."""

    def __init__(self, run: Redrive, sink: Sink) -> None:
        plan = run.plan
        self._run, self._sink, self._plan = run, sink, plan
        self._reader, self._route = Reader(plan.headers), route_of(plan)
        self._partitions = {it.topic: len(it.ends) for it in plan.targets}
        self._pace = run.pace or Pace(plan.max_records_per_second, plan.max_bytes_per_second)
        self._most = HTTP_BATCH if plan.destination.kind is To.HTTP else _RECORDS
        self._positions = dict(run._positions)
        self._moved: set[int] = set()
        self._pending, self._since, self._whole = 0, run.clock(), run.clock()

    def run(self) -> None:
        """Produce all letters that are left."""
        parts = {part.partition: part for part in self._plan.partitions}
        start = {number: min(at, parts[number].stop) for number, at in self._positions.items() if number in parts}
        stop = {number: part.stop for number, part in parts.items()}
        # The log may begin later than the plan, if what is gone was not planned.
        walks = {number: Walk(part.parsed, start[number]) for number, part in parts.items()}
        start = {
            n: max(at, _first(parts[n].parsed.starts, parts[n].parsed.ends, at, stop[n])) for n, at in start.items()
        }
        missing: list[int] = []
        for batch, after in self._run.letters.read(start, stop):
            for letter in batch:
                if walks[letter.partition].take(letter.offset, missing):
                    self._send(letter)
                self._check(letter.partition, missing)
                self._moved.add(letter.partition)
                self._positions[letter.partition] = letter.offset + 1
                if self._is_due():
                    self._commit()
            for number, at in after.items():
                walks[number].skip_to(at, missing)
                self._check(number, missing)
                if at > self._positions[number]:
                    self._positions[number] = at
                    self._moved.add(number)
            if self._run.clock() - self._since >= _SECONDS:
                self._commit()
        for number, part in parts.items():
            walks[number].skip_to(part.stop, missing)
            self._check(number, missing)
            if self._positions[number] < part.stop:
                self._positions[number] = part.stop
                self._moved.add(number)
        self._commit()
        if self._plan.ordered:
            self._run_ordered()

    def _check(self, number: int, missing: list[int]) -> None:
        if missing:
            raise EvidenceError(
                f"{plural(len(missing), 'planned letter')} of {self._plan.topic}-{number} are gone: {listed(missing)}.",
                hint="Compaction or retention has deleted them. Make a new plan with the letters that are left.",
            )

    def _run_ordered(self) -> None:
        done = self._run._ordered or 0
        left = self._plan.ordered[done:]
        found = letters_at(self._run.letters, left)
        for place in left:
            letter = found.get(place)
            if letter is None:
                self._check(place[0], [place[1]])
                return
            self._send(letter)
            self._run._ordered = done = done + 1
            if self._is_due():
                self._commit()
        self._commit()

    def _send(self, letter: Letter) -> None:
        plan, origin = self._plan, self._reader.origin(letter.headers)
        topic = self._route.target(origin)
        if topic is None or (topic and topic not in self._partitions):
            raise GuardError(
                f"The letter {letter.partition}:{letter.offset} of {plan.topic!r} has another target than planned.",
                hint="Make a new plan.",
            )
        keeps = plan.destination.partition == "origin" and plan.destination.kind is To.SOURCE
        place = origin.partition if keeps else None
        headers = self._reader.restored(
            letter.headers, plan=plan.id, letter=f"{letter.partition}:{letter.offset}", round_=origin.round + 1
        )
        original = None
        if plan.destination.timestamps == "original":
            original = origin.timestamp_ms if origin.timestamp_ms is not None else max(0, letter.timestamp_ms)
        known = place is not None and place < self._partitions.get(topic, 0)
        self._sink.send(topic, place if known else None, letter, headers, original)
        self._pending += 1
        self._pace.sent(letter.size)

    def _is_due(self) -> bool:
        """Whether to commit now; a cap makes a batch of letters last longer than a transaction should."""
        late = self._pace.is_capped and self._run.clock() - self._since >= _SECONDS
        return self._pending >= self._most or late

    def _commit(self) -> None:
        whole = self._run.clock() - self._whole >= _WHOLE_SECONDS
        if self._pending or self._moved or whole:
            chosen = self._positions if whole else {number: self._positions[number] for number in self._moved}
            self._sink.commit(chosen, self._run._ordered)
            if whole:
                self._whole = self._run.clock()
            self._run._positions = dict(self._positions)
            self._run.committed(self._pending)
        self._pending, self._moved, self._since = 0, set(), self._run.clock()


def _first(starts: tuple[int, ...], ends: tuple[int, ...], at: int, stop: int) -> int:
    """First pick at or after a position; the stop without one."""
    for start, end in zip(starts, ends, strict=True):
        if end > at:
            return max(start, at)
    return stop


def _with_place(message: str, partition: tuple[str, int] | None) -> str:
    return message if partition is None else f"{partition[0]}-{partition[1]}: {message}"


def _words(error: BaseException) -> str:
    return str(error) or type(error).__name__


def keep_receipt(path: Path, receipt: RedriveReceipt) -> None:
    """Write the receipt next to the plan."""
    write_file(redrive_receipt_path(path), receipt.document())


def _load(plan: RedrivePlan, now: RedriveNow) -> list[str]:
    needed = seconds_of(plan)
    found = (
        [f"At the cap it takes {duration(needed)}."]
        if needed is not None
        else ["No cap: as fast as the brokers take it."]
    )
    loads = bytes_per_broker_of(plan, now.cluster)
    for broker, (read, write) in loads.items():
        found.append(f"Broker {broker}: about {size(read)} to read, {size(write)} to write.")
    if (quotas := now.quotas) is None:
        return [*found, "Quotas of this user: unknown."]
    for limit, most, what in (
        (quotas.consumer_bytes, max((it[0] for it in loads.values()), default=0), "read"),
        (quotas.producer_bytes, max((it[1] for it in loads.values()), default=0), "write"),
    ):
        if limit:
            least = duration(most / limit)
            found.append(
                f"Quota of {quotas.user} to {what}: {size(limit)}/s for each broker, so it takes at least {least}."
            )
    if not quotas.consumer_bytes and not quotas.producer_bytes:
        found.append(f"Quotas of {quotas.user}: none.")
    return found

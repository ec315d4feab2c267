"""Producing of a plan's letters through one sink: reading in order, bounded transactions, and the position with each of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from workbench.errors import EvidenceError, GuardError, WorkbenchError
from workbench.humanize import listed, plural
from workbench.redrive.commit_marks import MOST_BYTES, Place, PlanState, marks_of
from workbench.redrive.letter_headers import Letter, Reader
from workbench.redrive.picked_letter_offsets import Walk
from workbench.redrive.plan import route_of
from workbench.redrive.planfile import RedrivePlan, To
from workbench.redrive.rate_cap import SendPace
from workbench.redrive.read_letters_for_plan import Route
from workbench.redrive.redrive_ports import LetterReader, Sink, letters_at
from workbench.redrive.transaction_size import LetterFlow

_SECONDS = 0.5  # of a transaction, so that consumers of committed records do not wait longer
_WHOLE_SECONDS = 3600.0  # positions that do not move are committed again, because Kafka forgets them one by one


class AllClearError(Exception):
    """No letter is suspected any more: continue with a sink that is not careful."""


@dataclass(slots=True, kw_only=True)
class Lanes:
    """First the partitions, in the order of their logs; then the letters in an order of their own.

    Attributes:
        positions, ordered: what is committed, at first; then what the next commit says.
        places: letters of the open transaction.
        on_commit: called with the number of records, the positions and the ordered letters of a transaction that was committed.
    """

    plan: RedrivePlan
    sink: Sink
    letters: LetterReader
    flow: LetterFlow
    pace: SendPace
    owner: str
    positions: dict[int, int]
    ordered: int | None
    clock: Callable[[], float]
    on_commit: Callable[[int, Mapping[int, int], int | None], None]
    places: list[Place] = field(default_factory=list)
    size: int = 0
    sink_is_careful: bool = False
    _moved: set[int] = field(default_factory=set)
    _opened: float = 0.0
    _whole: float = 0.0
    _is_committing: bool = False
    _reader: Reader = field(init=False)
    _route: Route = field(init=False)
    _partitions: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self._reader, self._route = Reader(self.plan.headers), route_of(self.plan)
        self._partitions = {it.topic: len(it.ends) for it in self.plan.targets}

    def run(self) -> None:
        """Produce all letters that are left, and commit the end of the plan with the last of them."""
        try:
            self._run()
        except (WorkbenchError, KeyboardInterrupt):
            if self.sink.takes_at_once and self.places and not self._is_committing:
                with suppress(WorkbenchError):  # the first error is the one to tell
                    self._commit()  # what was taken is not sent again
            raise

    def _run(self) -> None:
        self._opened = self._whole = self.clock()
        plan, parts = self.plan, self.plan.by_partition
        start = {number: min(at, parts[number].stop) for number, at in self.positions.items() if number in parts}
        stop = {number: part.stop for number, part in parts.items()}
        # The log may begin later than the plan, if what is gone was not planned.
        walks = {number: Walk(part.parsed, start[number]) for number, part in parts.items()}
        start = {
            n: max(at, _first(parts[n].parsed.starts, parts[n].parsed.ends, at, stop[n])) for n, at in start.items()
        }
        missing: list[int] = []
        for batch, after in self.letters.read(start, stop):
            for letter in batch:
                if walks[letter.partition].take(letter.offset, missing):
                    self._check(letter.partition, missing)
                    self._send(letter)
                self._check(letter.partition, missing)
                self._moved.add(letter.partition)
                self.positions[letter.partition] = letter.offset + 1
            for number, at in after.items():
                walks[number].skip_to(at, missing)
                self._check(number, missing)
                if at > self.positions[number]:
                    self.positions[number] = at
                    self._moved.add(number)
            if self.clock() - self._opened >= _SECONDS:
                self._commit()
        for number, part in parts.items():
            walks[number].skip_to(part.stop, missing)
            self._check(number, missing)
            if self.positions[number] < part.stop:
                self.positions[number] = part.stop
                self._moved.add(number)
        if plan.ordered:
            self._commit()
            self._run_ordered()
        self._end()

    def _check(self, number: int, missing: list[int]) -> None:
        if missing:
            raise EvidenceError(
                f"{plural(len(missing), 'planned letter')} of {self.plan.topic}-{number} are gone: {listed(missing)}.",
                hint="Compaction or retention has deleted them. Give the plan up (dlq give-up), and make a new one of what is left.",
            )

    def _run_ordered(self) -> None:
        done = self.ordered or 0
        left = self.plan.ordered[done:]
        found = letters_at(self.letters, left)
        for place in left:
            letter = found.get(place)
            if letter is None:
                self._check(place[0], [place[1]])
                return
            self._send(letter)
            self.ordered = done = done + 1
            if self.clock() - self._opened >= _SECONDS and self.pace.is_capped:
                self._commit()

    def _send(self, letter: Letter) -> None:
        place = (letter.partition, letter.offset)
        if place in self.flow.refused:
            self._moved.add(letter.partition)  # the commit of its partition names it
            return
        size = letter.size  # of all headers: asked once
        if not self.flow.has_room(len(self.places), self.size, size):
            self._commit()
        if self.pace.is_capped:
            self._pay()
        topic, partition, headers, original = self._record(letter)
        if not self.places:
            self._opened = self.clock()
        if self.sink.takes_at_once:
            self.sink.send(topic, partition, letter, headers, original)
        self.places.append(place)
        self.size += size
        if not self.sink.takes_at_once:
            self.sink.send(topic, partition, letter, headers, original)
        if self.pace.is_capped:
            self.pace.sent(size)

    def _pay(self) -> None:
        """Wait until the cap allows the next record; never for long inside an open transaction, which would time out."""
        debt = self.pace.debt()
        if not debt:
            return
        if self.places and self.clock() - self._opened + debt > _SECONDS:
            self._commit()
        self.pace.pay()

    def _record(self, letter: Letter) -> tuple[str, int | None, list[tuple[str, bytes | None]], int | None]:
        """Topic, partition, headers and timestamp of the record."""
        plan, reader = self.plan, self._reader
        origin = reader.origin(letter.headers)
        topic = self._route.target(origin)
        if topic is None or (topic and topic not in self._partitions):
            raise GuardError(
                f"The letter {letter.partition}:{letter.offset} of {plan.topic!r} has another target than planned.",
                hint="Make a new plan.",
            )
        keeps = plan.destination.partition == "origin" and plan.destination.kind is To.SOURCE
        place = origin.partition if keeps else None
        headers = reader.restored(
            letter.headers, plan=plan.id, letter=f"{letter.partition}:{letter.offset}", round_=origin.round + 1
        )
        original = None
        if plan.destination.timestamps == "original":
            original = origin.timestamp_ms if origin.timestamp_ms is not None else max(0, letter.timestamp_ms)
        known = place is not None and place < self._partitions.get(topic, 0)
        return topic, place if known else None, headers, original

    def _commit(self) -> None:
        whole = self.clock() - self._whole >= _WHOLE_SECONDS
        if self.places or self._moved or whole:
            self._commit_now(self.positions if whole else {n: self.positions[n] for n in self._moved}, PlanState.BEGUN)
            if whole:
                self._whole = self.clock()
            if self.sink_is_careful and not self.flow.suspects:
                raise AllClearError
        self._opened = self.clock()

    def _end(self) -> None:
        """One commit with the mark of the end, of all partitions: other machines see it as well."""
        self._commit_now(self.positions, PlanState.DONE)

    def _commit_now(self, positions: Mapping[int, int], state: PlanState) -> None:
        marks = marks_of(state, self.owner, positions, self.flow.refused)
        if any(len(text) > MOST_BYTES for text in marks.values()):
            raise GuardError(
                f"The target refuses too many letters: {len(self.flow.refused):,} so far, at last {_last(self.flow.refused)}.",
                hint="Correct the target's settings, or give the plan up (dlq give-up) and select other letters.",
            )
        self._is_committing = True
        self.sink.commit(positions, self.ordered, marks)
        self._is_committing = False
        self.flow.took(self.places, self.size, self.clock() - self._opened)
        count, self.size = len(self.places), 0
        self.places.clear()
        self._moved.clear()
        self.on_commit(count, self.positions, self.ordered)


def _last(refused: Mapping[Place, str]) -> str:
    (number, offset), code = list(refused.items())[-1]
    return f"{number}:{offset} ({code})"


def _first(starts: tuple[int, ...], ends: tuple[int, ...], at: int, stop: int) -> int:
    """First pick at or after a position; the stop without one."""
    for start, end in zip(starts, ends, strict=True):
        if end > at:
            return max(start, at)
    return stop

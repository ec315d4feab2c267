"""The producer of a redrive on Pulsar, and where its progress is.

Pulsar's transactions are off by default, so records and progress do not take effect together. Instead every run reads the targets from
where they ended when the plan was made: what is there with the plan's name and the letter's is not sent again, whatever became of the
progress (a subscription without consumers may expire). Only what
an earlier run had on its way and the broker had not stored by then could come twice: at most `MOST_ON_THE_WAY`. Where a target has
deleted what came since the plan, nothing tells that, and only a plan that surely was never begun goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from datetime import datetime
from time import monotonic, sleep, time

from workbench.errors import GuardError, SourceUnreachableError
from workbench.humanize import plural
from workbench.pulsar.admin import NotThereError
from workbench.pulsar.connection import RefusedError
from workbench.pulsar.entry_messages import MessagePlace
from workbench.pulsar.policies import subscriptions_expire_seconds
from workbench.pulsar.producer import OutgoingMessage, PulsarProducer
from workbench.pulsar.pulsar_wire import ServerRefusal
from workbench.pulsar.redrive.letter_reader import PulsarLetters
from workbench.pulsar.redrive.topics_and_progress import MARK, ORDERED, POSITION, PulsarLetterGateway
from workbench.pulsar.topic_brokers import PulsarBrokers
from workbench.pulsar.topic_names import part_name
from workbench.queues.position import unpacked
from workbench.queues.replay_port import LogView
from workbench.redrive.commit_marks import Mark, PlanProgress, PlanState
from workbench.redrive.guard import UNKNOWN_RETENTION_SECONDS
from workbench.redrive.letter_headers import LETTER_HEADER, PLAN_HEADER, Headers, Letter
from workbench.redrive.planfile import RedrivePlan
from workbench.redrive.redrive_ports import NO_MARKS, FencedError, LettersRefusedError, Marks, Positions

MOST_ON_THE_WAY = 100  # messages without a receipt
_CLAIM = "workbench-redrive-claim"  # name of a producer that sends nothing: a broker has one of a name on a topic
_LATEST = {"ledgerId": (1 << 63) - 1, "entryId": (1 << 63) - 1, "partitionIndex": -1}
_RECEIPT_SECONDS = 30.0
_BUSY_SECONDS = 10.0  # a broker notices within this time that a killed process has gone
_BUSY_PAUSE_SECONDS = 0.5

_Outgoing = tuple[str, int, str, OutgoingMessage]  # topic, partition, letter, message


class PulsarSink:
    """See `Sink`. Its producers have the plan's name: while they are connected, nobody else produces for the plan."""

    takes_at_once = False

    def __init__(self, plan: RedrivePlan, gateway: PulsarLetterGateway, brokers: PulsarBrokers) -> None:
        self._plan, self._gateway, self._brokers = plan, gateway, brokers
        self._producers: dict[tuple[str, int], PulsarProducer] = {}
        self._claimed: PulsarProducer | None = None
        self._ends = {it.topic: it.ends for it in plan.targets}
        self._there: set[str] | None = None  # letters that were produced; None: not read yet
        self._line: list[_Outgoing] = []
        self._round = 0
        self._is_new = False  # nobody has begun the plan before

    def begin(self, *, careful: bool = False) -> None:  # noqa: ARG002 - each receipt names its letter
        """See `Sink`: wait until no other run of the plan is connected."""
        self._claimed = self._named(self._plan.topic, 0, self._plan.id)

    def _named(self, topic: str, number: int, name: str) -> PulsarProducer:
        """The only producer of a name.

        Raises:
            GuardError: if another process has it.
        """
        until = monotonic() + _BUSY_SECONDS
        while True:
            try:
                return PulsarProducer(
                    self._brokers, f"persistent://{part_name(*self._gateway.place(topic, number))}", name=name
                )
            except RefusedError as error:
                if error.code == ServerRefusal.AUTHORIZATION:
                    raise GuardError(error.message, hint="The role needs the permission `produce`.") from None
                if error.code != ServerRefusal.PRODUCER_BUSY:
                    raise
                if monotonic() > until:
                    raise GuardError(
                        f"Another process redrives letters of {topic!r}.", hint="Wait for its end, or end it."
                    ) from None
                sleep(_BUSY_PAUSE_SECONDS)

    def progress(self) -> PlanProgress:
        """See `Sink`. See `_begin`, too."""
        positions: dict[int, int] = {}
        marks: dict[int, Mark | None] = {}
        ordered = None
        for part in self._plan.partitions:
            found = self._properties(part.partition)
            if found is None:
                continue
            if not str(found.get(POSITION, "")).isdecimal():
                if part is self._plan.partitions[0]:
                    break  # nothing was begun
                continue
            positions[part.partition] = int(found[POSITION])
            marks[part.partition] = Mark.parse(found.get(MARK))
            if part is self._plan.partitions[0] and str(found.get(ORDERED, "")).isdecimal():
                ordered = int(found[ORDERED])
        return PlanProgress(positions=positions, ordered=ordered, marks=marks)

    def _properties(self, number: int) -> Mapping[str, str] | None:
        try:
            return self._gateway.properties(self._plan.topic, number).get(self._plan.id)
        except NotThereError:
            return None

    def claim(self, positions: Positions, ordered: int | None, marks: Marks, check: Callable[[], None]) -> PlanProgress:
        """See `Sink`."""
        lock = self._named(self._plan.topic, 0, _CLAIM)
        try:
            before = self.progress()
            missing = [number for number in positions if number not in before.positions]
            if missing:
                check()
                is_whole = len(missing) == len(positions)
                self._is_new = is_whole and self._would_be_known()
                if is_whole:
                    self._begin(missing)
                last = self._plan.partitions[0].partition
                begun = {number: positions[number] for number in sorted(missing, key=lambda it: it == last)}
                self._write(begun, ordered, marks, makes=True)
            if not (found := self.progress()).positions:
                raise GuardError("The broker does not keep where the plan is: that takes Pulsar 2.11 or later.")
            return found
        finally:
            lock.close()

    def _begin(self, numbers: Sequence[int]) -> None:
        """The first partition has a subscription first, and gets its position last: in between, nothing was begun, and whoever comes
        next begins anew. One that has no subscription, where others have positions, has lost it.
        """
        if len(numbers) > 1:
            path = self._gateway.subscription_path(self._plan.topic, self._plan.partitions[0].partition, self._plan.id)
            self._gateway.admin.create_subscription(path, {**_LATEST, "properties": {}})

    def _would_be_known(self) -> bool:
        """Whether the progress of an earlier run would still be there."""
        topic, _ = self._gateway.place(self._plan.topic, 0)
        kept = subscriptions_expire_seconds(self._gateway.admin, topic) or UNKNOWN_RETENTION_SECONDS
        return time() - datetime.fromisoformat(self._plan.created_at).timestamp() <= kept

    def _write(self, positions: Positions, ordered: int | None, marks: Marks, *, makes: bool = False) -> None:
        """Where the plan is. Its subscription begins behind the last letter, so that it keeps none."""
        admin = self._gateway.admin
        first = self._plan.partitions[0].partition
        for number, at in positions.items():
            path = self._gateway.subscription_path(self._plan.topic, number, self._plan.id)
            own = {POSITION: str(at), MARK: marks.get(number, "")}
            if number == first and ordered is not None:
                own[ORDERED] = str(ordered)
            if makes and admin.create_subscription(path, {**_LATEST, "properties": own}):
                continue
            admin.set_properties(path, own)

    def send(
        self, topic: str, partition: int | None, letter: Letter, headers: Headers, timestamp_ms: int | None
    ) -> None:
        """See `Sink`."""
        number = self._chosen(topic, letter.key) if partition is None else partition
        name = f"{letter.partition}:{letter.offset}"
        properties = [(key, (value or b"").decode(errors="replace")) for key, value in headers]
        message = OutgoingMessage(
            key=letter.key,
            value=letter.value,
            properties=properties,
            event_ms=letter.event_ms if timestamp_ms is None else max(0, timestamp_ms),
            ordering_key=letter.ordering_key,
        )
        self._line.append((topic, number, name, message))

    def _chosen(self, topic: str, key: bytes | None) -> int:
        """As Pulsar's clients choose by default: by Java's hash of the key, or one after the other."""
        count = len(self._ends.get(topic, ())) or 1
        if key is None:
            self._round += 1
            return self._round % count
        return java_hash(key.decode(errors="replace")) % count

    def commit(self, positions: Positions, ordered: int | None, marks: Marks = NO_MARKS) -> None:
        """See `Sink`: send all, wait for the receipts, then write where the plan is."""
        if self._there is None:
            self._there = self._produced() if self._line else None
        line, self._line = self._line, []
        wanted = [it for it in line if it[2] not in (self._there or ())]
        for at in range(0, len(wanted), MOST_ON_THE_WAY):
            self._check_claim()
            self._send_some(wanted[at : at + MOST_ON_THE_WAY])
        self._check_claim()
        said = PlanProgress(
            positions=positions, ordered=ordered, marks={number: Mark.parse(text) for number, text in marks.items()}
        )
        if said.state is PlanState.GIVEN_UP:  # what is behind the position is free again
            positions, ordered = self._behind_what_is_there(said)
        self._write(positions, ordered, marks, makes=True)

    def _behind_what_is_there(self, said: PlanProgress) -> tuple[Positions, int | None]:
        """Positions behind what a run had produced, and not noted when it ended."""
        there, refused, parts = self._produced(), said.refused, self._plan.by_partition

        def is_left(number: int, offset: int) -> bool:
            return f"{number}:{offset}" not in there and (number, offset) not in refused

        positions = {
            number: next(
                (it for it in parts[number].parsed if it >= at and is_left(number, it)), max(at, parts[number].stop)
            )
            for number, at in said.positions.items()
        }
        if (done := said.ordered) is None:
            return positions, None
        left = (at for at, it in enumerate(self._plan.ordered[done:], done) if is_left(*it))
        return positions, next(left, len(self._plan.ordered))

    def _check_claim(self) -> None:
        """What this run knows of the targets and of the progress holds only as long as no other run could be let in."""
        if self._claimed is None or not self._claimed.is_open:
            raise FencedError("the broker has closed the producer that keeps other runs out")

    def _send_some(self, some: Sequence[_Outgoing]) -> None:
        receipts: list[tuple[str, Future[MessagePlace]]] = []
        for topic, number, name, message in some:
            producer = self._producers.get((topic, number))
            if producer is None or not producer.is_open:
                producer = self._producers[topic, number] = self._named(topic, number, self._plan.id)
            if not producer.fits(message):
                place = tuple(map(int, name.split(":")))
                raise LettersRefusedError("TOO_LARGE", "it is too large", {(place[0], place[1]): "TOO_LARGE"})
            receipts.append((name, producer.send(message)))
        for name, receipt in receipts:
            try:
                receipt.result(_RECEIPT_SECONDS)
            except TimeoutError:
                raise SourceUnreachableError("The broker does not acknowledge what was produced.") from None
            if self._there is not None:
                self._there.add(name)

    def _produced(self) -> set[str]:
        """Letters of the plan that its targets have."""
        found: set[str] = set()
        plan = self._plan.id.encode()
        for topic, ends in self._ends.items():
            now = self._kept(topic, ends)
            start = {number: max(end, now.starts[topic, number]) for number, end in enumerate(ends)}
            stop = {number: now.ends[topic, number] for number in start}
            reader = PulsarLetters(self._brokers, topic, self._gateway.place)
            for batch, _ in reader.read(start, stop):
                for letter in batch:
                    own = dict(letter.headers) if letter.headers else {}
                    if own.get(PLAN_HEADER) == plan:
                        found.add((own.get(LETTER_HEADER) or b"").decode(errors="replace"))
            self._kept(topic, ends)  # a reader keeps no ledger
        return found

    def _kept(self, topic: str, ends: Sequence[int]) -> LogView:
        """The logs of a target, which have all that came since these ends, or the plan was never begun before."""
        now = self._gateway.logs([(topic, number) for number in range(len(ends))])
        if now.errors:
            raise SourceUnreachableError(f"It cannot be told what was produced: {next(iter(now.errors.values()))}")
        if not self._is_new and (gone := [it for it, end in enumerate(ends) if now.starts[topic, it] > end]):
            where = plural(len(gone), "partition")
            raise GuardError(
                f"{topic} has deleted records that came since the plan was made, on {where}: which letters are produced "
                "already cannot be told.",
                hint="See what is known: workbench dlq verify PLAN. Then plan by --offset what shall be produced, with --again.",
            )
        return now

    def close(self) -> None:
        """See `Sink`."""
        for producer in (*self._producers.values(), self._claimed):
            if producer is not None:
                with suppress(SourceUnreachableError):
                    producer.close()
        self._producers.clear()
        self._claimed = None


def java_hash(text: str) -> int:
    """Java's hash of a text, without its sign."""
    value = 0
    for unit in memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H"):
        value = value * 31 + unit & 0xFFFFFFFF
    return value & 0x7FFFFFFF


def where(offset: int) -> str:
    """A packed position as Pulsar writes it."""
    return ":".join(map(str, unpacked(offset)))

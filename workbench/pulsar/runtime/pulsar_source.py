"""Pulsar as a source of the runtime: a member of a failover or an exclusive subscription.

A member has a consumer on every partition. Of a failover the broker says which consumer is active, to the former one and the next at
the same moment, and it sends at once. So the next one waits for as long as the former may take to end what is in flight, and leaves
out what was acknowledged meanwhile.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from math import inf
from time import monotonic

from workbench.errors import SourceUnreachableError
from workbench.pulsar.connection import PulsarAccess, checked_answer
from workbench.pulsar.entry_messages import MessagePlace
from workbench.pulsar.pulsar_wire import Command, CommandKind, Fields, PulsarWireError
from workbench.pulsar.runtime.partition_consumer import ENDED, JOINED, Occurrence, Seat
from workbench.pulsar.runtime.places_as_offsets import behind_entry, offset_behind, offset_of
from workbench.pulsar.runtime.renew_member_consumers import Keeper
from workbench.pulsar.topic_brokers import PulsarBrokers
from workbench.pulsar.topic_names import TopicName
from workbench.runtime.config import RuntimeConfig
from workbench.runtime.event import Record, TopicPartition
from workbench.runtime.source import AssignmentListener, BrokerHealth, SourceHealth

_BYTES_HERE = 16 << 20  # of messages that wait in a member, about; as of the runtime's Kafka
_ANSWER_SECONDS = 10.0  # longest wait for the answer to an acknowledgement
_LEAVE_SECONDS = 5.0
_HAND_OVER_SECONDS = 0.25  # for the broker's word to arrive, beside the time that a member takes to drain
_TYPES = {"exclusive": 0, "failover": 2}


class PulsarSource:
    """A `RecordSource` over a consumer for each partition."""

    def __init__(self, config: RuntimeConfig, *, member: str) -> None:
        self.config = config
        self._member = member
        self._access = access_of(config)
        self._is_exclusive = config.pulsar.subscription == "exclusive"
        self._topics: list[TopicName] = []
        self._listener: AssignmentListener  # from `subscribe` on
        self._brokers = PulsarBrokers(self._access)
        self._keeper: Keeper | None = None
        self._inbox: deque[Occurrence] = deque()
        self._early: dict[int, list[Occurrence]] = {}  # by the number of a link that has not joined
        self._wake = threading.Event()
        self._paused: set[TopicPartition] = set()
        self._turn = 0
        self._under_way: dict[TopicPartition, Future[Command]] = {}
        self._not_sent: dict[TopicPartition, str] = {}
        self._sent_at = 0.0
        self._last: dict[TopicPartition, int] = {}  # behind the last messages, as the brokers said
        self._taken_to: dict[TopicPartition, int] = {}  # behind what was returned since the assignment
        self._ends_told: dict[TopicPartition, int] = {}
        self._rtt: dict[str, tuple[float, float]] = {}  # by broker: when it was measured, and how long it took

    def subscribe(self, topics: Sequence[str], listener: AssignmentListener) -> None:
        """See `RecordSource`."""
        self._listener = listener
        self._topics = [it for it in map(topic_name, topics) if it is not None]
        self._join()

    def _join(self) -> None:
        fields = {
            "subscription": self.config.group,
            "type": _TYPES[self.config.pulsar.subscription],
            "member": self._member,
        }
        self._keeper = Keeper(self._brokers, self._topics, fields, self._tell)
        self._keeper.start()

    def _tell(self, occurrence: Occurrence) -> None:
        self._inbox.append(occurrence)
        self._wake.set()

    @property
    def _seats(self) -> list[Seat]:
        return list(self._keeper.seats) if self._keeper is not None else []

    def poll(self, max_records: int, timeout: float) -> list[Record]:
        """See `RecordSource`.

        Raises:
            SourceUnreachableError: for what no further poll resolves: a missing permission, a subscription of another type.
        """
        until = monotonic() + timeout
        while True:
            self._wake.clear()
            self._take_in()
            self._give_up()
            self._take_over()
            if self._keeper is not None and self._keeper.failure is not None:
                raise self._keeper.failure
            records = self._taken(max_records)
            left = until - monotonic()
            if records or left <= 0:
                return records
            self._wake.wait(left)

    def _take_in(self) -> None:
        """What has come since, in order: an assignment ends before what comes behind its end."""
        while self._inbox:
            seat, link, content, what = self._inbox.popleft()
            if what == JOINED:
                self._drop(seat)
                if isinstance(content, Fields):
                    seat.join(link, content)
                if self._is_exclusive:
                    self._assign(seat)
                self._inbox.extendleft(reversed(self._early.pop(link.number, [])))
            elif link is not seat.joined:
                # A broker may say that a consumer is active before it answers the subscription.
                if link.number > (seat.joined.number if seat.joined is not None else 0):
                    self._early.setdefault(link.number, []).append((seat, link, content, what))
            elif what == ENDED:
                self._drop(seat)
            elif isinstance(content, Command):
                self._obey(seat, content)

    def _obey(self, seat: Seat, command: Command) -> None:
        if command.kind is CommandKind.MESSAGE:
            try:
                seat.take_in(command, monotonic())
            except PulsarWireError as error:
                raise SourceUnreachableError(f"A message of {seat.name} cannot be placed: {error}.") from None
        elif command.body.number(2):
            if seat.is_leaving:
                self._revoke(seat)  # what comes from here on is of its next turn
            seat.is_standby = False
            if seat.held is None:
                drained = self.config.rebalance_drain_seconds + _HAND_OVER_SECONDS
                seat.takes_over_at = min(seat.takes_over_at, monotonic() + drained)
        else:
            seat.is_standby, seat.takes_over_at, seat.told = True, inf, None
            if seat.held is None:
                seat.begin_again()
            else:
                seat.is_leaving = True
                self._listener.on_leaving([seat.partition])

    def _give_up(self) -> None:
        """Let go of what has ended its work. It ends beside that of other partitions: their next members wait no longer for it."""
        for seat in self._seats:
            if seat.is_leaving and self._listener.has_left(seat.partition):
                self._revoke(seat)

    def _take_over(self) -> None:
        """Assign what the former member has had its time for."""
        for seat in self._seats:
            if monotonic() < seat.takes_over_at or seat.joined is None or seat.joined.is_over:
                continue
            try:
                if seat.told is None or monotonic() > seat.told_by:
                    seat.told, seat.told_by = seat.joined.ask_last(), monotonic() + self._access.seconds
                if not seat.told.done():
                    continue
                seat.begin_behind(checked_answer(seat.told.result(0), what="the position"))
            except SourceUnreachableError:
                seat.told, seat.takes_over_at = (
                    None,
                    monotonic() + _HAND_OVER_SECONDS,
                )  # it has ended, or is asked again
                continue
            self._assign(seat)

    def _assign(self, seat: Seat) -> None:
        if seat.held is not None or seat.joined is None:
            return
        seat.held = seat.joined
        seat.takes_over_at, seat.told = inf, None
        seat.paused = False
        self._paused.discard(seat.partition)
        self._listener.on_assigned({seat.partition: seat.acknowledged})

    def _revoke(self, seat: Seat) -> None:
        """Another one is active: a moment is left to acknowledge."""
        if seat.held is not None:
            self._listener.on_revoked([seat.partition])
            seat.acknowledged = None  # by now it may be further
        self._release(seat)

    def _drop(self, seat: Seat) -> None:
        """The consumer has ended."""
        if seat.held is not None:
            self._listener.on_lost([seat.partition])
        self._release(seat)

    def _release(self, seat: Seat) -> None:
        seat.held, seat.is_leaving = None, False
        self._taken_to.pop(seat.partition, None)
        self._ends_told.pop(seat.partition, None)
        seat.takes_over_at, seat.told = inf, None
        seat.begin_again()
        seat.paused = False
        self._paused.discard(seat.partition)
        if seat.partition in self._under_way and not self._under_way[seat.partition].done():
            del self._under_way[seat.partition]

    def _taken(self, most: int) -> list[Record]:
        """What waits, each partition in order, another one first each time."""
        seats = self._seats
        found: list[Record] = []
        share = _BYTES_HERE / max(1, len(seats))
        self._turn += 1
        now = monotonic()
        for at in range(len(seats)):
            seat = seats[(at + self._turn) % len(seats)]
            seat.go_on(now)
            if seat.held is not None and not seat.paused and not seat.is_leaving:
                take = min(most - len(found), len(seat.waiting))
                found += [seat.waiting.popleft() for _ in range(take)]
                if take:
                    self._taken_to[seat.partition] = found[-1].offset + 1
            if seat.joined is not None:
                try:
                    seat.grant(now, bytes_here=share)
                except SourceUnreachableError:
                    continue  # its end is on its way
        return found

    def take_ends(self) -> Mapping[TopicPartition, int]:
        """See `RecordSource`: by what the brokers said last."""
        found = {}
        for seat in self._seats:
            last = self._last.get(seat.partition)
            if seat.held is None or last is None or self._ends_told.get(seat.partition) == last:
                continue
            if max(self._taken_to.get(seat.partition, 0), seat.acknowledged or 0) >= last:
                self._ends_told[seat.partition] = last
                found[seat.partition] = behind_entry(last)
        return found

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """See `RecordSource`: no permits are given, and what is here waits."""
        self._paused |= set(partitions)
        self._mark_paused()

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """See `RecordSource`."""
        self._paused -= set(partitions)
        self._mark_paused()

    def _mark_paused(self) -> None:
        for seat in self._seats:
            seat.paused = seat.partition in self._paused

    def rewind(self, partitions: Iterable[TopicPartition]) -> None:  # noqa: ARG002 - the port's
        """See `RecordSource`: ledgers have new numbers in a topic that was made again, so nobody asks.

        Raises:
            SourceUnreachableError: always.
        """
        raise SourceUnreachableError("A subscription of a Pulsar is not sent back by its consumer.")

    # Acknowledgements

    def commit(
        self,
        offsets: Mapping[TopicPartition, int],
        *,
        wait: bool,
        epochs: Mapping[TopicPartition, int] | None = None,  # noqa: ARG002 - the port's; ledgers tell one log from another
        notes: Mapping[TopicPartition, str] | None = None,  # noqa: ARG002 - an acknowledgement has no place for one
    ) -> dict[TopicPartition, str] | None:
        """See `RecordSource`: a cumulative acknowledgement for each partition."""
        seats = {seat.partition: seat for seat in self._seats}
        sent: dict[TopicPartition, Future[Command]] = {}
        failed: dict[TopicPartition, str] = {}
        for partition, offset in offsets.items():
            try:
                sent[partition] = seats[partition].acknowledge(offset)
            except (SourceUnreachableError, KeyError) as error:
                failed[partition] = str(error)
        if not wait:
            self._under_way, self._not_sent, self._sent_at = sent, failed, monotonic()
            return None
        until = monotonic() + _ANSWER_SECONDS
        for partition, answer in sent.items():
            if (why := _failure(answer, max(0.0, until - monotonic()))) is not None:
                failed[partition] = why
        return failed

    def commit_result(self) -> dict[TopicPartition, str] | None:
        """See `RecordSource`."""
        late = monotonic() - self._sent_at > _ANSWER_SECONDS
        if not late and not all(it.done() for it in self._under_way.values()):
            return None
        answers = {partition: _failure(it, 0) for partition, it in self._under_way.items()}
        return self._not_sent | {partition: why for partition, why in answers.items() if why is not None}

    def batch_size(self, partition: TopicPartition, ledger: int, entry: int) -> int | None:
        """Number of messages of an entry that is not acknowledged, or is the last one that is; None: not known."""
        return next((it.batch_size(ledger, entry) for it in self._seats if it.partition == partition), None)

    # What the pages ask

    def ends(self) -> dict[TopicPartition, int]:
        """Offsets behind the last messages of the partitions that are assigned; any thread may ask.

        Raises:
            SourceUnreachableError: if a broker does not tell.
        """
        found = {}
        for seat in self._seats:
            link = seat.held
            if link is None or link.is_over:
                continue
            began = monotonic()
            told = link.last(f"the last message of {seat.name}")
            self._rtt[link.connection.url] = monotonic(), monotonic() - began
            last = told.message(1)
            entry, index = last.signed(2), last.signed(4, -1)
            if entry < 0:  # nothing was ever written to this ledger
                found[seat.partition] = offset_behind(max(0, last.signed(1)), -1)
            else:
                found[seat.partition] = offset_of(MessagePlace(last.number(1), entry, max(0, index))) + 1
        self._last = found
        return found

    def acknowledged(self) -> dict[TopicPartition, int]:
        """Offsets behind everything that the subscription has acknowledged, of all partitions; any thread may ask.

        Raises:
            SourceUnreachableError: if a broker does not tell.
        """
        found = {}
        for seat in self._seats:
            if (link := seat.link) is not None and not link.is_over:
                mark = link.last(f"the position on {seat.name}").message(3)
                found[seat.partition] = offset_behind(max(0, mark.signed(1)), max(-1, mark.signed(2)))
        return found

    def health(self) -> SourceHealth | None:
        """See `RecordSource`."""
        now = monotonic()
        recent = {
            url.rpartition("://")[2]: took for url, (at, took) in list(self._rtt.items()) if now - at < _ANSWER_SECONDS
        }
        return SourceHealth(
            taken_at=now,
            brokers={url: BrokerHealth(rtt_seconds=took, throttle_seconds=None) for url, took in recent.items()},
            fetch_queue={seat.partition: len(seat.waiting) for seat in self._seats if seat.held is not None},
        )

    # The end

    def rejoin(self) -> None:
        """See `RecordSource`."""
        self._leave(tell=True)
        self._brokers = PulsarBrokers(self._access)
        self._join()

    def close(self) -> None:
        """See `RecordSource`."""
        self._leave(tell=self._keeper is not None)

    def _leave(self, *, tell: bool) -> None:
        if self._keeper is not None:
            self._keeper.stop(self._access.seconds)
        held = [seat for seat in self._seats if seat.held is not None]
        if tell:
            gone = [seat for seat in held if seat.held is not None and seat.held.is_over]
            there = [seat.partition for seat in held if seat not in gone]
            if gone:
                self._listener.on_lost([seat.partition for seat in gone])
            if there:
                self._listener.on_revoked(there)
        for seat in self._seats:
            seat.held = None
            seat.leave(_LEAVE_SECONDS)
        self._keeper = None
        self._brokers.close()
        self._inbox.clear()


def access_of(config: RuntimeConfig) -> PulsarAccess:
    """Where the Pulsar of these settings is.

    Raises:
        ConfigError: if its address is none.
    """
    own = config.pulsar
    token = own.token.get_secret_value() if own.token is not None else None
    return PulsarAccess.of(config.bootstrap, token=token, ca_file=own.ca_file)


def topic_name(text: str) -> TopicName | None:
    """A topic, written with or without `persistent://`; None if it is another one."""
    return TopicName.parse(text if "://" in text else f"persistent://{text}")


def _failure(answer: Future[Command], seconds: float) -> str | None:
    try:
        checked_answer(answer.result(seconds), what="the acknowledgement")
    except TimeoutError:
        return "no answer"
    except SourceUnreachableError as error:
        return error.message
    return None

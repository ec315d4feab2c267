"""What a redrive sends again on a Pulsar: nothing that its targets have, and nothing where they cannot tell."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from workbench.errors import GuardError
from workbench.pulsar.entry_messages import MessagePlace
from workbench.pulsar.producer import OutgoingMessage
from workbench.pulsar.redrive import letter_producer
from workbench.pulsar.redrive.letter_producer import PulsarSink
from workbench.pulsar.topic_names import TopicName
from workbench.redrive.abandon_plan import end_plan
from workbench.redrive.commit_marks import PlanState, marks_of
from workbench.redrive.letter_headers import LETTER_HEADER, PLAN_HEADER, Letter
from workbench.redrive.picked_letter_offsets import Picks

LETTERS, TARGET, PLAN = "t/n/orders-DLQ", "t/n/orders", "workbench-redrive-1"


class LettersAndTarget:
    """A Pulsar with one topic of letters and one target: what redrives ask of it, and what they send."""

    def __init__(self, *, age: timedelta = timedelta(0), kept: float | None = math.inf, partitions: int = 1) -> None:
        self.sent: list[str] = []  # letters, at the offsets 10, 11, …
        self.messages: list[OutgoingMessage] = []
        self.start, self.kept, self.noted = 10, kept, dict[str, dict[str, str]]()
        self.admin = self
        self.changes, self.keeps_properties = 1000, True
        self.start_then: int | None = None  # where the target begins after it was read
        part = SimpleNamespace(partition=0, parsed=Picks.of(range(8)), stop=10)
        self.plan: Any = SimpleNamespace(
            id=PLAN,
            topic=LETTERS,
            partitions=[part, *(SimpleNamespace(partition=number) for number in range(1, partitions))],
            by_partition={0: part},
            ordered=[(0, 8), (0, 9)],
            short_hash="1",
            targets=[SimpleNamespace(topic=TARGET, ends=[10])],
            created_at=(datetime.now(UTC) - age).isoformat(),
        )

    def place(self, topic: str, number: int) -> tuple[TopicName, int]:
        namespace, _, local = topic.rpartition("/")
        return TopicName(namespace, local), number

    def logs(self, parts: list[tuple[str, int]]) -> Any:
        return SimpleNamespace(
            errors={}, starts=dict.fromkeys(parts, self.start), ends=dict.fromkeys(parts, 10 + len(self.sent))
        )

    def subscription_path(self, _topic: str, number: int, name: str) -> str:
        return f"{number} {name}"

    def properties(self, _topic: str, number: int) -> Mapping[str, Mapping[str, str]]:
        return {PLAN: found} if (found := self.noted.get(f"{number} {PLAN}")) is not None else {}

    def create_subscription(self, path: str, begin: Mapping[str, Any]) -> bool:
        self._change()
        is_new = path not in self.noted
        self.noted.setdefault(path, begin["properties"] if self.keeps_properties else {})
        return is_new

    def set_properties(self, path: str, properties: dict[str, str]) -> None:
        self._change()
        self.noted[path] = properties if self.keeps_properties else {}

    def _change(self) -> None:
        if self.changes == 0:
            raise CutOff
        self.changes -= 1

    def get_text(self, _path: str) -> str:
        return "" if self.kept is None else "0" if math.isinf(self.kept) else str(round(self.kept / 60))

    def get(self, _path: str) -> Any:
        return {}

    def sink(self, *, takes: int) -> PulsarSink:
        """One more; it has sent so many when its process ends."""
        ScriptedProducer.targets, ScriptedProducer.left = self, takes
        return PulsarSink(self.plan, self, self)  # type: ignore[arg-type]


class CutOff(BaseException):
    """The process ends here."""


class ScriptedProducer:
    """See `PulsarProducer`."""

    targets: ClassVar[LettersAndTarget]
    left: ClassVar[int] = 0
    is_open = True

    def __init__(self, _brokers: object, _topic: str, *, name: str) -> None:
        self.name = name

    def fits(self, _message: object) -> bool:
        return True

    def send(self, message: Any) -> Future[MessagePlace]:
        if ScriptedProducer.left == 0:
            raise CutOff
        ScriptedProducer.left -= 1
        self.targets.messages.append(message)
        self.targets.sent.append(dict(message.properties)[LETTER_HEADER])
        receipt: Future[MessagePlace] = Future()
        receipt.set_result(MessagePlace(0, 0))
        return receipt

    def close(self) -> None:
        """Nothing is left."""


class TargetReader:
    """See `PulsarLetters`: what the target still has."""

    def __init__(self, targets: LettersAndTarget, *_: object) -> None:
        self._targets = targets

    def read(
        self, start: Mapping[int, int], stop: Mapping[int, int]
    ) -> Iterator[tuple[list[Letter], Mapping[int, int]]]:
        assert start[0] >= self._targets.start  # of what is gone, nothing ever comes
        some = [
            Letter(
                0,
                at,
                1,
                None,
                b"x",
                ((PLAN_HEADER, PLAN.encode()), (LETTER_HEADER, self._targets.sent[at - 10].encode())),
            )
            for at in range(start[0], stop[0])
        ]
        self._targets.start = self._targets.start_then or self._targets.start
        yield some, stop


@pytest.fixture(autouse=True)
def _fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(letter_producer, "PulsarProducer", ScriptedProducer)
    monkeypatch.setattr(letter_producer, "PulsarLetters", TargetReader)


def run(targets: LettersAndTarget, *, takes: int = 100) -> None:
    """Send what is left of ten letters, and note the position."""
    sink = targets.sink(takes=takes)
    sink.begin()
    if not sink.progress().positions:
        sink.claim({0: 0}, None, {}, lambda: None)
    for number in range(10):
        headers = [(PLAN_HEADER, PLAN.encode()), (LETTER_HEADER, f"0:{number}".encode())]
        sink.send(TARGET, 0, Letter(0, number, 1, b"k", b"x", ()), headers, None)  # type: ignore[arg-type]
    sink.commit({0: 10}, None)


def killed(targets: LettersAndTarget) -> LettersAndTarget:
    """A run has sent four of ten letters, and noted no position."""
    with pytest.raises(CutOff):
        run(targets, takes=4)
    return targets


WHOLE = [f"0:{number}" for number in range(10)]


def test_what_the_target_has_is_not_sent_again() -> None:
    """Whatever became of the progress."""
    for forgets in (False, True):
        targets = killed(LettersAndTarget())
        if forgets:
            targets.noted.clear()
        run(targets)
        assert targets.sent == WHOLE


@pytest.mark.parametrize("start", [11, 14])
@pytest.mark.parametrize("meanwhile", [False, True])
def test_a_target_that_has_deleted_what_came_since_the_plan_cannot_tell(start: int, meanwhile: bool) -> None:
    """Before it is read, or while: its consumers had acknowledged it, and its ledger was closed. All of it would be sent again."""
    targets = killed(LettersAndTarget())
    targets.start, targets.start_then = (10, start) if meanwhile else (start, None)
    with pytest.raises(GuardError, match="which letters are produced already cannot be told"):
        run(targets)
    assert targets.sent == WHOLE[:4]


@pytest.mark.parametrize(
    ("age", "kept", "goes_on"),
    [(timedelta(days=9), math.inf, True), (timedelta(hours=1), 7200, True), (timedelta(hours=3), 7200, False),
     (timedelta(hours=1), None, True), (timedelta(days=2), None, False)],
)  # fmt: skip
def test_a_plan_that_was_never_begun_needs_no_target_to_tell(age: timedelta, kept: float | None, goes_on: bool) -> None:
    """As long as the progress of a run elsewhere could not have expired."""
    targets = LettersAndTarget(age=age, kept=kept)
    targets.start = 12
    targets.sent = ["other", "another"]
    if goes_on:
        run(targets)
        assert targets.sent[2:] == WHOLE
    else:
        with pytest.raises(GuardError, match="cannot be told"):
            run(targets)


@pytest.mark.parametrize(("asked", "sent"), [(None, 1_700_000_000_001), (5, 5), (0, 0)])
def test_a_message_is_produced_with_its_time_and_the_order_that_it_had(asked: int | None, sent: int) -> None:
    """Key_Shared consumers get it by its ordering key; its time is the one of its producer, unless a plan says another."""
    targets = LettersAndTarget()
    sink = targets.sink(takes=1)
    sink.begin()
    sink.claim({0: 0}, None, {}, lambda: None)
    headers = [(PLAN_HEADER, PLAN.encode()), (LETTER_HEADER, b"0:0")]
    letter = Letter(0, 0, 9, b"k", b"x", (), 1_700_000_000_001, b"lane")
    sink.send(TARGET, 0, letter, headers, asked)  # type: ignore[arg-type]
    sink.commit({0: 1}, None)
    [found] = targets.messages
    assert (found.key, found.event_ms, found.ordering_key) == (b"k", sent, b"lane")


@pytest.mark.parametrize(
    ("sent", "refused", "positions", "ordered"),
    [
        (["0:0", "0:1", "0:2", "0:3"], [], 4, 0),
        ([], [], 2, 0),
        (["0:0", "0:1", "0:2", "0:4"], [], 3, 0),  # the last ones that were on their way are not all there
        (["0:0", "0:1", "0:3"], [2], 4, 0),
        ([f"0:{number}" for number in range(8)], [], 10, 0),
        ([f"0:{number}" for number in range(9)], [], 10, 1),
        (WHOLE, [], 10, 2),
    ],
)
def test_a_plan_that_is_given_up_has_produced_what_the_targets_have(
    sent: list[str], refused: list[int], positions: int, ordered: int
) -> None:
    """A run was killed before it noted how far it was; what is behind that is free for other plans."""
    targets = LettersAndTarget()
    targets.sink(takes=0).claim(
        {0: 2}, 0, marks_of(PlanState.BEGUN, "a", [0], {(0, it): "NO" for it in refused}), lambda: None
    )
    targets.sent = sent
    sink = targets.sink(takes=0)
    sink.begin()
    found = end_plan(targets.plan, PlanState.GIVEN_UP, sink, lambda: None, was_started=True)  # type: ignore[arg-type,return-value]
    assert (found.state, found.positions, found.ordered) == (PlanState.GIVEN_UP, {0: positions}, ordered)
    assert sorted(found.refused) == [(0, it) for it in refused]


def test_a_plan_is_not_given_up_where_its_targets_cannot_tell() -> None:
    """Other plans would produce once more what they have deleted."""
    targets = killed(LettersAndTarget())
    targets.start = 12
    sink = targets.sink(takes=0)
    sink.begin()
    with pytest.raises(GuardError, match="cannot be told"):
        end_plan(targets.plan, PlanState.GIVEN_UP, sink, lambda: None, was_started=True)  # type: ignore[arg-type,return-value]
    assert sink.progress().state is not PlanState.GIVEN_UP


@pytest.mark.parametrize("partitions", [1, 2, 4])
def test_a_beginning_that_is_cut_off_anywhere_is_repeated(partitions: int) -> None:
    """As long as it is not whole, nothing was begun: part of it would look like a position that has expired."""
    positions = dict.fromkeys(range(partitions), 7)
    marks = marks_of(PlanState.BEGUN, "a", positions, {})
    changes, checked = 0, list[int]()
    while True:
        targets = LettersAndTarget(partitions=partitions)
        targets.changes = changes
        try:
            found = targets.sink(takes=0).claim(positions, 0, marks, lambda: None)
            break
        except CutOff:
            assert targets.sink(takes=0).progress().positions == {}
        checked.clear()
        targets.changes, changes = 1000, changes + 1
        again = targets.sink(takes=0).claim(positions, 0, marks, lambda: checked.append(1))
        assert (again.positions, again.ordered, again.state, checked) == (positions, 0, PlanState.BEGUN, [1])
    assert (found.positions, changes) == (positions, 1 if partitions == 1 else partitions + 2)


def test_a_position_that_one_partition_has_lost_is_seen() -> None:
    """Its subscription has expired before those of the others."""
    for lost in range(3):
        targets = LettersAndTarget(partitions=3)
        targets.sink(takes=0).claim({0: 7, 1: 7, 2: 7}, 0, marks_of(PlanState.BEGUN, "a", range(3), {}), lambda: None)
        del targets.noted[f"{lost} {PLAN}"]
        assert sorted(targets.sink(takes=0).progress().positions) == sorted({0, 1, 2} - {lost})


def test_a_broker_that_keeps_no_properties_begins_no_plan() -> None:
    """Nothing would tell how far it is."""
    targets = LettersAndTarget()
    targets.keeps_properties = False
    with pytest.raises(GuardError, match=r"Pulsar 2\.11 or later"):
        targets.sink(takes=0).claim({0: 7}, 0, marks_of(PlanState.BEGUN, "a", [0], {}), lambda: None)

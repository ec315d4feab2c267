"""Commits by our own requests: what is asked, what hostile or truncated answers do, and coordinators that move, load or are lost."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from tests.collect.wire_broker import WireBroker, commits, coordinators, int16, int32, texts
from workbench.errors import SourceUnreachableError
from workbench.kafka.brokers_that_answer import Brokers
from workbench.kafka.connection import KafkaConnection
from workbench.kafka.groups import NotListedError
from workbench.kafka.kafka_gateway import KafkaGateway
from workbench.kafka.offset_fetch import Commits, FetchLimits, parse_commits, parse_coordinators, read_commits
from workbench.kafka.patient_reads import AgainError, ClusterReading
from workbench.kafka.read_commits_for_snapshot import commits_of
from workbench.kafka.wire import WireAnswer, WireError, array, c_text, text

FIND, FETCH = 10, 9
LOADING, NOT_COORDINATOR, DENIED, ABSENT = 14, 16, 30, 69

Told = Mapping[tuple[str, int], int] | int


def limits(seconds: float = 5.0, *, moved: float = 5.0, lost: float = 0.0, silence: float = 1.0) -> FetchLimits:
    """From now on."""
    now = time.monotonic()
    return FetchLimits(deadline=now + seconds, moved_until=now + moved, lost_until=now + lost, silence_seconds=silence)


def finding(broker: Callable[[], WireBroker], number: int = 1) -> Callable[[bytes], bytes]:
    """Answers that one broker coordinates whatever is asked for."""
    return lambda body: coordinators({name: (number, "127.0.0.1", broker().port) for name in texts(body, 2)})


def fetched(body: bytes) -> list[str]:
    """Groups of a request for commits."""
    answer = WireAnswer(body[1:])
    return answer.array(lambda: (answer.text(), answer.int8(), answer.int8())[0])


def commits_of_one(told: Told) -> bytes:
    """An answer to OffsetFetch 7: that of 8, but for a group it has no name, and no tags of its own."""
    whole = commits({"": told})
    assert whole[4:6] == b"\x02\x01"
    return whole[:4] + whole[6:-1]


def serving(told: Mapping[str, Told] | Callable[[list[str]], Mapping[str, Told]]) -> WireBroker:
    """A broker that coordinates everything."""
    broker = WireBroker()
    known = told if callable(told) else lambda names: {name: told[name] for name in names}
    broker.answers = {FIND: finding(lambda: broker), FETCH: lambda body: commits(known(fetched(body)))}
    return broker


def read(broker: WireBroker, *groups: str, within: FetchLimits | None = None, **more: Any) -> Commits:
    """What it tells about some groups."""
    return read_commits(broker.address, {}, groups, within or limits(), **more)


# What is asked, and told


def test_the_requests_are_those_of_the_protocol() -> None:
    """FindCoordinator 4 and OffsetFetch 8, byte by byte: groups, all topics, without waiting for open transactions."""
    with serving({"g": {}, "": {}}) as broker:
        read(broker, "g", "")
    assert [(key, version) for key, version, _ in broker.asked] == [(18, 0), (FIND, 4), (18, 0), (FETCH, 8)]
    bodies = {key: body for key, _, body in broker.asked}
    assert bodies[FIND] == b"\0" + b"\0" + b"\x03\x02g\x01" + b"\0"
    assert bodies[FETCH] == b"\0" + b"\x03" + b"\x02g\0\0" + b"\x01\0\0" + b"\0" + b"\0"


def test_commits_of_groups_with_and_without() -> None:
    """A partition without a commit is None; a group that does not exist has none; one without a name is a group."""
    told: dict[str, Told] = {"g": {("t", 0): 5, ("t", 1): 0, ("u", 7): -1}, "gone": ABSENT, "": {("t", 0): 9}}
    with serving(told) as broker:
        found = read(broker, *told)
    assert found.offsets == {("g", "t", 0): 5, ("g", "t", 1): 0, ("g", "u", 7): None, ("", "t", 0): 9}
    assert (found.denied, found.missing, found.errors) == ([], {}, {})
    assert found.notes() == dict.fromkeys(found.offsets, "note")
    assert found.requests == len(broker.asked)


@pytest.mark.parametrize(
    ("raw", "read"), [(b"\x00", ""), (b"\x01", ""), (b"\x04abc", "abc"), (b"\x05abc\0", "abc"), (b"\x03\xff\xfe", "��")]
)
def test_a_note_of_others_may_hold_anything(raw: bytes, read: str) -> None:
    """Null, empty, with the zero byte of a C string, or no text at all: never an error that hides the commit."""
    assert c_text(WireAnswer(raw).text_bytes()) == read


def test_many_groups_are_few_requests() -> None:
    """A hundred of a coordinator at a time."""
    names = [f"g{number}" for number in range(1, 2_501)]
    with serving({name: {("t", 0): int(name[1:])} for name in names}) as broker:
        found = read(broker, *names)
    assert found.offsets == {(name, "t", 0): int(name[1:]) for name in names}
    assert found.requests == 1 + 3 + 1 + 25


def test_brokers_before_kafka_3_are_asked_for_one_group_after_the_other() -> None:
    """FindCoordinator 3 and OffsetFetch 7: the same is told, and what is refused is refused for its group alone."""
    told: dict[str, Told] = {"g": {("t", 0): 5, ("u", 1): -1}, "empty": {}, "denied": DENIED, "lost": 15}
    found_by: dict[bytes, bytes] = {}
    with serving({}) as broker:
        broker.versions |= {FIND: (0, 3), FETCH: (0, 7)}
        for name, of in told.items():
            code = of if isinstance(of, int) and name == "lost" else 0
            place = int32(-1) + text("") + int32(-1) if code else int32(1) + text("127.0.0.1") + int32(broker.port)
            found_by[text(name)] = int32(0) + int16(code) + text(None) + place + b"\0"
        broker.answers[FIND] = lambda body: found_by[body[1:-2]]
        broker.answers[FETCH] = lambda body: commits_of_one(told[WireAnswer(body[1:]).text()])
        found = read(broker, *told, within=limits(moved=0.0))
    assert found.offsets == {("g", "t", 0): 5, ("g", "u", 1): None}
    assert (found.denied, list(found.missing)) == (["denied"], ["lost"])
    assert [(key, version) for key, version, _ in broker.asked if key != 18] == [(FIND, 3)] * 4 + [(FETCH, 7)] * 3
    bodies = [body for key, _, body in broker.asked if key != 18]
    assert (bodies[0], bodies[4]) == (b"\0" + b"\x02g\0" + b"\0", b"\0" + b"\x02g" + b"\0" + b"\0" + b"\0")


def test_each_coordinator_is_asked_for_its_own() -> None:
    """Found in one request; asked beside each other."""
    with serving({"a": {("t", 0): 1}}) as one, serving({"b": {("t", 0): 2}}) as other:
        ports = {"a": (1, "127.0.0.1", one.port), "b": (2, "127.0.0.1", other.port)}
        one.answers[FIND] = coordinators(ports)
        found = read(one, "a", "b")
    assert found.offsets == {("a", "t", 0): 1, ("b", "t", 0): 2}


def test_what_may_not_be_described_is_told_as_such() -> None:
    """By the broker that is asked for the coordinator, or by the coordinator; it hides nothing else."""
    with serving({"a": DENIED, "b": {("t", 0): 1}}) as broker:
        places: dict[str, tuple[int, str, int] | int] = dict.fromkeys("ab", (1, "127.0.0.1", broker.port))
        broker.answers[FIND] = coordinators({**places, "c": DENIED})
        found = read(broker, "a", "b", "c")
    assert sorted(found.denied) == ["a", "c"]
    assert found.offsets == {("b", "t", 0): 1}
    assert found.missing == {}


def test_a_commit_that_cannot_be_read_is_no_missing_one() -> None:
    """It is an error of its partition."""
    found = Commits()
    parse_commits(WireAnswer(commits({"g": {("t", 0): 5, ("t", 1): -1}}, errors={1: 3})), ["g"], 8, found)
    assert found.offsets == {("g", "t", 0): 5}
    assert found.errors == {("g", "t", 1): "Kafka's error 3"}


def test_what_an_open_transaction_is_about_to_change_is_waited_for() -> None:
    """If that is asked for: the answer before is none, and after the deadline it is no missing commit."""
    answers = [commits({"g": {("t", 0): -1}}, errors={0: 88}), commits({"g": {("t", 0): 5}})]
    with serving({}) as broker:
        broker.answers[FETCH] = lambda _body: answers.pop(0)
        found = read(broker, "g", is_stable=True)
        assert (found.offsets, found.missing, found.errors) == ({("g", "t", 0): 5}, {}, {})
        assert {body[-2:] for key, _, body in broker.asked if key == FETCH} == {b"\1\0"}
        answers = [commits({"g": {("t", 0): -1}}, errors={0: 88})] * 2
        found = read(broker, "g", is_stable=True, within=limits(moved=0.1))
    assert found.offsets == {}
    assert list(found.missing) == ["g"]


# Coordinators that move


@pytest.mark.parametrize("code", [LOADING, NOT_COORDINATOR])
def test_a_coordinator_that_moves_or_loads_is_looked_for_again(code: int) -> None:
    """The new one is asked; the groups that were told are not asked for again."""
    asked: list[list[str]] = []

    def told(names: list[str]) -> Mapping[str, Told]:
        asked.append(names)
        return {name: code if name == "moves" and len(asked) < 3 else {("t", 0): 4} for name in names}

    with serving(told) as broker:
        found = read(broker, "stays", "moves")
    assert found.offsets == {("stays", "t", 0): 4, ("moves", "t", 0): 4}
    assert asked == [["stays", "moves"], ["moves"], ["moves"]]
    assert found.missing == {}


def test_a_coordinator_that_moves_for_too_long_is_named() -> None:
    """The groups of it are missing, and only they."""
    with serving({"g": NOT_COORDINATOR, "h": {("t", 0): 1}}) as broker:
        began = time.monotonic()
        found = read(broker, "g", "h", within=limits(moved=0.7))
        assert time.monotonic() - began < 2
        assert found.missing == {"g": "this broker is not the coordinator any more"}
        broker.answers[FIND] = coordinators({"g": 15})
        assert read(broker, "g", within=limits(moved=0.0)).missing == {"g": "the coordinator is not available"}
    assert found.offsets == {("h", "t", 0): 1}


def test_another_error_is_not_asked_again() -> None:
    """Waiting would not cure it."""
    with serving({"g": 24}) as broker:
        found = read(broker, "g", within=limits(lost=5.0))
        assert [key for key, _, _ in broker.asked].count(FETCH) == 1
    assert found.missing == {"g": "Kafka's error 24"}


def test_a_coordinator_that_is_lost_is_asked_again_as_long_as_it_may_be() -> None:
    """It comes back under another address, as after a failover."""
    with serving({"g": {("t", 0): 1}}) as broker:
        dead = WireBroker()
        with dead:
            pass
        finds = iter([dead.port, dead.port])
        broker.answers[FIND] = lambda body: coordinators({"g": (2, "127.0.0.1", next(finds, broker.port))})
        found = read(broker, "g", within=limits(lost=5.0))
        assert found.offsets == {("g", "t", 0): 1}
        broker.answers[FIND] = coordinators({"g": (2, "127.0.0.1", dead.port)})
        found = read(broker, "g")
    assert found.lost == {"g"}
    assert f"broker 2 (127.0.0.1:{dead.port})" in found.missing["g"]


def test_a_coordinator_that_hangs_costs_its_own_groups_only() -> None:
    """For as long as an answer may take."""
    with serving({"a": {("t", 0): 1}}) as broker, WireBroker(hangs=True) as hanging:
        places: dict[str, tuple[int, str, int] | int] = {
            "a": (1, "127.0.0.1", broker.port),
            "b": (2, "127.0.0.1", hanging.port),
        }
        broker.answers[FIND] = coordinators(places)
        began = time.monotonic()
        found = read(broker, "a", "b", within=limits(silence=0.5))
        assert time.monotonic() - began < 2
        assert found.offsets == {("a", "t", 0): 1}
        assert found.lost == {"b"}
        known = read(broker, "a", "b", silent={2})
    assert known.offsets == found.offsets
    assert known.missing == {"b": "its coordinator, broker 2, does not answer"}


def test_a_server_that_hangs_is_passed_over_and_asked_last_after_that() -> None:
    """The first address of the settings may be the lost broker's."""
    codes = iter([NOT_COORDINATOR])
    told: Told = {("t", 0): 1}
    answering = serving(lambda names: {name: next(codes, told) for name in names})
    with answering as broker, WireBroker(hangs=True) as hanging:
        began = time.monotonic()
        found = read_commits(f"{hanging.address},{broker.address}", {}, ["g"], limits(silence=0.5))
    assert found.offsets == {("g", "t", 0): 1}
    assert time.monotonic() - began < 0.5 + 0.5


def test_without_any_server_every_group_is_missing() -> None:
    """With the reason."""
    with WireBroker(hangs=True) as broker:
        found = read(broker, "a", "b", within=limits(silence=0.3))
    assert found.lost == {"a", "b"}
    assert broker.address in found.missing["a"]


# Hostile answers


def answers() -> list[tuple[bytes, Callable[[WireAnswer], Any]]]:
    """Whole ones, and what reads them."""
    return [
        (coordinators({"g": (1, "h", 9092), "d": DENIED}), lambda it: parse_coordinators(it, ["g", "d"], 4)),
        (
            commits({"g": {("t", 0): 5, ("u", 1): -1}, "x": ABSENT}),
            lambda it: parse_commits(it, ["g", "x"], 8, Commits()),
        ),
    ]


@pytest.mark.parametrize("which", [0, 1])
def test_every_truncated_answer_is_refused(which: int) -> None:
    """Wherever it ends (but for the last byte: the tagged fields of the whole, which nobody reads)."""
    whole, parse = answers()[which]
    parse(WireAnswer(whole))
    for size in range(len(whole) - 1):
        with pytest.raises(WireError):
            parse(WireAnswer(whole[:size]))


def test_an_answer_that_is_truncated_leaves_nothing_behind() -> None:
    """Not the half that was understood."""
    found = Commits()
    whole = commits({"g": {("t", 0): 5}, "h": {("t", 0): 6}})
    with pytest.raises(WireError):
        parse_commits(WireAnswer(whole[:-6]), ["g", "h"], 8, found)
    assert found == Commits()


@pytest.mark.parametrize(
    "body",
    [
        int32(0) + b"\xff\xff\xff\xff\x0f",  # four billion groups
        int32(0) + array([text("g") + b"\xff\xff\xff\xff\x0f"]),
        int32(0) + array([b"\xff\xff\xff\xff\xff\xff"]),
        int32(0) + array([b"\x03\xff\xfe"]),
    ],
)
def test_lengths_and_names_that_lie_are_refused(body: bytes) -> None:
    """Before anything of that size is made."""
    for _, parse in answers():
        with pytest.raises(WireError):
            parse(WireAnswer(body))


def test_a_broken_answer_is_an_error_of_its_coordinator() -> None:
    """Told with the broker; no exception leaves the thread."""
    with serving({}) as broker:
        broker.answers[FETCH] = int32(0) + b"\x05"
        found = read(broker, "g")
    assert found.missing == {"g": f"broker 1 (127.0.0.1:{broker.port}): a length is beyond the end of the answer"}


def test_groups_that_were_not_asked_for_are_ignored_and_those_left_out_are_missing() -> None:
    """Also one that is told twice: the first counts."""
    found = Commits()
    body = commits({"other": {("t", 0): 1}, "g": {("t", 0): 2}})
    parse_commits(WireAnswer(body), ["g", "h"], 8, found)
    assert found.offsets == {("g", "t", 0): 2}
    assert found.missing == {"h": "its coordinator has not answered for it"}
    with serving({}) as broker:
        broker.answers[FIND] = coordinators({"g": (1, "127.0.0.1", 70_000)})
        assert read(broker, "g", "h").missing == {
            "g": "its coordinator, broker 1, has no valid port",
            "h": "the broker tells no coordinator",
        }


# In a snapshot, and in a replay


def reading(broker: WireBroker, *, silent: Mapping[int, str] | None = None, seconds: float = 5.0) -> ClusterReading:
    """An attempt: the first, or one that knows which brokers are silent."""
    known = None if silent is None else Brokers(answering={1: broker.address}, silent=silent)
    return ClusterReading(KafkaConnection(broker.address, deadline_seconds=seconds), time.monotonic() + seconds, known)


def test_a_first_attempt_that_loses_a_coordinator_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a look at the brokers; the second one tells what is missing."""
    brokers = Brokers(answering={}, silent={2: "broker 2 does not answer"})
    monkeypatch.setattr(KafkaConnection, "look", lambda _: brokers)
    monkeypatch.setattr(ClusterReading, "ask", None)
    with serving({"a": {("t", 0): 1}}) as broker:
        with WireBroker() as dead:
            places: dict[str, tuple[int, str, int] | int] = {
                "a": (1, "127.0.0.1", broker.port),
                "b": (2, "127.0.0.1", dead.port),
            }
        broker.answers[FIND] = coordinators(places)
        first = reading(broker)
        first.kafka._admin = SimpleNamespace(poll=lambda _: 0)
        with pytest.raises(AgainError) as caught:
            commits_of(first, ["a", "b"])
        assert caught.value.brokers is brokers
        second = reading(broker, silent=brokers.silent)
        second.kafka._admin = SimpleNamespace(poll=lambda _: 0)
        found = commits_of(second, ["a", "b"])
    assert found.offsets == {("a", "t", 0): 1}
    assert list(found.missing) == ["b"]


class OldAdmin:
    """librdkafka, as it tells commits."""

    def poll(self, _seconds: float) -> int:
        """No error."""
        return 0

    def list_consumer_group_offsets(self, asked: list[Any], **_: Any) -> dict[str, Future[Any]]:
        """One request per group."""
        [of] = asked
        answer: Future[Any] = Future()
        if of.group_id == "denied":
            answer.set_exception(KafkaException(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED)))
        else:
            bad = KafkaError(KafkaError.UNSTABLE_OFFSET_COMMIT)
            parts = [("t", 0, 5, None), ("t", 1, -1001, None), ("t", 2, -1001, bad)]
            told = [SimpleNamespace(topic=a, partition=b, offset=c, error=d) for a, b, c, d in parts]
            answer.set_result(SimpleNamespace(topic_partitions=told))
        return {of.group_id: answer}


def test_settings_that_our_requests_lack_are_left_to_librdkafka() -> None:
    """Kerberos, or brokers before 2.5: one request per group, with the same result."""
    with serving({}) as broker:
        broker.versions[FETCH] = (0, 6)
        with pytest.raises(NotListedError, match=r"older than Kafka 2\.5"):
            read(broker, "g")
        attempt = reading(broker)
        attempt.kafka._admin = OldAdmin()
        found = commits_of(attempt, ["g", "denied", ""])
    assert found.offsets == {("g", "t", 0): 5, ("g", "t", 1): None}
    assert list(found.errors) == [("g", "t", 2)]
    assert found.denied == ["denied"]
    assert list(found.missing) == [""]
    kerberos = {"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}
    with pytest.raises(NotListedError, match="GSSAPI"):
        read_commits("127.0.0.1:1", kerberos, ["g"], limits())


def gateway(broker: WireBroker, monkeypatch: pytest.MonkeyPatch, seconds: float = 3.0) -> KafkaGateway:
    """A replay's connection to a broker."""
    monkeypatch.setattr(KafkaConnection, "first_answer", lambda *_: None)
    return KafkaGateway(broker.address, deadline_seconds=seconds)


def test_a_replay_asks_until_the_coordinator_has_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits without those that are none; a group that does not exist has none."""
    codes = iter([NOT_COORDINATOR, LOADING])
    told: Told = {("t", 0): 5, ("t", 1): -1}
    with serving(lambda names: {name: ABSENT if name == "gone" else next(codes, told) for name in names}) as broker:
        assert gateway(broker, monkeypatch).commits("g") == {("t", 0): 5}
        assert gateway(broker, monkeypatch).commits("gone") == {}


def test_why_it_does_not_work_is_kept_if_the_last_answer_does_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """That the time is over says less than what the coordinator said before."""
    codes = iter([NOT_COORDINATOR])

    def answer(names: list[str]) -> dict[str, int]:
        if (code := next(codes, None)) is None:
            time.sleep(2.0)
        return dict.fromkeys(names, code or 0)

    refusal = "group 'g' cannot be read: this broker is not the coordinator"
    with serving(answer) as broker, pytest.raises(SourceUnreachableError, match=refusal):
        gateway(broker, monkeypatch, seconds=1.0).commits("g")


def test_a_replay_takes_no_answer_for_no_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be read is an error that names it: a missing commit would be written again."""
    with serving({"g": NOT_COORDINATOR, "denied": DENIED}) as broker:
        with pytest.raises(
            SourceUnreachableError, match="group 'g' cannot be read: this broker is not the coordinator"
        ):
            gateway(broker, monkeypatch, seconds=3).commits("g")
        with pytest.raises(SourceUnreachableError, match="DESCRIBE on group 'denied'"):
            gateway(broker, monkeypatch).commits("denied")
        broker.answers[FETCH] = commits({"g": {("t", 3): -1}}, errors={3: 3})
        with pytest.raises(SourceUnreachableError, match="group 'g' on t-3 cannot be read"):
            gateway(broker, monkeypatch).commits("g")

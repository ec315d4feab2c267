"""Quotas by our own request: only what is set for the user counts, and a refusal or a broken answer is an error, never a limit."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.collect.wire_broker import WireBroker
from workbench.kafka.quotas import Limit, of_clients, parse_limits, quotas_of, read_bytes_per_second
from workbench.kafka.wire import WireAnswer, WireError, array, text
from workbench.queues.replay_port import Quotas


def entry(entities: dict[str, str | None], values: dict[str, float]) -> bytes:
    """One entry of an answer."""
    of = array(text(kind) + text(name) + b"\x00" for kind, name in entities.items())
    return of + array(text(key) + struct.pack(">d", number) + b"\x00" for key, number in values.items()) + b"\x00"


def answer_of(*entries: bytes, code: int = 0) -> bytes:
    """A whole answer."""
    return struct.pack(">ih", 0, code) + text(None) + array(entries) + b"\x00"


def test_every_entry_with_its_entities_and_values() -> None:
    """A default has no name."""
    data = answer_of(
        entry({"user": "svc", "client-id": "x"}, {"producer_byte_rate": 1.0}),
        entry({"user": None}, {"producer_byte_rate": 2048.0, "request_percentage": 10.0}),
    )
    assert parse_limits(WireAnswer(data)) == [
        Limit(of={"user": "svc", "client-id": "x"}, values={"producer_byte_rate": 1.0}),
        Limit(of={"user": None}, values={"producer_byte_rate": 2048.0, "request_percentage": 10.0}),
    ]
    assert parse_limits(WireAnswer(answer_of())) == []
    with pytest.raises(WireError, match="error 31"):
        parse_limits(WireAnswer(answer_of(code=31)))


@given(st.binary(max_size=60))
def test_a_broken_answer_is_an_error(data: bytes) -> None:
    """Of the wire, and no other."""
    try:
        parse_limits(WireAnswer(data))
    except WireError:
        return


@pytest.mark.parametrize("own", [None, 2048.0])
def test_of_a_user_only_what_is_for_all_its_clients_counts(own: float | None) -> None:
    """One with a client id beside it is for that client only; without an own one that of all users counts."""

    def told(body: bytes) -> bytes:
        asked_for_own = b"svc" in body
        if not asked_for_own:
            return answer_of(entry({"user": None}, {"producer_byte_rate": 1.0, "consumer_byte_rate": 3.0}))
        alone = [entry({"user": "svc"}, {"producer_byte_rate": own})] if own else []
        return answer_of(entry({"user": "svc", "client-id": "x"}, {"producer_byte_rate": 7.0}), *alone)

    with WireBroker(answers={48: told}) as broker:
        broker.versions[48] = (0, 1)
        found = quotas_of(broker.address, {}, user="svc")
    assert found == Quotas(user="svc", producer_bytes=own or 1.0, consumer_bytes=3.0)


NAMES = st.sampled_from(["alice", "bob", None])
CLIENTS = st.sampled_from(["a", "b", None])
ENTITIES = st.one_of(
    st.builds(lambda user: {"user": user}, NAMES),
    st.builds(lambda client: {"client-id": client}, CLIENTS),
    st.builds(lambda user, client: {"user": user, "client-id": client}, NAMES, CLIENTS),
)


def of_user(limits: list[Limit], user: str, clients: set[str]) -> float | None:
    """Kafka's documented order, step by step: what a user's clients may read together."""

    def rate(of: dict[str, str | None]) -> float | None:
        return next((it.values["consumer_byte_rate"] for it in limits if it.of == of), None)

    total = 0.0
    for client in clients:
        for level in (user, None):
            for of in ({"user": level, "client-id": client}, {"user": level, "client-id": None}, {"user": level}):
                if (found := rate(of)) is not None:
                    break
            else:
                continue
            break
        else:
            of = {"client-id": client} if rate({"client-id": client}) is not None else {"client-id": None}
            found = rate(of)
        if found is None:
            return None
        if "client-id" not in of:
            return found
        total += found
    return total or None


@given(
    st.lists(
        st.tuples(ENTITIES, st.sampled_from([10.0, 20.0])),
        max_size=6,
        unique_by=lambda it: sorted(it[0].items(), key=str).__repr__(),
    ),
    st.sets(st.sampled_from(["a", "b", "c"]), min_size=1),
)
def test_the_limit_of_a_group_is_that_of_every_user_it_may_be(
    given_: list[tuple[dict[str, str | None], float]], clients: set[str]
) -> None:
    """A broker does not tell the user of a member, so it is known only if it is the same for all."""
    limits = [Limit(of=of, values={"consumer_byte_rate": rate}) for of, rate in given_]
    named = {str(it.of["user"]) for it in limits if it.of.get("user") is not None}
    each = {of_user(limits, user, clients) for user in {*named, "anybody else"}}
    assert read_bytes_per_second(limits, clients) == (each.pop() if len(each) == 1 else None)


def test_without_a_user_nothing_is_asked() -> None:
    """A client without SASL has no user that its properties would name."""
    assert quotas_of("127.0.0.1:9", {}) is None
    assert quotas_of("127.0.0.1:9", {}, user="svc") is None  # nobody answers


def test_limits_of_client_ids_themselves_are_told() -> None:
    """Neither defaults nor those of users: a cap of a client id does not replace these."""
    rates = {"consumer_byte_rate": 5.0, "producer_byte_rate": 7.0}
    limits = [
        Limit(of={"client-id": "a"}, values=rates),
        Limit(of={"client-id": None}, values=rates),
        Limit(of={"user": "u", "client-id": "b"}, values=rates),
        Limit(of={"client-id": "c"}, values={"request_percentage": 5.0}),
    ]
    assert of_clients(limits) == {("a", False): 5.0, ("a", True): 7.0}

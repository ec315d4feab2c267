"""Quotas by our own request: only what is set for the user counts, and a refusal or a broken answer is an error, never a limit."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.collect.kafka_quotas import parse_quotas, quotas_of
from workbench.collect.kafka_wire import Answer, WireError, array, text


def entry(entities: dict[str, str | None], values: dict[str, float]) -> bytes:
    """One entry of an answer."""
    of = array(text(kind) + text(name) + b"\x00" for kind, name in entities.items())
    return of + array(text(key) + struct.pack(">d", number) + b"\x00" for key, number in values.items()) + b"\x00"


def answer_of(*entries: bytes, code: int = 0) -> bytes:
    """A whole answer."""
    return struct.pack(">ih", 0, code) + text(None) + array(entries) + b"\x00"


def test_only_the_entry_of_the_user_alone_counts() -> None:
    """One with a client id beside it is for that client only."""
    data = answer_of(
        entry({"user": "svc", "client-id": "x"}, {"producer_byte_rate": 1.0}),
        entry({"user": "svc"}, {"producer_byte_rate": 2048.0, "request_percentage": 10.0}),
    )
    assert parse_quotas(Answer(data)) == {"producer_byte_rate": 2048.0, "request_percentage": 10.0}
    assert parse_quotas(Answer(answer_of())) == {}
    with pytest.raises(WireError, match="error 31"):
        parse_quotas(Answer(answer_of(code=31)))


@given(st.binary(max_size=60))
def test_a_broken_answer_is_an_error(data: bytes) -> None:
    """Of the wire, and no other."""
    try:
        parse_quotas(Answer(data))
    except WireError:
        return


def test_without_a_user_nothing_is_asked() -> None:
    """A client without SASL has no user that its properties would name."""
    assert quotas_of("127.0.0.1:9", {}) is None
    assert quotas_of("127.0.0.1:9", {}, user="svc") is None  # nobody answers

"""Headers of six frameworks, read and taken off again; hostile ones do no harm."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.redrive.six_kinds import KINDS, headers_of
from workbench.redrive.letters import LETTER_HEADER, PLAN_HEADER, ROUND_HEADER, Origin, Reader
from workbench.redrive.selection import header_test, offset_range
from workbench.redrive.topics import names_of_letters, source_by_name

OWN = [("event_type", b"order"), ("trace", b"7"), ("event_type", b"order2"), ("empty", None)]


@pytest.mark.parametrize("kind", KINDS)
def test_the_headers_of_each_framework(kind: str) -> None:
    """Origin and error are read; only the framework's headers are taken off, the record's own stay in their order."""
    headers = [*OWN, *headers_of(kind, "orders", 3, 1 << 40, "org.acme.Bad")]
    found = Reader().origin(headers)
    assert found.framework == kind
    if kind not in ("parallel_consumer", "decaton"):  # they do not say the topic
        assert found.topic == "orders"
    if kind != "decaton":
        assert (found.partition, found.offset, found.error) == (3, 1 << 40, "org.acme.Bad")
    restored = Reader().restored(headers, plan="p", letter="1:2", round_=4)
    ours = [(ROUND_HEADER, b"4"), (PLAN_HEADER, b"p"), (LETTER_HEADER, b"1:2")]
    kept = [("dt_meta", b"\x08\x80\xd0\x95\xff\xbc\x31\x12\x03app")] if kind == "decaton" else []
    assert restored == [*OWN, *kept, *ours]
    again = Reader().restored(restored, plan="q", letter="1:3", round_=5)
    assert [name for name, _ in again].count(ROUND_HEADER) == 1


def test_headers_of_the_settings_come_first() -> None:
    """A mapping names the headers of an unknown framework; they are taken off, too."""
    reader = Reader({"topic": "src", "offset": "at", "error": "why"})
    headers = [("src", b"orders"), ("at", b"17"), ("why", b"late"), ("own", b"1")]
    assert reader.origin(headers)[:6] == ("mapping", "orders", None, 17, None, "late")
    assert [name for name, _ in reader.restored(headers, plan="p", letter="0:0", round_=1)][:1] == ["own"]


def test_several_rounds_of_one_framework() -> None:
    """Of headers with the same name, the last one counts: a letter of a letter."""
    headers = [*headers_of("runtime", "first", 0, 1, "a"), *headers_of("runtime", "second", 1, 2, "b")]
    assert Reader().origin(headers)[1:4] == ("second", 1, 2)


NAMES = st.one_of(
    st.text(max_size=8),
    st.sampled_from(
        ["wb_topic", "wb_offset", "wb_partition", "kafka_dlt-original-offset", "kafka_dlt-original-topic", "dt_meta"]
    ),
    st.sampled_from(
        ["x-original-topic", "x-original-offset", "pc-failure-count", "pc-offset", ROUND_HEADER, "wb_left_out"]
    ),
)


@given(st.lists(st.tuples(NAMES, st.one_of(st.none(), st.binary(max_size=40))), max_size=12))
def test_no_header_breaks_the_reader(headers: list[tuple[str, bytes | None]]) -> None:
    """Whatever is in them: bounded numbers, a valid topic name or none, and a text of bounded length."""
    found: Origin = Reader().origin(headers)
    assert found.topic is None or (
        len(found.topic) <= 249 and "/" not in found.topic and found.topic not in (".", "..")
    )
    assert all(it is None or 0 <= it <= 1 << 62 for it in (found.partition, found.offset, found.timestamp_ms))
    assert len(found.error) <= 200 and 0 <= found.round <= 1_000_000
    restored = Reader().restored(headers, plan="p", letter="0:0", round_=found.round + 1)
    assert [name for name, _ in restored][-3:] == [ROUND_HEADER, PLAN_HEADER, LETTER_HEADER]


@pytest.mark.parametrize("text", ["", "=x", "!a=b", "a~(", "a!~[", "!"])
def test_a_wrong_header_expression_is_refused(text: str) -> None:
    """Also a pattern that does not compile."""
    with pytest.raises(ValueError, match=r"not a header expression|pattern is not valid"):
        header_test(text)


@pytest.mark.parametrize("text", ["3", "3:", "3:9-2", "a:1", "1:١", "-1:2", "1:2-3-4"])
def test_a_wrong_offset_range_is_refused(text: str) -> None:
    """Naming it."""
    with pytest.raises(ValueError, match=r"is not partition|ends before"):
        offset_range(text)


def test_topics_by_convention_and_by_settings() -> None:
    """Usual endings; no internal topic; patterns of the settings replace the convention."""
    names = [
        "orders",
        "orders-dlt",
        "orders.DLQ",
        "a_dead_letters",
        "orders-dead",
        "deadline",
        "dlq",
        "pay-dlt-0",
        "__x-dlt",
        "undead",
    ]
    assert names_of_letters(names, []) == sorted(
        ["orders-dlt", "orders.DLQ", "a_dead_letters", "orders-dead", "dlq", "pay-dlt-0"]
    )
    assert names_of_letters(names, ["orders*"]) == ["orders", "orders-dead", "orders-dlt", "orders.DLQ"]
    assert source_by_name("orders-dlt", names) == "orders"
    assert source_by_name("other-dlt", names) is None

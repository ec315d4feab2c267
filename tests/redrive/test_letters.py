"""Headers of six frameworks, read and taken off again; hostile ones do no harm."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.redrive.six_kinds import KINDS, headers_of
from workbench.cli.dead_letter_output import show_letters
from workbench.payloads.decode import Decoder
from workbench.record_settings import RecordSettings
from workbench.redrive.dead_letter_topics import names_of_letters, source_by_name
from workbench.redrive.letter_headers import LETTER_HEADER, PLAN_HEADER, ROUND_HEADER, Letter, Origin, Reader
from workbench.redrive.selection import header_test, offset_range
from workbench.redrive.show_letters import _shown

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


@pytest.mark.parametrize(
    ("prefix", "framework", "error"),
    [
        ("__streams.errors.", "kafka_streams", "java.lang.IllegalStateException"),
        ("__dlq.errors.", "share_group", "(none)"),
    ],
)
def test_kafkas_own_letters_of_streams_and_share_groups(prefix: str, framework: str, error: str) -> None:
    """KIP-1034 and KIP-1191: source and error are read, the group of a share group too, and all of it is taken off."""
    values = {"topic": b"pay", "partition": b"1", "offset": b"41"}
    more = {
        "kafka_streams": {
            "exception": b"java.lang.IllegalStateException",
            "message": b"no rate",
            "stacktrace": b"at x",
        },
        "share_group": {"group": b"sg", "delivery.count": b"5"},
    }[framework]
    headers = [*OWN, *((prefix + name, value) for name, value in (values | more).items())]
    found = Reader().origin(headers)
    assert (found.framework, found.topic, found.partition, found.offset, found.error) == (
        framework,
        "pay",
        1,
        41,
        error,
    )
    assert found.group == ("sg" if framework == "share_group" else None)
    restored = Reader().restored(headers, plan="p", letter="1:2", round_=1)
    assert [it for it in restored if it[0].startswith("__")] == []
    assert restored[: len(OWN)] == OWN


def test_letters_of_an_unknown_framework_show_their_headers_and_the_setting(capsys: pytest.CaptureFixture[str]) -> None:
    """So that the next step can be seen; names of headers are text, and known letters say nothing of it."""
    headers = [("original-topic", b"pay"), ("why\x1b[31m", b"late"), ("original-topic", b"x"), ("wb_plan", b"p")]
    strange = Letter(0, 7, 1_700_000_000_000, b"k", b"v", headers)
    known = Letter(0, 8, 1_700_000_000_000, b"k", b"v", headers_of("spring", "pay", 1, 2, "E"))
    shown = [
        _shown(it, Reader().origin(it.headers), Decoder(RecordSettings()), "pay-x", payload=False)
        for it in (strange, known)
    ]
    assert [it.headers for it in shown] == [("original-topic", "why\x1b[31m"), ()]
    show_letters(shown, "pay-x", payload=False)
    said = " ".join(capsys.readouterr().out.split())
    assert "1 letter is of no framework that is known" in said
    assert 'headers = {topic = "original-topic"}' in said
    assert "\x1b[31m" not in said
    assert shown[0].document()["headers"] == ("original-topic", "why\x1b[31m")
    show_letters(shown[1:], "pay-x", payload=False)
    assert "no framework" not in capsys.readouterr().out


def test_several_rounds_of_one_framework() -> None:
    """Of headers with the same name, the last one counts: a letter of a letter."""
    headers = [*headers_of("runtime", "first", 0, 1, "a"), *headers_of("runtime", "second", 1, 2, "b")]
    assert Reader().origin(headers)[1:4] == ("second", 1, 2)


@pytest.mark.parametrize(
    ("left_out", "stays"), [("value", True), ("headers", True), ("value,key,headers", True), (None, False)]
)
def test_a_letter_that_lacks_a_part_of_its_record_is_told(left_out: str | None, stays: bool) -> None:
    """Produced again, it would be another record."""
    more = [] if left_out is None else [("wb_left_out", left_out.encode())]
    assert Reader().origin([*headers_of("runtime", "first", 0, 1, "a"), *more]).left_out is stays


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
    binder = ["error.orders.ledger", "error.pay.events.ledger", "error.log", "error.unknown.x", "pay.events"]
    assert names_of_letters([*names, *binder], ["*"])
    assert set(names_of_letters(["orders", *binder], [])) == {"error.orders.ledger", "error.pay.events.ledger"}
    assert names_of_letters(names, ["orders*"]) == ["orders", "orders-dead", "orders-dlt", "orders.DLQ"]
    assert source_by_name("orders-dlt", names) == "orders"
    assert source_by_name("other-dlt", names) is None


@pytest.mark.parametrize("word", [b"null", b"none", b"-100", b"n/a ", b"unknown!", b"-1234567"])
def test_a_word_of_four_or_eight_letters_is_no_binary_number(word: bytes) -> None:
    """A header that says in words that there is no number gives none: Spring's binary numbers have as many bytes."""
    headers = [("wb_topic", b"orders"), ("wb_partition", word), ("wb_offset", word)]
    origin = Reader().origin(headers)
    assert (origin.topic, origin.partition, origin.offset) == ("orders", None, None)

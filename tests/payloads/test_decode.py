"""Decoding: each format, with Confluent's framing and by setting; broken values are shown; hidden fields never."""

from __future__ import annotations

import io
import json
import time
from pathlib import Path
from typing import Any

import fastavro
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given
from hypothesis import strategies as st

from tests.servers import Script, scripted
from workbench.payloads.avro_value_count import values_bound
from workbench.payloads.decode import Decoder
from workbench.payloads.hidden_fields import Hide, is_secret
from workbench.record_settings import RecordSettings

AVRO = {
    "type": "record",
    "name": "acme.Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "card", "type": "string"}],
}


def avro(value: dict[str, Any]) -> bytes:
    """A value without framing."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(AVRO), value)
    return out.getvalue()


def protobuf() -> tuple[bytes, bytes]:
    """A descriptor set with the messages Other and Order, and a value of Order."""
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="acme", syntax="proto3")
    file.message_type.add(name="Other").field.add(name="x", number=1, type=5, label=1)
    order = file.message_type.add(name="Order")
    order.field.add(name="id", number=1, type=3, label=1)
    order.field.add(name="card", number=2, type=9, label=1)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    message = message_factory.GetMessageClass(pool.FindMessageTypeByName("acme.Order"))(id=7, card="4111")
    return descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString(), message.SerializeToString()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Schemas with the ids 1 to 3, and the same by name."""
    descriptors, _ = protobuf()
    for name in ("1.avsc", "order.avsc"):
        (tmp_path / name).write_text(json.dumps(AVRO))
    for name in ("2.desc", "order.desc"):
        (tmp_path / name).write_bytes(descriptors)
    (tmp_path / "3.json").write_text('{"title": "acme.OrderJson", "type": "object"}')
    (tmp_path / "4.avsc").write_text("{broken")
    return tmp_path


def framed(number: int, value: bytes) -> bytes:
    """Confluent's framing."""
    return b"\0" + number.to_bytes(4, "big") + value


def test_each_format_with_a_frame(folder: Path) -> None:
    """Named by the schema; the hidden field is in none of them."""
    decoder = Decoder(RecordSettings(schemas=str(folder), hidden_fields=["card"]))
    values = {
        "avro": framed(1, avro({"id": 7, "card": "4111"})),
        "protobuf": framed(2, b"\x02\x02" + protobuf()[1]),  # one index: 1
        "json_schema": framed(3, b'{"id": 7, "card": "4111"}'),
    }
    for kind, value in values.items():
        found = decoder.decode("orders", value)
        assert found.problem is None, found
        assert (found.kind, found.type) == (kind, "acme.OrderJson" if kind == "json_schema" else "acme.Order")
        assert {name: str(it) for name, it in found.value.items()} == {"id": "7", "card": "***"}
        assert decoder.type_of("orders", value) == found.type


def test_each_format_by_setting(folder: Path) -> None:
    """For topics without frames; the pattern selects it."""
    formats = {"a*": "avro:order.avsc", "p*": "protobuf:order.desc:acme.Order", "t*": "text", "h*": "hex", "j*": "json"}
    decoder = Decoder(RecordSettings(schemas=str(folder), formats=formats))
    assert decoder.decode("a", avro({"id": 1, "card": "x"})).value == {"id": 1, "card": "x"}
    assert decoder.decode("p", protobuf()[1]).value == {"id": "7", "card": "4111"}
    assert decoder.decode("t", b"{}").value == "{}"
    assert decoder.decode("h", b"ab").value == "61 62"
    assert decoder.decode("j", b"[1]").value == [1]
    assert decoder.decode("j", b"[1").problem is not None


@pytest.mark.parametrize(
    ("value", "kind", "problem"),
    [
        (None, "null", None),
        (b"plain", "text", None),
        (b"\xff\xfe", "hex", None),
        (b"\x1b[31m", "hex", None),
        (b'{"a": ', "text", None),
        (b"[" * 100_000, "text", None),
        (framed(1, b"\xff"), "hex", "Error"),
        (framed(9, b"x"), "hex", "schema 9 is not in the folder"),
        (framed(4, b"x"), "hex", "4.avsc cannot be read"),
        (framed(1, avro({"id": 1, "card": "x"}) + b"more"), "hex", "4 bytes are left"),
        (framed(2, b"\x04\x02"), "hex", "indexes are broken"),
        (b"x" * (2 << 20), "hex", "2,097,152 bytes"),
    ],
)
def test_what_cannot_be_decoded_is_shown(folder: Path, value: bytes | None, kind: str, problem: str | None) -> None:
    """With why, and never raised."""
    found = Decoder(RecordSettings(schemas=str(folder))).decode("orders", value)
    assert found.kind == kind
    assert (found.problem is None) if problem is None else problem in (found.problem or "")
    assert len(found.line()) < 3000


@given(st.binary(max_size=200))
def test_no_value_raises_or_shows_a_hidden_field(value: bytes) -> None:
    """With hidden fields, what has no fields is not shown at all."""
    found = Decoder(RecordSettings(hidden_fields=["card"])).decode("orders", value)
    if found.kind == "hex":
        assert found.value == f"{len(value):,} bytes"
    assert found.kind in ("hex", "json")


def test_fields_are_hidden_by_name_path_and_meaning() -> None:
    """At any depth, in lists, in any case; names of secrets always."""
    hide = Hide(["card_*", "customer.email"])
    value = {
        "Card_Number": 1,
        "customer": {"email": "a@b", "name": "n"},
        "email": "kept",
        "items": [{"api_key": "k", "n": float("nan")}],
    }
    assert hide.apply(value) == {
        "Card_Number": "***", "customer": {"email": "***", "name": "n"}, "email": "kept", "items": [{"api_key": "***", "n": "nan"}],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        *(
            (name, True)
            for name in ("accessToken", "clientSecret", "userPassword", "sessionToken", "passwordHash", "APIKey")
        ),
        *(
            (name, True)
            for name in ("ACCESS_TOKEN", "x-api-key", "db.passwd", "accesstoken", "OAuth2Token", "secretsByName")
        ),
        *((name, False) for name in ("tokenCount", "secretary", "author", "keyId", "monkey", "tokenized", "")),
    ],
)
def test_a_field_is_named_like_a_secret_in_any_spelling(name: str, is_one: bool) -> None:
    """Words, whatever separates them."""
    assert is_secret(name) is is_one


_ZERO = {"type": "record", "name": "Zero", "fields": [{"name": "n", "type": "null"}]}
_MANY = {"type": "record", "name": "Many", "fields": [{"name": f"n{n}", "type": "null"} for n in range(500)]}


@pytest.mark.parametrize(
    "items",
    ["null", {"type": "fixed", "name": "F", "size": 0}, _ZERO, {"type": "array", "items": "null"}, ["null", _MANY]],
    ids=["null", "fixed", "record", "nested", "wide"],
)
def test_items_without_a_size_are_not_built(tmp_path: Path, items: Any) -> None:
    """Five bytes may stand for twenty million of them."""
    (tmp_path / "1.avsc").write_text(json.dumps({"type": "array", "items": items}))
    value = b"\x80\xe1\xeb\x17\x00" + b"\x00" * (10_000 if isinstance(items, list) else 0)
    found = Decoder(RecordSettings(schemas=str(tmp_path))).decode("t", b"\0\0\0\0\1" + value)
    assert "too many values" in (found.problem or "")


def test_a_small_schema_that_stands_for_a_billion_fields_is_refused_at_once(tmp_path: Path) -> None:
    """A record that has another one twice, which has another one twice, and so on."""
    made: Any = {"type": "record", "name": "R0", "fields": [{"name": "n", "type": "null"}]}
    for number in range(1, 31):
        twice = [{"name": "a", "type": made}, {"name": "b", "type": f"R{number - 1}"}]
        made = {"type": "record", "name": f"R{number}", "fields": twice}
    (tmp_path / "1.avsc").write_text(json.dumps(made))
    began = time.process_time()
    found = Decoder(RecordSettings(schemas=str(tmp_path))).decode("t", b"\0\0\0\0\1\0")
    assert "too many values" in (found.problem or "")
    assert time.process_time() - began < 20


def test_schemas_with_repeating_parts_are_decoded() -> None:
    """Lists within themselves, maps, optional fields: what takes bytes for each value."""
    node = {
        "type": "record",
        "name": "Node",
        "fields": [
            {"name": "next", "type": ["null", "Node"]},
            {"name": "tags", "type": {"type": "map", "values": "null"}},
        ],
    }
    named: dict[str, Any] = {}
    bound = values_bound(fastavro.parse_schema(node, named_schemas=named), named)
    assert bound(0) == 3
    assert bound(1000) < 10_000


def test_a_registry_is_asked_once_per_schema_and_with_its_headers() -> None:
    """Also for one that it does not have."""
    body = json.dumps({"schema": json.dumps(AVRO)}).encode()
    with scripted(Script(body=body)) as server:
        settings = RecordSettings(schema_registry=server.url, registry_headers={"Authorization": "Basic c2VjcmV0"})
        decoder = Decoder(settings)
        for _ in range(3):
            assert decoder.decode("orders", framed(1, avro({"id": 3, "card": "c"}))).value["id"] == 3
        server.status = 404
        for _ in range(3):
            assert "answers with 404" in (decoder.decode("orders", framed(8, b"x")).problem or "")
        assert [path for path, *_ in server.requests] == ["/schemas/ids/1", "/schemas/ids/8"]
        assert server.requests[0][2]["Authorization"] == "Basic c2VjcmV0"
    found = Decoder(RecordSettings(schema_registry="http://127.0.0.1:9")).decode("orders", framed(1, b"x"))
    assert "does not answer" in (found.problem or "")

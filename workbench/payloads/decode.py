"""Decoding of one record's value. A broken value is shown with its problem; it never raises."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from workbench.extras import how_to_install
from workbench.payloads.avro_value_count import values_bound
from workbench.payloads.hidden_fields import Hide
from workbench.payloads.schemas import Schema, SchemaProblemError, Schemas, read_schema
from workbench.record_settings import RecordSettings

_MAX_BYTES = 1 << 20  # of a value that is decoded; beyond, only its beginning is shown
_SHOWN_BYTES = 64  # as hex
_MAX_TEXT = 2000
_MOST_VALUES = (
    2_000_000  # that Avro may make of a value: about 150 MB; a value of 1 MB with items of one byte has half of them
)
_HEAD = 5  # magic byte 0 and the id of the schema (Confluent's wire format)


@dataclass(frozen=True, slots=True)
class Decoded:
    """A value for people.

    Attributes:
        kind: null, json, avro, protobuf, json_schema, text or hex.
        type: name of the schema's record or message; None if there is none.
        value: JSON values, with hidden fields replaced; or a text.
        problem: why it could not be decoded better; None if it could.
    """

    kind: str
    value: Any
    type: str | None = None
    problem: str | None = None

    def line(self) -> str:
        """On one line, shortened."""
        shown = self.value if isinstance(self.value, str) else json.dumps(self.value, ensure_ascii=False)
        text = shown if len(shown) <= _MAX_TEXT else shown[:_MAX_TEXT] + "…"
        return f"{text}  ({self.problem})" if self.problem else text


class Decoder:
    """Decodes values by the settings of their cluster."""

    def __init__(self, settings: RecordSettings | None = None) -> None:
        self._settings = settings or RecordSettings()
        self._hide = Hide(self._settings.hidden_fields)
        self._folder = Path(self._settings.schemas).expanduser() if self._settings.schemas else None
        self._schemas = Schemas(self._folder, self._settings.schema_registry, self._settings.registry_headers)
        self._made: dict[Any, Callable[[bytes], tuple[str | None, Any]]] = {}

    def decode(self, topic: str, value: bytes | None) -> Decoded:
        """Decode a value; the topic selects a format of the settings."""
        if value is None:
            return Decoded("null", None)
        if len(value) > _MAX_BYTES:
            return self._raw(value, f"{len(value):,} bytes")
        problem: str | None = None
        try:
            found = self._by_setting(topic, value) or self._framed(value) or self._json(value)
            if found is not None:
                return found
        except SchemaProblemError as error:
            problem = str(error)
        except Exception as error:  # decoders raise anything on a broken value
            problem = f"{type(error).__name__}: {str(error)[:200]}"
        return self._raw(value, problem)

    def type_of(self, topic: str, value: bytes | None) -> str:
        """Name for `--by type`: that of the schema, else a field `type` or `event_type` of JSON, else the kind."""
        found = self.decode(topic, value)
        if found.type is None and isinstance(found.value, dict):
            for name in ("event_type", "eventType", "type", "@type"):
                if isinstance(found.value.get(name), str):
                    return str(found.value[name])[:200]
        return found.type or found.kind

    def _by_setting(self, topic: str, value: bytes) -> Decoded | None:
        chosen = next((text for it, text in self._settings.formats.items() if fnmatchcase(topic, it)), None)
        if chosen is None:
            return None
        kind, _, rest = chosen.partition(":")
        if kind in ("text", "hex"):
            return self._text(value) if kind == "text" else self._hex(value, None)
        if kind == "json":
            return self._parsed(value)
        if self._folder is None:
            raise SchemaProblemError("the settings have no folder of schemas")
        file, _, message = rest.partition(":")
        if chosen not in self._made:
            schema = read_schema(self._folder / file, kind.upper())
            self._made[chosen] = _avro(schema) if kind == "avro" else _protobuf(schema, message)
        name, found = self._made[chosen](value)
        return Decoded(kind, self._hide.apply(found), name)

    def _framed(self, value: bytes) -> Decoded | None:
        if len(value) <= _HEAD or value[0] != 0 or not self._schemas.is_configured:
            return None
        number = int.from_bytes(value[1:_HEAD], "big")
        schema = self._schemas.by_id(number)
        if schema.kind == "JSON":
            title = schema.content.get("title") if isinstance(schema.content, dict) else None
            parsed = self._parsed(value[_HEAD:])
            return Decoded("json_schema", parsed.value, title if isinstance(title, str) else None)
        if number not in self._made:
            self._made[number] = _avro(schema) if schema.kind == "AVRO" else _protobuf(schema, None)
        name, found = self._made[number](value[_HEAD:])
        return Decoded(schema.kind.lower(), self._hide.apply(found), name)

    def _parsed(self, value: bytes) -> Decoded:
        return Decoded("json", self._hide.apply(json.loads(value, parse_constant=str, parse_int=_number)))

    def _json(self, value: bytes) -> Decoded | None:
        if value.lstrip()[:1] not in (b"{", b"["):
            return None
        if value.count(b"{") + value.count(b"[") > 10_000:  # its parser is recursive
            return None
        try:
            return self._parsed(value)
        except (ValueError, RecursionError):
            return None

    def _raw(self, value: bytes, problem: str | None) -> Decoded:
        if self._hide.is_configured:
            # What has no fields may hold a hidden one.
            return Decoded("hex", f"{len(value):,} bytes", problem=problem or "not shown, because hidden_fields is set")
        text = self._text(value) if problem is None or value[:1] != b"\0" else None
        return text if text is not None and problem is None else self._hex(value, problem)

    def _text(self, value: bytes) -> Decoded | None:
        try:
            text = value.decode()
        except UnicodeDecodeError:
            return None
        controls = sum(ord(char) < 32 and char not in "\r\n\t" for char in text[:_MAX_TEXT])
        return Decoded("text", text[:_MAX_TEXT]) if controls == 0 else None

    def _hex(self, value: bytes, problem: str | None) -> Decoded:
        more = "…" if len(value) > _SHOWN_BYTES else ""
        return Decoded("hex", value[:_SHOWN_BYTES].hex(" ") + more, problem=problem)


def _number(text: str) -> int | str:
    return int(text) if len(text) < 400 else text[:400]


def _avro(schema: Schema) -> Callable[[bytes], tuple[str | None, Any]]:
    try:
        import fastavro
    except ImportError:
        raise SchemaProblemError(f"Avro needs: {how_to_install('schemas')}") from None
    named: dict[str, Any] = {}
    documents = schema.content if isinstance(schema.content, list) and schema.content else [schema.content]
    for document in documents[:-1]:
        fastavro.parse_schema(document, named_schemas=named)
    parsed = fastavro.parse_schema(documents[-1], named_schemas=named)
    name = documents[-1].get("name") if isinstance(documents[-1], dict) else None
    most_values = values_bound(parsed, named)

    def read(value: bytes) -> tuple[str | None, Any]:
        if most_values(len(value)) > _MOST_VALUES:  # a few bytes may stand for millions of items without a size
            raise ValueError("its schema allows too many values for its size")
        data = io.BytesIO(value)
        found = fastavro.schemaless_reader(data, parsed, None)
        if data.tell() != len(value):
            raise ValueError(f"{len(value) - data.tell()} bytes are left after the record")
        return name, found

    return read


def _protobuf(schema: Schema, message: str | None) -> Callable[[bytes], tuple[str | None, Any]]:
    """Reader of one message type; without a name, the value says by its indexes which one it is (Confluent's wire format)."""
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
    except ImportError:
        raise SchemaProblemError(f"Protobuf needs: {how_to_install('schemas')}") from None
    files = descriptor_pb2.FileDescriptorSet.FromString(schema.content)
    pool = descriptor_pool.DescriptorPool()
    known = {
        "google/protobuf/" + name
        for name in ("any", "duration", "empty", "struct", "timestamp", "wrappers", "descriptor")
    }
    given = {file.name for file in files.file}
    for file in files.file:
        for needed in file.dependency:
            if needed not in given and needed.removesuffix(".proto") in known:
                _add_well_known(pool, needed)
        pool.Add(file)
    last = pool.FindFileByName(files.file[-1].name)

    def read(value: bytes) -> tuple[str | None, Any]:
        if message is not None:
            found = pool.FindMessageTypeByName(message)
        else:
            indexes, value = _indexes(value)
            found = list(last.message_types_by_name.values())[indexes[0]]
            for index in indexes[1:]:
                found = found.nested_types[index]
        parsed = message_factory.GetMessageClass(found)()
        parsed.ParseFromString(value)
        return found.full_name, json_format.MessageToDict(
            parsed, preserving_proto_field_name=True, descriptor_pool=pool
        )

    return read


def _add_well_known(pool: Any, name: str) -> None:
    import importlib

    from google.protobuf import descriptor_pb2

    module = importlib.import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
    file = descriptor_pb2.FileDescriptorProto()
    module.DESCRIPTOR.CopyToProto(file)
    pool.Add(file)


def _indexes(value: bytes) -> tuple[list[int], bytes]:
    """Indexes of the message in its file, as zigzag varints; a single 0 stands for the first message."""
    count, at = _zigzag(value, 0)
    if count == 0:
        return [0], value[at:]
    if not 0 < count < 100:
        raise ValueError("the message's indexes are broken")
    found = []
    for _ in range(count):
        index, at = _zigzag(value, at)
        if not 0 <= index < 10_000:
            raise ValueError("the message's indexes are broken")
        found.append(index)
    return found, value[at:]


def _zigzag(value: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while at < len(value) and shift < 35:
        byte = value[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
    raise ValueError("the message's indexes are broken")

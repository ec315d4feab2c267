"""Schemas by id: from a folder, or from a Confluent schema registry, each asked for once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workbench.errors import WorkbenchError
from workbench.limited_reads import read_within

_MOST_BYTES = 4 << 20
_TIMEOUT_SECONDS = 10.0
_MOST_REFERENCES = 100


class SchemaProblemError(Exception):
    """A schema that is missing or not usable; its text is for the person who looks at the record."""


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema.

    Attributes:
        kind: AVRO, PROTOBUF or JSON.
        content: of Avro and JSON Schema the document; of Protobuf a serialized FileDescriptorSet.
    """

    kind: str
    content: Any


class Schemas:
    """Looks schemas up, and keeps them, including the failures."""

    def __init__(
        self, folder: Path | None = None, registry: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        self._folder, self._registry, self._headers = folder, registry, dict(headers or {})
        self._found: dict[int, Schema | str] = {}

    @property
    def is_configured(self) -> bool:
        """Whether there is a place to look."""
        return self._folder is not None or self._registry is not None

    def by_id(self, number: int) -> Schema:
        """Schema of an id.

        Raises:
            SchemaProblemError: if it is not found or cannot be used.
        """
        if number not in self._found:
            try:
                self._found[number] = self._look(number)
            except SchemaProblemError as error:
                self._found[number] = str(error)
            except (WorkbenchError, OSError, ValueError) as error:
                self._found[number] = f"schema {number}: {error}"
        found = self._found[number]
        if isinstance(found, str):
            raise SchemaProblemError(found)
        return found

    def _look(self, number: int) -> Schema:
        if self._folder is not None:
            for ending, kind in ((".avsc", "AVRO"), (".desc", "PROTOBUF"), (".json", "JSON")):
                path = self._folder / f"{number}{ending}"
                if path.is_file():
                    return read_schema(path, kind)
        if self._registry is None:
            raise SchemaProblemError(f"schema {number} is not in the folder of schemas")
        return self._ask(number)

    def _ask(self, number: int) -> Schema:
        found = self._get(f"/schemas/ids/{number}")
        kind = found.get("schemaType", "AVRO")
        if kind == "PROTOBUF":
            return Schema(
                kind, self._descriptors(self._get(f"/schemas/ids/{number}?format=serialized"), f"schema-{number}")
            )
        if found.get("references"):
            return Schema(kind, self._with_references(found))
        return Schema(kind, json.loads(found["schema"]))

    def _with_references(self, found: dict[str, Any]) -> list[Any]:
        """The named schemas that it refers to, and itself last."""
        documents: list[Any] = []

        def add(one: dict[str, Any]) -> None:
            for it in one.get("references") or []:
                if len(documents) > _MOST_REFERENCES:
                    raise SchemaProblemError("the schema has too many references")
                add(self._subject(it))
            documents.append(json.loads(one["schema"]))

        add(found)
        return documents

    def _descriptors(self, found: dict[str, Any], name: str) -> bytes:
        import base64

        from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

        files = FileDescriptorSet()

        def add(one: dict[str, Any], called: str) -> None:
            for it in one.get("references") or []:
                if len(files.file) > _MOST_REFERENCES:
                    raise SchemaProblemError("the schema has too many references")
                add(self._subject(it, "?format=serialized"), it["name"])
            file = FileDescriptorProto.FromString(base64.b64decode(one["schema"], validate=True))
            file.name = called
            files.file.append(file)

        add(found, name)
        return bytes(files.SerializeToString())

    def _subject(self, reference: dict[str, Any], query: str = "") -> dict[str, Any]:
        from urllib.parse import quote

        return self._get(
            f"/subjects/{quote(str(reference['subject']), safe='')}/versions/{int(reference['version'])}{query}"
        )

    def _get(self, path: str) -> dict[str, Any]:
        import requests

        from workbench.http_client import WebSession, cause

        try:
            with WebSession(deadline_seconds=_TIMEOUT_SECONDS, max_bytes=_MOST_BYTES, headers=self._headers) as session:
                answer = session.get(f"{self._registry}{path}")
        except requests.RequestException as error:
            raise SchemaProblemError(f"the schema registry does not answer: {cause(error)}") from None
        if answer.status_code != 200:
            raise SchemaProblemError(f"the schema registry answers with {answer.status_code}")
        found = answer.json()
        if not isinstance(found, dict) or not isinstance(found.get("schema"), str):
            raise SchemaProblemError("the schema registry answers with something else than a schema")
        return found


def read_schema(path: Path, kind: str) -> Schema:
    """Read a schema file.

    Raises:
        SchemaProblemError: if it cannot be read.
    """
    try:
        content = read_within(path, _MOST_BYTES)
        return Schema(kind, content if kind == "PROTOBUF" else json.loads(content))
    except (OSError, ValueError, RecursionError) as error:
        raise SchemaProblemError(f"the schema {path.name} cannot be read: {type(error).__name__}") from None

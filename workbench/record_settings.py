"""Settings of a cluster's records: how they are decoded and what of them is never shown, and which topics hold dead letters."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Literal

from pydantic import Field, field_validator

from workbench.limited_reads import is_web_address
from workbench.settings_base import Strict

# Endings and words that frameworks and people use: .DLT, -dlt, -dlq, _dead_letter, orders-dead, orders-retry of Decaton, ….
CONVENTION = re.compile(r"(?i)^%dlq%|(^|[._-])(dlt|dlq|dead|dead[._-]?letters?|deadletterqueue)([._-].*)?$")
_RETRY = "-RETRY"  # of Pulsar's clients, behind topic and subscription
FORMATS = ("json", "text", "hex", "avro", "protobuf")


class RecordSettings(Strict):
    """How records are decoded, and what is never shown."""

    schema_registry: str | None = Field(default=None, repr=False, description="URL of a Confluent schema registry.")
    registry_headers: dict[str, str] = Field(
        default={}, repr=False, description="HTTP headers for it; ${NAME} takes a value from the environment."
    )
    schemas: str | None = Field(
        default=None,
        description="Folder of schemas: 12.avsc, 12.desc (of protoc -o) or 12.json for the id 12; or any name, used by `formats`.",
    )
    formats: dict[str, str] = Field(
        default={},
        description='Topic pattern to json, text, hex, "avro:order.avsc" or "protobuf:order.desc:acme.Order", without ids.',
    )
    hidden_fields: list[str] = Field(
        default=[],
        description="Names or dotted paths of fields that are never shown, such as card_number or customer.email; `*` fits anything.",
    )
    in_findings: bool = Field(
        default=False,
        description="Show key and value of the record at which a partition is stuck, decoded, in findings and their reports.",
    )

    @field_validator("schema_registry")
    @classmethod
    def _url(cls, value: str | None) -> str | None:
        if value is not None and not is_web_address(value):
            raise ValueError("this is not an http or https URL")
        return value.rstrip("/") if value is not None else None

    @field_validator("formats")
    @classmethod
    def _known(cls, value: dict[str, str]) -> dict[str, str]:
        for text in value.values():
            kind, _, rest = text.partition(":")
            if kind not in FORMATS or (kind in ("avro", "protobuf")) != bool(rest):
                raise ValueError(f"{text!r} is not json, text, hex, avro:FILE or protobuf:FILE:MESSAGE")
            if kind == "protobuf" and rest.count(":") != 1:
                raise ValueError(f"{text!r} is not protobuf:FILE:MESSAGE")
        return value


class DeadLetterSettings(Strict):
    """Which topics hold dead letters, and how unknown headers are read."""

    topics: list[str] = Field(
        default=[],
        description="Names or patterns of dead-letter topics. Empty: by convention (.dlt, -dlq, _dead_letters and so on).",
    )
    headers: dict[Literal["topic", "partition", "offset", "timestamp", "error", "message"], str] = Field(
        default={},
        description="Names of the headers with the source topic and so on, for a framework that Workbench does not know.",
    )


def _is_of_binder(name: str, known: set[str]) -> bool:
    if not name.startswith("error."):
        return False
    parts = name.split(".")[1:]
    return any(".".join(parts[:at]) in known for at in range(1, len(parts)))


def is_of_retries(name: str) -> bool:
    """Whether a topic is one of Pulsar's retries: its consumers read it themselves, once the delay of a message is over."""
    return "/" in name and name.endswith(_RETRY)


def names_of_letters(names: Sequence[str], patterns: Sequence[str]) -> list[str]:
    """Topics that hold dead letters: by the patterns of the settings, or else by convention.

    Spring Cloud Stream's default, `error.<destination>.<group>`, is one only beside a topic `<destination>`.
    """
    known = set(names)
    return [
        name
        for name in sorted(names)
        if not name.startswith("__")
        and (
            any(fnmatchcase(name, it) for it in patterns)
            if patterns
            else CONVENTION.search(name) or is_of_retries(name) or _is_of_binder(name, known)
        )
    ]

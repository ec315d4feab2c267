"""The file of `workbench pulsar split-plan`: a bundle, and the load of each of its topics."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field, ValidationError

from workbench.errors import UsageError
from workbench.limited_reads import first_problem
from workbench.plans.strict_document import StrictDocument, read_document
from workbench.pulsar.bundle_split import FULL, Bundle, TopicLoad, hash_of

_NUMBER = re.compile(r"0x[0-9a-f]{1,8}|\d{1,10}", re.IGNORECASE)


def parse_hash(text: str) -> int:
    """Read `0x25000000` or `620756992`.

    Raises:
        UsageError: if it is no hash of 32 bits.
    """
    found = int(text, 0 if text[:2].lower() == "0x" else 10) if _NUMBER.fullmatch(text) else -1
    if not 0 <= found <= FULL:
        raise UsageError(f"{text!r} is not a hash.", hint="A hash looks like 0x25000000.")
    return found


def _hash(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return parse_hash(value)
    except UsageError as error:
        raise ValueError(error.message) from None


class _Topic(StrictDocument):
    topic: str
    hash: Annotated[int, BeforeValidator(_hash), Field(ge=0, le=FULL)] | None = None
    load: float | None = None


class _SplitFile(StrictDocument):
    bundle: str
    topics: list[_Topic]


def read_split_file(path: Path) -> tuple[Bundle, list[TopicLoad]]:
    """Read a bundle and its topics; a topic without a `hash` gets that of its full name, and one without a `load` is not known.

    Raises:
        UsageError: if it cannot be read, or is no such file.
    """
    try:
        found = _SplitFile.model_validate(read_document(path, "bundle file"))
    except ValidationError as error:
        raise UsageError(
            f"The bundle file {path} cannot be used: {first_problem(error)}.",
            hint='It looks like: {"bundle": "0x00000000_0x40000000", "topics": [{"topic": "persistent://t/n/a", "load": 120}]}',
        ) from None
    topics = [
        TopicLoad(topic=it.topic, position=hash_of(it.topic) if it.hash is None else it.hash, load=it.load)
        for it in found.topics
    ]
    return Bundle.parse(found.bundle), topics

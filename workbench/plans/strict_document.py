"""Plan files and receipts: strict JSON with a hash, read with a limit, written atomically. A changed one is refused with a reason."""

from __future__ import annotations

import getpass
import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from workbench.errors import GuardError, UsageError
from workbench.files import atomic_write
from workbench.limited_reads import first_problem, read_within

SHORT_HASH = 8


_MOST_BYTES = 64 << 20  # enough for 200,000 partitions


Offset = Annotated[int, Field(ge=0)]


M = TypeVar("M", bound=BaseModel)


class StrictDocument(BaseModel):
    """Base of the file's parts: no unknown fields, no implicit conversion, immutable."""

    model_config = ConfigDict(hide_input_in_errors=True, extra="forbid", frozen=True, strict=True)

    def document(self) -> dict[str, Any]:
        """Plain values in the order of the fields."""
        return self.model_dump(mode="json", by_alias=True)


def is_hash(full: str, typed: str) -> bool:
    """Whether the text is the hash, or at least its first eight characters."""
    typed = typed.strip().lower()
    return len(typed) >= SHORT_HASH and full.startswith(typed)


def current_user() -> str:
    """Name of the current user."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"


def canonical_hash(document: dict[str, Any]) -> str:
    """SHA-256 of the document without its hash; keys sorted, no spaces, so whitespace and key order do not matter."""
    bare = {name: value for name, value in document.items() if name != "hash"}
    text = json.dumps(bare, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def read_document(path: Path, what: str, *, most_bytes: int = _MOST_BYTES) -> Any:
    """Read JSON from a file; duplicate keys are an error.

    Raises:
        UsageError: if it cannot be read or is not JSON.
    """

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError(
                f"the key {next(key for key, n in Counter(k for k, _ in pairs).items() if n > 1)!r} occurs twice"
            )
        return found

    def number(text: str) -> None:
        raise ValueError(f"{text} is not a number")

    try:
        return json.loads(read_within(path, most_bytes).decode(), object_pairs_hook=once, parse_constant=number)
    except OSError as error:
        raise UsageError(f"The {what} {path} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        reason = str(error) or type(error).__name__
        raise UsageError(f"The {what} {path} is not JSON: {reason}.", hint=f"Make a new {what}.") from None


def is_of(path: Path, schema: str) -> bool:
    """Whether a file is JSON whose schema begins so. Who reads it next says what is wrong with others; a pipe is read only once."""
    try:
        content = read_within(path, _MOST_BYTES) if path.is_file() else b""
        document = json.loads(content) if f'"{schema}'.encode() in content else None
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(document, dict) and str(document.get("schema", "")).startswith(schema)


def validated(model: type[M], document: Any, path: Path, what: str) -> M:
    """Validate the document as a model.

    Raises:
        GuardError: naming the first field that is wrong.
    """
    try:
        return model.model_validate_json(json.dumps(document))
    except ValidationError as error:
        raise GuardError(
            f"The {what} {path} is not valid: {first_problem(error, whole='the file')}.", hint=f"Make a new {what}."
        ) from None


def sealed_by(model: type[M], document: Any, path: Path) -> M:
    """Validate a plan, and that it is as it was written.

    Raises:
        GuardError: naming the first field that is wrong, or if the plan was changed.
    """
    plan = validated(model, document, path, "plan")
    said, expected = document.get("hash") or "", canonical_hash(document)
    if said != expected:
        raise GuardError(
            f"{path} was changed after it was written: its hash is {said[:SHORT_HASH] or 'missing'}, "
            f"its content's {expected[:SHORT_HASH]}.",
            hint="Make a new plan; plans are not edited by hand.",
        )
    return plan


def _legible(document: dict[str, Any]) -> str:
    """Format JSON with one line per field and list item, for people and diffs, at the speed of the C encoder."""

    def text(value: Any) -> str:
        return json.dumps(value, allow_nan=False)

    fields = []
    for name, value in document.items():
        if isinstance(value, list) and len(value) > 1:
            fields.append(f" {text(name)}: [\n" + ",\n".join("  " + text(item) for item in value) + "\n ]")
        else:
            fields.append(f" {text(name)}: {text(value)}")
    return "{\n" + ",\n".join(fields) + "\n}\n"


def write_file(path: Path, document: dict[str, Any]) -> None:
    """Write JSON atomically, and sync it to disk before this returns.

    Raises:
        UsageError: if the file cannot be written.
    """
    try:
        with atomic_write(path, durable=True) as temporary:
            temporary.write_text(_legible(document), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}.", hint="Choose another path.") from None

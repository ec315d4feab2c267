"""A broker's settings: from the admin, or from files: `broker.conf`, `bookkeeper.conf`, or JSON as the admin prints it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from workbench.errors import SourceUnreachableError, UsageError
from workbench.limited_reads import read_within
from workbench.pulsar.admin import PulsarAdmin
from workbench.pulsar.risky_settings import is_version

_MOST_BYTES = 4 << 20  # Pulsar's own broker.conf has 100 kB
_PAIR = re.compile(r"\s*([^\s=:]+)\s*[=:]?\s*(.*)", re.DOTALL)


def read_configs(paths: Sequence[Path]) -> dict[str, str]:
    """Settings of all files; a later file counts before an earlier one, as dynamic settings do before `broker.conf`.

    A setting without a value is left out, as brokers take it for not set.

    Raises:
        UsageError: if a file cannot be read. Its lines are not quoted: they may hold passwords.
    """
    found: dict[str, str] = {}
    for path in paths:
        try:
            text = read_within(path, _MOST_BYTES).decode()
        except OSError as error:
            raise UsageError(f"The file {path} cannot be read: {error.strerror}.") from None
        except ValueError:
            raise UsageError(f"The file {path} is not text in UTF-8.") from None
        found |= _of_json(text, path) if text.lstrip().startswith("{") else _of_properties(text)
    return {name: value for name, value in found.items() if value}


def running_config(admin: PulsarAdmin) -> tuple[dict[str, str], str | None]:
    """Settings and version of the broker that answers, as it runs; a version that is none is not known.

    Raises:
        SourceUnreachableError: if it does not tell them.
    """
    path = "brokers/configuration/runtime"
    document = admin.get(path)
    if not isinstance(document, dict):
        raise SourceUnreachableError(f"The admin answers to {path} with something that is no list of settings.")
    version = admin.get_text("brokers/version").strip('"')
    return {name: value for name, value in plain_settings(document).items() if value}, version if is_version(
        version
    ) else None


def _of_json(text: str, path: Path) -> dict[str, str]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise UsageError(
            f"The file {path} begins like JSON and is none.",
            hint="As pulsar-admin brokers get-runtime-config and get-all-dynamic-config print it: one object of names and values.",
        ) from None
    return plain_settings(document)


def plain_settings(document: dict[str, object]) -> dict[str, str]:
    """Names and values of a JSON object; what is neither text, number nor boolean is left out."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value).strip()
        for name, value in document.items()
        if isinstance(value, str | int | float)
    }


def _of_properties(text: str) -> dict[str, str]:
    found, begun = {}, ""
    for line in text.splitlines():
        whole = begun + line.lstrip()
        if not begun and whole[:1] in ("", "#", "!"):
            continue
        if whole.endswith("\\") and not whole.endswith("\\\\"):
            begun = whole[:-1]
            continue
        begun = ""
        if pair := _PAIR.fullmatch(whole):
            found[pair[1]] = pair[2].strip()
    return found

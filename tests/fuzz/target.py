"""What a target of the fuzzer is, and what targets share."""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import requests
import urllib3

SECRET = "s3cr3t-Zq7"  # in every seed that may hold a password or a token: no error may repeat it
CAPTURES = Path(__file__).parent.parent.parent / "notebooks" / "captures"

BASE_BYTES = 16 << 20  # a broker's small answer may have a hundred thousand items
Case = Any  # bytes, a text, or a folder as {name: bytes}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One parser.

    Attributes:
        make: a new input; the same for the same random numbers.
        call: gives it to the parser as a user's action would, in a folder. Whatever it raises but a `WorkbenchError` is a defect.
        share: its part of all inputs.
        most_per_byte: bytes that a call may have built at once for each byte of its input, besides `BASE_BYTES`.
        most_bytes: the same, whatever the input is: of a parser that has a limit of its own. Both 0: not measured.
    """

    name: str
    make: Callable[[Random], Case]
    call: Callable[[Case, Path], object]
    share: int = 4
    most_per_byte: int = 0
    most_bytes: int = 0


def changed(mutate: Callable[..., bytes], *seeds: bytes) -> Callable[[Random], bytes]:
    """One of the seeds, changed."""
    return lambda random: mutate(random, random.choice(seeds), seeds)


def from_file(read: Callable[[Path], object], name: str) -> Callable[[bytes, Path], object]:
    """A call that reads a file."""

    def call(data: bytes, folder: Path) -> object:
        path = folder / name
        path.write_bytes(data)
        return read(path)

    return call


class Web:
    """A server in this process: what it answers to requests, whatever asks."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, str, bytes]] = {}
        requests.adapters.HTTPAdapter.send = self._send  # type: ignore[method-assign,assignment]

    def _send(self, request: requests.PreparedRequest, **_options: Any) -> requests.Response:
        path = request.path_url.partition("?")[0]
        status, kind, body = self.answers.get(path) or self.answers[""]
        raw = urllib3.HTTPResponse(
            io.BytesIO(body), headers={"Content-Type": kind}, status=status, preload_content=False, decode_content=False
        )
        response = requests.Response()
        response.status_code, response.raw, response.request, response.url = status, raw, request, request.url or ""
        response.headers.update({"Content-Type": kind})
        return response


def folder_of(path: Path) -> dict[str, bytes]:
    """The files of a folder."""
    return {item.name: item.read_bytes() for item in sorted(path.iterdir()) if item.is_file()}


def written(folder: Path, case: Mapping[str, bytes]) -> Path:
    """A case that is a folder, on the disk."""
    target = folder / "incident"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    for name, data in case.items():
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return target

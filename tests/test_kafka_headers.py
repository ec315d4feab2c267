"""Headers of one message, for all readers: a bad one costs its own record only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import workbench
from workbench.kafka.redrive.letter_reader import _letter
from workbench.read_kafka_headers import UNREADABLE, headers_of


class Message:
    """A message whose headers are these, or raise."""

    def __init__(self, found: Any) -> None:
        self.found, self.asked = found, 0

    def headers(self) -> Any:
        """As the client's."""
        self.asked += 1
        if isinstance(self.found, Exception):
            raise self.found
        return self.found

    def __getattr__(self, name: str) -> Any:
        return lambda: {"key": b"k", "value": b"v", "timestamp": (1, 5)}[name]


@pytest.mark.parametrize("error", [SystemError("x"), UnicodeDecodeError("utf-8", b"\xff", 0, 1, "x"), ValueError("x")])
def test_unreadable_headers_are_told_and_asked_for_once(error: Exception) -> None:
    """Whatever the client's release raises."""
    message = Message(error)
    assert headers_of(message) is UNREADABLE
    assert _letter(Message(error), 0, 7).headers is UNREADABLE
    assert message.asked == 1
    assert headers_of(Message(None)) is None
    assert headers_of(Message([("a", b"1")])) == [("a", b"1")]


def test_nobody_else_asks_a_message_for_its_headers() -> None:
    """A reader of its own would end at the first name that is not UTF-8."""
    folder = Path(workbench.__file__).parent
    asking = [path.name for path in folder.rglob("*.py") if ".headers()" in path.read_text()]
    assert asking == ["read_kafka_headers.py"]

"""Messages that an audit reads are all of a range, or it says that some are gone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from workbench.errors import EvidenceError, SourceUnreachableError
from workbench.pulsar.redrive import messages_as_frame
from workbench.redrive.letter_headers import Letter

PART = ("t/n/orders", 0)


class TrimmedLog:
    """A topic with the messages 10 to 19, of which the first ones go after so many were read."""

    def __init__(self, *, trims_after: int, trims_to: int) -> None:
        self.start, self._after, self._to = 10, trims_after, trims_to
        self.errors: dict[tuple[str, int], str] = {}

    def logs(self, parts: list[tuple[str, int]]) -> Any:
        """See `PulsarLetterGateway`."""
        return SimpleNamespace(
            errors=self.errors, starts=dict.fromkeys(parts, self.start), ends=dict.fromkeys(parts, 20)
        )

    def place(self, *_: object) -> None:
        """Nobody asks."""

    def read(
        self, start: Mapping[int, int], stop: Mapping[int, int]
    ) -> Iterator[tuple[list[Letter], Mapping[int, int]]]:
        """See `PulsarLetters`: what is gone is left out without a word."""
        for at in range(start[0], stop[0]):
            if self._after == 0:
                self.start = self._to
            self._after -= 1
            if at >= self.start:
                yield [Letter(0, at, 1, None, b"x", ())], {}

    def messages(self, monkeypatch: pytest.MonkeyPatch, *spans: tuple[int, int]) -> list[int]:
        """Offsets of what is read of some ranges."""
        monkeypatch.setattr(messages_as_frame, "PulsarLetters", lambda *_, **__: self)
        read: Any = messages_as_frame._read
        return [it.offset for _, letters in read(self, None, {PART: spans}, 1.0) for it in letters]


def test_all_of_the_ranges_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where what lies before them goes meanwhile."""
    log = TrimmedLog(trims_after=1, trims_to=12)
    assert log.messages(monkeypatch, (12, 14), (17, 30)) == [12, 13, 17, 18, 19]


@pytest.mark.parametrize("after", [-1, 0, 1, 4])
def test_what_goes_before_or_while_it_is_read_is_said(after: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader holds nothing back, and goes on with what is left: the rest would pass for lost, or for all."""
    log = TrimmedLog(trims_after=after, trims_to=13)
    if after < 0:
        log.start = 13
    with pytest.raises(EvidenceError, match="can no longer be read: they are deleted"):
        log.messages(monkeypatch, (12, 18))


def test_a_log_that_does_not_answer_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has not no messages."""
    log = TrimmedLog(trims_after=-1, trims_to=0)
    log.errors = {PART: "status 503"}
    with pytest.raises(SourceUnreachableError, match="status 503"):
        log.messages(monkeypatch, (12, 18))

"""The record at which a partition is stuck stands in its finding: decoded, masked, inert, and without payload unless asked for."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import pytest

from evaluation.stories import WINDOW
from tests.test_safe_output import HOSTILE, STEERS
from tests.triage.findings import finding
from workbench.api.stuck_record import with_records
from workbench.errors import SourceUnreachableError
from workbench.redrive.letter_headers import Letter
from workbench.redrive.redrive_ports import LettersGoneError, Positions
from workbench.report.finding_fragment import fragment
from workbench.report.terminal import detail
from workbench.samples import SAMPLES_SCHEMA
from workbench.settings import Cluster
from workbench.terminal_tables import SafeConsole
from workbench.triage.finding import Finding, Scope
from workbench.triage.verdict_names import Verdict

EVIL = "<img src=x onerror=alert(1)>" + HOSTILE
VALUE = json.dumps({"type": EVIL, "name": EVIL, "card_number": "4111111111111111"}).encode()


class Topic:
    """One record at offset 41 of partition 3; or an error."""

    def __init__(self, value: bytes | None = VALUE, error: Exception | None = None) -> None:
        self.value, self.error, self.asked = value, error, list[Positions]()

    def read(self, start: Positions, stop: Positions) -> Iterator[tuple[list[Letter], Positions]]:
        """See `LetterReader`."""
        self.asked.append(start)
        if self.error is not None:
            raise self.error
        assert stop == {3: 42}
        yield [Letter(3, 41, 1_700_000_000_000, EVIL.encode(), self.value, [("event_type", EVIL.encode())])], {3: 42}


def test_a_record_that_no_reader_can_take_costs_no_finding() -> None:
    """Whatever the client raises for it, the finding stands without its record."""
    [found] = with_records([stuck()], Cluster(name="c"), reader=lambda _topic: Topic(error=SystemError("bad header")))
    assert found.record is None


def stuck(cause: str | None = "poison_record", offset: int | None = 41) -> Finding:
    """A finding of a stuck partition."""
    return finding(verdict=Verdict.STUCK_PARTITION, scope=Scope(partitions=(3,), offset=offset, cause=cause))


def cluster_of(**records: Any) -> Cluster:
    """Settings."""
    return Cluster.model_validate({"name": "c", "bootstrap": "b:9092", "records": records})


def shown(it: Finding) -> tuple[str, str, str]:
    """On a terminal, as HTML, and as JSON."""
    console = SafeConsole(width=100, record=True, file=io.StringIO())
    console.print(detail(it, SAMPLES_SCHEMA.empty_table(), WINDOW))
    return console.export_text(), fragment(it), json.dumps(it.to_json(), default=str)


def test_without_the_setting_type_size_and_time_are_shown_and_no_payload() -> None:
    """Findings go to chats and tickets."""
    plain = Topic(b'{"type": "order", "name": "alice"}')
    (it,) = with_records([stuck()], cluster_of(), reader=lambda _topic: plain)
    assert plain.asked == [{3: 41}]
    assert it.record is not None and (it.record.key, it.record.value) == (None, None)
    for text in shown(it):
        assert "3:41" in text or '"offset": 41' in text
        assert "alice" not in text


def test_with_the_setting_it_is_decoded_masked_and_inert() -> None:
    """Hidden fields are replaced; no tag, no escape sequence and no new line of the record is left anywhere."""
    settings = cluster_of(in_findings=True, hidden_fields=["card_number"])
    (it,) = with_records([stuck()], settings, reader=lambda _topic: Topic())
    terminal, html, document = shown(it)
    for text in (terminal, html, document):
        assert "4111" not in text
        assert not STEERS.search(text)
    assert "card_number" in terminal
    assert "<img" not in html and "&lt;img" in html
    assert "skull" in document  # as text
    assert not any(line.startswith("forged") for line in terminal.splitlines())


def test_a_broken_value_is_shown_with_its_problem() -> None:
    """It never raises; without fields that could be hidden, it is shown as hex."""
    broken = Topic(b"\xff\xfe\x00")
    (it,) = with_records([stuck()], cluster_of(in_findings=True), reader=lambda _topic: broken)
    assert it.record is not None and "ff fe 00" in (it.record.value or "")
    (it,) = with_records([stuck()], cluster_of(in_findings=True, hidden_fields=["x"]), reader=lambda _topic: broken)
    assert it.record is not None and "ff" not in (it.record.value or "").split("(")[0]


@pytest.mark.parametrize("error", [SourceUnreachableError("no"), LettersGoneError("gone")])
def test_a_record_that_cannot_be_read_leaves_the_finding_as_it_is(error: Exception) -> None:
    """Its action says how to look; the JSON has no such field then."""
    (it,) = with_records([stuck()], cluster_of(), reader=lambda _topic: Topic(error=error))
    assert it == stuck()
    assert "record" not in it.to_json()


def test_only_a_finding_that_a_record_explains_is_read() -> None:
    """Not an open transaction, not another verdict, not without an offset, and not more than five."""
    topic = Topic()
    others = [
        stuck("open_transaction"),
        stuck("paused"),
        stuck(offset=None),
        finding(scope=Scope(partitions=(3,), offset=41)),
    ]
    assert with_records(others, cluster_of(), reader=lambda _topic: topic) == tuple(others)
    assert topic.asked == []
    found = with_records([stuck(None)] * 7, cluster_of(), reader=lambda _topic: topic)
    assert [it.record is not None for it in found] == [True] * 5 + [False] * 2

"""Dead letters for programs: the same as the commands, on a cluster in memory; hostile texts are inert wherever they are shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.redrive.fakes import FakeCluster, FakeSink
from tests.redrive.making import SOURCE, TOPIC, gateway_of, letter_of, now_of
from tests.test_safe_output import HOSTILE, STEERS
from workbench import api
from workbench.api import letter_redrives as module
from workbench.cli.dead_letter_output import show_counts_of_letters, show_letters, show_redrive_plan, show_topics
from workbench.errors import GuardError, UsageError
from workbench.redrive.apply import Redrive, RedriveOutcome
from workbench.redrive.letter_headers import Letter
from workbench.redrive.parse_redrive_request import destination_of, selection_of
from workbench.redrive.show_letters import count_letters, newest_letters
from workbench.redrive.verify import RedriveVerdict
from workbench.settings import Cluster

EVIL = "<img src=x onerror=alert(1)>" + HOSTILE


class Kafka:
    """`RedriveCluster` on a cluster in memory; what was produced can be read back from the source topic."""

    promise: str | None = None

    def __init__(self, letters: list[Letter]) -> None:
        self.cluster = FakeCluster(letters)
        self.gateway = gateway_of(letters)

    def letters(self, topic: str) -> FakeCluster:
        """Reader of a topic."""
        if topic == TOPIC:
            return self.cluster
        made = enumerate(self.cluster.records)
        return FakeCluster([Letter(0, at, 1, key, value, headers) for at, (_, _, key, value, headers) in made])

    def limit_of(self, _topic: str) -> int:
        """Room for everything."""
        return 1 << 20

    def readers(self, _topics: Any) -> dict[str, Any]:
        """Nobody."""
        return {}

    def lacking(self, _plan: Any) -> tuple[str, ...]:
        """No permission."""
        return ()

    def handled(self, *_args: Any, **_options: Any) -> tuple[dict[int, Any], dict[int, Any]]:
        """None by other plans."""
        return {}, {}

    def redrive(self, plan: Any, journal: Any, ledger: Any, limits: Any) -> Redrive:
        """A run with a sink in memory."""
        return Redrive(
            plan=plan, letters=self.cluster, make_sink=lambda: FakeSink(self.cluster),
            look=lambda: now_of(plan, self.cluster, ledger), topics=lambda: now_of(plan, self.cluster, ledger).cluster,
            journal=journal, ledger=ledger, limits=limits,
        )  # fmt: skip


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Kafka:
    """Ten letters, one of them hostile, and a journal of this test's own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    some = [letter_of(0, at, b"k%d" % at, (0, at)) for at in range(9)]
    wild = letter_of(0, 9, EVIL.encode(), (0, 9), error=EVIL)
    some.append(wild._replace(value=json.dumps({"name": EVIL, "card_number": "4111111111111111"}).encode()))
    found = Kafka(some)
    settings = Cluster.model_validate(
        {"name": "mine", "bootstrap": "b:9092", "records": {"hidden_fields": ["card_number"]}}
    )
    monkeypatch.setattr(module, "letters_setup", lambda _cluster, _config: (settings, found))
    return found


def test_list_plan_apply_and_verify(kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the commands: nothing is written before the plan's hash is given, and each letter is produced once."""
    (found,) = api.dead_letters(cluster="mine").topics
    assert (found.topic, found.letters, found.sources) == (TOPIC, 10, {SOURCE: 10})
    planned = api.plan_redrive(cluster="mine", topic=TOPIC, errors=["Time*"])
    assert (planned.plan.letters, planned.plan.left) == (9, {"not_selected": 1})
    path = planned.write(tmp_path / "redrive.json")
    with pytest.raises(UsageError, match="exists"):
        planned.write(path)
    options: Any = {"retention_margin_seconds": 0}
    assert api.apply_redrive(path, **options).outcome is RedriveOutcome.DRY_RUN
    with pytest.raises(GuardError, match="not the hash"):
        api.apply_redrive(path, confirm="0" * 8, **options)
    with pytest.raises(GuardError, match="not the hash"):
        api.apply_redrive(path, confirm="", **options)
    assert kafka.cluster.records == []
    told: list[int] = []
    receipt = api.apply_redrive(path, confirm=planned.plan.hash, on_progress=told.append, **options)
    assert (receipt.outcome, receipt.produced, told[-1]) == (RedriveOutcome.DONE, 9, 9)
    assert len(kafka.cluster.records) == 9
    with pytest.raises(GuardError, match="was applied"):
        planned.write(path)
    kafka.gateway = gateway_of(kafka.cluster.letters)
    monkeypatch.setattr(kafka.gateway, "commits", lambda _group: {(TOPIC, 0): 10})
    assert api.verify_redrive(path).verdict in (RedriveVerdict.VERIFIED, RedriveVerdict.INCOMPLETE)


@pytest.mark.parametrize("wrong", [{"offsets": ["3"]}, {"headers": [""]}, {"since": "yesterday"}])
def test_a_wrong_selection_is_named_before_kafka_is_asked(wrong: dict[str, Any]) -> None:
    """Each with the mistake; so is a destination that is two."""
    with pytest.raises(Exception, match=r"offsets|header|yesterday"):
        selection_of(**wrong)
    with pytest.raises(UsageError, match="exclude each other"):
        destination_of(to_topic="a", to_url="http://h/")
    with pytest.raises(UsageError, match="url"):
        destination_of(to_url="ftp://h/")


def test_hostile_letters_are_inert_in_html(kafka: Kafka) -> None:
    """Names of errors come from any producer: no tag of theirs, and nothing that steers, is in a notebook's output."""
    for shown in (
        api.dead_letters(cluster="mine")._repr_html_(),
        api.plan_redrive(cluster="mine", topic=TOPIC)._repr_html_(),
    ):
        assert "&lt;img" in shown
        assert "<img" not in shown
        assert not STEERS.search(shown)


@pytest.mark.parametrize("columns", ["80", "200"])
def test_screens_fit_and_hostile_letters_are_inert_on_a_terminal(
    kafka: Kafka, columns: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Lists, counts, letters with their values, and plans: no control character, no forged line, no hidden field."""
    monkeypatch.setenv("COLUMNS", columns)
    settings = module.letters_setup("mine", None)[0]
    look: dict[str, Any] = {
        "gateway": kafka.gateway, "letters": kafka.cluster, "settings": settings, "topic": TOPIC, "selection": selection_of(),
        "payload": True,
    }  # fmt: skip
    letters = newest_letters(**look, most=20)
    show_topics(api.dead_letters(cluster="mine").topics, "mine")
    show_letters(letters, TOPIC, payload=True)
    show_counts_of_letters(count_letters(**look, kinds=["error", "type", "key", "source", "minute"], most=20))
    show_redrive_plan(api.plan_redrive(cluster="mine", topic=TOPIC).plan, Path("redrive.json"))
    shown = capsys.readouterr().out
    assert not STEERS.search(shown)
    assert "4111" not in shown
    assert not any(line.startswith("forged") for line in shown.splitlines())
    assert "4111" not in json.dumps([it.document() for it in letters])
    tables = shown.split("\n")
    assert any("orders-dlt" in line for line in tables)
    if columns == "80":
        assert max(len(line) for line in tables if line.startswith("  ") and "errors of" in line) <= 80

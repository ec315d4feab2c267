"""Incidents that last: how they end, what joins them later, what is repeated, and what is left of a database after weeks."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.serve.serving import Office, alert, judged
from tests.serve.test_incidents import post
from tests.serve.test_telling import MANAGER, later, says
from workbench.errors import SourceUnreachableError
from workbench.serve.kept_verdict import Judged
from workbench.serve.send_message import NotTakenError
from workbench.serve.sqlite import FileStore


@pytest.fixture
def office(tmp_path: Path) -> Office:
    """A worker without threads."""
    return Office(tmp_path, quiet="PT5M", look_again="PT1M")


def hours_pass(office: Office, hours: float = 2.0) -> None:
    """Open incidents are looked at each ten minutes."""
    for _ in range(round(hours * 6)):
        later(office, 600)


def open_incidents(office: Office) -> int:
    """How many there are."""
    return int(office.store.number("SELECT count(*) FROM incident WHERE closed IS NULL"))


def test_an_incident_of_hours_recovers_when_its_alert_ends(office: Office) -> None:
    """It is looked at once more, and is not closed as one that nobody knows the end of."""
    says(office)
    post(office, alert())
    office.worker.judge_alerts()
    hours_pass(office)
    says(office, verdict="healthy")
    post(office, alert(status="resolved"))
    assert later(office, 1) == ["new", "recovered"]


def test_an_incident_that_lags_on_is_followed_for_an_hour_after_its_alert(office: Office) -> None:
    """However long it lasted before: the hour begins with the end of the last alert."""
    says(office)
    post(office, alert())
    office.worker.judge_alerts()
    hours_pass(office)
    post(office, alert(status="resolved"))
    assert later(office, 1) == ["new"]
    assert later(office, 3000) == ["new"]
    office.oracle.says = lambda _q: []
    assert later(office, 601) == ["new", "ended"]


def test_an_alert_with_several_causes_keeps_all_of_their_incidents_open(office: Office) -> None:
    """It has the verdict of the worst; none of the others is closed while it fires."""
    office.oracle.says = lambda _q: [judged("a", cause="a", time_lag_seconds=900.0), judged("b", cause="b")]
    post(office, alert("", ""))
    office.worker.judge_alerts()
    hours_pass(office)
    assert office.send() == ["new", "new"] and open_incidents(office) == 2
    post(office, alert("", "", status="resolved"))
    assert later(office, 3700) == ["new", "new", "ended", "ended"]


def test_a_subscription_has_one_open_incident_with_one_cause(office: Office) -> None:
    """A further alert about it, or the same one judged anew, tells nothing twice, however old the incident is."""
    office.oracle.says = lambda _q: [judged("a", cause="a", time_lag_seconds=900.0), judged("b", cause="b")]
    post(office, alert("", ""))
    office.worker.judge_alerts()
    hours_pass(office, 1)
    office.oracle.says = lambda _q: [judged("a", verdict="healthy"), judged("b", cause="b")]
    assert later(office) == ["new", "new", "recovered"]
    post(office, alert("", ""))  # Alertmanager repeats it, and its own incident is closed
    post(office, alert("b", number=1))
    office.worker.judge_alerts()
    assert office.send() == ["new", "new", "recovered"] and open_incidents(office) == 1


def test_an_alert_about_a_whole_cluster_gets_its_verdict_after_an_outage(office: Office) -> None:
    """The incident without a verdict names no subscription; the first triage that succeeds does."""

    def gone(_question: object) -> list[Judged]:
        raise SourceUnreachableError("Prometheus does not answer.")

    office.oracle.says = gone
    post(office, alert("", ""))
    office.worker.judge_alerts()
    assert later(office) == ["new"]
    office.oracle.says = lambda _q: [judged("a"), judged("b", verdict="healthy")]
    assert later(office) == ["new", "verdict"]
    assert [it[:2] for it in office.postman.parcels[-1].message.members] == [("a", "orders")]
    office.oracle.says = lambda _q: [judged("a", verdict="healthy"), judged("b", verdict="healthy")]
    assert later(office) == ["new", "verdict", "recovered"]


def test_what_joins_a_cause_that_a_digest_named_is_told(office: Office) -> None:
    """After the quiet time, as for a cause with a message of its own; and so is its end."""
    office.oracle.says = lambda q: [judged(it, cause="g5" if it == "late" else it) for it in q.groups]
    post(office, *(alert(f"g{number}") for number in range(6)))
    office.worker.judge_alerts()
    assert office.send() == ["new"] * 3 + ["digest"]
    post(office, alert("late"))
    office.worker.judge_alerts()
    assert office.send() == ["new"] * 3 + ["digest"]
    office.clock.now += 301
    office.worker.tell_due()
    assert office.send() == ["new"] * 3 + ["digest", "grows"]
    grows = office.postman.parcels[-1].message
    assert {group for group, _, _ in grows.members} == {"g5", "late"} and grows.before == "slow_processor"
    says(office, verdict="healthy")
    later(office, 301)
    later(office)
    ends = [it.message for it in office.postman.parcels if it.message.kind == "ends"]
    assert [len(it.other_incidents) for it in ends] == [1]
    assert office.postman.parcels[-1].message.kind == "ends"
    assert [it.message.kind for it in office.postman.parcels if it.message.incident == grows.incident] == [
        "grows",
        "recovered",
    ]


def test_what_holds_for_weeks_is_repeated_for_weeks(tmp_path: Path) -> None:
    """Sent messages are deleted after two weeks, but for the one that an Alertmanager must be told again."""
    office = Office(tmp_path, targets=[MANAGER], look_again="PT1M")
    says(office)
    post(office, alert())
    office.worker.judge_alerts()
    office.send()
    office.clock.now += 15 * 86_400
    office.worker._forget()
    assert later(office) == ["new", "new"]


@pytest.mark.parametrize("passing", [True, False])
def test_what_is_refused_is_not_repeated_again_and_again(tmp_path: Path, passing: bool) -> None:
    """Each 15 minutes at most, whether the first or the hundredth is refused."""
    office = Office(tmp_path, targets=[MANAGER], look_again="PT1M")
    says(office)
    post(office, alert())
    office.worker.judge_alerts()
    for _ in range(70):
        later(office, 901)
    office.postman.fails = [NotTakenError("it refuses", passing=passing) for _ in range(1000)]
    for _ in range(720):
        office.clock.now += 10
        office.worker.tell_due()
        office.send()
    assert 2 <= 1000 - len(office.postman.fails) <= 16


def test_no_step_asks_for_a_second_connection_in_a_transaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a pool that others have emptied, who wait for this very transaction, it would not get one."""
    office = Office(tmp_path, targets=[MANAGER], look_again="PT1M")
    if not isinstance(office.store, FileStore):
        pytest.skip("the same code on a file shows it")
    store, reading = office.store, office.store.reading

    @contextmanager
    def outside() -> Iterator[Any]:
        assert not store._writer.in_transaction
        with reading() as db:
            yield db

    monkeypatch.setattr(store, "reading", outside)
    says(office)
    post(office, alert("a"), alert("b"))
    office.worker.judge_alerts()
    later(office, 901)
    says(office, verdict="healthy")
    assert later(office, 901)[-1] == "recovered"


def test_connections_do_not_grow_with_the_threads_that_have_been(tmp_path: Path) -> None:
    """Threads of the server come and go; each would leave three descriptors."""
    store = FileStore(tmp_path / "serve.sqlite")

    def asked(number: int) -> None:
        threads = [threading.Thread(target=store.number, args=("SELECT count(*) FROM alert",)) for _ in range(number)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    asked(4)
    before = len([*Path("/proc/self/fd").iterdir()])
    for _ in range(20):
        asked(4)
    assert len([*Path("/proc/self/fd").iterdir()]) <= before + 12
    store.close()


def test_rows_are_read_by_one_thread_at_a_time(tmp_path: Path) -> None:
    """A connection that is in use is given to nobody else, also while it is used twice."""
    store = FileStore(tmp_path / "serve.sqlite")
    with store.reading() as one, store.reading() as other:
        assert one.execute("SELECT 1").fetchone()[0] == other.execute("SELECT 1").fetchone()[0] == 1
    assert len(store._readers) == 2
    store.close()


def test_a_message_of_a_later_version_is_sent(office: Office) -> None:
    """After a return to an older version: it would be "sending" for ever, and hold up what follows about its incident."""
    post(office, alert())
    office.worker.judge_alerts()
    with office.store.writing() as db:
        db.execute("UPDATE outbox SET message = ?", (json.dumps({**_message(office), "mood": "calm"}),))
    assert office.send() == ["new"]


def _message(office: Office) -> dict[str, Any]:
    [row] = office.store.rows("SELECT message FROM outbox")
    found: dict[str, Any] = json.loads(row["message"])
    return found

"""What frameworks keep in a commit besides the offset is a part of the commit: kept, restored and carried over with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.replay.fakes import now_ms, orders
from tests.replay.test_apply import Place
from tests.replay.test_rolling_cutover import Service
from workbench.errors import GuardError, SourceUnreachableError
from workbench.plans.strict_document import canonical_hash
from workbench.queues.replay_port import KeptCommit
from workbench.replay.receipt import ReplayOutcome, Status, metadata_of, read_rollback, rollback_path
from workbench.replay.rollback_of_apply import roll_back

PAYMENTS = ("payments", 0)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A group that processes a partition's records beside each other, and one of its commits is planned over."""
    made = Place(tmp_path, orders())
    made.gateway.records[PAYMENTS] = [(at, at) for at in range(50)]
    made.gateway.groups["new"] = {("orders", 0): 1, PAYMENTS: 40}
    made.gateway.stored["new"] = {("orders", 0): "done=3-4", PAYMENTS: "time=7"}
    return made


def back(place: Place, *, discard: bool = False) -> dict[tuple[str, int], str]:
    """Roll it back."""
    rollback = read_rollback(rollback_path(place.path))
    found = roll_back(rollback, place.gateway, place.journal, discard_progress=discard, sleep=lambda _: None)
    return dict(found.failed)


def at_target(place: Place) -> None:
    """One commit of before is at its target, and says that some records behind it are done."""
    place.gateway.groups["new"]["orders", 0] = place.plan.targets["orders", 0]


def test_a_commit_at_its_target_is_written_without_metadata(place: Place) -> None:
    """Consumers would leave out the records of the window that it calls done."""
    at_target(place)
    assert {part.status for part in place.apply(allow_existing=True, dry_run=True).partitions} == {Status.WOULD_COMMIT}
    receipt = place.apply(allow_existing=True)
    assert {part.status for part in receipt.partitions} == {Status.COMMITTED}
    assert place.gateway.kept_commits("new")["orders", 0] == KeptCommit(place.plan.targets["orders", 0])
    assert {part.status for part in place.apply().partitions} == {Status.UNCHANGED}
    assert back(place) == {}
    assert place.gateway.stored["new"]["orders", 0] == "done=3-4"


def test_a_run_that_was_killed_before_its_write_goes_on(place: Place) -> None:
    """The metadata of before is no progress."""
    at_target(place)
    gateway = place.gateway
    gateway.before_commit = lambda: setattr(gateway, "die_at", gateway.calls + 1)
    with pytest.raises(SourceUnreachableError):
        place.apply(allow_existing=True)
    assert gateway.stored["new"]["orders", 0] == "done=3-4"
    gateway.before_commit = gateway.die_at = None
    assert place.apply().outcome is ReplayOutcome.DONE
    assert ("orders", 0) not in gateway.stored["new"]


def test_metadata_since_the_plan_was_applied_is_progress(place: Place) -> None:
    """Its consumers have processed records behind the first one, which is in flight still: applying again changes nothing."""
    place.apply(allow_existing=True)
    place.gateway.stored["new"]["orders", 1] = "done=7"
    writes = len(place.gateway.writes)
    receipt = place.apply()
    assert receipt.outcome is ReplayOutcome.REFUSED
    assert "stored metadata with the commit at 5" in receipt.reasons[0]
    assert len(place.gateway.writes) == writes


def test_a_rollback_restores_it(place: Place) -> None:
    """Of the commit that was written over; the other one was never touched."""
    before = place.gateway.kept_commits("new")
    place.apply(allow_existing=True)
    assert place.gateway.kept_commits("new")["orders", 0] == KeptCommit(place.plan.targets["orders", 0])
    assert back(place) == {}
    assert place.gateway.kept_commits("new") == before


def test_other_metadata_at_the_same_offset_is_progress(place: Place) -> None:
    """Records behind the offset are done that were not: what was before would process them again, and the other way round is a loss."""
    place.apply(allow_existing=True)
    place.gateway.stored["new"][PAYMENTS] = "time=9"
    with pytest.raises(GuardError, match="moved on in 1 partition: payments-0"):
        back(place)
    assert back(place, discard=True) == {}
    assert place.gateway.stored["new"][PAYMENTS] == "time=7"


def test_metadata_that_is_not_read_back_is_a_failure(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The offset alone is not the commit that was there."""
    place.apply(allow_existing=True)
    gateway = place.gateway
    monkeypatch.setattr(
        gateway, "restore", lambda group, some: gateway.commit(group, {key: it.offset for key, it in some.items()})
    )
    assert "metadata was not read back" in back(place)["orders", 0]


def test_a_file_of_an_earlier_version_takes_none_away(place: Place) -> None:
    """It does not say what stood there: a commit that has not moved keeps what it has."""
    place.apply(allow_existing=True)
    path = rollback_path(place.path)
    document = json.loads(path.read_text())
    del document["metadata"]
    path.write_text(json.dumps({**document, "hash": canonical_hash(document)}))
    assert back(place) == {}
    assert place.gateway.kept_commits("new") == {("orders", 0): KeptCommit(1), PAYMENTS: KeptCommit(40, b"time=7")}


@given(st.binary(max_size=40))
def test_every_byte_comes_back_from_the_file(raw: bytes) -> None:
    """Clients may store bytes that are no text."""
    [*found] = json.loads(json.dumps(metadata_of({PAYMENTS: KeptCommit(4, raw)})))
    assert [text.encode("latin-1") for *_, text in found] == ([raw] if raw else [])


def test_what_is_carried_over_has_the_metadata_of_its_own_offset(tmp_path: Path) -> None:
    """The old group works on: offset and metadata are of one answer, and of none from before."""
    service = Service(tmp_path)
    gateway = service.gateway
    gateway.records[PAYMENTS] = [(offset, now_ms()) for offset in range(100)]
    gateway.groups["old"][PAYMENTS] = 40
    gateway.stored["old"] = {PAYMENTS: "done=41-49"}
    told = gateway.kept_commits

    def moved(group: str) -> dict[tuple[str, int], KeptCommit]:
        if group == "old":
            gateway.groups["old"][PAYMENTS], gateway.stored["old"][PAYMENTS] = 50, "done=60-69"
        return dict(told(group))

    gateway.kept_commits = moved  # type: ignore[method-assign]
    service.consume = False
    service.fleet.failing.add("i0")
    with pytest.raises(GuardError, match="batch 1"):
        service.cutover(carry_others=True).run()
    assert told("new")[PAYMENTS] == KeptCommit(50, b"done=60-69")


def test_metadata_that_was_not_carried_over_stops_the_cutover(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The consumers of the new group would begin without it."""
    service = Service(tmp_path)
    gateway = service.gateway
    gateway.records[PAYMENTS] = [(offset, now_ms()) for offset in range(100)]
    gateway.groups["old"][PAYMENTS] = 40
    gateway.stored["old"] = {PAYMENTS: "done=41-49"}
    monkeypatch.setattr(
        gateway, "restore", lambda group, some: gateway.commit(group, {key: it.offset for key, it in some.items()})
    )
    with pytest.raises(GuardError, match="payments-0: its metadata was not read back"):
        service.cutover(carry_others=True).run()
    assert service.fleet.switches == []

"""A replay begins in a consumer group only, at every step; and follows a group that has commits (live groups: tests/lab)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.replay.fakes import FakeGateway, orders, plan_of, request
from tests.replay.test_rolling_cutover import FakeFleet
from workbench.errors import GuardError
from workbench.plans.journal import Journal
from workbench.queues.group_kinds import CLASSIC, CONNECT, CONSUMER, HIDDEN, SHARE, STREAMS
from workbench.replay.apply import ApplyOptions, apply_plan
from workbench.replay.guard import HINTS
from workbench.replay.receipt import ReplayOutcome, read_rollback, rollback_path
from workbench.replay.rollback_of_apply import roll_back
from workbench.replay.rolling_cutover import Cutover
from workbench.replay.service_fleet import FleetFile

WRONG = {
    SHARE: "share group",
    STREAMS: "state stores",
    CONNECT: "Connect workers",
    HIDDEN: "share group or",
    "sr": "'sr'",
}


@pytest.mark.parametrize("kind", WRONG)
def test_each_step_into_a_wrong_kind_is_refused_with_the_reason(tmp_path: Path, kind: str) -> None:
    """The plan; apply, cutover and rollback where the group has appeared after the plan was made. Nothing is written."""
    gateway, journal, path = orders(), Journal(path=tmp_path / "journal.jsonl"), tmp_path / "plan.json"
    plan = plan_of(gateway)
    applied = apply_plan(plan, path, gateway, journal, ApplyOptions(quiet_seconds=0), sleep=lambda _: None)
    assert applied.outcome is ReplayOutcome.DONE
    rollback, written = read_rollback(rollback_path(path)), list(gateway.writes)
    gateway.kinds["new"] = kind
    with pytest.raises(GuardError, match=WRONG[kind]) as caught:
        plan_of(gateway)
    assert caught.value.hint is not None and "--new-group" in caught.value.hint
    receipt = apply_plan(plan, path, gateway, journal, ApplyOptions(quiet_seconds=0), sleep=lambda _: None)
    assert receipt.outcome is ReplayOutcome.REFUSED
    assert WRONG[kind] in receipt.reasons[0]
    assert receipt.hints == [HINTS["wrong_kind"]]
    fleet = FakeFleet(gateway, {"i0": "old"})
    cutover = Cutover(
        plan=plan,
        fleet=fleet,  # type: ignore[arg-type]
        file=FleetFile(kind="http", instances=["http://i0"]),
        gateway=gateway,
        journal=journal,
        say=lambda _: None,
        count_records=lambda *_: 0,  # type: ignore[arg-type]
    )
    with pytest.raises(GuardError, match=WRONG[kind]):
        cutover.run()
    assert fleet.switches == []
    fleet.gateway.members.clear()
    with pytest.raises(GuardError, match=WRONG[kind]):
        roll_back(rollback, gateway, journal, sleep=lambda _: None)
    assert gateway.writes == written


@pytest.mark.parametrize("kind", [CLASSIC, CONSUMER])
def test_consumer_groups_of_both_protocols_are_planned(kind: str) -> None:
    """As the new group and as the old one."""
    gateway = orders()
    gateway.kinds = {"new": kind, "old": kind}
    assert not any("state stores" in text for text in plan_of(gateway).warnings)


@pytest.mark.parametrize("kind", [SHARE, CONNECT, HIDDEN])
def test_a_group_without_commits_cannot_be_followed(kind: str) -> None:
    """The reason is its kind, and not that it has read nothing."""
    gateway = orders()
    gateway.kinds = {"old": kind}
    with pytest.raises(GuardError, match="no committed offsets"):
        plan_of(gateway)


def test_a_streams_group_can_be_followed_with_a_warning() -> None:
    """Its input can be read again; its state cannot be undone. The way back to it stays open."""
    gateway: FakeGateway = orders()
    gateway.kinds = {"old": STREAMS}
    [warning] = [text for text in plan_of(gateway, request()).warnings if "state stores" in text]
    assert "changelog" in warning and "repartition" in warning and "'old'" in warning

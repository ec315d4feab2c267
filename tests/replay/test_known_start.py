"""A commit behind the window proves nothing of a group that did not begin at its start; what tells that it did."""

from __future__ import annotations

import contextlib
import json
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Literal

import pytest

from tests.replay.fakes import now_ms, orders, plan_of, request
from tests.replay.test_apply import Place
from tests.replay.test_rolling_cutover import Service
from workbench.errors import GuardError, SourceUnreachableError
from workbench.plans.journal import Journal, begun_replays
from workbench.replay.follow import Follower
from workbench.replay.known_start import known_starts
from workbench.replay.receipt import receipt_path, rollback_of_plan, rollback_path
from workbench.replay.retire import retire
from workbench.replay.rollback_of_apply import roll_back
from workbench.replay.service_fleet import HeldPartition, InstanceStatus, MemberStatus
from workbench.replay.verify import VerifyVerdict
from workbench.replay.verify_evidence import Checked, CheckRequest, check
from workbench.settings import Cluster


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A plan that was not applied yet."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return Place(tmp_path, orders())


def known(place: Place, journal: Journal | None = None) -> int:
    """On so many partitions it is known."""
    return len(known_starts(place.plan, place.path, journal or place.journal))


def verified(place: Place) -> Checked:
    """What `verify` says by the commits."""
    asked = CheckRequest(begun=known_starts(place.plan, place.path, place.journal))
    return check(place.plan, Cluster(name="c", bootstrap="b:9092"), place.gateway, lambda _ranges: {}, asked)


def at_the_end(place: Place) -> None:
    """The new group has committed every log's end."""
    place.gateway.groups["new"] = {key: place.gateway.end(key) for key in place.plan.targets}


def test_journal_or_receipt_tells_it(place: Place) -> None:
    """Either is enough: the plan may be verified on another machine, with the receipt next to it."""
    assert known(place) == 0
    place.apply()
    assert known(place) == 4
    assert known(place, Journal(path=place.path.with_name("none"))) == 4
    receipt_path(place.path).unlink()
    assert known(place) == 4
    assert known(place, Journal(path=place.path.with_name("none"))) == 0


def test_a_group_that_was_there_before_is_not_verified(place: Place) -> None:
    """Its commits are behind the window, apply was refused: nobody has read the window again."""
    at_the_end(place)
    place.apply()
    assert (known(place), place.gateway.writes) == (0, [])
    found = verified(place)
    assert found.verdict is VerifyVerdict.CANNOT_TELL
    assert all("began at 5" in part.reason for part in found.partitions)
    follower = Follower(
        place.plan, place.gateway, lambda _: {}, begun=lambda: known_starts(place.plan, place.path, place.journal)
    )
    assert "began at 5" in (follower.look().doubt or "")
    with pytest.raises(GuardError, match="cannot be told whether 'new' processed the whole window"):
        retire(place.plan, place.path, place.gateway, place.journal, stays=False, now_ms=0, begun=())
    assert "new" in place.gateway.groups


def test_what_was_applied_is_verified_until_it_is_taken_back(place: Place) -> None:
    """After a rollback, the commits of before may be behind the window."""
    place.gateway.groups["new"] = dict.fromkeys(place.plan.targets, 9)
    place.apply(allow_existing=True)
    at_the_end(place)
    assert verified(place).verdict is VerifyVerdict.VERIFIED
    place.gateway.groups["new"] = dict(place.plan.targets)
    rollback = rollback_of_plan(rollback_path(place.path), place.plan)
    assert rollback is not None
    roll_back(rollback, place.gateway, place.journal, sleep=lambda _: None)
    assert known(place) == 0
    at_the_end(place)
    assert verified(place).verdict is VerifyVerdict.CANNOT_TELL


def test_partitions_that_were_not_written_are_not_known(place: Place) -> None:
    """A part of an apply failed, and consumers of the group began at the end there."""
    place.gateway.refuse["orders", 2] = "NOT_ENOUGH_REPLICAS"
    place.apply()
    at_the_end(place)
    assert [part.verdict for part in verified(place).partitions] == [
        VerifyVerdict.VERIFIED, VerifyVerdict.VERIFIED, VerifyVerdict.CANNOT_TELL, VerifyVerdict.VERIFIED,
    ]  # fmt: skip


def test_an_answer_that_did_not_come_is_known_once_it_is_read_back(place: Place) -> None:
    """The line died after the write; the second run finds nothing to write, and its receipt tells so."""
    gateway = place.gateway
    gateway.before_commit = lambda: setattr(gateway, "die_at", gateway.calls + 2)  # when the commits are read back
    with pytest.raises(SourceUnreachableError):
        place.apply()
    assert (gateway.groups["new"], known(place)) == (place.plan.targets, 0)
    gateway.before_commit = gateway.die_at = None
    place.apply()
    assert known(place) == 4


@pytest.mark.parametrize("lines", [1, 2])
def test_a_journal_that_has_lost_its_last_line_is_whole_after_the_next_run(place: Place, lines: int) -> None:
    """A run was killed after its write, or got no answer. The next one writes the same offsets again, so the journal tells triage of a
    replay that waits, and `verify` where it began, also without the receipt."""
    gateway = place.gateway
    if lines == 2:
        gateway.before_commit = lambda: setattr(gateway, "die_at", gateway.calls + 2)
        with pytest.raises(SourceUnreachableError):
            place.apply()
        gateway.before_commit = gateway.die_at = None
    else:
        place.apply()
        whole = place.journal.path.read_text().splitlines(keepends=True)
        place.journal.path.write_text("".join(whole[:-1]))
    assert gateway.groups["new"] == place.plan.targets
    place.apply()
    receipt_path(place.path).unlink()
    assert known(place) == 4
    assert begun_replays(place.journal.read()[0]) == {"new": place.plan.targets}


@pytest.mark.parametrize("cut", ["in the write", "before the offsets are read back", "before the last line"])
def test_a_later_apply_that_was_cut_off_leaves_nothing_known(place: Place, tmp_path: Path, cut: str) -> None:
    """A second plan for the group was killed after its write: the group may be at its offsets, which are behind the start."""
    place.apply()
    gateway, folder = place.gateway, tmp_path / "later"
    folder.mkdir()
    later = Place(folder, gateway, plan_of(gateway, request(now_ms() - 2 * 60_000)))
    later.journal = place.journal
    if cut != "before the last line":
        gateway.die_after_writing = cut == "in the write"
        steps = 1 if gateway.die_after_writing else 2
        gateway.before_commit = lambda: setattr(gateway, "die_at", gateway.calls + steps)
    with contextlib.suppress(SourceUnreachableError):
        later.apply(allow_existing=True)
    lines = place.journal.path.read_text().splitlines(keepends=True)
    if cut == "before the last line":
        place.journal.path.write_text("".join(lines[:-1]))
    gateway.before_commit, gateway.die_at, gateway.die_after_writing = None, None, False
    assert gateway.groups["new"] == later.plan.targets
    assert known(place) == 0
    at_the_end(place)
    assert verified(place).verdict is VerifyVerdict.CANNOT_TELL


@pytest.mark.parametrize("deleted", [False, True])
def test_a_retire_that_was_killed_goes_on(place: Place, deleted: bool) -> None:
    """Between its two lines: it knew where the group began, and nothing tells so any more. One that has moved since is asked anew."""
    place.apply()
    gateway = place.gateway
    at_the_end(place)
    gateway.groups["old"] = dict(gateway.groups["new"])

    def retired() -> None:
        start = known_starts(place.plan, place.path, place.journal)
        retire(place.plan, place.path, gateway, place.journal, stays=False, now_ms=now_ms() + 60_000, begun=start)

    commits = dict(gateway.groups["new"])
    retired()
    place.journal.path.write_text("".join(place.journal.path.read_text().splitlines(keepends=True)[:-1]))
    if not deleted:
        gateway.groups["new"] = {key: at + 1 for key, at in commits.items()}
        with pytest.raises(GuardError, match="cannot be told"):
            retired()
        gateway.groups["new"] = commits
    retired()
    assert "new" not in gateway.groups


@pytest.mark.parametrize("action", ["carry", "discard"])
def test_what_another_command_writes_counts_as_well(place: Place, action: Literal["carry", "discard"]) -> None:
    """Whichever command moved the group behind the start of the window; one that moved it before that start has skipped nothing."""
    place.apply()
    first, second = sorted(place.plan.targets)[:2]
    note = partial(place.journal.append, plan="other", cluster_id=place.plan.cluster_id, group="new", action=action)
    for phase, outcome in (("begin", None), ("end", "done")):
        note(phase=phase, outcome=outcome, changes=[(*first, 5, 9, None), (*second, 5, 1, None)])
    assert known_starts(place.plan, place.path, place.journal) == set(place.plan.targets) - {first}


def test_a_journal_that_cannot_be_read_may_tell_of_a_later_change(place: Place) -> None:
    """The receipt alone is the last word only where there is no journal at all."""
    place.apply()
    place.journal.path.unlink()
    assert known(place) == 4
    place.journal.path.mkdir()
    assert known(place) == 0


def test_a_journal_of_another_cluster_tells_nothing(place: Place) -> None:
    """Groups of two clusters may have the same name."""
    place.apply()
    receipt_path(place.path).unlink()
    lines = [json.loads(line) | {"cluster_id": "other"} for line in place.journal.path.read_text().splitlines()]
    place.journal.path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert known(place) == 0


def test_counts_of_the_instances_prove_it_as_well(place: Place) -> None:
    """They have had the partition from the target on, and completed what is there."""
    at_the_end(place)
    parts = [
        HeldPartition(topic=it.topic, partition=it.partition, first_offset=it.target, committed=10, completed=5)
        for it in place.plan.partitions
    ]
    status = InstanceStatus(
        client_id="a", group="new", state="running", members=[MemberStatus(member="a", partitions=parts)]
    )

    class Fleet:
        """One instance."""

        instances = ("a",)

        def status(self, _instance: str) -> InstanceStatus:
            """Its status."""
            return status

    asked = CheckRequest(begun=(), fleet=Fleet())  # type: ignore[arg-type]
    found = check(place.plan, Cluster(name="c", bootstrap="b:9092"), place.gateway, lambda _ranges: {}, asked)
    assert found.verdict is VerifyVerdict.VERIFIED


def test_a_cutover_asks_where_the_group_began(tmp_path: Path) -> None:
    """A group that is beyond the target by an earlier replay would skip the window; one at the target needs no proof."""
    service = Service(tmp_path)
    service.gateway.groups["new"]["orders", 3] = 9
    with pytest.raises(GuardError, match="beyond the start of the window on orders-3") as caught:
        service.cutover(begun=()).run()
    assert "--allow-gap" in (caught.value.hint or "") and service.fleet.switches == []
    service.cutover(begun=[("orders", 3)]).run()
    assert set(service.fleet.groups.values()) == {"new"}


@pytest.mark.parametrize("change", ["rolled back", "set elsewhere by another plan"])
def test_a_clock_that_steps_back_makes_no_earlier_receipt_the_last_word(place: Place, change: str) -> None:
    """In a journal what stands later came later, whatever the times of its lines say."""
    place.apply()
    assert known(place) == 4
    hour_ago = (datetime.now(UTC) - timedelta(hours=1)).isoformat(timespec="milliseconds")
    [(key, target), *_] = sorted(place.plan.targets.items())
    changes = [(*key, target, target + 3, None)]
    for phase in ("begin", "end"):
        entry = place.journal.append(
            plan="f" * 64, cluster_id=place.plan.cluster_id, group="new", phase=phase,
            action="rollback" if change == "rolled back" else "apply", outcome="done" if phase == "end" else None,
            changes=changes,
        )  # fmt: skip
        text = place.journal.path.read_text().replace(entry.at, hour_ago)
        place.journal.path.write_text(text)
    assert known(place) == (0 if change == "rolled back" else 3)

"""A replay is held while a neighbour is late, and goes on when that one is back; what is not known does neither."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.replay.fakes import killed_before_its_last_line, orders, plan_of
from tests.triage.brokers import WINDOW, Made, after, at
from workbench.api.groups_beside_replay import NeighbourWatch, beside
from workbench.api.load_measurements import Measured
from workbench.collect.capture import Capture, new_info
from workbench.errors import SourceUnreachableError
from workbench.plans.journal import Journal
from workbench.replay.pause_for_neighbours import Beside, BesideGroup, Holding, Pausable
from workbench.replay.service_fleet import InstanceStatus

SLOWER = (("Cap the replay at 1 MB/s on each broker", "cap"), ("Take the cap away", "lift"))


@dataclass
class Fleet:
    """Two instances of a runtime."""

    states: dict[str, str] = field(default_factory=lambda: {"a": "running", "b": "running"})
    groups: dict[str, str] = field(default_factory=dict)
    dead: set[str] = field(default_factory=set)

    @property
    def instances(self) -> list[str]:
        return list(self.states)

    def status(self, instance: str) -> InstanceStatus:
        return InstanceStatus(client_id=instance, group=self.groups.get(instance, "new"), state=self.states[instance])

    def pause(self, instance: str) -> None:
        self._set(instance, "drained")

    def go_on(self, instance: str) -> None:
        self._set(instance, "running")

    def _set(self, instance: str, state: str) -> None:
        if instance in self.dead:
            raise SourceUnreachableError(f"The instance {instance} does not answer.")
        self.states[instance] = state


def seen(seconds: float | None, *, other: float | None = 1.0) -> Beside:
    """Two groups, each with an objective of a minute."""
    groups = {"payments": seconds, "mails": other}
    return Beside(
        groups=tuple(BesideGroup(group=name, behind_seconds=it, objective_seconds=60.0) for name, it in groups.items()),
        slower=SLOWER,
    )


def holding(folder: Path, fleet: Fleet | None) -> Holding:
    """Of a plan for the group "new"."""
    return Holding(plan=plan_of(orders()), journal=Journal(path=folder / "journal.jsonl"), fleet=fleet)


def noted(folder: Path) -> list[tuple[str, str, str | None, str | None]]:
    """The journal."""
    entries, torn = Journal(path=folder / "journal.jsonl").read()
    assert not torn
    return [(it.action, it.phase, it.target, it.outcome) for it in entries]


def test_it_is_held_before_the_objective_is_passed_and_goes_on_well_within_it(tmp_path: Path) -> None:
    """At both sides of both limits, with every step in the journal."""
    fleet = Fleet()
    held = holding(tmp_path, fleet)
    assert isinstance(fleet, Pausable)
    assert held.look(seen(48.0)).held_for == ()
    report = held.look(seen(48.1))
    assert report.held_for == ("payments",) and report.is_held
    assert report.lines == ("Held, because payments is 48 s behind (objective 1 min): 2 instances read no more.",)
    assert set(fleet.states.values()) == {"drained"}
    assert held.look(seen(30.1)).held_for == ("payments",)
    report = held.look(seen(30.0))
    assert report.held_for == () and not report.is_held and set(fleet.states.values()) == {"running"}
    assert report.lines[0].startswith("Goes on, because payments is well within the objective again: 2 instances")
    assert noted(tmp_path)[:4] == [
        ("hold", "begin", "a", None), ("hold", "end", "a", "done"), ("hold", "begin", "b", None), ("hold", "end", "b", "done"),
    ]  # fmt: skip
    assert [it[0] for it in noted(tmp_path)[4:]] == ["release"] * 4


def test_who_was_late_before_holds_nothing(tmp_path: Path) -> None:
    """Until it has been seen well."""
    held = holding(tmp_path, Fleet())
    assert held.look(seen(900.0)).held_for == ()
    held.look(seen(10.0))
    assert held.look(seen(900.0)).held_for == ("payments",)


def test_what_is_not_known_is_said_and_neither_holds_nor_releases(tmp_path: Path) -> None:
    """A group without a lag, a group that has gone, and no measurement at all; each is said once."""
    held = holding(tmp_path, Fleet())
    report = held.look(seen(10.0, other=None))
    assert report.lines == ("Cannot tell: how far mails is behind.",) and report.unknown
    assert held.look(seen(10.0, other=None)).lines == ()
    held.look(seen(50.0))
    assert held.look(seen(None)).held_for == ("payments",)
    assert held.look(Beside(unknown="no answer in time.")).lines == (
        "Cannot tell: whether a group on the same brokers is held up: no answer in time.",
    )
    gone = held.look(Beside(groups=seen(1.0).groups[1:]))
    assert gone.held_for == ("payments",) and gone.unknown == ("how far payments is behind",)
    assert held.look(seen(10.0)).held_for == ()


def test_an_instance_that_does_not_answer_or_was_restarted_is_told_again(tmp_path: Path) -> None:
    """One in another group is left alone."""
    fleet = Fleet(states={"a": "running", "b": "running", "c": "running"}, groups={"c": "old"}, dead={"b"})
    held = holding(tmp_path, fleet)
    held.look(seen(1.0))
    report = held.look(seen(55.0))
    assert report.lines[1] == "b: The instance b does not answer."
    assert fleet.states == {"a": "drained", "b": "running", "c": "running"}
    assert ("hold", "end", "b", "failed") in noted(tmp_path)
    fleet.dead.clear()
    fleet.states["a"] = "running"
    held.look(seen(55.0))
    assert fleet.states == {"a": "drained", "b": "drained", "c": "running"}
    fleet.dead.add("a")
    held.look(seen(1.0))
    assert fleet.states["b"] == "running" and fleet.states["a"] == "drained"
    fleet.dead.clear()
    held.look(seen(1.0))
    assert fleet.states["a"] == "running"


def test_what_a_person_has_paused_stays_paused(tmp_path: Path) -> None:
    """Of two instances, one was paused before the neighbour was late."""
    fleet = Fleet(states={"a": "drained", "b": "running"})
    held = holding(tmp_path, fleet)
    held.look(seen(1.0))
    held.look(seen(55.0))
    assert set(fleet.states.values()) == {"drained"}
    held.look(seen(1.0))
    assert fleet.states == {"a": "drained", "b": "running"}


def test_a_follower_that_was_ended_between_two_instances_releases_the_other(tmp_path: Path) -> None:
    """The first one reads again; nobody may have heard of the second."""
    fleet = Fleet()
    held = holding(tmp_path, fleet)
    held.look(seen(1.0))
    held.look(seen(55.0))
    fleet.dead.add("b")
    assert held.look(seen(1.0)).is_held
    assert fleet.states == {"a": "running", "b": "drained"}
    fleet.dead.clear()
    again = Holding(plan=held.plan, journal=held.journal, fleet=fleet)
    report = again.look(seen(1.0))
    assert fleet.states == {"a": "running", "b": "running"}
    assert report.lines[0] == "Goes on, because payments is well within the objective again: 1 instance reads again."
    assert not report.is_held and again.look(seen(1.0)).lines == ()


@pytest.mark.parametrize("lost", [0, 1])
def test_an_instance_that_reads_again_is_not_this_replays_to_release_later(tmp_path: Path, lost: int) -> None:
    """It was restarted, or the follower was killed before it told that it has released it; then a person pauses it."""
    fleet = Fleet()
    first = holding(tmp_path, fleet)
    first.look(seen(10.0))
    first.look(seen(50.0))
    if lost:
        first.look(seen(10.0))
        killed_before_its_last_line(first.journal)
    fleet.states["b"] = "running"
    Holding(plan=first.plan, journal=first.journal, fleet=fleet).look(seen(10.0))
    fleet.states["b"] = "drained"
    assert Holding(plan=first.plan, journal=first.journal, fleet=fleet).look(seen(10.0)).lines == ()
    assert fleet.states == {"a": "running", "b": "drained"}


def test_a_follower_that_was_ended_goes_on_where_it_was(tmp_path: Path) -> None:
    """Its instances are still held: the next one releases them."""
    fleet = Fleet()
    held = holding(tmp_path, fleet)
    held.look(seen(1.0))
    held.look(seen(55.0))
    again = Holding(plan=held.plan, journal=held.journal, fleet=fleet)
    assert again.held_for == ("payments",)
    again.look(seen(1.0))
    assert set(fleet.states.values()) == {"running"}
    assert Holding(plan=held.plan, journal=held.journal, fleet=fleet).held_for == ()


def test_other_consumers_get_the_command_and_the_way_back(tmp_path: Path) -> None:
    """Nothing is done, and nothing is in the journal."""
    held = holding(tmp_path, None)
    held.look(seen(1.0))
    report = held.look(seen(55.0))
    assert report.lines[1] == "Cap the replay at 1 MB/s on each broker: cap" and not report.is_held
    assert held.look(seen(55.0)).lines == ()
    assert held.look(seen(1.0)).lines[1] == "Take the cap away: lift"
    assert noted(tmp_path) == []


def test_neighbours_are_those_on_the_same_brokers() -> None:
    """What waits there, in seconds of what arrives; the cap is half of what the replay reads."""
    made = Made()
    made.well(1, 2)
    made.group("new", 1, at(100), clients=1)
    made.reads("new-0", 1, at(4e6))
    made.group("late", 1, at(200), after(-6, 0.5, before=1.0))
    made.group("fine", 1, at(200))
    made.group("elsewhere", 2, at(200), after(-6, 0.5, before=1.0))
    info = new_info(cluster="c", source="watch", profiles=["jmx_kafka_broker"], window=WINDOW)
    found = Measured(capture=Capture(info=info, samples=made.samples(), groups=made.groups()), window=WINDOW)
    result = beside(found, "new", {1})
    by_name = {it.group: it for it in result.groups}
    assert set(by_name) == {"late", "fine"}
    assert by_name["late"].is_late and by_name["late"].behind_seconds == pytest.approx(150, rel=0.3)
    assert by_name["fine"].is_back
    assert "consumer_byte_rate=1999" in (result.slower[0][1] or "") and "--delete-config" in (result.slower[1][1] or "")


def test_a_cluster_that_does_not_answer_cannot_be_told(tmp_path: Path) -> None:
    """And the look comes again after a pause."""
    now = [0.0]
    gateway = orders()
    cluster: Any = type("C", (), {"prometheus": "http://127.0.0.1:9", "name": "nowhere"})()
    path = tmp_path / "w.toml"
    path.write_text('[clusters.nowhere]\nprometheus = "http://127.0.0.1:9"\n')
    held = holding(tmp_path, Fleet())
    watch = NeighbourWatch(
        plan=held.plan, cluster=cluster, gateway=gateway, holding=held, config=path, clock=lambda: now[0]
    )
    assert watch.is_due()
    assert watch.look().unknown[0].startswith("whether a group on the same brokers is held up: ")
    assert not watch.is_due()
    now[0] = 16.0
    assert watch.is_due()

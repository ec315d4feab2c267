"""Members that the fleet file does not name: found by what is known of them, before and after the cutover."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.replay.test_rolling_cutover import Service
from workbench.errors import GuardError
from workbench.queues.snapshot_views import GroupView, Member
from workbench.replay.guard import ReplayLimits
from workbench.replay.members_outside_fleet import check_named, names_of_members, strangers
from workbench.replay.service_fleet import InstanceStatus, MemberStatus


def group_of(*clients: str) -> GroupView:
    """Members with these client ids."""
    members = tuple(
        Member(member_id=f"{at}", client_id=it, host="/10.0.0.1", partitions=()) for at, it in enumerate(clients)
    )
    return GroupView(group="old", state="stable", protocol="classic", coordinator=1, members=members)


def instance(name: str, *members: str) -> InstanceStatus:
    """An instance with consumers of these names."""
    return InstanceStatus(
        client_id=name, group="old", state="running", members=[MemberStatus(member=it) for it in members]
    )


@pytest.mark.parametrize(
    ("clients", "others"),
    [
        (["a-0", "a-1", "b-0"], []),
        (["a-0", "b-0"], []),  # one has not joined
        (["a-0", "a-1", "b-0", "c-0"], ["c-0"]),
        (["a-0", "a-0", "b-0"], ["a-0"]),  # a second process with the name of the first
        (["a", "a", "b"], []),  # all consumers of an instance have its name
        (["a", "a", "a", "b"], ["a"]),
        (["", "a-0"], [""]),  # without a client id
        (["ab-0"], ["ab-0"]),
    ],
)
def test_who_belongs_to_no_instance_is_a_stranger(clients: list[str], others: list[str]) -> None:
    """By client id and number: each consumer of an instance accounts for one member."""
    fleet = [instance("a", "a-0", "a-1"), instance("b", "b-0")]
    assert [it.client_id for it in strangers(group_of(*clients), fleet)] == others


@given(st.lists(st.sampled_from(["a-0", "a-1", "b-0", "c", ""]), max_size=8))
def test_no_more_members_than_the_fleet_has_are_its_own(clients: list[str]) -> None:
    """Whatever they are called."""
    found = strangers(group_of(*clients), [instance("a", "a-0", "a-1"), instance("b", "b-0")])
    assert len(found) >= len(clients) - 3
    assert all(it.client_id in clients for it in found)


def test_members_are_named_so_that_they_are_found() -> None:
    """Client id and host; many are cut."""
    assert names_of_members(group_of("", "x").members) == "without a client id (10.0.0.1) and x (10.0.0.1)"
    assert names_of_members(group_of(*map(str, range(12))).members).endswith("and 4 more")


def stay(service: Service, *, after: int = 0) -> None:
    """One more member, i9, in the old group; from a number of switches on."""
    show = service.fleet._show

    def shown() -> None:
        show()
        if len(service.fleet.switches) >= after:
            service.gateway.members.setdefault("old", []).append("i9")

    service.fleet._show = shown  # type: ignore[method-assign]
    shown()


def test_an_instance_that_the_file_lacks_stops_the_cutover_before_it_begins(tmp_path: Path) -> None:
    """It would take over all partitions of the old group; who accepts that is told all the same."""
    service = Service(tmp_path)
    stay(service)
    with pytest.raises(GuardError, match=r"1 member that the fleet file does not name: i9 \(h\)"):
        service.cutover().run()
    assert service.fleet.switches == []
    service.cutover(limits=ReplayLimits(allow_unnamed=True)).run()
    assert sum("i9" in line for line in service.said) == 2


@pytest.mark.parametrize("asked", [True, False])
def test_who_is_still_there_at_the_end_is_told(tmp_path: Path, asked: bool) -> None:
    """It joined meanwhile, or its fleet has no status: the fleet has switched, and it is not called done."""
    service = Service(tmp_path, asked=asked)
    stay(service, after=1 if asked else 0)
    with pytest.raises(
        GuardError, match=r"Every instance of the fleet file switched to 'new', but 'old' still has 1 member: i9"
    ) as caught:
        service.cutover().run()
    assert "--allow-unnamed" in (caught.value.hint or "")
    assert any("cannot be told: " in line for line in service.said) is not asked
    service.fleet._show = lambda: None  # type: ignore[method-assign]
    service.gateway.members.pop("old")
    service.cutover().run()  # once it is stopped, the same command is done


def test_members_that_leave_slowly_are_waited_for(tmp_path: Path) -> None:
    """A killed process is a member until its session has timed out."""
    service = Service(tmp_path)
    stay(service, after=5)
    sleep = service.sleep

    def sleeping(seconds: float) -> None:
        sleep(seconds)
        if service.now > 100:
            service.gateway.members.pop("old", None)

    service.cutover(sleep=sleeping).run()
    assert service.now > 100


def test_two_fleets_in_one_group_are_two(tmp_path: Path) -> None:
    """Also on the way back: the members of the other one would go on in the new group."""
    service = Service(tmp_path)
    service.cutover().run()
    service.gateway.members["new"].append("other-0")
    with pytest.raises(GuardError, match="other-0"):
        service.cutover(back=True).run()


def test_the_former_self_of_an_instance_is_waited_for(tmp_path: Path) -> None:
    """It was killed and is back: until its session has timed out, its client id is there twice. A second process stays."""
    service = Service(tmp_path)
    service.gateway.members["old"].append("i2")
    sleep = service.sleep

    def sleeping(seconds: float) -> None:
        sleep(seconds)
        if service.now > 40:
            service.gateway.members["old"] = [f"i{n}" for n in range(5)]

    check_named(service.cutover(sleep=sleeping), [service.fleet.status(f"i{n}") for n in range(5)])
    assert 40 < service.now < 60
    service.gateway.members["old"].append("i2")
    with pytest.raises(GuardError, match=r"1 member that the fleet file does not name: i2"):
        service.cutover().run()
    assert service.now > 180

"""What the old group reads and the plan does not cover: told, refused, or carried over, never abandoned."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.replay.fakes import now_ms, orders, plan_of, request
from tests.replay.test_rolling_cutover import Service
from workbench.errors import GuardError
from workbench.replay.guard import ReplayLimits
from workbench.replay.known_start import known_starts
from workbench.replay.receipt import Rollback, triples
from workbench.replay.retire import retire
from workbench.replay.rollback_of_apply import roll_back
from workbench.replay.unplanned_partitions import carried

PAYMENTS = ("payments", 0)


@pytest.fixture
def service(tmp_path: Path) -> Service:
    """The old group also reads a topic of which the plan says nothing, and is 60 messages behind there."""
    made = Service(tmp_path)
    made.gateway.records[PAYMENTS] = [(offset, now_ms()) for offset in range(100)]
    made.gateway.groups["old"][PAYMENTS] = 40
    return made


def partial(service: Service) -> None:
    """Plan one partition of four."""
    del service.gateway.records[PAYMENTS], service.gateway.groups["old"][PAYMENTS]
    service.plan = plan_of(service.gateway, request(partitions={"orders": [3]}))
    service.gateway.groups["new"] = dict(service.plan.targets)


def test_the_plan_warns_of_another_topic() -> None:
    """It names the partitions, and how to take them along."""
    gateway = orders()
    gateway.records[PAYMENTS] = [(0, now_ms())]
    gateway.groups["old"][PAYMENTS] = 0
    [warning] = [text for text in plan_of(gateway).warnings if "payments-0" in text]
    assert "--carry-others" in warning
    assert not any("--carry-others" in text for text in plan_of(orders()).warnings)


@pytest.mark.parametrize("outside", [{"starts": {PAYMENTS: 60}}, {"ends": {PAYMENTS: 30}}])
@pytest.mark.parametrize("was_carried", [False, True])
def test_a_place_outside_of_the_log_is_not_carried_over(
    service: Service, outside: dict[str, dict[tuple[str, int], int]], was_carried: bool
) -> None:
    """Retention is past it, or the log was cut: `auto.offset.reset` would decide. Also where an earlier run has carried it over."""
    for name, offsets in outside.items():
        getattr(service.gateway, name).update(offsets)
    if was_carried:
        service.gateway.groups["new"][PAYMENTS] = 40
    with pytest.raises(GuardError, match=r"outside of the log, the first on payments-0: committed 40"):
        service.cutover(carry_others=True).run()
    assert (service.fleet.switches, service.gateway.writes, service.journal.read()[0]) == ([], [], [])
    service.cutover(carry_others=True, limits=ReplayLimits(allow_gap=True)).run()
    assert set(service.fleet.groups.values()) == {"new"}


def test_a_place_in_a_log_that_does_not_answer_is_not_carried_over(service: Service) -> None:
    """Nobody can tell whether it lies within the log: `auto.offset.reset` might decide."""
    service.gateway.silent = {PAYMENTS}
    with pytest.raises(
        GuardError, match=r"payments-0: committed 40, and its log does not answer: .*Leader not available"
    ):
        service.cutover(carry_others=True).run()
    assert (service.fleet.switches, service.gateway.writes, service.journal.read()[0]) == ([], [], [])


def test_the_plan_warns_of_other_partitions() -> None:
    """A plan of one partition leaves three; so does a topic that is assigned and was never committed."""
    gateway = orders()
    plan = plan_of(gateway, request(partitions={"orders": [3]}))
    assert any("orders-0, orders-1 and orders-2" in text for text in plan.warnings)
    gateway.records[PAYMENTS] = []
    gateway.members["old"], gateway.assigned["old"] = ["a"], [PAYMENTS]
    assert any("payments-0" in text for text in plan_of(gateway).warnings)


def test_a_topic_that_is_deleted_is_not_warned_of() -> None:
    """Its commits may stay for a while; nobody can read it."""
    gateway = orders()
    gateway.groups["old"]["gone", 0] = 7
    assert not any("gone" in text for text in plan_of(gateway).warnings)


def test_a_cutover_refuses_to_abandon_a_topic(service: Service) -> None:
    """Nothing is touched; the message names the partition, the hint both ways on."""
    with pytest.raises(GuardError, match=r"'old' also reads payments-0") as caught:
        service.cutover().run()
    assert "--carry-others" in (caught.value.hint or "")
    assert service.fleet.switches == []
    assert service.gateway.writes == []
    assert service.journal.read()[0] == []


def test_a_cutover_refuses_to_abandon_partitions(service: Service) -> None:
    """Also those of a planned topic."""
    partial(service)
    with pytest.raises(GuardError, match=r"orders-0, orders-1 and orders-2"):
        service.cutover().run()
    assert service.fleet.switches == []


def test_what_the_plan_skips_is_abandoned_too(service: Service) -> None:
    """A planned partition without a target has no commit in the new group either, as long as the old one has."""
    partial(service)
    plan = service.plan
    [part] = plan.partitions
    skipped = part.model_copy(update={"target": None})
    service.plan = plan.model_copy(update={"partitions": [skipped]})
    service.gateway.groups["new"] = {}
    with pytest.raises(GuardError, match="also reads orders-0, orders-1, orders-2 and orders-3"):
        service.cutover().run()


def test_the_operator_may_leave_them(service: Service) -> None:
    """By the word that allows gaps, and by no other."""
    service.cutover(limits=ReplayLimits(allow_gap=True)).run()
    assert set(service.fleet.groups.values()) == {"new"}
    assert PAYMENTS not in service.gateway.groups["new"]


def test_they_are_carried_over_before_the_first_switch(service: Service) -> None:
    """The new group begins where the old one is; written between two lines of the journal, and read back."""
    seen: list[int | None] = []
    switch = service.fleet.switch
    service.fleet.switch = lambda name, **words: (  # type: ignore[method-assign]
        seen.append(service.gateway.groups["new"].get(PAYMENTS)), switch(name, **words)
    )[1]  # fmt: skip
    service.consume = False
    for part in service.gateway.records:
        service.gateway.groups["new"][part] = service.gateway.end(part)
    del service.gateway.groups["new"][PAYMENTS]
    service.gateway.groups["old"][PAYMENTS] = 100
    service.cutover(carry_others=True).run()
    assert seen == [100] * 5
    begin, end = service.journal.read()[0][:2]
    assert (begin.action, begin.phase, end.phase, end.outcome) == ("carry", "begin", "end", "done")
    assert end.changes == [(*PAYMENTS, None, 100, None)]
    assert any("payments-0" in line and "twice" in line for line in service.said)


def test_what_is_carried_is_not_carried_again(service: Service) -> None:
    """Run again with the new group ahead of the old one: that is its progress, no gap and nothing to write."""
    service.cutover(carry_others=True).run()
    writes = list(service.gateway.writes)
    assert service.gateway.groups["new"][PAYMENTS] == 100 > service.gateway.groups["old"][PAYMENTS]
    service.cutover(carry_others=True).run()
    assert service.gateway.writes == writes


def test_a_commit_of_the_new_group_behind_the_old_one_is_a_gap(service: Service) -> None:
    """It has one, but it begins after what the old group has done: between the two lies what nobody would process."""
    service.gateway.groups["new"][PAYMENTS] = 70
    with pytest.raises(GuardError, match=r"30 messages would be skipped: .* on payments-0"):
        service.cutover(carry_others=True).run()
    assert service.fleet.switches == []


@pytest.mark.parametrize("fault", ["refused", "members", "lost"])
def test_a_carry_that_is_not_read_back_stops_it(service: Service, fault: str) -> None:
    """The broker refuses it, somebody is in the group, or the answer was good and the commit is not there."""
    if fault == "refused":
        service.gateway.refuse[PAYMENTS] = "NOT_ENOUGH_REPLICAS"
    elif fault == "members":
        service.gateway.members["new"] = ["somebody"]
    else:
        service.gateway.commit = lambda group, offsets: {}  # type: ignore[method-assign]
    with pytest.raises(GuardError, match="payments-0"):
        service.cutover(carry_others=True).run()
    assert service.fleet.switches == []
    if fault != "members":
        assert service.journal.read()[0][-1].outcome == "failed"


@pytest.mark.parametrize("phase", ["begin", "end"])
def test_what_could_not_be_carried_is_no_start_of_the_new_group(service: Service, phase: str) -> None:
    """Its commit came by `auto.offset.reset`, ahead of the old one: what lies between is left to the old group alone."""
    service.gateway.refuse[PAYMENTS] = "NOT_ENOUGH_REPLICAS"
    with pytest.raises(GuardError, match="payments-0"):
        service.cutover(carry_others=True).run()
    if phase == "begin":  # killed before it knew
        lines = service.journal.path.read_text().splitlines(keepends=True)
        service.journal.path.write_text(lines[0])
    service.gateway.groups["new"][PAYMENTS] = 100
    with pytest.raises(GuardError, match=r"60 messages would be skipped: .* on payments-0"):
        service.cutover(carry_others=True).run()
    service.gateway.members.pop("old")
    with pytest.raises(GuardError, match="60 messages are left to 'old' alone, on payments-0"):
        retire(
            service.plan,
            service.journal.path.with_name("plan.json"),
            service.gateway,
            service.journal,
            stays=True,
            now_ms=0,
        )
    assert "old" in service.gateway.groups


def test_a_partition_without_any_commit_begins_at_the_end_of_its_empty_log(service: Service) -> None:
    """Members of the old group hold two that nobody has committed: the empty one has one place to begin, the other has none."""
    del service.gateway.groups["old"][PAYMENTS]
    service.gateway.assigned["old"] = [PAYMENTS]
    with pytest.raises(GuardError, match=r"payments-0: the old group has no commit there") as caught:
        service.cutover(carry_others=True).run()
    assert "--allow-gap" in (caught.value.hint or "")
    service.gateway.records[PAYMENTS] = []
    service.gateway.ends[PAYMENTS] = service.gateway.starts[PAYMENTS] = 100
    service.cutover(carry_others=True).run()
    assert service.gateway.groups["new"][PAYMENTS] == 100


def test_the_way_back_knows_what_was_carried(service: Service) -> None:
    """A carried offset is no progress of the group: the rollback needs no leave to give it up."""
    service.consume = False
    service.gateway.groups["old"][PAYMENTS] = 100
    rollback = Rollback(
        plan=service.plan.hash, cluster="c", cluster_id=service.plan.cluster_id, group="new", group_state="absent",
        written_at="", before=[], targets=triples(service.plan.targets),
    )  # fmt: skip
    service.fleet.failing.add("i0")
    with pytest.raises(GuardError, match="batch 1"):
        service.cutover(carry_others=True).run()
    assert service.gateway.groups["new"] == {**service.plan.targets, PAYMENTS: 100}
    assert not roll_back(rollback, service.gateway, service.journal, sleep=lambda _: None).failed
    assert "new" not in service.gateway.groups


def test_a_cutover_that_was_killed_after_it_carried_goes_on(service: Service) -> None:
    """What the group was begun at is told by the next run, which reads it back: its progress since is no gap."""
    service.fleet.failing.add("i0")
    with pytest.raises(GuardError, match="batch 1"):
        service.cutover(carry_others=True).run()
    lines = [it for it in service.journal.read()[0] if it.action == "carry"]
    service.journal.path.write_text(lines[0].model_dump_json(by_alias=True) + "\n")  # killed before its end
    service.fleet.failing.clear()
    service.cutover().run()
    service.gateway.groups["new"][PAYMENTS] = 90
    service.cutover().run()
    assert carried(service.plan.hash, service.journal, surely=True) == {PAYMENTS: 40}


def test_a_cutover_tells_where_a_killed_apply_has_begun(service: Service) -> None:
    """The offsets stand as planned when it reads them; once the group has moved on, nobody could tell any more."""
    plan = service.plan
    changes = [(*key, None, at, None) for key, at in plan.targets.items()]
    service.journal.append(
        plan=plan.hash, cluster_id=plan.cluster_id, group="new", action="apply", phase="begin", changes=changes
    )
    service.cutover(carry_others=True).run()
    assert known_starts(plan, Path(), service.journal) == set(plan.targets)

"""The rolling change on a fleet in memory: order, health gates, stops, and going on where it was cut off."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.replay.fakes import FakeGateway, killed_before_its_last_line, orders, plan_of, request
from workbench.errors import GuardError, NoAnswerError, SourceUnreachableError
from workbench.plans.journal import Journal, only_one
from workbench.queues.snapshot_views import Partition
from workbench.replay.apply import ApplyOptions, apply_plan
from workbench.replay.guard import ReplayLimits
from workbench.replay.plan_of_given_ranges import make_range_plan
from workbench.replay.planfile import Plan
from workbench.replay.receipt import Rollback, triples
from workbench.replay.rollback_of_apply import roll_back
from workbench.replay.rolling_cutover import Cutover, Look, batches, lag_is_growing
from workbench.replay.service_fleet import Capabilities, Commands, FleetFile, InstanceStatus, MemberStatus


@dataclass
class FakeFleet:
    """Instances that go where they are told, if nothing is wrong with them; each is one member."""

    gateway: FakeGateway
    groups: dict[str, str]
    asked: bool = True  # whether it can be asked for its status
    dead: set[str] = field(default_factory=set)
    stubborn: set[str] = field(default_factory=set)  # accept, and stay
    failing: set[str] = field(default_factory=set)  # do not accept
    late: dict[str, list[bool]] = field(default_factory=dict)  # answer too late: whether each order takes effect
    switches: list[tuple[str, str]] = field(default_factory=list)
    rebalances: int = 0
    states: dict[str, str] = field(default_factory=dict)  # if not running
    on_status: Callable[[], None] = lambda: None
    can: Capabilities = field(default_factory=lambda: Capabilities(keeps_group=True))

    def __post_init__(self) -> None:
        self._show()

    @property
    def instances(self) -> list[str]:
        return list(self.groups)

    def _show(self) -> None:
        self.gateway.members.clear()
        for name, group in self.groups.items():
            if name not in self.dead:
                self.gateway.members.setdefault(group, []).append(name)

    def status(self, instance: str) -> InstanceStatus | None:
        self.on_status()
        if not self.asked:
            return None
        if instance in self.dead:
            raise SourceUnreachableError(f"The instance {instance} does not answer: refused.")
        members = [MemberStatus(member=f"{instance}-0")]
        return InstanceStatus(
            client_id=instance,
            group=self.groups[instance],
            state=self.states.get(instance, "running"),
            rebalances=self.rebalances,
            members=members,
        )

    def switch(self, instance: str, *, group: str, old_group: str, since: str) -> None:
        self.switches.append((instance, group))
        if instance in self.failing:
            raise SourceUnreachableError(f"The instance {instance} does not answer: refused.")
        late = self.late.get(instance)
        heeded = late.pop(0) if late else True
        if instance not in self.stubborn and heeded:
            self.groups[instance] = group
        self._show()
        if late is not None:
            raise NoAnswerError(f"The instance {instance} does not answer: no answer in time.")

    def healthy(self, instance: str, *, group: str) -> bool:
        return True


class Service:
    """A plan that is applied, five instances in the old group, and a clock that runs when somebody sleeps."""

    def __init__(self, folder: Path, *, instances: int = 5, batch_size: int = 2, asked: bool = True) -> None:
        self.gateway = orders()
        self.plan: Plan = plan_of(self.gateway)
        self.gateway.groups["new"] = dict(self.plan.targets)
        self.fleet = FakeFleet(self.gateway, {f"i{n}": "old" for n in range(instances)}, asked)
        names = [f"http://i{n}" for n in range(instances)]
        commands = {} if asked else {"command": Commands(switch=["x"])}
        self.file = FleetFile(kind="http" if asked else "command", instances=names, batch_size=batch_size, **commands)  # type: ignore[arg-type]
        self.journal = Journal(path=folder / "journal.jsonl")
        self.said: list[str] = []
        self.now = 0.0
        self.consume = True

    def cutover(self, **changes: Any) -> Cutover:
        """The change of group, ready to run."""
        fields = {
            "plan": self.plan, "fleet": self.fleet, "file": self.file, "gateway": self.gateway, "journal": self.journal,
            "say": self.said.append, "sleep": self.sleep, "clock": lambda: self.now, "count_records": self.count,
        }  # fmt: skip
        return Cutover(**{**fields, **changes})

    def count(self, ranges: Any) -> dict[Partition, int]:
        """Records in offset ranges."""
        return {
            key: sum(start <= offset < stop for offset, _ in self.gateway.records[key])
            for key, (start, stop) in ranges.items()
        }

    def sleep(self, seconds: float) -> None:
        """Time passes; who consumes catches up."""
        self.now += max(seconds, 0.1)
        if self.consume:
            for part in self.gateway.groups["new"]:
                self.gateway.groups["new"][part] = self.gateway.end(part)


@pytest.fixture
def service(tmp_path: Path) -> Service:
    """Five instances, batches of two."""
    return Service(tmp_path)


def test_an_instance_that_another_plan_switches_meanwhile_is_left_there(service: Service) -> None:
    """Two plans onto one fleet would take its instances from each other; on this machine the second does not begin."""
    service.fleet.on_status = lambda: service.fleet.groups.update(i1="other") if service.fleet.switches else None
    with pytest.raises(GuardError, match="i1 is in the group 'other', which is not in the plan"):
        service.cutover().run()
    assert service.fleet.switches == [("i0", "new")]
    with only_one("old"), pytest.raises(GuardError, match="Another process is changing the group 'old'"):
        service.cutover().run()


def test_one_first_then_batches(service: Service) -> None:
    """i0 alone, then two and two; each switch stands twice in the journal."""
    service.cutover().run()
    assert service.fleet.switches == [(f"i{n}", "new") for n in range(5)]
    assert [line for line in service.said if line.startswith("Batch")][::2] == [
        "Batch 1 of 3: i0 → new", "Batch 2 of 3: i1 and i2 → new", "Batch 3 of 3: i3 and i4 → new",
    ]  # fmt: skip
    entries = service.journal.read()[0]
    assert [(entry.target, entry.phase) for entry in entries] == [
        (f"i{n}", phase) for n in range(5) for phase in ("begin", "end")
    ]


def test_back_again(service: Service) -> None:
    """The same way into the old group, also while the new one is beyond the plan."""
    service.cutover().run()
    service.fleet.switches.clear()
    service.cutover(back=True).run()
    assert set(service.fleet.groups.values()) == {"old"}
    assert len(service.fleet.switches) == 5


def test_a_switch_that_was_killed_before_it_told_so_is_told_by_the_next_run(service: Service) -> None:
    """The instance is in the group: the journal must not end with an interruption for good."""
    service.cutover().run()
    killed_before_its_last_line(service.journal)
    for _ in range(2):
        service.cutover().run()
    lines = [(it.target, it.phase) for it in service.journal.read()[0]]
    assert lines == [(f"i{n}", phase) for n in range(5) for phase in ("begin", "end")]


def test_what_the_old_group_reads_and_never_committed_would_be_skipped(service: Service) -> None:
    """It holds the partition, and its first record is not processed: everything before the start of the window is left to it."""
    del service.gateway.groups["old"]["orders", 3]
    service.gateway.members["old"], service.gateway.assigned["old"] = ["i0-0"], [("orders", 3)]
    with pytest.raises(GuardError, match=r"5 messages would be skipped: 'old' has not committed .* on orders-3"):
        service.cutover().run()
    assert service.fleet.switches == []


def test_without_the_plan_applied_nothing_is_touched(service: Service) -> None:
    """One partition without its commit is enough; so are a strange group, a silent instance, missing replicas."""
    del service.gateway.groups["new"]["orders", 3]
    with pytest.raises(GuardError, match="not applied"):
        service.cutover().run()
    service.gateway.groups["new"] = dict(service.plan.targets)
    service.fleet.groups["i4"] = "another"
    with pytest.raises(GuardError, match="'another', which is not in the plan"):
        service.cutover().run()
    service.fleet.groups["i4"] = "old"
    service.fleet.dead = {"i4"}
    with pytest.raises(SourceUnreachableError, match="i4"):
        service.cutover().run()
    service.fleet.dead = set()
    service.gateway.under_replicated = (("orders", 0),)
    with pytest.raises(GuardError, match="lack a replica"):
        service.cutover().run()
    assert service.fleet.switches == []
    assert service.journal.read()[0] == []


def test_what_nobody_would_process_is_not_left_behind(service: Service) -> None:
    """The old group lags behind the targets: between the two lie messages that neither group would process."""
    part = ("orders", 1)
    service.gateway.groups["old"][part] = service.plan.targets[part] - 2
    with pytest.raises(GuardError, match=r"2 messages would be skipped: .* on orders-1"):
        service.cutover().run()
    assert service.fleet.switches == []
    service.cutover(limits=ReplayLimits(allow_gap=True)).run()
    assert set(service.fleet.groups.values()) == {"new"}


@pytest.mark.parametrize("fault", ["failing", "stubborn"])
def test_it_stops_at_the_batch_that_does_not_come_back(service: Service, fault: str) -> None:
    """Later ones are not touched; the message says which, why, and the way back; run again it goes on from there."""
    getattr(service.fleet, fault).add("i2")
    with pytest.raises(GuardError, match="batch 2 of 3") as caught:
        service.cutover().run()
    assert "i2" in caught.value.message
    assert "--back" in (caught.value.hint or "")
    assert [name for name, _ in service.fleet.switches] == ["i0", "i1", "i2"]
    getattr(service.fleet, fault).clear()
    service.fleet.switches.clear()
    service.cutover().run()
    assert [name for name, _ in service.fleet.switches] == ["i2", "i3", "i4"]


def test_an_order_that_is_under_way_is_not_given_again(service: Service) -> None:
    """The run that gave it was cut off; the instance arrives in the new group by itself, and is only looked at."""
    service.fleet.states["i1"] = "switching"

    def arrive() -> None:
        if service.now > 10:
            service.fleet.states.clear()
            service.fleet.groups["i1"] = "new"
            service.fleet._show()

    service.fleet.on_status = arrive
    service.cutover().run()
    assert [name for name, _ in service.fleet.switches] == ["i0", "i2", "i3", "i4"]


def test_lag_that_grows_stops_it(service: Service) -> None:
    """All are there, but nobody commits while records come in."""
    service.consume = False

    def produce() -> None:
        for log in service.gateway.records.values():
            log.append((log[-1][0] + 1, log[-1][1] + 1))

    service.fleet.on_status = produce
    with pytest.raises(
        GuardError, match=r"lag of 'new' is growing on orders-0: it consumed 0 messages .*; and 3 partitions more"
    ):
        service.cutover().run()
    assert [name for name, _ in service.fleet.switches] == ["i0"]


def test_a_rebalance_storm_stops_it(service: Service) -> None:
    """The members are there, but the group is assigned anew again and again."""

    def rebalance() -> None:
        service.fleet.rebalances += 1

    service.fleet.on_status = rebalance
    with pytest.raises(GuardError, match="rebalance storm"):
        service.cutover().run()


@pytest.mark.parametrize("asked", [True, False])
@given(cut=st.integers(1, 12))
def test_cut_off_anywhere_it_goes_on(tmp_path_factory: pytest.TempPathFactory, asked: bool, cut: int) -> None:
    """Killed at the n-th line of the journal, run again: all are over, and none that was surely over is restarted."""
    service = Service(tmp_path_factory.mktemp("cut"), asked=asked)
    written: list[str] = []

    class Dying(Journal):
        def append(self, **fields: Any) -> Any:
            if len(written) == cut:
                raise KeyboardInterrupt
            written.append(fields["phase"])
            return Journal.append(self, **fields)

    try:
        service.cutover(journal=Dying(path=service.journal.path)).run()
    except KeyboardInterrupt:
        service.cutover().run()
    assert set(service.fleet.groups.values()) == {"new"}
    switched = [name for name, _ in service.fleet.switches]
    assert sorted(set(switched)) == [f"i{n}" for n in range(5)]
    assert len(switched) <= 6, "only the one that was cut off may be switched twice"


@given(st.integers(1, 30), st.integers(1, 10))
def test_batches_cover_every_instance_once(instances: int, size: int) -> None:
    """In order, the first alone, none larger than asked."""
    names = [str(number) for number in range(instances)]
    waves = batches(names, size)
    assert [name for wave in waves for name in wave] == names
    assert len(waves[0]) == 1
    assert all(1 <= len(wave) <= size for wave in waves[1:])


@pytest.mark.parametrize(
    ("consumed", "produced", "lag", "share", "grows"),
    [
        (100, 100, 50, 1.0, False),
        (50, 100, 50, 1.0, True),
        (50, 100, 50, 0.5, False),  # half of the fleet need not keep up with all
        (0, 0, 0, 1.0, False),
        (0, 0, 50, 1.0, True),  # there is work, and nobody does it
        (0, 100, 100, 0.1, True),
        (1000, 100, 5000, 1.0, False),
    ],
)
def test_what_growing_lag_is(consumed: int, produced: int, lag: int, share: float, grows: bool) -> None:
    """Consumption is held against production, in proportion to how much of the fleet is over."""
    part = ("t", 0)
    end = 10_000
    last = Look(waiting=None, members=frozenset(), rebalances=0, commits={part: end - lag}, ends={part: end})
    first = Look(
        waiting=None,
        members=frozenset(),
        rebalances=0,
        commits={part: end - lag - consumed},
        ends={part: end - produced},
    )
    assert bool(lag_is_growing(first, last, share=share, tolerance=0.1)) is grows


DEAD = ("orders", 2)


def busy(service: Service, *, but: Partition | None = None, every: int = 1) -> None:
    """Records come in at every look, and all but one partition are consumed, by turns."""
    looks = [0]
    service.consume = False

    def on_status() -> None:
        looks[0] += 1
        new = service.gateway.groups["new"]
        for at, (key, log) in enumerate(service.gateway.records.items()):
            log.append((log[-1][0] + 1, log[-1][1] + 1))
            if key != but and looks[0] % every == at % every:
                new[key] = service.gateway.end(key)

    service.fleet.on_status = on_status


def test_one_dead_partition_among_busy_ones_stops_it(service: Service) -> None:
    """Each is judged for itself: thousands of messages of the others do not make up for one that nobody reads."""
    busy(service, but=DEAD)
    with pytest.raises(GuardError, match="lag of 'new' is growing on orders-2: it consumed 0 messages"):
        service.cutover().run()
    assert [name for name, _ in service.fleet.switches] == ["i0"]


def test_one_partition_is_seen_in_the_sum_of_two() -> None:
    """The figures at which the sum was content."""
    first = Look(
        waiting=None, members=frozenset(), rebalances=0, commits={("t", 0): 0, ("t", 1): 0}, ends={("t", 0): 9000, ("t", 1): 5000}
    )  # fmt: skip
    last = Look(
        waiting=None, members=frozenset(), rebalances=0, commits={("t", 0): 8000, ("t", 1): 0}, ends={("t", 0): 9100, ("t", 1): 5100}
    )  # fmt: skip
    assert set(lag_is_growing(first, last, share=1.0, tolerance=0.1)) == {("t", 1)}


def test_a_partition_without_any_commit_is_a_dead_one_once_records_come_in() -> None:
    """Before that nobody can tell."""
    first = Look(waiting=None, members=frozenset(), rebalances=0, commits={}, ends={("t", 0): 5})
    last = Look(waiting=None, members=frozenset(), rebalances=0, commits={}, ends={("t", 0): 6})
    assert set(lag_is_growing(first, last, share=1.0, tolerance=0.1)) == {("t", 0)}
    assert lag_is_growing(first, first, share=1.0, tolerance=0.1) == {}


def test_commits_that_come_by_turns_are_enough(service: Service) -> None:
    """Each partition commits at every eleventh look, rarer than the group is watched: all of them show in time that they are read."""
    busy(service, every=55)
    service.file = service.file.model_copy(
        update={"health": service.file.health.model_copy(update={"settle_seconds": 1.0})}
    )
    service.cutover().run()
    assert set(service.fleet.groups.values()) == {"new"}


def test_a_rest_of_markers_is_no_lag(service: Service) -> None:
    """The commit stays short of the end by what holds no record; one record among it, and it is a dead partition."""
    service.consume = False
    for part in service.gateway.records:
        service.gateway.groups["new"][part] = 10
        service.gateway.ends[part] = 12
    service.cutover().run()
    assert set(service.fleet.groups.values()) == {"new"}


def test_a_rest_that_cannot_be_read_is_lag(service: Service) -> None:
    """It may hold records."""

    def unreadable(_ranges: Any) -> dict[Partition, int]:
        raise SourceUnreachableError("Topic authorization failed.")

    service.consume = False
    for part in service.gateway.records:
        service.gateway.groups["new"][part] = 10
    service.gateway.ends[DEAD] = 12
    with pytest.raises(GuardError, match="is growing on orders-2"):
        service.cutover(count_records=unreadable).run()


def test_an_open_transaction_is_no_lag(service: Service) -> None:
    """No consumer of committed records gets beyond its beginning."""
    service.consume = False
    service.gateway.stable[DEAD] = 7
    for part in service.gateway.records:
        service.gateway.groups["new"][part] = 7 if part == DEAD else 10
    service.cutover().run()
    assert set(service.fleet.groups.values()) == {"new"}


def test_what_the_fleet_reads_beyond_the_plan_is_watched_too(service: Service) -> None:
    """Carried over, and then nobody reads it."""
    part = ("payments", 0)
    service.gateway.records[part] = [(0, 1), (1, 2)]
    service.gateway.groups["old"][part] = 1
    busy(service, but=part)
    with pytest.raises(GuardError, match="is growing on payments-0"):
        service.cutover(carry_others=True).run()


@pytest.mark.parametrize("how", ["by its id", "by its end"])
@pytest.mark.parametrize("back", [False, True])
def test_a_log_that_was_made_anew_stops_it_both_ways(service: Service, how: str, back: bool) -> None:
    """The commits of either group mean nothing in it."""
    if how == "by its id":
        service.gateway.topic_ids["orders"] = "another id"
    else:
        service.gateway.records["orders", 2] = service.gateway.records["orders", 2][:7]
    with pytest.raises(GuardError, match="recreated"):
        service.cutover(back=back).run()
    assert service.fleet.switches == []


def test_nothing_else_changes_the_group_meanwhile(service: Service, tmp_path: Path) -> None:
    """Rollback and apply take the lock of the cutover; before the first instance has joined no member would stop them."""
    path = tmp_path / "plan.json"
    rollback = Rollback(
        plan=service.plan.hash, cluster="c", cluster_id=service.plan.cluster_id, group="new", group_state="absent",
        written_at="", before=[], targets=triples(service.plan.targets),
    )  # fmt: skip
    refused: list[str] = []
    switch = service.fleet.switch

    def interfere(instance: str, **words: str) -> None:
        for other in (
            lambda: roll_back(rollback, service.gateway, service.journal, sleep=lambda _: None),
            lambda: apply_plan(service.plan, path, service.gateway, service.journal, ApplyOptions()),
        ):
            with pytest.raises(GuardError) as caught:
                other()
            refused.append(caught.value.message)
        switch(instance, **words)

    service.fleet.switch = interfere  # type: ignore[method-assign]
    service.cutover().run()
    assert set(refused) == {"Another process is changing the group 'new' now."}
    assert len(refused) == 10


@pytest.mark.parametrize("gone", ["all of them", "one of them"])
def test_the_way_back_asks_whether_the_old_commits_still_exist(service: Service, gone: str) -> None:
    """They expire in a group that nobody is in; without one the instances would skip what came since, or read all of it."""
    service.cutover().run()
    service.fleet.switches.clear()
    kept = {} if gone == "all of them" else {key: 10 for key in service.plan.targets if key != ("orders", 2)}
    service.gateway.groups["old"] = kept
    with pytest.raises(GuardError, match=r"'old' has no commit on .*orders-2.* any more") as caught:
        service.cutover(back=True).run()
    assert "--allow-gap" in (caught.value.hint or "")
    assert service.fleet.switches == []
    service.cutover(back=True, limits=ReplayLimits(allow_gap=True)).run()
    assert set(service.fleet.groups.values()) == {"old"}


def test_the_way_back_looks_at_what_was_never_committed_before(service: Service) -> None:
    """The plan knew no commit of the old group there, but the new one has gone on: going back would skip or repeat it."""
    part = ("orders", 1)
    del service.gateway.groups["old"][part]
    service.plan = plan_of(service.gateway)
    service.cutover().run()
    with pytest.raises(GuardError, match="orders-1"):
        service.cutover(back=True).run()


@pytest.mark.parametrize("back", [False, True])
def test_a_commit_that_retention_has_overtaken_stops_it(service: Service, back: bool) -> None:
    """It lies before the log's start: `auto.offset.reset` would decide where to go on."""
    service.gateway.groups["old"] = dict.fromkeys(service.plan.targets, 5)
    service.gateway.starts["orders", 0] = 8
    with pytest.raises(
        GuardError, match=r"are outside of the log, the first on orders-0: committed 5, the log has 8 to 10"
    ):
        service.cutover(back=back).run()
    assert service.fleet.switches == []


def ends(service: Service, instance: str) -> list[str | None]:
    """How each order to an instance ended, by the journal."""
    return [entry.outcome for entry in service.journal.read()[0] if entry.target == instance and entry.phase == "end"]


def test_an_order_without_an_answer_is_asked_about(service: Service) -> None:
    """It took effect: the instance is in the group, and is not restarted once more."""
    service.fleet.late["i1"] = [True]
    service.cutover().run()
    assert [name for name, _ in service.fleet.switches].count("i1") == 1
    assert ends(service, "i1") == ["done"]


def test_an_order_that_was_lost_is_given_again(service: Service) -> None:
    """No answer, and the instance is where it was: unknown, told again, done."""
    service.fleet.late["i1"] = [False, True]
    service.cutover().run()
    assert [name for name, _ in service.fleet.switches].count("i1") == 2
    assert ends(service, "i1") == ["unknown", "done"]
    assert set(service.fleet.groups.values()) == {"new"}


def test_an_order_that_nobody_answers_is_unknown_and_not_failed(service: Service) -> None:
    """After the second one it stops; the journal does not say what nobody knows. Run again, it goes on from where the instance is."""
    service.fleet.late["i1"] = [False, False]
    with pytest.raises(GuardError, match="no answer in time"):
        service.cutover().run()
    assert ends(service, "i1") == ["unknown", "unknown"]
    service.fleet.late.clear()
    service.fleet.groups["i1"] = "new"  # the order took effect later
    service.fleet._show()
    service.cutover().run()
    assert [name for name, _ in service.fleet.switches].count("i1") == 2


def test_an_instance_that_cannot_be_asked_is_told_again(tmp_path: Path) -> None:
    """Its command has no end in time; commands bear repetition."""
    service = Service(tmp_path, asked=False)
    service.fleet.late["i0"] = [True]
    service.fleet.switch = _once(service.fleet)  # type: ignore[method-assign]
    service.cutover().run()
    assert ends(service, "i0") == ["unknown", "done"]


@pytest.mark.parametrize("asked", [True, False])
def test_an_instance_that_is_started_again_in_the_old_group_is_switched_by_the_next_run(
    tmp_path: Path, *, asked: bool
) -> None:
    """A supervisor does that. It is seen, all that may be meant are named, and the command goes on when it is repeated."""
    service = Service(tmp_path, asked=asked)
    switch = service.fleet.switch

    def order(instance: str, **words: str) -> None:
        switch(instance, **words)
        if instance == "i2" and service.fleet.switches.count(("i0", "new")) == 1:
            service.fleet.groups["i0"] = "old"
            service.fleet._show()

    service.fleet.switch = order  # type: ignore[method-assign]
    seen = "i0 is running in 'old'" if asked else "2 of 3 members are in the group 'new'"
    with pytest.raises(GuardError, match=f"stopped in batch 2 of 3: .*{seen}") as caught:
        service.cutover().run()
    assert "Check i0, i1 and i2" in (caught.value.hint or "")
    service.cutover().run()
    assert set(service.fleet.groups.values()) == {"new"}


def _once(fleet: FakeFleet) -> Callable[..., None]:
    """Late at the first order only."""
    switch = fleet.switch

    def order(instance: str, **words: str) -> None:
        try:
            switch(instance, **words)
        finally:
            fleet.late.pop(instance, None)

    return order


def test_an_instance_that_restarts_is_waited_for(service: Service) -> None:
    """No answer to the order, nor to the first questions: it arrives in the group, and was told once."""
    service.fleet.late["i1"] = [True]

    def on_status() -> None:
        told = any(name == "i1" for name, _ in service.fleet.switches)
        service.fleet.dead = {"i1"} if told and service.now < 60 else set()
        service.fleet._show()

    service.fleet.on_status = on_status
    service.cutover().run()
    assert [name for name, _ in service.fleet.switches].count("i1") == 1
    assert ends(service, "i1") == ["done"]


def test_the_way_back_asks_only_for_what_the_fleet_reads(service: Service) -> None:
    """The new group was used before, for another topic: its commit there is no concern of the old group, and a carried one is."""
    service.gateway.records["other", 0] = [(0, 1)]
    service.gateway.groups["new"]["other", 0] = 1
    service.cutover().run()
    for name in service.fleet.groups:
        service.fleet.groups[name] = "old"
    service.fleet._show()
    service.cutover(back=True).run()
    service.journal.append(
        plan=service.plan.hash, cluster_id="c", group="new", action="carry", phase="begin", changes=[("other", 0, None, 1, None)]
    )  # fmt: skip
    with pytest.raises(GuardError, match="other-0"):
        service.cutover(back=True).run()


@pytest.mark.parametrize("stops", [True, False])
def test_the_end_of_the_ranges_is_the_end_of_the_work(service: Service, stops: bool) -> None:
    """Instances that stop there have no lag that grows, while records come in behind; others must keep up with the log."""
    gateway = service.gateway
    gateway.groups = {"old": dict.fromkeys(gateway.records, 10)}
    service.plan = make_range_plan(request(), gateway, ranges={key: [(2, 6)] for key in gateway.records})
    gateway.groups["new"] = dict(service.plan.targets)
    service.fleet.can = Capabilities(keeps_group=True, stops_at_ranges=stops)
    service.consume = False

    def on_status() -> None:
        for key, log in gateway.records.items():
            log.append((log[-1][0] + 1, log[-1][1] + 1))
            if "new" in service.fleet.groups.values():
                gateway.groups["new"][key] = 6

    service.fleet.on_status = on_status
    cutover = service.cutover(limits=ReplayLimits(allow_beyond=True))
    if stops:
        cutover.run()
        assert set(service.fleet.groups.values()) == {"new"}
    else:
        with pytest.raises(GuardError, match="lag of 'new' is growing"):
            cutover.run()


def test_ranges_that_nobody_processes_stop_it(service: Service) -> None:
    """The end of the work lies at the ranges' end, and it is not reached."""
    gateway = service.gateway
    gateway.groups = {"old": dict.fromkeys(gateway.records, 10)}
    service.plan = make_range_plan(request(), gateway, ranges={key: [(2, 6)] for key in gateway.records})
    gateway.groups["new"] = dict(service.plan.targets)
    service.fleet.can = Capabilities(keeps_group=True, stops_at_ranges=True)
    service.consume = False
    with pytest.raises(GuardError, match="consumed 0 messages while 0 were produced, and is 4 behind"):
        service.cutover().run()

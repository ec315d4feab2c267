"""Members that join after the lag began, uneven assignments, and members without a partition: none of them is taken for the cause."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.triage.made import made, subscription
from workbench.features.subscription_measurements import (
    MemberFeatures,
    PartitionFeatures,
    ProcessorFeatures,
    QueueFeatures,
)
from workbench.thresholds import Thresholds
from workbench.triage import capacity
from workbench.triage.action_subject import Subject
from workbench.triage.facts.reasons_within_verdict import STORM_CAUSES
from workbench.triage.operand import first_of
from workbench.triage.question_order import TREE
from workbench.triage.question_types import Rule, deciding
from workbench.triage.rank_candidate_causes import likeliest_first
from workbench.triage.verdict_leaves import leaf_of
from workbench.triage.verdict_names import Answer, Verdict


def rebalancing(**known: Any) -> str:
    """The rule that answers the question about rebalances."""
    row = subscription(limits=Thresholds(), rebalances=6.0, **known)
    return deciding(TREE["rebalancing"].rules, row).id


@pytest.mark.parametrize(
    ("known", "rule"),
    [
        ({}, "often"),
        ({"works_on": True}, "often"),
        ({"works_on": True, "loop_busy": 1.0}, "often"),
        ({"surely_hot": True}, "often"),
        ({"added_members": 2}, "often"),
        ({"added_members": 3}, "added"),
        ({"added_members": 6}, "added"),
        ({"added_members": 6, "rejoining": True}, "rejoining"),
    ],
)
def test_members_that_are_added_make_rebalances(known: dict[str, Any], rule: str) -> None:
    """One each, or two if they keep what they can. That handlers are busy or much arrives says nothing of rebalances."""
    assert rebalancing(**known) == rule


@pytest.mark.parametrize(
    ("known", "rule"),
    [
        ({"new_members": ("d", "e"), "gone_members": ("a", "b")}, "rollout"),
        ({"new_members": ("d", "e"), "gone_members": ("a", "b"), "rejoining": True}, "rollout"),
        ({"restarted_members": ("a", "b"), "most_restarts": 1}, "rollout"),
        ({"restarted_members": ("a", "b"), "most_restarts": 1, "median_slow_down": 1.5}, "rollout"),
        ({"restarted_members": ("a", "b"), "most_restarts": 1, "median_slow_down": 1.05}, "often"),
        ({"restarted_members": ("a", "b"), "most_restarts": 2}, "often"),
        ({"restarted_members": ("a", "b"), "most_restarts": 2, "rejoining": True}, "rejoining"),
        ({"new_members": ("d", "e"), "gone_members": ("a", "b", "d"), "passing_members": 1}, "often"),
        ({"new_members": ("d",), "gone_members": ("a",)}, "often"),
        ({"new_members": ("d", "e")}, "often"),
    ],
)
def test_a_rollout_that_goes_on_is_no_storm_yet(known: dict[str, Any], rule: str) -> None:
    """It replaces each member once, and ends; a storm has the same ones again, or new ones that go again.

    Where the handlers of the new ones take as long as those of before, it is the rollout that holds the group up.
    """
    known = {"restarted_members": (), "new_members": (), "gone_members": (), "passing_members": 0, **known}
    row = subscription(limits=Thresholds(), rebalances=9.0, **known)
    del vars(row)["replaced_members"], vars(row)["rollout"], vars(row)["handlers_as_before"]
    found = deciding(TREE["rebalancing"].rules, row)
    assert (found.id, found.answer is Answer.CANNOT_TELL) == (rule, rule == "rollout")


def lives(*each: tuple[float, float | None]) -> tuple[MemberFeatures, ...]:
    """Members that the baseline did not have, from their first to their last sample in the window; None: they are still there."""
    return tuple(
        made(
            MemberFeatures,
            member=f"n{number}",
            in_baseline=False,
            first_seconds=first,
            last_seconds=last or 0.0,
            live=last is None,
        )
        for number, (first, last) in enumerate(each)
    )


def old(count: int) -> tuple[MemberFeatures, ...]:
    """Members of the good time that have gone in the window."""
    return tuple(
        made(MemberFeatures, member=f"o{it}", in_baseline=True, last_seconds=-700.0, live=False) for it in range(count)
    )


@pytest.mark.parametrize(
    ("members", "before", "rule"),
    [
        # A rollout and the next one, or one that is taken back, also half-way; and one after which a node is drained.
        (
            (*old(4), *lives(*((-600.0 + 20 * it, -200.0 + 20 * it) for it in range(4)), *((-180.0, None),) * 4)),
            4,
            "rollout",
        ),
        ((*old(2), *lives((-600.0, -100.0), (-500.0, -60.0), (-90.0, None), (-50.0, None))), 4, "rollout"),
        (
            (*old(6), *lives((-400.0, -60.0), (-390.0, -50.0), *((-380.0, None),) * 4, (-40.0, None), (-30.0, None))),
            6,
            "rollout",
        ),
        # Half of the members and less, twice: whoever they are, a rollout reaches all.
        ((*old(2), *lives((-600.0, -100.0), (-500.0, -60.0), (-90.0, None), (-50.0, None))), 12, "often"),
        # A third time; and one place, again and again.
        (
            (*old(3), *lives(*((at, at + 50.0) for at in (-600.0, -500.0) for _ in range(3)), *((-40.0, None),) * 3)),
            3,
            "often",
        ),
        ((*old(1), *lives((-600.0, -500.0), (-400.0, -300.0), (-200.0, -100.0), (-50.0, None))), 4, "passing"),
        # When they came is not known: they may have come one after another.
        ((*old(3), *lives(*((None, -300.0),) * 3, *((-40.0, None),) * 3)), 3, "passing"),
    ],
)
def test_members_that_are_replaced_twice_are_two_rollouts_or_not_yet_a_storm(
    members: tuple[MemberFeatures, ...], before: int, rule: str
) -> None:
    """Those that lived together had a place each. A crash loop has one after another, a third time, whatever their names."""
    row = subscription(limits=Thresholds(), rebalances=9.0, members=members, baseline_members=before)
    for name in (
        "new_members",
        "gone_members",
        "passing_members",
        "passing_rounds",
        "restarted_members",
        "replaced_members",
        "rollout",
    ):
        vars(row).pop(name, None)
    assert deciding(TREE["rebalancing"].rules, row).id == rule


@pytest.mark.parametrize(
    ("before", "live", "rule"),
    [
        (0, 20, "often"),
        (0, 5, "often"),
        (0, 4, "rollout"),
        (4, 4, "rollout"),
        (4, 20, "often"),
        (20, 4, "often"),
        (0, 0, "often"),
        (0, None, "often"),
        (None, None, "often"),
    ],
)
def test_two_members_that_start_anew_twice_are_a_rollout_only_if_they_are_half_of_all(
    before: int | None, live: int | None, rule: str
) -> None:
    """Of all that there are, or were: without a good time to compare with, nobody is no measure."""
    known: dict[str, Any] = {"restarted_members": ("a", "b"), "most_restarts": 2, "gone_members": (), "new_members": ()}
    known |= {"baseline_members": before, "live_members": live, "passing_members": 0, "passing_rounds": 0}
    row = subscription(limits=Thresholds(), rebalances=9.0, **known)
    for name in ("replaced_members", "rollout"):
        vars(row).pop(name, None)
    assert deciding(TREE["rebalancing"].rules, row).id == rule


@pytest.mark.parametrize(("twice", "before", "goes_on"), [(2, 1, True), (2, 0, False), (2, None, False), (1, 1, False)])
def test_members_that_started_anew_twice_and_before_the_window_are_no_rollout(
    twice: int, before: int | None, goes_on: bool
) -> None:
    """As seen with processes that run out of memory every 20 s: a window of a minute shows each of them twice."""
    members = tuple(made(MemberFeatures, member=it, live=True, restarts=twice, restarts_before=before) for it in "ab")
    known: dict[str, Any] = {"restarted_members": ("a", "b"), "most_restarts": twice, "known_members": 2}
    row = subscription(limits=Thresholds(), members=members, baseline_members=2, replaced_members=2, **known)
    for name in ("restarts_go_on", "rollout", "storm_cause"):
        vars(row).pop(name, None)
    assert (row.restarts_go_on, row.rollout) == (goes_on, not goes_on)
    assert row.storm_cause == ("member_crash" if goes_on else "deploy")


def test_a_rollout_in_which_nothing_is_read_is_no_stop() -> None:
    """Few rebalances rule out a storm, not that partitions stop because members are replaced: that is the first of the guesses."""
    known: dict[str, Any] = {"restarted_members": ("a", "b"), "most_restarts": 1, "gone_members": (), "new_members": ()}
    for frozen, rule in (((0, 1), "rollout"), ((), "rarely")):
        row = subscription(limits=Thresholds(), rebalances=2.0, frozen_partitions=frozen, passing_members=0, **known)
        for name in ("replaced_members", "rollout"):
            vars(row).pop(name, None)
        assert deciding(TREE["rebalancing"].rules, row).id == rule
        guesses = [Verdict.CONSUMER_STOPPED, Verdict.REBALANCE_STORM, Verdict.STUCK_PARTITION]
        assert likeliest_first(guesses, row)[0] is Verdict.REBALANCE_STORM
    assert likeliest_first(guesses, subscription(limits=Thresholds(), frozen_count=2))[0] is not Verdict.REBALANCE_STORM


@pytest.mark.parametrize(
    ("rebalances", "rule"),
    [(0.0, "rollout"), (1.0, "rollout"), (3.0, "rollout"), (4.0, "often"), (None, "not_counted")],
)
def test_a_rollout_with_few_rebalances_is_no_storm_also_where_its_handlers_are_as_before(
    rebalances: float | None, rule: str
) -> None:
    """A new version that cannot handle a record stops a partition, too: what it handles takes no longer than before."""
    known: dict[str, Any] = {"restarted_members": ("a", "b"), "most_restarts": 1, "gone_members": (), "new_members": ()}
    known |= {"frozen_partitions": (0,), "passing_members": 0, "median_slow_down": 1.0}
    row = subscription(limits=Thresholds(), rebalances=rebalances, **known)
    for name in ("replaced_members", "added_members", "rollout", "handlers_as_before"):
        vars(row).pop(name, None)
    found = deciding(TREE["rebalancing"].rules, row)
    assert found.id == rule
    # Also the numbers beside it: a proof holds only if they do.
    assert all(it.holds(row) for it in found.operands)


@pytest.mark.parametrize(
    ("known", "rule"),
    [
        ({}, "passing"),
        ({"fells_its_owners": True}, "one_record"),
        ({"stall_cause": "handlers_fail", "failing_share": 1.0}, "one_record"),
        ({"stall_cause": "handlers_fail", "failing_share": 0.1}, "passing"),
        ({"stall_cause": "handlers_fail", "failing_share": 1.0, "rejoining": True}, "one_record"),
    ],
)
def test_who_begins_anew_after_each_failure_is_in_no_storm(known: dict[str, Any], rule: str) -> None:
    """Camel's breakOnFirstError makes a new client, of a new name, for each record that fails: the record is the cause."""
    assert rebalancing(baseline_members=3, passing_rounds=3, **known) == rule


@pytest.mark.parametrize(
    ("known", "goes_on"),
    [
        ({}, True),
        ({"rebalances": 3.0}, False),
        ({"rebalances": None}, False),
        ({"recovered_seconds": None}, False),
        ({"rollout": True}, False),
        ({"added_members": 2}, False),
        ({"moving_now": True, "rebalanced_ago": 120.0, "rebalances_apart": 20.0}, False),
    ],
)
def test_a_group_has_not_recovered_from_a_storm_that_goes_on(known: dict[str, Any], goes_on: bool) -> None:
    """In time for a moment (Micronaut, seen on the lab), it is as late as before after the next rebalances; a rollout ends."""
    row = subscription(limits=Thresholds(), **{"rebalances": 6.0, "recovered_seconds": 4.0, **known})
    assert row.storms_on is goes_on
    assert (deciding(TREE["lagging"].rules, row).id == "again") is goes_on


@given(apart=st.floats(1.0, 300.0), pauses=st.floats(0.1, 10.0))
def test_rebalances_that_are_over_hold_nobody_up(apart: float, pauses: float) -> None:
    """They are over where the last one is long ago, also compared with how they came; one that goes on lets nobody read."""
    ago = pauses * apart
    over = ago > 90.0 and ago > 2.5 * apart
    known: dict[str, Any] = {"rebalanced_ago": ago, "rebalances_apart": apart, "moving_now": True}
    assert rebalancing(**known) == ("over" if over else "often")
    assert rebalancing(**{**known, "moving_now": False}) == "often"
    assert rebalancing(**known, rejoining=True) == "rejoining"
    assert rebalancing(**known, baseline_members=3, passing_rounds=3) == "passing"


@given(before=st.floats(0.1, 4.0), now=st.floats(0.1, 4.0), kept=st.booleans())
def test_handlers_with_more_to_do_are_in_no_storm(before: float, now: float, kept: bool) -> None:
    """A storm takes time away from them. What is not committed is done again, and may be what makes them busy."""
    known: dict[str, Any] = {"loop_busy": now, "loop_busy_baseline": before, "works_on": kept and now >= 0.75}
    known |= {"rebalanced_ago": 5.0, "rebalances_apart": 20.0, "moving_now": True}
    assert rebalancing(**known) == ("works_on" if known["works_on"] and now >= 1.2 * before else "often")


@pytest.mark.parametrize(
    ("known", "added"),
    [
        ({"new_members": ("a", "b", "c")}, 3),
        ({"new_members": ("a", "b", "c"), "gone_members": ("x",)}, 2),
        ({"new_members": ("a", "b", "c"), "gone_members": ("x", "y", "z")}, 0),
        ({"new_members": ("a", "b", "c"), "gone_members": ("b",), "passing_members": 1}, 2),
        ({"new_members": ("a", "b"), "restarted_members": ("x",)}, 1),
        ({"new_members": (), "gone_members": ("x",)}, 0),
    ],
)
def test_who_comes_in_anothers_place_is_not_added(known: dict[str, Any], added: int) -> None:
    """Nor is who has gone again."""
    known = {"restarted_members": (), "gone_members": (), "passing_members": 0, **known}
    row = subscription(limits=Thresholds(), **known)
    del vars(row)["added_members"], vars(row)["replaced_members"]
    assert row.added_members == added


@pytest.mark.parametrize(
    ("known", "cause"),
    [
        ({"new_members": ("a", "b"), "changed_members": ("a", "b")}, None),
        ({"gone_members": ("a", "b"), "changed_members": ("a", "b")}, None),
        ({"replaced_members": 3, "changed_members": ("a",) * 6}, "deploy"),
        ({"replaced_members": 3, "passing_members": 1, "changed_members": ("a",) * 6}, None),
        ({"restarted_members": ("a",), "replaced_members": 1, "most_restarts": 5, "known_members": 4}, "member_crash"),
    ],
)
def test_a_rollout_replaces_members(known: dict[str, Any], cause: str | None) -> None:
    """Who only joins, only leaves, or comes and goes shows no rollout and no crash."""
    row = subscription(limits=Thresholds(), **known)
    del vars(row)["rollout"]
    assert first_of(STORM_CAUSES, row) == cause


@given(arrives=st.floats(1.0, 500.0), took=st.floats(0.001, 0.1), own_work=st.booleans(), against=st.floats(1.0, 10.0))
def test_a_partition_that_fills_a_thread_is_hot_whatever_has_grown(
    arrives: float, took: float, own_work: bool, against: float
) -> None:
    """A partition has one consumer; where as much arrives in all, or the work waits for what does not come, it is not the reason."""
    parts = made(PartitionFeatures, partition=0, arrival_per_second=arrives), made(PartitionFeatures, partition=1)
    handlers = (made(ProcessorFeatures, processor="all", rate_per_second=70.0, process_seconds=took),)
    known: dict[str, Any] = {
        "hot_partitions": (0,),
        "hot_count": 1,
        "few_partitions": 1,
        "behind_partitions": (0,),
        "partitions": parts,
    }
    known |= {"hot_growth": 1.0, "hot_arrival_ratio": against, "own_work": own_work, "queueless": True}
    row = subscription(limits=Thresholds(), processors=handlers, **known)
    del vars(row)["hot_fills_a_thread"]
    fills = own_work and arrives * took >= 0.75
    assert deciding(TREE["hot_partition"].rules, row).answer is (
        Answer.YES if fills and against >= 3.0 else Answer.CANNOT_TELL
    )


def too_few(**known: Any) -> Answer:
    """The answer to the question about the number of consumers."""
    return asked(**known).answer


def asked(**known: Any) -> Rule:
    """The rule that answers it."""
    row = subscription(limits=Thresholds(), group_members=3.0, partition_count=6, **known)
    return deciding(TREE["too_few"].rules, row)


def test_members_with_room_beside_late_ones_are_not_too_few() -> None:
    """Divided evenly, the partitions would leave time to each of them; where nobody tells, the others are ruled out as before."""
    assert too_few(busiest_if_even=0.5) is Answer.CANNOT_TELL
    assert too_few(busiest_if_even=1.2) is Answer.YES
    # Nobody's partitions are read in time: a thread that waits beside handlers of its own pool has no room to give.
    assert too_few(busiest_if_even=0.5, behind_partitions=tuple(range(6))) is Answer.YES
    # Whatever the mean of all members' handlers is: who waits for records and who is late is measured.
    idle = {"queueless": True, "loop_busy": 0.3, "loop_busy_baseline": 0.35}
    assert "which member has" in (asked(busiest_if_even=0.4, **idle).look or "")
    assert "profile" in (asked(**idle).look or "")
    assert too_few() is Answer.YES


@pytest.mark.parametrize(
    ("late", "draining", "times", "answer"),
    [
        (False, False, 1.0, Answer.CANNOT_TELL),
        (True, True, 1.0, Answer.CANNOT_TELL),
        (None, None, 1.0, Answer.CANNOT_TELL),
        (True, False, 1.0, Answer.YES),
        (False, False, None, Answer.YES),
    ],
)
def test_who_catches_up_each_time_has_enough_members(
    late: bool | None, draining: bool | None, times: float | None, answer: Answer
) -> None:
    """Late again and again, and in time now: it reads more than what arrives, while it reads. Who has too few is behind still."""
    assert too_few(late=late, draining=draining, comes_again=times) is answer


@pytest.mark.parametrize(
    ("never_rests", "as_before", "answer"),
    [(True, True, Answer.YES), (True, False, Answer.CANNOT_TELL), (False, True, Answer.CANNOT_TELL)],
)
def test_who_works_all_the_time_does_not_stand_still_with_its_commits(
    never_rests: bool, as_before: bool, answer: Answer
) -> None:
    """A job's commits wait for its checkpoints. Handlers that wait for what they call are as busy, and take longer than before."""
    assert too_few(outages=True, never_rests=never_rests, handlers_as_before=as_before) is answer


@pytest.mark.parametrize("interval", [15.0, 30.0, 60.0])
@pytest.mark.parametrize(("read", "since_onset"), [(1.0, True), (1.0, False), (0.3, True), (0.0, True)])
def test_what_was_read_is_compared_with_what_arrived_meanwhile(interval: float, read: float, since_onset: bool) -> None:
    """Members' work is measured two samples later than the log, where the onset begins it."""
    partitions = tuple(
        made(
            PartitionFeatures,
            partition=number,
            arrived=480.0 * 5,
            arrival_per_second=5.0,
            enqueue_count=read * 5.0 * (480.0 - 2 * interval * since_onset),
        )
        for number in range(3)
    )
    row = subscription(
        limits=Thresholds(),
        partitions=partitions,
        sample_interval_seconds=interval,
        work_since_onset=since_onset,
    )
    vars(row)["still"] = list(partitions)
    del vars(row)["read_share"]
    assert row.read_share == pytest.approx(read)


@given(partitions=st.integers(1, 50), idle=st.integers(0, 20), each=st.floats(1.0, 500.0))
def test_members_without_a_partition_do_not_change_the_size(partitions: int, idle: int, each: float) -> None:
    """They read nothing: what is needed is the same with and without them."""
    read = partitions * each
    row = subscription(
        limits=Thresholds(),
        arrival_per_second=1.2 * read,
        lag_slope=0.2 * read,
        lag_messages=1000.0,
        group_members=float(partitions),
        partition_count=partitions,
    )
    assert capacity.consumers(replace(row, group_members=float(partitions + idle))) == capacity.consumers(row)


@pytest.mark.parametrize(
    ("known", "rule"),
    [
        ({}, "stuck"),
        ({"behind_partitions": (0,)}, "stuck"),
        ({"behind_partitions": (0, 2)}, "owner_disturbed"),
        ({"behind_partitions": (0, 2), "members_stay": False}, "owner_disturbed"),
        ({"behind_partitions": (0, 2), "members_stay": True}, "stuck"),
        ({"behind_partitions": (0, 2), "rebalances": 0.0}, "stuck"),
        ({"behind_partitions": (0, 2), "rebalances": 3.0, "restarted_members": ("a",)}, "owner_disturbed"),
        ({"behind_partitions": (0,), "rebalances": 3.0, "restarted_members": ("a",)}, "stuck"),
        (
            {"behind_partitions": (0,), "rebalances": 3.0, "restarted_members": ("a",), "one_begins_anew": True},
            "owner_disturbed",
        ),
    ],
)
def test_a_partition_beside_others_that_fall_behind_may_have_a_member_that_crashes(
    known: dict[str, Any], rule: str
) -> None:
    """A member that begins anew again and again may never come to one of its partitions: not where its restarts would be seen."""
    usual = {"stuck_partitions": (0,), "stuck_count": 1, "few_partitions": 2, "moving_partitions": 5}
    row = subscription(**{"behind_partitions": (), **usual, **known})
    del vars(row)["others_keep_up"]
    found = deciding(TREE["stuck"].rules, row)
    assert (found.id, found.answer is Answer.CANNOT_TELL) == (rule, rule == "owner_disturbed")


@pytest.mark.parametrize(
    ("rebalances", "cause"), [(2.0, "metadata_change"), (9.0, "metadata_change"), (11.0, "poll_stall")]
)
def test_partitions_that_are_added_explain_as_many_rebalances(rebalances: float, cause: str) -> None:
    """Two rounds for each of five; a poll that is late by then is late because of them. More than that has another cause."""
    row = subscription(
        limits=Thresholds(), rebalances=rebalances, new_partitions=5, partition_count=11, paused_members=("a",)
    )
    del vars(row)["storm_cause"]
    assert row.storm_cause == cause


@pytest.mark.parametrize(
    ("restarts", "fells"), [((0, 3, 0), False), ((1, 2, 0), True), ((0, 0, 0), True), ((None, None, None), True)]
)
def test_a_record_ends_each_owner_in_turn_and_not_one_alone(restarts: tuple[int | None, ...], fells: bool) -> None:
    """A member that crashes for its own reasons leaves what it should own, while others have room: its restarts are the storm then."""
    members = tuple(made(MemberFeatures, member=f"m{at}", restarts=it) for at, it in enumerate(restarts))
    known: dict[str, Any] = {"rebalances_often": True, "stuck_count": 1, "few_partitions": 2, "others_keep_up": True}
    row = subscription(limits=Thresholds(), members=members, **known)
    del vars(row)["fells_its_owners"], vars(row)["one_begins_anew"]
    assert row.fells_its_owners is fells


@pytest.mark.parametrize(("quota", "cause"), [(23.0, "held_heartbeats"), (300.0, None), (None, None)])
def test_a_quota_that_holds_heartbeats_back_explains_rebalances(quota: float | None, cause: str | None) -> None:
    """As seen with franz-go: its heartbeats wait behind the answers to fetches. One that allows what arrives holds nobody up."""
    known: dict[str, Any] = {
        "rebalances": None,
        "rejoining": True,
        "partition_count": 6,
        "read_quota_per_second": quota,
    }
    row = subscription(limits=Thresholds(), arrival_per_second=108.0, **known)
    del vars(row)["storm_cause"]
    assert row.storm_cause == cause


@pytest.mark.parametrize("rebalances", [0.0, 2.0, None])
def test_where_no_partition_is_added_none_explains_the_rebalances(rebalances: float | None) -> None:
    """Members that wait for each other all the time complete no rebalance: none is counted, and none is explained by nothing."""
    for paused, cause in (((), None), (("a",), "poll_stall")):
        row = subscription(limits=Thresholds(), rebalances=rebalances, partition_count=11, paused_members=paused)
        del vars(row)["storm_cause"]
        assert row.storm_cause == cause


@pytest.mark.parametrize(
    ("delay", "rule"), [((0.9, 1.0), "delayed"), ((0.9, 0.9), "empty"), ((0.2, 1.0), "empty"), ((None, None), "empty")]
)
@pytest.mark.parametrize("fill", [0.0, 0.8])
def test_a_delay_queue_that_is_full_is_named_by_its_own_numbers(
    fill: float, delay: tuple[float | None, float | None], rule: str
) -> None:
    """Not by those of the other queues, which nothing enters meanwhile."""
    queue = made(QueueFeatures, queue="q", fill=fill)
    row = subscription(limits=Thresholds(), has_queues=True, queues=(queue,), delay_fill=delay[0], delay_high=delay[1])
    for name in ("queue_fill", "full_queues", "delay_full", "queue_long"):
        vars(row).pop(name, None)
    found = deciding(TREE["queue_backed_up"].rules, row)
    assert found.id == ("full" if fill else rule)
    assert all(it.holds(row) for it in found.operands)


@pytest.mark.parametrize(
    ("known", "unread"),
    [
        ({}, [0]),
        ({"stall_cause": "poison_record"}, [0]),
        ({"stall_cause": "commit_fails"}, []),
        ({"at_quota": True}, []),
    ],
)
def test_what_waits_for_its_commit_or_its_turn_is_not_called_unread(known: dict[str, Any], unread: list[int]) -> None:
    """Neither of a few partitions nor of all."""
    parts = tuple(made(PartitionFeatures, partition=it, arrival_per_second=5.0) for it in range(3))
    row = subscription(partitions=parts, stuck_partitions=(0,), **known)
    assert [it.partition for it in row.unread] == unread
    assert [share for _, share in leaf_of(Verdict.STUCK_PARTITION).share(row, 15.0)] == [5.0 for _ in unread]
    assert not any("no partition" in words for words, _ in leaf_of(Verdict.CONSUMER_STOPPED).share(row, 15.0))


@pytest.mark.parametrize(("usual", "told"), [(4.0, True), (2.0, False), (None, False)])
def test_capacity_that_went_with_a_member_says_so(usual: float | None, told: bool) -> None:
    """Fewer members than usual: who is gone comes before how many to add; a process that crashes before it joins is none of them."""
    row = subscription(limits=Thresholds(), usual_members=usual, group_members=2.0, partition_count=6)
    leaf = leaf_of(Verdict.TOO_FEW_CONSUMERS)
    actions = [it.title for it in leaf.actions(Subject(cluster="c", group="g", topic="t"), row)]
    assert ("2 members instead of 4 for" in leaf.headline(row)) is told
    assert any("2 members are gone" in it for it in actions[:1]) is told
    assert actions[-1].startswith("Add consumers")


@pytest.mark.parametrize(
    ("rule", "title"),
    [("all_busy", "To decide: how many handlers a member runs"), (None, "Look at the group's members while you add")],
)
def test_an_open_question_without_a_look_of_its_own_advises_its_rules_look(rule: str | None, title: str) -> None:
    """What is measured and decides nothing (Watermill's handlers, one for each partition) is not called a missing signal."""
    reasons = {} if rule is None else {"too_few": rule}
    row = subscription(limits=Thresholds(), path=("too_few",), reasons=reasons)
    [action] = leaf_of(Verdict.CANNOT_TELL).actions(Subject(cluster="c", group="g", topic="t"), row)
    assert action.title.startswith(title)

"""Rules of the leaves: what belongs to a verdict is in one place, and none is missing."""

from __future__ import annotations

import pkgutil
from dataclasses import replace
from importlib import import_module

import pytest

from tests.triage.made import made, subscription
from workbench.features.subscription_measurements import MemberFeatures, PartitionFeatures, ProcessorFeatures
from workbench.thresholds import Thresholds
from workbench.triage import causes
from workbench.triage.action_subject import Subject
from workbench.triage.facts.processor_facts import ProcessorFacts
from workbench.triage.outcome_checks import all_hold
from workbench.triage.question_order import TREE
from workbench.triage.question_types import Conclude, Node, deciding
from workbench.triage.verdict_leaves import leaf_of, registry
from workbench.triage.verdict_names import Answer, State, Verdict

LEAVES = [leaf_of(verdict) for verdict in Verdict]


def test_every_verdict_has_its_own_leaf() -> None:
    """In the order of the verdicts, which is that of the rules and of the game's choices."""
    assert list(registry(LEAVES, TREE.values())) == list(Verdict)
    assert [leaf.verdict for leaf in LEAVES] == list(Verdict)


def test_a_cause_is_one_file_named_by_its_verdict() -> None:
    """It has its leaf there, and every question that only leads to it."""
    for module in pkgutil.iter_modules(causes.__path__):
        found = import_module(f"{causes.__name__}.{module.name}")
        assert found.LEAF.verdict == module.name
        questions = [it for it in vars(found).values() if isinstance(it, Node)]
        assert all(found.LEAF.verdict in it.verdicts for it in questions)
        assert {it.id for it in TREE.values() if it.verdicts == (found.LEAF.verdict,)} <= {it.id for it in questions}


def test_a_verdict_without_a_leaf_is_an_error() -> None:
    """It is named."""
    with pytest.raises(TypeError, match="hot_key has no leaves"):
        registry([leaf for leaf in LEAVES if leaf.verdict is not Verdict.HOT_KEY], TREE.values())


def test_two_leaves_of_one_verdict_are_an_error() -> None:
    """A copied module that still has the old verdict."""
    with pytest.raises(TypeError, match=r"hot_key has no leaves; throttled has 2 leaves"):
        copied = [leaf_of(Verdict.THROTTLED) if leaf.verdict is Verdict.HOT_KEY else leaf for leaf in LEAVES]
        registry(copied, TREE.values())


def test_a_leaf_that_no_question_leads_to_is_an_error() -> None:
    """`cannot_tell` alone needs none: every question leads there when it has no answer."""
    nodes = [replace(node, yes=node.no) if node.yes == Conclude(Verdict.THROTTLED) else node for node in TREE.values()]
    with pytest.raises(TypeError, match="no node of the tree leads to throttled"):
        registry(LEAVES, nodes)


def test_a_lagging_verdict_is_never_called_healthy() -> None:
    """Every cause is a cause of lagging; missing data is "cannot tell"."""
    states = {verdict: leaf_of(verdict).state for verdict in Verdict}
    assert {verdict for verdict, state in states.items() if state is not State.LAGGING} == {
        Verdict.HEALTHY, Verdict.RECOVERED, Verdict.PRODUCER_SILENT, Verdict.PRODUCER_BURST,
        Verdict.NO_DATA, Verdict.UNUSABLE_DATA, Verdict.CANNOT_TELL,
    }  # fmt: skip
    assert {verdict for verdict, state in states.items() if state is State.HEALTHY} == {
        Verdict.HEALTHY, Verdict.RECOVERED, Verdict.PRODUCER_SILENT,
    }  # fmt: skip
    assert states[Verdict.NO_DATA] is states[Verdict.UNUSABLE_DATA] is State.CANNOT_TELL


def test_what_retention_deletes_while_nobody_reads_is_kept_first_and_then_read() -> None:
    """The group must be started again, too; a group that reads needs no start."""
    subject = Subject("c", "g", "t")
    lost = made(PartitionFeatures, partition=3, story={"lost": 40.0, "lost_from": 7.0, "lost_ago": 60.0})
    for answer, kinds in ((Answer.NO, ["raise_retention", "restart_consumers"]), (Answer.YES, ["raise_retention"])):
        row = subscription(lost_messages=40.0, partitions=(lost,), answers={"consuming": answer})
        actions = leaf_of(Verdict.RECORDS_LOST).actions(subject, row)
        assert [action.kind for action in actions if action.kind] == kinds
        assert any("from offset 7 of partition 3" in action.title for action in actions)
        assert actions[0].checks[0].holds(row) is Answer.NO
        assert actions[0].checks[0].holds(subscription(lost_messages=0.0)) is Answer.YES


def test_a_client_that_gets_nothing_is_restarted_only_after_a_transaction_was_ruled_out() -> None:
    """If Kafka was asked, it was: the last stable offset is the log's end."""
    subject = Subject("c", "g", "t", bootstrap="b:9092")
    for stable, first in ((None, "describe-producers"), (90.0, "--members")):
        still = made(PartitionFeatures, partition=3, committed=7.0, log_end=90.0, last_stable=stable)
        row = subscription(partitions=(still,), frozen_partitions=(3,), stall_cause="client_stalled")
        actions = leaf_of(Verdict.STUCK_PARTITION).actions(subject, row)
        assert first in (actions[0].command or "")
        assert actions[-1].kind == "restart_consumers"
        assert actions[-1].parameters["partitions"] == [3]


def test_one_slow_member_is_named_and_no_processor() -> None:
    """The answer, its words, the scope and the check are all about that member."""
    slow = made(MemberFeatures, member="pod-1", live=True, against_peers=3.2)
    usual = made(MemberFeatures, member="pod-2", live=True, against_peers=0.3)
    facts = {"slow_members": ("pod-1",), "slowest_member_ratio": 3.2, "one_slow": True, "median_slow_down": 1.2}
    row = subscription(members=(slow, usual), live_members=2, limits=Thresholds(), **facts)
    assert {name: deciding(TREE[name].rules, row).id for name in ("one_slow", "all_slow")} == {
        "one_slow": "member",
        "all_slow": "member",
    }
    leaf = leaf_of(Verdict.SLOW_DOWNSTREAM)
    assert leaf.scope(row).members == ("pod-1",)
    assert "the handlers of pod-1 take 3.2 × as long as its peers'" in leaf.headline(row)
    [action] = leaf.actions(Subject("test", "g", "t"), row)
    assert "pod-1" in action.title
    assert all_hold(action.checks, row) is Answer.NO


def test_the_only_handler_is_called_the_handler() -> None:
    """A profile without event types calls it "all": nobody looks for a handler of that name."""
    only = made(ProcessorFeatures, processor="all", process_seconds=0.5, baseline_seconds=0.1, slow_down=5.0)
    facts = {"slow_processors": ("all",), "slow_by_peers": False, "slowest_baseline_seconds": 0.1}
    row = subscription(processors=(only,), members=(), limits=Thresholds(), **facts)
    actions = leaf_of(Verdict.SLOW_PROCESSOR).actions(Subject("test", "g", "t"), row)
    [action] = [it for it in actions if it.title.endswith("in the handler, or in what it calls")]
    assert action.verify.startswith("process time of the handler is below")


@pytest.mark.parametrize(
    ("ratios", "slow"), [((3.0, 0.3), ("0",)), ((1.4, 0.7), ()), ((3.0, 3.0, 0.2), ()), ((None, None), ())]
)
def test_the_slow_members_are_few(ratios: tuple[float | None, ...], slow: tuple[str, ...]) -> None:
    """Where most are slow, it is no member's own."""
    members = tuple(made(MemberFeatures, member=str(at), live=True, against_peers=it) for at, it in enumerate(ratios))
    row = made(ProcessorFacts, members=members, live_members=len(members), limits=Thresholds())
    assert row.slow_members == slow


@pytest.mark.parametrize(
    ("first", "second", "cause", "asked"),
    [
        ({"back_amid_members": 1.0, "back_leapt": 1.0}, {}, "late_commit", "lost its partitions"),
        ({"back_amid_members": 1.0}, {}, "went_back", "consumer's log"),
        ({"back_leapt": 1.0}, {}, "went_back", "who reset"),
        ({"back_amid_members": 1.0, "back_leapt": 1.0}, {"back": 50.0, "back_ago": 60.0}, "went_back", "who reset"),
        ({"back_amid_members": 1.0}, {"recreated_ago": 90.0}, "went_back", "consumer's log"),
        ({"back_amid_members": 1.0, "back_leapt": 1.0, "recreated_ago": 90.0}, {}, "topic_recreated", "created anew"),
    ],
)
def test_who_moved_commits_back_is_said_as_far_as_it_shows(
    first: dict[str, float], second: dict[str, float], cause: str, asked: str
) -> None:
    """The log itself comes first; only a leap forward again, of a group with members, is a late commit; of every partition hit."""
    leaf = leaf_of(Verdict.OFFSETS_RESET)
    hit = made(PartitionFeatures, partition=0, story={"back": 99.0, "back_ago": 60.0, **first})
    row = subscription(partitions=(hit, made(PartitionFeatures, partition=1, story=second)), back_messages=99.0)
    assert leaf.scope(row).cause == cause
    assert asked in leaf.actions(Subject("test", "g", "t"), row)[0].title
    assert ("a member committed late" in leaf.headline(row)) == (cause == "late_commit")
    assert ("read again" in leaf.headline(row)) == (cause == "went_back")


@pytest.mark.parametrize(
    ("often", "leapt", "rule"), [(True, 1.0, "late_commits"), (False, 1.0, "back"), (True, 0.0, "back")]
)
def test_what_members_of_a_storm_commit_late_is_no_reset(often: bool, leapt: float, rule: str) -> None:
    """Each time that one comes back it commits what it had; what moves partitions to and fro is what to look at."""
    story = {"back": 99.0, "back_ago": 60.0, "back_amid_members": 1.0, "back_leapt": leapt}
    hit = made(PartitionFeatures, partition=0, story=story)
    row = subscription(partitions=(hit,), back_messages=99.0, rebalances_often=often)
    assert deciding(TREE["reset"].rules, row).id == rule


@pytest.mark.parametrize(
    ("over", "words", "since"), [((True, True), "were read again", None), ((True, False), "are read again", 60.0)]
)
def test_commits_that_are_where_they_were_keep_the_lag_no_longer(
    over: tuple[bool, bool], words: str, since: float | None
) -> None:
    """As long as one partition is still read again, that is the lag; then it has a reason and a beginning of its own."""
    leaf = leaf_of(Verdict.OFFSETS_RESET)
    hit = [
        made(
            PartitionFeatures,
            partition=it,
            story={"back": 99.0, "back_ago": 60.0, **({"back_over": 1.0} if done else {})},
        )
        for it, done in enumerate(over)
    ]
    row = subscription(partitions=tuple(hit), back_messages=198.0)
    assert words in leaf.headline(row)
    assert leaf.began_ago(row) == since


@pytest.mark.parametrize(("unseen", "said"), [(30.0, False), (60.0, False), (1200.0, True)])
def test_a_commit_that_was_gone_before_it_went_back_is_said(unseen: float, said: bool) -> None:
    """It had expired or was lost, perhaps; a sample that is late is none that is missing."""
    story = {"back": 99.0, "back_ago": 60.0, "back_unseen": unseen, "interval": 30.0}
    row = subscription(partitions=(made(PartitionFeatures, partition=0, story=story),), back_messages=99.0)
    assert ("without any" in leaf_of(Verdict.OFFSETS_RESET).headline(row)) is said


@pytest.mark.parametrize(
    ("hung", "behind", "answer"), [(("m",), (0,), Answer.YES), (("m",), (), Answer.NO), ((), (0,), Answer.NO)]
)
def test_a_member_that_does_not_poll_lags_as_soon_as_its_partitions_fall_behind(
    hung: tuple[str, ...], behind: tuple[int, ...], answer: Answer
) -> None:
    """However short the time that they are behind."""
    known = {"late": False, "growing": False, "hung_members": hung, "behind_partitions": behind}
    assert deciding(TREE["lagging"].rules, subscription(**known)).answer is answer


@pytest.mark.parametrize(
    ("end", "high", "end_seconds", "dark"),
    [
        (500.0, 500.0, 0.0, ()),
        (501.0, 500.0, 0.0, (0,)),
        (499.0, 500.0, 0.0, (0,)),
        (500.0, 500.0, -900.0, (0,)),
        (500.0, None, 0.0, (0,)),
    ],
)
def test_what_was_read_to_its_end_is_not_dark(
    end: float, high: float | None, end_seconds: float, dark: tuple[int, ...]
) -> None:
    """An exporter forgets the commits of an idle partition; as long as its log ends there, nothing waits. An older or other log may."""
    forgotten = made(
        PartitionFeatures,
        partition=0,
        log_end=end,
        log_end_last_seconds=end_seconds,
        committed_high=high,
        lag_ever_samples=90,
    )
    known = made(PartitionFeatures, partition=1, lag_messages=0.0, lag_last_seconds=0.0, lag_ever_samples=90)
    row = made(ProcessorFacts, partitions=(forgotten, known), limits=Thresholds(), sample_interval_seconds=30.0)
    assert row.dark_partitions == dark

"""Rules of the tree's declaration."""

from __future__ import annotations

import itertools
import random
from collections.abc import Collection

from tests.triage.made import subscription
from workbench.signals import SIGNALS
from workbench.thresholds import Thresholds
from workbench.triage.question_order import ROOT, TREE
from workbench.triage.question_types import Ask, Conclude, Outcome
from workbench.triage.tree_walk import candidates, decided, way_of
from workbench.triage.verdict_names import Answer, Verdict


def test_every_verdict_is_a_leaf_and_every_question_is_asked() -> None:
    """No verdict that nothing leads to, no question that nobody comes to, no way round in a circle."""
    leaves = {verdict for node in TREE.values() for verdict in node.verdicts}
    assert leaves == set(Verdict) - {Verdict.CANNOT_TELL}
    ways = [(node, way.node) for node in TREE.values() for way in node.outcomes if isinstance(way, Ask)]
    assert {ROOT, *(name for _, name in ways)} == set(TREE)
    for node, name in ways:
        assert TREE[name].number > node.number
    assert [node.number for node in TREE.values()] == list(range(1, len(TREE) + 1))


def test_what_a_question_needs_is_a_signal_and_its_thresholds_exist() -> None:
    """A missing signal is named by its canonical name, a threshold by its setting, a number by its feature."""
    for node in TREE.values():
        assert set(node.needs) <= SIGNALS.keys()
        for measure in node.measures:
            assert measure.signal in SIGNALS
            assert measure.threshold is None or measure.threshold in Thresholds.model_fields
            columns = {measure.column, measure.baseline, measure.peers} - {None}
            assert all(hasattr(subscription(), name) for name in columns)


def test_both_answers_of_the_design_lead_where_it_says() -> None:
    """The order of the questions and their leaves, as the design has them."""
    ways = {node.id: node.outcomes for node in TREE.values()}
    assert ways["data_usable"][0] == Ask("lost")
    assert ways["lost"] == (Conclude(Verdict.RECORDS_LOST), Ask("reset"))
    assert ways["reset"] == (Conclude(Verdict.OFFSETS_RESET), Ask("lagging"))
    assert ways["lagging"] == (Ask("consuming"), Ask("draining"))
    assert ways["failing"] == (Conclude(Verdict.FAILING_RECORDS), Ask("silent"))
    assert ways["consuming"][0] == Ask("rebalancing")
    assert ways["consuming"][1].verdicts == (Verdict.BATCH_MISSED, Verdict.CONSUMER_STOPPED)
    assert ways["queue_backed_up"] == (Ask("delay_full"), Ask("throttled"))
    assert ways["all_slow"][0] == Conclude(Verdict.SLOW_DOWNSTREAM)
    assert ways["all_slow"][1] == Ask("threads")
    assert ways["threads"][0].verdicts == (Verdict.BURST, Verdict.SATURATED_PROCESSORS)
    assert ways["threads"][1] == ways["slow_network"][1] == Ask("frozen")
    assert ways["frozen"] == (Conclude(Verdict.STUCK_PARTITION), Ask("cold_read"))
    assert ways["cold_read"] == (Conclude(Verdict.COLD_READ), Ask("hot_partition"))
    assert ways["burst"][1] == Ask("slowed")
    assert ways["slowed"] == (Conclude(Verdict.FAILING_RECORDS), Ask("too_few"))
    assert ways["too_few"] == (Conclude(Verdict.TOO_FEW_CONSUMERS), Conclude(Verdict.PARTITION_CEILING))


CALM = {Verdict.HEALTHY, Verdict.RECOVERED, Verdict.PRODUCER_BURST, Verdict.PRODUCER_SILENT}


def walk(answers: dict[str, Answer], proven: Collection[str] = ()) -> set[Verdict]:
    """A naive walk, as the oracle: the verdicts that can be reached, one if nothing is open."""
    way: Outcome = Ask(ROOT)
    sides = False
    while isinstance(way, Ask):
        node, answer = TREE[way.node], answers[way.node]
        if answer is not Answer.CANNOT_TELL:
            way = node.yes if answer is Answer.YES else node.no
        elif node.by == "side":
            sides, way = True, node.no
        else:
            return (
                proofs(way.node, answers, proven) or {Verdict.CANNOT_TELL}
                if node.by == "proof"
                else {Verdict.CANNOT_TELL}
            )
    return {Verdict.CANNOT_TELL} if sides and set(way.verdicts) & CALM else set(way.verdicts)


def proofs(below: str, answers: dict[str, Answer], proven: Collection[str]) -> set[Verdict]:
    """What questions prove that can still be reached below one, over open ones of their kind."""
    todo, found = [below], set()
    while todo:
        node = TREE[todo.pop()]
        ends_here = answers[node.id] is Answer.YES and not isinstance(node.yes, Ask)
        if ends_here and node.id in proven:
            found |= set(node.yes.verdicts)
        if answers[node.id] is Answer.CANNOT_TELL and node.by in ("gate", "elimination"):
            continue  # these need an answer
        ways = [node.yes] * (answers[node.id] is not Answer.NO) + [node.no] * (answers[node.id] is not Answer.YES)
        todo += [way.node for way in ways if isinstance(way, Ask)]
    return found


def test_the_walk_is_as_the_declaration_says() -> None:
    """6,000 random sets of answers and proofs: the verdict is the oracle's, and the path ends where it should."""
    chance = random.Random(7)
    sets = [{name: chance.choice(list(Answer)) for name in TREE} for _ in range(5980)]
    sets += [dict.fromkeys(TREE, answer) for answer in Answer]
    row = subscription(
        lag_samples=0, lag_bad_samples=0, last_sample_age_seconds=0.0, stale_seconds=90.0, arrival_ratio=1.0
    )
    for answers in sets:
        proven = {name for name in TREE if answers[name] is Answer.YES and chance.random() < 0.5}
        way = way_of(answers, proven, row)
        assert way.verdict in walk(answers, proven)
        assert way.path[0].id == ROOT
        assert [node.number for node in way.path] == sorted(node.number for node in way.path)
        assert all(answers[node.id] is Answer.CANNOT_TELL for node in way.passed)
        if way.verdict is Verdict.CANNOT_TELL:
            assert answers[way.path[-1].id] is Answer.CANNOT_TELL
        else:
            assert {it.id for it in way.path if answers[it.id] is Answer.CANNOT_TELL} == {it.id for it in way.passed}


LAGGING = {
    **dict.fromkeys(TREE, Answer.NO),
    "data_usable": Answer.YES,
    "lagging": Answer.YES,
    "consuming": Answer.YES,
}


def test_what_is_proven_stands_over_an_open_question_and_what_is_not_does_not() -> None:
    """A throttle that the client tells leads although nobody counts rebalances; fewer consumers than partitions do not."""
    answers = {**LAGGING, "rebalancing": Answer.CANNOT_TELL, "throttled": Answer.YES}
    way = way_of(answers, {"throttled"}, subscription())
    assert way.verdict is Verdict.THROTTLED
    assert [node.id for node in way.passed] == ["rebalancing"]
    assert way_of(answers, (), subscription()).verdict is Verdict.CANNOT_TELL
    few = {**LAGGING, "rebalancing": Answer.CANNOT_TELL, "too_few": Answer.YES}
    assert way_of(few, (), subscription()).verdict is Verdict.CANNOT_TELL
    proofs_of = {node.id for node in TREE.values() if any(rule.proof for rule in node.rules)}
    assert proofs_of and {TREE[name].by for name in proofs_of} == {"proof"}


def test_an_open_side_question_ends_no_walk_but_an_all_clear() -> None:
    """Records that were perhaps skipped do not hide why it lags; but nothing is healthy beside them."""
    perhaps = {**LAGGING, "lost": Answer.CANNOT_TELL, "throttled": Answer.YES}
    way = way_of(perhaps, (), subscription())
    assert (way.verdict, [node.id for node in way.passed]) == (Verdict.THROTTLED, ["lost"])
    calm = way_of({**perhaps, "lagging": Answer.NO}, (), subscription())
    assert (calm.verdict, calm.path[-1].id) == (Verdict.CANNOT_TELL, "lost")


def test_an_answer_is_that_of_the_first_rule_that_holds() -> None:
    """Yes, no and open, question by question, each with its rule; the last rule of every question always holds."""
    known = {"lag_known_partitions": 1, "last_sample_age_seconds": 0.0, "stale_seconds": 90.0}
    row = subscription(**known, late=True)
    rules = decided(row)
    assert rules.keys() == TREE.keys()
    assert (rules["data_usable"].answer, rules["lagging"].answer) == (Answer.YES, Answer.YES)
    assert (rules["one_slow"].answer, rules["one_slow"].id) == (Answer.CANNOT_TELL, "no_baseline")
    well = decided(subscription(**known, late=False, growing=False))["lagging"]
    assert (well.answer, well.id) == (Answer.NO, "keeps_up")


def test_every_rule_has_a_name_a_sentence_and_operands_that_exist() -> None:
    """Unique within its question; half a sentence; what it compares is a feature, and its limit a setting or has a reason."""
    features = set(dir(subscription()))
    for node in TREE.values():
        names = [rule.id for rule in node.rules]
        assert len(names) == len(set(names))
        for rule in node.rules:
            assert rule.because[0].islower() and not rule.because.endswith(".")
            assert rule.look is None or rule.answer is Answer.CANNOT_TELL
            for operand in rule.operands:
                assert {operand.fact, operand.of} - {None} <= features
                assert operand.setting is None or operand.setting in Thresholds.model_fields
                assert (operand.setting is None) != (operand.number is None)
                assert operand.number in (None, 1.0) or operand.reason


def test_candidates_are_what_is_left_when_open_questions_go_both_ways() -> None:
    """All verdicts when nothing is known; one when everything is; and never one that an answer excludes."""
    nothing = dict.fromkeys(TREE, Answer.CANNOT_TELL)
    assert set(candidates(nothing)) == set(Verdict) - {Verdict.CANNOT_TELL}
    sick = {
        **nothing,
        "data_usable": Answer.YES,
        "lost": Answer.NO,
        "reset": Answer.NO,
        "lagging": Answer.YES,
        "consuming": Answer.YES,
        "rebalancing": Answer.NO,
    }
    left = set(candidates(sick))
    assert Verdict.HEALTHY not in left
    assert Verdict.REBALANCE_STORM not in left
    assert Verdict.SLOW_PROCESSOR in left
    for answers in itertools.islice(itertools.product((Answer.YES, Answer.NO), repeat=len(TREE)), 0, 16_384, 97):
        known = dict(zip(TREE, answers, strict=True))
        assert set(candidates(known)) == walk(known)

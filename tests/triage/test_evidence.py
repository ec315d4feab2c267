"""Rules of the numbers behind an answer: all of them in one unit."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from evaluation.kept import read
from tests.triage.made import made, subscription
from workbench.features.subscription_measurements import PartitionFeatures, ProcessorFeatures
from workbench.profiles import load_profile
from workbench.thresholds import Thresholds
from workbench.triage.build_finding import because, build_finding
from workbench.triage.finding import MEASURED, Missing, TimeLag, missing_words
from workbench.triage.question_order import TREE
from workbench.triage.question_types import Measure, deciding
from workbench.triage.second_faults import also_true
from workbench.triage.verdict_leaves import leaf_of
from workbench.triage.verdict_names import Answer, Verdict

RATIOS = [
    measure
    for node in TREE.values()
    for measure in node.measures
    if measure.threshold is not None and measure.threshold.endswith("_ratio")
]


@pytest.mark.parametrize("measure", RATIOS, ids=lambda it: f"{it.column}-{it.threshold}")
def test_a_ratio_limits_only_what_is_a_ratio(measure: Measure) -> None:
    """A limit of 3 beside 0.231 s means nothing: it is a multiple of something, and says of what."""
    assert measure.unit.startswith(("×", "of ")) or measure.times is not None


def test_a_multiple_becomes_a_limit_in_the_unit_of_the_value() -> None:
    """3 × 4.13 ms = 12.4 ms; without a baseline there is the rule alone."""
    answers = dict.fromkeys(TREE, Answer.NO) | dict.fromkeys(
        ("data_usable", "lagging", "consuming", "queue_backed_up", "one_slow"), Answer.YES
    )
    row = subscription(
        answers=answers,
        path=("one_slow",),
        verdict=Verdict.SLOW_PROCESSOR,
        slowest_seconds=0.231,
        slowest_baseline_seconds=0.00413,
        slowest_processors=(),
    )
    for known, limit in ((row, pytest.approx(0.01239)),):
        found = build_finding(known, profiles=[])
        [step] = [step for step in found.path if step.node == "one_slow"]
        first = step.evidence[0]
        assert (first.value, first.unit, first.threshold, first.rule) == (0.231, "s", limit, "3 × its baseline")


def test_only_what_holds_is_shown_of_the_deciding_rule() -> None:
    """Of each rule that decides a kept case; a rule with several ways shows the one that it went, and hides no other's number."""
    shown: Counter[str] = Counter()
    for case, _, _ in read():
        row = case.judged()
        for name in row.path:
            found = because(TREE[name], row)
            assert found is not None
            listed = {it.fact: it for it in TREE[name].rule(found.rule).operands if it.holds(row) is True}
            assert {it.name for it in found.operands} == set(listed), (case.name, name, found)
            shown.update(f"{name}.{found.rule}" for it in found.operands)
    assert shown["delay_full.full"] > 0
    stand = subscription(reasons={"consuming": "hung"}, limits=Thresholds(), poll_age_seconds=1.0)
    hung = because(TREE["consuming"], stand)
    assert hung is not None and hung.operands == ()
    late = because(TREE["consuming"], replace(stand, poll_age_seconds=900.0))
    assert late is not None and [it.value for it in late.operands] == [900.0]


@pytest.mark.parametrize(
    ("lag", "words", "how"),
    [
        (TimeLag(seconds=90.0, method="exact_record", low=90.0, high=90.4), "1 min 30 s", "exact record"),
        (
            TimeLag(seconds=90.0, method="interpolated", low=80.0, high=95.0),
            "1 min 30 s",
            "interpolated, 1 min 20 s … 1 min 35 s",
        ),
        (TimeLag(seconds=180.0, method="extrapolated_capped", low=180.0), "over 3 min", "older than the data read"),
        (
            TimeLag(seconds=780.0, method="extrapolated_capped", low=180.0),
            "about 13 min",
            "older than the data read: over 3 min",
        ),
        (TimeLag(seconds=None, method="unknown"), "unknown", "unknown"),
    ],
)
def test_only_what_is_proven_of_an_age_is_said_to_be_exceeded(lag: TimeLag, words: str, how: str) -> None:
    """Beyond the data an age is a guess by the traffic since, which may be too large: what is proven stands beside it."""
    assert (lag.words, lag.how) == (words, how)


def test_what_is_measured_now_is_not_said_to_be_missing() -> None:
    """Process times of a window without a good time before it: the question is open, and the signal is there."""
    answers = dict.fromkeys(TREE, Answer.NO) | {
        "one_slow": Answer.CANNOT_TELL,
        "lagging": Answer.YES,
        "consuming": Answer.YES,
    }
    answers |= {"data_usable": Answer.YES, "queue_backed_up": Answer.YES}
    row = subscription(answers=answers, path=("one_slow",), reasons={"one_slow": "no_baseline"}, loop_busy=0.9)
    profile = load_profile("spring_listener")
    told = {it.signal: it.how_to_get_it for it in build_finding(row, profiles=[profile]).missing}
    assert told["process_time"].startswith("It is there, but process times, or a good time to compare them with")
    row = subscription(answers=answers, path=("one_slow",), reasons={"one_slow": "no_baseline"})
    told = {it.signal: it.how_to_get_it for it in build_finding(row, profiles=[profile]).missing}
    assert "has no series in this window, or nothing tells how many records a call" in told["process_time"]
    assert "no profile in use counts what clients read" in told["process_time"]
    both = [profile, load_profile("micrometer")]
    told = {it.signal: it.how_to_get_it for it in build_finding(row, profiles=both).missing}
    assert "(by kafka_consumer_fetch_manager_records_consumed_total of the same process)" in told["process_time"]


def test_what_is_open_is_told_once_and_not_as_missing() -> None:
    """A question may need several signals: where all are measured, its reason is one line; one without data is a line of its own."""
    open_one = f"{MEASURED}nothing of it moves. To decide: look again in a minute."
    found = [Missing(signal=name, how_to_get_it=open_one) for name in ("committed_offset", "group_members")]
    found.insert(1, Missing(signal="rebalances", how_to_get_it="No profile in use has this signal: x. Add it."))
    assert missing_words(found) == [
        "Open: nothing of it moves. To decide: look again in a minute.",
        "Missing: rebalances. No profile in use has this signal: x. Add it.",
    ]


@pytest.mark.parametrize(
    ("waiting", "said"),
    [
        (None, "what waits in the clients is not measured, no round-trip times"),
        (0.0, "no fetched messages wait in the clients, no round-trip times"),
        (1.0, "1 fetched message waits in the clients, no round-trip times"),
    ],
)
def test_fetched_messages_that_nobody_counts_are_not_none(waiting: float | None, said: str) -> None:
    """Agents of Java do not tell them."""
    assert TREE["slow_network"].words(subscription(fetch_queue_mean=waiting)) == said


def test_partitions_that_do_not_advance_are_accounted_for() -> None:
    """ "3 of 6 partitions advance" leaves three open: one stands still, one is read to its end, of one nothing was seen."""
    moved = [(0, 5.0, 9.0), (1, 7.0, 2.0), (2, 1.0, 0.0), (3, 0.0, 40.0), (4, 0.0, 0.0), (5, None, 3.0)]
    parts = tuple(
        made(PartitionFeatures, partition=number, committed_moved=by, lag_messages=lag) for number, by, lag in moved
    )
    row = subscription(partitions=parts, partition_count=6, moving_partitions=3, frozen_partitions=(3,))
    assert TREE["stuck"].words(row) == (
        "3 of 6 partitions advance; 1 (3) stands still, which the next questions may explain; 1 has nothing left to read; "
        "the commits of 1 are not measured"
    )
    row = subscription(partitions=parts[:3], partition_count=3, moving_partitions=3)
    assert TREE["stuck"].words(row) == "3 of 3 partitions advance"


UNMEASURED = tuple(made(PartitionFeatures, partition=number, lag_messages=5.0, log_start=0.0) for number in range(3))


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("lost", "no commits are measured"),
        ("reset", "no commits are measured"),
        ("consuming", "3 members, commits are not measured"),
        ("stuck", "0 of 3 partitions advance; the commits of 3 are not measured"),
        ("frozen", "no partition with lag is seen to stand still"),
        ("one_slow", "process times are not measured"),
        ("all_slow", "process times are not measured"),
    ],
)
def test_what_nobody_measures_is_not_called_well(question: str, said: str) -> None:
    """A lag exporter without commits: nothing advances, goes back or keeps its pace because nobody has looked."""
    row = subscription(partitions=UNMEASURED, partition_count=3, group_members=3.0, lag_messages=15.0)
    assert TREE[question].words(row) == said


def test_process_times_that_are_measured_lack_a_baseline() -> None:
    """More data help there, and only there."""
    row = subscription(processors=(made(ProcessorFeatures, processor="order", process_seconds=0.2),))
    assert TREE["one_slow"].words(row) == TREE["all_slow"].words(row) == "no baseline of process times"


@pytest.mark.parametrize(
    ("stuck", "few", "said"),
    [
        ((0, 1), 2, "2 partitions (0 and 1) stuck, 4 advancing"),
        ((0, 1, 2), 2, "3 partitions (0, 1 and 2) stuck, 3 advancing; more than a few (2)"),
    ],
)
def test_too_many_stuck_partitions_say_why_they_are_no_few(stuck: tuple[int, ...], few: int, said: str) -> None:
    """The question's answer is then no, although partitions stand still while others advance."""
    row = subscription(
        partition_count=6,
        stuck_partitions=stuck,
        stuck_count=len(stuck),
        moving_partitions=6 - len(stuck),
        few_partitions=few,
    )
    assert TREE["stuck"].words(row) == said


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("passing", "4 times in the window new members started and were gone again"),
        ("rejoining", "its members wait for each other to join, now and most of the time"),
    ],
)
@pytest.mark.parametrize("counted", [None, 0.0])
def test_a_storm_that_no_counter_shows_is_told_by_what_shows_it(rule: str, said: str, counted: float | None) -> None:
    """ "0 rebalances in the window" is no reason for a storm."""
    row = subscription(
        answers={"rebalancing": Answer.YES}, reasons={"rebalancing": rule}, rebalances=counted, passing_rounds=4
    )
    assert TREE["rebalancing"].words(row) == said


@pytest.mark.parametrize(
    ("rule", "but"), [("works_on", ", but its handlers work"), ("stays", ", but no member"), ("over", "")]
)
def test_without_a_counter_only_the_rule_that_decided_is_told(rule: str, but: str) -> None:
    """That handlers work all the time is known where that decided."""
    said = TREE["rebalancing"].words(subscription(answers={"rebalancing": Answer.NO}, reasons={"rebalancing": rule}))
    assert said.startswith(f"no rebalance counter{but}")
    assert ("but" in said) is bool(but)


def test_partitions_without_a_lag_do_not_keep_up() -> None:
    """Of six, one is behind, three are in time, and of two nobody measures anything."""
    parts = tuple(
        made(PartitionFeatures, partition=number, lag_messages=lag)
        for number, lag in enumerate((900.0, 0.0, 1.0, 2.0, None, None))
    )
    row = subscription(
        partitions=parts, partition_count=6, behind_partitions=(0,), few_partitions=2,
        answers=dict.fromkeys(TREE, Answer.CANNOT_TELL) | {"lagging": Answer.YES},
    )  # fmt: skip
    assert also_true(row, (), leaf_of(Verdict.CANNOT_TELL)) == ("Behind is partition 0; 3 other partitions keep up.",)


@pytest.mark.parametrize(
    ("late", "said"), [(None, "nothing is late"), (1.0, "what is behind does not catch up in time")]
)
def test_what_does_not_drain_is_no_all_clear(late: float | None, said: str) -> None:
    """Nothing to catch up with, or nothing that ends in time: the answer is no in both cases."""
    part = made(PartitionFeatures, partition=0, lag_messages=90.0, story={"late": late} if late is not None else {})
    assert TREE["draining"].words(subscription(partitions=(part,), partition_count=1)).startswith(said)


@pytest.mark.parametrize(("moved", "answer"), [(None, Answer.CANNOT_TELL), (0.0, Answer.NO)])
def test_members_that_tell_nothing_any_more_are_gone_only_if_commits_are_measured(
    moved: float | None, answer: Answer
) -> None:
    """Their scrape may be down: where nobody measures commits, nothing shows that no one reads."""
    row = subscription(limits=Thresholds(), live_members=0, baseline_members=3, committed_moved=moved)
    assert deciding(TREE["consuming"].rules, row).answer is answer


@pytest.mark.parametrize(
    ("known", "words", "headline"),
    [
        (1, "its processor takes 2.0 × its baseline", "The handler is slow: it takes 2.0 × its baseline."),
        (
            4,
            "half of the processors take at least 2.0 × their baseline",
            "Processors are slow: half of them take at least 2.0 ×",
        ),
    ],
)
def test_slower_processors_are_not_all_of_them(known: int, words: str, headline: str) -> None:
    """The median decides: half may be as fast as before."""
    row = subscription(limits=Thresholds(), known_count=known, median_slow_down=2.0)
    assert TREE["all_slow"].words(row) == words
    assert leaf_of(Verdict.SLOW_DOWNSTREAM).headline(row).startswith(headline)

"""An open transaction holds back what comes after it: seen where a commit stands at the last stable offset, below the log's end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from evaluation.stories import TIMES, Story, growing, steps
from tests.triage.judging import rows_of
from tests.triage.test_verdicts import stuck
from workbench.triage.build_finding import build_finding
from workbench.triage.finding import Finding
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.verdict_names import Verdict

pytestmark = pytest.mark.jvm

STANDS = 1_004_495  # the commit of a partition that stands still
NOW = TIMES >= -0.1
NOBODY_INSIDE = np.zeros(len(TIMES), dtype=bool)
OPEN = "open_transaction"


def stable(story: Story, number: int, offset: float, keep: np.ndarray = NOW) -> Story:
    """Kafka's answer, at the end of the window if not otherwise said."""
    return story.add("last_stable_offset", offset, keep=keep, topic=story.topic, partition=number)


def lag_exporter(story: Story, numbers: list[int]) -> Story:
    """The same as `stuck`, seen from outside alone."""
    for number in range(story.partitions):
        still = number in numbers
        lag = growing(50.0, start=5, since=-90) if still else 5.0
        story.partition(number, lag=lag, time_lag=None)
    return story.people(keep=NOBODY_INSIDE)


def each(story: Story, offset: float) -> Story:
    """All partitions at one last stable offset."""
    for number in range(story.partitions):
        stable(story, number, offset)
    return story


class Case(NamedTuple):
    """A story, its verdict, and whether an open transaction is its cause."""

    make: Callable[[Story], Story]
    verdict: Verdict
    is_open: bool


CASES = {
    "at-the-commit": Case(lambda s: stable(stuck(s, [2]), 2, STANDS), Verdict.STUCK_PARTITION, True),
    "behind-two-marks": Case(lambda s: stable(stuck(s, [2]), 2, STANDS + 2), Verdict.STUCK_PARTITION, True),
    "behind-three-records": Case(lambda s: stable(stuck(s, [2]), 2, STANDS + 3), Verdict.STUCK_PARTITION, False),
    "below-the-commit": Case(lambda s: stable(stuck(s, [2]), 2, STANDS - 1), Verdict.STUCK_PARTITION, False),
    # A client that has gone on to fetch would have told it again.
    "some-minutes-ago": Case(
        lambda s: stable(stuck(s, [2]), 2, STANDS, keep=(TIMES > -500) & (TIMES < -400)), Verdict.STUCK_PARTITION, False
    ),
    "none-is-open": Case(lambda s: stable(stuck(s, [2]), 2, 1_009_000), Verdict.STUCK_PARTITION, False),
    "in-two-of-three": Case(
        lambda s: stable(stable(stable(stuck(s, [0, 1, 2]), 0, 1_009_000), 1, STANDS), 2, STANDS),
        Verdict.STUCK_PARTITION,
        True,
    ),
    "in-one-of-two": Case(lambda s: stable(stuck(s, [1, 2]), 2, STANDS), Verdict.STUCK_PARTITION, False),
    # The group itself explains nothing, so nothing has to be known of it.
    "from-outside-one": Case(lambda s: stable(lag_exporter(s, [2]), 2, STANDS), Verdict.STUCK_PARTITION, True),
    "from-outside-all": Case(lambda s: each(lag_exporter(s, [0, 1, 2, 3]), STANDS), Verdict.STUCK_PARTITION, True),
    "from-outside-unasked": Case(lambda s: lag_exporter(s, [0, 1, 2, 3]), Verdict.CANNOT_TELL, False),
    "nobody-is-there": Case(
        lambda s: each(s.all_partitions(lag=growing(50.0, start=5, since=-90), time_lag=None), STANDS).people(
            keep=TIMES < -85, group_members=steps(4, 0, at=-85)
        ),
        Verdict.CONSUMER_STOPPED,
        True,
    ),
    # The mark behind the last record of a transaction: nothing waits.
    "a-mark-at-the-end": Case(
        lambda s: each(s.all_partitions(rate=0.0, lag=1.0, time_lag=None), 1_000_000).calm(), Verdict.HEALTHY, False
    ),
}


@pytest.fixture(scope="module")
def rows(spark: Any) -> dict[str, SubscriptionFeatures]:
    """All stories, judged together."""
    return rows_of(spark, [case.make(Story(group=name, topic=f"about-{name}")) for name, case in CASES.items()])


def finding_of(row: SubscriptionFeatures) -> Finding:
    """Its finding."""
    return build_finding(row, profiles=[], bootstrap="broker:9092")


@pytest.mark.parametrize("name", CASES)
def test_the_cause_is_open_where_nothing_more_may_be_read(name: str, rows: dict[str, SubscriptionFeatures]) -> None:
    """At the commit, or behind the marks that no consumer is given; the verdict follows even from outside."""
    row, case = rows[name], CASES[name]
    assert row.verdict is case.verdict, finding_of(row).headline
    assert (row.stall_cause == OPEN) is case.is_open


def test_the_finding_says_where_and_how_to_end_it(rows: dict[str, SubscriptionFeatures]) -> None:
    """With the options of Kafka's own tool; no restart, no partitions, no dead letter."""
    for name in ("at-the-commit", "from-outside-all"):
        finding = finding_of(rows[name])
        assert "a transaction is open" in finding.headline
        assert finding.scope.cause == OPEN
        commands = [action.command or "" for action in finding.actions]
        first = finding.scope.partitions[0]
        where = f"--topic about-{name} --partition {first}"
        assert commands == [
            f"kafka-transactions --bootstrap-server broker:9092 describe-producers {where}",
            "kafka-transactions --bootstrap-server broker:9092 list --duration-filter 60000",
            f"kafka-transactions --bootstrap-server broker:9092 abort {where} --start-offset {STANDS}",
        ]
        assert {action.kind for action in finding.actions} == {None, "abort_transaction"}
        [last] = [action for action in finding.actions if action.kind]
        assert last.parameters["starts"] == {str(number): STANDS for number in finding.scope.partitions}


def test_only_what_is_open_is_aborted(rows: dict[str, SubscriptionFeatures]) -> None:
    """A partition that stands still for another reason has no transaction to end."""
    finding = finding_of(rows["in-two-of-three"])
    assert finding.scope.partitions == (0, 1, 2)
    [last] = [action for action in finding.actions if action.kind]
    assert last.parameters["starts"] == {"1": STANDS, "2": STANDS}
    assert "--partition 1 " in (finding.actions[0].command or "") + " "


def test_what_stands_still_is_not_called_hot(rows: dict[str, SubscriptionFeatures]) -> None:
    """Its lag is the highest of all, and says nothing of the keys."""
    assert not any("Hot" in words for words in finding_of(rows["at-the-commit"]).contributing)

"""Cold reads: what is read next is in remote storage alone. Never more consumers; and no guess where nobody tells of remote storage."""

from __future__ import annotations

from typing import Any

import pytest

from tests.triage.made import made, subscription
from workbench.features.subscription_measurements import PartitionFeatures
from workbench.triage.action_subject import Subject
from workbench.triage.causes.cold_read import LEAF, QUESTION
from workbench.triage.facts.cold_reads import Cold
from workbench.triage.question_types import deciding
from workbench.triage.status import draining
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.verdict_names import Answer, Verdict


def part(number: int, **known: Any) -> PartitionFeatures:
    """A partition with 10,000 messages behind."""
    values = {"topic": "t", "partition": number, "committed": 5_000.0, "log_end": 15_000.0, "lag_messages": 10_000.0}
    return made(PartitionFeatures, **{**values, **known})


def group(*parts: PartitionFeatures, **known: Any) -> SubscriptionFeatures:
    """A group on these partitions; its facts about remote storage are computed."""
    row = subscription(partitions=parts, **known)
    for name in vars(Cold).keys() & vars(row).keys():
        del vars(row)[name]
    return row


def decided(row: SubscriptionFeatures) -> tuple[str, Answer]:
    """The rule, and its answer."""
    rule = deciding(QUESTION.rules, row)
    return rule.id, rule.answer


@pytest.mark.parametrize(
    ("start", "known", "rule", "answer"),
    [
        (5_000.0, {"remote_bytes_per_second": 9.0}, "local", Answer.NO),
        (5_001.0, {"remote_bytes_per_second": 9.0}, "remote", Answer.YES),
        (5_001.0, {"remote_bytes_per_second": 0.0}, "nobody_reads", Answer.NO),
        (5_001.0, {}, "cold", Answer.YES),
        (None, {"remote_bytes_per_second": 9.0}, "start_unknown", Answer.CANNOT_TELL),
        (None, {"remote_bytes_per_second": 0.0}, "not_told", Answer.NO),
        (None, {}, "not_told", Answer.NO),
    ],
)
def test_what_decides(start: float | None, known: dict[str, float], rule: str, answer: Answer) -> None:
    """The commit against the beginning of the brokers' disks, both sides; and what brokers read from remote storage."""
    assert decided(group(part(0, local_start=start), **known)) == (rule, answer)


def test_its_own_work_is_the_cause_wherever_the_records_are() -> None:
    """A slow handler falls off the brokers' disks, too."""
    row = group(part(0, local_start=9_000.0), remote_bytes_per_second=9.0, own_work=True)
    assert decided(row) == ("own_work", Answer.NO)


def test_one_partition_of_which_nothing_is_known_leaves_it_open() -> None:
    """Of one that is not behind, nothing needs to be known."""
    cold, dark = part(0, local_start=9_000.0), part(1)
    assert group(cold, dark).cold_messages is None
    assert group(cold, part(1, lag_messages=0.0)).cold_messages == 4_000.0
    assert group(cold, dark).cold_partitions == (0,)


def test_it_says_when_it_is_back() -> None:
    """4,000 messages, gaining 100/s on the log: 40 s; if it gains nothing, never."""
    known = {"local_start": 9_000.0, "committed_recent_per_second": 300.0}
    row = group(part(0, **known, arrival_recent_per_second=200.0), verdict=Verdict.COLD_READ)
    assert row.tail_seconds == pytest.approx(40.0)
    assert "back on them in 40 s" in LEAF.headline(row)
    slow = group(part(0, **known, arrival_recent_per_second=300.0), verdict=Verdict.COLD_READ)
    assert slow.tail_seconds is None and "does not get back" in LEAF.headline(slow)


def test_it_is_back_with_the_last_of_its_partitions() -> None:
    """One at 40 s and one at 400 s, whatever the others gain; one that gains nothing never is."""
    quick = part(0, local_start=9_000.0, committed_recent_per_second=300.0, arrival_recent_per_second=200.0)
    slow = part(1, local_start=9_000.0, committed_recent_per_second=210.0, arrival_recent_per_second=200.0)
    never = part(2, local_start=9_000.0, committed_recent_per_second=190.0, arrival_recent_per_second=200.0)
    assert group(quick, slow).tail_seconds == pytest.approx(400.0)
    assert group(quick, slow, never).tail_seconds is None
    assert group(quick, part(1, lag_messages=9.0)).tail_seconds is None


@pytest.mark.parametrize("cold", [True, False])
def test_one_that_catches_up_says_what_it_reads_from_remote_storage(cold: bool) -> None:
    """The rest comes faster, from the brokers' own disks: the time of all of it is at most what is said."""
    start = 9_000.0 if cold else 5_000.0
    row = group(
        part(0, local_start=start, committed_recent_per_second=300.0, arrival_recent_per_second=200.0),
        lag_recent_slope=-100.0,
    )
    said = draining.LEAF.headline(row)
    assert ("4,000 messages of it are in remote storage" in said and "back on them in 40 s" in said) == cold


@pytest.mark.parametrize("arriving", [200.0, 300.0])
def test_it_never_advises_more_consumers(arriving: float) -> None:
    """Whether it gets back or not: wait, cap, or a second group."""
    row = group(
        part(0, local_start=9_000.0, committed_recent_per_second=300.0, arrival_recent_per_second=arriving),
        verdict=Verdict.COLD_READ,
    )
    actions = LEAF.actions(Subject(cluster="c", group="g", topic="t"), row)
    assert all(it.kind != "add_consumers" for it in actions)
    assert "Do not add consumers" in actions[0].title
    assert any("second group" in it.title for it in actions) and any("impact" in (it.command or "") for it in actions)

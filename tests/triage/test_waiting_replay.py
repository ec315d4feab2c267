"""Rules of a replay that was planned and has no consumers yet: it is no incident, and what has begun is one again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evaluation.stories import Story
from tests.fleet import land_fleet
from tests.report.test_handoff import document
from tests.triage.made import made, subscription
from tests.triage.test_verdicts import CASES, capture_of
from workbench.api.triages import exit_code
from workbench.errors import ExitCode
from workbench.features.subscription_measurements import PartitionFeatures
from workbench.report.send_report import alerts_of, chat_text
from workbench.sweep.sweep_engine import sweep
from workbench.triage.finding import Finding
from workbench.triage.owner_links_commands import WAITING, waits
from workbench.triage.triage_engine import triage

BEGUN = {"re-1": {("orders", 0): 5, ("orders", 1): 7}}


def group(first: float | None, second: float | None, **known: Any) -> Any:
    """A group on two partitions, at these commits."""
    parts = tuple(
        made(PartitionFeatures, partition=number, committed_high=at) for number, at in enumerate((first, second))
    )
    return subscription(**{"group": "re-1", "topic": "orders", "partitions": parts, "group_members": 0.0, **known})


def test_it_waits_while_nobody_reads_and_nothing_has_moved() -> None:
    """One commit further, a member, another topic or another group: it is judged as any group."""
    assert waits(group(5.0, 7.0), BEGUN)
    assert waits(group(5.0, None), BEGUN)
    assert not waits(group(5.0, 8.0), BEGUN)
    assert not waits(group(None, None), BEGUN), "not known is not unmoved"
    assert not waits(group(5.0, 7.0, group_members=2.0), BEGUN)
    assert not waits(group(5.0, 7.0, topic="other"), BEGUN)
    assert not waits(group(5.0, 7.0, group="re-2"), BEGUN)
    assert not waits(group(5.0, 7.0), {})


def test_a_chat_says_what_it_is() -> None:
    """And neither counts it among the lagging nor sends an alert."""
    given = document()
    given["lines"].append({**given["lines"][0], "group": "re-1", "muted": WAITING})
    given["states"]["lagging"] = 2
    text = chat_text(given)
    assert "1 lagging, 1 healthy, 1 waiting replay" in text
    assert text.splitlines()[-1].endswith("re-1 ← orders: replay, waiting for consumers")
    assert len(alerts_of(given)) == 1


@pytest.mark.jvm
def test_triage_raises_no_alarm_for_it(spark: Any) -> None:
    """It is muted, comes last of its state, and does not count for the exit code."""
    names = ("stopped-no-members", "stopped-targets-down")
    recorded = capture_of([CASES[name].make(Story(group=name, topic="orders")) for name in names])
    begun = {it.group: _at(it) for it in triage(recorded, spark).findings}
    assert all(at for at in begun.values())
    one = triage(replace(recorded, begun={names[0]: begun[names[0]]}), spark)
    assert [(it.group, it.muted) for it in one.findings] == [(names[1], None), (names[0], WAITING)]
    assert exit_code(one) is ExitCode.FINDINGS
    assert exit_code(triage(replace(recorded, begun=begun), spark)) is ExitCode.OK
    moved = {name: {key: offset + 1 for key, offset in at.items()} for name, at in begun.items()}
    assert {it.muted for it in triage(replace(recorded, begun=moved), spark).findings} == {None}


@pytest.mark.jvm
def test_a_sweep_puts_it_last_and_does_not_count_it(spark: Any, tmp_path: Path) -> None:
    """`triage --all`."""
    fleet = land_fleet(tmp_path / "store", subscriptions=60, slot_seconds=600)
    before = sweep(fleet, spark)
    sick = [it for it in before.findings if not it.features.group_members and _at(it)]
    assert len(before.findings) >= 2
    assert sick
    first = sick[0]
    after = sweep(replace(fleet, begun={first.group: _at(first)}), spark)
    assert [it.muted for it in after.findings if it.group == first.group] == [WAITING]
    assert after.lagging == before.lagging - 1
    assert after.findings[0].group != first.group


def _at(finding: Finding) -> dict[tuple[str, int], int]:
    assert finding.features is not None
    return {
        (finding.topic, it.partition): round(it.committed_high)
        for it in finding.features.partitions
        if it.committed_high is not None
    }

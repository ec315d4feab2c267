"""Groups that the questions are not about are "cannot tell", and named; and partitions on their way are evidence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from evaluation.stories import IN_WINDOW, THRESHOLDS, WINDOW, Story, lagging
from tests.reference.valid import valid
from workbench.api.triages import TriageResult, exit_code
from workbench.collect.capture import Capture, new_info
from workbench.errors import ExitCode, NoSeriesError
from workbench.queues.group_kinds import REDRIVE, REDRIVE_PREFIX
from workbench.queues.snapshot_views import GroupView, Member, views_table
from workbench.report.health_report import assess, overview
from workbench.report.html_report import render_html
from workbench.samples import SAMPLES_SCHEMA, SampleBatch, concat
from workbench.settings_of_groups import GroupSettings
from workbench.triage.triage_engine import Triage, triage
from workbench.triage.verdict_names import Answer, State, Verdict

pytestmark = pytest.mark.jvm

PEOPLE = (Member(member_id="m", client_id="m", host="/h", partitions=(("orders", 0),)),)


def captured(stories: list[Story], kinds: dict[str, str]) -> Capture:
    """Stories, with what Kafka says of the groups."""
    views = [
        GroupView(group=it, state="stable", protocol=kind, coordinator=1, members=PEOPLE) for it, kind in kinds.items()
    ]
    info = new_info(
        cluster="test", bootstrap=None, source="test", profiles=["runtime"], window=WINDOW, thresholds=THRESHOLDS
    )
    samples = concat([it.samples() for it in stories]) if stories else SAMPLES_SCHEMA.empty_table()
    return Capture(info=info, samples=samples, groups=views_table(views, "test", WINDOW.end.timestamp()))


def judged(spark: Any) -> tuple[Capture, Triage]:
    """Healthy and lagging groups of several kinds; two groups without any sample."""
    stories = [
        Story(group="plain").all_partitions().calm(),
        Story(group="app").all_partitions().calm(),
        Story(group="share").all_partitions().calm(),
        lagging(Story(group="share-late")).calm(),
    ]
    kinds = {"plain": "consumer", "app": "streams", "share": "share", "share-late": "share"}
    capture = captured(stories, {**kinds, "workers": "connect", "schemas": "sr", "idle": "classic"})
    return capture, triage(capture, spark)


def test_no_share_group_is_healthy_or_lagging_and_none_is_absent(spark: Any) -> None:
    """Whatever the samples look like: only its own lag is known of it."""
    capture, result = judged(spark)
    found = {it.group: it for it in result.findings}
    assert {name: it.kind for name, it in found.items()} == {
        "plain": "consumer", "app": "streams", "share": "share", "share-late": "share",
    }  # fmt: skip
    assert found["plain"].verdict is found["app"].verdict is Verdict.HEALTHY
    for name in ("share", "share-late"):
        it = found[name]
        assert (it.verdict, it.state) == (Verdict.CANNOT_TELL, State.CANNOT_TELL)
        assert it.headline.startswith("Cannot tell: a share group (KIP-932): ")
        assert (it.path, it.candidates, it.eta_drain_seconds, it.time_lag.seconds) == ((), (), None, None)
        assert it.lag_messages is not None
        assert it.to_json()["kind"] == "share"
    assert [(it.group, it.kind) for it in result.not_judged] == [("schemas", "sr"), ("workers", "connect")]
    assert [it["group"] for it in result.to_json()["not_judged"]] == ["schemas", "workers"]
    assert exit_code(result) == ExitCode.EVIDENCE
    html = render_html(result, capture)
    shown = TriageResult(triage=result, capture=capture)._repr_html_()
    for text in (html, shown):
        assert "workers" in text and "group of Kafka Connect workers" in text
        assert "a share group (KIP-932)" in text


def test_a_request_for_such_a_group_alone_has_an_answer(spark: Any) -> None:
    """Without any sample; a group that nobody knows is still an error."""
    capture = captured([], {"workers": "connect", "plain": "classic"})
    result = triage(capture, spark, groups=["workers"])
    assert result.findings == ()
    assert [it.group for it in result.not_judged] == ["workers"]
    assert exit_code(result) == ExitCode.EVIDENCE
    render_html(result, capture)
    TriageResult(triage=result, capture=capture)._repr_html_()
    with pytest.raises(NoSeriesError):
        triage(capture, spark, groups=["plain"])


def test_where_only_gateways_are_measured_the_command_that_tells_of_them_is_named(spark: Any) -> None:
    """Nothing is wrong with the names of groups, or with the profile."""
    waiting = SampleBatch("test", "page")
    labels: dict[str, str | int | None] = {"member": "agent-1", "queue": "gateway"}
    waiting.add("disk_backlog_records", labels, [round(WINDOW.end.timestamp() * 1e6)], [7.0])
    with pytest.raises(NoSeriesError) as caught:
        triage(replace(captured([], {}), samples=waiting.to_arrow()), spark)
    assert caught.value.hint == "What is measured stands before Kafka: workbench audit upstream --cluster test"


def test_a_health_report_lists_them(spark: Any) -> None:
    """In the table, among what could not be judged, in the JSON and in the exit code."""
    capture, result = judged(spark)
    health = assess(capture, result, {}, start=WINDOW.start, end=WINDOW.end)
    page = render_html(result, capture, health=health)
    assert page.count("workers") >= 2
    assert "<th>Kind</th>" in page
    text = overview(health)
    assert "streams" in text and "workers: Cannot tell: a group of Kafka Connect workers" in text
    document = health.to_json()
    valid("health", document)
    assert {it["group"]: it["kind"] for it in document["lines"]}["app"] == "streams"
    assert [it["group"] for it in document["not_judged"]] == ["schemas", "workers"]
    assert health.exit_code == ExitCode.EVIDENCE
    alone = triage(captured([Story(group="plain").all_partitions().calm()], {"plain": "classic"}), spark)
    assert assess(capture, alone, {}, start=WINDOW.start, end=WINDOW.end).exit_code == ExitCode.OK


@pytest.mark.parametrize(("moving", "told"), [(3.0, True), (0.0, False), (None, False), ("once", False)])
def test_a_group_that_reconciles_all_the_time_is_named(spark: Any, moving: Any, told: bool) -> None:
    """In the words and numbers of the question about rebalances, and beside the verdict; one rebalance is none of it."""
    story = lagging(Story(group="g")).calm()
    if moving is not None:
        shape = (lambda times: (abs(times + 30) < 5) * 2.0) if moving == "once" else moving
        story.add("reassigning_partitions", shape, keep=IN_WINDOW, group="g")
    [finding] = triage(captured([story], {"g": "consumer"}), spark).findings
    [step] = [it for it in finding.path if it.node == "rebalancing"]
    assert step.answer is Answer.NO
    assert ("reconciling all the time, at least 3 partitions" in step.words) is told
    evidence = {it.signal: it.value for it in step.evidence}
    assert evidence["reassigning_partitions"] == (0.0 if moving == "once" else moving)
    assert any("reconciling" in text for text in finding.contributing) is told


def test_a_muted_group_of_another_kind_is_shown_and_does_not_count(spark: Any) -> None:
    """A Connect cluster for good, for example: the exit code is that of what can be judged."""
    capture = captured([Story(group="plain").all_partitions().calm()], {"plain": "classic", "workers": "connect"})
    mute = {"workers": GroupSettings.model_validate({"mute": {"until": "2099-01-01T00:00:00Z", "reason": "known"}})}
    capture = replace(capture, info=capture.info.model_copy(update={"expected": mute}))
    result = triage(capture, spark)
    [workers] = result.not_judged
    assert workers.muted is not None and "known" in workers.muted
    assert exit_code(result) == ExitCode.OK


PLAN_GROUP = f"{REDRIVE_PREFIX}{'a' * 32}"


def test_positions_of_redrive_plans_alarm_nobody(spark: Any) -> None:
    """Left out of a triage of all groups and of a health report; asked for by name, it is named, and is never lagging."""
    stories = [Story(group="plain").all_partitions().calm(), lagging(Story(group=PLAN_GROUP)).calm()]
    for kinds in ({"plain": "consumer"}, {"plain": "consumer", PLAN_GROUP: REDRIVE}):
        capture = captured(stories, kinds)
        result = triage(capture, spark)
        assert [it.group for it in result.findings] == ["plain"]
        assert result.not_judged == ()
        health = assess(capture, result, {}, start=WINDOW.start, end=WINDOW.end)
        assert health.exit_code is ExitCode.OK
        assert "workbench-redrive" not in overview(health) + render_html(result, capture, health=health)
        (named,) = triage(capture, spark, groups=[PLAN_GROUP]).findings
        assert (named.kind, named.state) == (REDRIVE, State.CANNOT_TELL)
        assert named.headline.startswith("Cannot tell: the position of a redrive plan")

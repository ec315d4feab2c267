"""The tree on stories: each leaf is reached by what it is about. All of them in one Spark job, as in production."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from evaluation.stories import IN_WINDOW, THRESHOLDS, TIMES, WINDOW, Story, growing, lagging, steps
from tests.reference.valid import valid
from workbench.collect.capture import Capture, new_info
from workbench.errors import NoSeriesError
from workbench.samples import concat
from workbench.triage.finding import Finding
from workbench.triage.triage_engine import Triage, triage
from workbench.triage.verdict_names import Answer, State, Verdict

pytestmark = pytest.mark.jvm


@dataclass(frozen=True)
class Case:
    """A story and what triage should say of it."""

    make: Callable[[Story], Story]
    verdict: Verdict
    scope: dict[str, Any] = field(default_factory=dict)
    candidates: set[Verdict] | None = None


def with_slow(story: Story, **slow: Any) -> Story:
    """A lagging subscription with a full queue of "refund"."""
    return (
        lagging(story).people().fetch_queue().enqueue().processor("order").processor("view").processor("refund", **slow)
    )


FULL = steps(0.05, 0.95, at=-80.0)


def hot(story: Story, *, partitions: int, hot_ones: int) -> Story:
    """Some partitions get four times as much and fall behind, the others do not; the queues are empty."""
    story.partitions = story.members = partitions
    for number in range(partitions):
        if number < hot_ones:
            story.partition(number, rate=200.0, lag=growing(40.0, start=5, since=-80), time_lag=growing(0.7, since=-80))
        else:
            story.partition(number)
    return story.calm()


def stuck(story: Story, numbers: list[int]) -> Story:
    """Some commits do not move while messages arrive."""
    for number in range(story.partitions):
        if number in numbers:
            story.partition(number, rate=50.0, lag=growing(50.0, start=5, since=-90), time_lag=growing(1.0, since=-90))
        else:
            story.partition(number)
    return story.calm()


def _without_baseline(story: Story) -> Story:
    """A new event type that was first seen within the window: nobody knows how fast it was before."""
    story = lagging(story).people().fetch_queue()
    late = Story(group=story.group, topic=story.topic).processor("order", seconds=0.4, fill=FULL).samples()
    times = late["ts"].to_pylist()
    story.batches.append(late.filter(np.array([ts > WINDOW.start for ts in times])))
    return story


GONE = ~IN_WINDOW

CASES: dict[str, Case] = {
    "healthy": Case(lambda s: s.all_partitions().calm(), Verdict.HEALTHY),
    "healthy-sawtooth": Case(
        # Commits every 4 s: lag goes up and down between 0 and 200, and is never late.
        lambda s: s.all_partitions(lag=lambda t: 50.0 * (t % 4), time_lag=lambda t: t % 4).calm(),
        Verdict.HEALTHY,
    ),
    "healthy-quiet": Case(lambda s: s.all_partitions(rate=0.0, lag=0.0, time_lag=0.0).calm(), Verdict.HEALTHY),
    "burst": Case(
        lambda s: s.all_partitions(
            lag=lambda t: np.maximum(0, 6000 - 40 * (t + 100)), time_lag=lambda t: np.maximum(0.0, 60 - 0.4 * (t + 100))
        ).calm(),
        Verdict.PRODUCER_BURST,
    ),
    "no-data": Case(lambda s: s.all_partitions(keep=GONE).calm(), Verdict.NO_DATA),
    "no-data-lately": Case(lambda s: s.all_partitions(keep=TIMES < -15).calm(), Verdict.NO_DATA),
    "unusable-nan": Case(lambda s: s.all_partitions(lag=float("nan"), time_lag=None).calm(), Verdict.UNUSABLE_DATA),
    "unusable-sentinel": Case(lambda s: s.all_partitions(lag=-1.0, time_lag=None).calm(), Verdict.UNUSABLE_DATA),
    "unusable-infinite": Case(lambda s: s.all_partitions(lag=float("inf"), time_lag=None).calm(), Verdict.UNUSABLE_DATA),
    "stopped-no-members": Case(
        lambda s: s.all_partitions(lag=growing(50.0, since=-70), time_lag=None).people(
            keep=TIMES < -65, group_members=steps(4, 0)
        ),
        Verdict.CONSUMER_STOPPED,
    ),
    "stopped-hanging": Case(
        lambda s: s.all_partitions(lag=growing(50.0, since=-70), time_lag=growing(1.0, since=-70)).people(
            poll_age=growing(1.0, since=-70)
        ),
        Verdict.CONSUMER_STOPPED,
    ),
    "stopped-targets-down": Case(
        # No exporter that counts members: but their own metrics have ended, and no commit moves.
        lambda s: s.all_partitions(lag=growing(50.0, since=-70), time_lag=None).people(
            keep=TIMES < -65, group_members=None if s.members is None else float("nan")
        ),
        Verdict.CONSUMER_STOPPED,
    ),
    "rebalances": Case(
        lambda s: lagging(s).people(rebalances=lambda t: np.floor(np.maximum(0, t + 60) / 12)).processor("order").fetch_queue(),
        Verdict.REBALANCE_STORM,
    ),
    "stuck": Case(lambda s: stuck(s, [2]), Verdict.STUCK_PARTITION, {"partitions": (2,), "offset": 1_004_495}),
    "stuck-most-of-them": Case(
        # Three of four is no longer "one partition", but what stands still is helped by no further partition either.
        lambda s: stuck(s, [0, 1, 2]),
        Verdict.STUCK_PARTITION,
    ),
    "delay": Case(
        lambda s: lagging(s).people(delay_fill=0.99).processor("order", fill=FULL).enqueue(steps(0.001, 0.4)).fetch_queue(),
        Verdict.DELAY_BACKLOG,
    ),
    "slow-processor": Case(
        lambda s: with_slow(s, seconds=steps(0.01, 0.4, at=-80.0), fill=FULL),
        Verdict.SLOW_PROCESSOR,
        {"processors": ("refund",)},
    ),
    "slow-but-idle": Case(
        # "refund" is slow, but its queue is empty: what holds things up is the full queue of "order" at normal speed.
        lambda s: lagging(s)
        .people()
        .fetch_queue()
        .processor("order", fill=FULL)
        .processor("refund", seconds=steps(0.01, 0.4, at=-80.0)),
        Verdict.SATURATED_PROCESSORS,
        {"processors": ("order",)},
    ),
    "slow-for-half-of-the-baseline": Case(
        # The incident began long before the window; the lower median of the baseline's quarters is still the good time.
        lambda s: with_slow(s, seconds=steps(0.01, 0.4, at=-115.0), fill=steps(0.05, 0.95, at=-115.0)),
        Verdict.SLOW_PROCESSOR,
        {"processors": ("refund",)},
    ),
    "one-processor-only": Case(
        lambda s: lagging(s).people().fetch_queue().processor("order", seconds=steps(0.01, 0.2, at=-80.0), fill=FULL),
        Verdict.SLOW_PROCESSOR,
        {"processors": ("order",)},
    ),
    "no-baseline": Case(
        _without_baseline,
        Verdict.CANNOT_TELL,
        candidates={Verdict.SLOW_PROCESSOR, Verdict.SLOW_DOWNSTREAM, Verdict.SATURATED_PROCESSORS, Verdict.BURST},
    ),
    "hot-key": Case(
        lambda s: lagging(s).people().fetch_queue().enqueue().processor("order", fill=[FULL, 0.02, 0.02]).processor("refund"),
        Verdict.HOT_KEY,
        {"processors": ("order",), "queues": ("m-0/order/0",)},
    ),
    "slow-downstream": Case(
        lambda s: lagging(s)
        .people()
        .fetch_queue()
        .processor("order", seconds=steps(0.01, 0.1, at=-80.0), fill=FULL)
        .processor("refund", seconds=steps(0.02, 0.2, at=-80.0), fill=FULL)
        .processor("view", seconds=steps(0.005, 0.06, at=-80.0), fill=FULL),
        Verdict.SLOW_DOWNSTREAM,
    ),
    "saturated": Case(
        lambda s: lagging(s).people().fetch_queue().processor("order", fill=FULL).processor("refund", fill=FULL),
        Verdict.SATURATED_PROCESSORS,
        {"processors": ("order", "refund")},
    ),
    "throttled": Case(
        lambda s: lagging(s).people(throttle=steps(0.0, 0.5)).processor("order").fetch_queue(), Verdict.THROTTLED
    ),
    "slow-network": Case(
        lambda s: lagging(s).people(rtt=steps(0.02, 0.9, at=-80.0)).processor("order").fetch_queue(),
        Verdict.SLOW_NETWORK,
        {"brokers": ("1",)},
    ),
    "slow-rtt-but-full-fetch-queue": Case(
        # A client that does not take what it has fetched makes its own round trips long.
        lambda s: lagging(Story(group=s.group, topic=s.topic, members=2))
        .people(rtt=steps(0.02, 0.9, at=-80.0))
        .processor("order")
        .fetch_queue(500),
        Verdict.TOO_FEW_CONSUMERS,
    ),
    "hot-partition": Case(lambda s: hot(s, partitions=6, hot_ones=1), Verdict.HOT_PARTITION, {"partitions": (0,)}),
    "too-few": Case(lambda s: lagging(Story(group=s.group, topic=s.topic, members=2)).calm(), Verdict.TOO_FEW_CONSUMERS),
    "ceiling": Case(lambda s: lagging(s).calm(), Verdict.PARTITION_CEILING),
    "lag-only-exporter": Case(
        # Nothing from inside of the process: whatever depends on it is open.
        lambda s: lagging(s).people(keep=np.zeros(len(TIMES), dtype=bool)),
        Verdict.CANNOT_TELL,
        candidates={
            Verdict.REBALANCE_STORM, Verdict.DELAY_BACKLOG, Verdict.SLOW_PROCESSOR, Verdict.HOT_KEY, Verdict.SLOW_DOWNSTREAM,
            Verdict.SATURATED_PROCESSORS, Verdict.THROTTLED, Verdict.SLOW_NETWORK, Verdict.PARTITION_CEILING,
            Verdict.BURST,
        },
    ),
    "members-unknown": Case(
        lambda s: lagging(Story(group=s.group, topic=s.topic, members=None)).processor("order").fetch_queue(),
        Verdict.CANNOT_TELL,
    ),
}  # fmt: skip


def capture_of(stories: list[Story]) -> Capture:
    """One capture of many groups."""
    info = new_info(cluster="test", source="test", profiles=["runtime"], window=WINDOW, thresholds=THRESHOLDS)
    return Capture(info=info, samples=concat(story.samples() for story in stories))


@pytest.fixture(scope="module")
def result(spark: Any) -> Triage:
    """All stories, triaged together."""
    return triage(
        capture_of([case.make(Story(group=name, topic=f"about-{name}")) for name, case in CASES.items()]), spark
    )


@pytest.fixture(scope="module")
def findings(result: Triage) -> dict[str, Finding]:
    """By the name of the story."""
    return {finding.group: finding for finding in result.findings}


@pytest.mark.parametrize("name", CASES)
def test_the_verdict_of_a_story(name: str, findings: dict[str, Finding]) -> None:
    """Verdict and scope are what the story was about."""
    case, finding = CASES[name], findings[name]
    told = "\n".join(f"{step.question} {step.answer}: {step.words}" for step in finding.path)
    assert finding.verdict is case.verdict, told
    for attribute, wanted in case.scope.items():
        assert getattr(finding.scope, attribute) == wanted
    if case.candidates is not None:
        assert set(finding.candidates) == case.candidates


def test_the_path_leads_to_the_verdict(findings: dict[str, Finding]) -> None:
    """Python's path and Spark's verdict are two readings of one tree: the last answer leads to the verdict."""
    from workbench.triage.question_order import TREE

    for finding in findings.values():
        last = finding.path[-1]
        node = TREE[last.node]
        if finding.verdict is Verdict.CANNOT_TELL:
            assert last.answer is Answer.CANNOT_TELL
            continue
        way = node.yes if last.answer is Answer.YES else node.no
        assert finding.verdict in way.verdicts


def test_cannot_tell_names_what_is_missing(findings: dict[str, Finding]) -> None:
    """Each withheld verdict says which signal is needed and how to get it, and is never called healthy."""
    for name in ("lag-only-exporter", "members-unknown"):
        finding = findings[name]
        assert finding.state is State.CANNOT_TELL
        assert finding.missing
        assert all(item.how_to_get_it for item in finding.missing)


def test_lag_is_the_sum_of_the_partitions(findings: dict[str, Finding]) -> None:
    """Log end minus committed, partition by partition; unknown where it is unknown."""
    for name, finding in findings.items():
        known = [part for part in finding.partitions if part.lag_messages is not None]
        assert finding.lag_messages == (sum(part.lag_messages for part in known) if known else None), name
        for part in known:
            assert part.lag_messages == part.log_end - part.committed
    assert findings["unusable-sentinel"].lag_messages is None


def test_when_it_began_is_seen(findings: dict[str, Finding]) -> None:
    """The moment at which the lag began to grow, within two samples; nothing for what is healthy."""
    since = findings["slow-processor"].since
    assert since is not None
    assert abs((WINDOW.end - since).total_seconds() - 90) <= 4
    assert findings["healthy"].since is None


def test_every_evidence_has_a_number_and_every_sick_finding_an_action(findings: dict[str, Finding]) -> None:
    """A finding without evidence or advice helps nobody."""
    for finding in findings.values():
        assert finding.headline.endswith(".")
        if finding.state is State.LAGGING:
            assert finding.actions
            assert all(action.title and action.verify for action in finding.actions)
        if finding.verdict not in (Verdict.NO_DATA, Verdict.UNUSABLE_DATA, Verdict.CANNOT_TELL):
            last = finding.path[-1].evidence
            assert any(item.value is not None for item in last), finding.verdict


def test_the_first_action_is_never_the_command_that_was_just_run(result: Triage) -> None:
    """A triage of the group led here: what is advised first looks elsewhere, or goes on looking (`--watch`)."""
    seen = 0
    for finding in result.findings:
        first = finding.actions[0].command if finding.actions else None
        words = shlex.split(first) if first is not None else []
        seen += first is not None
        assert words[:2] != ["workbench", "triage"] or "--watch" in words, (finding.verdict, first)
    assert seen > 15


def test_the_json_is_the_contract(result: Triage) -> None:
    """The fields of `workbench.triage/1`, and nothing that JSON cannot say."""

    document = valid("triage", result.to_json())
    assert document["schema"] == "workbench.triage/1"
    assert set(document["window"]) == {"start", "end", "baseline_start"}
    for finding in document["findings"]:
        assert {
            "cluster", "group", "topic", "verdict", "state", "scope", "time_lag", "lag_messages", "eta_drain_seconds",
            "eta_loss_seconds", "path", "contributing", "missing", "actions", "runbook",
        } <= set(finding)  # fmt: skip
        assert set(finding["time_lag"]) == {"seconds", "method", "low", "high"}
        assert {
            "partitions",
            "processors",
            "queues",
            "members",
            "brokers",
            "keys",
            "offset",
            "cause",
            "needed",
            "needed_what",
        } == set(finding["scope"])
        for step in finding["path"]:
            assert {"node", "question", "answer", "evidence"} <= set(step)
            for item in step["evidence"]:
                assert {"signal", "value", "unit", "threshold", "baseline", "peers", "rule"} == set(item)


def test_what_was_not_measured_is_an_error_and_no_verdict(spark: Any) -> None:
    """A group that no series is about: exit code 4, with its name."""
    with pytest.raises(NoSeriesError, match="nobody"):
        triage(capture_of([Story().all_partitions().calm()]), spark, groups=["nobody"])


def test_a_stuck_partition_whose_commit_is_no_longer_reported_has_no_offset(spark: Any) -> None:
    """Its commit stood still as long as it was reported; where it stands now, Kafka must say."""
    story = Story(group="old", topic="old")
    for number in range(1, 4):
        story.partition(number)
    labels = {"group": "old", "topic": "old", "partition": 0}
    story.add("log_end_offset", (1e6 + 50.0 * (TIMES - TIMES[0])).tolist(), topic="old", partition=0)
    story.add("consumer_lag", growing(50.0, start=5, since=-90), **labels)
    story.add("time_lag", growing(1.0, since=-90), **labels)
    story.add("committed_offset", 1e6, keep=TIMES < -14, **labels)
    [finding] = triage(capture_of([story.calm()]), spark).findings
    assert (finding.verdict, finding.scope.partitions) == (Verdict.STUCK_PARTITION, (0,))
    assert finding.scope.offset is None
    assert finding.headline.startswith("Stuck: partition 0 not advancing, while 3 others are")
    [action] = finding.actions
    assert action.command is not None
    assert "--describe" in action.command

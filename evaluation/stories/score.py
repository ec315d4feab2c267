"""Judge the story book with the product's own triage, and count by kind what went wrong.

python -m evaluation.stories.score --seed 1                     # the whole book, a table by kind and tier
python -m evaluation.stories.score --seed 1 --kind everything --list-wrong
"""

from __future__ import annotations

import argparse
import re
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa

from evaluation.stories import END
from evaluation.stories.book import draw
from evaluation.stories.life import LOADED
from evaluation.stories.truth import HARMFUL, WINDOW, Story, Truth
from workbench.collect.capture import Capture, new_info
from workbench.samples import concat
from workbench.settings_of_groups import Expectations
from workbench.thresholds import Thresholds
from workbench.triage.finding import Finding
from workbench.triage.triage_engine import answered, finding_of, profiles_named
from workbench.triage.verdict_names import State

_CALM = {State.HEALTHY, State.DRAINING}
_TITLES = (
    (re.compile(r"^add consumers", re.I), "add_consumers"),
    (re.compile(r"^add partitions", re.I), "add_partitions"),
    (re.compile(r"^(send|move|skip)\b.*(dead-letter|record)", re.I), "dead_letter"),
    (re.compile(r"^restart", re.I), "restart_consumers"),
)


class Mark(StrEnum):
    """How a finding did."""

    RIGHT = "right"
    CALM = "sick called calm"
    ALARM = "alarm on well"
    WRONG = "wrong cause"
    UNKNOWN = "cannot tell"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A finding against the truth.

    Attributes:
        mark: how it did; `cannot_tell` counts as `RIGHT` where it is expected.
        harmful: kinds of advice that would do harm.
        since_error: onset as found minus the true one, in scrapes; None if either is missing.
        wants_since: whether an onset is expected.
    """

    story: Story
    truth: Truth
    finding: Finding | None
    mark: Mark
    harmful: tuple[str, ...]
    since_error: float | None
    wants_since: bool

    def __str__(self) -> str:
        found, truth = self.finding, self.truth
        lines = [f"{self.story.name}: {self.mark}" + (f", harmful: {', '.join(self.harmful)}" if self.harmful else "")]
        wanted = "/".join(sorted(truth.verdicts))
        causes = "" if truth.causes is None else f" cause {'/'.join(sorted(map(str, truth.causes)))}"
        began = "" if truth.onset is None else f", began {truth.onset / 60:.1f} min ago"
        lines.append(f"    wanted {wanted}{causes}{began}")
        if found is None:
            return "\n".join([*lines, "    no finding"])
        since = "" if found.since is None else f", since {(END - found.since).total_seconds() / 60:.1f} min"
        lines.append(f"    got {found.verdict} ({found.state}), cause {found.scope.cause}{since}: {found.headline}")
        lines.append("    path: " + " · ".join(f"{step.node}={step.answer}" for step in found.path))
        if found.actions:
            lines.append("    actions: " + " · ".join(f"{it.kind or '-'}: {it.title[:70]}" for it in found.actions))
        return "\n".join(lines)


def advice(finding: Finding) -> set[str]:
    """Kinds of its actions; also of those that only have words."""
    kinds = {it.kind for it in finding.actions if it.kind is not None}
    return kinds | {kind for it in finding.actions for pattern, kind in _TITLES if pattern.search(it.title)}


def judge(story: Story, truth: Truth, finding: Finding | None) -> Judged:
    """One finding."""
    verdict = "absent" if finding is None else str(finding.verdict)
    state = State.CANNOT_TELL if finding is None else finding.state
    mark = mark_of(truth, verdict, state, finding)
    given = set() if finding is None else advice(finding)
    harmful = given & truth.never
    if mark in (Mark.ALARM, Mark.WRONG):
        harmful |= given & HARMFUL
    wants = truth.onset is not None and truth.onset < LOADED and mark in (Mark.RIGHT, Mark.WRONG) and state not in _CALM
    error = None
    if wants and truth.onset is not None and finding is not None and finding.since is not None:
        error = ((finding.since - END).total_seconds() + truth.onset) / story.cast.scrape
    return Judged(
        story=story,
        truth=truth,
        finding=finding,
        mark=mark,
        harmful=tuple(sorted(harmful)),
        since_error=error,
        wants_since=wants,
    )


def mark_of(truth: Truth, verdict: str, state: State, finding: Finding | None) -> Mark:
    """How a verdict did against the truth."""
    calm = state in _CALM
    if not truth.sick:
        if verdict in truth.verdicts or calm:
            return Mark.RIGHT
        return Mark.UNKNOWN if state is State.CANNOT_TELL else Mark.ALARM
    if truth.quiet:
        return Mark.RIGHT if calm and verdict in truth.verdicts else Mark.WRONG
    if verdict in truth.verdicts:
        return _details(truth, verdict, finding)
    if calm:
        return Mark.RIGHT if truth.calm_is_fine else Mark.CALM
    return Mark.UNKNOWN if state is State.CANNOT_TELL and verdict not in truth.never else Mark.WRONG


def _details(truth: Truth, verdict: str, finding: Finding | None) -> Mark:
    if finding is None:
        return Mark.RIGHT
    if verdict == "stuck_partition" and truth.causes is not None and finding.scope.cause not in truth.causes:
        return Mark.WRONG
    words = " ".join([finding.headline, *finding.contributing, *(it.title for it in finding.actions)])
    if truth.mentions is not None and re.search(truth.mentions, words, re.I) is None:
        return Mark.WRONG
    return Mark.RIGHT


def captured(stories: Sequence[Story], tables: Iterable[pa.Table]) -> Capture:
    """All stories as one capture."""
    head = new_info(
        cluster="prod",
        source="prometheus",
        profiles=["kafka_exporter", "runtime"],
        window=WINDOW,
        expected={story.group: story.settings for story in stories if story.settings is not None},
    )
    return Capture(info=head, samples=concat(tables))


def score(spark: Any, stories: Sequence[Story]) -> list[Judged]:
    """Judge all of them in one Spark job."""
    tables = {story.group: story.samples() for story in stories}
    capture = captured(stories, tables.values())
    limits, expected = Thresholds(), Expectations(capture.info.expected)
    rows = answered(spark, capture.samples, WINDOW, limits, expected)
    profiles = profiles_named(capture.info.profiles)
    # The words of `triage`, with the samples of each group alone: looking for 300 onsets among all samples would take minutes.
    findings = {
        (row.group, row.topic): finding_of(row, tables[row.group], WINDOW, expected, profiles=profiles, bootstrap=None)
        for row in rows
    }
    return [
        judge(story, truth, findings.get((story.group, truth.topic))) for story in stories for truth in story.truths
    ]


def table(judged: Sequence[Judged]) -> str:
    """By kind and tier: how many, and how many of each mark."""
    rows: dict[tuple[bool, str, str], list[Judged]] = defaultdict(list)
    for it in judged:
        rows[it.truth.sick, it.story.cast.kind, it.story.cast.tier].append(it)
    head = f"{'kind':<22}{'tier':<5}{'n':>4}{'right':>7}{'calm':>6}{'alarm':>7}{'wrong':>7}{'harm':>6}{'unknown':>9}   since (scrapes)"
    lines = [head]
    for sick in (False, True):
        lines.append("sick" if sick else "well")
        lines += [_row(kind, tier, group) for (s, kind, tier), group in rows.items() if s is sick]
        for tier in ("L", "R"):
            lines.append(
                _row("all", tier, [it for it in judged if it.truth.sick is sick and it.story.cast.tier == tier])
            )
    return "\n".join([*lines, _row("all", "", list(judged))])


def _row(kind: str, tier: str, group: list[Judged]) -> str:
    def of(mark: Mark) -> str:
        return str(sum(it.mark is mark for it in group) or "")

    harm = sum(bool(it.harmful) for it in group) or ""
    told = sum(it.finding is not None and it.finding.verdict == "cannot_tell" for it in group) or ""
    return (
        f"{kind:<22}{tier:<5}{len(group):>4}{of(Mark.RIGHT):>7}{of(Mark.CALM):>6}{of(Mark.ALARM):>7}{of(Mark.WRONG):>7}"
        f"{harm:>6}{of(Mark.UNKNOWN) or 0:>4} of {told or 0:<3} {_since(group)}".rstrip()
    )


def _since(group: list[Judged]) -> str:
    wanted = [it for it in group if it.wants_since]
    errors = np.abs([it.since_error for it in wanted if it.since_error is not None])
    if not wanted:
        return ""
    found = f"median {np.median(errors):.1f}, p95 {np.percentile(errors, 95):.1f}, " if len(errors) else ""
    return f"{found}{len(errors)} of {len(wanted)} present"


def shares(judged: Sequence[Judged]) -> dict[str, float]:
    """The bars: shares of the sick, of the well, and of all."""
    sick = [it for it in judged if it.truth.sick]
    well = [it for it in judged if not it.truth.sick]
    return {
        "sick called calm": sum(it.mark is Mark.CALM for it in sick) / max(1, len(sick)),
        "alarms on healthy": sum(it.mark is Mark.ALARM for it in well) / max(1, len(well)),
        "wrong cause": sum(it.mark is Mark.WRONG for it in sick) / max(1, len(sick)),
        "harmful advice": sum(bool(it.harmful) for it in judged) / max(1, len(judged)),
        "cannot tell": sum(it.mark is Mark.UNKNOWN for it in judged) / max(1, len(judged)),
    }


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", help="only stories of this kind")
    parser.add_argument("--number", type=int, help="only this story")
    parser.add_argument("--list-wrong", action="store_true", help="each story that failed: headline, path, actions")
    parser.add_argument("--clients", action="store_true", help="the same kinds, of consumers that somebody else wrote")
    parser.add_argument("--handlers", action="store_true", help="... whose clients show nothing of themselves")
    parser.add_argument("--list", action="store_true", help="each story")
    given = parser.parse_args()
    from workbench.spark.session import end, session

    began = time.monotonic()
    stories = [
        it
        for it in draw(given.seed, kind=given.kind, clients=given.clients, handlers=given.handlers)
        if given.number in (None, it.cast.number)
    ]
    spark = session()
    judged = score(spark, stories)
    end(spark)
    for it in judged:
        if given.list or (given.list_wrong and (it.mark is not Mark.RIGHT or it.harmful)):
            print(it)
    print(table(judged))
    print(", ".join(f"{name} {share:.1%}" for name, share in shares(judged).items()))
    print(f"{len(judged)} findings of {len(stories)} stories, seed {given.seed}, {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()

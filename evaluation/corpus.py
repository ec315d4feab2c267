"""Cases that can be judged again in a second: features as Spark measured them, with the truth beside them.

python -m evaluation.corpus --seeds 5001,5101 [--fresh] [--recordings DIR]   # how many are right, set by set
python -m evaluation.corpus --recordings DIR --list-wrong                    # of recordings alone

A set is measured once, into build/corpus; judging it again needs neither Spark nor a JVM.
"""

from __future__ import annotations

import argparse
import json
import pickle
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from evaluation.stories import book, odd_book
from evaluation.stories.score import Mark, captured, mark_of
from evaluation.stories.truth import WINDOW as STORY_WINDOW
from evaluation.stories.truth import Story, Truth
from evaluation.tiers import cases as tiers
from evaluation.tiers import faults
from evaluation.tiers.cases import TIERS, of_book
from workbench.collect.capture import Capture, read_capture
from workbench.features.subscription_measurements import MeasuredSubscription
from workbench.lab.lab import LAB_THRESHOLDS
from workbench.samples import concat
from workbench.settings_of_groups import Expectations
from workbench.thresholds import Thresholds
from workbench.triage import triage_engine
from workbench.triage.measured_from_spark_rows import measured_of
from workbench.triage.rank_candidate_causes import likeliest_first
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.tree_walk import candidates, judged
from workbench.triage.verdict_leaves import leaf_of
from workbench.triage.verdict_names import State, Verdict
from workbench.window import Window

ROOM = Path("build/corpus")
INCIDENTS = Path("notebooks/incidents")
_CALM = (State.HEALTHY, State.DRAINING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One subscription with its truth.

    Attributes:
        set: where it comes from. name: of the case. at: the window's end.
    """

    set: str
    name: str
    truth: Truth
    measured: MeasuredSubscription
    limits: Thresholds
    expected: Expectations
    at: datetime

    def judged(self) -> SubscriptionFeatures:
        """Answered anew."""
        return judged(self.measured, self.limits, self.expected, at=self.at)

    def mark(self, row: SubscriptionFeatures) -> Mark:
        """How an answer did."""
        return mark_of(self.truth, str(row.verdict), leaf_of(row.verdict).state, None)


def in_first_three(case: Case, row: SubscriptionFeatures) -> bool:
    """Whether the verdict is right, or one of the first three candidates of a "cannot tell"."""
    guessed = likeliest_first(candidates(row.answers), row)[:3] if row.verdict is Verdict.CANNOT_TELL else []
    return case.mark(row) is Mark.RIGHT or bool({str(it) for it in guessed} & case.truth.verdicts)


def harm_of(mark: Mark) -> int:
    """How bad a mark is: 0 right, 1 cannot tell, 2 wrong or a false alarm, 3 a sick one called calm."""
    return {Mark.RIGHT: 0, Mark.UNKNOWN: 1, Mark.WRONG: 2, Mark.ALARM: 2, Mark.CALM: 3}[mark]


def _measured(
    spark: Any, samples: Any, window: Window, limits: Thresholds, expected: Expectations
) -> list[MeasuredSubscription]:
    rows = triage_engine.condensed(samples, window, limits, expected)
    return measured_of(triage_engine.measured(spark, rows, limits).toArrow())


def _of_stories(spark: Any, name: str, stories: Sequence[Story]) -> Iterator[Case]:
    capture = captured(stories, [it.samples() for it in stories])
    limits, expected = Thresholds(), Expectations(capture.info.expected)
    found = {(it.group, it.topic): it for it in _measured(spark, capture.samples, STORY_WINDOW, limits, expected)}
    for story in stories:
        for truth in story.truths:
            if (it := found.get((story.group, truth.topic))) is not None:
                yield Case(
                    set=name,
                    name=story.name,
                    truth=truth,
                    measured=it,
                    limits=limits,
                    expected=expected,
                    at=STORY_WINDOW.end,
                )


def _of_cases(spark: Any, name: str, drawn: Sequence[tiers.Case]) -> Iterator[Case]:
    cases = [tiers.renamed(it, number) for number, it in enumerate(drawn)]
    unique = {case.name: case for case in cases}
    limits = Thresholds()
    expected = Expectations({it.name: it.settings for it in unique.values() if it.settings is not None})
    samples = concat([it.samples for it in unique.values()])
    found = {(it.group, it.topic): it for it in _measured(spark, samples, STORY_WINDOW, limits, expected)}
    for case in cases:
        if (it := found.get((case.name, case.topic))) is not None:
            yield Case(
                set=name,
                name=case.fault,
                truth=case.truth,
                measured=it,
                limits=limits,
                expected=expected,
                at=STORY_WINDOW.end,
            )


def _of_perturbed(spark: Any, name: str, seed: int) -> Iterator[Case]:
    """Cases of other people's clients and of the runtime, each with one thing less, or looked at from elsewhere."""
    chance = random.Random(seed)
    changes: list[Any] = [
        lambda it: tiers.without(it, "rebalances"),
        lambda it: tiers.without(tiers.without(it, "rebalances"), "throttle_time"),
        lambda it: tiers.without(it, "group_members"),
        lambda it: tiers.without(it, "broker_rtt"),
        lambda it: tiers.without(it, "fetch_queue_length"),
        lambda it: tiers.thinned(it, 4) if it.scrape_seconds == 15.0 else tiers.without(it, "rebalances"),
        lambda it: tiers.looked_earlier(it, 120.0),
        lambda it: tiers.skewed(it, chance.choice((-30.0, 30.0))),
    ]
    drawn = [it for tier in TIERS[1:] for it in of_book(seed, tier) if it.valid]
    yield from _of_cases(spark, name, [it for case in drawn if (it := chance.choice(changes)(case)) is not None])


def _truth(topic: str, told: dict[str, Any]) -> Truth:
    verdicts = frozenset({told["verdict"], *told.get("also", ())})
    return Truth(topic=topic, sick=leaf_of(Verdict(told["verdict"])).state not in _CALM, verdicts=verdicts)


def _of_capture(spark: Any, name: str, case: str, capture: Capture, told: dict[str, Any], group: str) -> Iterator[Case]:
    expected = Expectations(capture.info.expected)
    limits = capture.info.thresholds or LAB_THRESHOLDS
    for it in _measured(spark, capture.samples, capture.window, limits, expected):
        if it.group == group:
            yield Case(
                set=name,
                name=case,
                truth=_truth(it.topic, told),
                measured=it,
                limits=limits,
                expected=expected,
                at=capture.window.end,
            )


def _of_incidents(spark: Any, name: str) -> Iterator[Case]:
    for folder, told in json.loads((INCIDENTS / "truth.json").read_text()).items():
        yield from _of_capture(spark, name, told["scenario"], read_capture(INCIDENTS / folder), told, told["group"])


def _of_recordings(spark: Any, name: str, folder: Path) -> Iterator[Case]:
    """Runs as `evaluation.live --keep` leaves them: `*/truth.json` with `expected` beside `capture/`."""
    for path in sorted(folder.glob("**/truth.json")):
        told = json.loads(path.read_text())
        if "expected" not in told:
            continue
        capture = read_capture(path.parent / "capture")
        group = (capture.info.groups or [told.get("group")])[0]
        truth = {"verdict": told["expected"]["verdict"], "also": told.get("also", ())}
        yield from _of_capture(spark, name, f"{told.get('scenario', path.parent.name)}", capture, truth, group)


def sets_of(seeds: Sequence[int], recordings: Path | None = None) -> dict[str, Any]:
    """Functions that measure each set, by its name."""
    found: dict[str, Any] = {}
    if seeds:
        found["incidents"] = lambda spark: _of_incidents(spark, "incidents")
    for seed in seeds:
        found[f"plain-{seed}"] = lambda spark, s=seed: _of_stories(spark, f"plain-{s}", book.draw(s))
        found[f"clients-{seed}"] = lambda spark, s=seed: _of_stories(
            spark, f"clients-{s}", book.draw(s + 1, clients=True)
        )
        found[f"handlers-{seed}"] = lambda spark, s=seed: _of_stories(
            spark, f"handlers-{s}", book.draw(s + 2, handlers=True)
        )
        found[f"odd-{seed}"] = lambda spark, s=seed: _of_stories(spark, f"odd-{s}", odd_book.draw(s))
        for number, tier in enumerate(TIERS):
            found[f"tier{number}-{seed}"] = lambda spark, s=seed, t=tier, n=number: _of_cases(
                spark, f"tier{n}-{s}", [it for it in of_book(s, t) if it.valid]
            )
        found[f"faults-{seed}"] = lambda spark, s=seed: _of_cases(
            spark, f"faults-{s}", [it for t in TIERS[1:] for it in (*faults.pairs(s, t), *faults.unknown(s, t))]
        )
        found[f"perturbed-{seed}"] = lambda spark, s=seed: _of_perturbed(spark, f"perturbed-{s}", s)
    if recordings is not None:
        found[f"recordings-{recordings.name}"] = lambda spark: _of_recordings(spark, "recordings", recordings)
    return found


def load(seeds: Sequence[int], *, fresh: bool = False, recordings: Path | None = None) -> list[Case]:
    """All cases; measured now if they were not before."""
    ROOM.mkdir(parents=True, exist_ok=True)
    spark: Any = None
    found: list[Case] = []
    for name, measure in sets_of(seeds, recordings).items():
        path = ROOM / f"{name}.pickle"
        if fresh or not path.exists():
            if spark is None:
                from workbench.spark.session import session

                spark = session()
            path.write_bytes(pickle.dumps(list(measure(spark))))
        found += pickle.loads(path.read_bytes())
    if spark is not None:
        from workbench.spark.session import end

        end(spark)
    return found


def table(cases: Sequence[Case], rows: Sequence[SubscriptionFeatures]) -> str:
    """Marks by set."""
    marks: dict[str, Counter[Mark]] = {}
    for case, row in zip(cases, rows, strict=True):
        marks.setdefault(case.set, Counter())[case.mark(row)] += 1
    three: Counter[str] = Counter(case.set for case, row in zip(cases, rows, strict=True) if in_first_three(case, row))
    lines = [f"{'set':<18}{'cases':>6}" + "".join(f"{mark:>18}" for mark in Mark) + f"{'in the first three':>20}"]
    lines += [
        f"{name:<18}{sum(count.values()):>6}" + "".join(f"{count[mark]:>18}" for mark in Mark) + f"{three[name]:>20}"
        for name, count in marks.items()
    ]
    whole: Counter[Mark] = sum(marks.values(), Counter())
    lines.append(f"{'all':<18}{sum(whole.values()):>6}" + "".join(f"{whole[mark]:>18}" for mark in Mark))
    return "\n".join(lines)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", help="5001 by default; with recordings, none")
    parser.add_argument("--fresh", action="store_true", help="measure again, after a change of chronicle or features")
    parser.add_argument("--recordings", type=Path)
    parser.add_argument("--list-wrong", action="store_true")
    given = parser.parse_args()
    seeds = given.seeds or ("" if given.recordings else "5001")
    cases = load([int(it) for it in seeds.split(",") if it], fresh=given.fresh, recordings=given.recordings)
    rows = [case.judged() for case in cases]
    if given.list_wrong:
        for case, row in zip(cases, rows, strict=True):
            if (mark := case.mark(row)) is not Mark.RIGHT:
                wanted = "/".join(sorted(case.truth.verdicts))
                last = next(
                    (f"{name}.{row.reasons[name]}" for name in row.answers if row.answers[name] == "cannot_tell"), ""
                )
                print(f"{case.set} {case.name} ({case.measured.topic}): {mark}: {row.verdict}, wanted {wanted} {last}")
    print(table(cases, rows))


if __name__ == "__main__":
    from evaluation import corpus  # so that what is kept names this module

    corpus.main()

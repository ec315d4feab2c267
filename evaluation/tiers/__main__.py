"""Draw the cases, judge them, and write truth, results and scores.

python -m evaluation.tiers --seeds 901-905 --out build/evaluation [--perturb] [--no-baselines]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from evaluation.live import seeds_of
from evaluation.stories.book import draw
from evaluation.stories.score import Mark
from evaluation.stories.truth import WINDOW
from evaluation.tiers import baselines, faults
from evaluation.tiers.cases import (
    TIERS,
    Case,
    Tier,
    looked_earlier,
    of_book,
    renamed,
    skewed,
    thinned,
    windows,
    without,
)
from evaluation.tiers.score import HEAD, Outcome, Row, alarms, curve, of_finding, row, rows, share, state_right
from workbench.collect.capture import Capture, new_info, write_capture
from workbench.files import write_text
from workbench.samples import concat
from workbench.settings_of_groups import Expectations
from workbench.thresholds import Thresholds
from workbench.triage.finding import Finding
from workbench.triage.triage_engine import answered, finding_of, profiles_named
from workbench.window import Window

_BATCH = 400  # cases in one job
_EARLIER_SECONDS = (120.0, 300.0, 600.0)
_WINDOWS_SECONDS = (300.0, 1800.0, 3600.0)
_SKEW_SECONDS = (-30.0, 30.0)
_SIGNALS = {
    "lag": ("group_members", "log_start_offset", "consumer_lag"),
    "lag + statistics + process time": ("throttle_time", "broker_rtt", "process_time", "fetch_queue_length", "rebalances"),
    "runtime": ("poll_age", "queue_length", "queue_capacity", "enqueue_time", "process_time", "time_lag", "paused_partitions"),
}  # fmt: skip


def capture_of(cases: Sequence[Case], window: Window) -> Capture:
    """Cases as one capture."""
    head = new_info(
        cluster="prod",
        source="prometheus",
        profiles=["kafka_exporter", "runtime"],
        window=window,
        expected={case.name: case.settings for case in cases if case.settings is not None},
    )
    return Capture(info=head, samples=concat([case.samples for case in _once(cases)]))


def _once(cases: Sequence[Case]) -> list[Case]:
    return list({case.name: case for case in cases}.values())


def judged(spark: Any, cases: Sequence[Case], window: Window = WINDOW) -> list[tuple[Case, Finding | None]]:
    """What triage says, with default thresholds."""
    found: list[tuple[Case, Finding | None]] = []
    for begin in range(0, len(cases), _BATCH):
        part = [renamed(case, begin + number) for number, case in enumerate(cases[begin : begin + _BATCH])]
        capture = capture_of(part, window)
        limits, expected = Thresholds(), Expectations(capture.info.expected)
        profiles = profiles_named(capture.info.profiles)
        of_case = {(case.name, case.topic): case for case in part}
        findings = {}
        for it in answered(spark, capture.samples, window, limits, expected):
            key = (it.group, it.topic)
            if key in of_case:
                samples = of_case[key].samples
                findings[key] = finding_of(it, samples, window, expected, profiles=profiles, bootstrap=None)
        found += [(case, findings.get((case.name, case.topic))) for case in part]
    return found


def outcomes(spark: Any, cases: Sequence[Case], window: Window = WINDOW, method: str = "workbench") -> list[Outcome]:
    """Scored."""
    return [of_finding(case, finding, method) for case, finding in judged(spark, cases, window)]


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="901", help="as 901-905,907")
    parser.add_argument("--out", type=Path, default=Path("build/evaluation"))
    parser.add_argument("--tier", choices=TIERS, action="append")
    parser.add_argument(
        "--perturb", action="store_true", help="also looks, windows, scrapes, missing signals, clocks, decoys"
    )
    parser.add_argument("--captures", action="store_true", help="keep the samples, to try other methods on them")
    given = parser.parse_args()
    from workbench.spark.session import end, session

    began = time.monotonic()
    spark = session()
    try:
        told = evaluate(
            spark, seeds_of(given.seeds), given.tier or TIERS, given.out, perturb=given.perturb, captures=given.captures
        )
    finally:
        end(spark)
    print(told)
    print(f"{time.monotonic() - began:.0f} s; everything is in {given.out}")


def evaluate(
    spark: Any, seeds: Sequence[int], tiers: Sequence[Tier], out: Path, *, perturb: bool = False, captures: bool = False
) -> str:
    """All of it; returns the tables, and writes `cases.jsonl`, `results.jsonl` and `scores.json` into the folder."""
    out.mkdir(parents=True, exist_ok=True)
    scores: dict[str, Any] = {"seeds": list(seeds), "tiers": {}}
    lines: list[str] = []
    truths: list[dict[str, Any]] = []
    results: list[dict[str, Any]] = []
    for tier in tiers:
        drawn = [case for seed in seeds for case in of_book(seed, tier)]
        cases = [case for case in drawn if case.valid]
        truths += [case.to_json() for case in drawn]
        if captures:
            write_capture(
                out / f"capture-{TIERS.index(tier)}", capture_of([renamed(it, n) for n, it in enumerate(cases)], WINDOW)
            )
        pairs = judged(spark, cases)
        ours = [of_finding(case, finding) for case, finding in pairs]
        sick = [it for it in ours if it.case.truth.sick]
        status = sum(state_right(case, finding) for case, finding in pairs)
        others = [it for case in cases for it in baselines.all_of(case)]
        two = outcomes(spark, [case for seed in seeds for case in faults.pairs(seed, tier)])
        strange = outcomes(spark, [case for seed in seeds for case in faults.unknown(seed, tier)])
        results += [it.to_json() for it in [*ours, *others, *two, *strange]]
        table = [row("workbench", sick)]
        for name in ("Burrow's rules", "klag's rules", "n-sigma", "BARO"):
            theirs = [it for it in others if it.method == name]
            table.append(row(name, [it for it in theirs if it.case.truth.sick]))
            scores.setdefault("alarms of others", {}).setdefault(tier, {})[name] = alarms(theirs)
        scores["tiers"][tier] = {
            "drawn": len(drawn),
            "kept": len(cases),
            "status right": share(status, len(pairs)),
            "false alarms": alarms(ours),
            "well": sum(not it.case.truth.sick for it in ours),
            "methods": [it.to_json() for it in table],
            "faults": [it.to_json() for it in rows(sick, lambda it: it.case.fault)],
            "risk and coverage": curve(sick),
            "two faults": _two(two),
            "unknown faults": _unknown(strange),
        }
        lines += _told(tier, scores["tiers"][tier], table, sick)
        if perturb:
            changes = list(_perturbed(spark, seeds, tier, cases))
            scores["tiers"][tier]["perturbed"] = [it.to_json() for it in changes]
            lines += ["", f"{tier}, perturbed", HEAD, *map(str, changes)]
        lines.append("")
    write_text(out / "cases.jsonl", "".join(json.dumps(it) + "\n" for it in truths))
    write_text(out / "results.jsonl", "".join(json.dumps(it) + "\n" for it in results))
    write_text(out / "scores.json", json.dumps(scores, indent=1) + "\n")
    return "\n".join(lines)


def _two(found: Sequence[Outcome]) -> dict[str, Any]:
    return {
        "cases": len(found),
        "both named": share(sum(bool(it.both) for it in found), len(found)),
        "outright": share(sum(bool(it.outright) for it in found), len(found)),
        "larger first": share(sum(bool(it.first) for it in found), len(found)),
        "called calm": sum(it.mark is Mark.CALM for it in found),
    }


def _unknown(found: Sequence[Outcome]) -> dict[str, Any]:
    named = [it for it in found if it.mark is Mark.WRONG]
    return {
        "cases": len(found),
        "named as a known fault": share(len(named), len(found)),
        "called calm": sum(it.mark is Mark.CALM for it in found),
        "as": sorted({f"{it.case.fault}: {it.ranking[0]}" for it in named}),
    }


def _told(tier: Tier, scores: dict[str, Any], table: Sequence[Row], sick: Sequence[Outcome]) -> list[str]:
    two, strange = scores["two faults"], scores["unknown faults"]
    bad = [it for it in sick if it.mark in (Mark.WRONG, Mark.CALM)]
    ungrounded = [f"{it.case.fault}: {words}" for it in sick for words in it.disagreements]
    return [
        f"{tier}: {scores['kept']} of {scores['drawn']} cases count; status right {scores['status right']:.1%}, "
        f"{scores['false alarms']} alarms in {scores['well']} well",
        HEAD,
        *map(str, table),
        f"two faults: {two['cases']}, both named {two['both named']:.0%} (without candidates {two['outright']:.0%}), "
        f"larger first {two['larger first']:.0%}",
        f"unknown faults: {strange['cases']}, named as known ones {strange['named as a known fault']:.0%} {strange['as']}",
        *(f"  {it.mark}: {it.case.fault} {it.case.name}: {it.ranking[0]}: {it.words}" for it in bad),
        *(f"  not grounded: {it}" for it in ungrounded[:12]),
    ]


def _perturbed(spark: Any, seeds: Sequence[int], tier: Tier, cases: Sequence[Case]) -> Iterable[Row]:
    def sick(found: Iterable[Outcome]) -> list[Outcome]:
        return [it for it in found if it.case.truth.sick]

    for seconds in _EARLIER_SECONDS:
        looks = [it for case in cases if (it := looked_earlier(case, seconds)) is not None]
        yield row(f"looked {seconds:.0f} s earlier", sick(outcomes(spark, looks)))
    for window in windows(_WINDOWS_SECONDS):
        yield row(f"window {window.seconds:.0f} s", sick(outcomes(spark, cases, window)))
    fast = [thinned(case, 4) for case in cases if case.scrape_seconds == 15.0]
    yield row("a scrape of 15 s thinned to 60 s", sick(outcomes(spark, fast)))
    for signal in _SIGNALS.get(tier, ()):
        yield row(f"without {signal}", sick(outcomes(spark, [without(case, signal) for case in cases])))
    if tier != "lag":
        for seconds in _SKEW_SECONDS:
            yield row(f"clock {seconds:+.0f} s", sick(outcomes(spark, [skewed(case, seconds) for case in cases])))
    beside = [
        case
        for seed in seeds
        for story in draw(seed, clients=tier != "runtime")
        if story.cast.kind in faults.DECOYED and (tier != "runtime" or story.cast.tier == "R")
        for case in faults.with_decoys(story, tier)
        if case.valid
    ]
    yield row("beside a decoy", sick(outcomes(spark, beside)))


if __name__ == "__main__":
    main()

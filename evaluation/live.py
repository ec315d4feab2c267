"""How often triage is right, on real incidents: scenarios × seeds on the lab, or captures of such runs judged again.

    python -m evaluation.live --seeds 101-105 [--only hot_key] [--apply-advice] [--source scrape] [--keep DIR]
    python -m evaluation.live --captures DIR

Every run is judged twice: with all that the runtime shows, and with a lag exporter alone (no in-process metrics), where the right
answer may also be "cannot tell" as long as the truth is among the candidates and what is missing is named.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import traceback
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from evaluation.others.scenarios import EVERY, make_scenario
from workbench.collect.capture import Capture, read_capture
from workbench.lab import run_scenario as lab_run
from workbench.lab.lab import LAB_THRESHOLDS, Lab, start_lab
from workbench.lab.run_scenario import run_scenario
from workbench.lab.scenarios import SCENARIOS
from workbench.triage.finding import Finding
from workbench.triage.triage_engine import triage

ALL_SIGNALS, LAG_ONLY = "runtime", "kafka_exporter"
CALM = {"healthy", "producer_burst"}  # verdicts that ring no bell
WITHHELD = {"cannot_tell", "no_data", "unusable_data"}
# What handlers do with records no offset shows: the group keeps up, and by its lag it is healthy.
OUT_OF_SIGHT = {"failing_records"}
Case = dict[str, Any]


def seeds_of(text: str) -> list[int]:
    """ "101-105,7" as numbers."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def lag_only(capture: Capture) -> Capture:
    """What is left of a capture when only a lag exporter was there."""
    seen = capture.samples.filter(pc.equal(capture.samples["source"], LAG_ONLY))
    info = capture.info.model_copy(update={"profiles": [LAG_ONLY]})
    return Capture(info=info, samples=seen, groups=capture.groups.slice(0, 0))


def judged(truth: Case, capture: Capture, finding: Finding, profile: str) -> Case:
    """One case of the table."""
    expected, found = truth["expected"], finding.to_json()
    scope = {name: found["scope"][name] for name in expected["scope"]}
    as_lists = {name: list(value) if isinstance(value, tuple) else value for name, value in scope.items()}
    also = found["verdict"] in truth.get("also", ())
    right = also or found["verdict"] == expected["verdict"]
    withheld = found["verdict"] == "cannot_tell"
    honest = (profile == LAG_ONLY and found["verdict"] == "healthy" and expected["verdict"] in OUT_OF_SIGHT) or (
        withheld and expected["verdict"] in found["candidates"] and bool(found["missing"])
    )
    return {
        "scenario": truth["scenario"],
        "seed": truth["seed"],
        "profile": profile,
        "expected": expected,
        "found": {
            "verdict": found["verdict"],
            "scope": as_lists,
            "headline": found["headline"],
            "candidates": found["candidates"],
            "missing": [item["signal"] for item in found["missing"]],
        },
        "right": right,
        "scope_right": right and (also or as_lists == expected["scope"]),
        "withheld": withheld,
        "wrong": not right and not honest,
        "false_alarm": expected["verdict"] in CALM and found["verdict"] not in CALM | {"cannot_tell"},
        "capture": truth.get("capture"),
        "advice": truth.get("advice"),
    }


def judge(truth: Case, capture: Capture, spark: Any) -> list[Case]:
    """Both looks at one capture."""
    group = (capture.info.groups or [None])[0]
    cases = []
    looks = [(ALL_SIGNALS, capture)]
    if capture.info.source == "prometheus":  # pages are looked at beside Kafka itself, and have no lag exporter
        looks.append((LAG_ONLY, lag_only(capture)))
    for profile, seen in looks:
        finding = next(
            item for item in triage(seen, spark, thresholds=LAB_THRESHOLDS).findings if group in (None, item.group)
        )
        cases.append(judged(truth, seen, finding, profile))
    return cases


def run_all(
    names: Sequence[str],
    seeds: Sequence[int],
    *,
    folder: Path,
    side_by_side: int,
    advice: bool,
    out: Path,
    spark: Any,
    source: lab_run.Source = "prometheus",
) -> list[Case]:
    """Run scenarios on one lab, some at a time; Spark takes them one by one."""
    turn = threading.Lock()
    original = lab_run.triage

    def one_by_one(*arguments: Any, **options: Any) -> Any:
        with turn:
            return original(*arguments, **options)

    def one(lab: Lab, name: str, seed: int) -> list[Case]:
        try:
            run_id = f"{list(EVERY).index(name)}-{seed}"  # nothing that a verdict could be read from
            scenario = make_scenario(name, seed, bootstrap=lab.bootstrap, run_id=run_id)
            result = run_scenario(
                lab, scenario, lambda: spark, folder=folder / f"{name}-{seed}", advice=advice, source=source
            )
            truth = result.to_json()
            with turn:
                cases = judge(truth, read_capture(result.folder / "capture"), spark)
        except Exception as error:  # one run that breaks is a case that is not right; the others go on
            traceback.print_exc()
            failed = {"scenario": name, "seed": seed, "profile": ALL_SIGNALS, "expected": None, "found": None}
            cases = [{**failed, "error": str(error), "right": False, "scope_right": False, "wrong": True}]
        show(cases)
        done.extend(cases)
        save(out, done)
        return cases

    done: list[Case] = []
    lab_run.triage = one_by_one  # type: ignore[assignment]
    try:
        with (
            tempfile.TemporaryDirectory(prefix="workbench-accuracy-") as room,
            start_lab(Path(room) / "lab", temporary=True) as lab,
            ThreadPoolExecutor(side_by_side) as pool,
        ):
            wanted = [(name, seed) for seed in seeds for name in names]
            return [case for cases in pool.map(lambda it: one(lab, *it), wanted) for case in cases]
    finally:
        lab_run.triage = original


def show(cases: Iterable[Case]) -> None:
    """A line for each case as it comes."""
    for case in cases:
        found = case["found"] or {"verdict": case.get("error"), "scope": {}}
        mark = "ok" if case["scope_right"] else "open" if not case["wrong"] and not case["right"] else "WRONG"
        words = "" if mark == "ok" else f"  {found['scope']} {found.get('headline', '')}"
        print(
            f"{mark:6}{case['scenario']:34}{case['seed']:>4}  {case['profile']:15}{found['verdict']}{words}", flush=True
        )
        if case.get("advice"):
            print(f"      advice: {case['advice']}", flush=True)


def summary(cases: Sequence[Case], profile: str) -> Case:
    """Rates over the cases of one profile."""
    mine = [case for case in cases if case["profile"] == profile]
    right = [case for case in mine if case["right"]]
    return {
        "cases": len(mine),
        "top1": len(right) / len(mine) if mine else None,
        "scope_right": sum(case["scope_right"] for case in right) / len(right) if right else None,
        "false_alarms": sum(bool(case.get("false_alarm")) for case in mine),
        "wrong": sum(bool(case["wrong"]) for case in mine),
        "cannot_tell": sum(bool(case.get("withheld")) for case in mine),
    }


def confusion(cases: Sequence[Case], profile: str) -> str:
    """Expected verdicts as rows, found ones as columns."""
    pairs = Counter(
        (case["expected"]["verdict"], case["found"]["verdict"])
        for case in cases
        if case["profile"] == profile and case["found"]
    )
    columns = sorted({found for _, found in pairs})
    lines = [f"{'expected':24}" + " ".join(name[:11].rjust(11) for name in columns)]
    for row in sorted({expected for expected, _ in pairs}):
        cells = (str(pairs[row, name] or ".").rjust(11) for name in columns)
        lines.append(f"{row:24}" + " ".join(cells))
    return "\n".join(lines)


def advice_summary(cases: Sequence[Case]) -> Case | None:
    """How often what was advised worked, and how near the predicted time to drain was to the real one (median of the errors)."""
    told = [
        case["advice"] for case in cases if case["profile"] == ALL_SIGNALS and (case.get("advice") or {}).get("kind")
    ]
    if not told:
        return None
    both = [(it["eta_predicted_seconds"], it["eta_actual_seconds"]) for it in told]
    errors = sorted(abs(predicted - real) / real for predicted, real in both if predicted and real)
    return {
        "actions": len(told),
        "worked": sum(bool(it["worked"]) for it in told) / len(told),
        "verified": sum(it["verified_seconds"] is not None for it in told) / len(told),
        "lag_gone": sum(it["lag_gone_seconds"] is not None for it in told) / len(told),
        "eta_error_median": errors[len(errors) // 2] if errors else None,
        "eta_cases": len(errors),
    }


def save(path: Path, cases: Sequence[Case]) -> None:
    """Write the file of the contract; after each run, so that a bench that is stopped has something to show."""
    document = {
        **summary(cases, ALL_SIGNALS),
        "lag_only": summary(cases, LAG_ONLY),
        "advice": advice_summary(cases),
        "count": len(cases),
        "cases": cases,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1, default=str))


def main() -> int:
    """Run or judge, print the matrix, write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="101-105")
    parser.add_argument("--only", default=",".join(SCENARIOS))
    parser.add_argument("--side-by-side", type=int, default=2)
    parser.add_argument("--apply-advice", action="store_true")
    parser.add_argument(
        "--source", choices=["prometheus", "scrape"], default="prometheus", help="scrape: as `watch` does"
    )
    parser.add_argument("--captures", type=Path, help="judge the captures of an earlier run (its --keep) instead")
    parser.add_argument("--keep", type=Path, help="keep the runs' captures and truths here")
    parser.add_argument("--out", type=Path, default=Path("build/triage.json"))
    chosen = parser.parse_args()
    from workbench.spark.session import session

    spark = session()
    if chosen.captures:
        cases = []
        for path in sorted(chosen.captures.glob("*/truth.json")):
            truth = json.loads(path.read_text())
            if truth["scenario"] in chosen.only.split(","):
                new = judge(truth, read_capture(path.parent / "capture"), spark)
                show(new)
                cases += new
    else:
        folder = chosen.keep or Path(tempfile.mkdtemp(prefix="workbench-accuracy-"))
        folder.mkdir(parents=True, exist_ok=True)
        cases = run_all(
            chosen.only.split(","),
            seeds_of(chosen.seeds),
            folder=folder,
            side_by_side=chosen.side_by_side,
            advice=chosen.apply_advice,
            out=chosen.out,
            spark=spark,
            source=chosen.source,
        )
    for profile in (ALL_SIGNALS, LAG_ONLY):
        print(f"\n{profile}: {summary(cases, profile)}\n{confusion(cases, profile)}")
    if advised := advice_summary(cases):
        print(f"\nadvice: {advised}")
    save(chosen.out, cases)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Cases for the tests of the judgement: measured features with the truth, kept as text, so that they need neither Spark nor a JVM.

python -m evaluation.kept --seeds 5001 [--most 300]   # chooses anew, and writes tests/triage/cases.jsonl.gz
python -m evaluation.kept --again                     # judges anew those that are kept, after a change of rules; read the diff

Chosen are cases in which each rule of each question decides on the path, and some of every verdict. A kept case is right: a wrong one
is a defect, and no case for a test.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from evaluation.corpus import Case, load
from evaluation.stories.score import Mark
from evaluation.stories.truth import Truth
from workbench.settings_of_groups import Expectations, GroupSettings
from workbench.thresholds import Thresholds
from workbench.triage.measured_from_spark_rows import measured_from
from workbench.triage.subscription import SubscriptionFeatures

FILE = Path("tests/triage/cases.jsonl.gz")
_EACH_VERDICT = 8
_DIGITS = 6  # of a measured number; a case that is judged otherwise with them is not kept


def reasons_of(row: SubscriptionFeatures) -> list[str]:
    """The path, each question with the rule that decided it."""
    return [f"{name}.{row.reasons[name]}" for name in row.path]


def to_text(case: Case, row: SubscriptionFeatures) -> str:
    """One case as a line of JSON, with the verdict and the path that it has."""
    own = case.expected.of(case.measured.group).settings
    return json.dumps(
        {
            "set": case.set,
            "name": case.name,
            "right": sorted(case.truth.verdicts),
            "sick": case.truth.sick,
            "at": case.at.isoformat(),
            "limits": case.limits.model_dump(mode="json", exclude_defaults=True),
            "expected": own.model_dump(mode="json", exclude_defaults=True),
            "verdict": str(row.verdict),
            "path": reasons_of(row),
            "measured": _known(asdict(case.measured)),
        },
        ensure_ascii=False,
        separators=(",", ":"),
    )


def from_text(line: str) -> tuple[Case, str, list[str]]:
    """A case, its verdict and its path."""
    told = json.loads(line)
    measured = measured_from(told["measured"])
    case = Case(
        set=told["set"],
        name=told["name"],
        truth=Truth(topic=measured.topic, sick=told["sick"], verdicts=frozenset(told["right"])),
        measured=measured,
        limits=Thresholds(**told["limits"]),
        expected=Expectations({measured.group: GroupSettings(**told["expected"])}),
        at=datetime.fromisoformat(told["at"]),
    )
    return case, told["verdict"], told["path"]


def read(path: Path = FILE) -> Iterator[tuple[Case, str, list[str]]]:
    """All kept cases."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from map(from_text, lines)


def _known(value: Any) -> Any:
    """Without what is not known, and with few digits."""
    if isinstance(value, dict):
        return {name: _known(it) for name, it in value.items() if it is not None and it not in ((), [], {})}
    if isinstance(value, list | tuple):
        return [_known(it) for it in value]
    return float(f"{value:.{_DIGITS}g}") if isinstance(value, float) and abs(value) < 10**_DIGITS else value


def chosen(cases: Sequence[Case], most: int) -> list[str]:
    """Lines of as many cases as are asked for at most: first those with a reason that no earlier one has."""
    lines: list[str] = []
    reasons: Counter[str] = Counter()
    verdicts: Counter[str] = Counter()
    for spare in (False, True):
        for case in cases:
            row = case.judged()
            if len(lines) >= most or case.mark(row) is not Mark.RIGHT:
                continue
            new = any(not reasons[it] for it in reasons_of(row))
            if not (new or (spare and verdicts[str(row.verdict)] < _EACH_VERDICT)):
                continue
            line = to_text(case, row)
            if line in lines or not _is_judged_alike(line):
                continue
            lines.append(line)
            reasons.update(reasons_of(row))
            verdicts[str(row.verdict)] += 1
    return lines


def _is_judged_alike(line: str) -> bool:
    case, verdict, path = from_text(line)
    row = case.judged()
    return (str(row.verdict), reasons_of(row)) == (verdict, path) and case.mark(row) is Mark.RIGHT


def _again() -> list[str]:
    """The kept cases with their paths of now; prints those that are judged otherwise, and leaves out what is no longer right."""
    lines = []
    for case, verdict, path in read():
        row = case.judged()
        if (str(row.verdict), reasons_of(row)) != (verdict, path):
            print(f"{case.set} {case.name}: {verdict} {path[-1]} → {row.verdict} {reasons_of(row)[-1]}")
        if case.mark(row) is Mark.RIGHT:
            lines.append(to_text(case, row))
    return lines


def write(lines: Iterable[str], path: Path = FILE) -> None:
    """The same bytes for the same lines."""
    text = "".join(line + "\n" for line in lines)
    path.write_bytes(gzip.compress(text.encode(), compresslevel=9, mtime=0))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="5001")
    parser.add_argument("--most", type=int, default=300)
    parser.add_argument("--recordings", type=Path)
    parser.add_argument("--again", action="store_true")
    given = parser.parse_args()
    if given.again:
        write(_again())
        return
    lines = chosen(load([int(it) for it in given.seeds.split(",")], recordings=given.recordings), given.most)
    write(lines)
    print(f"{len(lines)} cases, {FILE.stat().st_size:,} bytes in {FILE}")


if __name__ == "__main__":
    main()

"""Record consumers on Go and Node libraries: drawn by seed, truth first, many groups side by side.

python -m evaluation.foreign --seed 6101 --out build/foreign-6101
python -m evaluation.corpus --recordings build/foreign-6101      # judges them
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from evaluation.foreign.draw import drawn
from evaluation.foreign.groups import record
from evaluation.foreign.programs import build
from evaluation.foreign.spec import LIBRARIES
from workbench.files import require_empty
from workbench.lab.lab import start_lab

BUILDS = Path("build/foreign-clients")


def main() -> int:
    """Command line; the exit status is 1 if a recording is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--count", type=int, default=24)
    parser.add_argument("--only", default="", help="kinds, each on every library, instead of a draw")
    parser.add_argument("--libraries", default=",".join(LIBRARIES), help="of these alone")
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--list", action="store_true", help="show what would be recorded")
    given = parser.parse_args()
    only = tuple(it for it in given.only.split(",") if it)
    plans = drawn(given.seed, given.count, only=only, libraries=tuple(given.libraries.split(",")))
    if given.list:
        for plan in plans:
            print(plan.name, plan.client.style, f"{plan.members}/{plan.partitions}", plan.verdict, *plan.also)
        return 0
    require_empty(given.out, what="recording")
    build(BUILDS)
    failed: list[str] = []
    for first in range(0, len(plans), given.at_once):
        wave = plans[first : first + given.at_once]
        print(f"recording {', '.join(it.name for it in wave)}", file=sys.stderr, flush=True)
        with (  # a broker for each wave: what is left of the one before is no load
            tempfile.TemporaryDirectory(prefix="workbench-foreign-") as room,
            start_lab(Path(room) / "lab", temporary=True) as lab,
        ):
            failed += record(lab, wave, given.out.resolve(), BUILDS.resolve())
    for name in failed:
        print(f"not recorded: {name}", file=sys.stderr)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())

"""`python -m tests.fuzz [--seed 1] [--inputs 100000] [--only name,…] [--show target:number]`."""

from __future__ import annotations

import argparse
import pprint
import sys
import tempfile
from pathlib import Path

from tests.fuzz.runner import run, shares


def main() -> int:
    """Run all, print a table; exit status 1 if an input has a defect."""
    options = argparse.ArgumentParser(prog="python -m tests.fuzz")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--inputs", type=int, default=100_000)
    options.add_argument("--only", default="", help="names of targets, with commas between them")
    options.add_argument("--workers", type=int, default=2)
    options.add_argument(
        "--show", default="", help="TARGET:NUMBER: print this input and what comes of it, in this process"
    )
    given = options.parse_args()
    from tests.fuzz.child import case_of, tried
    from tests.fuzz.targets import targets

    with tempfile.TemporaryDirectory() as name:
        known = {target.name: target for target in targets(Path(name))}
        if given.show:
            target, _, number = given.show.partition(":")
            case = case_of(known[target], given.seed, int(number))
            pprint.pp(case)
            print(*tried(known[target], case, Path(name)))
            return 0
    wanted = [it for it in given.only.split(",") if it] or list(known)
    found = run(given.seed, shares(given.inputs, {it: known[it].share for it in wanted}), workers=given.workers)
    print(found.table())
    if found.defects:
        print("\n" + found.report(), file=sys.stderr)
        print(f"\nSee one: python -m tests.fuzz --seed {given.seed} --show TARGET:NUMBER", file=sys.stderr)
    return 1 if found.defects else 0


if __name__ == "__main__":
    sys.exit(main())

"""The process in which inputs are tried, with bounds on memory and on the time of each; it notes what it does before it does it."""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
import tracemalloc
import warnings
from pathlib import Path
from random import Random

import pyarrow as pa

from tests.fuzz.breaking import VARIABLE, breaking
from tests.fuzz.target import BASE_BYTES, SECRET, Case, Target
from tests.fuzz.targets import targets
from workbench.errors import WorkbenchError

MEMORY_BYTES = 512 << 20
SECONDS = 2.0  # of processor time for one input; most take a thousandth
_MESSAGE_CHARACTERS = 2000
_pools: list[pa.MemoryPool] = []  # kept: what an error still holds goes back to its own one


def case_of(target: Target, seed: int, number: int) -> Case:
    """The input of this number; it depends on nothing else."""
    return target.make(Random(f"{seed}:{target.name}:{number}"))


def broken_promise(error: WorkbenchError) -> str | None:
    """What is wrong with the words of a refusal."""
    for what, text in (("message", error.message), ("hint", error.hint or "")):
        if len(text) > _MESSAGE_CHARACTERS:
            return f"a {what} of {len(text)} characters"
        if any((ord(it) < 32 and it != "\n") or 127 <= ord(it) < 160 or 0xD800 <= ord(it) < 0xE000 for it in text):
            return f"a control character in the {what}: {text[:300]!r}"
        if SECRET in text:
            return f"a secret in the {what}: {text[:300]!r}"
    return None if error.message.strip() else "an empty message"


def tried(target: Target, case: Case, folder: Path) -> tuple[str, str]:
    """("answer" | "refusal" | "defect", what kind of defect and where)."""
    try:
        _called(target, case, folder)
    except _BuiltTooMuchError as error:
        return "defect", str(error)
    except WorkbenchError as error:
        wrong = broken_promise(error)
        return ("defect", f"{wrong}\n{_trace(error)}") if wrong else ("refusal", "")
    except Exception as error:
        return "defect", f"{type(error).__name__}: {str(error)[:300]}\n{_trace(error)}"
    return "answer", ""


class _BuiltTooMuchError(Exception):
    """A call has built more than its budget."""


def _called(target: Target, case: Case, folder: Path) -> None:
    """Call a target, and compare what it has built at its peak with its budget: in Python's memory, and in Arrow's."""
    if not target.most_per_byte and not target.most_bytes:
        target.call(case, folder)
        return
    size = len(case) if isinstance(case, bytes) else sum(map(len, case.values()))
    pool = pa.default_memory_pool()
    _pools.append(measured := pa.proxy_memory_pool(pool))
    pa.set_memory_pool(measured)
    tracemalloc.start()
    try:
        target.call(case, folder)
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        pa.set_memory_pool(pool)
        peak += measured.max_memory()
        if peak > BASE_BYTES + target.most_bytes + target.most_per_byte * size:
            raise _BuiltTooMuchError(f"built {peak:,} bytes of {size:,}")


def _trace(error: BaseException) -> str:
    """The last frames, without what recursion repeats."""
    return "".join(traceback.format_tb(error.__traceback__)[-12:])


def _status_kb(name: str) -> int:
    found = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name + ":"))
    return int(found.split()[1])


def _bound_memory() -> None:
    limit = _status_kb("VmData") * 1024 + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def main() -> None:
    """Try the inputs `first` to `last` of each target named, and print a line of JSON for each defect and each target."""
    options = argparse.ArgumentParser()
    options.add_argument("--seed", type=int)
    options.add_argument("--work", type=json.loads, help="[[target, first, last], …]")
    options.add_argument("--progress", type=Path)
    given = options.parse_args()
    scratch = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else None
    faulthandler.enable()
    # Told in C, at once and with a stack, wherever it hangs; the default of the signal then ends the process.
    faulthandler.register(signal.SIGVTALRM, chain=True)
    with tempfile.TemporaryDirectory(dir=scratch) as name, given.progress.open("wb", buffering=0) as progress:
        folder = Path(name)
        os.environ["XDG_STATE_HOME"] = os.environ["XDG_CONFIG_HOME"] = name
        known = {target.name: target for target in targets(folder)}
        if os.environ.get(VARIABLE):
            known |= {target.name: target for target in breaking()}
        _bound_memory()
        warnings.simplefilter("error", RuntimeWarning)  # numpy's words on a user's screen are no clear error
        for target_name, first, last in given.work:
            target = known[target_name]
            Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
            before, started = _status_kb("VmRSS"), time.monotonic()
            counts = {"answer": 0, "refusal": 0, "defect": 0}
            slowest = 0.0
            for number in range(first, last):
                progress.seek(0)
                progress.write(f"{target_name} {number}".ljust(80).encode())
                case = case_of(target, given.seed, number)
                begun = time.process_time()
                signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
                try:
                    kind, words = tried(target, case, folder)
                finally:
                    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
                slowest = max(slowest, time.process_time() - begun)
                counts[kind] += 1
                if kind == "defect":
                    _say({"defect": target_name, "number": number, "words": words})
            peak = max(0, _status_kb("VmHWM") - before) // 1024
            _say(
                {
                    "target": target_name,
                    "seconds": time.monotonic() - started,
                    "peak_mb": peak,
                    "slowest": slowest,
                    **counts,
                }
            )


def _say(line: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()

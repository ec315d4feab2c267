"""A sweep whose closer look loses an executor: `python -m tests.lab.looks_killed STORE MARK`.

The first task of the closer look makes the file MARK and kills the executor it runs in. If the file is there already, nobody dies.
All subscriptions are looked at: those that are well are not cleared.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from workbench.spark.session import end, for_much_data, session
from workbench.sweep import closer_look, looks_by_workers
from workbench.sweep.fleet_store import open_store
from workbench.sweep.sweep_engine import sweep

Work = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def dying(work: Work, mark: str) -> Work:
    """The same work; the first of all that begin it dies, with the JVM that it belongs to."""

    def begun(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import psutil

        try:
            with open(mark, "x"):  # noqa: PTH123 - what is shipped to workers is short
                pass
        except FileExistsError:
            yield from work(batches)
            return
        [executor] = [
            it for it in psutil.Process().parents() if any("CoarseGrainedExecutor" in word for word in it.cmdline())
        ]
        executor.kill()
        yield from work(batches)

    return begun


def main() -> int:
    """Print all that it finds, as JSON."""
    place, mark = sys.argv[1:]
    worker, screen = looks_by_workers._worker, closer_look._unclear
    looks_by_workers._worker = lambda *given: dying(worker(*given), mark)  # type: ignore[assignment]
    closer_look._unclear = lambda limits: f"kind = 'partition' OR {screen(limits)}"  # type: ignore[assignment]
    looks_by_workers._SUBSCRIPTIONS = 10
    spark: Any = session()
    for_much_data(spark)
    found = sweep(open_store(Path(place)), spark)
    end(spark)
    print(json.dumps([found.table.to_pylist(), found.to_json()["findings"]]))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

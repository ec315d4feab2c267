"""Warm-up run for the class archive (`workbench.spark.archive` starts it): a triage of a few rows in a separate process."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from workbench.samples import SampleBatch
from workbench.signals import SIGNALS
from workbench.spark.archive import BUILD_SECONDS, WRITE_VARIABLE, learned_path
from workbench.spark.columns import parsed
from workbench.spark.session import end, session
from workbench.thresholds import Thresholds
from workbench.triage.engine import answered
from workbench.window import Window


def _warm_up() -> None:
    """Run a triage, and wait for the JVM to exit: it writes the archive at exit."""
    now = datetime.now(UTC)
    window = Window.ending(now, length=timedelta(minutes=1), baseline=timedelta(minutes=1))
    times = [round((now.timestamp() - second) * 1e6) for second in range(110, 0, -10)]
    batch = SampleBatch("warm-up", "runtime")
    for signal in SIGNALS.values():
        labels = {name: 0 if name == "partition" else name for name in signal.labels}
        for stat in ("value", "sum", "count"):
            batch.add(signal.name, labels, times, list(range(len(times))), stat=stat)
    spark = session()
    answered(spark, batch.to_arrow(), window, Thresholds())
    place = learned_path(Path(os.environ[WRITE_VARIABLE]))
    place.write_text(
        json.dumps({**json.loads(place.read_text(encoding="utf-8")), "expressions": parsed()}), encoding="utf-8"
    )
    end(spark, seconds=BUILD_SECONDS)


if __name__ == "__main__":
    _warm_up()

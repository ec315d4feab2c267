"""Warm-up run for the class archive (`workbench.spark.class_archive` starts it): a triage of a few rows in a separate process."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from workbench.features.summary_schema import CUMULATIVE
from workbench.samples import SampleBatch
from workbench.signals import SIGNALS
from workbench.spark import plan_templates
from workbench.spark.class_archive import BUILD_SECONDS
from workbench.spark.session import end, session
from workbench.thresholds import Thresholds
from workbench.triage.triage_engine import answered
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
    samples = batch.to_arrow()
    gauges = samples.filter(pc.invert(pc.is_in(samples["signal"], pa.array(CUMULATIVE))))  # all that a lag exporter has
    spark = session()
    for of_a_group in (gauges, samples):
        answered(spark, of_a_group, window, Thresholds())
    plan_templates.begin_anew()
    answered(spark, samples, window, Thresholds())
    end(spark, seconds=BUILD_SECONDS)


if __name__ == "__main__":
    _warm_up()

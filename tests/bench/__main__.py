"""Run the benches: `python -m tests.bench [--only NAME] [--record]`; results go to build/bench.json.

Ends with 1 when a ratio to a peer has fallen by more than a tenth below the recorded one (`recorded.json`), in the median of three.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.bench import audit, impact, lag, prometheus, redrive, replay, runtime, served, small_fleet, sweep, triage
from tests.bench.harness import Result, keep
from tests.bench.record import fallen, record, recorded, surely

BENCHES: dict[str, Callable[[], Result]] = {
    "triage_cold": triage.triage_cold,
    "triage_warm": triage.triage_warm,
    "triage_cold_prometheus": triage.triage_cold_prometheus,
    "triage_via": served.triage_via,
    "prometheus_json_to_spark": prometheus.prometheus_json_to_spark,
    "prometheus_remote_read_to_spark": prometheus.prometheus_remote_read_to_spark,
    "lag_snapshot": lag.lag_snapshot,
    "lag_snapshot_20k": lag.lag_snapshot_20k,
    "small_fleet": small_fleet.small_fleet,
    "sweep_25k": sweep.sweep_25k,
    "sweep_live": sweep.sweep_live,
    "fleet_page_25k": served.fleet_page_25k,
    "health_5k": served.health_5k,
    "impact_1k": impact.impact_1k,
    "impact_1k_prometheus": impact.impact_1k_prometheus,
    "kafka_records": replay.kafka_records,
    "replay_plan_10k": replay.replay_plan_10k,
    "redrive_plan_1m": redrive.redrive_plan_1m,
    "redrive_apply_1m": redrive.redrive_apply_1m,
    "redrive_cap": redrive.redrive_cap,
    "audit_ledger": audit.audit_ledger,
    "audit_compare": audit.audit_compare,
    "runtime_noop": runtime.runtime_noop,
    "runtime_audit": runtime.runtime_audit,
    "runtime_io_bound": runtime.runtime_io_bound,
    "runtime_rest": runtime.runtime_rest,
    "runtime_enqueue_p99": runtime.runtime_enqueue_p99,
    "runtime_slow_key": runtime.runtime_slow_key,
    "runtime_slow_type": runtime.runtime_slow_type,
}


def _fresh() -> None:
    from pyspark.sql import SparkSession

    from workbench.spark.session import end

    active = SparkSession.getActiveSession()
    if active is not None:
        end(active)


def bench_alone(bench: Callable[[], Result]) -> Result:
    """What it finds; a session that is there would be taken by the next one, with the settings of this."""
    found = bench()
    _fresh()
    return found


def main() -> int:
    """Run all, or one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=sorted(BENCHES))
    parser.add_argument(
        "--record", action="store_true", help="record the results as the new floors, and in docs/benchmarks.md"
    )
    chosen = parser.parse_args()
    only = chosen.only
    results = []
    for name, bench in BENCHES.items():
        if only in (None, name):
            found = bench_alone(bench) if chosen.record else surely(partial(bench_alone, bench), recorded())
            peer = (
                f"   {found.peer_name}: {found.peer:.3f}, ratio {found.ratio:.1f}" if found.peer and found.ratio else ""
            )
            busy = f"   load {found.load}"
            print(f"{found.name:16} {found.ours:.3f} {found.unit}   {found.work}{peer}{busy}", flush=True)
            results.append(found)
    keep(results, Path("build/bench.json"))
    if chosen.record:
        record(results)
        return 0
    for line in (lost := fallen(results, recorded())):
        print(f"slower than it was: {line}", flush=True)
    return 1 if lost else 0


if __name__ == "__main__":
    raise SystemExit(main())

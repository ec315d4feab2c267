"""One recorded incident of every scenario of the lab, judged again: with all signals, and with a lag exporter alone.

The captures were recorded by `make bench-triage SEEDS=101,104` on a busy machine. They are shifted to one common end, so that one Spark
job judges them all.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from evaluation.stories import END
from tests.triage.judging import rows_of
from workbench.collect.capture import read_capture
from workbench.lab.lab import LAB_THRESHOLDS, LAB_WINDOWS
from workbench.lab.scenarios import SCENARIOS
from workbench.profiles import load_profile
from workbench.samples import SAMPLES_SCHEMA
from workbench.triage.build_finding import build_finding
from workbench.triage.finding import Finding
from workbench.triage.verdict_names import Verdict
from workbench.window import Window

CAPTURES = Path(__file__).parent.parent.parent / "notebooks" / "incidents"
TRUTH: dict[str, dict[str, Any]] = json.loads((CAPTURES / "truth.json").read_text())
WINDOW = Window.ending(END, length=LAB_WINDOWS.length, baseline=LAB_WINDOWS.baseline)


# What handlers do with records no offset shows: the group keeps up, and by its lag it is healthy.
OUT_OF_SIGHT = {Verdict.FAILING_RECORDS}


def test_every_scenario_has_an_incident_and_each_is_small() -> None:
    """At most 100 KB; and no file of a capture says what the truth is."""
    assert {truth["scenario"] for truth in TRUTH.values()} == set(SCENARIOS)
    for name, truth in TRUTH.items():
        files = list((CAPTURES / name).iterdir())
        assert sum(path.stat().st_size for path in files) <= 100_000
        if truth["verdict"] != "healthy":
            assert not any(truth["verdict"].encode() in path.read_bytes() for path in files)


def shifted(name: str) -> pa.Table:
    """The samples of a capture, as if they had ended at `END`."""
    capture = read_capture(CAPTURES / name)
    by = round((END - capture.window.end).total_seconds() * 1e6)
    micros = pc.cast(capture.samples["ts"], pa.int64()).to_numpy() + by
    stamps = pa.array(micros.astype(np.int64)).cast(pa.timestamp("us", tz="UTC"))
    return capture.samples.set_column(0, SAMPLES_SCHEMA.field("ts"), stamps)


@pytest.fixture(scope="module")
def findings(spark: Any) -> dict[tuple[str, str], Finding]:
    """(incident, what was there) to the finding; two jobs."""
    tables = pa.concat_tables([shifted(name) for name in TRUTH])
    groups = {truth["group"]: name for name, truth in TRUTH.items()}
    found = {}
    for profiles, seen in (
        (["kafka_exporter", "runtime"], tables),
        (["kafka_exporter"], tables.filter(pc.equal(tables["source"], "kafka_exporter"))),
    ):
        loaded = [load_profile(name) for name in profiles]
        for group, row in rows_of(spark, seen, thresholds=LAB_THRESHOLDS, window=WINDOW).items():
            finding = build_finding(row, profiles=loaded)
            found[groups[group], "all" if len(profiles) > 1 else "lag only"] = finding
    return found


@pytest.mark.jvm
@pytest.mark.parametrize("name", TRUTH, ids=lambda name: TRUTH[name]["scenario"])
def test_the_verdict_and_its_scope(name: str, findings: dict[tuple[str, str], Finding]) -> None:
    """With everything that the runtime shows."""
    truth, finding = TRUTH[name], findings[name, "all"]
    assert finding.verdict == truth["verdict"], finding.headline
    for attribute, wanted in truth["scope"].items():
        found = getattr(finding.scope, attribute)
        assert (list(found) if isinstance(found, tuple) else found) == wanted, attribute


@pytest.mark.jvm
@pytest.mark.parametrize("name", TRUTH, ids=lambda name: TRUTH[name]["scenario"])
def test_with_a_lag_exporter_alone_it_is_right_or_says_what_is_missing(
    name: str, findings: dict[tuple[str, str], Finding]
) -> None:
    """Never a wrong verdict: else "cannot tell", with the truth among the candidates and the missing signals named."""
    truth, finding = TRUTH[name], findings[name, "lag only"]
    if finding.verdict is Verdict.CANNOT_TELL:
        assert truth["verdict"] not in ("healthy", "producer_burst", "no_data", "unusable_data")
        assert truth["verdict"] in finding.candidates
        assert finding.missing
        assert all(item.how_to_get_it for item in finding.missing)
    else:
        expected = Verdict.HEALTHY if truth["verdict"] in OUT_OF_SIGHT else truth["verdict"]
        assert finding.verdict == expected, finding.headline


@pytest.mark.jvm
def test_every_sick_one_gets_an_action_with_a_check_that_does_not_hold_yet(
    findings: dict[tuple[str, str], Finding],
) -> None:
    """What shows that it worked must not be true while it has not."""
    from workbench.triage.outcome_checks import all_hold
    from workbench.triage.verdict_names import Answer, State

    for (name, seen), finding in findings.items():
        if finding.state is not State.LAGGING or seen != "all":
            continue
        checked = [action for action in finding.actions if action.checks]
        assert checked, name
        for action in checked:
            assert all_hold(action.checks, finding.features) is not Answer.YES, (TRUTH[name]["scenario"], action.title)

"""A group without lag is no all-clear while a gateway or an agent holds records back, if a profile's signals say so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evaluation.stories import THRESHOLDS, WINDOW, Story
from workbench.api.triages import exit_code
from workbench.collect.capture import Capture, new_info
from workbench.errors import ExitCode
from workbench.samples import SampleBatch, concat
from workbench.triage.triage_engine import triage
from workbench.triage.verdict_names import Verdict

pytestmark = pytest.mark.jvm


def test_no_lag_is_no_all_clear_while_records_wait_before_kafka(spark: Any) -> None:
    """The verdict is about the group and stays; what waits is said beside it, with exit code 4. A young backlog changes nothing."""
    calm = Story(group="plain").all_partitions().calm().samples()
    info = new_info(cluster="the shop", source="test", profiles=["runtime"], window=WINDOW, thresholds=THRESHOLDS)
    seen = {}
    for name, oldest in (("young", 3.0), ("late", 900.0)):
        batch = SampleBatch("test", "ours")
        end_us = round(WINDOW.end.timestamp() * 1e6)
        times = [end_us - 15_000_000 * at for at in range(20)][::-1]
        batch.add("disk_backlog_age", {"member": "agent\x1b[31m-7"}, times, [oldest] * 20)
        capture = Capture(info=info, samples=concat([calm, batch.to_arrow()]))
        seen[name] = triage(capture, spark)
        assert [it.verdict for it in seen[name].findings] == [Verdict.HEALTHY]
    assert (seen["young"].incomplete, exit_code(seen["young"])) == ((), ExitCode.OK)
    [text] = seen["late"].incomplete
    assert exit_code(seen["late"]) == ExitCode.EVIDENCE
    assert text.startswith("records also wait before Kafka: agent")
    assert text.endswith(": workbench audit upstream --cluster 'the shop'")
    assert "the oldest 15 min old" in text
    assert "\x1b" not in text
    read = replace(capture, folder=Path("old incident"))
    assert triage(read, spark).incomplete[0].endswith(": workbench audit upstream --capture 'old incident'")
    assert replace(seen["late"], incomplete=()).to_json()["findings"] == seen["young"].to_json()["findings"]

"""A storm of 500 alerts of one broker's fault, judged by the real triage: one cause, at most five messages."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from evaluation.stories import THRESHOLDS, WINDOW, Story, lagging, steps
from tests.serve.serving import Office, alert
from tests.serve.test_incidents import post
from workbench.api.load_measurements import Measured
from workbench.collect.capture import Capture, new_info
from workbench.samples import concat
from workbench.serve.judge_groups import SparkJudge

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

GROUPS = int(os.environ.get("STORM_GROUPS", "500"))


def storm() -> Capture:
    """Every group falls behind because the round trips to one broker have become slow."""
    stories = []
    for number in range(GROUPS):
        story = lagging(Story(group=f"svc-{number:03}", topic="orders", partitions=2, members=1))
        story.people(rtt=steps(0.01, 1.5, at=-90.0)).processor("order", queues=1).enqueue().fetch_queue()
        stories.append(story.samples())
    info = new_info(
        cluster="prod", source="watch", profiles=["runtime"], window=WINDOW, groups=[], thresholds=THRESHOLDS
    )
    return Capture(info=info, samples=concat(stories))


def test_500_alerts_of_one_broker(tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """They come in ten messages of Alertmanager, and are judged a hundred at a time."""
    capture = storm()
    monkeypatch.setattr(
        "workbench.api.load_measurements.measure", lambda _request: Measured(capture=capture, window=WINDOW)
    )
    settings = tmp_path / "workbench.toml"
    settings.write_text('[clusters.prod]\nprometheus = "http://127.0.0.1:9"\n')
    office = Office(tmp_path, look_again="10s")
    office.oracle.says = SparkJudge(config=settings)
    for start in range(0, GROUPS, 50):
        post(office, *(alert(f"svc-{number:03}") for number in range(start, start + 50)))
    begun = time.monotonic()
    office.worker.judge_alerts()
    seconds = time.monotonic() - begun
    office.clock.now += 301
    office.worker.look_again()
    kinds = office.send()
    print(f"{GROUPS} alerts in {seconds:.1f} s: {kinds}; {office.postman.parcels[0].message.headline}")
    assert len(kinds) <= 5
    assert office.store.number("SELECT count(DISTINCT cause) FROM incident") == 1
    assert kinds == ["new", "grows"]
    message = office.postman.parcels[-1].message
    assert (message.verdict, message.total) == ("slow_network", GROUPS)

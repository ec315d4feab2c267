"""A group's state, as klag tells it: by the label of a series whose value counts changes, so it is 0 while nothing changes.

After a change, the series of the state before stays for a collection or two (its `ConsumerGroupStateTracker` and `MicrometerReporter`).
"""

from __future__ import annotations

import json
import re
from datetime import timedelta
from pathlib import Path

import pytest

from tests.collect.test_samples_from_prometheus import END
from tests.servers import Script, scripted
from workbench.collect.capture_in_memory import collect
from workbench.settings import load_settings
from workbench.signals import GROUP_STATES
from workbench.thresholds import Thresholds
from workbench.window import Window

SCRAPE, SCRAPES = 30, 120
SETTINGS = '[clusters.k]\nprometheus = "{url}"\nprofiles = ["klag"]\n'


def shown(states: list[tuple[str, int, int]], stays: int) -> list[dict[str, object]]:
    """Series of a Prometheus: of each state, from which scrape to which, and for how many more it stays."""
    whole: dict[str, list[list[object]]] = {}
    for name, begin, end in states:
        for at in range(begin, min(end + stays, SCRAPES)):
            stamp = END.timestamp() - (SCRAPES - 1 - at) * SCRAPE
            whole.setdefault(name, []).append([stamp, "1" if begin and at == begin else "0"])
    label = {"__name__": "klag_consumer_group_state", "consumer_group": "g"}
    lag = {"__name__": "klag_consumer_lag", "consumer_group": "g", "topic": "t", "partition": "0"}
    stamps = [END.timestamp() - at * SCRAPE for at in reversed(range(SCRAPES))]
    found = [{"metric": {**label, "state": name}, "values": sorted(values)} for name, values in whole.items()]
    return [*found, {"metric": lag, "values": [[at, "0"] for at in stamps]}]


@pytest.mark.parametrize("stays", [0, 1, 2])
@pytest.mark.parametrize(
    "states",
    [
        [("stable", 0, SCRAPES)],
        [("stable", 0, 80), ("empty", 80, SCRAPES)],
        [("stable", 0, 60), ("preparing_rebalance", 60, 64), ("stable", 64, SCRAPES)],
        [("stable", 0, 40), ("empty", 40, 70), ("stable", 70, SCRAPES)],
    ],
)
def test_the_state_is_that_of_the_series_that_came_last(
    states: list[tuple[str, int, int]], stays: int, tmp_path: Path
) -> None:
    """Whatever its value, and although the one before is still there."""
    series = shown(states, stays)

    def answer(_path: str, query: dict[str, list[str]]) -> bytes:
        named = re.search(r'__name__(=~?)"([^"]+)"', query.get("query", [""])[0])
        names = set(named[2].split("|")) if named else set()
        found = [it for it in series if it["metric"]["__name__"] in names]  # type: ignore[index]
        return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": found}}).encode()

    settings = tmp_path / "workbench.toml"
    with scripted(Script(answer=answer)) as server:
        settings.write_text(SETTINGS.format(url=server.url))
        window = Window.ending(END, length=timedelta(minutes=15), baseline=timedelta(minutes=45))
        samples = collect(load_settings(settings).cluster("k"), window, thresholds=Thresholds()).samples
    rows = [it for it in samples.to_pylist() if it["signal"] == "group_state" and it["value"] is not None]
    told = [value for _, value in sorted((it["ts"], it["value"]) for it in rows)]
    assert told == [float(GROUP_STATES[name]) for name, begin, end in states for _ in range(begin, end)]

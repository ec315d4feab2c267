"""Whether brokers have room for a replay, by their own pages."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.profiles.pages import PAGES
from tests.servers import Script, scripted
from tests.triage.brokers import WINDOW, Made, at
from workbench.api import broker_headroom as asked
from workbench.api.broker_headroom import Headroom, headroom
from workbench.api.replay_steps import Replay
from workbench.collect.capture import Capture, new_info
from workbench.replay.guard import ReplayLimits
from workbench.settings import load_settings

_IDLE = re.compile(r"^(kafka_server_KafkaRequestHandlerPool_OneMinuteRate\S*) .*$", flags=re.MULTILINE | re.IGNORECASE)


_COUNTS = re.compile(r"^kafka_server_KafkaRequestHandlerPool_Count\S* .*\n", flags=re.MULTILINE | re.IGNORECASE)


def measured(
    folder: Path, page: str, monkeypatch: pytest.MonkeyPatch, *, profile: str = "jmx_kafka_broker"
) -> Headroom:
    """Of a broker with this page."""
    monkeypatch.setattr(asked, "_LOOK", "2s")
    with scripted(Script(body=page.encode())) as server:
        path = folder / "workbench.toml"
        path.write_text(f'[clusters.c]\nmetrics = ["{server.url}/metrics"]\nprofiles = ["{profile}"]\n')
        return headroom(load_settings(path).cluster("c"), group="g", config=path)


def test_a_broker_is_busy_below_three_tenths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it tells itself, where it tells no more than a mean of the last minute."""
    page = _COUNTS.sub("", PAGES["jmx_kafka_broker"])
    assert _IDLE.search(page)
    assert measured(tmp_path, _IDLE.sub(r"\1 0.31", page), monkeypatch) == Headroom()
    found = measured(tmp_path, _IDLE.sub(r"\1 0.29", page), monkeypatch)
    assert found.unknown is None
    [words] = found.busy.values()
    assert words == "its request handlers are idle for 29 % of the time"


def test_a_broker_that_counts_its_idle_time_is_busy_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A counter that stands still is no rest; its network threads tell theirs as a share."""
    page = PAGES["jmx_broker_example"].replace(
        "networkprocessoravgidlepercent 0.43", "networkprocessoravgidlepercent 0.93"
    )
    found = measured(tmp_path, page, monkeypatch, profile="jmx_broker_example")
    assert found.unknown is None
    [words] = found.busy.values()
    assert words == "its request handlers are idle for 0 % of the time"


def test_what_is_not_told_is_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page without the idle times, and none at all; settings without metrics of brokers ask nothing."""
    without = "\n".join(
        line for line in PAGES["jmx_kafka_broker"].splitlines() if "idle" not in line.lower() and not _IDLE.match(line)
    )
    assert measured(tmp_path, without, monkeypatch).unknown == "no broker tells how idle it is"
    assert measured(tmp_path, "", monkeypatch).unknown is not None
    assert measured(tmp_path, "", monkeypatch, profile="runtime") == Headroom()


def test_whoever_applies_a_plan_is_told_what_is_not_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Commands, panels and programs; nobody is asked where busy brokers are allowed."""
    told = Headroom(busy={1: "x"}, unknown="broker 2 tells nothing of it")
    monkeypatch.setattr(Replay, "headroom", lambda _: told)
    monkeypatch.setattr("workbench.replay.apply.apply_plan", lambda *given, **_: given[4])
    run: Any = Replay(plan=None, path=tmp_path, cluster=None, gateway=None, count_records=None)  # type: ignore[arg-type]
    options = run.apply(None)
    assert (options.busy, options.notes) == (
        {1: "x"},
        ("Whether its brokers have room for more reading cannot be told: broker 2 tells nothing of it.",),
    )
    allowed = run.apply(None, limits=ReplayLimits(allow_busy_brokers=True))
    assert (allowed.busy, allowed.notes) == ({}, ())


def test_a_broker_without_a_page_is_not_taken_for_idle(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It leads a partition of the group, and only the others tell how idle they are."""
    made = Made(1)
    made.well(1)
    made.group("g", 1, at(100.0))
    made.group("g", 2, at(100.0))
    info = new_info(cluster="c", source="watch", profiles=["jmx_kafka_broker"], window=WINDOW)
    capture = Capture(info=info, samples=made.samples(), groups=made.groups())
    monkeypatch.setattr(asked, "measure", lambda *_, **__: SimpleNamespace(capture=capture, window=WINDOW))
    path = tmp_path / "workbench.toml"
    path.write_text('[clusters.c]\nmetrics = ["http://b:1/metrics"]\nprofiles = ["jmx_kafka_broker"]\n')
    found = headroom(load_settings(path).cluster("c"), group="g", config=path)
    assert not found.busy and found.unknown == "broker 2 tells nothing of it"

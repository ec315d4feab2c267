"""Rules of the page beside a runtime: metrics for all, orders only with the token, and what the orders do."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Counter

from tests.runtime.helpers import record, until
from tests.runtime.memory import MemorySource
from workbench.errors import ConfigError
from workbench.runtime import ProcessorConfig, Runtime, RuntimeConfig, running

TOKEN = "s3cret"


def make(
    handler: Callable[[Any], Any], sources: list[MemorySource] | None = None, token: str | None = TOKEN, **more: Any
) -> tuple[Runtime, list[MemorySource]]:
    """A runtime on logs in memory; each group gets the next of the sources."""
    found: list[MemorySource] = []
    config = RuntimeConfig.parse(
        {
            "bootstrap": "127.0.0.1:9",
            "group": "g",
            "topics": ["t"],
            "client_id": "test",
            "commit_interval_seconds": 0.02,
            "admin_token": token,
            "default_processor": ProcessorConfig(threads=2),
        }
    )

    def source(_config: RuntimeConfig, _member: str) -> MemorySource:
        made = (sources or []).pop(0) if sources else MemorySource(2)
        found.append(made)
        return made

    return Runtime(config, {"*": handler}, make_source=source, probe_log_ends=False, **more), found


def ask(runtime: Runtime, path: str, body: Any = None, *, token: str | None = TOKEN, raw: bytes | None = None) -> Any:
    """(status code, value) of one request."""
    assert runtime.metrics_address is not None
    headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
    data = raw if raw is not None else None if body is None else json.dumps(body).encode()
    request = urllib.request.Request("http://{}:{}{}".format(*runtime.metrics_address, path), data, headers)
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


@pytest.mark.parametrize("path", ["/status", "/assignment", "/queues", "/drain", "/replay", "/nothing"])
def test_the_admin_api_refuses_every_request_without_the_token(path: str) -> None:
    """Not even whether a path is there."""
    runtime, _ = make(lambda _e: None)
    with running(runtime):
        for token in (None, "", "s3cre", "s3cret2", "S3CRET"):
            for body in (None, {}):
                assert ask(runtime, path, body, token=token)[0] == 401
        assert runtime.state == "running"


def test_without_a_token_in_the_settings_there_is_no_admin_api() -> None:
    """It is off, and says how to turn it on; the metrics are there."""
    runtime, _ = make(lambda _e: None, token=None)
    with running(runtime):
        code, value = ask(runtime, "/status", token=None)
        assert code == 403
        assert "admin_token" in value["error"]
        assert "s3cret" not in repr(runtime.config)


def test_the_token_is_not_shown() -> None:
    """Not by the settings' repr, which may end up in a log."""
    runtime, _ = make(lambda _e: None)
    assert TOKEN not in repr(runtime.config)
    assert TOKEN not in str(runtime.config)


def partition_of(status: dict[str, Any]) -> dict[str, Any]:
    """What is told of partition 0."""
    found: dict[str, Any] = next(p for m in status["members"] for p in m["partitions"] if p["partition"] == 0)
    return found


def test_status_tells_the_truth() -> None:
    """Offsets, the oldest incomplete one, and the totals agree with what was done."""
    release = threading.Event()

    def handle(event: Any) -> None:
        if event.record.offset == 3:
            release.wait(10)

    runtime, sources = make(handle)
    with running(runtime):
        sources[0].produce(record(n, key=str(n).encode()) for n in range(10))
        # Workers count, and the consumer's own thread takes in what they have done: a moment later.
        until(lambda: ask(runtime, "/status")[1]["processed"] >= 6)
        until(lambda: partition_of(ask(runtime, "/status")[1])["oldest_incomplete_offset"] == 3)
        _, seen = ask(runtime, "/status")
        assert (seen["group"], seen["state"], seen["client_id"]) == ("g", "running", "test")
        part = partition_of(seen)
        assert part["first_offset"] == 0
        assert part["position"] == 10
        release.set()
        until(lambda: ask(runtime, "/status")[1]["members"][0]["partitions"][0]["committed"] == 10)
        _, seen = ask(runtime, "/status")
        assert seen["processed"] == 10
        assert seen["members"][0]["partitions"][0]["completed"] == 10
        assert seen["members"][0]["partitions"][0]["oldest_incomplete_offset"] is None
        assert set(seen["sentinels"].values()) == {0}
        assert ask(runtime, "/assignment")[1]["members"] == {
            "test-0": [{"topic": "t", "partition": 0}, {"topic": "t", "partition": 1}]
        }
        assert [queue["length"] for queue in ask(runtime, "/queues")[1]["processors"]["*"]] == [0, 0]


def test_drain_stops_reading_and_resume_goes_on() -> None:
    """What was read is committed, what comes after is not read, polling goes on."""
    runtime, sources = make(lambda _e: time.sleep(0.001))
    with running(runtime):
        sources[0].produce(record(n, key=str(n).encode()) for n in range(100))
        code, answer = ask(runtime, "/drain", {})
        assert code == 202
        assert answer["state"] in ("draining", "drained")
        until(lambda: ask(runtime, "/status")[1]["state"] == "drained")
        committed = sources[0].committed.get(("t", 0), 0)
        sources[0].produce(record(n, key=str(n).encode()) for n in range(100, 200))
        polls = sources[0].polls
        time.sleep(0.2)
        assert sources[0].committed.get(("t", 0), 0) == committed
        assert sources[0].polls > polls
        assert ask(runtime, "/resume", {})[0] == 202
        until(lambda: sources[0].committed.get(("t", 0)) == 200)


def test_replay_leaves_one_group_and_joins_the_other() -> None:
    """The old one is committed and left, the new one starts with the settings that were asked for; old series are gone."""
    first, second = MemorySource(1), MemorySource(1)
    seen: list[int] = []
    runtime, sources = make(lambda e: seen.append(e.record.offset), [first, second])
    first.produce(record(n) for n in range(20))
    second.produce(record(n) for n in range(5, 20))
    with running(runtime):
        until(lambda: first.committed.get(("t", 0)) == 20)
        order = {"group": "g2", "since": "2026-11-21T03:00:00+08:00", "max_bytes_per_second": 1_000_000}
        assert ask(runtime, "/replay", order)[0] == 202
        until(lambda: runtime.state == "running" and second.committed.get(("t", 0)) == 20)
        assert first.closed
        assert (runtime.config.group, runtime.config.max_bytes_per_second) == ("g2", 1_000_000)
        _, status = ask(runtime, "/status")
        assert status["replay"] == {"group": "g2", "since": "2026-11-21T03:00:00+08:00"}
        assert status["processed"] == 15
        page = urllib.request.urlopen("http://{}:{}/metrics".format(*runtime.metrics_address or ("", 0))).read()
        assert b'group="g2"' in page
        assert b'group="g"' not in page
    assert len(sources) == 2
    assert seen == [*range(20), *range(5, 20)]


def test_a_group_that_cannot_be_joined_is_not_switched_to() -> None:
    """What cannot be made is found before the old group is left: that goes on, and the page says why."""
    first = MemorySource(1)
    runtime, sources = make(lambda _e: None, [first])

    def refuse(_config: RuntimeConfig, _member: str) -> MemorySource:
        raise ConfigError("No such property.")

    runtime._make_source = refuse  # type: ignore[assignment]
    with running(runtime):
        assert ask(runtime, "/replay", {"group": "g2", "since": "2026-11-21T03:00:00Z"})[0] == 202
        until(lambda: runtime.switch_error is not None)
        until(lambda: runtime.state == "running")
        first.produce(record(n) for n in range(5))
        until(lambda: first.committed.get(("t", 0)) == 5)
        _, status = ask(runtime, "/status")
        assert (status["group"], status["replay"]) == ("g", None)
        assert status["switch_error"] == "ConfigError: No such property."
        second = MemorySource(1)
        sources.append(second)
        runtime._make_source = lambda _config, _member: second  # type: ignore[assignment]
        assert ask(runtime, "/replay", {"group": "g2", "since": "2026-11-21T03:00:00Z"})[0] == 202
        until(lambda: runtime.config.group == "g2")
        assert ask(runtime, "/status")[1]["switch_error"] is None


def test_a_switch_that_leaves_no_group_behind_ends_the_process() -> None:
    """A process that does nothing and cannot be resumed would look alive to whoever restarts dead ones."""
    runtime, _ = make(lambda _e: None)
    made = runtime._make_task

    def broken(config: RuntimeConfig) -> Any:
        task = made(config)

        def start() -> None:
            raise RuntimeError("can't start new thread")

        task.start = start  # type: ignore[method-assign]
        return task

    with running(runtime):
        runtime._make_task = broken  # type: ignore[method-assign]
        assert ask(runtime, "/replay", {"group": "g2", "since": "2026-11-21T03:00:00Z"})[0] == 202
        until(lambda: runtime.state == "failed")
        assert not runtime.resume()
        with pytest.raises(RuntimeError, match="can't start new thread"):
            runtime.wait()


@pytest.mark.parametrize(
    ("raw", "code", "named"),
    [
        (b"{", 400, "JSON"),
        (b"[]", 400, ""),
        (b'{"group": "g2"}', 400, "since"),
        (b'{"group": "", "since": "2026-11-21T03:00:00Z"}', 400, "group"),
        (b'{"group": "g2", "since": "2026-11-21T03:00:00"}', 400, "since"),
        (b'{"group": "g2", "since": "soon"}', 400, "since"),
        (b'{"group": "g2", "since": "2026-11-21T03:00:00Z", "max_bytes_per_second": 0}', 400, "max_bytes_per_second"),
        (b'{"group": "g2", "since": "2026-11-21T03:00:00Z", "extra": 1}', 400, "extra"),
        (b"x" * 4_300_000, 413, "4194304"),
    ],
)
def test_a_bad_order_changes_nothing(raw: bytes, code: int, named: str) -> None:
    """It is refused with the field's name."""
    runtime, sources = make(lambda _e: None)
    with running(runtime):
        answer = ask(runtime, "/replay", raw=raw)
        assert answer[0] == code
        assert named in answer[1]["error"]
        assert runtime.state == "running"
        assert len(sources) == 1
        assert ask(runtime, "/nothing")[0] == 404
        assert ask(runtime, "/nothing", {})[0] == 404


def test_metrics_of_ones_own_stand_on_the_same_page() -> None:
    """A registry given to the runtime is shown beside its own."""
    registry = CollectorRegistry()
    Counter("my_refunds", "Refunds.", registry=registry).inc(7)
    runtime, _ = make(lambda _e: None, user_metrics=registry)
    with running(runtime):
        url = "http://{}:{}/metrics".format(*runtime.metrics_address or ("", 0))
        page = urllib.request.urlopen(url, timeout=5).read().decode()
        assert "my_refunds_total 7.0" in page
        assert "wb_queue_length_events" in page
        accept = {"Accept": "application/openmetrics-text; version=1.0.0"}
        text = urllib.request.urlopen(urllib.request.Request(url, headers=accept), timeout=5).read().decode()
        assert text.count("# EOF") == 1
        assert text.endswith("# EOF\n")


def test_an_address_in_use_is_refused_by_name() -> None:
    """Before anything is joined."""
    first, _ = make(lambda _e: None)
    with running(first):
        assert first.metrics_address is not None
        second, sources = make(lambda _e: None)
        second.task.config = second.config.model_copy(update={"metrics_port": first.metrics_address[1]})
        with pytest.raises(ConfigError, match="metrics_port"):
            second.start()
        assert sources[0].listener is None

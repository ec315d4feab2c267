"""Rules of `workbench runtime`: wrong settings are refused at the start by the field's name, before anything is connected to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.running import check, run, run_here
from workbench.errors import ConfigError
from workbench.runtime import RuntimeConfig

MODULE = """
from workbench.runtime import processor

@processor("order", "refund")
def handle(event): ...

table = {"order": handle}
nothing = 7
"""
GOOD = 'bootstrap = "127.0.0.1:9"\ngroup = "g"\ntopics = ["t"]\nadmin_token = "s3cret"\n'


@pytest.fixture
def room(tmp_path: Path) -> Path:
    """A folder with processors and settings that fit."""
    (tmp_path / "mine.py").write_text(MODULE)
    (tmp_path / "broken.py").write_text("raise RuntimeError('no')")
    (tmp_path / "empty.py").write_text("")
    (tmp_path / "c.toml").write_text(GOOD)
    return tmp_path


def test_what_fits_is_said_without_a_connection(room: Path) -> None:
    """Pools by event type."""
    (room / "c.toml").write_text(f"[runtime]\n{GOOD}[runtime.processors.refund]\nthreads = 8\nqueues = 2\n")
    shown = run("runtime", "check", "c.toml", "mine", cwd=room)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.splitlines() == [
        "order: 4 threads, 4 queues of 1000",
        "refund: 8 threads, 2 queues of 1000",
    ]


@pytest.mark.parametrize(
    ("more", "module", "named"),
    [
        ("comit_interval_seconds = 1", "mine", ["comit_interval_seconds", "commit_interval_seconds"]),
        ("commit_interval_ms = 1000", "mine", ["commit_interval_ms", "commit_interval_seconds"]),
        ("consumers = 0", "mine", ["consumers"]),
        ('consumers = "many"', "mine", ["consumers"]),
        ("delay_max_seconds = 90", "mine", ["delay_max_seconds"]),
        ("max_bytes_per_second = 1", "mine", ["max_bytes_per_second"]),
        ("start_at = 2026-11-21T03:00:00", "mine", ["start_at", "zone"]),
        ("[default_processor]\nthreads = 0", "mine", ["default_processor.threads"]),
        ("[default_processor]\nthreads = 2\nqueues = 3", "mine", ["queues"]),
        ("[processors.refund]\ndelay_seconds = 61", "mine", ["refund", "delay_seconds"]),
        ("[processors.audit]\nthreads = 1", "mine", ["audit", "order, refund"]),
        ("processors = 3", "mine", ["processors"]),
        ("not toml", "mine", ["c.toml"]),
        ("", "nowhere", ["nowhere"]),
        ("", "broken", ["broken", "RuntimeError"]),
        ("", "empty", ["empty", "@processor"]),
        ("", "mine:nothing", ["nothing"]),
        ("", "mine:missing", ["missing"]),
    ],
)
def test_a_wrong_setting_is_refused_by_name(room: Path, more: str, module: str, named: list[str]) -> None:
    """Exit code 2, one line and a hint, for `check` and for `run` alike; the token is not shown."""
    (room / "c.toml").write_text(GOOD + more)
    for command in ("check", "run"):
        shown = run_here("runtime", command, "c.toml", module, cwd=room)
        check(shown, 2, *named)
        assert "s3cret" not in shown.stderr


def test_the_environment_stands_over_the_file(room: Path) -> None:
    """Plain values, lists and tables; `__` goes into a table."""
    config = RuntimeConfig.from_toml(
        room / "c.toml",
        environ={
            "WORKBENCH_RUNTIME_GROUP": "12",
            "WORKBENCH_RUNTIME_TOPICS": '["a", "b"]',
            "WORKBENCH_RUNTIME_CONSUMERS": "3",
            "WORKBENCH_RUNTIME_DEFAULT_PROCESSOR__THREADS": "9",
            "WORKBENCH_RUNTIME_PROCESSORS": '{"refund": {"threads": 2}}',
            "OTHER": "x",
        },
    )
    assert (config.group, config.topics, config.consumers) == ("12", ["a", "b"], 3)
    assert (config.default_processor.threads, config.processors["refund"].threads) == (9, 2)
    assert RuntimeConfig.from_environment(
        {
            "WORKBENCH_RUNTIME_BOOTSTRAP": "x:1",
            "WORKBENCH_RUNTIME_GROUP": "g",
            "WORKBENCH_RUNTIME_TOPICS": '["a"]',
        }
    ).topics == ["a"]


def test_every_setting_says_its_unit_and_its_reason(tmp_path: Path) -> None:
    """In its description; the command lists them all."""
    shown = run_here("runtime", "settings", cwd=tmp_path)
    assert shown.returncode == 0
    for model in (RuntimeConfig, type(RuntimeConfig(bootstrap="x", group="g", topics=["t"]).default_processor)):
        for name, field in model.model_fields.items():
            assert field.description, name
            assert name in shown.stdout


def test_it_ends_well_on_a_signal_though_no_broker_answers(room: Path) -> None:
    """SIGTERM while it cannot connect: exit code 0, within the shutdown's time."""
    program = Path(sys.executable).with_name("workbench")
    with subprocess.Popen(
        [program, "runtime", "run", "c.toml", "mine"], cwd=room, stderr=subprocess.PIPE, text=True, env=os.environ
    ) as popen:
        assert popen.stderr is not None
        try:
            for line in popen.stderr:
                if "metrics at" in line:
                    break
            time.sleep(0.3)
            popen.send_signal(signal.SIGTERM)
            assert popen.wait(20) == 0
        finally:
            popen.kill()


@pytest.mark.parametrize("service", ["WORKBENCH_RUNTIME", "WORKBENCH_RUNTIME_METRICS"])
def test_a_kubernetes_service_of_that_name_is_no_setting(service: str) -> None:
    """Pods get the variables of the services of their namespace; a typo is an error all the same."""
    own = {"WORKBENCH_RUNTIME_BOOTSTRAP": "k:1", "WORKBENCH_RUNTIME_GROUP": "g", "WORKBENCH_RUNTIME_TOPICS": '["t"]'}
    links = {
        f"{service}_SERVICE_HOST": "10.0.0.1",
        f"{service}_SERVICE_PORT": "80",
        f"{service}_SERVICE_PORT_METRICS": "80",
        f"{service}_PORT": "tcp://10.0.0.1:80",
        f"{service}_PORT_80_TCP": "tcp://10.0.0.1:80",
        f"{service}_PORT_80_TCP_ADDR": "10.0.0.1",
    }
    assert RuntimeConfig.from_environment(own | links).metrics_port == 0
    assert RuntimeConfig.from_environment(own | {"WORKBENCH_RUNTIME_METRICS_PORT": "9100"}).metrics_port == 9100
    for typo in ({"WORKBENCH_RUNTIME_METRIC_PORT": "9100"}, links | {"WORKBENCH_RUNTIME_PORTS": "1"}):
        with pytest.raises(ConfigError, match="no such field"):
            RuntimeConfig.from_environment(own | typo)

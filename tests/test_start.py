"""What a command does not need, it does not import: Arrow, Spark and the reports take a second of a shell's time."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

from workbench import api

HEAVY = ("pyarrow", "numpy", "pyspark", "pandas", "jinja2")


@pytest.mark.parametrize(
    "module",
    [
        "workbench.kafka.cluster_snapshot",
        "workbench.kafka.kafka_gateway",
        "workbench.replay.plan",
        "workbench.cli.replay",
        "workbench.api",
        "workbench.api.triages",
        "workbench.collect.capture_info",
    ],
)
def test_who_reads_positions_loads_no_tables(module: str) -> None:
    """A snapshot and a replay's plan are offsets and names."""
    code = f"import {module}, sys; print(*sorted(set({HEAVY!r}) & set(sys.modules)))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.split() == []


def test_the_api_has_every_name_that_it_lists() -> None:
    """They are looked for on first use; a module of the same name would stand in a function's place once it is imported."""
    for name in api.__all__:
        assert name in dir(api)
        assert getattr(api, name).__name__ == name
        assert importlib.util.find_spec(f"workbench.api.{name}") is None
    with pytest.raises(AttributeError, match="nothing_like_it"):
        _ = api.nothing_like_it  # type: ignore[attr-defined]

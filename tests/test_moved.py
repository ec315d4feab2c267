"""Programs that import inner modules of 0.1.0 by their old names go on, with a warning."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from workbench.moved import MODULES, NAMES

ASKED = """
import warnings
warnings.simplefilter("ignore")
from workbench.kafka.kafka_gateway import KafkaGateway
from workbench.replay.guard import Limits
from workbench.replay.connect import counter_of, is_hash
from workbench.kafka import wire as kafka_wire
from workbench.queues import snapshot_views as kafka_views
from workbench.kafka.wire import Answer
from workbench.chronicle.series import Story
import workbench.kafka.kafka_gateway, workbench.kafka.wire, workbench.replay.guard, workbench.history.partition_series
assert KafkaGateway is workbench.kafka.kafka_gateway.KafkaGateway
assert kafka_wire is workbench.kafka.wire and kafka_wire.__spec__.name == "workbench.kafka.wire"
assert Limits is workbench.replay.guard.ReplayLimits and Answer is workbench.kafka.wire.WireAnswer
assert Story is workbench.history.partition_series.PartitionHistory
"""


@pytest.mark.parametrize(("old", "new"), MODULES.items())
def test_a_module_is_found_by_its_old_name(old: str, new: str) -> None:
    """It is the same object, so what a script changes in it takes effect."""
    sys.modules.pop(f"workbench.{old}", None)
    with pytest.warns(DeprecationWarning, match="goes with 0.3.0"):
        found = importlib.import_module(f"workbench.{old}")
    assert found is importlib.import_module(f"workbench.{new}")


@pytest.mark.parametrize(("old", "new"), NAMES.items())
def test_a_name_is_found_where_it_was(old: tuple[str, str], new: str) -> None:
    """Where a name is both, old and new, the new one counts, and the line here is stale."""
    module = importlib.import_module(f"workbench.{old[0]}")
    assert old[1] not in vars(module)
    with pytest.warns(DeprecationWarning):
        found = getattr(module, old[1])
    room, _, name = new.rpartition(".")
    assert found is getattr(importlib.import_module(f"workbench.{room}"), name)


def test_old_and_new_names_go_together_in_one_process() -> None:
    """As scripts write them; a name that never was is an error as ever."""
    subprocess.run([sys.executable, "-c", ASKED], check=True)
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        importlib.import_module("workbench.replay.guard").Nothing  # noqa: B018
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("workbench.replay.nothing")

"""Fixtures of the audit's live tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from workbench.lab.lab_broker import Broker, start_broker


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """A Kafka of its own, to be stopped."""
    started = start_broker(tmp_path / "kafka")
    try:
        yield started
    finally:
        started.stop()

"""A real Pulsar for each module of live tests, and the client of other people for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from workbench.lab.pulsar import PulsarStandalone, start_pulsar

if TYPE_CHECKING:
    import pulsar


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PulsarStandalone]:
    """A Pulsar of this module's own."""
    running = start_pulsar(tmp_path_factory.mktemp("pulsar") / "pulsar")
    yield running
    running.stop()


@pytest.fixture(scope="module")
def client(standalone: PulsarStandalone) -> Iterator[pulsar.Client]:
    """A client that says only errors."""
    import pulsar

    made = pulsar.Client(standalone.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    yield made
    made.close()

"""Fleets of tests are small: what is to be tested of large ones is told to take them for large."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _taken_for_large(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Unless a test asks for `small`."""
    if "small" not in request.fixturenames:
        monkeypatch.setattr("workbench.sweep.sweep_engine.SMALL_SAMPLES", 0)
    yield


@pytest.fixture
def small() -> None:
    """A small fleet is one."""

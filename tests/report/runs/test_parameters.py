"""Rules of a report's parameters: what is wrong is told before anything starts, and the same question has the same name."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.errors import NotACaptureError, UnknownClusterError, UsageError, WindowError
from workbench.report.runs.parameters import HealthParameters, health_parameters, run_id

ROOT = Path(__file__).parent.parent.parent.parent
CAPTURE = ROOT / "notebooks" / "captures" / "incident-1"
NOW = datetime(2026, 11, 21, 3, 0, 40, tzinfo=UTC)


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    """Two clusters, one without a past."""
    path = tmp_path / "workbench.toml"
    path.write_text('[clusters.prod]\nprometheus = "http://127.0.0.1:1"\n[clusters.bare]\nbootstrap = "127.0.0.1:1"\n')
    return path


def test_exactly_one_source(settings: Path) -> None:
    """A cluster or a capture, not both and not neither."""
    with pytest.raises(UsageError, match="either --cluster or --capture"):
        health_parameters()
    with pytest.raises(UsageError, match="either --cluster or --capture"):
        health_parameters(cluster="prod", capture=CAPTURE, config=settings)


def test_a_wrong_source_is_named(settings: Path, tmp_path: Path) -> None:
    """An unknown cluster, one without a Prometheus, and a folder that is no capture."""
    with pytest.raises(UnknownClusterError, match="'nope'"):
        health_parameters(cluster="nope", config=settings)
    with pytest.raises(UsageError, match="'bare' has no Prometheus"):
        health_parameters(cluster="bare", config=settings)
    with pytest.raises(NotACaptureError):
        health_parameters(capture=tmp_path)


@pytest.mark.parametrize("since", ["yesterday", "2026-11-21T03:00:00", "0h", "-3h", "nan", "1e5", "zz=1;print(1)"])
def test_a_period_that_cannot_be_read_is_refused(settings: Path, since: str) -> None:
    """No guess at what was meant, no coercion."""
    with pytest.raises(WindowError):
        health_parameters(cluster="prod", since=since, config=settings, now=NOW)


def test_a_period_that_ends_before_it_starts_is_refused(settings: Path) -> None:
    """Named with both instants."""
    with pytest.raises(UsageError, match="not before its end"):
        health_parameters(cluster="prod", since="2026-11-21T05:00:00Z", until="2026-11-21T04:00:00Z", config=settings)


def test_a_length_is_counted_from_the_end(settings: Path) -> None:
    """And the end is the last full minute."""
    found = health_parameters(cluster="prod", since="24h", config=settings, now=NOW)
    assert found.until == "2026-11-21T03:00:00+00:00"
    assert found.since == "2026-11-20T03:00:00+00:00"


def test_unknown_parameters_are_an_error() -> None:
    """Papermill would only warn about a misspelt one."""
    with pytest.raises(ValueError, match="lag_limt"):
        HealthParameters(cluster="prod", lag_limt="3")  # type: ignore[call-arg]


@given(st.integers(0, 59), st.integers(0, 59))
def test_a_retry_within_the_minute_is_the_same_run(first: int, second: int) -> None:
    """Same source, same period, same name."""
    base = NOW.replace(second=0)
    names = {
        run_id("health", health_parameters(capture=CAPTURE, now=base + timedelta(seconds=it))) for it in (first, second)
    }
    assert len(names) == 1


def test_another_period_is_another_run(settings: Path) -> None:
    """The name tells source and end, and nothing of it needs quoting."""
    one = run_id("health", health_parameters(cluster="prod", config=settings, now=NOW))
    other = run_id("health", health_parameters(cluster="prod", config=settings, now=NOW + timedelta(minutes=1)))
    assert one != other
    assert one.startswith("health-prod-20261121T030000Z-")


def test_a_period_that_has_not_ended_is_refused(settings: Path) -> None:
    """A run that is done is not repeated, and the latest period has the numbers: both would be of a part, for good."""
    now = datetime(2026, 11, 21, 12, 0, 30, tzinfo=UTC)
    for until in ("2026-11-21T12:01:00Z", "2027-01-01T00:00:00Z"):
        with pytest.raises(UsageError, match="has not come yet"):
            health_parameters(cluster="prod", until=until, config=settings, now=now)
    assert health_parameters(cluster="prod", until="2026-11-21T12:00:30Z", config=settings, now=now)

"""A switch of the group that survives a restart."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.runtime.memory import MemorySource
from tests.waiting import wait_for
from workbench.errors import ConfigError
from workbench.runtime import Runtime, RuntimeConfig
from workbench.runtime.group_switch_file import with_kept_switch

SINCE = datetime(2026, 11, 21, tzinfo=UTC)


def config(folder: Path, **changes: object) -> RuntimeConfig:
    """Settings of the old group, with a switch file."""
    own = {"bootstrap": "b:1", "group": "old", "topics": ["orders"], "switch_file": folder / "switch.json"}
    return RuntimeConfig.model_validate({**own, **changes})


def runtime(folder: Path, **changes: object) -> Runtime:
    """A runtime on a log in memory."""
    return Runtime(
        config(folder, **changes),
        {"*": lambda _event: None},
        make_source=lambda *_: MemorySource(),
        probe_log_ends=False,
    )


def switched(running: Runtime, group: str) -> None:
    """Switch to a group, and wait for it."""
    assert running.switch_group(group, SINCE, 5000, {"orders": {0: [(1, 2)]}} if group != "old" else None)
    wait_for(lambda: running._switch is None)


def test_a_restart_comes_back_in_the_new_group(tmp_path: Path) -> None:
    """With its start and ranges, and without its read limit, which ends with the process; after the way back, a restart is in the group
    of the settings."""
    first = runtime(tmp_path)
    first.start()
    switched(first, "new")
    first.stop()
    second = runtime(tmp_path)
    assert (second.config.group, second.config.start_at) == ("new", SINCE)
    assert second.config.max_bytes_per_second is None
    assert second.config.ranges == {"orders": {0: [(1, 2)]}}
    assert second.replay == ("new", SINCE)
    second.start()
    switched(second, "old")
    second.stop()
    assert runtime(tmp_path).config.group == "old"
    assert not (tmp_path / "switch.json").exists()


def test_a_switch_to_ranges_of_another_topic_is_not_made(tmp_path: Path) -> None:
    """They would never end; the old group goes on, and the status says why."""
    running = runtime(tmp_path)
    running.start()
    assert running.switch_group("new", SINCE, None, {"payments": {0: [(1, 2)]}})
    wait_for(lambda: running._switch is None)
    assert running.config.group == "old"
    assert "payments is none of the topics" in (running.switch_error or "")
    running.stop()


def test_settings_with_another_group_make_the_file_void(tmp_path: Path) -> None:
    """A deploy with the new group, or with a third one, decides; a damaged file stops the start."""
    first = runtime(tmp_path)
    first.start()
    switched(first, "new")
    first.stop()
    assert with_kept_switch(config(tmp_path, group="third"))[0].group == "third"
    (tmp_path / "switch.json").write_text("{")
    with pytest.raises(ConfigError, match="cannot be read"):
        runtime(tmp_path)


def test_a_switch_that_cannot_be_kept_is_not_made(tmp_path: Path) -> None:
    """The old group goes on, and the status says why."""
    running = runtime(tmp_path, switch_file=tmp_path / "missing" / "switch.json")
    running.start()
    switched(running, "new")
    assert running.config.group == "old"
    assert running.switch_error is not None and "switch_file" in running.switch_error
    running.stop()

"""A switch of the group that survives a restart: it is written to a file before it is made, and read at the start."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from workbench.errors import ConfigError
from workbench.files import write_text
from workbench.limited_reads import first_problem, read_within
from workbench.runtime.config import RuntimeConfig

_MOST_BYTES = 16 << 20


class KeptSwitch(BaseModel):
    """Content of the file."""

    model_config = ConfigDict(hide_input_in_errors=True, extra="forbid", frozen=True)

    of_group: str = Field(
        description="Group in the settings when the switch was made; with another one there, the file is void."
    )
    group: str = Field(min_length=1)
    start_at: AwareDatetime
    max_bytes_per_second: int | None = Field(
        default=None, description="Not used: the read limit ends with the process."
    )
    ranges: dict[str, dict[int, list[tuple[int, int]]]] | None = None


def keep_switch(path: Path, config: RuntimeConfig, *, of_group: str) -> None:
    """Write the group of these settings to the file, durably.

    Raises:
        OSError: if it cannot be written.
    """
    if config.group == of_group:
        path.unlink(missing_ok=True)  # back in the group of the settings
        return
    assert config.start_at is not None  # noqa: S101 - a switch has a start
    kept = KeptSwitch(
        of_group=of_group,
        group=config.group,
        start_at=config.start_at,
        ranges=config.ranges,
    )
    write_text(path, kept.model_dump_json(), durable=True)


def with_kept_switch(config: RuntimeConfig) -> tuple[RuntimeConfig, tuple[str, datetime] | None]:
    """Settings with the switch of an earlier run, and that switch; unchanged without one.

    Raises:
        ConfigError: if the file is damaged: reading as the wrong group would be worse than not starting.
    """
    path = config.switch_file
    if path is None or not path.exists():
        return config, None
    try:
        kept = KeptSwitch.model_validate_json(read_within(path, _MOST_BYTES))
    except (OSError, ValidationError) as error:
        why = str(first_problem(error)) if isinstance(error, ValidationError) else error.strerror
        raise ConfigError(f"The switch file {path} cannot be read: {why}.", hint="Restore or remove it.") from None
    if kept.of_group != config.group:
        return config, None
    update: dict[str, Any] = {name: getattr(kept, name) for name in ("group", "start_at", "ranges")}
    return config.model_copy(update=update), (kept.group, kept.start_at)

"""The result of a health report as a file: `result.json`, read by the next run, by the runner and by `workbench report send`."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from workbench.errors import WorkbenchError
from workbench.limited_reads import read_within
from workbench.triage.verdict_names import AnyVerdict, State

SCHEMA = "workbench.health/1"
NEWS = ("new", "worse", "still", "fixed")  # what a reader wants to know first, in this order
_MOST_BYTES = 256 << 20


def _zoned(text: str) -> str:
    if datetime.fromisoformat(text).tzinfo is None:
        raise ValueError("the timestamp has no time zone")
    return text


_Instant = Annotated[str, AfterValidator(_zoned)]


class _Part(BaseModel):
    """Fields that are read from a result; it may have more."""

    model_config = ConfigDict(extra="ignore", strict=True, hide_input_in_errors=True)


class _Line(_Part):
    group: str
    topic: str
    state: State
    verdict: AnyVerdict
    headline: str
    time_lag_seconds: float | None = Field(allow_inf_nan=False)
    time_lag_words: str | None = None  # older results have the seconds alone


class _Judged(_Part):
    start: _Instant
    end: _Instant


class _Result(_Part):
    format: Literal["workbench.health/1"] = Field(alias="schema")
    run_id: str
    cluster: str
    judged: _Judged
    exit_code: Literal[0, 3, 4]
    states: dict[str, int]
    verdicts: dict[str, int]
    over_budget: int
    lines: list[_Line]


def read_previous(path: str) -> dict[str, Any] | None:
    """Read the last run's result; None if it is missing or invalid, because the trend is optional."""
    if not path:
        return None
    try:
        content = read_within(Path(path), _MOST_BYTES)
        _Result.model_validate_json(content)
    except (OSError, ValidationError):
        return None
    document: dict[str, Any] = json.loads(content)
    return document


def read_result(path: Path) -> dict[str, Any]:
    """Read the result of a run.

    Raises:
        WorkbenchError: if the file is missing or is something else, which is a fault of the notebook.
    """
    document = read_previous(str(path))
    if document is None:
        raise WorkbenchError(f"The notebook ended without a result: {path} is not a health result.")
    return document

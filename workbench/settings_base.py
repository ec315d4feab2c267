"""Base of the settings' parts, and durations as people write them."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict

from workbench.errors import WindowError
from workbench.window import parse_duration

LONGEST = timedelta(days=366)  # more is a mistake in the unit


def _duration(value: Any) -> Any:
    try:
        # ISO 8601 ("PT18S") is how pydantic itself writes one.
        return parse_duration(value) if isinstance(value, str) and not value.startswith("P") else value
    except WindowError as error:
        # A text that does not even begin like a duration is here by mistake, and may be a secret.
        said = error.message if value[:1].isdigit() else "this is not a duration, such as 15m"
        raise ValueError(said) from None


Duration = Annotated[timedelta, BeforeValidator(_duration)]


class Strict(BaseModel):
    """A table of the settings: no unknown fields, no change, no value in messages."""

    model_config = ConfigDict(hide_input_in_errors=True, extra="forbid", frozen=True, allow_inf_nan=False)

"""Base of the settings' parts, and durations as people write them."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationInfo, field_validator

from workbench.errors import WindowError
from workbench.window import parse_duration

LONGEST = timedelta(days=366)  # more is a mistake in the unit


def _duration(value: Any) -> Any:
    if isinstance(value, int | float):  # of 15, nobody can say whether seconds or minutes are meant
        raise ValueError('a duration is a text with its unit, such as "15m"')
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

    @field_validator("*", mode="before")
    @classmethod
    def _no_number_is_true(cls, value: Any, info: ValidationInfo) -> Any:
        # The validator takes true for 1. A number as text stays one: environment variables have no other.
        if isinstance(value, bool) and cls.model_fields[str(info.field_name)].annotation in (int, float):
            raise ValueError("it must be a number, and not true or false")
        return value

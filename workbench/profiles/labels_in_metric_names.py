"""Names of metrics that carry labels, such as `latency_for_broker_{broker}`: clients without labels write them into the name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

_IN_BRACES = re.compile(r"\{([a-zA-Z_][a-zA-Z0-9_]*)\}")
_TEXT = "[a-zA-Z0-9_:]+"
# A longer name is not read: the time of a pattern with several places grows with a power of the length.
_MOST_CHARACTERS = 256
MOST_PLACES = 3
# As the profile's schema says it: places stand apart, and a name begins with one only if three words follow, as in
# `{app}_events_runtime_ms`: with fewer it would mean every metric.
_PLACE_IN_SCHEMA = r"\{[a-zA-Z_][a-zA-Z0-9_]*\}"
PATTERN = (
    rf"^([a-zA-Z_:]|{_PLACE_IN_SCHEMA}(_[a-zA-Z0-9]+){{3}})[a-zA-Z0-9_:]*"
    rf"({_PLACE_IN_SCHEMA}[a-zA-Z0-9_:]+)*({_PLACE_IN_SCHEMA}[a-zA-Z0-9_:]*)?$"
)
_NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9_:]")


def places(name: str) -> tuple[str, ...]:
    """Labels that stand in a name, in their order; none in most."""
    return tuple(_IN_BRACES.findall(name)) if "{" in name else ()


def pattern(name: str) -> str:
    """What a server matches names with, in full."""
    parts = _IN_BRACES.split(name)
    return "".join(_TEXT if at % 2 else re.escape(part) for at, part in enumerate(parts))


def as_written(value: str) -> str:
    """A value as it stands in a name, where dots and dashes cannot."""
    return _NOT_IN_A_NAME.sub("_", value)


@lru_cache(maxsize=1024)
def _compiled(name: str) -> re.Pattern[str]:
    parts = _IN_BRACES.split(name)
    return re.compile("".join(f"(?P<{part}>{_TEXT})" if at % 2 else re.escape(part) for at, part in enumerate(parts)))


def read(name: str, metric: str) -> dict[str, str] | None:
    """What a metric has in the places of a name; None if it is another metric."""
    if len(metric) > _MOST_CHARACTERS:
        return None
    found = _compiled(name).fullmatch(metric)
    return None if found is None else found.groupdict()


def most_telling_first(names: Iterable[str]) -> Sequence[str]:
    """Names with places, the one that says most itself first: `x_{topic}_mean` before `x_{topic}`."""
    return sorted((it for it in names if places(it)), key=lambda it: (-len(_IN_BRACES.sub("", it)), it))

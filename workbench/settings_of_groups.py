"""What is expected of each consumer group: settings by group pattern, the most specific pattern first.

    [clusters.prod.groups."billing-*"]
    time_lag_objective = "5m"
    commit_every = "10m"
    batch = "0 2 * * *"
    owner = "#billing-oncall"
    runbook = "https://wiki.example.com/billing"
    runbook_base = "https://wiki.example.com/runbooks"
    grafana = "https://grafana.example.com/d/lag?var-group={group}&from={from_ms}&to={to_ms}"
    actions = { restart_consumers = "kubectl -n billing rollout restart deploy/{group}" }
    mute = { until = 2026-12-01T08:00:00Z, reason = "migration" }

Each field comes from the most specific pattern that has it: a name without wildcards before one with, then the one with more letters,
then the one with fewer `*`, then the first in the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, field_validator

from workbench.humanize import did_you_mean
from workbench.limited_reads import is_web_address
from workbench.schedule import schedule_of
from workbench.settings_base import LONGEST, Duration, Strict

if TYPE_CHECKING:
    from workbench.thresholds import Thresholds

_NAMES = ("cluster", "group", "topic")
_LINK_PLACES = (*_NAMES, "from_ms", "to_ms")
# Kinds of the actions that triage advises, and two that only a team's own tools can do, with the values that each may have besides the
# names of cluster, group and topic (tests/triage/test_settle.py).
ACTION_PLACES: Mapping[str, tuple[str, ...]] = {
    "abort_transaction": (),
    "add_consumers": ("members",),
    "add_partitions": ("members", "partitions"),
    "dead_letter": ("max_attempts", "offset", "partition"),
    "move_members": ("members",),
    "pause": (),
    "raise_delay_capacity": ("capacity",),
    "raise_quota": ("members",),
    "raise_retention": ("retention_ms",),
    "replace_members": ("members",),
    "restart_consumers": ("members", "partitions"),
    "resume_partitions": ("partitions",),
    "rollback": (),
    "scale_processors": ("processors", "threads"),
    "spread_keys": ("partition", "partitions", "processor"),
    "stop_changes": ("members",),
    "stop_deploy": ("members",),
}
PLACE = re.compile(r"\{(\w+)\}")


def _aware(value: datetime) -> datetime:
    if value.tzinfo is None:
        raise ValueError("this time has no time zone, as in 2026-12-01T08:00:00Z")
    return value


def _schedule(value: str) -> str:
    schedule_of(value)  # says what is wrong
    return value


class Mute(Strict):
    """A pause of alarms: findings are shown as muted, and do not count for the exit code."""

    until: Annotated[datetime, AfterValidator(_aware), PlainSerializer(lambda at: at.isoformat(), when_used="json")] = (
        Field(description="Until when findings of these groups raise no alarm.")
    )
    reason: str = Field(min_length=1, description="Why; it is shown with each muted finding.")


class GroupExpectation(Strict):
    """What changes the verdicts of the groups of one pattern: all that a capture or a store keeps of the settings."""

    time_lag_objective: Duration | None = Field(
        default=None, gt=timedelta(0), le=LONGEST, description="Older than this is late."
    )
    commit_every: Duration | None = Field(
        default=None,
        ge=timedelta(0),
        le=LONGEST,
        description="The group commits this often at most (a batch, a sink, checkpoints): so much older is not late.",
    )
    batch: Annotated[str, AfterValidator(_schedule)] | None = Field(
        default=None,
        description='When a batch runs: "every 6h", or a cron expression. It is silent between two runs; a missed run is a verdict.',
    )
    mute: Mute | None = None


class GroupSettings(GroupExpectation):
    """What the settings say of the groups of one pattern: also whom to ask, where to look, and commands for people to copy."""

    owner: str | None = Field(default=None, description="Whom to ask: a channel, a team, an address.")
    runbook: str | None = Field(default=None, description="The team's own runbook, a link or a path.")
    runbook_base: str | None = Field(
        default=None, description="Address of the folder of runbooks: makes `runbooks/SlowProcessor.md` a link."
    )
    grafana: str | None = Field(
        default=None,
        description=f"Address of a dashboard; {', '.join(f'{{{it}}}' for it in _LINK_PLACES)} are filled in.",
    )
    logs: str | None = Field(default=None, description="Address of the group's logs, with the same places.")
    actions: dict[str, str] | None = Field(
        default=None,
        description="Commands by kind of action, with {cluster}, {group}, {topic} and the kind's own values: "
        + "; ".join(" ".join([kind, *(f"{{{it}}}" for it in names)]) for kind, names in ACTION_PLACES.items())
        + ".",
    )

    @field_validator("runbook_base", "grafana", "logs")
    @classmethod
    def _addresses(cls, value: str | None) -> str | None:
        if value is not None and not is_web_address(value):
            raise ValueError("this is not an http or https URL, such as https://wiki.example.com/runbooks")
        return value

    @field_validator("grafana", "logs")
    @classmethod
    def _links(cls, value: str | None) -> str | None:
        _check_places(value or "", _LINK_PLACES)
        return value

    @field_validator("actions")
    @classmethod
    def _kinds(cls, value: dict[str, str] | None) -> dict[str, str] | None:
        for kind, template in (value or {}).items():
            if kind not in ACTION_PLACES:
                means = did_you_mean(kind, list(ACTION_PLACES))
                raise ValueError(f"there is no action {kind!r}.{means} Actions: {', '.join(ACTION_PLACES)}")
            _check_places(template, (*_NAMES, *ACTION_PLACES[kind]))
        return value


def _check_places(template: str, known: Sequence[str]) -> None:
    """Refuse what looks like one of the known places, mistyped; any other stays in the text, for a person to fill in.

    Raises:
        ValueError: naming the place.
    """
    for name in PLACE.findall(template):
        if name not in known and (means := did_you_mean(name, known)):
            raise ValueError(f"nothing fills in {{{name}}}.{means}")


_SHOWN_FIELDS = GroupSettings.model_fields.keys() - GroupExpectation.model_fields.keys()


def _reduced(value: Any) -> Any:
    """Keep what changes a verdict; anything that is no table of a group is left to the validation."""
    if not isinstance(value, Mapping):
        return value
    return {pattern: _reduced_group(it) for pattern, it in value.items()}


def _reduced_group(value: Any) -> Any:
    if isinstance(value, GroupExpectation):
        value = {name: getattr(value, name) for name in value.model_fields_set}
    if not isinstance(value, Mapping):
        return value
    # Null is how a field is written that is not set.
    return {name: it for name, it in value.items() if name not in _SHOWN_FIELDS and it is not None}


def _few(value: Any) -> Any:
    if len(value) > _MOST_PATTERNS or max(map(len, value), default=0) > _LONGEST_PATTERN:
        raise ValueError(
            f"these are more than {_MOST_PATTERNS:,} patterns, or one has over {_LONGEST_PATTERN:,} characters"
        )
    return value


_MOST_PATTERNS = 10_000  # each is compared with each group
_LONGEST_PATTERN = 1000  # a group's name has at most 249 characters
Patterns = Annotated[dict[str, GroupSettings], AfterValidator(_few)]
# By group pattern, as captures and stores have it. They come from anywhere, so commands, links and owners are taken from the reader's
# own settings only.
Recorded = Annotated[Mapping[str, GroupExpectation], BeforeValidator(_reduced), AfterValidator(_few)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What is expected of one group, and the pattern that says so for each field."""

    settings: GroupSettings
    lines: Mapping[str, str]

    def muted(self, at: datetime) -> str | None:
        """The mute at an instant in words; None if there is none."""
        mute = self.settings.mute
        if mute is None or at >= mute.until:
            return None
        return f"until {mute.until.astimezone(UTC):%Y-%m-%d %H:%MZ}: {mute.reason}"


class Expectations:
    """Settings by group pattern; `*` and `?` are wildcards, everything else is literal."""

    def __init__(self, by_pattern: Mapping[str, GroupExpectation]) -> None:
        self.by_pattern = dict(by_pattern)

    @classmethod
    def recorded(cls, judged: Mapping[str, GroupExpectation], own: Mapping[str, GroupSettings]) -> Expectations:
        """What was recorded decides verdicts; owner, runbooks, links and commands are those of the reader's own settings."""
        parts = ((judged, GroupExpectation.model_fields), (own, _SHOWN_FIELDS))
        values: dict[str, dict[str, Any]] = {}
        for by_pattern, names in parts:
            for pattern, settings in by_pattern.items():
                found = {name: getattr(settings, name) for name in settings.model_fields_set if name in names}
                values.setdefault(pattern, {}).update(found)
        return cls({pattern: GroupSettings.model_construct(set(it), **it) for pattern, it in values.items() if it})

    def __bool__(self) -> bool:
        return bool(self.by_pattern)

    @cached_property
    def _ordered(self) -> list[tuple[re.Pattern[str], str, GroupExpectation]]:
        by_specificity = sorted(self.by_pattern, key=_unspecific)
        return [
            (re.compile(_regex(pattern), re.DOTALL), pattern, self.by_pattern[pattern]) for pattern in by_specificity
        ]

    def of(self, group: str) -> Expected:
        """What is expected of a group, field by field."""
        values: dict[str, Any] = {}
        lines: dict[str, str] = {}
        for regex, pattern, settings in self._ordered:
            if regex.fullmatch(group) is None:
                continue
            for name in settings.model_fields_set:
                if name not in values:
                    values[name], lines[name] = getattr(settings, name), pattern
        return Expected(settings=GroupSettings.model_construct(**values), lines=lines)

    def limits(self, thresholds: Thresholds, group: str) -> Thresholds:
        """The thresholds for one group."""
        expected = self.of(group).settings
        changed: dict[str, float] = {}
        if expected.time_lag_objective is not None:
            changed["time_lag_objective_seconds"] = expected.time_lag_objective.total_seconds()
        if expected.commit_every is not None:
            changed["commit_every_seconds"] = expected.commit_every.total_seconds()
        if expected.batch is not None:
            # Nothing moves between two runs; which of them is late is asked of `batch` alone.
            gap = schedule_of(expected.batch).longest_gap.total_seconds()
            changed["commit_every_seconds"] = max(
                changed.get("commit_every_seconds", thresholds.commit_every_seconds), gap
            )
        return thresholds.model_copy(update=changed) if changed else thresholds

    def objective_sql(self, otherwise: float) -> str:
        """SQL for the objective of each row's `group`, in seconds; `otherwise`: seconds where no pattern has one."""
        whens = [
            f"WHEN `group` RLIKE r'^(?s:{_sql_regex(pattern, _first)})\\z' THEN {objective.total_seconds()!r}D"
            for _, pattern, settings in self._ordered
            if (objective := settings.time_lag_objective) is not None
        ]
        rest = f"{float(otherwise)!r}D"
        return f"CASE {' '.join(whens)} ELSE {rest} END" if whens else rest

    @property
    def has_batches(self) -> bool:
        """Whether any pattern has a `batch`."""
        return any(settings.batch is not None for settings in self.by_pattern.values())

    def regexes(self) -> Iterator[tuple[str, GroupExpectation]]:
        """RE2 of each pattern as Prometheus matches a label, the most specific pattern first."""
        for _, pattern, settings in self._ordered:
            yield f"(?s:{_sql_regex(pattern, _any)})", settings


NOTHING_EXPECTED = Expectations({})


def matches(pattern: str, group: str) -> bool:
    """Whether a pattern covers a group."""
    return re.fullmatch(_regex(pattern), group, re.DOTALL) is not None


def _regex(pattern: str) -> str:
    return _joined(pattern, re.escape, _first)


def _sql_regex(pattern: str, between: Callable[[str], str]) -> str:
    """The same for Spark, where neither a quote nor a backslash of the pattern may end the SQL literal."""
    return _joined(pattern, lambda char: char if char.isalnum() else f"\\x{{{ord(char):x}}}", between)


def _joined(pattern: str, literal: Callable[[str], str], between: Callable[[str], str]) -> str:
    """A regular expression of the parts between the `*` of a pattern; the last part ends the name."""
    first, *others = (
        "".join("." if char == "?" else literal(char) for char in part) for part in re.split(r"\*+", pattern)
    )
    if not others:
        return first
    return "".join([first, *map(between, others[:-1]), ".*", others[-1]])


def _first(part: str) -> str:
    """The first place of a part: a later one is never better, so the matcher must not go back for it (`fnmatch` does the same).

    Going back takes exponential time: `*a*a*a*a*a*a*a*a*!` took half a minute for a name of 60 letters.
    """
    return f"(?>.*?{part})"


def _any(part: str) -> str:
    """For Prometheus: its RE2 never goes back, and has no atomic groups."""
    return f".*{part}"


def _unspecific(pattern: str) -> tuple[bool, int, int]:
    wild = sum(char in "*?" for char in pattern)
    return (wild > 0, wild - len(pattern), pattern.count("*"))

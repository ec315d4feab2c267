"""Profiles: mapping of the metrics of one exporter or framework to the canonical signals.

A profile has the source of each signal and its quality. A signal that a profile lacks is *absent*, and the tree then answers "cannot
tell", never "healthy".
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from workbench.errors import ConfigError
from workbench.humanize import did_you_mean, is_text
from workbench.limited_reads import first_problem, read_within
from workbench.profiles import labels_in_metric_names
from workbench.profiles.label_values import bound_of, state_of
from workbench.profiles.left_out_series import WHOLE, LeftOut
from workbench.profiles.mapping_rule import MappingRule, Quality, filled
from workbench.settings import QueueName
from workbench.signals import SIGNALS, Grain
from workbench.user_folders import profiles_dir

__all__ = [
    "ESTIMATE",
    "LeftOut",
    "MappingRule",
    "Meaning",
    "Profile",
    "Quality",
    "is_path",
    "known_profiles",
    "lag_arrives_late",
    "load_profile",
    "name_of",
    "own_profiles",
    "parse_profile",
    "profile_names",
    "system_among",
    "why_absent",
]

_NUMBER = re.compile(r"[0-9]{1,10}")  # str.isdigit also accepts "²" and "١"
_LAST_PARTITION = 2**31 - 1  # Kafka's own type
_PROFILE_BYTES = 1 << 20
# The processor of a metric that does not tell event types apart.
EVERY_TYPE = "all"

# Signals whose series may be those of a topic as a whole, as exporters sum them up: they count as its only partition.
_OF_TOPICS = ("consumer_lag", "committed_offset", "log_end_offset")

# `stat` of an estimated time lag; one that the consumer computed from the record is a `value`.
ESTIMATE = "estimate"


@dataclass(frozen=True, slots=True)
class Meaning:
    """Meaning of one exported series: its signal, canonical labels, stat, and the factor to the signal's unit.

    `plus` is added to that; for `counted_twice` see `MappingRule`. `value` replaces the sample's value if a label has it (a group's
    state): one that is not 0, or any one (`by_presence`). `generation` is the place of the metric's name in its rule.
    """

    signal: str
    labels: dict[str, Any]
    stat: str
    le: float | None
    scale: float
    value: float | None = None
    generation: int = 0
    plus: float = 0.0
    by_presence: bool = False
    counted_twice: bool = False

    def value_of(self, sample: float) -> float:
        """What a sample tells: itself, or the state, where its series counts; else NaN."""
        if self.value is None:
            return sample
        return self.value if sample or self.by_presence else math.nan


class Profile(BaseModel):
    """One exporter or framework."""

    model_config = ConfigDict(hide_input_in_errors=True, extra="forbid", frozen=True)

    name: str
    title: str
    # Content of the label `member` for metrics without a group: the group is then looked up by it, in Kafka's member list
    # (client ids) or in the cluster's `members` in workbench.toml; a thread's is that of its process's clients.
    member_is: Literal["member", "client_id", "application", "thread"] = "member"
    # Whether a topic with a dot is exported as `pay_events` (Kafka's Java clients), from 4.1 on as `pay.events`, too (KIP-1109).
    topics_twice: bool = False
    # Labels in whose values dots and dashes are underscores (Flink's reporter for Prometheus, unless it is told to leave them).
    underscored: tuple[Literal["topic", "member"], ...] = ()
    # What the names were taken from: a page of the real thing (which the tests have), its source code, or its documents.
    names_from: Literal["recorded page", "source code", "documents"] | None = None
    # The id of its client, made of the exporter's labels, such as "{thread_id}-consumer" for a thread of Kafka Streams; without it,
    # the label `member` is the id itself, as of a series that lacks one of them. Of an application's part, the first is its name.
    member_form: str | None = Field(default=None, max_length=100)
    # Why its brokers have no replicas that could be out of sync, in words; without it, they have.
    no_replicas: str | None = Field(default=None, max_length=200)
    # By how much its values are late when they arrive, in seconds: a service that publishes one a minute, some minutes later.
    late_seconds: float = Field(default=0.0, ge=0, le=3600)
    # The queue that it is about: commands of findings are those of its tools.
    system: QueueName = "kafka"
    signals: dict[str, MappingRule]
    # Signals that no version of the exporter has, each with the reason, as a sentence.
    absent: dict[str, str] = {}

    @field_validator("signals")
    @classmethod
    def _known_signals(cls, signals: dict[str, MappingRule]) -> dict[str, MappingRule]:
        if unknown := signals.keys() - SIGNALS.keys():
            raise ValueError(f"{sorted(unknown)[0]!r} is not a signal")
        for name, rule in signals.items():
            for it in rule.each():
                it.check_parts(name)
        return signals

    @model_validator(mode="after")
    def _no_signal_both_ways(self) -> Profile:
        if unknown := self.absent.keys() - SIGNALS.keys():
            raise ValueError(f"{sorted(unknown)[0]!r} is not a signal")
        if both := self.absent.keys() & self.signals.keys():
            raise ValueError(f"{sorted(both)[0]!r} has a metric, so it is not absent")
        return self

    def quality(self, signal: str) -> Quality:
        """Quality of a signal in this profile."""
        rule = self.signals.get(signal)
        return Quality.ABSENT if rule is None else rule.quality

    def metrics(self) -> Mapping[str, Sequence[tuple[str, MappingRule, str]]]:
        """Map of every exported series name to (signal, rule, stat): several, where labels tell what a series of the name means.

        A name may have places (`profiles.labels_in_metric_names`); `read_name` says which one a metric is.
        """
        return self._index

    def read_name(self, metric: str) -> tuple[str, Mapping[str, str]] | None:
        """The profile's name for a metric, and the labels that the metric's own name carries; None if the profile does not have it."""
        if metric in self._index:
            return metric, {}
        for name in self._with_places:
            if (found := labels_in_metric_names.read(name, metric)) is not None:
                return name, found
        return None

    @property
    def carried(self) -> Mapping[str, frozenset[str]]:
        """Canonical labels with their signals, where dots and dashes of the values are underscores: those in names of metrics."""
        found: dict[str, frozenset[str]] = {
            label: frozenset(signal for signal, rule in self.rules() if label in rule.labels)
            for label in self.underscored
        }
        for name in self._with_places:
            for signal, rule, _ in self._index[name]:
                for label, theirs in rule.labels.items():
                    if theirs in labels_in_metric_names.places(name):
                        found[label] = found.get(label, frozenset()) | {signal}
        return found

    # Cached, and not private attributes of the model: each look at one of those takes a detour, and a fleet has a million series.
    @cached_property
    def _index(self) -> dict[str, list[tuple[str, MappingRule, str]]]:
        found: dict[str, list[tuple[str, MappingRule, str]]] = {}
        for signal, rule in self.rules():
            for name, stat, _ in rule.exported(SIGNALS[signal].kind):
                found.setdefault(name, []).append((signal, rule, stat))
        return found

    @cached_property
    def _generation(self) -> dict[str, int]:
        rules = self.rules()
        return {name: place for signal, rule in rules for name, _, place in rule.exported(SIGNALS[signal].kind)}

    @cached_property
    def _with_places(self) -> tuple[str, ...]:
        return tuple(labels_in_metric_names.most_telling_first(self._index))

    def views(self) -> tuple[Profile, ...]:
        """This profile, and one of the signals whose series have another meaning, too: a timer's count by outcome, for one."""
        return (self, *self._second)

    @cached_property
    def _second(self) -> tuple[Profile, ...]:
        twice: dict[str, dict[str, tuple[str, ...]]] = {}  # with the parts that have no name of their own
        for name, (first, *others) in self._index.items():
            for signal, it, _ in others:
                if signal != first[0] and it.where == first[1].where and set(it.only_with) >= set(first[1].only_with):
                    twice.setdefault(signal, {}).update({of: those for of, those in it.parts.items() if name in those})
        rules = {signal: self.signals[signal].model_copy(update={"parts": of}) for signal, of in twice.items()}
        return (Profile(**{**dict(self), "signals": rules}),) if 0 < len(rules) < len(self.signals) else ()

    def rules(self) -> Iterator[tuple[str, MappingRule]]:
        """Every rule with its signal: of a signal that has several, each."""
        for signal, rule in self.signals.items():
            for it in rule.each():
                yield signal, it

    @property
    def names_of_a_metric(self) -> int:
        """The largest number of names of one metric."""
        return max((len(rule.metrics) for _, rule in self.rules()), default=1)

    def generations(self) -> tuple[Profile, ...]:
        """This profile with one name for each metric: first the preferred names, then those of `also`, where there are any."""
        if self.names_of_a_metric == 1:
            return (self,)
        found = []
        for at in range(self.names_of_a_metric):
            rules = {
                signal: rule.model_copy(
                    update={"metric": rule.metrics[at], "also": (), **({} if at == 0 else {"beside": ()})}
                )
                for signal, rule in self.signals.items()
                if at < len(rule.metrics)
            }
            found.append(Profile(**{**dict(self), "signals": rules}))
        return tuple(found)

    def meaning(self, metric: str, labels: Mapping[str, str], *, left_out: LeftOut | None = None) -> Meaning | None:
        """Look up a series; None if this profile does not have it, or if a label is invalid, which is noted in `left_out`."""
        named = self.read_name(metric)
        if named is None:
            return None
        name, carried = named
        labels = {**labels, **carried} if carried else labels
        known = next((it for it in self._index[name] if it[1].is_about(labels)), None)
        if known is None:
            return None
        signal, rule, stat = known
        canonical: dict[str, Any] = {of: filled(text, labels) or None for of, text in rule.constants.items()}
        for label, theirs in rule.labels.items():
            value: Any = labels.get(theirs)
            if value is not None and not is_text(value):
                return _unreadable(left_out, metric, theirs, value, wanted="text")
            if label == "partition" and value is not None:
                if not _NUMBER.fullmatch(value) or int(value) > _LAST_PARTITION:
                    return _unreadable(left_out, metric, theirs, value, wanted="partition")
                value = int(value)
            elif label == "member" and value is not None:
                value = value if self.member_form is None else filled(self.member_form, labels, value)
            canonical[label] = value
        if signal in _OF_TOPICS and canonical.get("partition") is None:
            canonical["partition"] = WHOLE
            if left_out is not None:
                left_out.of_topics.add(metric)
        if SIGNALS[signal].grain is Grain.PROCESSOR and canonical.get("processor") is None:
            canonical["processor"] = EVERY_TYPE
        if rule.stat_label is not None:
            stat = labels.get(rule.stat_label, "value")
            if not is_text(stat):
                return _unreadable(left_out, metric, rule.stat_label, stat, wanted="text")
            kind = rule.kind_of(stat)
            if kind is None:
                return None
            stat = kind
        le = None
        if stat == "bucket":
            le = bound_of(labels.get("le"))
            if le is None:
                return _unreadable(left_out, metric, "le", labels.get("le"), wanted="number")
            le *= rule.scale
        state = None
        if rule.state_label is not None:
            state = state_of(labels.get(rule.state_label, ""))
            if state is None:
                return _unreadable(left_out, metric, rule.state_label, labels.get(rule.state_label), wanted="state")
        if signal == "time_lag" and rule.quality is Quality.PROXY:
            stat = ESTIMATE
        # A count is a number of observations, whatever their unit.
        scale = 1.0 if stat in ("bucket", "count", "batch") else rule.scale
        by_presence = rule.state_label in rule.passing
        generation = self._generation[name]
        return Meaning(
            signal, canonical, stat, le, scale, state, generation, rule.plus, by_presence, rule.counted_twice
        )


def _unreadable(left_out: LeftOut | None, metric: str, label: str, value: str | None, *, wanted: str) -> Meaning | None:
    if left_out is not None:
        left_out.add(metric, label, value, wanted=wanted)
    return None


def parse_profile(text: str, *, name: str) -> Profile:
    """Read a profile from YAML.

    Raises:
        ConfigError: naming the wrong field.
    """
    try:
        values = yaml.safe_load(text) or {}
        if not isinstance(values, dict):
            raise TypeError("it is not a mapping with title and signals")
        return Profile.model_validate({"title": name, **values, "name": name})
    except (
        ValueError,
        yaml.YAMLError,
        TypeError,
        RecursionError,
    ) as error:  # the loader raises other errors for dates and deep nesting
        reason = first_problem(error) if isinstance(error, ValidationError) else error
        raise ConfigError(f"The profile {name!r} cannot be used: {reason}.") from None


def is_path(name: str) -> bool:
    """Whether a name in the settings is the path of a profile of one's own."""
    return name.endswith((".yaml", ".yml"))


def name_of(name: str) -> str:
    """Name of a profile that the settings give by name or by path; this one goes into captures and reports."""
    return Path(name).stem if is_path(name) else name


def load_profile(name: str) -> Profile:
    """Load a profile: one that ships with the package, one of `profiles/` beside the user's settings, or a file.

    Args:
        name: name of the profile, or path of its file.

    Raises:
        ConfigError: if there is no such profile, if the file cannot be read, or if it has the name of one that ships.
    """
    if is_path(name):
        return _of_file(Path(name).expanduser())
    own = own_profiles().get(name)
    if own is not None:
        return _of_file(own)
    return _shipped(name)


@cache
def _shipped(name: str) -> Profile:
    source = resources.files(__package__) / f"{name}.yaml"
    if not name.replace("_", "").isalnum() or not source.is_file():
        own = own_profiles()
        where = f" Your own, in {profiles_dir()}: {', '.join(own)}." if own else f" Your own go to {profiles_dir()}."
        means = did_you_mean(name, profile_names())
        raise ConfigError(
            f"There is no profile {name!r}.{means}", hint=f"List them with: workbench profiles list.{where}"
        )
    return parse_profile(source.read_text(encoding="utf-8"), name=name)


def _of_file(path: Path) -> Profile:
    """Read at every call, and parsed once for each content: notebooks edit profiles while they run."""
    if path.stem in profile_names():
        raise ConfigError(
            f"The profile {path} has the name of one that ships with Workbench.",
            hint="Rename the file: the name tells in reports where a number comes from.",
        )
    try:
        text = read_within(path, _PROFILE_BYTES).decode()
    except OSError as error:
        raise ConfigError(f"The profile {path} cannot be read: {error.strerror or type(error).__name__}.") from None
    except UnicodeDecodeError:
        raise ConfigError(f"The profile {path} cannot be read: it is not UTF-8.") from None
    try:
        return _parsed(text, path.stem)
    except ConfigError as error:
        raise ConfigError(error.message.replace(repr(path.stem), str(path), 1), hint=error.hint) from None


@lru_cache(maxsize=256)
def _parsed(text: str, name: str) -> Profile:
    return parse_profile(text, name=name)


@cache
def profile_names() -> tuple[str, ...]:
    """Names of the profiles that ship with the package."""
    return tuple(
        sorted(
            item.name.removesuffix(".yaml")
            for item in resources.files(__package__).iterdir()
            if item.name.endswith(".yaml")
        )
    )


def own_profiles() -> dict[str, Path]:
    """Name to file of the profiles in `profiles/` beside the user's settings."""
    return {path.stem: path for path in sorted(profiles_dir().glob("*.yaml"))}


def known_profiles(names: Iterable[str] = ()) -> list[Profile]:
    """All profiles: those that ship, the user's own, and these (names or paths), each once.

    Raises:
        ConfigError: if one of them cannot be used.
    """
    wanted = dict.fromkeys([*profile_names(), *own_profiles(), *names])
    found = {profile.name: profile for profile in map(load_profile, wanted)}
    return list(found.values())


def system_among(profiles: Sequence[Profile]) -> str:
    """The queue that these profiles are about: Kafka, if none says another one."""
    return next((it.system for it in profiles if it.system != "kafka"), "kafka")


def lag_arrives_late(profiles: Sequence[Profile]) -> float:
    """Seconds by which the values of the lag are old when they arrive: 0 where one of the sources has them at once."""
    return min((it.late_seconds for it in profiles if "consumer_lag" in it.signals), default=0.0)


def why_absent(signal: str, profiles: Sequence[Profile]) -> str | None:
    """Why the exporters of these profiles do not have a signal, if one of the profiles knows."""
    return next((f"{it.title}: {it.absent[signal]}" for it in profiles if signal in it.absent), None)

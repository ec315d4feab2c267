"""Rules of a profile: which metric is which signal, and how its series are read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from workbench.profiles import labels_in_metric_names
from workbench.samples import LABEL_COLUMNS
from workbench.signals import SIGNALS, Kind, ProcessingOutcome

_FIRST = r"\1"
# What an exporter counts of attempts whatever their outcome: without those that it tells, they are ok.
EVERY_OUTCOME = "all"
_PLACE = re.compile(r"\{([a-zA-Z_][a-zA-Z0-9_]*)\}")
# Signals that may come as several metrics, and what each of these may be.
_IN_PARTS: dict[str, tuple[str, ...]] = {
    "process_time": ("mean", "batch", "count"),
    "processed": (*map(str, ProcessingOutcome), EVERY_OUTCOME),
}


class Quality(StrEnum):
    """How well a metric represents a signal."""

    EXACT = "exact"
    PROXY = "proxy"
    ABSENT = "absent"


def _places_apart(name: str) -> str:
    found = labels_in_metric_names.places(name)
    if len(found) > labels_in_metric_names.MOST_PLACES or len(set(found)) < len(found):
        raise ValueError(f"{name!r} has a place twice, or more than {labels_in_metric_names.MOST_PLACES}")
    return name


MetricName = Annotated[str, Field(pattern=labels_in_metric_names.PATTERN), AfterValidator(_places_apart)]


Part = Literal["mean", "batch", "count", "ok", "retry", "failed", "timeout", "dead", "skip", "all"]


class MappingRule(BaseModel):
    """Source of one signal.

    Attributes:
        metric: the metric's name; for a histogram without its `_bucket`, `_sum` and `_count`. A name in braces in it, as in
            "latency_for_broker_{broker}", is a label that the metric's name carries.
        also: names of the same metric in other versions of the exporter, tried in this order. They are never added up: of each member,
            the first name with samples counts.
        labels: canonical label to the exporter's label.
        stat_label: an exporter's label whose value becomes `stat` (outcomes).
        scale: factor from the metric's unit to the signal's unit.
        plus: what is added to that: 1, where an offset is that of the last record and not of the next one.
        counted_twice: for a share: the whole by which it is divided has its own part twice. Java's clients tell b / (2b + h) of b
            seconds in polls and h between them, so the share is told / (1 - told), and a client that only polls tells 0.5.
        constants: canonical labels with a fixed value, where the exporter has no label for them, or one made of its labels, such as
            "%DLQ%{group}".
        where: label to a pattern that it must match in full, if it exists (one metric name may have several meanings: the first rule
            of the profile whose pattern matches counts).
        only_with: labels without which a series is not meant: an exporter may write a count and its percentiles under one name.
        state_label: for a group's state, the label with its name; the series whose value is not 0 counts, or, if `passing` has the
            label, the one that began last, whatever its value.
        parts: for a duration without a histogram, the metrics that tell it: `mean` of a call lately, `batch` (mean records in a call;
            without it, one), `count` (of records, a counter); for outcomes, the metric of each, or `all` of them beside those that are
            not ok. Of several names, the exporter has one.
        per_second: the counts are told as rates, and are added up over the time between two samples.
        passing: labels that change with what the metric describes. The series that began last counts; an exporter may show the one
            before for a while.
        beside: rules for more series of the signal, which have another name and other labels.
        kinds: for a signal that the exporter tells by a metric for each kind, kind (`stat`) to the metric's name, instead of `metric`.
        stats: pattern to kind, for the values of `stat_label`: the first one that matches in full counts, `\\1` is its first group, and
            a value that matches none is not meant.
    """

    model_config = ConfigDict(hide_input_in_errors=True, extra="forbid", frozen=True)

    metric: MetricName
    also: tuple[MetricName, ...] = ()
    labels: dict[str, str]
    constants: dict[str, str] = {}
    where: dict[str, str] = {}
    only_with: tuple[str, ...] = ()
    state_label: str | None = None
    stat_label: str | None = None
    parts: dict[Part, tuple[MetricName, ...]] = {}
    kinds: dict[str, MetricName] = {}
    stats: dict[str, str] = {}
    per_second: bool = False
    passing: tuple[str, ...] = ()
    beside: tuple[MappingRule, ...] = ()
    scale: float = 1.0
    plus: float = 0.0
    counted_twice: bool = False
    quality: Quality = Quality.EXACT
    note: str = ""

    @model_validator(mode="before")
    @classmethod
    def _first_of_kinds(cls, values: Any) -> Any:
        kinds = values.get("kinds") if isinstance(values, dict) else None
        return {"metric": next(iter(kinds.values())), **values} if isinstance(kinds, dict) and kinds else values

    @field_validator("where", "stats")
    @classmethod
    def _patterns(cls, value: dict[str, str], info: ValidationInfo) -> dict[str, str]:
        for pattern, kind in value.items() if info.field_name == "stats" else ((it, "") for it in value.values()):
            try:
                groups = re.compile(pattern).groups
            except (re.error, RecursionError) as error:
                raise ValueError(f"{pattern!r} is not a valid pattern: {error}") from None
            if _FIRST in kind and not groups:
                raise ValueError(f"{pattern!r} has no group for {_FIRST}")
        return value

    @model_validator(mode="after")
    def _known_labels(self) -> MappingRule:
        if unknown := (self.labels.keys() | self.constants.keys()) - set(LABEL_COLUMNS):
            raise ValueError(f"{sorted(unknown)[0]!r} is not a canonical label (use: {', '.join(LABEL_COLUMNS)})")
        return self

    @field_validator("parts", mode="before")
    @classmethod
    def _one_name_each(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {name: (metrics,) if isinstance(metrics, str) else metrics for name, metrics in value.items()}

    @model_validator(mode="after")
    def _named_once(self) -> MappingRule:
        if (self.parts or self.kinds) and self.also:
            raise ValueError("parts and kinds list the names themselves, so there is no also")
        if self.kinds and (self.parts or self.stat_label):
            raise ValueError("kinds names the kind of each metric, so there are no parts and no stat_label")
        if self.stats and self.stat_label is None:
            raise ValueError("stats needs the stat_label whose values it reads")
        return self

    def check_parts(self, signal: str) -> None:
        """Refuse parts, rates and shares that a signal cannot have.

        Raises:
            ValueError: saying which.
        """
        if self.per_second and SIGNALS[signal].kind is Kind.GAUGE:
            raise ValueError(f"{signal!r} counts nothing, so it is not told per second")
        if self.counted_twice and SIGNALS[signal].unit != "ratio":
            raise ValueError(f"{signal!r} is no share, so no part of it is counted twice")
        if not self.parts:
            return
        if signal not in _IN_PARTS:
            raise ValueError(f"{signal!r} cannot be read in parts; {' and '.join(_IN_PARTS)} can")
        if odd := sorted(self.parts.keys() - set(_IN_PARTS[signal])):
            raise ValueError(f"{odd[0]!r} is no part of {signal!r} (use: {', '.join(_IN_PARTS[signal])})")
        if signal == "process_time" and not {"mean", "count"} <= self.parts.keys():
            raise ValueError("parts needs a mean and a count: a mean of how many records, nobody knows")

    def each(self) -> tuple[MappingRule, ...]:
        """This rule, and those beside it."""
        return (self, *self.beside)

    @property
    def used(self) -> frozenset[str]:
        """The exporter's labels that have a meaning."""
        made = {name for text in self.constants.values() for name in _PLACE.findall(text)}
        return frozenset({*self.labels.values(), *made, *filter(None, (self.stat_label, self.state_label))})

    @property
    def metrics(self) -> tuple[str, ...]:
        """Every name of the metric, the preferred one first."""
        return (self.metric, *self.also)

    def is_about(self, labels: Mapping[str, str]) -> bool:
        """Whether a series with these labels is meant."""
        if not (self.only_with or self.where):
            return True
        if not labels.keys() >= set(self.only_with):
            return False
        return all(name not in labels or re.fullmatch(it, labels[name]) for name, it in self.where.items())

    def kind_of(self, value: str) -> str | None:
        """Kind that a value of `stat_label` means; None if it is not meant."""
        if not self.stats:
            return value
        for pattern, kind in self.stats.items():
            if found := re.fullmatch(pattern, value):
                return kind.replace(_FIRST, found[1] or "") if _FIRST in kind else kind
        return None

    def asked_by(self, canonical: str, name: str) -> str | None:
        """The exporter's label for a canonical one, if a server can be asked by it: what a name carries is no label there."""
        theirs = self.labels.get(canonical)
        return None if theirs in labels_in_metric_names.places(name) else theirs

    def exported(self, kind: Kind) -> list[tuple[str, str, int]]:
        """Names of the exported series: (name, stat, place of the metric's name in its list)."""
        if self.parts:
            return [(name, part, 0) for part, names in self.parts.items() for name in names]
        if self.kinds:
            return [(name, stat, 0) for stat, name in self.kinds.items()]
        if kind is Kind.HISTOGRAM:
            ends = ("bucket", "sum", "count")
            return [(f"{it}_{end}", end, place) for place, it in enumerate(self.metrics) for end in ends]
        return [(it, "value", place) for place, it in enumerate(self.metrics)]


def filled(form: str, labels: Mapping[str, str], otherwise: str | None = None) -> str:
    """A text with the exporter's labels in its places, such as "{thread_id}-consumer"; a label that is not there is empty.

    With `otherwise`, this is the text of labels that lack one.
    """
    if otherwise is not None and not labels.keys() >= set(_PLACE.findall(form)):
        return otherwise
    return _PLACE.sub(lambda place: labels.get(place[1], ""), form)


def first_of_form(form: str, text: str) -> str:
    """What the first place of a form has in a text; all of a text that has not this form. What may be of several is the first one's."""
    parts = _PLACE.split(form)
    pattern = "".join("(.*)" if at % 2 else re.escape(part) for at, part in enumerate(parts))
    found = re.fullmatch(pattern, text)
    return found[1] if found else text

"""Finding: the verdict about one subscription, with the path through the tree and the evidence of each step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from datetime import datetime
from typing import Any

from workbench.features.subscription_measurements import OldestMessage
from workbench.humanize import count, counted, duration, moment, plural, rate, size
from workbench.judgement_numbers import LESS, MORE
from workbench.triage.outcome_checks import Check
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.verdict_names import Answer, AnyVerdict, State


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One number behind an answer; threshold, baseline and peers are in the same unit.

    Attributes:
        rule: how the threshold comes about, where it is a multiple: "3 × its baseline".
    """

    signal: str
    value: float | None
    unit: str
    threshold: float | None = None
    baseline: float | None = None
    peers: float | None = None
    rule: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A number that the deciding rule compares.

    Attributes:
        name: the feature; `value` and `limit` are in `unit`, and None if not known.
        relation: what has to hold between them for the rule.
        origin: of the limit: a setting, a number with its reason, and what it multiplies.
    """

    name: str
    value: float | None
    unit: str
    relation: str
    limit: float | None
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Because:
    """The rule that decided an answer: its id, its sentence, and what it compares; of an open answer, what would decide."""

    rule: str
    sentence: str
    operands: tuple[Compared, ...]
    look: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PathStep:
    """One question on the path, its answer, that answer in words, the numbers behind it, and the rule that decided."""

    node: str
    question: str
    answer: Answer
    words: str
    evidence: tuple[Evidence, ...]
    because: Because | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLag:
    """Age of the oldest message that is not committed, in seconds, with method and bounds."""

    seconds: float | None
    method: str
    low: float | None = None
    high: float | None = None

    @classmethod
    def of(cls, oldest: OldestMessage | None) -> TimeLag:
        """The time lag of a subscription: that of its oldest message."""
        if oldest is None or oldest.time_lag_seconds is None:
            return cls(seconds=None, method="unknown")
        return cls(
            seconds=oldest.time_lag_seconds,
            method=oldest.time_lag_method or "unknown",
            low=oldest.time_lag_low,
            high=oldest.time_lag_high,
        )

    @property
    def words(self) -> str:
        """The age; where the data do not reach back to the message that waits, "over" their length, or "about" by the traffic since."""
        text = duration(self.seconds)
        if self.method != "extrapolated_capped":
            return text
        return f"about {text}" if self._is_wide else f"over {text}"

    @property
    def how(self) -> str:
        """What the age is taken from, and how far it may be off."""
        if self.method == "extrapolated_capped":
            return (
                f"older than the data read: over {duration(self.low)}" if self._is_wide else "older than the data read"
            )
        words = self.method.replace("_", " ")
        return (
            f"{words}, {duration(self.low)} … {duration(self.high)}"
            if self._is_wide and self.high is not None
            else words
        )

    @property
    def _is_wide(self) -> bool:
        """Whether its bounds are a second apart or more, or what is known of it is less than what is said."""
        until = self.seconds if self.method == "extrapolated_capped" else self.high
        return self.low is not None and until is not None and until - self.low >= 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Partitions, processors, queues, members or brokers that the verdict is about."""

    partitions: tuple[int, ...] = ()
    processors: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    members: tuple[str, ...] = ()
    brokers: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    offset: int | None = None
    cause: str | None = None
    needed: int | None = None
    needed_what: str | None = None  # "threads" or "consumers"

    @property
    def needed_words(self) -> str:
        """What is needed, with its unit: "13 threads"; empty if nothing is."""
        if self.needed is None:
            return ""
        return plural(self.needed, (self.needed_what or "").removesuffix("s")) if self.needed_what else str(self.needed)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag:
    """One partition, with the columns of kafka-consumer-groups; None where a value is not known."""

    partition: int
    committed: int | None
    log_end: int | None
    lag_messages: int | None
    time_lag_seconds: float | None


# So begins why a question is open although its signal is measured.
MEASURED = "It is there, but "


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """A signal that a question needed, and how to get it; `profile` and `metric` say who would read it, from what."""

    signal: str
    how_to_get_it: str
    profile: str | None = None
    metric: str | None = None

    @property
    def is_measured(self) -> bool:
        """Whether it is there, and a question that needs it is open all the same."""
        return self.how_to_get_it.startswith(MEASURED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """An action, its command if it has one, and the check that shows whether it worked."""

    title: str
    command: str | None = None
    verify: str
    # The same for a program: kind, parameters, and the checks behind `verify`.
    kind: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    checks: tuple[Check, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The recorded change nearest before the onset: a correlation.

    Attributes:
        ts: when, ISO 8601.
        kind, text: what.
        seconds_before: how long before the onset.
    """

    ts: str
    kind: str
    text: str
    seconds_before: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StuckRecord:
    """The record at the committed offset of a stuck partition; all texts come from its producer.

    Attributes:
        type: header `event_type`, or name of the value's schema or kind.
        key, value: decoded, with hidden fields replaced; None unless the settings show them (`records.in_findings`).
        problem: why the value could not be decoded; None if it could.
    """

    partition: int
    offset: int
    timestamp_ms: int | None
    type: str
    size_bytes: int
    key: str | None
    value: str | None
    problem: str | None

    @property
    def words(self) -> str:
        """What it is, in a sentence, and its key and value if they may be shown."""
        at = f", of {moment(self.timestamp_ms)}" if self.timestamp_ms is not None else ""
        head = f"Record {self.partition}:{self.offset}: {self.type}, {size(self.size_bytes)}{at}"
        if self.value is None:
            why = f"; cannot be decoded: {self.problem}" if self.problem else ""
            return f"{head}{why}. Key and value are shown with records.in_findings."
        return f"{head}. Key {self.key if self.key is not None else '(none)'}, value {self.value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What one cause explains.

    Attributes:
        cause: the verdict that it would be alone; of a consumer whose own work takes longer, without process times, the likeliest one.
        words: what is measured.
        per_second: messages/s that would be read, too, without it; at most the whole shortfall.
        share: of the whole shortfall, 0 to 1.
    """

    cause: str
    words: str
    per_second: float
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortfall:
    """By how much the lag grows, and why.

    Attributes:
        arriving_per_second, missing_per_second: messages/s that arrive, and that of these are not read.
        parts: the largest first.
    """

    arriving_per_second: float
    missing_per_second: float
    parts: tuple[Part, ...]

    @property
    def words(self) -> str:
        """The whole, in a sentence."""
        return f"Of {rate(self.arriving_per_second)} arriving, {rate(self.missing_per_second)} are not read"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The triage of one subscription.

    Attributes:
        headline: the verdict in one sentence.
        lag_messages: log end minus committed offset, summed over the partitions where both are known.
        eta_drain_seconds: until the lag is 0, at the rate of the window; None: never.
        eta_loss_seconds: until retention deletes what is not committed; None: retention does not move.
        candidates: for `cannot_tell`, the verdicts that are still possible.
        contributing: what is also true, in words.
        owner, own_runbook: whom to ask, and the team's own runbook.
        links: addresses by name (Grafana, logs), from the settings of the group.
        muted: until when and why alarms are paused; it does not count for the exit code then.
        changed: what changed nearest before the onset.
        since: onset, if the data show it.
        sizing: the capacity that is needed, with the calculation.
        kind: of the group (`queues.group_kinds`); None if Kafka was not asked.
        record: at which a partition is stuck; None if it was not read.
        shortfall: how much of what is not read each cause explains; None if the lag does not grow, or nothing explains it.
        not_ruled_out: open questions that what is proven stands over, in sentences.
        also_seen: what open side questions leave possible, and beside a loss or a reset, why the group lags.
        lag_entries: backlog in entries, each a batch of messages, where the queue counts these (Pulsar).
    """

    cluster: str
    group: str
    topic: str
    verdict: AnyVerdict
    state: State
    headline: str
    scope: Scope = Scope()
    time_lag: TimeLag = TimeLag(seconds=None, method="unknown")
    lag_messages: int | None
    arrival_per_second: float | None
    lag_slope: float | None
    eta_drain_seconds: float | None = None
    eta_loss_seconds: float | None = None
    path: tuple[PathStep, ...] = ()
    partitions: tuple[PartitionLag, ...] = ()
    candidates: tuple[AnyVerdict, ...] = ()
    contributing: tuple[str, ...] = ()
    missing: tuple[Missing, ...] = ()
    actions: tuple[Action, ...] = ()
    runbook: str | None = None
    # From the settings of the group.
    owner: str | None = None
    own_runbook: str | None = None
    links: Mapping[str, str] = field(default_factory=dict)
    muted: str | None = None
    changed: Change | None = None
    since: datetime | None = None
    sizing: str | None = None
    kind: str | None = None
    record: StuckRecord | None = None
    shortfall: Shortfall | None = None
    not_ruled_out: tuple[str, ...] = ()
    also_seen: tuple[str, ...] = ()
    lag_entries: int | None = None
    # The features behind it, for checks and for the lab; not part of the JSON.
    features: SubscriptionFeatures = field(repr=False, compare=False)

    @property
    def arriving_lately(self) -> float | None:
        """Messages/s in the last third of the window, where that is clearly not what arrived on average; else None."""
        mean, now = self.arrival_per_second, self.features.arrival_recent_per_second
        if mean is None or now is None or LESS * mean <= now <= MORE * mean:
            return None
        return now

    @property
    def trend(self) -> str:
        """What of the arrivals is not the present, and how the lag changes."""
        lately = f"on average, lately {rate(self.arriving_lately)}; " if self.arriving_lately is not None else ""
        if self.lag_slope is None:
            return f"{lately}trend unknown"
        return f"{lately}lag {'shrinks' if self.lag_slope < 0 else 'grows'} by {rate(abs(self.lag_slope))}"

    @property
    def backlog(self) -> str:
        """How much waits, in messages, or in what the queue counts."""
        return count(self.lag_messages) if self.lag_entries is None else counted(self.lag_entries, "entry", "entries")

    def to_json(self) -> dict[str, Any]:
        """The finding under the contract `workbench.triage/1`."""
        values = {it.name: plain(getattr(self, it.name)) for it in fields(self) if it.name != "features"}
        for name in ("record", "lag_entries"):
            if values[name] is None:
                del values[name]
        for step in values["path"]:
            step["answer"] = str(step["answer"])
        return {
            **values,
            "verdict": str(self.verdict),
            "state": str(self.state),
            "candidates": [str(v) for v in self.candidates],
            "since": self.since.isoformat() if self.since is not None else None,
        }


def plain(value: Any) -> Any:
    """Dataclasses, also in tuples, as plain values."""
    if isinstance(value, tuple):
        return tuple(plain(item) for item in value)
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


def missing_words(missing: Sequence[Missing]) -> list[str]:
    """A line for each missing signal, and for each question that is open although its signals are measured.

    Signals that one profile would read, and whose metrics have no series, share a line.
    """
    lines: dict[str, list[Missing]] = {}
    for it in missing:
        lacking = f"profile {it.profile}" if it.profile else it.signal
        lines.setdefault(it.how_to_get_it if it.is_measured else lacking, []).append(it)
    return [_line(them) for them in lines.values()]


def _line(them: Sequence[Missing]) -> str:
    words = them[0].how_to_get_it
    if them[0].is_measured:
        return f"Open: {words.removeprefix(MEASURED)}"
    return f"Missing: {_shared(them) if len(them) > 1 else f'{them[0].signal}. {words}'}"


def _shared(them: Sequence[Missing]) -> str:
    return (
        f"{', '.join(it.signal for it in them)}. The profile {them[0].profile} reads them from {them[0].metric} and "
        f"{plural(len(them) - 1, 'other metric')}, none of which has a series in this window. Is its target up? "
        "Do these consumers have other metrics? `workbench profiles new` drafts a profile for them"
    )

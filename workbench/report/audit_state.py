"""What an audit says of a period, as a file: for the pages of `serve`, and for alert rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from workbench.errors import UsageError
from workbench.humanize import listed, plural, printable
from workbench.limited_reads import first_problem, read_within
from workbench.report.runs.parameters import file_stem
from workbench.report.runs.run_metrics_file import head_of, labels_of
from workbench.report.runs.run_record import write_durably
from workbench.window import plausible

_STATE, _NUMBERS = "workbench_audit.json", "workbench_audit.prom"
_MOST_BYTES = 64 << 20  # of 4,000 streams with five edges each
STALE_AFTER = 3.0  # of the time between two: the next one failed, and the one after it, too

Answer = TypeVar("Answer", bound=BaseModel)
Count = Annotated[int, Field(ge=0, lt=1 << 63)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Instant = Annotated[AwareDatetime, AfterValidator(plausible)]


class PublishedPart(BaseModel):
    """What a published answer is made of."""

    model_config = ConfigDict(hide_input_in_errors=True, extra="forbid", frozen=True, populate_by_name=True)


class EdgeState(PublishedPart):
    """One edge of a stream: records, and numbers of windows by state. `breach`: what the grade does not allow; null: nothing.

    `layer` null: between two layers. `overdue_seconds`: how long a window waits to be final, by the clock; `late`: records that are
    missing so far in such windows; `unknown`: final windows of which it cannot be told.
    """

    edge: str
    layer: str | None
    sent: Count
    lost: Count
    doubled: Count
    others: Count
    missing_at_most: Count
    open: Count
    provisional: Count
    final: Count
    amended: Count
    unknown: Count
    late: Count
    overdue_seconds: Seconds | None
    breach: str | None

    @property
    def completeness(self) -> str:
        """Share of the records of final windows that surely arrived; never "100 %" when one is missing."""
        if not self.final + self.amended - self.unknown or not self.sent:
            return "unknown"
        if not self.lost:
            return "100 %"
        # Cut off, not rounded.
        return f"{int((self.sent - self.lost) / self.sent * 1_000_000) / 10_000:.4f}".rstrip("0").rstrip(".") + " %"

    @property
    def problems(self) -> list[str]:
        """What is wrong, the worst first."""
        found = [f"{plural(self.lost, 'record')} lost"] if self.lost else []
        found += [f"{plural(self.doubled, 'record')} doubled"] if self.doubled else []
        found += [f"other records than were sent in {plural(self.others, 'window')}"] if self.others else []
        found += [f"{plural(self.unknown, 'window')} cannot be told"] if self.unknown else []
        found += [f"{plural(self.late, 'record')} late"] if self.late else []
        return found


class SilentLayer(PublishedPart):
    """A layer that tells nothing; `seconds`: at least so long. `told`: its latest row that was seen; null: none."""

    layer: str
    told: Instant | None
    seconds: Seconds

    @property
    def words(self) -> str:
        """In a few words."""
        return f"{self.layer} is silent" + ("" if self.told is None else f" (last row {self.told:%Y-%m-%d %H:%M:%S}Z)")


class SlowStream(PublishedPart):
    """99 of 100 records take longer to the last layer than the settings allow; `seconds`: at least."""

    layer: str
    seconds: Seconds
    limit_seconds: Seconds


class StreamState(PublishedPart):
    """One stream, its edges in the order of the layers. `unheard`: edges that no row tells of.

    `slow`, `latency_unknown`: only where the settings limit the time to the last layer; the latter says why it cannot be told.
    """

    stream: str
    grade: str
    edges: tuple[EdgeState, ...]
    unheard: tuple[str, ...]
    silent: tuple[SilentLayer, ...]
    slow: SlowStream | None
    latency_unknown: str | None = None

    @property
    def lost(self) -> int:
        """Records, at least."""
        return sum(it.lost for it in self.edges)

    @property
    def doubled(self) -> int:
        """Records, at least."""
        return sum(it.doubled for it in self.edges)

    @property
    def others(self) -> int:
        """Windows with as many records as were sent, and not the same ones."""
        return sum(it.others for it in self.edges)

    @property
    def is_breach(self) -> bool:
        """Whether its grade does not allow what surely is wrong, or it is too slow."""
        return self.slow is not None or any(it.breach for it in self.edges)

    @property
    def is_open(self) -> bool:
        """Whether something cannot be told: a layer is silent, windows are overdue or inexact, or times are not known."""
        waits = any(it.unknown or it.overdue_seconds is not None for it in self.edges)
        unknown = self.unheard or self.silent or waits or self.latency_unknown
        return bool(unknown or not any(it.final or it.amended for it in self.edges))

    @property
    def is_complete(self) -> bool:
        """Whether everything has surely arrived, in every window that is final."""
        return not (self.is_breach or self.is_open or self.lost or self.doubled or self.others)

    @property
    def words(self) -> str:
        """In a line."""
        worst = sorted(self.edges, key=lambda it: -it.lost - it.doubled)
        found = [f"{listed(it.problems)} at {it.edge}" for it in worst if it.problems]
        found += [f"no row tells of {listed(self.unheard)}"] if self.unheard else []
        found += [it.words for it in self.silent]
        if self.slow is not None:
            found.append(
                f"1 of 100 records takes over {self.slow.seconds:g} s; {self.slow.limit_seconds:g} s are allowed"
            )
        found += [self.latency_unknown.rstrip(".")] if self.latency_unknown else []
        if not found and any(it.overdue_seconds is not None for it in self.edges):
            found.append("windows are not final for long")
        if not found and self.is_open:
            found.append("no window is final yet")
        return "; ".join(found) or "complete"

    @property
    def badness(self) -> tuple[object, ...]:
        """For the order, the worst first."""
        missing = sum(it.missing_at_most for it in self.edges)
        wrong = bool(self.lost or self.doubled or self.others)
        return (not self.is_breach, not wrong, not self.is_open, -self.lost - self.doubled, -missing, self.stream)


class WindowLine(PublishedPart):
    """A window where not everything arrived; numbers are bounds."""

    stream: str
    edge: str
    start: Instant
    state: Literal["open", "provisional", "final", "amended"]
    arrival: str
    lost_low: Count
    lost_high: Count
    doubled_low: Count
    doubled_high: Count


class AuditState(PublishedPart):
    """An audit's answer for a period, worst streams first; of the windows only the worst. `every_seconds`: until the next.

    `reaches_to`: rows before are gone, so nothing is known of a stream that fell silent before; null: of one that fell silent before
    `since`. `named`: words by which commands of `workbench audit` find it: its name in the settings, or options such as `--rows`.
    """

    format: Literal["workbench.audit-state/1"] = Field(default="workbench.audit-state/1", alias="schema")
    audit: str
    named: tuple[str, ...] = ()
    cluster: str | None
    made_at: Instant
    since: Instant
    until: Instant
    reaches_to: Instant | None = None
    window_seconds: Seconds
    every_seconds: Seconds
    streams: tuple[StreamState, ...]
    windows: tuple[WindowLine, ...]

    @property
    def unseen(self) -> str:
        """Which silence nobody can see, in a sentence."""
        at = min(self.since, self.reaches_to) if self.reaches_to is not None else self.since
        return (
            f"Of streams that fell silent before {at:%Y-%m-%d %H:%M:%S}Z nothing is known: there are no rows of then."
        )

    def is_stale(self, now: datetime) -> bool:
        """Whether a newer one should be there long since, or it is of a clock that is as far ahead."""
        return is_old(self.made_at, self.every_seconds, now)


def is_old(made_at: datetime, every_seconds: float, now: datetime) -> bool:
    """Whether an answer is older, or of a clock that is further ahead, than three of its periods."""
    return abs((now - made_at).total_seconds()) > STALE_AFTER * every_seconds


def write_state(folder: Path, state: AuditState) -> Path:
    """Write the answer and its numbers into a folder, instead of those before; return the path of the answer.

    Raises:
        OutputError: if they cannot be written.
    """
    stem = file_stem(state.audit)
    path = folder / f"{stem}.{_STATE}"
    write_durably(path, state.model_dump_json(indent=1, by_alias=True) + "\n")
    write_durably(folder / f"{stem}.{_NUMBERS}", numbers(state))
    return path


def states_in(folder: Path, ending: str = _STATE) -> list[Path]:
    """The answers in a folder, of audits if nothing else is said.

    Raises:
        OSError: if it cannot be read.
    """
    return sorted(path for path in folder.iterdir() if path.name.endswith(f".{ending}") and path.is_file())


def read_answer(path: Path, kind: type[Answer]) -> Answer:
    """Read an answer of a kind.

    Raises:
        UsageError: if it is none.
    """
    try:
        return kind.model_validate_json(read_within(path, _MOST_BYTES))
    except OSError as error:
        raise UsageError(f"{printable(path.name)} cannot be read: {error.strerror}.") from None
    except ValidationError as error:
        raise UsageError(f"{printable(path.name)} is no answer of an audit: {first_problem(error)}.") from None


_AT_EDGE = ("audit", "stream", "edge")
# name, labels, help; all are gauges. What is well has no series but those of the audit itself.
FAMILIES = (
    ("workbench_audit_last_success_timestamp_seconds", ("audit",), "When the audit was last made."),
    ("workbench_audit_every_seconds", ("audit",), "Time until the next one is due."),
    ("workbench_audit_streams", ("audit",), "Number of streams in the period."),
    ("workbench_audit_lost_records", _AT_EDGE, "Records lost in final windows of the period, at least."),
    ("workbench_audit_doubled_records", _AT_EDGE, "Records doubled in final windows of the period, at least."),
    ("workbench_audit_other_windows", _AT_EDGE, "Final windows with as many records as were sent, and others."),
    ("workbench_audit_breach", _AT_EDGE, "1 where the grade of the stream does not allow what was lost or doubled."),
    (
        "workbench_audit_unknown_windows",
        _AT_EDGE,
        "Final windows of which it cannot be told whether everything arrived.",
    ),
    ("workbench_audit_late_records", _AT_EDGE, "Records missing so far in windows that should be final by the clock."),
    ("workbench_audit_overdue_seconds", _AT_EDGE, "How long the oldest window waits to be final, by the clock."),
    ("workbench_audit_unheard", _AT_EDGE, "1 for an edge that no row of the period tells of."),
    ("workbench_audit_silent_seconds", ("audit", "stream", "layer"), "Time without a row of this layer, at least."),
    (
        "workbench_audit_slow_seconds",
        ("audit", "stream", "layer"),
        "Time that 1 of 100 records takes to the last layer, at least, where that is more than the settings allow.",
    ),
)


def numbers(state: AuditState) -> str:
    """The page for node_exporter's textfile collector."""
    audit = state.audit
    series: dict[str, list[tuple[tuple[str, ...], float]]] = {
        "last_success_timestamp_seconds": [((audit,), state.made_at.timestamp())],
        "every_seconds": [((audit,), state.every_seconds)],
        "streams": [((audit,), len(state.streams))],
    }

    def add(name: str, value: float | None, *labels: str) -> None:
        if value:
            series.setdefault(name, []).append(((audit, *labels), value))

    for it in state.streams:
        for edge in it.edges:
            at = (it.stream, edge.edge)
            add("lost_records", edge.lost, *at)
            add("doubled_records", edge.doubled, *at)
            add("other_windows", edge.others, *at)
            add("breach", edge.breach is not None, *at)
            add("unknown_windows", edge.unknown, *at)
            add("late_records", edge.late, *at)
            add("overdue_seconds", edge.overdue_seconds, *at)
        for name in it.unheard:
            add("unheard", True, it.stream, name)
        for silent in it.silent:
            add("silent_seconds", silent.seconds, it.stream, silent.layer)
        if it.slow is not None:
            add("slow_seconds", it.slow.seconds, it.stream, it.slow.layer)
    return page_of(FAMILIES, "workbench_audit_", series)


def page_of(
    families: Iterable[tuple[str, tuple[str, ...], str]],
    prefix: str,
    series: Mapping[str, Sequence[tuple[tuple[str, ...], float]]],
) -> str:
    """The page of these families (name, labels, help), by their series (values of the labels, and value) without the prefix."""
    return "".join(
        f"{line}\n"
        for name, labels, words in families
        for line in _family(name, labels, words, series.get(name.removeprefix(prefix), ()))
    )


def _family(
    name: str, labels: tuple[str, ...], words: str, found: Sequence[tuple[tuple[str, ...], float]]
) -> list[str]:
    lines = [f"{name}{labels_of(labels, values)} {float(value):.15g}" for values, value in found]
    return [*head_of(name, words), *lines] if lines else []

"""What stands before Kafka, for the health report, and as a file for pages and alert rules."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from workbench.history.backlog_before_kafka import HeldBack, LagBeforeKafka
from workbench.history.gateway_breakers import Breaker, BreakerFinding, BreakerState
from workbench.humanize import plural, printable
from workbench.report.audit_state import Count, Instant, PublishedPart, Seconds, is_old, page_of
from workbench.report.runs.parameters import file_stem
from workbench.report.runs.run_record import write_durably

STATE, _NUMBERS = "workbench_upstream.json", "workbench_upstream.prom"
_KINDS = ("429", "disk")

What = Literal["open", "flapping", "both open", "not diverted", "pinned", "429", "disk", "cannot tell"]


class UpstreamLine(PublishedPart):
    """A breaker's fault, records that are held back (429, disk), or what cannot be told; in words, too.

    `process` null: no process tells it. `seconds`: how old what waits is, at least, or how long requests have been refused.
    """

    process: str | None
    what: What
    destination: str | None = None
    since: Instant | None = None
    seconds: Seconds | None = None
    words: str


class BeforeKafka(PublishedPart):
    """How many processes tell of a breaker, and of whether records wait there; and what is wrong or cannot be told, worst first."""

    breakers: Count
    tell_of_waiting: Count
    lines: tuple[UpstreamLine, ...]

    @property
    def is_fault(self) -> bool:
        """Whether a breaker has a fault, or records are held back."""
        return any(it.what != "cannot tell" for it in self.lines)

    @property
    def is_open(self) -> bool:
        """Whether a process tells only a part. That nobody tells one half at all is said, and no doubt: it may not be there."""
        return any(it.what == "cannot tell" and it.process is not None for it in self.lines)

    @property
    def sentence(self) -> str:
        """How many tell, in a line."""
        gates = plural(self.breakers, "gateway tells of its breaker", "gateways tell of their breakers")
        whether = "whether records wait"
        waits = plural(self.tell_of_waiting, f"process tells {whether}", f"processes tell {whether}")
        return f"{gates}, {waits}." + ("" if self.lines else " All is well.")

    def to_json(self) -> dict[str, Any]:
        """As in `workbench.health/1`."""
        return self.model_dump(mode="json")


class UpstreamState(BeforeKafka):
    """What stands before a cluster in a period, and waits at its end; written by a timer. `every_seconds`: until the next."""

    format: Literal["workbench.upstream-state/1"] = Field(default="workbench.upstream-state/1", alias="schema")
    cluster: str
    since: Instant
    until: Instant
    every_seconds: Seconds

    def is_stale(self, now: datetime) -> bool:
        """Whether a newer one should be there long since, or it is of a clock that is as far ahead."""
        return is_old(self.until, self.every_seconds, now)


def before_kafka_of(breakers: Sequence[Breaker], lag: LagBeforeKafka, *, until: datetime) -> BeforeKafka | None:
    """Sum up what a cluster's processes tell at a time; None: nobody tells anything."""
    if not (breakers or lag.told or lag.untold):
        return None
    lines = [_fault(it.gateway, one) for it in breakers for one in it.findings]
    lines += [_held(it, until.timestamp()) for it in lag.held]
    untold = [(it.gateway, " and ".join(it.missing)) for it in breakers if it.missing]
    for name, what in [*untold, *lag.untold]:
        words = f"{printable(name)} does not tell {printable(what)}"
        lines.append(UpstreamLine(process=name, what="cannot tell", words=words))
    if all(it.state is BreakerState.UNKNOWN for it in breakers) and len(untold) < max(1, len(breakers)):
        words = "no gateway tells how its breaker is now" if breakers else "no gateway tells of its breaker"
        lines.append(UpstreamLine(process=None, what="cannot tell", words=words))
    if not lag.told and not lag.untold:
        words = "nothing tells whether records wait before Kafka"
        lines.append(UpstreamLine(process=None, what="cannot tell", words=words))
    return BeforeKafka(breakers=len(breakers), tell_of_waiting=len(lag.told), lines=tuple(lines))


def _fault(gateway: str, it: BreakerFinding) -> UpstreamLine:
    words = f"breaker of {printable(gateway)} {it.words}"
    return UpstreamLine(process=gateway, what=it.fault.value, since=datetime.fromtimestamp(it.since, UTC), words=words)


def _held(it: HeldBack, end: float) -> UpstreamLine:
    at_least = max(0.0, end - it.since) if it.age_low_seconds is None else it.age_low_seconds
    return UpstreamLine(
        process=it.process,
        what="disk" if it.refused is None else "429",
        destination=it.destination,
        since=datetime.fromtimestamp(it.since, UTC),
        seconds=at_least,
        words=it.words,
    )


def write_upstream(folder: Path, state: UpstreamState) -> Path:
    """Write the answer and its numbers into a folder, instead of those before; return the path of the answer.

    Raises:
        OutputError: if they cannot be written.
    """
    path = folder / f"{file_stem(state.cluster)}.{STATE}"
    write_durably(path, state.model_dump_json(indent=1, by_alias=True) + "\n")
    write_durably(path.with_name(f"{file_stem(state.cluster)}.{_NUMBERS}"), numbers(state))
    return path


# name, labels, help; all are gauges. What is well has no series but those of the cluster itself.
FAMILIES = (
    ("workbench_upstream_last_success_timestamp_seconds", ("cluster",), "The end of the last period that was looked at."),
    ("workbench_upstream_every_seconds", ("cluster",), "Time until the next look is due."),
    (
        "workbench_upstream_processes",
        ("cluster", "tell_of"),
        "Processes before Kafka that tell of their breaker, or whether records wait (breaker, waiting).",
    ),
    (
        "workbench_upstream_breaker",
        ("cluster", "process", "fault"),
        "1 for a fault of a gateway's breaker in the period: open, flapping, both open, not diverted, pinned.",
    ),
    (
        "workbench_upstream_held_back_seconds",
        ("cluster", "process", "kind", "destination"),
        "How long records wait before Kafka, at least: refused by 429, or on a disk (kind: 429, disk).",
    ),
    ("workbench_upstream_untold", ("cluster", "process"), "1 for a process that tells only a part of it."),
)  # fmt: skip


def numbers(state: UpstreamState) -> str:
    """The page for node_exporter's textfile collector."""
    here = state.cluster
    found: dict[str, list[tuple[tuple[str, ...], float]]] = {
        "last_success_timestamp_seconds": [((here,), state.until.timestamp())],
        "every_seconds": [((here,), state.every_seconds)],
        "processes": [((here, "breaker"), state.breakers), ((here, "waiting"), state.tell_of_waiting)],
    }
    series: dict[tuple[str, tuple[str, ...]], float] = {}  # several findings of one kind are one series
    for it in state.lines:
        if it.process is None:
            continue
        key: tuple[str, tuple[str, ...]] = "breaker", (here, it.process, it.what)
        if it.what in _KINDS:
            key = "held_back_seconds", (here, it.process, it.what, it.destination or "")
        elif it.what == "cannot tell":
            key = "untold", (here, it.process)
        series[key] = max(series.get(key, 0.0), 1.0 if it.seconds is None else it.seconds)
    for (name, labels), value in series.items():
        found.setdefault(name, []).append((labels, value))
    return page_of(FAMILIES, "workbench_upstream_", found)

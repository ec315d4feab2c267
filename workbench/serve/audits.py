"""What the pages show of audits: the answers that `workbench audit publish` has written, and what is to be done."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from workbench.errors import UsageError
from workbench.humanize import printable, shell_word
from workbench.report.audit_state import AuditState, StreamState, read_answer, states_in
from workbench.report.state_before_kafka import STATE, UpstreamLine, UpstreamState


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """The answers of a folder; `problems`: files that cannot be read; `missing`: audits of the settings without an answer.

    `upstream`: what stands before Kafka, of each cluster.
    """

    states: Sequence[AuditState]
    upstream: Sequence[UpstreamState]
    problems: Sequence[str]
    missing: Sequence[str]


@dataclass(slots=True)
class Shelf:
    """A folder of answers. A file is read again when it is another one.

    Attributes:
        expected: audits of the settings.
    """

    folder: Path
    expected: Sequence[str] = ()
    _read: dict[Path, tuple[tuple[int, int, int], AuditState | UpstreamState | str]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def listed(self) -> Published:
        """All of them, by name."""
        with self._lock:
            try:
                found = [self._one(path, AuditState) for path in states_in(self.folder)]
                found += [self._one(path, UpstreamState) for path in states_in(self.folder, STATE)]
            except OSError as error:
                found = [f"The folder {printable(self.folder)} cannot be read: {error.strerror}."]
        states = [it for it in found if isinstance(it, AuditState)]
        known = {it.audit for it in states}
        return Published(
            states=sorted(states, key=lambda it: it.audit),
            upstream=sorted((it for it in found if isinstance(it, UpstreamState)), key=lambda it: it.cluster),
            problems=[it for it in found if isinstance(it, str)],
            missing=[it for it in self.expected if it not in known],
        )

    def _one(self, path: Path, kind: type[AuditState | UpstreamState]) -> AuditState | UpstreamState | str:
        try:
            told = path.stat()
        except OSError:  # removed since it was listed
            return f"{printable(path.name)} is gone."
        mark = told.st_ino, told.st_mtime_ns, told.st_size
        if (kept := self._read.get(path)) is None or kept[0] != mark:
            try:
                found: AuditState | UpstreamState | str = read_answer(path, kind)
            except UsageError as error:
                found = error.message
            kept = self._read[path] = mark, found
        return kept[1]


def mark_of(stream: StreamState) -> tuple[str, str]:
    """A stream's state as a page's class, and in a word."""
    if stream.is_breach:
        return "lagging", "breach"
    if stream.is_open:
        return "cannot_tell", "cannot tell"
    return ("healthy", "complete") if stream.is_complete else ("draining", "allowed")


def runbooks_of(stream: StreamState) -> list[str]:
    """Runbooks for what is wrong with a stream, the most urgent first."""
    edges = stream.edges
    wanted = {
        "AuditLoss": any(it.lost or it.others for it in edges),
        "AuditDoubled": any(it.doubled for it in edges),
        "AuditSilent": bool(stream.silent or stream.unheard),
        "AuditLate": stream.slow is not None or any(it.late for it in edges),
        "AuditNotFinal": any(it.unknown or it.overdue_seconds is not None for it in edges),
    }
    return [name for name, is_so in wanted.items() if is_so]


def mark_before_kafka(line: UpstreamLine) -> tuple[str, str, str]:
    """What stands before Kafka as a page's class, in a word, and the runbook for it."""
    if line.what in ("both open", "not diverted"):
        return "lagging", line.what, "BreakerBothOpen"
    if line.what in ("429", "disk"):
        return "lagging", "held back", "HeldBeforeKafka"
    if line.what == "cannot tell":
        return "cannot_tell", line.what, "HeldBeforeKafka"
    return "lagging", line.what, "BreakerOpen"


def commands(state: AuditState, stream: StreamState) -> list[tuple[str, str]]:
    """(what it does, command): look, name what is missing, plan a replay of it, and ask the gate."""
    audit = " ".join(map(shell_word, state.named or (state.audit,)))
    name = shell_word(stream.stream)
    since, until = _word(state.since), _word(state.until)
    found = [("Windows", f"workbench audit show {audit} --stream {name}")]
    cluster = shell_word(state.cluster) if state.cluster else "CLUSTER"
    for it in stream.edges:
        # Between two layers nobody has taken the records in: there is no position to read again.
        if it.layer is not None and (it.lost or it.others or it.unknown):
            layer, again = shell_word(it.layer), shell_word(f"{it.layer}-repair")
            missing = f"workbench audit missing {audit} --stream {name} --layer {layer} --since {since} --until {until} -o missing.json"
            found.append((f"Missing at {printable(it.layer)}", missing))
            plan = f"workbench replay plan --cluster {cluster} --from-group {layer} --new-group {again} --from-audit missing.json"
            found.append(("Replay of it", f"{plan} -o plan.json"))
    found.append(("Gate", f"workbench audit gate {audit} --stream {name} --since {since} --until {until}"))
    return found


def _word(at: datetime) -> str:
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")

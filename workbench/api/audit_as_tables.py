"""An audit in a notebook: its answer as tables, and its windows as a view for SQL."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.api.audit_of_period import audited
from workbench.errors import UsageError
from workbench.humanize import did_you_mean, printable

if TYPE_CHECKING:
    from workbench.api.audits import AuditLedger
    from workbench.report.audit_state import AuditState

VIEW = "windows"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedAudit:
    """An audit and what it says of a period.

    Attributes:
        ledger: every window; `ledger.frame` is also the SQL view `windows`.
        state: the answer, worst streams first.
    """

    ledger: AuditLedger
    state: AuditState

    def streams(self) -> Any:
        """A pandas table of the streams, worst first."""
        return _table(
            {"stream": it.stream, "grade": it.grade, "breach": it.is_breach, "lost": it.lost, "doubled": it.doubled, "what": it.words}
            for it in self.state.streams
        )  # fmt: skip

    def edges(self, stream: str = "") -> Any:
        """A pandas table of a stream's edges, in the order of the layers; empty: of the worst stream.

        Raises:
            UsageError: if there is no such stream.
        """
        return _table(
            {"edge": it.edge, "arrived": it.completeness, **it.model_dump(exclude={"edge", "layer"})}
            for it in self._of(stream).edges
        )

    def worst(self) -> Any:
        """A pandas table of the windows where not everything arrived, worst first."""
        return _table(it.model_dump() for it in self.state.windows)

    def gate(self, stream: str = "") -> Any:
        """May a job begin with the period of a stream (empty: the worst)? A pandas table.

        Raises:
            UsageError: if there is no such stream.
        """
        from workbench.window import instant_ms

        since, until = (instant_ms(it) for it in (self.state.since, self.state.until))
        name = self._of(stream).stream
        found = self.ledger.gate(name, since_ms=since, until_ms=until)
        return _table({"stream": name, "gate": str(found.passage), "reason": it} for it in found.reasons or ("",))

    def _of(self, stream: str) -> Any:
        found = [it for it in self.state.streams if not stream or it.stream == stream]
        if not found:
            known = [it.stream for it in self.state.streams]
            raise UsageError(f"The audit has no stream {stream!r}.", hint=did_you_mean(stream, known))
        return found[0]


def open_audit(
    audit: str = "", *, rows: str = "", layers: str = "", lateness: str = "", since: str = "6h", until: str = ""
) -> OpenedAudit:
    """Make an audit for a notebook, and register its windows of the period as the SQL view `windows`.

    Args:
        audit: of the settings; empty: `rows` (a file or folder) with `layers`, separated by commas.

    Raises:
        WorkbenchError: as `workbench.api.audit_state`.
    """
    given: dict[str, Any] = (
        {} if audit else {"rows": Path(rows), "layers": tuple(it.strip() for it in layers.split(","))}
    )
    ledger, state = audited(
        audit or None, since=since, until=until or "now", every="15m", lateness=lateness or None, **given
    )
    ledger.frame.createOrReplaceTempView(VIEW)
    return OpenedAudit(ledger=ledger, state=state)


def _table(rows: Any) -> Any:
    """Names from outside are shown with their control characters escaped."""
    from pandas import DataFrame  # type: ignore[import-untyped]

    return DataFrame([{name: printable(it) if isinstance(it, str) else it for name, it in row.items()} for row in rows])

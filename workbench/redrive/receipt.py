"""Outcome of a run of a redrive, in words and as a file next to the plan."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from workbench.errors import OutputError, UsageError
from workbench.humanize import duration, listed, plural, size
from workbench.plans.strict_document import write_file
from workbench.redrive.commit_marks import Place
from workbench.redrive.guard import RedriveNow
from workbench.redrive.plan import bytes_per_broker_of, seconds_of
from workbench.redrive.planfile import RedrivePlan

_MOST_NAMED = 1000


class RedriveOutcome(StrEnum):
    """Result of a run."""

    DONE = "done"
    PARTIAL = "partial"  # done, but for letters that the target refuses: they are named
    DRY_RUN = "dry_run"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class RedriveReceipt:
    """What a run has done.

    Attributes:
        produced: records of this run; letters: of the plan.
        resumed: whether an earlier run had begun.
        before: letters that earlier runs have produced.
        refused: letters that the target refuses, as partition:offset, with Kafka's name of the error. They were left out.
        seconds: of producing.
        notes: of a dry run: duration at the cap, and the bytes of each broker.
    """

    plan: str
    outcome: RedriveOutcome
    letters: int
    produced: int = 0
    resumed: bool = False
    before: int = 0
    refused: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    reasons: list[str] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def sentence(self) -> str:
        """The outcome in words."""
        if self.outcome is RedriveOutcome.REFUSED:
            earlier = f" Earlier runs have produced {plural(self.before, 'record')}." if self.before else ""
            return f"Refused: this run has produced nothing.{earlier}"
        if self.outcome is RedriveOutcome.DRY_RUN:
            return f"All safety checks passed for {plural(self.letters, 'letter')}."
        made = f"{plural(self.produced, 'record')} produced in {duration(self.seconds)}"
        if self.refused:
            return f"Done, but {refused_words(self.refused)} {made}."
        whole = f"; with the earlier runs all {self.letters:,}." if self.resumed else "."
        return f"Done: {made}{whole}"

    def document(self) -> dict[str, Any]:
        """As plain values."""
        names = ("plan", "letters", "produced", "resumed", "before", "seconds", "reasons", "hints", "notes")
        refused = {"refused": dict(list(self.refused.items())[:_MOST_NAMED]), "refused_count": len(self.refused)}
        head = {"schema": "workbench.redrive-receipt/1", "outcome": self.outcome.value}
        return {**head, **{name: getattr(self, name) for name in names}, **refused}


def redrive_receipt_path(plan: Path) -> Path:
    """File of the receipt, next to the plan."""
    return plan.with_suffix(".receipt.json")


def refused_words(refused: Mapping[str, str]) -> str:
    """Which letters are left out, and why; places as of `places_of`."""
    names = listed([f"{place} ({code})" for place, code in refused.items()])
    left = plural(len(refused), "letter is", "letters are")
    return f"{left} left out, because the target refuses {'it' if len(refused) == 1 else 'them'}: {names}."


def places_of(refused: Mapping[Place, str]) -> dict[str, str]:
    """Refused letters as partition:offset, with Kafka's name of the error."""
    return {f"{number}:{offset}": code for (number, offset), code in sorted(refused.items())}


def keep_receipt(path: Path, receipt: RedriveReceipt) -> None:
    """Write the receipt next to the plan. One that says what was produced is not replaced by one of a run that produced nothing.

    Raises:
        OutputError: if it cannot be written; it says what the run has done.
    """
    place = redrive_receipt_path(path)
    if not receipt.produced and _produced(place):
        return
    try:
        write_file(place, receipt.document())
    except UsageError as error:
        raise OutputError(
            f"{receipt.sentence} But the receipt could not be written: {error.message}",
            hint="Free some disk space and apply again: that reads from Kafka what was produced, and writes the receipt.",
        ) from None


def _produced(place: Path) -> bool:
    try:
        return bool(json.loads(place.read_bytes())["produced"])
    except (OSError, ValueError, KeyError, TypeError):
        return False


def load_of(plan: RedrivePlan, now: RedriveNow) -> list[str]:
    """Notes of a dry run: duration at the cap, bytes of each broker, quotas, and who gets the records."""
    needed = seconds_of(plan)
    found = (
        [f"At the cap it takes {duration(needed)}."]
        if needed is not None
        else ["No cap: as fast as the brokers take it."]
    )
    loads = bytes_per_broker_of(plan, now.cluster)
    for broker, (read, write) in loads.items():
        found.append(f"Broker {broker}: about {size(read)} to read, {size(write)} to write.")
    found += [now.untold] if now.untold is not None else []
    if (quotas := now.quotas) is None:
        return [*now.audience, *found, "Quotas of this user: unknown."]
    for limit, most, what in (
        (quotas.consumer_bytes, max((it[0] for it in loads.values()), default=0), "read"),
        (quotas.producer_bytes, max((it[1] for it in loads.values()), default=0), "write"),
    ):
        if limit:
            # A quota counts bytes as they are sent, and the plan knows records as they are written.
            found.append(
                f"Quota of {quotas.user} to {what}: {size(limit)}/s for each broker, so it takes about {duration(most / limit)}, and"
                " less where records are compressed."
            )
    if not quotas.consumer_bytes and not quotas.producer_bytes:
        found.append(f"Quotas of {quotas.user}: none.")
    return [*now.audience, *found]

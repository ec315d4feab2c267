"""Redrives as HTML for a notebook; texts of brokers are escaped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.api.plan_view import rendered

if TYPE_CHECKING:
    from workbench.redrive.apply import RedriveReceipt
    from workbench.redrive.verify import RedriveCheck


def redrive_receipt_html(receipt: RedriveReceipt) -> str:
    """Receipt: outcome, reasons, and what to do."""
    return rendered(
        "receipt.html.j2",
        sentence=receipt.sentence,
        colour="lagging" if receipt.outcome.value == "refused" else "healthy",
        lines=[*receipt.reasons, *receipt.notes],
        rows=[],
        notes=receipt.hints,
    )


def check_html(found: RedriveCheck) -> str:
    """Verification: the verdict, and what speaks against it."""
    head, *lines = found.sentences()
    colours = {"verified": "healthy", "incomplete": "lagging"}
    colour = colours.get(found.verdict.value, "cannot_tell")
    return rendered("receipt.html.j2", sentence=head, colour=colour, lines=lines, rows=[], notes=[])

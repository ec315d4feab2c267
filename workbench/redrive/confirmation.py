"""What is typed before letters are produced again, discarded or given up."""

from __future__ import annotations

from workbench.plans.confirm import Confirmation


def of_letters(plan_hash: str, topic: str, letters: int) -> Confirmation:
    """Of a redrive, or of giving it up."""
    return Confirmation(
        hash=plan_hash, name=topic, number=letters, asked="the dead-letter topic and the number of letters"
    )

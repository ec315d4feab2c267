"""Actions of the dead-letter panel's buttons, in the panel's worker thread: list, plan, apply, verify; all through `workbench.api`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.api.letter_redrives import (
    LetterTopics,
    PlannedRedrive,
    apply_redrive,
    dead_letters,
    plan_redrive,
    verify_redrive,
)
from workbench.errors import UsageError
from workbench.plans.confirm import Confirmation
from workbench.widgets.panel_work import PanelWork
from workbench.widgets.prefill import LettersWish

if TYPE_CHECKING:
    from workbench.redrive.apply import RedriveReceipt
    from workbench.redrive.verify import RedriveCheck

LIST_STEPS, PLAN_STEPS, APPLY_STEPS, VERIFY_STEPS = 1, 2, 1, 1


@dataclass(frozen=True, slots=True)
class Doors:
    """What the buttons call; tests replace it."""

    topics: Callable[..., LetterTopics] = dead_letters
    plan: Callable[..., PlannedRedrive] = plan_redrive
    apply: Callable[..., RedriveReceipt] = apply_redrive
    verify: Callable[..., RedriveCheck] = verify_redrive


DOORS = Doors()


def list_them(wish: LettersWish, work: PanelWork, *, doors: Doors = DOORS) -> LetterTopics:
    """Topics with dead letters. Changes nothing, and joins no group.

    Raises:
        WorkbenchError: as `api.dead_letters`.
    """
    _require(wish.cluster, "cluster")
    work.step(f"Looking for dead letters on {wish.cluster}")
    return doors.topics(cluster=wish.cluster)


def plan_it(wish: LettersWish, work: PanelWork, *, doors: Doors = DOORS) -> tuple[PlannedRedrive, Path]:
    """Plan which letters are produced again, and write the plan to its file. Changes nothing on the cluster.

    Raises:
        WorkbenchError: as `api.plan_redrive`; UsageError, too, if an input is missing or no number.
    """
    _require(wish.cluster, "cluster")
    _require(wish.topic, "topic of dead letters")
    most, cap = _number(wish.most, "letters at most"), _number(wish.cap, "records per second")
    path = _path(wish.file)
    work.step(f"Reading the letters of {wish.topic}")
    found = doors.plan(
        cluster=wish.cluster,
        topic=wish.topic,
        errors=_words(wish.errors),
        sources=_words(wish.sources),
        since=wish.since or None,
        until=wish.until or None,
        most=most,
        to_topic=wish.to_topic or None,
        max_records_per_second=cap,
        reason=wish.reason or None,
    )
    work.step("Writing the plan")
    work.show(lambda: found.write(path))
    return found, path


def apply_it(
    path: Path,
    typed: str | None,
    work: PanelWork,
    *,
    expected: Confirmation | None,
    held: Callable[[], None],
    show: Callable[[int], None],
    doors: Doors = DOORS,
) -> RedriveReceipt:
    """Produce the plan's records, if what was typed is `expected`; with None, only run the safety checks.

    Producing cannot be cancelled. If the kernel ends meanwhile, the same plan goes on where its last transaction ended.

    Args:
        held: called before the first record.
        show: called with the number of records so far.

    Raises:
        WorkbenchError: as `api.apply_redrive`.
    """
    if typed is None:
        work.step("Running the safety checks")
        return doors.apply(path)
    if expected is None:
        raise UsageError("There is no plan.")
    expected.check(typed)
    work.step("Checking, and producing in transactions")
    work.disable_cancel(held)
    return doors.apply(path, confirm=expected.hash, on_progress=lambda produced: work.show(lambda: show(produced)))


def verify_it(path: Path, work: PanelWork, *, doors: Doors = DOORS) -> RedriveCheck:
    """Read the target topics: was each planned letter produced once? Changes nothing.

    Raises:
        WorkbenchError: as `api.verify_redrive`.
    """
    work.step("Reading the target topics")
    return doors.verify(path)


def _require(value: str, name: str) -> None:
    if not value:
        raise UsageError(f"Enter the {name}.")


def _words(text: str) -> list[str]:
    return text.replace(",", " ").split()


def _number(text: str, name: str) -> int | None:
    if not text:
        return None
    if not text.isdecimal() or not 0 < int(text) < 2**53:
        raise UsageError(f"{text!r} is no number of {name}.", hint="A whole number above 0; empty: no limit.")
    return int(text)


def _path(file: str) -> Path:
    """Where the plan is written; a plan's file is never replaced, so that each has its own."""
    path = Path(file or f"redrive-plan-{datetime.now(UTC):%Y%m%d-%H%M%S}.json").expanduser()
    if not path.absolute().parent.is_dir():
        raise UsageError(f"The folder of {path} does not exist.")
    return path

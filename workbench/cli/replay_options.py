"""Common parts of the commands of `workbench replay`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from workbench.cli.hinted_commands import PlanFile
from workbench.errors import UsageError
from workbench.safe_output import ask, say

if TYPE_CHECKING:
    from workbench.plans.confirm import Confirmation
    from workbench.settings import Cluster

F = TypeVar("F", bound=Callable[..., Any])

PLAN_FILE = PlanFile()


def collect_no_garbage() -> None:
    """Until the command has ended: it makes a hundred thousand small objects and keeps them, a quarter of its time (measured).

    Not beyond it: a process that goes on would never let go of Spark's frames, which its handles on them hold in circles.
    """
    import gc

    if gc.isenabled():
        gc.disable()
        click.get_current_context().call_on_close(gc.enable)


def confirm_option(function: F) -> F:
    """`--confirm`."""
    return click.option(
        "--confirm",
        metavar="'NAME NUMBER'",
        help="Name and number, as you are asked for them on a terminal; or the file's hash (8 characters are enough), for scripts.",
    )(function)


def confirmed(
    expected: Confirmation, given: str | None, summary: str, *, show: Callable[[], None] = lambda: None
) -> None:
    """Have a person type name and number, or take them from the option.

    Args:
        show: what the person must read first.

    Raises:
        UsageError: if there is no terminal and no option.
        GuardError: if the answer is wrong.
    """
    if given is None:
        if not sys.stdin.isatty():
            raise UsageError(
                "Without a terminal, a confirmation is required.",
                hint=f"Read what will be changed, then add --confirm with {expected.asked} ('NAME NUMBER'), or with the hash.",
            )
        show()
        say(summary)
        given = ask(f"To continue, type {expected.asked}")
    expected.check(given)


def seconds_of(text: str) -> float:
    """A duration that may be zero.

    Raises:
        WindowError: if it is none.
    """
    from workbench.window import parse_duration

    return 0.0 if text.strip() in ("0", "0s", "0m") else parse_duration(text).total_seconds()


def done_by_its_queue(name: str, *, of: Path | Cluster) -> int | None:
    """Run a command as the queue of a plan does it, with the options that its function takes; None if it is no plan of such a queue.

    Args:
        name: of the function in `cli/replay_<queue>.py`.
        of: the file of the plan, or the cluster.

    Raises:
        UsageError: if an option was given that the function does not take. WorkbenchError: as the function.
    """
    from workbench.plans.strict_document import is_of
    from workbench.queues.systems import SYSTEM_NAMES, own_parts

    for system, own in own_parts("workbench.cli.replay_{}").items():
        if is_of(of, f"workbench.{system}-") if isinstance(of, Path) else of.system == system:
            function = getattr(own, name)
            taken = signature(function).parameters
            context = click.get_current_context()
            for it in context.command.params:
                source = context.get_parameter_source(it.name or "")
                if it.name not in taken and source not in (None, ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP):
                    raise UsageError(
                        f"{it.opts[0]} does not work on a {SYSTEM_NAMES[system]} yet.",
                        hint=f"See docs/{system}.md, Replay.",
                    )
            return int(function(**{it: value for it, value in context.params.items() if it in taken}))
    return None

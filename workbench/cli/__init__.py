"""The `workbench` command: one file per command, loaded when it is called, so that `--help` is instant."""

from __future__ import annotations

import atexit
import errno
import gc
import importlib
import sys
from typing import Any, NoReturn

import click

from workbench import __version__
from workbench.cli.help import Group, with_examples
from workbench.errors import ExitCode, WorkbenchError

__all__ = ["main", "root"]

# Python's 700 means hundreds of searches for cycles while the libraries are imported, whose objects stay anyway.
_OBJECTS_BETWEEN_COLLECTIONS = 50_000

# name → (module, one line for the overview)
_COMMANDS: dict[str, tuple[str, str]] = {
    "audit": ("audit", "Did everything arrive? Lost and doubled records, and a gate."),
    "capture": ("capture", "Save a cluster's measurements of a period as a folder."),
    "demo": ("demo", "Start a real Kafka, cause an incident, and find its cause. About 90 seconds."),
    "dlq": ("dlq", "List, show and redrive dead letters: planned, capped, exactly once, verified."),
    "doctor": ("doctor", "Check this machine, the settings and every cluster in them."),
    "events": ("events", "Record deploys and other changes; findings name the nearest one before an onset."),
    "completion": ("completion", "Print the completion script of a shell: bash, zsh or fish."),
    "export": ("export", "Write a Grafana dashboard, alert rules, or the login for Kafka's own tools."),
    "impact": ("impact", "Who slows whom: a reader that takes so much of a broker that others wait."),
    "init": ("init", "Try the sources of a cluster, and write workbench.toml."),
    "lab": ("lab", "Run a real Kafka and Prometheus on this computer, and cause faults."),
    "mcp": ("mcp", "Give agents triage, snapshots and replay plans, read-only (MCP)."),
    "notebook": ("notebook", "Open JupyterLab on a notebook, with its inputs filled in."),
    "partitions": ("partitions", "Which partitions producers should leave out while they are far behind."),
    "profiles": ("profiles", "List the exporter profiles, or find those that fit a Prometheus."),
    "pulsar": ("pulsar", "Look at a Pulsar: subscriptions, bundles, settings."),
    "replay": ("replay", "Process records again from a point in time, in a new group."),
    "report": ("report", "Run, list and send health reports."),
    "runbooks": ("runbooks", "Show, check or regenerate the runbooks of verdicts and alerts."),
    "runtime": ("runtime", "Run event processors on the runtime, a consumer framework."),
    "schema": ("schema", "Print the JSON Schema of what commands print with --json."),
    "serve": ("serve", "Take alerts, send verdicts, and show pages. Spark stays warm."),
    "settings": ("settings", "Print every key of workbench.toml, with its default and reason."),
    "snapshot": ("snapshot", "Show groups, lag and members from Kafka itself."),
    "tree": ("tree", "Print the questions and rules of the decision tree."),
    "triage": ("triage", "Find out whether consumers lag, and why."),
    "watch": ("watch", "Record a cluster without a Prometheus: metrics pages, groups and offsets."),
}

_NOBODY_READS = 141  # 128 + SIGPIPE, as of every program
# What is told of a file of ours has its name; this is of stdout.
_UNWRITTEN = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG)
_DRESSED: set[int] = set()  # commands that have their examples


class _LazyGroup(Group):
    def list_commands(self, _ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, _ctx: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        module = importlib.import_module(f"workbench.cli.{_COMMANDS[name][0]}")
        command: click.Command = module.command
        if id(command) not in _DRESSED:
            _DRESSED.add(id(command))
            with_examples(command, name)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Click would end with 1 and no word, whatever pipe it is: one to a JVM that has ended is an error of ours."""
        from workbench.safe_output import nobody_reads, reader_has_gone

        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            if not reader_has_gone():
                _crash(error)
            nobody_reads()  # of `| head`: not an error, but no all-clear either
            return _NOBODY_READS

    def summary_of(self, _ctx: click.Context, name: str) -> str:
        return _COMMANDS[name][1]


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Exit codes: 0 healthy or done · 1 internal error · 2 wrong parameter · 3 findings · 4 evidence incomplete · "
    "5 source unreachable · 6 refused by a safety check · 7 deadline exceeded · 8 notebook kernel died · 130 stopped by Ctrl-C.",
)
@click.version_option(__version__, prog_name="workbench")
def root() -> None:
    """Find out why a Kafka consumer group lags, and process records again from a point in time."""


with_examples(root, "")


def main() -> None:
    """Run the command line; every way out has its exit code, and a user's mistake no traceback."""
    from workbench.safe_output import prepare

    prepare()
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    # The interpreter would look for cycles once more at its end, among all that was loaded, for half a second.
    atexit.register(gc.freeze)
    try:
        _run()
    finally:
        _keep_libraries_from_cleaning_up()


def _run() -> None:
    from workbench.safe_output import nobody_reads, write_out

    typed: dict[str, str] = {}
    try:
        code = root.main(prog_name="workbench", standalone_mode=False, obj=typed)
        write_out()  # at the end of Python nobody could say any more that the disk is full
    except WorkbenchError as error:
        from workbench.cli.hinted_commands import filled

        sys.exit(_report(error.message, filled(error.hint, typed) if error.hint else None, error.exit_code))
    except click.exceptions.Exit as leave:
        sys.exit(leave.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        from workbench.safe_output import tell_page

        tell_page(error.format_message())  # a bare `workbench lab` asks what there is
        sys.exit(ExitCode.OK)
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx is not None else "workbench"
        sys.exit(_report(error.format_message(), f"See: {where} --help", ExitCode.USAGE))
    except click.ClickException as error:
        sys.exit(_report(error.format_message(), None, ExitCode.USAGE))
    except (KeyboardInterrupt, click.Abort):
        _stopped()
    except BrokenPipeError:
        nobody_reads()
        sys.exit(_NOBODY_READS)
    except OSError as error:
        if error.errno not in _UNWRITTEN:
            _crash(error)
        nobody_reads()
        hint = "Check the free space, and where the output goes."
        sys.exit(_report(f"The output cannot be written: {error.strerror}.", hint, ExitCode.INTERNAL))
    except Exception as error:
        _crash(error)
    sys.exit(code if isinstance(code, int) else 0)


def _stopped() -> NoReturn:
    from workbench.safe_output import say

    say("Stopped.")
    sys.exit(130)


def _crash(error: Exception) -> NoReturn:
    """Ours: with its traceback, which may quote what a library was given. Unless it is what somebody made of a Ctrl-C on its way."""
    from workbench.safe_output import say_crash

    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, KeyboardInterrupt):
            _stopped()
        cause = cause.__cause__
    say_crash(error)
    hint = "Please report it with the lines above."
    sys.exit(_report(f"Internal error: {type(error).__name__}.", hint, ExitCode.INTERNAL))


def _keep_libraries_from_cleaning_up() -> None:
    """Leave the process as soon as Python has ended, with the same exit code.

    librdkafka's threads live until the process ends. If one of them is within OpenSSL when `exit` of the C library cleans OpenSSL up,
    the process dies of a signal, with all of its output written, and its exit code lost. Arrow waits at its end for object storage that
    does not end an answer.
    """
    if not {"confluent_kafka", "workbench.sweep.s3_objects"} & set(sys.modules):
        return
    import ctypes

    library = ctypes.CDLL(None)
    # What was registered last runs first. `on_exit` is glibc's; others have no function that is told the exit code.
    if hasattr(library, "on_exit"):
        library.on_exit(library._exit, None)


def _report(message: str, hint: str | None, code: int) -> int:
    from workbench.safe_output import say_error

    say_error(message, hint)
    return int(code)

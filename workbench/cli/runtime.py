"""`workbench runtime`: run processors on a cluster, and check their settings."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click
from pydantic import BaseModel

from workbench.cli.help import Group
from workbench.humanize import plural
from workbench.masking import remember
from workbench.safe_output import log_to_stderr, say, tell

if TYPE_CHECKING:
    from workbench.runtime import Runtime


@click.group(name="runtime", cls=Group)
def command() -> None:
    """Run event processors on the runtime, a consumer framework that exports every signal of triage."""


@command.command()
@click.argument("config", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("processors", metavar="MODULE[:NAME]")
@click.option("-v", "--verbose", is_flag=True, help="Write a more detailed log to stderr.")
def run(config: Path, processors: str, verbose: bool) -> None:
    """Consume until SIGTERM or Ctrl-C.

    CONFIG is a TOML file (`[runtime]`, or the whole file); environment variables such as
    WORKBENCH_RUNTIME_GROUP override it. MODULE has functions marked with @processor; or NAME in it is a dict of handlers by event type.
    """
    log_to_stderr(logging.INFO if verbose else logging.WARNING)
    runtime = _made(config, processors)
    runtime.run(started=lambda: say(_first_words(runtime)))


@command.command()
@click.argument("config", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("processors", metavar="MODULE[:NAME]")
def check(config: Path, processors: str) -> None:
    """Check settings and processors against each other. Connects to nothing."""
    from workbench.runtime.config import RuntimeConfig
    from workbench.runtime.group_task import check_handlers
    from workbench.runtime.processor_registry import load

    settings = RuntimeConfig.from_toml(config, environ=os.environ)
    handlers, _ = load(processors)
    check_handlers(handlers, settings)
    for name in sorted(handlers):
        of = settings.processor(name)
        tell(
            f"{name}: {plural(of.threads, 'thread')}, {plural(of.queues or of.threads, 'queue')} of {of.queue_capacity}"
        )


@command.command()
def settings() -> None:
    """List every setting with its unit, default and reason."""
    from workbench.runtime.config import TABLES

    for title, model in TABLES.items():
        tell(title)
        for name, field in model.model_fields.items():
            default = "required" if field.is_required() else field.get_default(call_default_factory=True)
            shown = "" if isinstance(default, BaseModel | dict | None) else f" = {default}"
            tell(f"  {name}{shown if name != 'client_id' else ''}")
            tell(f"      {field.description}")


def _first_words(runtime: Runtime) -> str:
    settings = runtime.config
    address = "{}:{}".format(*runtime.metrics_address) if runtime.metrics_address else "nowhere"
    admin = "on" if settings.admin_token is not None else "off (set admin_token)"
    topics = ", ".join(settings.topics)
    return f"{settings.client_id} reads {topics} as {settings.group}; metrics at http://{address}/metrics, admin API {admin}."


def _made(config: Path, processors: str) -> Runtime:
    from workbench.runtime import Runtime, RuntimeConfig, decode_by_header
    from workbench.runtime.processor_registry import load

    settings = RuntimeConfig.from_toml(config, environ=os.environ)
    remember(*settings.secrets())
    handlers, decode = load(processors)
    return Runtime(settings, handlers, decode=decode or decode_by_header)

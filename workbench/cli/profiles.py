"""`workbench profiles`: which exporters and frameworks are known, and what each can tell."""

from __future__ import annotations

import click

from workbench.cli.options import json_option, print_json
from workbench.errors import ExitCode


@click.group(name="profiles")
def command() -> None:
    """Which exporters and frameworks are known, and what each can tell."""


@command.command(name="list")
@json_option
def list_(as_json: bool) -> int:
    """All profiles, signal by signal: exact, proxy or absent."""
    from workbench.profiles import load_profile, profile_names
    from workbench.signals import SIGNALS

    profiles = [load_profile(name) for name in profile_names()]
    if as_json:
        print_json(
            [
                {
                    "profile": profile.name,
                    "title": profile.title,
                    "signals": {name: str(profile.quality(name)) for name in SIGNALS},
                }
                for profile in profiles
            ]
        )
        return ExitCode.OK
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, header_style="bold")
    table.add_column("signal")
    for profile in profiles:
        table.add_column(profile.name)
    for name in SIGNALS:
        table.add_row(name, *(str(profile.quality(name)).replace("absent", "-") for profile in profiles))
    Console(highlight=False).print(table)
    return ExitCode.OK

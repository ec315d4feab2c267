"""`workbench settings`: every key of workbench.toml with its type, unit, default and reason."""

from __future__ import annotations

import click

from workbench.cli.options import json_option
from workbench.errors import ExitCode, UsageError
from workbench.safe_output import tell_page, write_json


@click.command(name="settings")
@click.argument("name", required=False)
@click.option("--markdown", is_flag=True, help="Print the page docs/settings.md.")
@json_option
def command(name: str | None, markdown: bool, as_json: bool) -> int:
    """Print every key of workbench.toml with its type, unit, default and reason.

    NAME is a part of a key or of its table (slow_ratio, serve.targets): only these. The values of your own file: workbench doctor.
    """
    from workbench.reference.settings_page import as_markdown, as_text, document

    if markdown and (name is not None or as_json):
        raise UsageError("--markdown prints the whole page.", hint="workbench settings --markdown > docs/settings.md")
    if as_json:
        write_json(document(name))
    else:
        tell_page(as_markdown().rstrip("\n") if markdown else as_text(name))
    return ExitCode.OK

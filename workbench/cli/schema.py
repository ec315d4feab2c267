"""`workbench schema`: JSON Schemas of what commands print with `--json`."""

from __future__ import annotations

import click

from workbench.cli.options import json_option
from workbench.errors import ExitCode
from workbench.safe_output import tell_page, write_json


@click.command(name="schema")
@click.argument("name", required=False)
@json_option
def command(name: str | None, as_json: bool) -> int:
    """Print the JSON Schema of a document that commands print with --json, or list all documents.

    NAME is one of the list, such as triage, snapshot or plan.
    """
    from workbench.reference import schemas

    if name is not None:
        write_json(schemas.schema(name))
    elif as_json:
        write_json(schemas.document())
    else:
        tell_page(schemas.as_text())
    return ExitCode.OK

"""`workbench serve`: alerts in, verdicts out, pages and a database."""

from __future__ import annotations

import logging
from pathlib import Path

import click

from workbench.cli.options import FILE, config_option
from workbench.errors import ExitCode
from workbench.safe_output import log_to_stderr, say


@click.command(name="serve")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=8480, show_default=True, type=click.IntRange(1, 65535), help="Port to listen on.")
@click.option("--certificate", type=FILE, help="PEM file of the certificate, for TLS.")
@click.option("--key", type=FILE, help="PEM file of its key.")
@click.option(
    "--token-file",
    type=FILE,
    help="File with the tokens, one on each line. Default: serve.token in the state folder, which is made with a random one. "
    "$WORKBENCH_SERVE_TOKEN is a token, too.",
)
@config_option
def command(
    host: str, port: int, certificate: Path | None, key: Path | None, token_file: Path | None, config: Path | None
) -> int:
    """Take Alertmanager's alerts, find their causes with Spark already warm, and send the verdicts.

    Alerts come in at POST /alerts with a bearer token, and are on the disk when they are acknowledged. Verdicts go to the targets
    of the settings ([[serve.targets]]): Slack, Teams, a webhook, mail. Pages show the fleet, incidents and the history of groups.
    See docs/serve.md.
    """
    log_to_stderr(logging.WARNING)
    from workbench.serve.server import Options, serve
    from workbench.settings import load_settings

    config = load_settings(config).file
    options = Options(host=host, port=port, certificate=certificate, key=key, token_file=token_file, config=config)
    serve(options, say=say)
    return ExitCode.OK

"""`workbench mcp`: triage for agents, read-only."""

from __future__ import annotations

import logging
from pathlib import Path

import click

from workbench.cli.options import FILE, config_option
from workbench.errors import ExitCode
from workbench.safe_output import log_to_stderr, say


@click.command(name="mcp")
@click.option("--http", is_flag=True, help="Serve over HTTP at /mcp, with a bearer token, instead of stdin and stdout.")
@click.option("--host", default="127.0.0.1", show_default=True, help="With --http: address to listen on.")
@click.option("--port", default=8481, show_default=True, type=click.IntRange(1, 65535), help="With --http: port.")
@click.option("--certificate", type=FILE, help="With --http: PEM file of the certificate.")
@click.option("--key", type=FILE, help="With --http: PEM file of its key.")
@click.option(
    "--token-file",
    type=FILE,
    help="With --http: file with the tokens, one on each line. Default: mcp.token in the state folder, which is made with a random "
    "one. $WORKBENCH_MCP_TOKEN is a token, too.",
)
@config_option
def command(
    http: bool,
    host: str,
    port: int,
    certificate: Path | None,
    key: Path | None,
    token_file: Path | None,
    config: Path | None,
) -> int:
    """Give agents triage, snapshots, evidence and replay plans, by the Model Context Protocol. Read-only: nothing can be applied.

    A client starts this command itself and talks with it over stdin and stdout.
    """
    from workbench.serve.mcp_tools import make_server
    from workbench.settings import load_settings

    config = load_settings(config).file
    server = make_server(config)
    if http:
        log_to_stderr(logging.WARNING)
        from workbench.serve.server import Options, serve_agents

        options = Options(host=host, port=port, certificate=certificate, key=key, token_file=token_file, config=config)
        serve_agents(server, options, say=say)
    else:
        server.run("stdio")
    return ExitCode.OK

"""The process: sockets, TLS, start and stop."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import uvicorn
from starlette.types import ASGIApp

from workbench.errors import SourceUnreachableError, UsageError
from workbench.local_server_request import is_here
from workbench.serve.access import AGENT_VARIABLE, Access
from workbench.serve.app import Server, application, for_bearers
from workbench.serve.asked_triages import AskedTriages
from workbench.serve.audits import Shelf
from workbench.serve.certificate import Certificate
from workbench.serve.connection_limits import ACCEPTED_AT_ONCE, Connections, Listener, raise_descriptors
from workbench.serve.judge_groups import SparkJudge
from workbench.serve.own_metrics import Metrics
from workbench.serve.request_limits import BoundedProtocol
from workbench.serve.server_database import Store
from workbench.serve.sqlite import FileStore
from workbench.serve.worker import Worker
from workbench.serve_settings import ServeSettings, is_database
from workbench.settings import load_settings
from workbench.shipped_files import shipped
from workbench.token_file import TOKEN_VARIABLE
from workbench.user_folders import state_dir

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

_KEEP_ALIVE_SECONDS = 20
_STOP_SECONDS = 5
_WARM_UP = "incident-1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of `workbench serve`.

    Attributes:
        certificate, key: PEM files for TLS; both or none. token_file: see `access.Access`.
    """

    host: str = "127.0.0.1"
    port: int = 8480
    certificate: Path | None = None
    key: Path | None = None
    token_file: Path | None = None
    config: Path | None = None


def serve(options: Options, *, say: Callable[[str], None]) -> None:
    """Serve until SIGTERM or Ctrl-C.

    Raises:
        UsageError: if the options or the settings are wrong. OutputError: if the database cannot be used.
        SourceUnreachableError: if the address cannot be used.
    """
    settings = load_settings(options.config)
    mine = settings.serve
    secure = _checked(options, mine)
    store = open_store(mine.store)
    token_file = options.token_file or state_dir() / "serve.token"
    access = Access(store, token_file)
    judge = SparkJudge(config=options.config)
    recorded = shipped("notebooks") / "captures" / _WARM_UP
    worker = Worker(
        store,
        judge,
        mine,
        clusters=judge.clusters,
        give_up=lambda: os.kill(os.getpid(), signal.SIGTERM),
        warm_up=lambda: judge.warm_up(recorded if recorded.is_dir() else None),
    )
    default = settings.default_cluster()
    server = Server(
        store=store,
        access=access,
        worker=worker,
        settings=mine,
        cluster=mine.cluster or (default.name if default is not None else None),
        secure=secure,
        reports=Path(mine.reports).expanduser() if mine.reports else None,
        audits=Shelf(Path(mine.audits).expanduser(), sorted(settings.audits)) if mine.audits else None,
        names=judge.names,
        asked=AskedTriages(turns=judge.turns, metrics=worker.metrics, ready=worker.ready, config=options.config),
    )
    shown = mine.url or _address(options)
    say(f"Pages: {shown}  Alertmanager's webhook: {shown}/alerts")
    if access.is_from_file:
        say(f"Token: in {token_file}")
    if not mine.targets:
        say("No target is set under [[serve.targets]]: verdicts are only on the pages.")
    run(application(server), worker, options)


def open_store(where: str | None) -> Store:
    """Open the database: a file, or the URL of a PostgreSQL.

    Raises:
        UsageError, OutputError, StoreError: if it cannot be used. SetupError: if psycopg is not installed.
    """
    if where is not None and is_database(where):
        from workbench.serve.postgres import DatabaseStore  # an extra, and imported only here

        return DatabaseStore(where)
    return FileStore(Path(where).expanduser() if where else state_dir() / "serve.sqlite")


def serve_agents(tools: MCPServer, options: Options, *, say: Callable[[str], None]) -> None:
    """Serve the tools of `workbench mcp` over HTTP at /mcp, until SIGTERM or Ctrl-C.

    The token is not that of `serve`: an agent may not post alerts or sign in.

    Raises:
        WorkbenchError: as `serve`.
    """
    _checked(options, load_settings(options.config).serve)
    token_file = options.token_file or state_dir() / "mcp.token"
    store = FileStore(state_dir() / "mcp.sqlite")
    access = Access(store, token_file, variables=(AGENT_VARIABLE, TOKEN_VARIABLE))
    say(f"MCP: {_address(options)}/mcp")
    if access.is_from_file:
        say(f"Token: in {token_file}")
    if access.variable == TOKEN_VARIABLE:
        say(
            f"Agents have the token of `workbench serve` ({TOKEN_VARIABLE}). Set {AGENT_VARIABLE} to give them one of their own."
        )
    app = tools.streamable_http_app(stateless_http=True, json_response=True, host=options.host)
    run(for_bearers(app, access, Metrics()), None, options)


def _checked(options: Options, settings: ServeSettings) -> bool:
    """Whether people reach the server by TLS.

    Raises:
        UsageError: if others would reach it without.
    """
    if (options.certificate is None) != (options.key is None):
        raise UsageError("TLS needs a certificate and its key.", hint="Give both --certificate and --key.")
    secure = options.certificate is not None or (settings.url or "").startswith("https://")
    if not secure and not is_here(options.host):
        raise UsageError(
            f"{options.host} is reachable by others, and tokens would go over the network unencrypted.",
            hint='Give --certificate and --key; or set url = "https://…" under [serve] if a proxy in front of it speaks TLS.',
        )
    return secure


def _address(options: Options) -> str:
    host = f"[{options.host}]" if ":" in options.host else options.host
    return f"{'https' if options.certificate is not None else 'http'}://{host}:{options.port}"


def run(app: ASGIApp, worker: Worker | None, options: Options) -> None:
    """Serve an application until a signal comes, and start and stop the threads.

    Raises:
        SourceUnreachableError: if the address cannot be used. OutputError: if the certificate cannot be used.
    """
    raise_descriptors()
    connections = Connections()
    config = configured(app, options, connections, lifespan="auto" if worker is None else "off")
    logging.getLogger("uvicorn.error").setLevel(
        logging.ERROR
    )  # what peers do is told by `request_limits`, and not for each request
    with bound(options, connections) as listener, _ending_in_order():
        if worker is not None:
            worker.start()
        try:
            asyncio.run(uvicorn.Server(config).serve(sockets=[listener]))
        except KeyboardInterrupt:
            pass
        finally:
            if worker is not None:
                worker.stop()


def configured(app: ASGIApp, options: Options, connections: Connections, *, lifespan: str) -> uvicorn.Config:
    """uvicorn with our limits.

    Raises:
        OutputError: if the certificate cannot be used.
    """
    pair = None
    if options.certificate is not None and options.key is not None:
        pair = Certificate(options.certificate, options.key)
    return uvicorn.Config(
        app,
        host=options.host,
        port=options.port,
        http=cast(Any, partial(BoundedProtocol, connections=connections)),
        ws="none",
        lifespan=cast(Any, lifespan),
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=ACCEPTED_AT_ONCE,
        # Of requests whose peers have gone; connections have a limit of their own.
        limit_concurrency=2 * (connections.most + ACCEPTED_AT_ONCE),
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_STOP_SECONDS,
        ssl_context_factory=None if pair is None else lambda _config, _default: pair.context,
    )


@contextmanager
def _ending_in_order() -> Iterator[None]:
    """uvicorn raises a SIGTERM once more when it has ended; the threads are stopped after that."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda _number, _frame: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def bound(options: Options, connections: Connections) -> Listener:
    """Listen on the address.

    Raises:
        SourceUnreachableError: if that is not possible.
    """
    try:
        [(family, _, _, _, address), *_] = socket.getaddrinfo(options.host, options.port, type=socket.SOCK_STREAM)
        listener = Listener(family, socket.SOCK_STREAM)
        listener.connections = connections
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except (OSError, UnicodeError) as error:
        raise SourceUnreachableError(
            f"The address {options.host}:{options.port} cannot be used: {getattr(error, 'strerror', None) or error}.",
            hint="Choose another: --port",
        ) from None
    listener.listen(ACCEPTED_AT_ONCE)
    return listener

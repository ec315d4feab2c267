"""The process: sockets, TLS, start and stop."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from workbench.assets import shipped
from workbench.errors import OutputError, SourceUnreachableError, UsageError
from workbench.places import state_dir
from workbench.serve.access import Access
from workbench.serve.app import Server, application
from workbench.serve.judged import SparkJudge
from workbench.serve.limits import BoundedProtocol
from workbench.serve.store import Store
from workbench.serve.worker import Worker
from workbench.settings import load_settings

_MOST_CONNECTIONS = 200
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


def is_loopback(host: str) -> bool:
    """Whether only this computer reaches an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def serve(options: Options, *, say: Callable[[str], None]) -> None:
    """Serve until SIGTERM or Ctrl-C.

    Raises:
        UsageError: if the options or the settings are wrong. OutputError: if the memory cannot be used.
        SourceUnreachableError: if the address cannot be used.
    """
    settings = load_settings(options.config)
    mine = settings.serve
    if (options.certificate is None) != (options.key is None):
        raise UsageError("TLS needs a certificate and its key.", hint="Give both --certificate and --key.")
    secure = options.certificate is not None
    behind_tls = (mine.url or "").startswith("https://")
    if not is_loopback(options.host) and not secure and not behind_tls:
        raise UsageError(
            f"{options.host} is reachable by others, and tokens would go over the network unencrypted.",
            hint='Give --certificate and --key; or set url = "https://…" under [serve] if a proxy in front of it speaks TLS.',
        )
    store = Store(Path(mine.store).expanduser() if mine.store else state_dir() / "serve.sqlite")
    token_file = options.token_file or state_dir() / "serve.token"
    access = Access(store, token_file)
    judge = SparkJudge(config=options.config)
    recorded = shipped("notebooks") / "captures" / _WARM_UP
    worker = Worker(
        store,
        judge,
        mine,
        clusters=judge.clusters,
        warm_up=lambda: judge.warm_up(recorded if recorded.is_dir() else None),
    )
    names = list(judge.clusters())
    server = Server(
        store=store,
        access=access,
        worker=worker,
        settings=mine,
        cluster=mine.cluster or (names[0] if len(names) == 1 else None),
        secure=secure or behind_tls,
        reports=Path(mine.reports).expanduser() if mine.reports else None,
    )
    shown = mine.url or f"{'https' if secure else 'http'}://{_written(options.host)}:{options.port}"
    say(f"Pages: {shown}  Alertmanager's webhook: {shown}/alerts")
    if access.is_from_file:
        say(f"Token: in {token_file}")
    if not mine.targets:
        say("No target is set under [[serve.targets]]: verdicts are only on the pages.")
    run(server, options)


def _written(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def run(server: Server, options: Options) -> None:
    """Serve the application until a signal comes, and start and stop the threads.

    Raises:
        SourceUnreachableError: if the address cannot be used. OutputError: if the certificate cannot be read.
    """
    try:
        config = uvicorn.Config(
            application(server),
            host=options.host,
            port=options.port,
            http=BoundedProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=_MOST_CONNECTIONS,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=_STOP_SECONDS,
            ssl_certfile=options.certificate,
            ssl_keyfile=options.key,
        )
        config.load()
    except OSError as error:
        raise OutputError(f"The certificate or its key cannot be used: {error.strerror or 'no PEM file'}.") from None
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    with _bound(options) as listener:
        server.worker.start()
        try:
            asyncio.run(uvicorn.Server(config).serve(sockets=[listener]))
        except KeyboardInterrupt:
            pass
        finally:
            server.worker.stop()


def _bound(options: Options) -> socket.socket:
    """Listen on the address.

    Raises:
        SourceUnreachableError: if that is not possible.
    """
    try:
        [(family, _, _, _, address), *_] = socket.getaddrinfo(options.host, options.port, type=socket.SOCK_STREAM)
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        raise SourceUnreachableError(
            f"The address {options.host}:{options.port} cannot be used: {error.strerror}.",
            hint="Choose another: --port",
        ) from None
    listener.listen(_MOST_CONNECTIONS)
    return listener

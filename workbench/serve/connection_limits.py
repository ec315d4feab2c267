"""How many connections a server holds, and which of them makes room for a new one.

Every accepted socket counts from its first moment, so a TLS handshake that is never finished counts, too.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import resource
import socket
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from workbench.serve.limited_peer_warnings import warn

MOST_CONNECTIONS = 200
ACCEPTED_AT_ONCE = 64  # asyncio accepts so many before it closes what had to make room
HANDSHAKE_SECONDS = 10.0
_DESCRIPTORS = 4096  # the connections, and the files and sockets of triages beside them
_OTHER_DESCRIPTORS = 200  # what the rest of the process is left if the system allows fewer
_FEWEST = 8
_log = logging.getLogger(__name__)


class Stage(IntEnum):
    """What a connection does; those with the lowest number make room first."""

    WAITING = 0  # for a handshake, for headers, or for the next request
    ASKING = 1  # a request of somebody unknown is under way
    TRUSTED = 2  # a request with a good token or visit is under way; it never makes room


@dataclass(slots=True, eq=False, kw_only=True)
class Connection:
    """One connection of a peer.

    Attributes:
        crowd: whom it counts for. cut: ends it at once, whatever waits to be sent. stage: what it does now.
    """

    descriptor: int
    crowd: str
    cut: Callable[[], None]
    stage: Callable[[], Stage] = lambda: Stage.WAITING
    ending: bool = False
    timer: asyncio.TimerHandle | None = field(default=None, repr=False)

    def end(self) -> None:
        """Cut it; it counts no more."""
        self.ending = True
        self.cut()


class Connections:
    """Those of one server.

    If there are `most` of them, a new one takes the place of another: of the peer with the most connections, the one that has waited
    longest. So a peer that opens connections and leaves them idle loses its own, and whoever has something to say gets in.

    Args:
        most: how many; default `most_connections()`.
    """

    def __init__(self, most: int | None = None) -> None:
        self.most = most_connections() if most is None else most
        self._held: dict[int, Connection] = {}  # by descriptor; the oldest first

    def __len__(self) -> int:
        return sum(not it.ending for it in self._held.values())

    def enter(self, descriptor: int, host: str, *, cut: Callable[[], None]) -> Connection | None:
        """Count a new connection; None if there is no room for it."""
        if (stale := self._held.get(descriptor)) is not None:
            self.leave(stale)
        entered = Connection(descriptor=descriptor, crowd=crowd_of(host), cut=cut)
        if len(self) >= self.most and not self._made_room(entered.crowd):
            warn(_log, "refused a connection: %d requests with a token are under way", self.most)
            return None
        self._held[descriptor] = entered
        return entered

    def _made_room(self, crowd: str) -> bool:
        if len(self._held) >= self.most + ACCEPTED_AT_ONCE:  # those that were cut are not closed yet
            return False
        there = [it for it in self._held.values() if not it.ending]
        sizes = Counter(it.crowd for it in there)
        sizes[crowd] += 1
        going = min(
            (it for it in there if it.stage() < Stage.TRUSTED),
            key=lambda it: (-sizes[it.crowd], it.stage()),
            default=None,
        )
        if going is None:
            return False
        warn(_log, "closed a waiting connection from %s: more than %d connections", going.crowd, self.most)
        going.end()
        return True

    def at(self, descriptor: int) -> Connection | None:
        """The connection with a descriptor."""
        return self._held.get(descriptor)

    def leave(self, connection: Connection) -> None:
        """Forget a connection; again does nothing."""
        if connection.timer is not None:
            connection.timer.cancel()
        if self._held.get(connection.descriptor) is connection:
            del self._held[connection.descriptor]


def crowd_of(host: str) -> str:
    """Whom an address belongs to: a peer with IPv6 has 2^64 of them."""
    with suppress(ValueError):
        address = ipaddress.ip_address(host)
        if isinstance(address, ipaddress.IPv6Address):
            mapped = address.ipv4_mapped
            return str(mapped or ipaddress.ip_network((address, 64), strict=False))
    return host


def most_connections() -> int:
    """`MOST_CONNECTIONS`, or what the limit of descriptors leaves beside the other files of the process."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return MOST_CONNECTIONS
    return max(_FEWEST, min(MOST_CONNECTIONS, soft - _OTHER_DESCRIPTORS - ACCEPTED_AT_ONCE))


def raise_descriptors() -> None:
    """Raise the limit of descriptors as far as the system allows (systemd's default is 1,024)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(_DESCRIPTORS, hard)
    if soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class _Accepted(socket.socket):
    """A connection that says when it is closed."""

    closed_by: Callable[[], None] | None = None

    def close(self) -> None:
        super().close()
        if self.closed_by is not None:
            self.closed_by()


class Listener(socket.socket):
    """A listening socket for asyncio that counts what it accepts.

    A handshake must be done in `HANDSHAKE_SECONDS`: asyncio's own limit is a minute.
    """

    connections: Connections

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept the next connection.

        Raises:
            ConnectionAbortedError: if there was no room for it; asyncio goes on with the next.
            OSError: as the base class.
        """
        plain, address = super().accept()
        accepted = _Accepted(plain.family, plain.type, plain.proto, fileno=plain.detach())

        def cut() -> None:  # whoever owns the socket by now then reads its end, and closes it
            with suppress(OSError):
                accepted.shutdown(socket.SHUT_RDWR)

        entered = self.connections.enter(accepted.fileno(), address[0], cut=cut)
        if entered is None:
            accepted.close()
            raise ConnectionAbortedError
        accepted.closed_by = lambda: self.connections.leave(entered)
        entered.timer = asyncio.get_running_loop().call_later(HANDSHAKE_SECONDS, entered.end)
        return accepted, address

"""Which broker has a topic, and the connections to all of them."""

from __future__ import annotations

import threading

from workbench.errors import ConfigError, SourceUnreachableError
from workbench.pulsar.connection import PulsarAccess, PulsarConnection, service_address
from workbench.pulsar.pulsar_wire import CommandKind, ServerRefusal, field

_MOST_REDIRECTS = 20  # of a lookup, as Pulsar's clients do


class PulsarBrokers:
    """Connections to the brokers of one cluster, each made when it is needed; any thread may ask."""

    def __init__(self, access: PulsarAccess) -> None:
        self.access = access
        self._lock = threading.Lock()
        self._open: dict[tuple[str, str | None], PulsarConnection] = {}
        self._is_closed = False

    def partitions(self, topic: str, *, makes: bool = False) -> int:
        """How many partitions a topic has; 0: it has none.

        Args:
            makes: have the broker make a topic that does not exist, if its policies say so.

        Raises:
            RefusedError: if there is no such topic.
            SourceUnreachableError: if no broker tells.
        """
        what = f"the partitions of {topic}"
        found = self._any().ask(
            CommandKind.PARTITIONED_METADATA,
            lambda number: field(1, topic) + field(2, number) + field(6, int(makes)),
            what=what,
        )
        return found.number(1)

    def owner(self, topic: str) -> PulsarConnection:
        """A connection to the broker that has a topic, or one partition.

        Raises:
            SourceUnreachableError: if it cannot be found or reached.
        """
        at, authoritative = self._any(), 0
        for _ in range(_MOST_REDIRECTS):
            found = at.ask(
                CommandKind.LOOKUP,
                lambda number, now=authoritative: field(1, topic) + field(2, number) + field(3, now),  # type: ignore[misc]
                what=f"the lookup of {topic}",
            )
            is_safe = at.url.startswith("pulsar+ssl")
            url = found.text(2 if is_safe else 1)
            if not url:
                raise SourceUnreachableError(
                    f"The broker of {topic} has no address {'with' if is_safe else 'without'} TLS.",
                    hint="Use the other scheme in the service URL: pulsar:// or pulsar+ssl://",
                )
            try:
                _, host, port = service_address(url)
            except ConfigError:
                raise SourceUnreachableError(f"The broker of {topic} has an address that cannot be read.") from None
            entry = self._any()
            at = (
                self._to(entry.url, f"{host}:{port}" if ":" not in host else f"[{host}]:{port}")
                if found.number(8)
                else self._to(url)
            )
            if found.number(3) == 1:
                return at
            authoritative = found.number(5)
        raise SourceUnreachableError(f"The brokers send each other in a circle for {topic}.")

    def _any(self) -> PulsarConnection:
        failure: SourceUnreachableError | None = None
        for url in self.access.urls:
            try:
                return self._to(url)
            except SourceUnreachableError as error:
                failure = error
        assert failure is not None  # noqa: S101 - an access has a URL
        raise failure

    def _to(self, url: str, broker: str | None = None) -> PulsarConnection:
        with self._lock:
            if self._is_closed:
                raise SourceUnreachableError("The connections to the Pulsar are closed.")
            found = self._open.get((url, broker))
            if found is None or not found.is_open:
                found = PulsarConnection(self.access, url, broker=broker)
                self._open[url, broker] = found
            return found

    def close(self) -> None:
        """End all connections."""
        with self._lock:
            self._is_closed = True
            some = list(self._open.values())
        for connection in some:
            connection.close()


# What no further attempt resolves, and what to do.
PERMANENT: dict[int, str] = {
    ServerRefusal.AUTHENTICATION: "Is the token there, and is it still valid?",
    ServerRefusal.AUTHORIZATION: "The role needs the permission `consume` (for dead letters: `produce`).",
    ServerRefusal.UNSUPPORTED_VERSION: "It takes Pulsar 2.8 or later.",
    ServerRefusal.INVALID_TOPIC_NAME: "A topic is named tenant/namespace/topic.",
    ServerRefusal.NOT_ALLOWED: "The broker's policies forbid it.",
}

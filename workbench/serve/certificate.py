"""The certificate of a server, read again when it was renewed: a certificate lives for weeks, the process for longer."""

from __future__ import annotations

import logging
import ssl
import time
from collections.abc import Callable
from pathlib import Path

from workbench.errors import OutputError

_LOOK_SECONDS = 1.0  # between two looks at the files
_log = logging.getLogger(__name__)
_Signature = tuple[tuple[int, int, int, int], ...]


class Certificate:
    """A certificate and its key, both as PEM files.

    Each handshake uses what the files held at the last look. A pair that cannot be used (a key that does not fit, half a file) is told
    in the log, and the former pair goes on.

    Attributes:
        context: the one to listen with.

    Raises:
        OutputError: if the first pair cannot be used.
    """

    def __init__(self, certificate: Path, key: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._paths, self._clock = (certificate, key), clock
        self._seen = self._signature()
        self._looked = clock()
        try:
            self.context = self._current = self._loaded()
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            raise OutputError(f"The certificate or its key cannot be used: {_words(error)}.") from None
        self.context.sni_callback = self._choose

    def _choose(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        """Called in each handshake, also without a server name."""
        self.look()
        connection.context = self._current

    def look(self) -> None:
        """Read the files again if they have changed."""
        now = self._clock()
        if now - self._looked < _LOOK_SECONDS:
            return
        self._looked = now
        there = self._signature()
        if there == self._seen:
            return
        self._seen = there
        try:
            self._current = self._loaded()
        except (OSError, ValueError) as error:
            _log.warning(
                "the renewed certificate or its key cannot be used (%s); the former one is still served", _words(error)
            )
        else:
            _log.info("the certificate was renewed")

    def _loaded(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*self._paths, password=lambda: "")  # never asks on a terminal
        return context

    def _signature(self) -> _Signature:
        found = []
        for path in self._paths:
            try:
                it = path.stat()
                found.append((it.st_ino, it.st_size, it.st_mtime_ns, it.st_ctime_ns))
            except OSError:
                found.append((0, 0, 0, 0))
        return tuple(found)


def _words(error: Exception) -> str:
    reason = getattr(error, "reason", None) or getattr(error, "strerror", None)
    return str(reason).lower().replace("_", " ") if reason else "no PEM file"

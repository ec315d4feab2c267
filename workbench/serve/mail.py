"""Handing a mail to its server: a dialogue with a deadline and a limit of size, of which the answer to the data decides.

smtplib has a time limit for each read only, and reads as many lines as a server sends. So the socket is shut when the time is over, and
what was read is counted.
"""

from __future__ import annotations

import smtplib
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from email.message import EmailMessage
from io import BufferedReader
from typing import Any

from workbench.serve_settings import Target

_MOST_BYTES = 1 << 18  # of all answers of one dialogue
_WELCOME = 220


class MailRefusedError(Exception):
    """A mail was taken for none of its recipients; `code`: the answer of the server, the mildest of several."""

    def __init__(self, code: int) -> None:
        super().__init__(f"it refuses every recipient with {code}")
        self.code = code


class _Counted:
    """Lines of a server, up to a limit."""

    def __init__(self, file: BufferedReader) -> None:
        self._file, self._left = file, _MOST_BYTES

    def readline(self, size: int = -1) -> bytes:
        line = self._file.readline(size)
        self._left -= len(line)
        if self._left < 0:
            raise smtplib.SMTPServerDisconnected("its answers do not end")
        return line

    def close(self) -> None:
        self._file.close()


class _Smtp(smtplib.SMTP):
    def getreply(self) -> tuple[int, bytes]:
        """See the base class."""
        if self.file is None and self.sock is not None:
            self.file: Any = _Counted(self.sock.makefile("rb"))
        return super().getreply()


class _SmtpTls(_Smtp, smtplib.SMTP_SSL):
    pass


def deliver(letter: EmailMessage, target: Target, *, seconds: float) -> list[str]:
    """Hand a mail over; return the recipients that the server has refused, if it has taken it for others.

    Args:
        seconds: for the whole dialogue.

    Raises:
        MailRefusedError: if it takes it for nobody. OSError, smtplib.SMTPException: if the dialogue fails before the data are taken.
    """
    context = ssl.create_default_context()
    until = time.monotonic() + seconds
    made: smtplib.SMTP = (
        _SmtpTls(timeout=seconds, context=context) if target.security == "tls" else _Smtp(timeout=seconds)
    )
    made._host = target.host or ""  # type: ignore[attr-defined]  # the name in its certificate; the constructor would connect at once
    with _shut_at(made, until):
        code, words = made.connect(target.host or "", target.port)
        if code != _WELCOME:
            raise smtplib.SMTPConnectError(code, words)
        if target.security == "starttls":
            made.starttls(context=context)
        if target.user is not None:
            made.login(target.user, target.password or "")
        try:
            refused = made.send_message(letter)
        except smtplib.SMTPRecipientsRefused as error:
            codes = [code for code, _ in error.recipients.values()]
            raise MailRefusedError(min(codes)) from None
        # The mail is taken: how the dialogue ends says nothing about it.
        with suppress(OSError, smtplib.SMTPException):
            made.quit()
    return sorted(refused)


@contextmanager
def _shut_at(made: smtplib.SMTP, until: float) -> Iterator[None]:
    """Shut the connection when the time is over, whatever waits for it.

    Raises:
        TimeoutError: if it was shut.
    """
    late = threading.Event()

    def cut() -> None:
        late.set()
        with suppress(OSError, AttributeError):
            made.sock.shutdown(socket.SHUT_RDWR)  # type: ignore[union-attr]

    timer = threading.Timer(max(0.0, until - time.monotonic()), cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    except (OSError, smtplib.SMTPException):
        if late.is_set():
            raise TimeoutError("timed out") from None
        raise
    finally:
        timer.cancel()
        with suppress(OSError):
            made.close()

"""Sending one message to one target. Only addresses of the settings are asked, and no redirect is followed."""

from __future__ import annotations

import smtplib
import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

import requests

from workbench.delivery import Target
from workbench.serve import words
from workbench.serve.outbox import Parcel
from workbench.web import WebSession, cause

_SECONDS = 10.0
_ANSWER_BYTES = 1 << 16
_PATHS = {"grafana": "/api/annotations", "alertmanager": "/api/v2/alerts"}  # their settings name the server


class NotTakenError(Exception):
    """A target has not accepted a message; `passing`: it may accept it later. The text names no address."""

    def __init__(self, reason: str, *, passing: bool) -> None:
        super().__init__(reason)
        self.passing = passing


Send = Callable[[Parcel, Target, str | None], None]


def send(parcel: Parcel, target: Target, url: str | None) -> None:
    """Send a message once.

    Args:
        url: address of the pages, for the link.

    Raises:
        NotTakenError: if it was not accepted, or if that is not known.
    """
    if target.kind == "mail":
        _mail(parcel, target, url)
        return
    forms: dict[str, Callable[[Parcel, str | None], Any]] = {
        "slack": words.slack, "teams": words.teams, "webhook": words.document, "grafana": words.grafana,
        "alertmanager": partial(words.alertmanager, now=datetime.now(UTC)),
    }  # fmt: skip
    headers = {"Idempotency-Key": parcel.key}
    if target.token is not None:
        headers["Authorization"] = f"Bearer {target.token}"
    address = target.url or ""
    if target.kind in _PATHS:
        address = address.rstrip("/") + _PATHS[target.kind]
    _post(address, forms[target.kind](parcel, url), headers)


def _post(url: str, body: Any, headers: dict[str, str]) -> None:
    try:
        safe = {name: value.encode("ascii", "replace").decode() for name, value in headers.items()}
        with WebSession(deadline_seconds=_SECONDS, max_bytes=_ANSWER_BYTES, headers=safe) as session:
            status = session.post(url, json=body, allow_redirects=False).status_code
    except requests.RequestException as error:
        raise NotTakenError(cause(error), passing=True) from None
    if not 200 <= status < 300:
        raise NotTakenError(f"it answers {status}", passing=status in (408, 425, 429) or status >= 500)


def _mail(parcel: Parcel, target: Target, url: str | None) -> None:
    letter = words.mail(parcel, target, url, now=datetime.now(UTC))
    try:
        context = ssl.create_default_context()
        if target.security == "tls":
            server: smtplib.SMTP = smtplib.SMTP_SSL(target.host or "", target.port, timeout=_SECONDS, context=context)
        else:
            server = smtplib.SMTP(target.host or "", target.port, timeout=_SECONDS)
        with server:
            if target.security == "starttls":
                server.starttls(context=context)
            if target.user is not None:
                server.login(target.user, target.password or "")
            server.send_message(letter)
    except smtplib.SMTPResponseException as error:
        raise NotTakenError(f"it answers {error.smtp_code}", passing=400 <= error.smtp_code < 500) from None
    except (OSError, smtplib.SMTPException) as error:
        raise NotTakenError(cause(error), passing=True) from None

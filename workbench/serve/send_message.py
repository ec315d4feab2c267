"""Sending one message to one target. Only addresses of the settings are asked, and no redirect is followed."""

from __future__ import annotations

import smtplib
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

import requests

from workbench.http_client import WebSession, cause
from workbench.serve import alert_messages
from workbench.serve.mail import MailRefusedError, deliver
from workbench.serve.outbox import Parcel
from workbench.serve_settings import Target

_SECONDS = 10.0
_PATHS = {"grafana": "/api/annotations", "alertmanager": "/api/v2/alerts"}  # their settings name the server
# What is refused for what it is, is refused again. Anything else passes, and is tried again for some hours: a token that is rotated, a
# route or a proxy that is being set up, a redirect to somebody's sign-in.
_OF_THE_MESSAGE = range(400, 500)
_PASSING = (401, 403, 404, 407, 408, 425, 429)
_MAIL_FOR_GOOD = 500
_MAIL_LOGIN = (530, 534, 535, 538)


class NotTakenError(Exception):
    """A target has not accepted a message; `passing`: it may accept it later. The text names no address."""

    def __init__(self, reason: str, *, passing: bool) -> None:
        super().__init__(reason)
        self.passing = passing


class PartlyTakenError(NotTakenError):
    """A mail was taken for some of its recipients: it is not sent again, and the others are named."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, passing=False)


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
        "slack": alert_messages.slack, "teams": alert_messages.teams, "webhook": alert_messages.document,
        "grafana": alert_messages.grafana, "alertmanager": partial(alert_messages.alertmanager, now=datetime.now(UTC)),
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
        with WebSession(deadline_seconds=_SECONDS, headers=safe) as session:
            # The status alone is the answer: a page behind it that is long or slow would let a taken message be sent again and again.
            status = session.post(url, json=body, allow_redirects=False, stream=True).status_code
    except requests.RequestException as error:
        raise NotTakenError(cause(error), passing=True) from None
    if not 200 <= status < 300:
        raise NotTakenError(f"it answers {status}", passing=status not in _OF_THE_MESSAGE or status in _PASSING)


def _mail(parcel: Parcel, target: Target, url: str | None) -> None:
    letter = alert_messages.mail(parcel, target, url, now=datetime.now(UTC))
    try:
        refused = deliver(letter, target, seconds=_SECONDS)
    except MailRefusedError as error:
        raise NotTakenError(str(error), passing=_is_passing_mail(error.code)) from None
    except smtplib.SMTPResponseException as error:
        passing = _is_passing_mail(error.smtp_code)
        raise NotTakenError(f"it answers {error.smtp_code}", passing=passing) from None
    except (OSError, smtplib.SMTPException) as error:
        raise NotTakenError(cause(error), passing=True) from None
    if refused:
        raise PartlyTakenError(f"it has taken the mail, but not for {', '.join(refused)}")


def _is_passing_mail(code: int) -> bool:
    """4xx passes; and so does a login that is refused while a password is being changed."""
    return code < _MAIL_FOR_GOOD or code in _MAIL_LOGIN

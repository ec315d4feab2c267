"""Alertmanager webhooks: the subscription that an alert names, and its start time.

The format is Alertmanager's webhook version 4 (its `docs/configuration.md`); unknown fields are ignored, as it requires.
Everything in it is foreign text: it is shown and compared, never executed.
"""

from __future__ import annotations

import errno
import json
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from workbench.errors import UsageError
from workbench.inputs import first_problem, read_within
from workbench.window import parse_instant

# What `workbench serve` itself posts to an Alertmanager: it is no reason for another triage.
OWN_ALERT = "WorkbenchVerdict"
# Label names of exporters and frameworks, the most common first.
_GROUP = ("consumergroup", "group", "consumer_group", "group_id", "messaging_consumer_group_name")
_TOPIC = ("topic", "messaging_destination_name")
_CLUSTER = ("cluster", "kafka_cluster", "cluster_name")
_MAX_BYTES = 4 << 20  # Alertmanager groups alerts; no valid payload is larger


class _Alert(BaseModel):
    model_config = ConfigDict(hide_input_in_errors=True, extra="ignore")

    status: str = "firing"
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    starts_at: str = Field(default="", alias="startsAt")
    fingerprint: str = ""


class _Webhook(BaseModel):
    model_config = ConfigDict(hide_input_in_errors=True, extra="ignore")

    version: str = "4"
    alerts: list[_Alert]
    truncated: int = Field(default=0, alias="truncatedAlerts")


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One alert, reduced to what a triage needs; an empty text if a field is missing.

    Attributes:
        starts_at: when it started firing, or None. truncated: number of alerts of this message that Alertmanager left out.
    """

    name: str
    cluster: str
    group: str
    topic: str
    starts_at: datetime | None
    firing: bool
    fingerprint: str
    truncated: int = 0


def read_alerts(path: Path) -> list[Alert]:
    """Read a webhook payload from a file; firing alerts first.

    Raises:
        UsageError: naming the file and what is wrong with it.
    """
    try:
        text = read_within(path, _MAX_BYTES).decode()
    except (OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.errno == errno.EFBIG:
            raise UsageError(f"{path} is larger than any Alertmanager webhook.") from None
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise UsageError(f"The alert {path} cannot be read: {reason}.") from None
    return parse_alerts(text, name=str(path))


def parse_alerts(text: str, *, name: str = "the alert") -> list[Alert]:
    """Read a webhook payload.

    Raises:
        UsageError: if it is not a webhook, or has no alert.
    """
    hint = "It should be the JSON that Alertmanager posts to a webhook (version 4)."
    try:
        document: Any = json.loads(text)
        webhook = _Webhook.model_validate(document)
        alerts = [_reduced(it, webhook.truncated) for it in webhook.alerts]
    except ValidationError as error:
        problem = first_problem(error, whole="the document")
        raise UsageError(f"{name} is not an Alertmanager webhook: {problem}.", hint=hint) from None
    except (ValueError, RecursionError):
        raise UsageError(f"{name} is not JSON.", hint=hint) from None
    if not alerts:
        raise UsageError(f"{name} has no alert.", hint=hint)
    return sorted(alerts, key=lambda it: not it.firing)


def _reduced(alert: _Alert, truncated: int) -> Alert:
    labels = alert.labels
    # Go's zero time means "not set".
    known = alert.starts_at and not alert.starts_at.startswith("0001-")
    return Alert(
        name=labels.get("alertname", ""),
        cluster=_first(labels, _CLUSTER),
        group=_first(labels, _GROUP),
        topic=_first(labels, _TOPIC),
        starts_at=parse_instant(alert.starts_at) if known else None,
        firing=alert.status == "firing",
        fingerprint=alert.fingerprint,
        truncated=truncated,
    )


def _first(labels: dict[str, str], names: tuple[str, ...]) -> str:
    return next((labels[name] for name in names if labels.get(name)), "")

"""Settings of `workbench serve`: where verdicts are sent, how long they are kept, and the limits of the server."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from workbench.limited_reads import is_web_address
from workbench.masking import remember, secrets_in_database, secrets_in_url
from workbench.settings_base import LONGEST, Duration, Strict

_MAX_PORT = 65_535


class Target(Strict):
    """One receiver of messages. The addresses of receivers come from the settings only, never from an alert."""

    name: str = Field(min_length=1, max_length=80, description="For pages and logs; two targets have two names.")
    kind: Literal["slack", "teams", "webhook", "grafana", "alertmanager", "mail"] = Field(
        description="What receives it, and so the form of the message."
    )
    url: str | None = Field(
        default=None,
        repr=False,
        description="Of the chat's incoming webhook, of your own, of a Grafana or an Alertmanager; ${NAME} for a secret.",
    )
    token: str | None = Field(
        default=None, repr=False, description="Bearer token for a webhook of your own, Grafana or Alertmanager."
    )
    clusters: list[str] = Field(default=[], description="Only incidents of these clusters; empty: all.")
    host: str | None = Field(default=None, description="Mail server.")
    port: int = Field(default=587, ge=1, le=_MAX_PORT, description="Of the mail server.")
    security: Literal["starttls", "tls", "none"] = Field(default="starttls", description="Of the mail connection.")
    user: str | None = Field(default=None, description="Of the mail server.")
    password: str | None = Field(default=None, repr=False, description="Of that user; needs a secure connection.")
    sender: str | None = Field(default=None, description="Address that mails come from.")
    to: list[str] = Field(default=[], description="Addresses that mails go to.")

    @field_validator("url")
    @classmethod
    def _is_url(cls, value: str | None) -> str | None:
        if value is not None and not is_web_address(value):
            raise ValueError("this is not an http or https URL")  # its value is a secret
        return value

    @field_validator("sender", "to")
    @classmethod
    def _are_addresses(cls, value: str | list[str] | None) -> str | list[str] | None:
        for text in [value] if isinstance(value, str) else value or []:
            if "@" not in text or any(it.isspace() or not it.isprintable() for it in text):
                raise ValueError("this is not a mail address")
        return value

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        needed = ("host", "sender", "to") if self.kind == "mail" else ("url",)
        for name in needed:
            if not getattr(self, name):
                raise ValueError(f"{name} is missing for a target of the kind {self.kind}")
        if self.password is not None and self.security == "none":
            raise ValueError("a password needs security = starttls or tls")
        return self

    def model_post_init(self, _context: object) -> None:
        """Register what is secret for masking: the path of a chat's webhook is its password."""
        remember(self.token, self.password)
        if self.url is not None:
            remember(self.url, *secrets_in_url(self.url))


class ServeSettings(Strict):
    """Table `[serve]` of `workbench.toml`."""

    url: str | None = Field(
        default=None, description="Address under which people open the pages; links in messages begin with it."
    )
    store: str | None = Field(
        default=None,
        description="Database: a file (SQLite), or postgresql://host/database for several instances. "
        "Default: serve.sqlite in the state folder.",
    )
    targets: list[Target] = Field(default=[], description="Receivers of messages.")
    cluster: str | None = Field(
        default=None, description="Cluster of alerts without a cluster label. Default: the only one of the settings."
    )
    reports: str | None = Field(default=None, description="Folder of scheduled reports, to list them.")
    audits: str | None = Field(
        default=None, description="Folder that `workbench audit publish` writes into, to show what audits say."
    )
    deadline: Duration = Field(
        default=timedelta(seconds=60),
        ge=timedelta(seconds=5),
        le=LONGEST,
        description="An alert without a verdict after this time is passed on without one.",
    )
    gather: Duration = Field(
        default=timedelta(seconds=1),
        ge=timedelta(0),
        le=timedelta(minutes=1),
        description="Alerts that come so soon after the first are judged together with it.",
    )
    look_again: Duration = Field(
        default=timedelta(minutes=1),
        ge=timedelta(seconds=1),
        le=LONGEST,
        description="Pause between two triages of an open incident.",
    )
    quiet: Duration = Field(
        default=timedelta(minutes=5),
        ge=timedelta(0),
        le=LONGEST,
        description="At most one message in this time says that an incident grows. A changed verdict is told at once.",
    )
    fleet_every: Duration = Field(
        default=timedelta(minutes=5),
        ge=timedelta(seconds=10),
        le=LONGEST,
        description="Pause between two triages of the whole fleet, for the pages.",
    )
    keep: Duration = Field(
        default=timedelta(days=365),
        ge=timedelta(days=1),
        le=timedelta(days=3660),
        description="Age at which findings and closed incidents are deleted.",
    )
    most_waiting: int = Field(
        default=10_000,
        ge=1,
        description="With so many alerts waiting, further ones are refused with 503 (Alertmanager retries).",
    )

    @field_validator("url")
    @classmethod
    def _is_url(cls, value: str | None) -> str | None:
        if value is not None and not is_web_address(value):
            raise ValueError("this is not an http or https URL, such as https://workbench.example.com")
        return value.rstrip("/") if value is not None else None

    @field_validator("store")
    @classmethod
    def _is_known(cls, value: str | None) -> str | None:
        if value is not None:
            remember(*secrets_in_database(value))
            if "://" in value and not is_database(value):
                raise ValueError("this is neither a file nor postgresql://HOST/DATABASE")  # it may hold a password
        return value

    @field_validator("targets")
    @classmethod
    def _names_differ(cls, value: list[Target]) -> list[Target]:
        names = [it.name for it in value]
        if len(set(names)) < len(names):
            raise ValueError("two targets have the same name")
        return value


def is_database(store: str) -> bool:
    """Whether a memory is a database of PostgreSQL, and not a file."""
    return store.startswith(("postgresql://", "postgres://"))

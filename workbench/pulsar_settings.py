"""Settings of a cluster that is a Pulsar: where it is, and what to show there."""

from __future__ import annotations

import re

from pydantic import Field, field_validator

from workbench.limited_reads import is_web_address
from workbench.masking import secrets_in_url
from workbench.settings_base import Strict

_SERVICE = re.compile(r"pulsar(?:\+ssl)?://[^\s/@]+", re.IGNORECASE)
_NAMESPACE = re.compile(r"[-=:.\w]+/[-=:.\w]+")


class PulsarSettings(Strict):
    """Addresses of a Pulsar, and the token for both."""

    service_url: str | None = Field(
        default=None, description="Where clients connect: pulsar://host:6650 or pulsar+ssl://host:6651."
    )
    admin_url: str | None = Field(
        default=None, repr=False, description="URL of the admin's REST API: of the Pulsar proxy, or of a broker."
    )
    broker_urls: list[str] = Field(
        default=[],
        repr=False,
        description="Web URLs of all brokers, if there is no proxy: a broker redirects to the one that has the topic, and the token "
        "goes to these alone.",
    )
    token: str | None = Field(
        default=None,
        repr=False,
        description="Token (JWT); ${NAME} takes a value from the environment, ${file:PATH} from a file.",
    )
    ca_file: str | None = Field(
        default=None, description="File of certificate authorities (PEM). Default: the system's."
    )
    namespaces: list[str] = Field(
        default=[],
        description="Only these, as tenant/namespace. Default: all that the token may list, without Pulsar's own.",
    )

    @field_validator("service_url")
    @classmethod
    def _service(cls, value: str | None) -> str | None:
        if value is not None and not _SERVICE.fullmatch(value):
            raise ValueError("this is not a service URL, such as pulsar://host:6650")
        return value

    @field_validator("admin_url")
    @classmethod
    def _admin(cls, value: str | None) -> str | None:
        return value if value is None else _web(value)

    @field_validator("broker_urls")
    @classmethod
    def _brokers(cls, value: list[str]) -> list[str]:
        return [_web(url) for url in value]

    @field_validator("namespaces")
    @classmethod
    def _names(cls, value: list[str]) -> list[str]:
        for name in value:
            if not _NAMESPACE.fullmatch(name):
                raise ValueError(f"{name!r} is not tenant/namespace")
        return value

    def secrets(self) -> list[str]:
        """The token, and credentials in URLs."""
        found = [self.token] if self.token else []
        for url in filter(None, [self.admin_url, *self.broker_urls]):
            found += secrets_in_url(url)
        return found


def _web(url: str) -> str:
    if not is_web_address(url):
        raise ValueError("this is not an http or https URL, such as http://host:8080")  # it may hold a password
    return url.rstrip("/")

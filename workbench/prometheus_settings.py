"""Where a cluster's metrics come from: one Prometheus, or several that hold parts or copies of its series."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeAlias
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, ValidationError, field_validator

from workbench.limited_reads import first_problem, is_web_address
from workbench.masking import secrets_in_header, secrets_in_url
from workbench.settings_base import Strict

_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_MOST = 32  # each is asked for everything; a fleet of more has a Thanos or a Mimir before it
_USUAL_PORTS = {"http": ":80", "https": ":443"}


def valid_match(value: dict[str, str]) -> dict[str, str]:
    """Check the matchers of settings.

    Raises:
        ValueError: naming the label.
    """
    for name, text in value.items():
        if not _LABEL.fullmatch(name) or name == "__name__":
            raise ValueError(f"{name!r} is not a label")
        if text.startswith(("=~", "!~")):
            try:
                re.compile(text[2:])
            except (re.error, RecursionError) as error:
                raise ValueError(f"{name}: {text[2:]!r} is not a valid pattern: {error}") from None
    return value


def valid_url(url: str) -> str:
    """Check a base URL; without its last "/".

    Raises:
        ValueError: without the URL, which may hold a password.
    """
    if not is_web_address(url):
        raise ValueError("this is not an http or https URL, such as http://host:9090")
    return url.rstrip("/")


class PrometheusAddress(Strict):
    """One Prometheus, or a server with its API."""

    url: str = Field(repr=False, description="URL of a Prometheus, Thanos, Mimir or VictoriaMetrics.")
    headers: dict[str, str] | None = Field(
        default=None, repr=False, description="HTTP headers for this address alone, instead of `prometheus_headers`."
    )
    match: dict[str, str] | None = Field(
        default=None, description="Which of its series are this cluster's, instead of the cluster's `match`."
    )

    @field_validator("url")
    @classmethod
    def _base(cls, value: str) -> str:
        return valid_url(value)

    @field_validator("match")
    @classmethod
    def _matchers(cls, value: dict[str, str] | None) -> dict[str, str] | None:
        return value if value is None else valid_match(value)

    @property
    def host(self) -> str:
        """Host and port, never the password."""
        return urlsplit(self.url).netloc.rpartition("@")[2]

    def where_of(self, match: Mapping[str, str]) -> str:
        """Host and path, with its matchers if these are others than the usual ones."""
        own = "" if not self.match or self.match == match else f" {json.dumps(self.match, sort_keys=True)}"
        return f"{self.host}{urlsplit(self.url).path}{own}"

    def secrets(self) -> list[str]:
        """Credentials in its URL and its headers."""
        of_headers = [text for value in (self.headers or {}).values() for text in secrets_in_header(value)]
        return [*secrets_in_url(self.url), *of_headers]

    def place(self) -> tuple[object, ...]:
        """What two addresses share only if both would get the same answers; one host may have several tenants."""
        parts = urlsplit(self.url)
        user, _, host = parts.netloc.rpartition("@")
        server = host.lower().removesuffix(_USUAL_PORTS.get(parts.scheme, ""))
        headers = sorted((name.lower(), value) for name, value in (self.headers or {}).items())
        return (parts.scheme, user, server, parts.path, parts.query, headers, sorted((self.match or {}).items()))


def names_of(addresses: Sequence[PrometheusAddress]) -> list[str]:
    """Name of each in messages: its host and port; with its number where these are not enough."""
    hosts = [it.host for it in addresses]
    return [
        host if hosts.count(host) == 1 else f"{host} (address {number})" for number, host in enumerate(hosts, start=1)
    ]


def _addresses(value: Any) -> Any:
    """Read a list of URLs and tables; one URL stays a text."""
    if isinstance(value, str):
        return valid_url(value)
    if not isinstance(value, list | tuple):
        if value is not None:
            raise ValueError("it must be a URL, or a list of URLs and tables with a url")
        return value
    if not value:
        raise ValueError("the list is empty: name an address, or leave the key out")
    if len(value) > _MOST:
        raise ValueError(f"these are {len(value)} addresses, and {_MOST} is the most")
    found: list[PrometheusAddress] = []
    places: list[tuple[object, ...]] = []
    for number, item in enumerate(value, start=1):
        if not isinstance(item, str | dict | PrometheusAddress):
            raise ValueError(f"address {number}: it must be a URL, or a table with a url")
        try:
            one = PrometheusAddress.model_validate({"url": item} if isinstance(item, str) else item)
        except ValidationError as error:
            raise ValueError(f"address {number}: {first_problem(error, whole='it')}") from None
        if one.place() in places:
            raise ValueError(f"address {number} is the same as address {places.index(one.place()) + 1}")
        found.append(one)
        places.append(one.place())
    return found


PrometheusAddresses: TypeAlias = Annotated[str | list[PrometheusAddress] | None, BeforeValidator(_addresses)]

"""The admin's REST API of a Pulsar: requests with a deadline, answers with a limit, the token for configured addresses only."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urljoin, urlsplit

import requests

from workbench.errors import SourceUnreachableError, UsageError
from workbench.http_client import WebSession, cause
from workbench.settings import Cluster

_MOST_BYTES = 64 << 20  # a subscription takes 2 kB: thirty thousand on one topic
AT_ONCE = 8  # requests: a broker has 8 web threads for each core, and other people ask it, too
_REDIRECTS = (301, 302, 303, 307, 308)
_MOST_REDIRECTS = 3  # to the leader, which says whose the topic is, and to that one, as long as no broker has it
_DOES_NOT = {"PUT": "make", "DELETE": "delete"}


class NotThereError(SourceUnreachableError):
    """The admin answers that there is no such topic, namespace or subscription."""


class PulsarAdmin:
    """Requests to one cluster, all of them within one deadline.

    Args:
        seconds: total time for all requests of this object; None: the cluster's `timeout_seconds`. Infinite: so much for each, for what
            must not end half-way because a topic has many partitions.

    Raises:
        UsageError: if it is no Pulsar, or has no `admin_url`.
    """

    def __init__(self, cluster: Cluster, *, seconds: float | None = None) -> None:
        if cluster.system != "pulsar":
            raise UsageError(f"The cluster {cluster.name!r} is no Pulsar.", hint='Its settings need: system = "pulsar"')
        settings = cluster.pulsar
        if settings.admin_url is None:
            raise UsageError(
                f"The cluster {cluster.name!r} has no pulsar.admin_url in the settings.",
                hint="Add it to workbench.toml.",
            )
        self._name, self._base = cluster.name, f"{settings.admin_url}/admin/v2/"
        self._others = {_origin(url) for url in settings.broker_urls}
        whole = cluster.timeout_seconds if seconds is None else seconds
        self._each = whole if math.isfinite(whole) else cluster.timeout_seconds
        self._until = time.monotonic() + whole
        headers = {"Authorization": f"Bearer {settings.token}"} if settings.token else {}
        self._session = WebSession(deadline_seconds=cluster.timeout_seconds, max_bytes=_MOST_BYTES, headers=headers)
        if settings.ca_file is not None:
            self._session.verify = settings.ca_file

    def get(self, path: str, params: Mapping[str, str] | None = None) -> Any:
        """Ask for a JSON document; see `NotThereError`.

        Raises:
            SourceUnreachableError: if there is no such answer in time.
        """
        return self._read(path, self._asked("GET", path, params).content)

    def get_text(self, path: str) -> str:
        """Ask for a line of text.

        Raises:
            SourceUnreachableError: as `get`.
        """
        return self._asked("GET", path, None).content.decode(errors="replace").strip()

    def headers(self, path: str) -> Mapping[str, str]:
        """Headers of an answer.

        Raises:
            SourceUnreachableError: as `get`.
        """
        return self._asked("GET", path, None).headers

    def count_backlog(self, path: str) -> Any:
        """The answer of `analyzeBacklog`, which reads the backlog's entries from storage; changes nothing.

        Raises:
            SourceUnreachableError: as `get`.
        """
        return self._read(path, self._asked("POST", path, None).content)

    def _read(self, path: str, content: bytes) -> Any:
        try:
            return json.loads(content)
        except (ValueError, RecursionError):
            raise self._untold(path, "it answers, but not with JSON that can be read") from None

    def create_subscription(self, path: str, begin: Mapping[str, Any]) -> bool:
        """Make a subscription that begins at a message id, with properties; False if there is one of that name.

        Raises:
            SourceUnreachableError: if the admin does not answer, or refuses.
        """
        return self._asked("PUT", path, None, document=begin, allowed=(409,)).status_code != 409

    def set_properties(self, path: str, properties: Mapping[str, str]) -> None:
        """Replace the properties of a subscription.

        Raises:
            SourceUnreachableError: as `create_subscription`.
        """
        self._asked("PUT", f"{path}/properties", None, document=properties)

    def delete_subscription(self, path: str) -> None:
        """Delete one that nobody is connected to.

        Raises:
            NotThereError: if there is none. SourceUnreachableError: if the admin does not answer, or somebody is connected.
        """
        self._asked("DELETE", path, None)

    def _asked(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None,
        *,
        document: Mapping[str, Any] | None = None,
        allowed: tuple[int, ...] = (),
    ) -> requests.Response:
        if not {"", ".", ".."}.isdisjoint(path.split("/")):
            # What it is resolved to is another thing: of a subscription "..", the topic.
            raise SourceUnreachableError(
                f"{path} cannot be asked for: in a URL, a name that is empty, `.` or `..` means something else.",
                hint="Use Pulsar's own client for it.",
            )
        try:
            response = self._answer(method, urljoin(self._base, path), params, document)
            if response.status_code in allowed:
                return response
            if response.status_code == 404:
                raise NotThereError(f"The Pulsar {self._name!r} has no {path}.")
            response.raise_for_status()
        except (requests.RequestException, OSError) as error:
            raise self._untold(path, cause(error), does_not=_DOES_NOT.get(method, "tell")) from None
        return response

    def _untold(self, path: str, reason: str, *, does_not: str = "tell") -> SourceUnreachableError:
        hint = "Is the token there, and may it do this?" if reason.endswith(("401", "403")) else None
        if does_not == "delete" and reason.endswith("412"):
            hint = "Is a consumer connected to it?"
        return SourceUnreachableError(
            f"The admin of the Pulsar {self._name!r} does not {does_not} {path}: {reason}.",
            hint=hint or f"Is this the admin URL of a proxy or of a broker: {self._base}?",
        )

    def _answer(
        self, method: str, url: str, params: Mapping[str, str] | None, document: Mapping[str, Any] | None
    ) -> requests.Response:
        """A broker that has not the topic redirects to the one that has it."""
        for _ in range(1 + _MOST_REDIRECTS):
            left = min(self._each, self._until - time.monotonic())
            if left <= 0:
                raise requests.Timeout("the deadline is over")
            response = self._session.request(
                method, url, params=params, json=document, timeout=left, allow_redirects=False
            )
            if response.status_code not in _REDIRECTS:
                return response
            url, params = urljoin(url, response.headers.get("Location", "")), None
            if _origin(url) not in {_origin(self._base), *self._others}:
                raise SourceUnreachableError(
                    f"The admin of the Pulsar {self._name!r} redirects to {_origin(url)}, which is not in the settings.",
                    hint="Give the proxy's URL as pulsar.admin_url, or the web URLs of all brokers as pulsar.broker_urls.",
                )
        raise requests.TooManyRedirects(response=response)


def _origin(url: str) -> str:
    """Scheme, host and port, without a user or a password."""
    try:
        parts = urlsplit(url)
        return f"{parts.scheme}://{parts.hostname}:{parts.port or {'http': 80, 'https': 443}.get(parts.scheme)}"
    except ValueError:
        return "an address that cannot be read"

"""Secrets kept out of what a run leaves behind: the known ones are looked for in every text before it is written."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from urllib.parse import urlsplit

from workbench.settings import Cluster

_SECRET = re.compile(r"password|secret|token|jaas|\.key\b|oauth", re.IGNORECASE)
_MASK = "***"
_SHORTEST = 4  # shorter "secrets" would mask ordinary words


def secrets_of(cluster: Cluster) -> frozenset[str]:
    """What of a cluster's settings must never be seen: passwords, tokens, and whatever stands in HTTP headers and in URLs."""
    found = [str(value) for name, value in cluster.kafka.items() if _SECRET.search(name)]
    for value in cluster.prometheus_headers.values():
        found += [value, *value.split()[1:]]  # "Bearer …" and the token alone
    for url in filter(None, [cluster.prometheus, *cluster.metrics]):
        found.append(urlsplit(url).password or "")
    return frozenset(text for text in found if len(text) >= _SHORTEST)


def masked(text: str, secrets: Iterable[str]) -> str:
    """The text without the secrets, plain or as they stand in JSON."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, _MASK).replace(json.dumps(secret)[1:-1], _MASK)
    return text

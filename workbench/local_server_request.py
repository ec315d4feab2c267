"""One request to a server of this computer, for a command whose whole process ends in half a second.

The library of `http_client` takes a sixth of a second of processor time to load. What it is for is not needed here: without another
host there are no proxies and no redirects, and without TLS no certificates. Everything else is asked by `http_client`.
"""

from __future__ import annotations

import http.client
import ipaddress
from collections.abc import Mapping


def is_here(host: str) -> bool:
    """Whether a host is this computer, which a remote proxy cannot reach."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def post_here(
    host: str, port: int, path: str, body: bytes, *, headers: Mapping[str, str], seconds: float, max_bytes: int
) -> tuple[int, bytes]:
    """Send a body, and return the status of the answer and its body.

    Args:
        seconds: for each part of the answer.
        max_bytes: size limit of its body.

    Raises:
        ValueError: if the host is another computer, or the answer is too large or cut off.
        OSError: if there is no answer, or no HTTP.
    """
    if not is_here(host):
        raise ValueError(f"{host} is not this computer")
    connection = http.client.HTTPConnection(host, port, timeout=seconds)
    try:
        connection.request("POST", path, body, dict(headers))
        answer = connection.getresponse()
        found = answer.read(max_bytes + 1)
    except http.client.HTTPException as error:
        raise ConnectionError(f"no answer in HTTP ({type(error).__name__})") from None
    finally:
        connection.close()
    if len(found) > max_bytes:
        raise ValueError("the answer is too large")
    if answer.length:  # of its Content-Length, what has not come
        raise ValueError("the answer was cut off")
    return answer.status, found

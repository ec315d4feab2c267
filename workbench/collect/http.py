"""Reading an answer with a deadline for the whole of it: requests' own timeout is per read, and a trickle never meets it."""

from __future__ import annotations

import time

import requests

_READ_BYTES = 1 << 18


def read_body(response: requests.Response, *, deadline: float, max_bytes: int | None = None) -> bytes:
    """The body of a streamed answer.

    Args:
        response: made with `stream=True`.
        deadline: in monotonic time.
        max_bytes: more than this is refused.

    Raises:
        requests.Timeout: if it is not complete by the deadline.
        ValueError: if it is too long.
    """
    body = bytearray()
    while chunk := response.raw.read1(_READ_BYTES, decode_content=True):
        body += chunk
        if time.monotonic() > deadline:
            response.close()
            raise requests.Timeout("no complete answer in time")
        if max_bytes is not None and len(body) > max_bytes:
            response.close()
            raise ValueError(f"an answer of over {max_bytes >> 20} MB")
    return bytes(body)

"""Answers of a client that are there already."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any


def done(result: Any) -> Future[Any]:
    """A future with this result, or with this exception."""
    future: Future[Any] = Future()
    if isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)
    return future

"""What a handler has returned: whether the event was handled, is still being handled, or was not."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Awaitable, Coroutine, Generator
from concurrent.futures import Future
from multiprocessing.pool import AsyncResult
from threading import Thread

from workbench.runtime.event import Outcome

# Work that others do and that may end later; there is no one way to wait for it. By names that its classes have: futures of asyncio,
# gRPC, Dask and Tornado; those of kafka-python.
_TELLS_ITS_END = ("add_done_callback", "add_callback")


class NotHandledError(TypeError):
    """A handler's value tells that the event was not handled, or that nobody can know: a mistake in the handler."""


def runs_later(function: object) -> bool:
    """Whether a call of this only makes something to wait for or to iterate over, and runs nothing of it: `async def`, or `yield`."""
    kinds = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
    return any(kind(it) for kind in kinds for it in (function, getattr(function, "__call__", None)))  # noqa: B004 - of an object


def result_of(value: object) -> object:
    """What a handler's value means: an outcome, or anything else for success. Waits for a future of `concurrent.futures`.

    Raises:
        NotHandledError: for what is still to be awaited, iterated over or waited for, and for an outcome's class (`return Retry`).
        BaseException: whatever the work of a future has raised.
    """
    while isinstance(value, Future):
        value = value.result()
    if isinstance(value, Awaitable | Generator | AsyncGenerator | map | filter):
        if isinstance(value, Coroutine | Generator):
            value.close()
        raise NotHandledError(f"a handler returned a {type(value).__name__}, which nobody runs")
    if isinstance(value, AsyncResult | Thread) or any(hasattr(type(value), name) for name in _TELLS_ITS_END):
        raise NotHandledError(f"a handler returned a {type(value).__name__}, whose work may not have ended")
    if isinstance(value, type) and issubclass(value, Outcome):
        raise NotHandledError(f"a handler returned the class {value.__name__}, not {value.__name__}(…)")
    return value

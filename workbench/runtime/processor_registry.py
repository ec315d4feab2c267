"""`@processor` marks functions as handlers of event types; `load` finds them in a module."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from workbench.errors import ConfigError
from workbench.runtime.event import Decoder, Handler

_MARK = "__workbench_event_types__"
_DECODER_MARK = "__workbench_decoder__"

F = TypeVar("F", bound=Callable[..., Any])


def processor(*event_types: str) -> Callable[[F], F]:
    """Mark a function as the handler of these event types; `"*"` means all types without their own handler.

    Raises:
        ConfigError: if no type is named.
    """
    if not event_types or not all(isinstance(name, str) and name for name in event_types):
        raise ConfigError('@processor names at least one event type, as in @processor("refund").')

    def mark(function: F) -> F:
        setattr(function, _MARK, (*getattr(function, _MARK, ()), *event_types))
        return function

    return mark


def decoder(function: F) -> F:
    """Mark a function as the decoder of records, in a module that `workbench runtime run` loads."""
    setattr(function, _DECODER_MARK, True)
    return function


def collect(functions: Iterable[object]) -> dict[str, Handler]:
    """Collect handlers by event type from the marked ones of `functions`.

    Raises:
        ConfigError: if two handle one type.
    """
    found: dict[str, Handler] = {}
    for function in functions:
        for name in getattr(function, _MARK, ()):
            if name in found and found[name] is not function:
                raise ConfigError(f"Two processors handle the event type {name!r}.")
            found[name] = function  # type: ignore[assignment]
    return found


def load(reference: str) -> tuple[dict[str, Handler], Decoder | None]:
    """Load handlers and decoder from `module` (all marked functions) or `module:name` (a mapping, or one function for all types).

    Raises:
        ConfigError: if it cannot be imported, or holds no processor.
    """
    module_name, _, name = reference.partition(":")
    module = _import(module_name)
    marked = vars(module).values()
    decode = next((item for item in marked if getattr(item, _DECODER_MARK, False) is True), None)
    if not name:
        handlers = collect(marked)
    else:
        value = getattr(module, name, None)
        if isinstance(value, dict):
            handlers = value
        elif callable(value):
            handlers = collect([value]) or {"*": value}
        else:
            raise ConfigError(
                f"{module_name} has no processors with the name {name!r}.", hint="Give a dict or a function."
            )
    if not handlers:
        raise ConfigError(
            f"{reference} has no processor.", hint='Mark functions with @processor("event_type"), or name a dict.'
        )
    return handlers, decode


def _import(name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)  # as `python -m` does
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"The module {error.name!r} was not found.", hint="Check that it is in this folder or installed."
        ) from None
    except Exception as error:
        raise ConfigError(f"Importing {name} failed: {type(error).__name__}: {error}.") from None

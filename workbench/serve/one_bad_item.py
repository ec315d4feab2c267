"""One bad item fails alone: the others of its batch are done all the same."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

from workbench.serve.server_database import StoreError

T = TypeVar("T")
_log = logging.getLogger(__name__)


def each_alone(
    items: Sequence[T], work: Callable[[Sequence[T]], object], failed: Callable[[T, Exception], object]
) -> None:
    """Do the work for all at once; if that fails, for halves, down to the items that cannot be done.

    Args:
        work: leaves nothing behind if it raises. failed: called for an item that fails alone.

    Raises:
        StoreError: of the work: the database is away, or the lead is lost; that is no item's fault.
    """
    if not items:
        return
    try:
        work(items)
    except StoreError:
        raise
    except Exception as error:
        if len(items) == 1:
            _log.exception("one item failed; the others are done")
            failed(items[0], error)
            return
        middle = len(items) // 2
        each_alone(items[:middle], work, failed)
        each_alone(items[middle:], work, failed)

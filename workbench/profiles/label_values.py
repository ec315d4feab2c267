"""What the values of labels say: text, bounds of buckets, states of groups."""

from __future__ import annotations

import math
import re

from workbench.signals import GROUP_STATES


def bound_of(text: str | None) -> float | None:
    """Upper bound of a bucket; None: it is none."""
    try:
        found = float(text or "")
    except ValueError:
        return None
    return None if math.isnan(found) else found


def state_of(name: str) -> float | None:
    """Value of a group's state, such as `PreparingRebalance` or "preparing rebalance"; None: no state is called so."""
    snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    return GROUP_STATES.get(re.sub(r"[^a-z]+", "_", snake).strip("_"))

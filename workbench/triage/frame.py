"""Judged rows as a table: the facts of `SubscriptionFeatures` beside the measured columns, for people's own queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields, is_dataclass
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

import pyarrow as pa

from workbench.triage.subscription import FACTS, SubscriptionFeatures

_PLAIN = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}


def with_facts(measured: pa.Table, rows: Sequence[SubscriptionFeatures]) -> pa.Table:
    """Add a column for each fact.

    Args:
        measured: the columns of `features.subscriptions.of_summary`.
        rows: judged, of the same subscriptions in the same order.
    """
    for name, hint in FACTS.items():
        values = [_plain(getattr(row, name)) for row in rows]
        measured = measured.append_column(name, pa.array(values, _type_of(hint)))
    return measured


def _type_of(hint: Any) -> pa.DataType:
    kind = next((it for it in get_args(hint) if it is not NoneType), hint) if NoneType in get_args(hint) else hint
    if get_origin(kind) is tuple:
        return pa.list_(_type_of(get_args(kind)[0]))
    if kind in _PLAIN:
        return _PLAIN[kind]
    hints = get_type_hints(kind)
    return pa.struct([(field.name, _type_of(hints[field.name])) for field in fields(kind)])


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(it) for it in value]
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value

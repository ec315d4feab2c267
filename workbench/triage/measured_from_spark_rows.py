"""Conversion of Spark's rows to `MeasuredSubscription`, every column and its type checked; and of judged rows to a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

import pyarrow as pa
import pyarrow.compute as pc

from workbench.errors import EvidenceError, WorkbenchError
from workbench.features.subscription_measurements import MeasuredSubscription
from workbench.triage.finding import plain
from workbench.triage.subscription import FACTS, SubscriptionFeatures

_SCALARS: dict[type, Callable[[pa.DataType], bool]] = {
    bool: pa.types.is_boolean,
    int: pa.types.is_integer,
    float: pa.types.is_floating,
    str: lambda it: pa.types.is_string(it) or pa.types.is_large_string(it),
}


def measured_of(table: pa.Table) -> list[MeasuredSubscription]:
    """Convert the rows of `features.subscription_features.of_summary`, in their order.

    Raises:
        WorkbenchError: names every column that is missing, not declared or of another type.
        EvidenceError: names the fields that are null and must not be (such as a topic that a foreign capture does not name).
    """
    if wrong := list(_problems(pa.struct(list(table.schema)), MeasuredSubscription, "")):
        raise WorkbenchError(
            f"Columns of the analysis and declared fields differ: {'; '.join(wrong)}.",
            hint="Spark's workers may have another version of this package, or a column is not declared in MeasuredSubscription.",
        )
    declared = _declared(MeasuredSubscription)
    if nulls := [text for name, hint in declared.items() for text in _nulls(table[name], hint, name)]:
        raise EvidenceError(
            f"Some measurements lack labels: no {', no '.join(nulls)}.",
            hint="Every series of the source needs the labels of its signal.",
        )
    return [_made(MeasuredSubscription, row) for row in table.to_pylist()]


def measured_from(known: Mapping[str, Any]) -> MeasuredSubscription:
    """A subscription from its fields by name; what is left out is not known, or empty."""
    found: MeasuredSubscription = _made(MeasuredSubscription, known)
    return found


def _made(cls: Any, row: Mapping[str, Any]) -> Any:
    """Build one of the declared classes; plain values become fields unchanged."""
    made = {name: make(row.get(name)) for name, make in _makers(cls).items()}
    return cls(**{**dict.fromkeys(_declared(cls)), **row, **made})


@cache
def _makers(cls: type) -> dict[str, Callable[[Any], Any]]:
    """Converters of the fields that are not plain values."""
    made = {name: _maker(_known(hint)[0]) for name, hint in _declared(cls).items()}
    return {name: make for name, make in made.items() if make is not None}


def _maker(kind: Any) -> Callable[[Any], Any] | None:
    if kind in _SCALARS:
        return None
    if get_origin(kind) is Mapping:
        return lambda value: dict(value or ())
    if get_origin(kind) is not tuple:
        return lambda value: None if value is None else _made(kind, value)
    make = _maker(get_args(kind)[0])
    return (lambda value: tuple(value or ())) if make is None else lambda value: tuple(make(it) for it in value or ())


@cache
def _declared(cls: type) -> dict[str, Any]:
    """Types of the fields that are columns, by name."""
    hints = get_type_hints(cls)
    return {field.name: hints[field.name] for field in fields(cls)}


@cache
def _known(hint: Any) -> tuple[Any, bool]:
    """(the type without None, whether None is excluded)."""
    kinds = get_args(hint)
    if NoneType not in kinds:
        return hint, True
    [kind] = (it for it in kinds if it is not NoneType)
    return kind, False


def _problems(given: pa.DataType, hint: Any, name: str) -> Iterator[str]:
    """Problems with the type of a column or a part of it."""
    kind, _ = _known(hint)
    if kind in _SCALARS:
        if not _SCALARS[kind](given):
            yield f"{name} is {given} and not {kind.__name__}"
    elif get_origin(kind) is Mapping:
        if not pa.types.is_map(given):
            yield f"{name} is {given} and no map"
    elif get_origin(kind) is tuple:
        if pa.types.is_list(given) or pa.types.is_large_list(given):
            yield from _problems(given.value_type, get_args(kind)[0], f"{name}[]")
        else:
            yield f"{name} is {given} and no list"
    elif not pa.types.is_struct(given):
        yield f"{name} is {given} and no struct"
    else:
        declared, there = _declared(kind), {field.name: field.type for field in given}
        inside = f"{name}." if name else ""
        yield from (f"{inside}{field} is missing" for field in declared if field not in there)
        yield from (f"{inside}{field} is not declared" for field in there if field not in declared)
        for field, of in declared.items():
            if field in there:
                yield from _problems(there[field], of, f"{inside}{field}")


def _nulls(column: pa.ChunkedArray, hint: Any, name: str) -> Iterator[str]:
    """Fields that are null although they must not be; a null list counts as empty."""
    kind, required = _known(hint)
    if get_origin(kind) is tuple:
        yield from _nulls(pc.list_flatten(column), get_args(kind)[0], name.removesuffix("s"))
        return
    if required and column.null_count:
        yield name
    if kind not in _SCALARS and get_origin(kind) is not Mapping:
        present = column.filter(pc.is_valid(column))
        for field, of in _declared(kind).items():
            yield from _nulls(pc.struct_field(present, field), of, f"{name}.{field}")


_TYPES = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}


def with_facts(measured: pa.Table, rows: Sequence[SubscriptionFeatures]) -> pa.Table:
    """Add a column for each fact, for people's own queries.

    Args:
        measured: the columns of `features.subscription_features.of_summary`.
        rows: judged, of the same subscriptions in the same order.
    """
    for name, hint in FACTS.items():
        values = [plain(getattr(row, name)) for row in rows]
        measured = measured.append_column(name, pa.array(values, _type_of(hint)))
    return measured


def _type_of(hint: Any) -> pa.DataType:
    kind, _ = _known(hint)
    if get_origin(kind) is tuple:
        return pa.list_(_type_of(get_args(kind)[0]))
    return _TYPES.get(kind) or pa.struct([(name, _type_of(of)) for name, of in _declared(kind).items()])

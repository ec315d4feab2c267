"""Every key of `workbench.toml`, and of the runtime's file, from the models that read them (docs/settings.md, `workbench settings`)."""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from workbench.errors import UsageError
from workbench.humanize import did_you_mean
from workbench.reference.markdown_tables import code, page, table
from workbench.runtime.config import ProcessorConfig, RuntimeConfig
from workbench.settings import Cluster, Settings
from workbench.thresholds import Thresholds

SCHEMA = "workbench.settings/1"
# Endings of names, and the unit that they say. Durations are texts with a unit of their own.
_UNITS = (
    ("_per_second", "/s"),
    ("_seconds", "s"),
    ("_bytes", "bytes"),
    ("_messages", "messages"),
    ("_ratio", "ratio"),
    ("_factor", "×"),
    ("rebalances", "rebalances"),
    ("restarts", "restarts"),
)
_BOUNDS = (("gt", ">"), ("ge", "≥"), ("lt", "<"), ("le", "≤"))  # as `annotated_types` names them
ENVIRONMENT = (
    ("WORKBENCH_CONFIG", "The settings file, instead of `workbench.toml` here and the user's."),
    ("WORKBENCH_CLUSTER", "The cluster of commands that are given none, instead of `default`."),
    (
        "WORKBENCH_SPARK_MASTER",
        "Where Spark runs: `local[N]`, `spark://…`, `sc://…`. Default: all cores of this machine.",
    ),
    ("AWS_*", "Credentials, region and endpoint of a store in object storage, as AWS's own tools read them."),
    ("WORKBENCH_CAPTURE_GIB", "Most memory that reading one capture may take, in GiB."),
    ("WORKBENCH_SERVE_TOKEN", "Token of `workbench serve`. Default: one of its own, in the state folder."),
    ("WORKBENCH_MCP_TOKEN", "Token of `workbench mcp --http`."),
    ("WORKBENCH_RUNTIME_*", "Any key of `[runtime]` in capitals, such as `WORKBENCH_RUNTIME_GROUP`."),
    ("NO_COLOR", "No colours on the terminal."),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One key: `kind` in words, `unit` empty if it has none, `default` as TOML writes it (None: there is none), `why` its reason."""

    table: str
    name: str
    kind: str
    unit: str
    default: str | None
    required: bool
    limits: str
    why: str

    @property
    def path(self) -> str:
        """Table and key as one name: `thresholds.slow_ratio`."""
        head = self.table.strip("[]")
        return f"{head}.{self.name}" if head else self.name


def keys() -> list[Key]:
    """Every key of `workbench.toml`, table by table, and then of the runtime's file."""
    return [
        *_keys(Settings, ""),
        *_keys(RuntimeConfig, "[runtime]"),
    ]


def keys_named(name: str | None) -> list[Key]:
    """Keys whose path contains a text; all without one.

    Raises:
        UsageError: if no key does.
    """
    every = keys()
    found = [it for it in every if name is None or name in it.path]
    if not found:
        means = did_you_mean(name or "", list(dict.fromkeys(it.name for it in every)))
        raise UsageError(f"No key of the settings is named {name!r}.{means}", hint="workbench settings lists all.")
    return found


def document(name: str | None = None) -> dict[str, Any]:
    """The document `workbench.settings/1`.

    Raises:
        UsageError: as `keys_named`.
    """
    return {
        "schema": SCHEMA,
        "keys": [
            {
                "path": it.path,
                "table": it.table,
                "name": it.name,
                "type": it.kind,
                "unit": it.unit or None,
                "default": it.default,
                "required": it.required,
                "limits": it.limits or None,
                "why": it.why,
            }
            for it in keys_named(name)
        ],
        "environment": [{"name": it, "why": why} for it, why in ENVIRONMENT],
    }


def as_text(name: str | None = None) -> str:
    """Keys for a terminal.

    Raises:
        UsageError: as `keys_named`.
    """
    lines: list[str] = []
    shown = None
    for it in keys_named(name):
        if it.table != shown:
            lines += ["", it.table or "At the head of the file"]
            shown = it.table
        value = f" = {it.default}" if it.default is not None else ", required" if it.required else ""
        kind = ", ".join(filter(None, (it.kind, it.unit, it.limits)))
        lines += [f"  {it.name}{value}  ({kind})", f"      {it.why}"]
    return "\n".join(lines).lstrip("\n")


def as_markdown() -> str:
    """The page docs/settings.md."""
    lines = [
        "# Settings",
        "",
        "Every key of `workbench.toml`, printed from the code (`workbench settings --markdown`); a test compares."
        " `workbench settings NAME` prints the keys whose name contains a text, `--json` the document `workbench.settings/1`.",
        "",
        "Which file is read: that of `--config`, else of `$WORKBENCH_CONFIG`, else `./workbench.toml`, else"
        ' `~/.config/lag-workbench/workbench.toml`. A *duration* is a text such as `"90s"`, `"15m"`, `"2h"` or `"1d"`. `${NAME}` takes'
        " a value from the environment. How the tables belong together: [clusters](clusters.md).",
    ]
    shown = None
    for it in keys():
        if it.table != shown:
            shown = it.table
            lines += ["", f"## {code(it.table) or 'At the head of the file'}", ""]
            lines += [*([_said(it.table), ""] if _said(it.table) else [])]
            lines += table(["key", "type", "unit", "default", "reason"], [])
        limits = f" {it.limits}" if it.limits else ""
        default = code(it.default) if it.default is not None else "**required**" if it.required else ""
        lines += table((), [(code(it.name), it.kind + limits, it.unit, default, it.why)])[2:]
    lines += ["", "## Environment", ""]
    lines += table(["variable", "meaning"], [(code(name), why) for name, why in ENVIRONMENT])
    return page(lines)


def _said(name: str) -> str:
    return {
        "[thresholds]": "Numbers that the questions of [the tree](tree.md) use. The same table under `[clusters.NAME.thresholds]` is"
        " for one cluster; it replaces the general one as a whole. Objectives of one"
        ' group: `[clusters.NAME.groups."PATTERN"]`.',
        "[runtime]": "The file of `workbench runtime run`, not `workbench.toml`.",
    }.get(name, "")


def _keys(model: type[BaseModel], where: str, *, seen: tuple[type[BaseModel], ...] = ()) -> Iterator[Key]:
    """Keys of a model; the tables within it come after its own keys."""
    inner: list[tuple[type[BaseModel], str]] = []
    for name, field in model.model_fields.items():
        found, shape = _model_in(field.annotation)
        if model is Cluster and name == "name":
            continue  # it stands in the table's own name
        if found is None:
            yield _key(where, name, field)
            continue
        if str in _parts(field.annotation):  # a text alone, too
            yield _key(where, name, field)
        below = f"{where.strip('[]')}.{name}".lstrip(".")
        label = {"dict": f"[{below}.{_any_name(name)}]", "list": f"[[{below}]]"}.get(shape, f"[{below}]")
        if found in (*seen, model) or (found is Thresholds and where) or (name == "windows" and where):
            yield _link(where, name, field, f"[{name}]")
        elif found is ProcessorConfig and shape != "dict":
            yield _link(where, name, field, "[runtime.processors.NAME]")
        else:
            inner.append((found, label))
    for found, label in inner:
        yield from _keys(found, label, seen=(*seen, model))


def _any_name(name: str) -> str:
    return '"PATTERN"' if name == "groups" else "NAME"


def _link(where: str, name: str, field: FieldInfo, same: str) -> Key:
    return Key(
        table=where,
        name=name,
        kind=f"table, as {same}",
        unit="",
        default=None,
        required=False,
        limits="",
        why=field.description or "",
    )


def _key(where: str, name: str, field: FieldInfo) -> Key:
    unit = "" if _is_duration(field.annotation) else next((unit for end, unit in _UNITS if name.endswith(end)), "")
    return Key(
        table=where,
        name=name,
        kind=_kind(field.annotation),
        unit=unit,
        default=_default(field),
        required=field.is_required(),
        limits=_limits(field),
        why=field.description or "",
    )


def _default(field: FieldInfo) -> str | None:
    if field.is_required() or field.default_factory is not None:
        return None
    return None if field.default is None else _toml(field.default)


def _toml(value: Any) -> str:
    if isinstance(value, timedelta):
        return f'"{_duration(value)}"'
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, Enum):
        return json.dumps(value.value)
    return json.dumps(value, ensure_ascii=False)


def _duration(value: timedelta) -> str:
    """As `window.parse_duration` reads it: the largest unit that leaves a whole number."""
    seconds = value.total_seconds()
    unit, size = next(
        (it for it in (("d", 86_400), ("h", 3600), ("m", 60)) if seconds and not seconds % it[1]), ("s", 1)
    )
    return f"{seconds / size:g}{unit}"


def _limits(field: FieldInfo) -> str:
    found = []
    for attribute, sign in _BOUNDS:
        for it in field.metadata:
            bound = getattr(it, attribute, None)
            if bound is not None and not (isinstance(bound, timedelta) and attribute == "le" and bound.days >= 366):
                found.append(f"{sign} {_toml(bound).strip(chr(34))}")
    return ", ".join(found)


def _parts(annotation: Any) -> list[Any]:
    """Alternatives of a type, without None and without what is only written beside it."""
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return _parts(typing.get_args(annotation)[0])
    if origin in (typing.Union, types.UnionType):
        return [part for it in typing.get_args(annotation) for part in _parts(it)]
    return [] if annotation is types.NoneType else [annotation]


def _model_in(annotation: Any) -> tuple[type[BaseModel] | None, str]:
    """The model that a field has or holds, and whether in a `dict` or a `list`."""
    for part in _parts(annotation):
        if isinstance(part, type) and issubclass(part, BaseModel):
            return part, ""
        origin = typing.get_origin(part)
        if origin in (dict, list):
            [*_, last] = typing.get_args(part)
            for it in _parts(last):
                if isinstance(it, type) and issubclass(it, BaseModel):
                    return it, origin.__name__
    return None, ""


def _is_duration(annotation: Any) -> bool:
    return timedelta in _parts(annotation)


_WORDS = {str: "text", bool: "true or false", int: "whole number", float: "number", timedelta: "duration"}


def _kind(annotation: Any) -> str:
    return " or ".join(dict.fromkeys(_word(it) for it in _parts(annotation)))


def _word(part: Any) -> str:
    origin, arguments = typing.get_origin(part), typing.get_args(part)
    if origin is typing.Literal:
        return " or ".join(json.dumps(it) for it in arguments)
    if origin is list and _model_in(part)[0] is not None:
        return "list of tables"
    if origin is list:
        return f"list of {_kind(arguments[0])}"
    if origin is tuple:
        return "[" + ", ".join(_kind(it) for it in arguments) + "]"
    if origin is dict:
        names = f", keys {_kind(arguments[0])}" if typing.get_origin(arguments[0]) is typing.Literal else ""
        return f"table of {_kind(arguments[1])}{names}"
    return _WORDS.get(
        part,
        {"datetime": "timestamp with a time zone", "Path": "path", "SecretStr": "text"}.get(
            getattr(part, "__name__", ""), "text"
        ),
    )

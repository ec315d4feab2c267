"""Options and output that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from workbench.cli.hinted_commands import keep

A_TIME = "15m ago, or a timestamp with a time zone"  # the words for a time in every help
FILE = click.Path(path_type=Path, dir_okay=False)
FOLDER = click.Path(path_type=Path, file_okay=False)
PLACE = click.Path(path_type=Path)  # a file or a folder
F = TypeVar("F", bound=Callable[..., Any])


class Renamed(click.Option):
    """An option whose old names are still accepted; help and completion do not show them."""

    def __init__(self, names: Sequence[str], *, old: Sequence[str], **options: Any) -> None:
        super().__init__(names, **options)
        self.old = tuple(old)

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        """See the base class."""
        new, self.opts = self.opts, [*self.opts, *self.old]
        try:
            super().add_to_parser(parser, ctx)
        finally:
            self.opts = new


def renamed(*names: str, old: Sequence[str], **options: Any) -> Callable[[F], F]:
    """An option with the word that all commands use, and the word that this one had before."""

    return click.option(*names, cls=Renamed, old=old, **options)


class StorePlace(click.Path):
    """A folder, or the address of a store in object storage, which is kept as it is."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """See the base class."""
        from workbench.sweep.storage_port import as_place

        place = as_place(str(value))
        return place if isinstance(place, str) else super().convert(value, param, ctx)


def output_folder(words: str) -> Callable[[F], F]:
    """`--output` of a command that writes a folder."""
    folder = click.Path(path_type=Path, file_okay=False)
    return renamed("--output", "out", old=("--out",), type=folder, required=True, help=words)


def completing(names: str) -> Any:
    """Completion by a function of `cli.completion`, which is loaded when somebody presses Tab."""

    def complete(context: click.Context, parameter: click.Parameter, typed: str) -> Any:
        from workbench.cli import completion

        return completion.of(getattr(completion, names))(context, parameter, typed)

    return complete


def config_option(function: F) -> F:
    """`--config`; read before the others, because the default cluster is in it."""
    return click.option(
        "--config",
        type=FILE,
        is_eager=True,
        help="Settings file. Default: $WORKBENCH_CONFIG, ./workbench.toml or ~/.config/lag-workbench/workbench.toml.",
    )(function)


def cluster_option(*, required: bool = True, unless: Sequence[str] = ()) -> Callable[[F], F]:
    """`--cluster`; by default, the one that `Settings.default_cluster` names.

    Args:
        required: False if a command has other ways to know its cluster, such as a plan: then there is no default.
        unless: parameters of the command that take the place of a cluster: then there is no default either.
    """

    def others(context: click.Context) -> list[str]:
        return [it.opts[0] for it in context.command.params if it.name in unless][:1]

    def default(context: click.Context, _parameter: click.Parameter, given: str | None) -> str | None:
        # What is not given is processed last, so the other parameters are known here.
        if context.resilient_parsing or (given is None and any(context.params.get(name) for name in unless)):
            return given
        name = given or (default_cluster(context.params.get("config"), instead=others(context)) if required else None)
        if name is not None:
            keep(context, "CLUSTER", name)
        return name

    def add(function: F) -> F:
        return click.option(
            "--cluster",
            shell_complete=completing("clusters"),
            callback=default,
            help="Name of a cluster in workbench.toml; `lab` is the running lab."
            + (" Default: $WORKBENCH_CLUSTER, `default` of the settings, or the only one." if required else ""),
        )(function)

    return add


def default_cluster(config: Path | None, *, instead: Sequence[str] = ()) -> str:
    """Name of the cluster that a command takes if it is given none; says which, and why.

    Args:
        instead: options that could take its place.

    Raises:
        UsageError: if the settings leave it open.
    """
    from workbench.safe_output import say
    from workbench.settings import load_settings

    found = load_settings(config).needed_cluster(instead=instead)
    say(found.words)
    return found.name


def capture_option(function: F) -> F:
    """`--capture` in place of a cluster."""
    return click.option(
        "--capture",
        type=FOLDER,
        help="A recorded folder instead of a live cluster.",
    )(function)


def groups_option(function: F) -> F:
    """`--group`, any number of times."""
    return click.option(
        "--group",
        "groups",
        multiple=True,
        shell_complete=completing("groups"),
        help="Only this consumer group. May be repeated.",
    )(function)


def selection_options(function: F) -> F:
    """`--group` and `--topic`, each any number of times."""
    return groups_option(
        click.option("--topic", "topics", multiple=True, help="Only this topic. May be repeated.")(function)
    )


def window_options(function: F) -> F:
    """`--since`, `--until` and `--baseline`."""
    function = click.option("--baseline", help="Length of the baseline before the window. Default: 1h.")(function)
    function = click.option("--until", help=f"End of the window: {A_TIME}. Default: now.")(function)
    return click.option(
        "--since",
        help=f"Start of the window: {A_TIME} (2026-11-21T03:00:00+08:00). Default: 15m ago.",
    )(function)


def json_option(function: F) -> F:
    """`--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print the result as JSON to stdout.")(function)


_SHAPE = "workbench.format"  # in the context's meta


def table_option(function: F) -> F:
    """`-o`: the form of a command's table; and `--json`, which is `-o json`."""

    def keep_shape(context: click.Context, _parameter: click.Parameter, value: str) -> None:
        context.meta[_SHAPE] = value

    def is_json(context: click.Context, _parameter: click.Parameter, value: bool) -> bool:
        return value or context.meta.get(_SHAPE) == "json"

    function = click.option(
        "--json", "as_json", is_flag=True, callback=is_json, help="Print the result as JSON to stdout: -o json."
    )(function)
    return click.option(
        "-o",
        "--format",
        "shape",
        type=click.Choice(["table", "wide", "json", "csv", "tsv"]),
        default="table",
        show_default=True,
        is_eager=True,
        expose_value=False,
        callback=keep_shape,
        help="wide: all columns, however narrow the terminal; csv, tsv: a line a row, with the fields of the JSON.",
    )(function)


def asked_for_rows() -> bool:
    """Whether `-o csv` or `-o tsv` was given."""
    return click.get_current_context().meta.get(_SHAPE) in ("csv", "tsv")


def shape_asked_for() -> str:
    """What `-o` says: table, wide, json, csv or tsv; `--json` says json."""
    context = click.get_current_context()
    return "json" if context.params.get("as_json") else str(context.meta.get(_SHAPE, "table"))


def wrote_rows(rows: Callable[[], Iterable[Mapping[str, Any]]]) -> bool:
    """Write a table's rows if CSV or TSV was asked for, and set tables wide if that was; whether the rows are written."""
    shape = click.get_current_context().meta.get(_SHAPE)
    if shape in ("csv", "tsv"):
        from workbench.safe_output import write_rows

        write_rows(rows(), separator="," if shape == "csv" else "\t")
        return True
    if shape == "wide":
        from workbench.terminal_tables import FittingTable

        FittingTable.wide = True
    return False

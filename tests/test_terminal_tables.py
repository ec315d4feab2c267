"""Rules of tables and pages: what must be typed or compared stays whole, on a terminal and in a pipe."""

from __future__ import annotations

import io

import pytest
from rich.text import Text

from workbench.humanize import printable
from workbench.terminal_tables import FittingTable, Line, SafeConsole

LONG = "kafka_exporter_fork_of_the_platform_team"


class Pipe(io.StringIO):
    """Not a terminal."""


def table() -> FittingTable:
    """Two names, a number and words."""
    it = FittingTable(title="Profiles")
    it.add_column("profile")
    it.add_column("topic")
    it.add_column("lag", justify="right")
    it.add_column("why", ratio=1)
    it.add_row(
        Text(LONG), Text("orders-of-the-whole-world"), "1,234,567", "one processor is slow and all others wait for it"
    )
    it.add_row(Text("jmx"), Text("b"), "1", "short")
    return it


def shown(width: int | None, *, terminal: bool, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Lines of the table."""
    file = Pipe()
    monkeypatch.setattr("sys.stdout", file)
    options = {"width": width} if terminal else {}
    console = SafeConsole(force_terminal=terminal, color_system=None, legacy_windows=False, **options)
    console.print(table())
    return file.getvalue().splitlines()


@pytest.mark.parametrize("width", [39, 60, 80, 100, 120])
def test_names_and_numbers_are_never_cut(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the columns do not fit, each row is a record."""
    lines = shown(width, terminal=True, monkeypatch=monkeypatch)
    text = "\n".join(lines)
    for whole in (LONG, "orders-of-the-whole-world", "1,234,567"):
        assert whole in text
    assert "…" not in text
    assert max(map(len, (line.rstrip() for line in lines))) <= max(width, len(LONG))


@pytest.mark.parametrize("terminal", [True, False])
def test_the_longest_topic_of_kafka_is_whole(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """249 characters: on a terminal of 80 columns in one piece, to be copied, and in a pipe; a longer text is a prank."""
    monkeypatch.delenv("COLUMNS", raising=False)
    file = Pipe()
    monkeypatch.setattr("sys.stdout", file)
    longest = "payments.settlement." + "x" * 229
    it = FittingTable()
    it.add_column("topic")
    it.add_column("lag", justify="right")
    it.add_row(Text(printable(longest)), "7")
    SafeConsole(force_terminal=terminal, color_system=None, **({"width": 80} if terminal else {})).print(it)
    assert longest in file.getvalue().splitlines()[0 if terminal else 1]
    assert printable(longest + "y").endswith("…")


def test_a_table_that_fits_is_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line of heads, and a line for each row."""
    lines = shown(140, terminal=True, monkeypatch=monkeypatch)
    assert [len(line.split()) for line in lines[1:2]] == [4]
    assert len(lines) == 4


def test_a_piped_table_is_one_line_a_row_without_padding(monkeypatch: pytest.MonkeyPatch) -> None:
    """`grep` and `awk` see whole rows."""
    monkeypatch.delenv("COLUMNS", raising=False)
    lines = shown(None, terminal=False, monkeypatch=monkeypatch)
    assert len(lines) == 4
    assert all(line == line.rstrip() for line in lines)
    assert LONG in lines[2]
    assert "wait for it" in lines[2]


def test_columns_is_obeyed_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a terminal of that width."""
    monkeypatch.setenv("COLUMNS", "60")
    lines = shown(None, terminal=False, monkeypatch=monkeypatch)
    assert max(map(len, lines)) <= 60
    assert len(lines) > 4


@pytest.mark.parametrize("terminal", [True, False])
def test_a_command_is_one_line_at_any_width(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """It can be copied whole."""
    monkeypatch.setenv("COLUMNS", "40")
    file = Pipe()
    monkeypatch.setattr("sys.stdout", file)
    command = "kafka-consumer-groups --bootstrap-server kafka-1.example.com:9093 --describe --group payments"
    SafeConsole(force_terminal=terminal, color_system=None, width=40).print(Line(command, indent=5))
    assert file.getvalue() == f"     {command}\n"

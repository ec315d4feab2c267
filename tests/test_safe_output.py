"""Rules of writing to people: a text from outside is shown as it is written, steers nothing and forges nothing."""

from __future__ import annotations

import io
import json
import logging
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table
from rich.text import Text

from evaluation.stories import WINDOW
from tests.triage.test_checks import finding
from workbench.api.groups_now import SnapshotResult
from workbench.cli.snapshot import _show
from workbench.cli.triage_watch_and_compare import show_comparison, watch
from workbench.humanize import for_chat, lines, one_line, printable
from workbench.queues.snapshot_views import GroupView, Snapshot
from workbench.safe_output import _LogFormatter, say, say_error, tell, tell_page, write_json
from workbench.terminal_tables import SafeConsole, step_bar
from workbench.triage.triage_engine import Triage
from workbench.triage.verdict_names import Verdict

HOSTILE = (
    "a[/b][link=http://evil]x[/link]:skull:\x1b]8;;http://evil\x07\x9b31m\nforged\r\u202egro\u2066\u200b\U000e0041"
)
# What a terminal obeys, what turns a text round, and what is not seen.
STEERS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e0fff]"
)


def view(name: str) -> GroupView:
    """A group without members."""
    return GroupView(group=name, state="stable", protocol="classic", coordinator=None, members=())


@given(st.text() | st.text(alphabet="\x1b[]\x9b\n\r\u202e;/link=ab"))
def test_a_text_from_outside_steers_no_terminal(text: str) -> None:
    """Whatever it holds, nothing is left that a terminal obeys; names and messages are on one line, and all can be written."""
    for shown in (printable(text), one_line(text), for_chat(text)):
        assert not STEERS.search(shown)
        assert "\n" not in shown
        shown.encode()
    assert not STEERS.search(lines(text))


def test_every_way_to_print_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    """Lines stay one line each, on stdout and on stderr; a page keeps its lines and nothing else."""
    tell(HOSTILE)
    say(HOSTILE)
    say_error(HOSTILE, HOSTILE)
    shown = capsys.readouterr()
    assert len(shown.out.splitlines()) == 1
    assert len(shown.err.splitlines()) == 3
    tell_page(f"# title\n{HOSTILE}")
    page = capsys.readouterr().out
    for text in (shown.out, shown.err, page):
        assert not STEERS.search(text)
    assert "[/b][link=http://evil]" in page


def test_json_steers_nothing_and_is_whole(capsys: pytest.CaptureFixture[str]) -> None:
    """It is ASCII without control characters, and reads back as what it was."""
    write_json({HOSTILE: [HOSTILE, "\x7f", "\ud800"]}, indent=None)
    shown = capsys.readouterr().out
    assert not STEERS.search(shown)
    assert shown.isascii()
    assert json.loads(shown) == {HOSTILE: [HOSTILE, "\x7f", "\ud800"]}


def test_tables_and_bars_read_no_markup() -> None:
    """Text in a table, its title, a header, a bar or a plain print is neither markup nor emoji, and steers nothing."""
    file = io.StringIO()
    console = SafeConsole(file=file, force_terminal=True, width=200, color_system=None, legacy_windows=False)
    table = Table(title=HOSTILE)
    table.add_column(HOSTILE)
    table.add_row(HOSTILE)
    table.add_row(Text(HOSTILE))
    console.print(table)
    console.print(HOSTILE)
    console.line_of(HOSTILE)
    with step_bar(console, HOSTILE + "{x}") as bar:
        bar.add_task("")
    shown = file.getvalue()
    for ours in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]", shown):
        shown = shown.replace(ours, "")  # cursor and erase, by which a bar is drawn
    assert not STEERS.search(shown.replace("\r", ""))
    assert "http://evil" in shown
    assert "]8;;" not in re.sub(r"\\(x1b|x9b)\]8;;", "", shown)
    assert "💀" not in shown


def test_a_group_with_a_hostile_name_ends_no_snapshot(capsys: pytest.CaptureFixture[str]) -> None:
    """It is one of the groups, and the others are shown beside it."""
    snapshot = Snapshot(
        taken_at=0.0, groups=(view(HOSTILE), view("a[/b]"), view("calm")), commits={}, ends={}, starts={}
    )
    _show(SnapshotResult(cluster="c", groups=snapshot, ranked=None, incomplete=()))
    shown = capsys.readouterr().out
    assert "a[/b]  classic, stable" in shown
    assert "calm" in shown
    assert not STEERS.search(shown)


@pytest.mark.parametrize("as_json", [False, True])
def test_looking_again_steers_no_terminal(as_json: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither what --compare prints nor what --watch does, whatever the groups, the sentences and the checks hold."""
    sick = finding(Verdict.SLOW_PROCESSOR, group=HOSTILE)
    action = replace(sick.actions[0], title=HOSTILE, verify=HOSTILE)
    sick = replace(sick, headline=HOSTILE, actions=(action,))
    triage = Triage(window=WINDOW, source={}, findings=(sick,))
    show_comparison(triage, triage, as_json=as_json)
    watch(lambda: triage, every_seconds=0.0, for_seconds=0.0, as_json=as_json)
    shown = capsys.readouterr()
    assert "evil" in shown.out
    assert not STEERS.search(shown.out + shown.err)


def test_a_log_entry_is_one_line() -> None:
    """A name forges no entry, and a traceback steers no terminal."""
    formatter = _LogFormatter("%(levelname)s %(message)s")
    try:
        raise ValueError(HOSTILE)
    except ValueError as error:
        record = logging.LogRecord("x", logging.WARNING, "", 1, "group %s", (HOSTILE,), (type(error), error, None))
    shown = formatter.format(record)
    assert not STEERS.search(shown)
    assert shown.splitlines()[0].startswith("WARNING group a[/b]")
    assert "forged" in shown.splitlines()[0]


@pytest.mark.parametrize(
    ("name", "never"),
    [
        ("<!channel>", "<"),
        ("@here", "@"),
        ("<@U123>", "<@"),
        ("[x](http://evil)", "]("),
        ("https://evil.example", "://"),
        ("`code`", "`"),
        ("a\nb", "\n"),
    ],
)
def test_a_name_calls_nobody_in_a_chat(name: str, never: str) -> None:
    """Mentions, commands and links of chats are shown by their look-alikes."""
    assert never not in for_chat(name)

"""`workbench runbooks`: check them against the tree and the rules, write their generated parts, show one."""

from __future__ import annotations

from pathlib import Path

import click

from workbench.cli.help import Group
from workbench.cli.options import FOLDER, completing, json_option
from workbench.errors import ExitCode, UsageError
from workbench.files import write_text
from workbench.humanize import did_you_mean, plural
from workbench.safe_output import say, tell, tell_page, write_json


@click.group(name="runbooks", cls=Group)
def command() -> None:
    """Show, check or regenerate the runbooks. Each verdict and each alert has one."""


def _folder_option(function: click.decorators.FC) -> click.decorators.FC:
    return click.option("--dir", "folder", type=FOLDER, help="Folder of the runbooks. Default: the shipped ones.")(
        function
    )


def _folder(given: Path | None) -> Path:
    from workbench.shipped_files import shipped

    if given is not None and not given.is_dir():
        raise UsageError(f"There is no folder {given}.")
    return given or shipped("runbooks")


@command.command()
@_folder_option
@json_option
def check(folder: Path | None, as_json: bool) -> int:
    """Check that rules, runbooks and verdicts match one to one. Exit code 3 if they do not.

    If promtool is on PATH (or in the lab's cache), it also checks the syntax of the rules.
    """
    from workbench.runbooks.check_runbooks import problems, read_rules
    from workbench.runbooks.promtool import check_rules
    from workbench.runbooks.runbook_file import read_books

    place = _folder(folder)
    found = problems(place)
    syntax = check_rules(place)
    found += syntax.problems
    books, rules = len(read_books(place)), len(read_rules(place))
    if as_json:
        write_json({"runbooks": books, "rules": rules, "problems": found, "promtool": syntax.ran})
    else:
        for text in found:
            tell(text)
        if not found:
            tell(f"{books} runbooks, {plural(rules, 'alert rule')}, one to one with the verdicts of the tree.")
        if not syntax.ran:
            say("promtool was not found: the syntax of the rules was not checked.")
    return ExitCode.FINDINGS if found else ExitCode.OK


@command.command()
@_folder_option
def write(folder: Path | None) -> int:
    """Regenerate the runbooks' diagnosis steps and pictures from the tree, and the alert rules of verdicts and brokers."""
    from workbench.runbooks.broker_alert_rules import FILE as BROKERS
    from workbench.runbooks.broker_alert_rules import shipped_rules
    from workbench.runbooks.rules_from_runbooks import FILE, is_ours, verdict_rules
    from workbench.runbooks.runbook_file import read_books

    changed, place = 0, _folder(folder)
    books = read_books(place)
    for book in books:
        text = book.regenerated()
        if text != book.text:
            write_text(book.path, text)
            changed += 1
    say(f"{changed} runbooks changed.")
    if is_ours(place):
        (place / FILE).parent.mkdir(exist_ok=True)
        write_text(place / FILE, verdict_rules(books))
        write_text(place / BROKERS, shipped_rules())
    else:
        say(f"{FILE} is your own file and was not changed.")
    return ExitCode.OK


@command.command()
@click.argument("name", shell_complete=completing("runbooks"))
@_folder_option
def show(name: str, folder: Path | None) -> int:
    """Print the runbook of an alert (SlowProcessor) or a verdict (slow_processor)."""
    from workbench.runbooks.runbook_file import for_people, read_books

    books = read_books(_folder(folder))
    for book in books:
        if name in (book.front.alert, *book.front.also, str(book.front.verdict)):
            tell_page(for_people(book.text))
            return ExitCode.OK
    known = [it.front.alert for it in books]
    raise UsageError(
        f"There is no runbook {name!r}.{did_you_mean(name.replace('_', ''), known)}",
        hint=f"Runbooks: {', '.join(known)}.",
    )

"""A runbook with the values of one finding filled in: what on call reads in the terminal."""

from __future__ import annotations

import re
from pathlib import Path

from workbench.humanize import one_line, shell_word
from workbench.queues.tool_words import tools_of
from workbench.runbooks.runbook_file import Book, read_book
from workbench.triage.finding import Finding

_HIDDEN = re.compile(r"^---\n.*?\n---\n|<!--.*?-->\n?", re.DOTALL)
_TO_BROKERS = '--bootstrap-server "$BOOTSTRAP"'  # as the runbooks of Kafka's verdicts have it
_PLACE = re.compile(rf'{re.escape(_TO_BROKERS)}|"\$[A-Z]+"')
_CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def filled(book: Book, finding: Finding, *, bootstrap: str | None = None, login_file: str | None = None) -> str:
    """The runbook's text for this subscription: the finding's own actions before the general ones, and commands ready to copy.

    Names come from outside: in a command each is one shell word, elsewhere one line without control characters.
    """
    values = {
        '"$CLUSTER"': shell_word(finding.cluster),
        '"$GROUP"': shell_word(finding.group),
        '"$TOPIC"': shell_word(finding.topic),
        _TO_BROKERS: tools_of(bootstrap, login_file=login_file).to_brokers or _TO_BROKERS,
    }

    def put(match: re.Match[str]) -> str:
        return _PLACE.sub(lambda it: values.get(it[0], it[0]), match[0])

    text = _CONSOLE.sub(put, _HIDDEN.sub("", book.text)).strip()
    return f"{text}\n\n{_actions(finding)}" if finding.actions else text


def _actions(finding: Finding) -> str:
    lines = ["## For this finding", "", one_line(finding.headline), ""]
    for number, action in enumerate(finding.actions, 1):
        lines.append(f"{number}. {one_line(action.title)}")
        if action.command:
            lines.append(f"   $ {one_line(action.command)}")
        lines.append(f"   check: {one_line(action.verify)}")
    return "\n".join(lines)


def book_of(finding: Finding, folder: Path) -> Book | None:
    """The runbook of a finding; None for a healthy one."""
    return read_book(folder / Path(finding.runbook).name) if finding.runbook else None

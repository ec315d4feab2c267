"""The alert rules of the verdicts, generated from their runbooks: severity, name and meaning stand there already."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from workbench.runbooks.runbook_file import Book
from workbench.triage.verdict_names import Verdict

FILE = Path("rules") / "verdicts.yml"
_MARK = "# Generated from the runbooks by `workbench runbooks write`. Delete this line to maintain the file yourself.\n"
_HEAD = (
    _MARK
    + "# One alert for each verdict of the tree. The scheduled health report exports the metric (see docs/reports.md).\n"
    + "groups:\n  - name: workbench-verdicts\n    rules:\n"
)


def verdict_rules(books: Iterable[Book]) -> str:
    """The file of rules, in the order of `Verdict`."""
    by_verdict = {book.front.verdict: book for book in books}
    return _HEAD + "".join(_rule(by_verdict[verdict], verdict) for verdict in Verdict if verdict in by_verdict)


def is_ours(folder: Path) -> bool:
    """Whether the file of rules in this folder of runbooks is a generated one; one that is missing is."""
    place = folder / FILE
    return not place.is_file() or place.read_text(encoding="utf-8").startswith(_MARK)


def _rule(book: Book, verdict: Verdict) -> str:
    words = verdict.value.replace("_", " ")
    summary = f"{{{{ $labels.group }}}} on {{{{ $labels.topic }}}}: {words}"
    return (
        f"      - alert: {book.front.alert}\n"
        f'        expr: workbench_verdict{{verdict="{verdict.value}"}} == 1\n'
        f"        labels:\n"
        f"          severity: {book.front.severity}\n"
        f"          verdict: {verdict.value}\n"
        f"        annotations:\n"
        f"          summary: {json.dumps(summary, ensure_ascii=False)}\n"
        f"          description: {json.dumps(book.meaning, ensure_ascii=False)}\n"
        f"          runbook_url: runbooks/{book.path.name}\n"
    )

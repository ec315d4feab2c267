"""Check that rules, runbooks and verdicts match one to one."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import yaml

from workbench.errors import UsageError
from workbench.humanize import plural
from workbench.runbooks.rules_from_runbooks import FILE, is_ours, verdict_rules
from workbench.runbooks.runbook_file import SECTIONS, Book, read_books
from workbench.triage.question_trees_by_queue import runbook_of
from workbench.triage.verdict_names import AnyVerdict, DispatchVerdict, Verdict

SEVERITIES = ("page", "ticket")


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRule:
    """One alert rule."""

    file: str
    alert: str
    severity: str
    verdict: str | None
    runbook_url: str
    summary: str


def read_rules(folder: Path) -> list[AlertRule]:
    """All alert rules beside the runbooks.

    Raises:
        UsageError: if a file is no rule file.
    """
    found = []
    for path in sorted((folder / "rules").glob("*.yml")):
        try:
            document = yaml.safe_load(path.read_text(encoding="utf-8"))
            for group in document["groups"]:
                for rule in group["rules"]:
                    labels, words = rule.get("labels", {}), rule.get("annotations", {})
                    found.append(
                        AlertRule(
                            file=path.name,
                            alert=rule["alert"],
                            severity=labels.get("severity", ""),
                            verdict=labels.get("verdict"),
                            runbook_url=words.get("runbook_url", ""),
                            summary=words.get("summary", ""),
                        )
                    )
        except (yaml.YAMLError, KeyError, TypeError, AttributeError):
            raise UsageError(f"{path} is not a file of alert rules.") from None
    return found


def problems(folder: Path) -> list[str]:
    """Return a sentence for each mismatch; empty if everything matches."""
    books, rules = read_books(folder), read_rules(folder)
    found: list[str] = []
    by_alert = Counter(rule.alert for rule in rules)
    found += [
        f"The rules define the alert {name} {plural(number, 'time')}."
        for name, number in by_alert.items()
        if number > 1
    ]
    names = {book.path.stem for book in books}
    more = {name for book in books for name in book.front.also}
    found += [f"The alert {name} has no runbook {name}.md." for name in by_alert if name not in names | more]
    found += [f"{name}.md belongs to no alert." for name in sorted(names) if name not in by_alert]
    found += [f"A runbook names the alert {name}, and no rule defines it." for name in sorted(more - by_alert.keys())]
    verdicts = Counter(book.front.verdict for book in books if book.front.verdict is not None)
    every: tuple[AnyVerdict, ...] = (*Verdict, *DispatchVerdict)
    for verdict in every:
        expected = runbook_of(verdict)
        if expected is None:
            continue
        if verdicts[verdict] != 1:
            found.append(f"The verdict {verdict} has {verdicts[verdict]} runbooks.")
        elif not (folder / Path(expected).name).is_file():
            found.append(f"The runbook of {verdict} is not {expected}.")
        if sum(rule.verdict == str(verdict) for rule in rules) != 1:
            found.append(f"The verdict {verdict} does not have exactly one alert.")
    if is_ours(folder) and (
        not (folder / FILE).is_file() or verdict_rules(books) != (folder / FILE).read_text(encoding="utf-8")
    ):
        found.append(f"{FILE} does not match the runbooks; run: workbench runbooks write.")
    for book in books:
        found += _of_book(book, [rule for rule in rules if rule.alert in (book.path.stem, *book.front.also)])
    return found


def _of_book(book: Book, rules: list[AlertRule]) -> list[str]:
    name, found = book.path.name, []
    if not book.path.stem == book.front.alert == book.title:
        found.append(f"{name}: file, front matter and heading name different alerts.")
    if tuple(it for it in book.sections if it in SECTIONS) != SECTIONS:
        found.append(f"{name}: the sections are not {', '.join(SECTIONS)}, in this order.")
    if book.front.severity not in SEVERITIES:
        found.append(f"{name}: severity {book.front.severity!r} is not one of {', '.join(SEVERITIES)}.")
    if book.regenerated() != book.text:
        found.append(f"{name}: the diagnosis differs from the tree; run: workbench runbooks write.")
    if book.front.verdict is not None and book.text.count("<!-- generated:") != 2:
        found.append(f"{name}: diagnosis and picture are not marked as generated.")
    if not book.commands:
        found.append(f"{name}: it has no command.")
    for rule in rules:
        if not rule.runbook_url.endswith(f"/{name}"):
            found.append(f"{name}: the runbook_url of its alert does not end in /{name}.")
        if rule.alert in book.front.also:
            if rule.severity not in SEVERITIES:
                found.append(
                    f"{name}: severity {rule.severity!r} of {rule.alert} is not one of {', '.join(SEVERITIES)}."
                )
            if f"`{rule.alert}`" not in book.meaning:
                found.append(f"{name}: its meaning does not name {rule.alert}.")
        elif rule.severity != book.front.severity:
            found.append(f"{name}: severity {book.front.severity}, but the rule says {rule.severity}.")
        if not rule.summary:
            found.append(f"{name}: its alert has no summary.")
        if (str(book.front.verdict) if book.front.verdict else None) != rule.verdict:
            found.append(f"{name}: its alert is for the verdict {rule.verdict}.")
    return found

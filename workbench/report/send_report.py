"""Delivery of a result: alerts to Alertmanager, JSON to a webhook, an annotation to Grafana, a text for a chat. Each is optional."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from html import escape
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import urlsplit

import requests
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_exponential

from workbench.errors import SourceUnreachableError, UsageError
from workbench.http_client import WebSession, cause
from workbench.humanize import duration, for_chat, printable
from workbench.limited_reads import is_web_address
from workbench.masking import remember, secrets_in_url
from workbench.report.health_result import NEWS
from workbench.report.terminal import to_runbook
from workbench.triage.owner_links_commands import WAITING
from workbench.triage.question_trees_by_queue import runbook_of
from workbench.triage.verdict_names import DispatchVerdict, Verdict

ATTEMPTS = 3
_TIMEOUT_SECONDS = 10.0
_MAX_ANSWER_BYTES = 1 << 20  # only its status is looked at
# Twice the usual interval of the report: one run that is missed ends its alerts visibly late, not early.
ALERT_LASTS = timedelta(hours=48)
_CHAT_LINES = 20  # a chat's message has room for about 3,000 characters

Document = Mapping[str, Any]
Sleep = Callable[[float], None]


def _shipped_runbook(verdict: str) -> str:
    return runbook_of(Verdict(verdict) if verdict in set(Verdict) else DispatchVerdict(verdict)) or ""


def alerts_of(
    document: Document, *, before: Document | None = None, lasts: timedelta = ALERT_LASTS, now: datetime | None = None
) -> list[dict[str, Any]]:
    """Alertmanager's API v2: an alert for each subscription that is not healthy.

    Labels identify an alert across runs, so they contain no numbers. Those of the run `before` that are not true any more end now; of
    subscriptions that are gone, nobody knows.
    """
    now = now or datetime.now(UTC)
    found = _firing(document, now + lasts)
    true = {frozenset(it["labels"].items()) for it in found}
    judged = {(line["group"], line["topic"]) for line in document["lines"]}
    for alert in _firing(before, now) if before is not None else ():
        labels = alert["labels"]
        if frozenset(labels.items()) not in true and (labels["group"], labels["topic"]) in judged:
            found.append(alert)
    return found


def _firing(document: Document, ends: datetime) -> list[dict[str, Any]]:
    found = []
    for line in _sick(document):
        if line.get("muted"):
            continue
        shipped = _shipped_runbook(line["verdict"])
        runbook = line.get("runbook") or shipped
        found.append(
            {
                "labels": {
                    "alertname": PurePosixPath(shipped).stem,
                    "cluster": document["cluster"],
                    "group": line["group"],
                    "topic": line["topic"],
                    "verdict": line["verdict"],
                    "source": "workbench",
                },
                "annotations": {
                    "summary": for_chat(line["headline"]),  # the text that an Alertmanager sends to chats
                    # A path in the package leads nowhere from a chat: the command that prints the runbook does.
                    **({"runbook_url": runbook} if "://" in runbook else {"runbook": to_runbook(runbook)}),
                    "run_id": document["run_id"],
                    "time_lag": for_chat(_age(line)),
                    **({"owner": for_chat(line["owner"])} if line.get("owner") else {}),
                },
                "endsAt": ends.isoformat(),
            }
        )
    return found


def annotation_of(document: Document) -> dict[str, Any]:
    """Grafana's annotation of the judged window; its text is drawn as HTML, so it is escaped. Times are in milliseconds."""
    window = document["judged"]
    start, end = (round(datetime.fromisoformat(window[name]).timestamp() * 1000) for name in ("start", "end"))
    return {
        "time": start,
        "timeEnd": end,
        "tags": [
            "workbench",
            f"cluster:{document['cluster']}",
            *(f"verdict:{it}" for it in sorted(document["verdicts"])),
        ],
        "text": "<br>".join(escape(text) for text in _words(document, str)),
    }


def chat_text(document: Document) -> str:
    """A few lines of plain text, worst first; names in it are neither mentions nor links."""
    return "\n".join(_words(document, for_chat))


def _words(document: Document, shown: Callable[[str], str]) -> list[str]:
    waiting = Counter(line["state"] for line in document["lines"] if line.get("muted") == WAITING)
    counts = {name: number - waiting[name] for name, number in document["states"].items()}
    counts["waiting replay"] = waiting.total()
    states = ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in counts.items() if number)
    news = Counter(line["news"] for line in document["lines"] if line.get("news"))
    parts = [states, ", ".join(f"{news[kind]} {kind}" for kind in NEWS if news[kind])]
    judged = len(document["lines"]) - document.get("budget_unknown", 0)
    if judged > 0:  # "0 over their budget" would say more than anybody knows
        parts.append(f"{document['over_budget']} of {judged} over their error budget")
    lines = [f"{shown(printable(document['cluster']))}: {'; '.join(it for it in parts if it)}."]
    sick = _sick(document)
    for line in sick[:_CHAT_LINES]:
        who = f"{shown(printable(line['group']))} ← {shown(printable(line['topic']))}"
        notes = [f"owner {shown(printable(line['owner']))}"] if line.get("owner") else []
        if line.get("muted") == WAITING:
            lines.append(f"• {who}: {WAITING}")
            continue
        notes += [f"muted {shown(printable(line['muted']))}"] if line.get("muted") else []
        behind = f"{shown(_age(line))} behind, {line['verdict'].replace('_', ' ')}"
        lines.append(f"• {who}: {behind}" + (f" ({'; '.join(notes)})" if notes else ""))
    if len(sick) > _CHAT_LINES:
        lines.append(f"… and {len(sick) - _CHAT_LINES} more.")
    return lines


def _age(line: Mapping[str, Any]) -> str:
    """The time lag as the report says it; a result of an older version has its seconds alone."""
    return line.get("time_lag_words") or duration(line["time_lag_seconds"])


def _sick(document: Document) -> list[Any]:
    return [line for line in document["lines"] if line["state"] != "healthy"]


class _RefusedError(Exception):
    """The receiver has rejected it."""


class _PassingError(_RefusedError):
    """The receiver may accept it later."""


def send(url: str, body: Any, *, what: str, token: str | None = None, sleep: Sleep = time.sleep) -> None:
    """POST JSON; retry after 1 s and 4 s without an answer, or for 429 or 5xx.

    Raises:
        UsageError: if the address is no URL.
        SourceUnreachableError: if it was not accepted. The message never contains the token.
    """
    if not is_web_address(url):
        raise UsageError(f"The address of the {what} is not an http or https URL.")
    parts = urlsplit(url)
    remember(token, *secrets_in_url(url))
    headers = {"Authorization": f"Bearer {token}"} if token else {}

    @retry(
        retry=retry_if_exception_type(_PassingError),
        stop=stop_after_attempt(ATTEMPTS),
        wait=wait_exponential(multiplier=1, exp_base=4),
        sleep=sleep,
        reraise=True,
    )
    def post() -> None:
        try:
            with WebSession(deadline_seconds=_TIMEOUT_SECONDS, max_bytes=_MAX_ANSWER_BYTES, headers=headers) as session:
                status = session.post(url, json=body, allow_redirects=False).status_code
        except requests.RequestException as error:
            raise _PassingError(cause(error)) from None
        if not 200 <= status < 300:
            raise (_PassingError if status == 429 or status >= 500 else _RefusedError)(f"it answers {status}")

    try:
        post()
    except _RefusedError as refusal:
        raise SourceUnreachableError(
            f"The {what} at {parts.hostname}:{parts.port or parts.scheme} did not accept the result: {refusal}.",
            hint="The run itself is not affected.",
        ) from None

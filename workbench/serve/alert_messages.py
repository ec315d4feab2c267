"""A message in the form of its target. Names in it are text: no mention, no link, no markup, no second header."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from email.utils import format_datetime
from html import escape
from typing import Any
from urllib.parse import quote

from workbench.alerts import OWN_ALERT
from workbench.humanize import for_chat, groups_on_topics, one_line, plural, printable
from workbench.masking import masked, masked_document
from workbench.serve.outbox import Parcel
from workbench.serve_settings import Target

_SLACK_TEXT = 2900  # a section has room for 3,000 characters
_HEADER_TEXT = 140
_LINES, _LINE_TEXT = 12, 200  # of causes in one paragraph
_TITLE_TEXT = 300
_TEAMS_LINES = (_LINE_TEXT, 120, 60, 20)
# Teams takes 28 KB ("Message size limit for Teams": learn.microsoft.com, limits-specifications-teams), and others add to it.
_TEAMS_BYTES = 24_000
_ENDS_SECONDS = 3600.0  # four times the pause after which `who_is_told` repeats an alert
_TITLES = {
    "new": "{verdict}",
    "verdict": "{verdict} (before: {before})",
    "grows": "{verdict}, now {total}",
    "recovered": "recovered (was: {before})",
    "healthy": "an alert, but the group is healthy",
    "ended": "closed (was: {before})",
    "digest": "{verdict}{more}",
    "ends": "{ended} that were told together",
}
_MARKS = {"lagging": "🔴", "cannot_tell": "🟣", "draining": "🟡", "healthy": "🟢"}


def title(parcel: Parcel) -> str:
    """One line: what, where."""
    it = parcel.message
    members = groups_on_topics(it.total) if it.origin is None else plural(it.total, "group")
    words = _TITLES[it.kind].format(
        verdict=it.verdict.replace("_", " "), before=(it.before or "no verdict").replace("_", " "), total=members,
        more=f", and {plural(len(it.others), 'more cause', 'more causes')}" if it.others else "",
        ended=plural(len(it.others), "cause is over", "causes are over"),
    )  # fmt: skip
    if it.kind == "ends":
        return masked(one_line(f"{printable(it.cluster)}: {words}"))
    who = f"{printable(it.members[0][0])} ← {printable(it.members[0][1])}" if it.total == 1 and it.members else members
    if it.origin is not None:
        who = f"{printable(it.origin)} · {members}" if it.total else printable(it.origin)
    return masked(one_line(f"{printable(it.cluster)}: {words} · {who}"))


def paragraphs(parcel: Parcel, shown: Callable[[str], str], *, line: int = _LINE_TEXT) -> list[str]:
    """The rest, worst first: headline, members, what to do, an earlier incident.

    Args:
        shown: makes foreign text harmless. line: characters of each cause of a digest.
    """
    it = parcel.message
    found = [shown(it.headline), *([it.trend] if it.trend else [])]
    if (it.total > 1 or it.origin is not None) and it.members:
        found.append(
            "\n".join(f"• {shown(printable(group))} ← {shown(printable(topic))}" for group, topic, _ in it.members)
        )
        if it.total > len(it.members):
            found[-1] += f"\n… and {it.total - len(it.members):,} more"
    lines = [f"• {shown(text)}"[:line] for text in it.others]
    for start in range(0, len(lines), _LINES):  # each cause is named; a chat's block has room for so many
        found.append(
            "\n".join(
                [*(["Over:" if it.kind == "ends" else "Also:"] if not start else []), *lines[start : start + _LINES]]
            )
        )
    if it.actions:
        found.append("What to do:\n" + "\n".join(f"{n}. {shown(text)}" for n, text in enumerate(it.actions, 1)))
    if it.like:
        found.append(f"Like the one of {shown(it.like)}")
    if it.left_out:
        left = plural(it.left_out, "more alert", "more alerts")
        found.append(f"Alertmanager left out {left} of this message (max_alerts): they are not judged.")
    notes = [f"Alert: {', '.join(shown(printable(name)) for name in it.alerts)}"] if any(it.alerts) else []
    notes += [f"Owner: {shown(printable(it.owner))}"] if it.owner else []
    notes += [f"Runbook: {it.runbook if _ours(it.runbook) else shown(it.runbook)}"] if it.runbook else []
    return [masked(text) for text in (*found, " · ".join(notes)) if text]


def _ours(address: str) -> bool:
    """Addresses come from the settings; those of the shipped runbooks are names of files."""
    return address.startswith("runbooks/")


def link(parcel: Parcel, url: str | None) -> str | None:
    """Address of the incident's page."""
    return f"{url}/incidents/{quote(parcel.message.incident, safe='')}" if url else None


def _slack_text(text: str) -> str:
    return for_chat(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def slack(parcel: Parcel, url: str | None) -> dict[str, Any]:
    """An incoming webhook's message; blocks are plain text, in which Slack reads no markup."""
    mark = _MARKS.get(parcel.message.state, "")
    head = f"{mark} {for_chat(title(parcel))}"
    blocks: list[dict[str, Any]] = [_plain_block("header", head[:_HEADER_TEXT])]
    blocks += [_plain_block("section", text[:_SLACK_TEXT]) for text in paragraphs(parcel, for_chat)]
    if (address := link(parcel, url)) is not None:
        words = {"type": "plain_text", "text": "Open the incident"}
        blocks.append({"type": "actions", "elements": [{"type": "button", "text": words, "url": address}]})
    return {
        "text": f"{mark} {_slack_text(title(parcel))}: {_slack_text(masked(parcel.message.headline))}"[:_SLACK_TEXT],
        "blocks": blocks,
    }


def _plain_block(kind: str, text: str) -> dict[str, Any]:
    return {"type": kind, "text": {"type": "plain_text", "text": text, "emoji": False}}


def teams(parcel: Parcel, url: str | None) -> dict[str, Any]:
    """A Teams workflow's message: an adaptive card. Its text blocks read Markdown, so names are shown with look-alikes.

    Teams refuses a large message for good. So lines are cut until it fits; each cause stays named.
    """
    for line in _TEAMS_LINES:
        found = _teams(parcel, url, line)
        if len(json.dumps(found)) <= _TEAMS_BYTES:
            break
    return found


def _teams(parcel: Parcel, url: str | None, line: int) -> dict[str, Any]:
    texts = (text[: (_LINES + 1) * (line + 1)] for text in paragraphs(parcel, for_chat, line=line))
    head = {
        "type": "TextBlock", "text": for_chat(title(parcel))[:_TITLE_TEXT], "weight": "Bolder", "size": "Medium", "wrap": True,
    }  # fmt: skip
    body = [head, *({"type": "TextBlock", "text": text, "wrap": True} for text in texts)]
    card: dict[str, Any] = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json", "type": "AdaptiveCard", "version": "1.4", "body": body,
    }  # fmt: skip
    if (address := link(parcel, url)) is not None:
        card["actions"] = [{"type": "Action.OpenUrl", "title": "Open the incident", "url": address}]
    return {
        "type": "message",
        "attachments": [{"contentType": "application/vnd.microsoft.card.adaptive", "content": card}],
    }


def document(parcel: Parcel, url: str | None) -> dict[str, Any]:
    """The document `workbench.incident/1`, for a webhook of one's own. `key` is the same if it is sent twice."""
    it = parcel.message
    found: dict[str, Any] = masked_document(
        {
            "schema": "workbench.incident/1",
            "key": it.key,
            "kind": it.kind,
            "incident": it.incident,
            "revision": it.revision,
            "url": link(parcel, url),
            "cluster": it.cluster,
            "verdict": it.verdict,
            "before": it.before,
            "state": it.state,
            "headline": it.headline,
            "trend": it.trend,
            "subscriptions": it.total,
            "worst": [{"group": group, "topic": topic, "headline": words} for group, topic, words in it.members],
            "other_causes": list(it.others),
            "other_incidents": list(it.other_incidents),
            "left_out": it.left_out,
            "alerts": list(it.alerts),
            "actions": list(it.actions),
            "runbook": it.runbook,
            "owner": it.owner,
            "origin": it.origin,
            "like": it.like,
        }
    )
    return found


def grafana(parcel: Parcel, url: str | None) -> dict[str, Any]:
    """An annotation; its text is drawn as HTML, so it is escaped. Its time is in milliseconds."""
    texts = [title(parcel), *paragraphs(parcel, one_line)[:1], *([address] if (address := link(parcel, url)) else [])]
    tags = ["workbench", f"cluster:{printable(parcel.message.cluster)}", f"verdict:{parcel.message.verdict}"]
    return {"time": round(parcel.made * 1000), "tags": tags, "text": "<br>".join(escape(text) for text in texts)}


def alertmanager(parcel: Parcel, url: str | None, *, now: datetime) -> list[dict[str, Any]]:
    """An alert of our own beside those that led to it; it ends with the incident, and by itself if nobody repeats it."""
    it = parcel.message
    over = it.kind in ("recovered", "healthy", "ended")
    labels = {"alertname": OWN_ALERT, "cluster": printable(it.cluster), "incident": it.incident}
    annotations = {
        "summary": title(parcel),
        "description": "\n".join(paragraphs(parcel, one_line)),
        "verdict": it.verdict,
        **({"runbook_url": it.runbook} if it.runbook and "://" in it.runbook else {}),
    }
    made = datetime.fromtimestamp(parcel.made, UTC)
    found = {
        "labels": {name: masked(text) for name, text in labels.items() if text},
        "annotations": {name: masked(text) for name, text in annotations.items()},
        "startsAt": min(made, now - timedelta(seconds=1)).isoformat(),
        "endsAt": (now if over else now + timedelta(seconds=_ENDS_SECONDS)).isoformat(),
    }
    address = link(parcel, url)
    return [{**found, "generatorURL": address} if address else found]


def mail(parcel: Parcel, target: Target, url: str | None, *, now: Any) -> EmailMessage:
    """A mail of plain text; its id is the same if it is sent twice, so a mailbox shows it once."""
    found = EmailMessage()
    sender = target.sender or ""
    found["Subject"] = _header(title(parcel))
    found["From"], found["To"] = sender, ", ".join(target.to)
    found["Date"] = format_datetime(now)
    domain = sender.rpartition("@")[2]
    found["Message-ID"] = (
        f"<{parcel.key.encode('ascii', 'replace').decode().replace(' ', '-').replace('>', '')}@{domain}>"
    )
    found["X-Workbench-Incident"] = parcel.message.incident
    address = link(parcel, url)
    texts = [title(parcel), *paragraphs(parcel, lambda text: one_line(text)), *([address] if address else [])]
    found.set_content("\n\n".join(texts).encode(errors="backslashreplace").decode())
    return found


def _header(text: str) -> str:
    return one_line(text).encode(errors="backslashreplace").decode()[:_HEADER_TEXT]

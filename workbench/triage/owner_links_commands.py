"""What the settings say of a group, put into its finding: owner, runbooks, links, and the commands of its actions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from urllib.parse import quote

from workbench.humanize import shell_word
from workbench.settings_of_groups import PLACE, Expected, GroupSettings
from workbench.triage.finding import Action, Finding
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.verdict_names import State
from workbench.window import Window

WAITING = "replay, waiting for consumers"
Begun = Mapping[str, Mapping[tuple[str, int], int]]  # group to the offsets at which a replay of this machine begins


def waits(row: SubscriptionFeatures | None, begun: Begun) -> bool:
    """Whether a group is a replay that nobody has started: it has no members, and its commits are still those that were written."""
    if row is None or row.group not in begun or row.group_members:
        return False
    at = begun[row.group]
    known = [
        (it.committed_high, at.get((row.topic, it.partition))) for it in row.partitions if it.committed_high is not None
    ]
    return bool(known) and all(committed == planned for committed, planned in known)


def with_settings(
    finding: Finding, expected: Expected, window: Window, *, now: datetime, begun: Begun | None = None
) -> Finding:
    """The finding with owner, runbooks, mute, links, and commands from the templates of its group.

    Args:
        now: the time that a mute is compared with.
        begun: replays; one that waits for its consumers is muted.
    """
    waiting = WAITING if waits(finding.features, begun or {}) else None
    settings = expected.settings
    return replace(
        finding,
        owner=settings.owner,
        own_runbook=settings.runbook,
        runbook=_address(finding.runbook, settings.runbook_base),
        muted=(expected.muted(now) or waiting) if finding.state is not State.HEALTHY else None,
        links=_links(finding, settings, window),
        actions=_with_commands(finding, settings.actions or {}),
    )


def _address(runbook: str | None, base: str | None) -> str | None:
    if runbook is None or base is None:
        return runbook
    return f"{base.rstrip('/')}/{runbook.removeprefix('runbooks/')}"


def _links(finding: Finding, settings: GroupSettings, window: Window) -> Mapping[str, str]:
    values = {
        **_names(finding),
        "from_ms": str(round(window.baseline_start.timestamp() * 1000)),
        "to_ms": str(round(window.end.timestamp() * 1000)),
    }
    found = {}
    for name, template in (("Grafana", settings.grafana), ("Logs", settings.logs)):
        if template is not None:
            found[name] = _filled(template, {key: quote(value, safe="") for key, value in values.items()})
    return found


def _with_commands(finding: Finding, templates: Mapping[str, str]) -> tuple[Action, ...]:
    if finding.state is not State.LAGGING:
        return finding.actions
    actions = [_with_command(action, finding, templates) for action in finding.actions]
    if (template := templates.get("rollback")) is not None and finding.changed is not None:
        undo = Action(
            title=f"Roll back what changed before the onset: {finding.changed.text}",
            command=_command(template, finding, {}),
            verify="the lag shrinks",
            kind="rollback",
        )
        actions.insert(1, undo)  # after the look that says whether it is the cause
    if (template := templates.get("pause")) is not None:
        actions.append(
            Action(
                title="If nothing helps: pause the group while you work on the fix; nothing is lost before retention",
                command=_command(template, finding, {}),
                verify="the group has no members, and the commits stand still",
                kind="pause",
            )
        )
    return tuple(actions)


def _with_command(action: Action, finding: Finding, templates: Mapping[str, str]) -> Action:
    template = templates.get(action.kind or "")
    return action if template is None else replace(action, command=_command(template, finding, action.parameters))


def _command(template: str, finding: Finding, parameters: Mapping[str, object]) -> str:
    values = {name: _shell_words(value) for name, value in {**_names(finding), **parameters}.items()}
    return _filled(template, {name: words for name, words in values.items() if words})


def _shell_words(value: object) -> str:
    """A value of an action; several are words of their own. Empty if it is no text or number, or none: that means all of them."""
    several = value if isinstance(value, list) else [value]
    return " ".join(shell_word(str(it)) for it in several if isinstance(it, int | str))


def _names(finding: Finding) -> dict[str, str]:
    return {"cluster": finding.cluster, "group": finding.group, "topic": finding.topic}


def _filled(template: str, values: Mapping[str, str]) -> str:
    """The template with the values that are known; an unknown place stays, for a person to fill in."""
    return PLACE.sub(lambda match: values.get(match[1], match[0]), template)

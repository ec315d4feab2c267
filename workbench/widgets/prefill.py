"""Initial values of a panel's inputs: from the notebook, else the page's URL, else the alert, else the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from urllib.parse import parse_qsl

from workbench.alerts import read_alerts

# An alert fires later than its cause begins: by its `for` and an evaluation or two.
_BEFORE_ALERT = timedelta(minutes=15)
_NAMES = ("cluster", "capture", "group", "topic", "since", "until")
_LONGEST = 1_000  # of one value in a URL; no name is longer


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """Inputs of the triage panel; an empty text means "not given"."""

    cluster: str = ""
    capture: str = ""
    group: str = ""
    topic: str = ""
    since: str = ""
    until: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """Inputs of the replay panel; an empty text means "not given"."""

    cluster: str = ""
    from_group: str = ""
    new_group: str = ""
    topics: str = ""
    partitions: str = ""
    since: str = ""
    until: str = ""
    after_end: str = "fail"
    reason: str = ""
    file: str = "replay-plan.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class LettersWish:
    """Inputs of the dead-letter panel; an empty text means "not given"."""

    cluster: str = ""
    topic: str = ""
    errors: str = ""
    sources: str = ""
    since: str = ""
    until: str = ""
    to_topic: str = ""
    most: str = ""
    cap: str = ""
    reason: str = ""
    file: str = ""


def prefill(given: Mapping[str, str], environ: Mapping[str, str] = os.environ, *, query: str = "") -> Inputs:
    """Collect the initial values of the triage panel.

    Args:
        given: by the names of `Inputs`, and `alert`: a file with an Alertmanager webhook. A given cluster overrides the environment's
        capture, and a given capture its cluster.
        query: of the page's URL (`cluster=prod&group=payments`); Voilà sets it as QUERY_STRING in the environment. It only fills
        inputs; nothing is requested before a person presses the button.

    Raises:
        UsageError: if the alert cannot be read.
    """
    outside = {name: environ.get(f"WORKBENCH_{name.upper()}", "") for name in _NAMES}
    asked = _of_query(query or environ.get("QUERY_STRING", ""))
    alert = given.get("alert") or environ.get("WORKBENCH_ALERT", "")
    told = _of_alert(Path(alert)) if alert else {}
    where = {name: given.get(name) or asked.get(name) for name in ("cluster", "capture")}
    if where["cluster"] or where["capture"] or told.get("cluster"):
        outside |= {"cluster": "", "capture": ""}
    if where["capture"] and not where["cluster"]:
        told["cluster"] = ""  # a given capture overrides the alert's cluster: it already has the measurements
    if given.get("cluster") or given.get("capture"):
        asked |= {"cluster": "", "capture": ""}
    return Inputs(**{name: given.get(name) or asked.get(name) or told.get(name) or outside[name] for name in _NAMES})


def wish_of(given: Mapping[str, str], environ: Mapping[str, str] = os.environ, *, query: str = "") -> Wish:
    """Collect the initial values of the replay panel; a group from the URL, alert or environment is the old one.

    Args:
        given: by the names of `Wish`.
    """
    known = prefill({"cluster": given.get("cluster", "")}, environ, query=query)
    outside = {
        "cluster": known.cluster,
        "from_group": known.group,
        "topics": known.topic,
        "since": known.since,
        "until": known.until,
    }
    return Wish(
        **{**{name: value for name, value in outside.items() if value}, **{k: v for k, v in given.items() if v}}
    )


def letters_wish_of(
    given: Mapping[str, str], environ: Mapping[str, str] = os.environ, *, query: str = ""
) -> LettersWish:
    """Collect the initial values of the dead-letter panel; only cluster and topic come from outside.

    Args:
        given: by the names of `LettersWish`.
    """
    known = prefill({name: given.get(name, "") for name in ("cluster", "topic")}, environ, query=query)
    return LettersWish(**{**{k: v for k, v in given.items() if v}, "cluster": known.cluster, "topic": known.topic})


def _of_query(query: str) -> dict[str, str]:
    pairs = parse_qsl(query.removeprefix("?"), max_num_fields=100) if query.count("&") < 100 else []
    return {name: value[:_LONGEST] for name, value in pairs if name in _NAMES}


def _of_alert(path: Path) -> dict[str, str]:
    alert = read_alerts(path)[0]
    since = (alert.starts_at - _BEFORE_ALERT).isoformat() if alert.starts_at else ""
    return {"cluster": alert.cluster, "group": alert.group, "topic": alert.topic, "since": since}

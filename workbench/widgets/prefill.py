"""What a panel's inputs begin with: what the notebook says, else the alert, else the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from workbench.alerts import read_alerts

# An alert fires after its cause began, by its `for` and an evaluation or two.
_BEFORE_ALERT = timedelta(minutes=15)
_VARIABLES = {
    "cluster": "WORKBENCH_CLUSTER",
    "capture": "WORKBENCH_CAPTURE",
    "group": "WORKBENCH_GROUP",
    "topic": "WORKBENCH_TOPIC",
    "since": "WORKBENCH_SINCE",
    "until": "WORKBENCH_UNTIL",
    "alert": "WORKBENCH_ALERT",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What to look at; empty text means "not said"."""

    cluster: str = ""
    capture: str = ""
    group: str = ""
    topic: str = ""
    since: str = ""
    until: str = ""


def prefill(given: Mapping[str, str], environ: Mapping[str, str] = os.environ) -> Inputs:
    """The inputs to begin with.

    Args:
        given: by the names of `Inputs`, and `alert`: a file with an Alertmanager webhook. Where a cluster is given, the environment's
            capture is not taken, and the other way round.

    Raises:
        UsageError: if the alert cannot be read.
    """
    outside = {name: environ.get(variable, "") for name, variable in _VARIABLES.items()}
    alert = given.get("alert") or outside.pop("alert", "")
    told = _of_alert(Path(alert)) if alert else {}
    if given.get("cluster") or given.get("capture") or told.get("cluster"):
        outside |= {"cluster": "", "capture": ""}
    names = ("cluster", "capture", "group", "topic", "since", "until")
    values = {name: given.get(name) or told.get(name) or outside.get(name, "") for name in names}
    if values["capture"] and told.get("cluster") and not given.get("cluster"):
        values["cluster"] = ""  # a capture that is named outweighs the alert's cluster: its measurements are at hand
    return Inputs(**values)


def _of_alert(path: Path) -> dict[str, str]:
    alert = read_alerts(path)[0]
    since = (alert.starts_at - _BEFORE_ALERT).isoformat() if alert.starts_at else ""
    return {"cluster": alert.cluster, "group": alert.group, "topic": alert.topic, "since": since}

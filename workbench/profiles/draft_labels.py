"""Which label of a series is which, for drafts."""

from __future__ import annotations

import re
from collections.abc import Mapping

from workbench.profiles.usual_metric_names import BEFORE_LABELS, LABELS, OF_GROUPS, OF_TARGET, PREFIXES
from workbench.signals import SIGNALS, Grain


def label_of(labels: Mapping[str, str], canonical: str, metric: str = "") -> str | None:
    """The exporter's label for a canonical one, by its name; a partition also by its values (clients have one of their own, -1)."""
    plain = {
        plain_label(BEFORE_LABELS.sub("", name)): name
        for name in labels
        if name not in ("__name__", "le", "exported_instance")
    }
    of_a_group = ("name",) if canonical == "group" and OF_GROUPS.search(metric) else ()
    for wanted in (*LABELS[canonical], *of_a_group):
        for it, name in plain.items():
            fits = re.fullmatch(PREFIXES + f"({wanted})", it)
            if fits and (canonical != "partition" or re.fullmatch(r"-?[0-9]+", labels[name])):
                return name
    return None


def target_of(signal: str, metric: str, labels: Mapping[str, str]) -> str | None:
    """Label of the target that names the process, for what a process tells of itself and does not name itself."""
    grain = SIGNALS[signal].grain
    if grain in (Grain.GROUP, Grain.PARTITION):
        return None
    if grain is Grain.GROUP_PARTITION and (OF_GROUPS.search(metric) or label_of(labels, "group")):
        return None
    plain = {plain_label(name): name for name in labels}
    return next((plain[it] for it in OF_TARGET if it in plain), None)


def plain_label(label: str) -> str:
    """Its letters and digits in lower case."""
    return re.sub(r"[^a-z0-9]", "", label.lower())


def state_label_of(labels: Mapping[str, str]) -> str | None:
    """The label that tells a state."""
    return next((name for name in labels if name.lower() in ("state", "status", "group_state", "groupstate")), None)

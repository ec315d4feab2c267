"""Rule of alerts: what a shipped profile reads as a group or a topic, an alert about it is read by, too."""

from __future__ import annotations

import json

import pytest

from workbench.alerts import parse_alerts
from workbench.profiles import load_profile, profile_names


@pytest.mark.parametrize("name", profile_names())
def test_the_labels_of_each_profile_are_known_to_alerts(name: str) -> None:
    """Otherwise an alert of this exporter would be about the whole cluster."""
    for rule in load_profile(name).signals.values():
        for what in ("group", "topic"):
            if (label := rule.labels.get(what)) is not None:
                [alert] = parse_alerts(json.dumps([{"labels": {label: "ledger", "alertname": "x"}}]))
                assert getattr(alert, what) == "ledger", label
                assert not alert.unread

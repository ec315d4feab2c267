"""Rule of alerts: what a shipped profile reads as a group or a topic, an alert about it is read by, too."""

from __future__ import annotations

import json

import pytest

from workbench.alerts import NO_NAMES, Names, parse_message
from workbench.profiles import load_profile, profile_names
from workbench.settings import Settings

# Labels that anything may have: they are read in alerts of a cluster with the profile that reads them.
GENERAL = ("name",)
OF_THE_CLUSTER = Names.of(Settings.model_validate({"clusters": {"prod": {"name": "prod", "profiles": ["aiven"]}}}))


@pytest.mark.parametrize("name", profile_names())
def test_the_labels_of_each_profile_are_known_to_alerts(name: str) -> None:
    """Otherwise an alert of this exporter would be about the whole cluster."""
    for rule in load_profile(name).signals.values():
        for what in ("group", "topic"):
            if (label := rule.labels.get(what)) is not None:
                names = OF_THE_CLUSTER if label in GENERAL else NO_NAMES
                [alert] = parse_message(
                    json.dumps([{"labels": {label: "ledger", "alertname": "x"}}]), names=names
                ).alerts
                assert getattr(alert, what) == "ledger", label
                assert not alert.unread


def test_a_label_that_anything_may_have_is_a_group_only_where_its_profile_is_used() -> None:
    """A `name` may be a pod's or that of a broker's metric: then the group is not known, and no wrong one is looked for."""
    text = json.dumps([{"labels": {"name": "MessagesInPerSec", "topic": "orders", "alertname": "x"}}])
    other = Names.of(Settings.model_validate({"clusters": {"prod": {"name": "prod", "profiles": ["kafka_exporter"]}}}))
    assert [it.group for it in parse_message(text, names=other).alerts] == [""]
    both = json.dumps([{"labels": {"name": "x", "consumer_group": "pay", "alertname": "x"}}])
    assert [it.group for it in parse_message(both, names=OF_THE_CLUSTER).alerts] == ["pay"]

"""Drafts of profiles for exporters that the drafter has no names of: at most two corrections each."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.profiles.pages import PAGES
from workbench.profiles import load_profile, parse_profile
from workbench.profiles.draft import Seen, draft, interesting

# Whole exporters; pages of single features (a group's state) are no drafts.
EXPORTERS = (
    "kafka_exporter",
    "kafka_exporter_fork",
    "kminion",
    "klag_exporter",
    "klag",
    "kafka_lag_exporter",
    "burrow",
    "kafbat",
    "otel_kafkametrics",
    "redpanda",
    "micrometer",
    "jmx_exporter_plain",
    "strimzi_reporter",
    "faust",
)


def seen(page: str) -> Seen:
    """What a Prometheus that scrapes this page would show."""
    found: dict[str, list[dict[str, str]]] = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            labels = {"__name__": sample.name, "instance": "a:1", "job": "x", **sample.labels}
            found.setdefault(sample.name, []).append(labels)
    return {name: found[name] for name in interesting(found)}


def corrections(name: str) -> list[str]:
    """What a person would have to change in the draft: a wrong or missing metric, a wrong label, a signal too many."""
    right, drafted = load_profile(name), parse_profile(draft("ours", seen(PAGES[name])).to_yaml(), name="ours")
    wrong = []
    for signal in sorted({*right.signals, *drafted.signals}):
        wanted, got = right.signals.get(signal), drafted.signals.get(signal)
        if wanted is None or got is None or got.metric not in wanted.metrics:
            wrong.append(f"{signal}: {got.metric if got else None} instead of {wanted.metric if wanted else None}")
            continue
        labels = ("group", "topic", "partition")
        differ = [it for it in labels if wanted.labels.get(it) != got.labels.get(it)]
        if differ or wanted.scale != got.scale:
            wrong.append(f"{signal}: {differ or got.scale}")
    return wrong


@pytest.mark.parametrize("name", EXPORTERS)
def test_a_draft_needs_at_most_two_corrections(name: str) -> None:
    """Compared with the profile that a person wrote from the exporter's source."""
    assert len(corrections(name)) <= 2, corrections(name)


STRANGE = """
acme_stream_consumer_backlog_lag_records{cg_name="pay",kafka_topic="orders",shard="3"} 4
acme_stream_group_position_offset{cg_name="pay",kafka_topic="orders",shard="3"} 9
"""


def test_what_is_missing_is_said_with_the_reason() -> None:
    """A metric whose labels do not tell, or none at all."""
    found = draft("ours", seen(STRANGE))
    assert "no label of it looks like partition" not in found.to_yaml()
    assert "log_end_offset" in found.missing
    assert "heartbeat_age" in found.missing
    text = found.to_yaml()
    assert "# log_end_offset: no metric looks like" in text
    parse_profile(text, name="ours")


def test_nothing_is_drafted_from_nothing() -> None:
    """A Prometheus without any consumer."""
    found = draft("ours", seen("up 1\nnode_load1 0.5\nprocess_cpu_seconds_total 4\nprocess_start_time_seconds 1\n"))
    assert found.signals == {}

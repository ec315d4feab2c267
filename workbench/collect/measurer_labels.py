"""Labels that say who measured something, and not what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Labels that servers add to tell their own copies apart.
REPLICA_LABELS = frozenset({"replica", "prometheus_replica", "__replica__", "prometheus", "receive_replica", "monitor"})
# Labels by which installations name a Kafka cluster.
CLUSTER_LABELS = frozenset({
    "cluster", "cluster_name", "cluster_id", "clusterid", "kafka_cluster", "kafka_cluster_id", "kafka_id", "kafka",
    "strimzi_io_cluster", "msk_cluster", "resource_id", "env", "environment", "stage", "datacenter", "dc", "region",
})  # fmt: skip
# Labels of a scrape's target.
PLACE_LABELS = frozenset({
    "instance", "job", "pod", "pod_name", "kubernetes_pod_name", "container", "endpoint", "service", "namespace",
    "kubernetes_namespace", "node", "node_name", "host", "hostname", "ip", "uid", "pod_uid", "container_id", "app",
    "release", "pod_template_hash", "scrape_job", "exported_instance", "exported_job", "exporter",
})  # fmt: skip

Source = tuple[tuple[str, str], ...]  # labels without a meaning
# Of a key, the sources behind it, each with its series.
Found = Mapping[int, Mapping[Source, list[int]]]


def varying(
    found: Mapping[Source, Any], known: dict[tuple[Source, ...], frozenset[str]] | None = None
) -> frozenset[str]:
    """Labels in which these sources differ; `known` keeps what was found before."""
    key = tuple(found)
    if known is not None and key in known:
        return known[key]
    sets = [frozenset(extra) for extra in found]
    names = frozenset(name for name, _ in frozenset.union(*sets) - frozenset.intersection(*sets))
    if known is not None:
        known[key] = names
    return names

"""One real Pulsar (standalone: broker, bookie and metadata store in one JVM) on free loopback ports."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import requests

from workbench.http_client import WebSession
from workbench.lab import process
from workbench.lab.kafka_jars import JarSet, ensure
from workbench.lab.lab_broker import LOGGING
from workbench.spark.java import find_java

START_SECONDS = 120.0  # about 6 s when the machine is idle
PULSAR = JarSet("pulsar", "pulsar-broker", "org.apache.pulsar", "4.0.7", system="Pulsar")
_OPENED = ("java.io", "java.util.zip", "java.nio", "jdk.internal.misc", "sun.net", "jdk.internal.platform")

_PROPERTIES = """\
# A laptop's sizes, the loopback address alone, and what is off by default in a broker and a reader of metrics needs.
bindAddress=127.0.0.1
advertisedAddress=127.0.0.1
listeningInterface=lo
allowLoopback=true
clusterName=standalone
brokerServicePort={port}
webServicePort={web_port}
allowEphemeralPorts=true
zookeeperServers=
configurationStoreServers=
managedLedgerDefaultEnsembleSize=1
managedLedgerDefaultWriteQuorum=1
managedLedgerDefaultAckQuorum=1
managedLedgerCacheSizeMB=32
dbStorage_writeCacheMaxSizeMb=16
dbStorage_readAheadCacheMaxSizeMb=16
exposeTopicLevelMetricsInPrometheus=true
exposeConsumerLevelMetricsInPrometheus=true
exposeManagedLedgerMetricsInPrometheus=true
exposeManagedCursorMetricsInPrometheus=true
exposeBundlesMetricsInPrometheus=true
bookkeeperClientExposeStatsToPrometheus=true
statsUpdateFrequencyInSecs=10
managedLedgerStatsPeriodSeconds=10
preciseTimeBasedBacklogQuotaCheck=true
loadBalancerAutoBundleSplitEnabled=false
brokerDeleteInactiveTopicsEnabled=false
messageExpiryCheckIntervalInMinutes=1
defaultRetentionTimeInMinutes=60
defaultRetentionSizeInMB=512
journalSyncData=false
# A developer's disk is often fuller than a bookie likes.
diskUsageThreshold=0.99
diskUsageWarnThreshold=0.98
"""


@dataclass(slots=True)
class PulsarStandalone:
    """A running Pulsar: `service_url` is where its clients connect, `admin_url` its REST API."""

    service_url: str
    admin_url: str
    child: process.Child
    folder: Path

    def stop(self) -> None:
        """End it; its data stay in its folder."""
        self.child.stop(seconds=20.0)


def start_pulsar(folder: Path) -> PulsarStandalone:
    """Start a standalone in an empty folder, and wait until its broker is healthy.

    Raises:
        SetupError: if the jars cannot be downloaded, or it does not start.
    """
    ensure(PULSAR)
    folder.mkdir(parents=True, exist_ok=True)
    port, web_port, bookie_port = process.free_ports(3)
    logging, settings = folder / "log4j2.yaml", folder / "standalone.conf"
    logging.write_text(LOGGING, encoding="utf-8")
    settings.write_text(_PROPERTIES.format(port=port, web_port=web_port), encoding="utf-8")
    command: list[str | Path] = [
        find_java().program, "-Xms256m", "-Xmx1g", "-XX:MaxDirectMemorySize=512m", "-XX:+UseSerialGC",
        *(word for name in _OPENED for word in ("--add-opens", f"java.base/{name}=ALL-UNNAMED")),
        "--add-opens", "java.management/sun.management=ALL-UNNAMED",
        "-Dio.netty.tryReflectionSetAccessible=true", "-Djava.net.preferIPv4Stack=true",
        "-Dbookkeeper.metadata.bookie.drivers=org.apache.pulsar.metadata.bookkeeper.PulsarMetadataBookieDriver",
        "-Dbookkeeper.metadata.client.drivers=org.apache.pulsar.metadata.bookkeeper.PulsarMetadataClientDriver",
        f"-Dlog4j2.configurationFile={logging}",
        "-cp", PULSAR.classpath, "org.apache.pulsar.PulsarStandaloneStarter",
        "--config", settings, "--no-functions-worker", "--no-stream-storage",
        "--metadata-dir", folder / "metadata", "--bookkeeper-dir", folder / "bookkeeper",
        "--bookkeeper-port", str(bookie_port), "--num-bookies", "1", "--advertised-address", "127.0.0.1",
    ]  # fmt: skip
    child = process.start("pulsar", command, folder=folder)
    web = f"http://127.0.0.1:{web_port}"
    try:
        process.wait_until(lambda: _healthy(web), child=child, seconds=START_SECONDS, what="Pulsar")
    except BaseException:
        child.kill()
        raise
    return PulsarStandalone(f"pulsar://127.0.0.1:{port}", web, child, folder)


def _healthy(web: str) -> bool:
    """Whether the broker answers, and the namespace for first steps is there, which it makes last."""
    with WebSession(deadline_seconds=2.0, by_proxy=False) as session:
        try:
            answer = session.get(f"{web}/admin/v2/namespaces/public")
            return answer.status_code == 200 and "public/default" in answer.json()
        except (requests.RequestException, ValueError):
            return False

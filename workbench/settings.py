"""Settings: clusters with their sources, thresholds of the tree, and windows. Every number has a unit, a default and a reason."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import Field, PrivateAttr, ValidationError, ValidationInfo, field_validator, model_validator

from workbench.audit_settings import AuditSettings
from workbench.breaker_settings import BreakerSettings
from workbench.errors import ConfigError, UnknownClusterError, UsageError
from workbench.humanize import did_you_mean
from workbench.limited_reads import first_problem, read_toml
from workbench.masking import remember, secret_values, secrets_in_header, secrets_in_url
from workbench.prometheus_settings import PrometheusAddress, PrometheusAddresses, valid_match, valid_url
from workbench.pulsar_settings import PulsarSettings
from workbench.record_settings import DeadLetterSettings, RecordSettings
from workbench.serve_settings import ServeSettings, Target
from workbench.settings_base import LONGEST, Duration, Strict
from workbench.settings_file import HERE, beside, chosen_file, is_own, say_it_is_here
from workbench.settings_interpolation import from_environment, takes_values
from workbench.settings_of_groups import GroupSettings, Patterns
from workbench.thresholds import Thresholds
from workbench.user_folders import state_dir

QueueName = Literal["kafka", "pulsar", "rocketmq"]
LAB_CLUSTER = "lab"
LOGIN_FILE = "client.properties"
_DEFAULT_PROFILES = ["kafka_exporter", "runtime"]
# Of other queues than Kafka, whose metrics a Prometheus has.
_OWN_PROFILES = {
    "pulsar": ["pulsar_broker", "pulsar_bookie"],
    "rocketmq": ["rocketmq_exporter", "rocketmq_broker"],
}


class Windows(Strict):
    """Default lengths of the window and of the baseline."""

    length: Duration = Field(
        default=timedelta(minutes=15),
        ge=timedelta(seconds=1),
        le=LONGEST,
        description="The window that is judged: long enough to see a trend.",
    )
    baseline: Duration = Field(
        default=timedelta(hours=1),
        ge=timedelta(0),
        le=LONGEST,
        description="The baseline: the time before the window.",
    )


# As librdkafka takes it: the port may be left out, and a security protocol may stand before the host.
_BROKER = re.compile(
    r"(?:(?:SASL_)?(?:PLAINTEXT|SSL)://)?(?:\[[0-9a-f:.]+\]|[^\s:/@\[\]]+)(?::(\d{1,5}))?", re.IGNORECASE
)


class Cluster(Strict):
    """One deployment of a queue, and where its measurements come from."""

    name: str
    system: QueueName = Field(default="kafka", description="Which message queue it is.")
    bootstrap: str | None = Field(default=None, description="host:port of one or more brokers, separated by commas.")
    prometheus: PrometheusAddresses = Field(
        default=None,
        repr=False,
        description="URL of a Prometheus, Thanos, Mimir or VictoriaMetrics; or a list of URLs, or of tables with `url`, `headers` and "
        "`match`: all are asked, and their series joined.",
    )
    match: dict[str, str] = Field(
        default={},
        description='Which series of the Prometheus are this cluster\'s: label to value, or to "=~pattern", "!=value", "!~pattern".',
    )
    copies: list[str] = Field(
        default=[],
        description="Labels that tell copies of one measurement apart, besides the usual ones of replicas: each counts once.",
    )
    profiles: list[str] = Field(
        default=_DEFAULT_PROFILES,
        description="In order of trust: a signal comes from the first profile that has it. Names, or paths of files (`./ours.yaml`).",
    )
    members: dict[str, str] = Field(
        default={},
        description="Client id or application name to group, for metrics without a group: names, or patterns (`payments-*`). Kafka's"
        " member list adds client ids.",
    )
    metrics: list[str] = Field(
        default=[],
        repr=False,
        description="URLs of metrics pages, for `workbench watch`; of a Pulsar those of its brokers and bookies.",
    )
    kafka: dict[str, str | int | float | bool] = Field(
        default={}, repr=False, description="Further librdkafka properties; ${NAME} takes a value from the environment."
    )
    command_config: str | None = Field(
        default=None,
        description="File with the login for Kafka's own tools, for the commands of findings; `kcat.conf` beside it is that of kcat. "
        "Default where `kafka` has a security protocol: " + LOGIN_FILE + ". `workbench export login` writes both.",
    )
    pulsar: PulsarSettings = PulsarSettings()
    prometheus_headers: dict[str, str] = Field(
        default={},
        repr=False,
        description="HTTP headers for Prometheus, and for each address without its own; ${NAME} takes a value from the environment.",
    )
    timeout_seconds: float = Field(default=30.0, gt=0, description="Timeout of one request or one snapshot.")
    thresholds: Thresholds | None = Field(
        default=None, description="This cluster's own thresholds, instead of the general ones."
    )
    windows: Windows | None = Field(
        default=None, description="This cluster's own windows, instead of the general ones."
    )
    dead_letters: DeadLetterSettings = DeadLetterSettings()
    records: RecordSettings = RecordSettings()
    breaker: BreakerSettings = BreakerSettings()
    groups: Patterns = Field(
        default={},
        description="What is expected of groups, by name or pattern (`billing-*`); the most specific one wins.",
    )

    @model_validator(mode="before")
    @classmethod
    def _profiles_of_its_queue(cls, values: Any) -> Any:
        own = _OWN_PROFILES.get(str(values.get("system"))) if isinstance(values, dict) else None
        return values if own is None or "profiles" in values else {**values, "profiles": own}

    @model_validator(mode="after")
    def _no_brokers_of_kafka(self) -> Cluster:
        if self.bootstrap is not None and self.system != "kafka":
            raise ValueError(f"bootstrap is of a Kafka, and the system is {self.system}")
        return self

    @field_validator("bootstrap")
    @classmethod
    def _brokers(cls, value: str | None) -> str | None:
        for text in value.split(",") if value is not None else ():
            found = _BROKER.fullmatch(text.strip())
            if found is None or not 0 < int(found[1] or 1) < 65_536:
                host = text.strip().rpartition("@")[2]  # before it, somebody may have written a password
                raise ValueError(f"{host!r} is not host:port, such as kafka-1:9092")
        return value

    @field_validator("metrics")
    @classmethod
    def _pages(cls, value: list[str]) -> list[str]:
        for url in value:
            valid_url(url)
        return value

    @field_validator("match")
    @classmethod
    def _matchers(cls, value: dict[str, str]) -> dict[str, str]:
        return valid_match(value)

    def model_post_init(self, _context: Any) -> None:
        """Register the cluster's secrets for masking in everything that this process writes."""
        remember(*self.secrets())

    def secrets(self) -> frozenset[str]:
        """Secrets of the cluster: passwords, tokens, HTTP headers, and credentials in URLs."""
        found = [*secret_values(self.kafka), *self.pulsar.secrets()]
        for value in self.prometheus_headers.values():
            found += secrets_in_header(value)
        for address in self.prometheus_servers:
            found += address.secrets()
        for value in self.records.registry_headers.values():
            found += secrets_in_header(value)
        for url in filter(None, [self.records.schema_registry, *self.metrics]):
            found += secrets_in_url(url)
        return frozenset(text for text in found if text)

    @property
    def address(self) -> str | None:
        """Where the queue itself is asked; None if the settings do not say."""
        return {"kafka": self.bootstrap, "pulsar": self.pulsar.admin_url}.get(self.system)

    @property
    def login_file(self) -> str | None:
        """File with the login for Kafka's own tools; None if they need none."""
        protocol = str(self.kafka.get("security.protocol", "plaintext"))
        return self.command_config or (None if protocol.lower() == "plaintext" else LOGIN_FILE)

    @property
    def web_addresses(self) -> list[str]:
        """Of the queue's own servers, each once; empty if they have none."""
        return list(dict.fromkeys(filter(None, [self.pulsar.admin_url, *self.pulsar.broker_urls])))

    @property
    def prometheus_servers(self) -> tuple[PrometheusAddress, ...]:
        """Every Prometheus of the cluster, each with the headers and matchers that it is asked with; empty without one."""
        given = self.prometheus
        listed = [PrometheusAddress(url=given)] if isinstance(given, str) else given or []
        return tuple(
            PrometheusAddress(
                url=it.url,
                headers=self.prometheus_headers if it.headers is None else it.headers,
                match=self.match if it.match is None else it.match,
            )
            for it in listed
        )

    @property
    def parts(self) -> list[str]:
        """Which Prometheus have a part of the series, without credentials; empty if one has them all, by the cluster's `match`.

        What was read before another one was added lacks its part.
        """
        servers = self.prometheus_servers
        if len(servers) == 1 and servers[0].match == self.match:
            return []
        return sorted(it.where_of(self.match) for it in servers)

    @property
    def is_asked(self) -> bool:
        """Whether it is judged by asking the queue itself, as it is now, and its metrics are not read."""
        return self.system == "pulsar"

    def with_pages(self, pages: Sequence[str]) -> Cluster:
        """Copy of the cluster with further metrics pages.

        Raises:
            UsageError: if one of them is not a URL.
        """
        return checked_cluster({**self.model_dump(), "metrics": [*self.metrics, *pages]})


def checked_cluster(values: Mapping[str, Any]) -> Cluster:
    """Make a cluster from the options of a command.

    Raises:
        UsageError: naming the wrong field, never its value.
    """
    try:
        return Cluster.model_validate(values)
    except ValidationError as error:
        raise UsageError(f"{first_problem(error, whole='the cluster')}.") from None


class AlertSettings(Strict):
    """Labels of alerts, besides those of the known exporters; they are tried first."""

    group: list[str] = Field(default=[], description="Labels with the consumer group.")
    topic: list[str] = Field(default=[], description="Labels with the topic.")
    cluster: list[str] = Field(default=[], description="Labels with the name of the cluster in these settings.")


class DefaultCluster(NamedTuple):
    """Name of the cluster that is taken if none is given, and the reason in words."""

    name: str
    reason: str

    @property
    def words(self) -> str:
        """What a command says of it."""
        return f"Cluster: {self.name} ({self.reason})."


class Settings(Strict):
    """Content of `workbench.toml`; `file` is its absolute path, to hand on to another process."""

    clusters: dict[str, Cluster] = Field(default={})
    default: str | None = Field(default=None, description="Cluster of commands that are given none.")
    thresholds: Thresholds = Thresholds()
    windows: Windows = Windows()
    serve: ServeSettings = ServeSettings()
    alerts: AlertSettings = AlertSettings()
    audits: dict[str, AuditSettings] = Field(default={})
    _file: Path | None = PrivateAttr(default=None)

    @field_validator("default")
    @classmethod
    def _one_of_them(cls, value: str | None, info: ValidationInfo) -> str | None:
        known = [*info.data.get("clusters", {}), LAB_CLUSTER]
        if value is not None and value not in known:
            raise ValueError(f"there is no cluster {value!r}.{did_you_mean(value, known)}")
        return value

    @property
    def file(self) -> Path | None:
        """Absolute path of the file that was read; None: the defaults."""
        return self._file

    def default_cluster(self) -> DefaultCluster | None:
        """Cluster of a command that is given none: of the environment, else of the settings, else the only one there is."""
        where = f"in {self._file}"
        if name := os.environ.get("WORKBENCH_CLUSTER"):
            return DefaultCluster(name, "WORKBENCH_CLUSTER")
        if self.default is not None:
            return DefaultCluster(self.default, f"the default {where}")
        if len(self.clusters) == 1:
            return DefaultCluster(next(iter(self.clusters)), f"the only one {where}")
        if not self.clusters and lab_cluster_file().is_file():
            return DefaultCluster(LAB_CLUSTER, "the running lab")
        return None

    def needed_cluster(self, *, instead: Sequence[str] = ()) -> DefaultCluster:
        """`default_cluster` of a command that needs one.

        Args:
            instead: options that could take its place.

        Raises:
            UsageError: if the settings leave it open.
        """
        if (found := self.default_cluster()) is not None:
            return found
        names = ", ".join(sorted(self.clusters))
        raise UsageError(
            "Missing option " + ", or ".join(f"'{it}'" for it in ("--cluster", *instead)) + ".",
            hint=f'Clusters: {names}. Set one as default = "…" at the head of {self.file}, or in WORKBENCH_CLUSTER.'
            if names
            else "There is none in the settings. Write them with: workbench init",
        )

    def cluster(self, name: str) -> Cluster:
        """Look up a cluster by name; `lab` is the running lab.

        Raises:
            UnknownClusterError: if there is none.
        """
        if name in self.clusters:
            return self.clusters[name]
        if name == LAB_CLUSTER and (lab := _running_lab()) is not None:
            return lab
        names = ", ".join(sorted(self.clusters)) or "none"
        hint = (
            "Start it with: workbench lab up."
            if name == LAB_CLUSTER
            else f"Clusters in the settings: {names}. Add it to workbench.toml, or try: workbench init"
        )
        means = did_you_mean(name, [*self.clusters, LAB_CLUSTER])
        raise UnknownClusterError(f"There is no cluster {name!r}.{means}", hint=hint)

    def thresholds_of(self, cluster: Cluster) -> Thresholds:
        """Settings that apply to a cluster: its own, or else the general ones."""
        return cluster.thresholds or self.thresholds

    def windows_of(self, cluster: Cluster) -> Windows:
        """Settings that apply to a cluster: its own, or else the general ones."""
        return cluster.windows or self.windows


def lab_cluster_file() -> Path:
    """File in which a running lab stores its `Cluster`."""
    return state_dir() / "lab" / "cluster.json"


def _running_lab() -> Cluster | None:
    path = lab_cluster_file()
    try:
        return Cluster.model_validate_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        reason = first_problem(error).reason if isinstance(error, ValidationError) else error.strerror
        raise ConfigError(f"{path} cannot be read: {reason}.", hint="Clean up with: workbench lab down.") from None


def load_settings(path: Path | None = None) -> Settings:
    """Read the settings: the given file, else `$WORKBENCH_CONFIG`, else `workbench.toml` here, else the user's; defaults if none.

    A file that is only found here is said if it takes the place of the user's. It may come from anybody, so it may take secrets from
    the environment and from files only if it belongs to the user or to root.

    Raises:
        ConfigError: naming the file and the wrong field.
    """
    chosen = chosen_file(path)
    if chosen is None:
        return Settings()
    values = read_toml(chosen, what="The settings file")
    if chosen is HERE:
        say_it_is_here(chosen.resolve())
        if takes_values(values) and not is_own(chosen):
            raise ConfigError(
                f"{chosen.resolve()} takes values from the environment or from files, but it belongs to another user.",
                hint="If you trust it, name it: --config workbench.toml.",
            )
    if isinstance(values.get("clusters"), dict):
        for name, cluster in values["clusters"].items():
            if isinstance(cluster, dict):
                if cluster.setdefault("name", name) != name:
                    raise ConfigError(
                        f"{chosen}: clusters.{name}.name: a cluster has the name of its table.",
                        hint="Name the table as the cluster, and take the line out.",
                    )
                if "profiles" in cluster:
                    cluster["profiles"] = beside(cluster["profiles"], chosen.parent)
    try:
        found = Settings.model_validate(from_environment(values, chosen))
    except ValidationError as error:
        problem = first_problem(error)
        means = did_you_mean(problem.field.rpartition(".")[2], _fields()) if problem.is_unknown else ""
        raise ConfigError(f"{chosen}: {problem}.{means}", hint="See README, 'Your own cluster'.") from None
    found._file = chosen.resolve()
    return found


def own_cluster(name: str, path: Path | None, *, tell: Callable[[str], None]) -> Cluster | None:
    """The reader's own settings of a recorded cluster; None if there are none.

    Args:
        name: of the cluster, as a capture has it.
        path: of the settings file, if it was named.
        tell: is told that the settings cannot be used, unless they were named: a capture is analysed without them, too.

    Raises:
        ConfigError: if the named file cannot be used.
    """
    try:
        return load_settings(path).clusters.get(name)
    except ConfigError as error:
        if path is not None:
            raise
        tell(f"Without your settings, so actions have no commands of yours: {error.message}")
        return None


def _fields() -> list[str]:
    """Every name that can stand in the settings."""
    models = (
        Settings,
        Cluster,
        PrometheusAddress,
        PulsarSettings,
        BreakerSettings,
        Thresholds,
        Windows,
        GroupSettings,
        ServeSettings,
        AlertSettings,
        Target,
        AuditSettings,
    )
    return list(dict.fromkeys(name for model in models for name in model.model_fields))

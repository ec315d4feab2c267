"""`workbench events`: what changed around a cluster; findings name the nearest change before an onset."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from workbench.cli.help import Group
from workbench.cli.options import A_TIME, FILE, cluster_option, config_option, table_option, wrote_rows
from workbench.errors import ExitCode, UsageError
from workbench.humanize import did_you_mean, plural
from workbench.safe_output import say, tell, write_json

if TYPE_CHECKING:
    from workbench.collect.deploys_and_alerts import ClusterEvent
    from workbench.settings import Cluster


@click.group(name="events", cls=Group)
def command() -> None:
    """Record deploys, config changes, scaling and alerts; findings name the nearest one before an onset."""


@command.command()
@cluster_option()
@click.option(
    "--kind", default="deploy", show_default=True, help="deploy, config, scaling, topic, restart, alert or other."
)
@click.option("--service", help="What was deployed or changed.")
@click.option("--version", help="Its version.")
@click.option("--text", help="In words.")
@click.option("--group", help="Only for groups of this name or pattern; default: for all groups of the cluster.")
@click.option("--at", help=f"When: {A_TIME}. Default: now.")
@config_option
def add(
    cluster: str,
    kind: str,
    service: str | None,
    version: str | None,
    text: str | None,
    group: str | None,
    at: str | None,
    config: Path | None,
) -> int:
    """Record one event, for instance as the last step of a deploy."""
    from workbench.collect.deploys_and_alerts import KINDS, ClusterEvent, EventStore

    if kind not in KINDS:
        raise UsageError(
            f"There is no kind of event {kind!r}.{did_you_mean(kind, KINDS)}", hint=f"Kinds: {', '.join(KINDS)}."
        )
    if not (service or text):
        raise UsageError("The event says nothing.", hint="Give --service and --version, or --text.")
    event = ClusterEvent(
        ts=_instant(at) or datetime.now(UTC), kind=kind, text=text or "", service=service, version=version, group=group
    )
    store = EventStore(_known(cluster, config).name)
    added = store.add([event])
    say(f"Recorded in {store.path}." if added else "It is there already.")
    return ExitCode.OK


@command.command(name="import")
@cluster_option()
@click.option("--file", "path", type=FILE, help="A file, one JSON object a line.")
@click.option("--grafana", help="Annotations of the Grafana with this base URL.")
@click.option("--alertmanager", help="Alerts of the Alertmanager with this base URL.")
@click.option(
    "--kubernetes", is_flag=True, help="Changes of deployments, from the cluster's Prometheus (kube-state-metrics)."
)
@click.option("--since", default="24h", show_default=True, help=f"From when on (Grafana, Kubernetes): {A_TIME}.")
@click.option("--token-variable", help="Environment variable with a bearer token for Grafana or Alertmanager.")
@config_option
def import_(
    cluster: str,
    path: Path | None,
    grafana: str | None,
    alertmanager: str | None,
    kubernetes: bool,
    since: str,
    token_variable: str | None,
    config: Path | None,
) -> int:
    """Take over events from elsewhere; what is there already is not added again."""
    from workbench.collect.deploys_and_alerts import EventStore, of_alertmanager, of_file, of_grafana

    chosen = _known(cluster, config)
    if not (path or grafana or alertmanager or kubernetes):
        raise UsageError(
            "There is nothing to import from.", hint="Give --file, --grafana, --alertmanager or --kubernetes."
        )
    headers = _token(token_variable)
    start, end = _instant(since) or datetime.now(UTC), datetime.now(UTC)
    found: list[ClusterEvent] = []
    if path is not None:
        found += of_file(path)
    if grafana is not None:
        found += of_grafana(_url(grafana), start, end, headers=headers)
    if alertmanager is not None:
        found += of_alertmanager(_url(alertmanager), headers=headers)
    if kubernetes:
        found += _of_kubernetes(chosen, start, end)
    store = EventStore(chosen.name)
    added = store.add(found)
    say(f"{plural(len(found), 'event')}, {added:,} of them new, in {store.path}.")
    return ExitCode.OK


@command.command(name="list")
@cluster_option()
@click.option("--since", default="24h", show_default=True, help=f"From when on: {A_TIME}.")
@table_option
@config_option
def list_(cluster: str, since: str, as_json: bool, config: Path | None) -> int:
    """Show the recorded events, oldest first."""
    from workbench.collect.deploys_and_alerts import EventStore

    events = EventStore(_known(cluster, config).name).read(start=_instant(since))
    if as_json:
        write_json([event.to_json() for event in events])
        return ExitCode.OK
    if wrote_rows(lambda: (event.to_json() for event in events)):
        return ExitCode.OK
    for event in events:
        whom = f"  (groups {event.group})" if event.group else ""
        tell(f"{event.ts:%Y-%m-%d %H:%M:%S}Z  {event.kind:8} {event.to_json()['text']}{whom}")
    if not events:
        tell(f"There are no events with --since {since}.")
    return ExitCode.OK


def _known(cluster: str, config: Path | None) -> Cluster:
    from workbench.settings import load_settings

    return load_settings(config).cluster(cluster)


def _instant(text: str | None) -> datetime | None:
    from workbench.window import parse_instant

    return parse_instant(text) if text is not None else None


def _url(text: str) -> str:
    from workbench.limited_reads import is_web_address

    if not is_web_address(text):
        raise UsageError("This is not an http or https URL.", hint="For example: http://grafana:3000")
    return text


def _token(variable: str | None) -> dict[str, str]:
    import os

    from workbench.masking import remember

    if variable is None:
        return {}
    token = os.environ.get(variable)
    if not token:
        raise UsageError(f"The environment variable {variable} is not set.")
    remember(token)
    return {"Authorization": f"Bearer {token}"}


def _of_kubernetes(cluster: Cluster, start: datetime, end: datetime) -> list[ClusterEvent]:
    from workbench.collect.deploys_and_alerts import KUBE_METRICS, of_changes
    from workbench.collect.samples_from_prometheus import PrometheusSource
    from workbench.window import Window

    if cluster.prometheus is None:
        raise UsageError(f"The cluster {cluster.name!r} has no Prometheus in the settings.")
    # Kubernetes' own metrics need not have the labels of Kafka's.
    addresses = [it.model_copy(update={"match": {}}) for it in cluster.prometheus_servers]
    source = PrometheusSource.of(cluster, [], addresses=addresses)
    window = Window(baseline_start=start, start=start, end=end)
    found = [event for name in KUBE_METRICS for event in of_changes(name, source.read(name, window))]
    for text in source.silent:
        say(f"Incomplete: {text}")
    return found

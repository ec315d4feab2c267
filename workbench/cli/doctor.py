"""`workbench doctor`: check what this machine has and what the settings say."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from workbench.cli.options import cluster_option, completing, config_option, default_cluster, json_option
from workbench.errors import ConfigError, EvidenceError, ExitCode, SourceUnreachableError, WorkbenchError
from workbench.humanize import did_you_mean, duration, listed, plural, shell_word
from workbench.safe_output import tell, write_json

if TYPE_CHECKING:
    from workbench.prometheus_settings import PrometheusAddress
    from workbench.settings import Cluster, Settings

_TRY_SECONDS = 10.0


@click.command(name="doctor")
@click.option(
    "--group",
    shell_complete=completing("groups"),
    help="Show what the settings expect of this group, and which line says so.",
)
@cluster_option(required=False)
@json_option
@config_option
def command(group: str | None, cluster: str | None, as_json: bool, config: Path | None) -> int:
    """Check Java, Spark's class archive, JupyterLab, the lab's downloads, the settings and every cluster in them.

    With --cluster: only that cluster, and this machine. With --group: which lines of the settings apply to a group.

    Exit code 5 if a required part is missing or does not answer.
    """
    from workbench.cli.progress import Steps
    from workbench.prometheus_settings import names_of
    from workbench.settings import LAB_CLUSTER, load_settings

    if group is not None:
        return _show_group(group, cluster, config, as_json=as_json)
    checks: list[tuple[str, bool, str, bool]] = []
    steps = Steps(quiet=as_json)

    def check(name: str, look: Callable[[], str], *, needed: bool) -> None:
        try:
            with steps.waiting(f"Checking {name}"):
                checks.append((name, True, look(), needed))
        except WorkbenchError as error:
            checks.append((name, False, " ".join(filter(None, (error.message, error.hint))), needed))

    check("python", lambda: f"{platform.python_version()} on {platform.platform()}", needed=True)
    check("java", _java, needed=True)
    check("spark archive", _archive, needed=False)
    check("notebook", _notebook, needed=False)
    check("kafka jars", _jars, needed=False)
    check("prometheus program", _prometheus, needed=False)
    settings = load_settings(config)
    check(
        "settings",
        lambda: (
            f"{plural(len(settings.clusters), 'cluster')}: {', '.join(sorted(settings.clusters)) or 'none'}"
            + (f"  ({settings.file})" if settings.file is not None else "")
        ),
        needed=True,
    )
    for it in settings.clusters.values() if cluster is None else [settings.cluster(cluster)]:
        for name, look, needed in _of_queue(it):
            check(f"{it.name}: {name}", look, needed=needed)
        if it.prometheus is not None and not it.is_asked:
            servers = it.prometheus_servers
            for address, name in zip(servers, names_of(servers), strict=True) if len(servers) > 1 else ():
                check(f"{it.name}: prometheus {name}", partial(_answers, it, address), needed=True)
            check(f"{it.name}: prometheus", lambda it=it: _ask(it), needed=True)  # type: ignore[misc]
        for url in it.metrics if it.prometheus is None else ():
            check(f"{it.name}: metrics page", partial(_page, it, url), needed=True)
    for name, what, of in _named_clusters(settings) if cluster is None else ():
        if of not in (*settings.clusters, LAB_CLUSTER):
            check(name, partial(_is_none_of, what, of, list(settings.clusters)), needed=False)
    if as_json:
        write_json([{"check": name, "ok": good, "what": text, "needed": needed} for name, good, text, needed in checks])
    else:
        for name, good, text, needed in checks:
            mark = ("✓", "green") if good else ("✗", "red" if needed else "yellow")
            tell(f" {name:22} {text}", mark=mark)
    return ExitCode.OK if all(good or not needed for _, good, _, needed in checks) else ExitCode.SOURCE


def _named_clusters(settings: Settings) -> Iterator[tuple[str, str, str]]:
    """Clusters that are named outside of their own tables: where, what it means, and the name."""
    for target in settings.serve.targets:
        for of in target.clusters:
            yield f"target {target.name}", "It is told only of clusters that it names", of
    if settings.serve.cluster is not None:
        yield (
            "serve",
            "Alerts without a label of their cluster are of the one that serve.cluster names",
            settings.serve.cluster,
        )
    for name, audit in settings.audits.items():
        if audit.cluster is not None:
            yield f"audit {name}", "Its rows are in the cluster that it names", audit.cluster


def _is_none_of(what: str, strange: str, known: Sequence[str]) -> str:
    """No error of the settings: an alert may come from a cluster that they do not have. But one that is mistyped is never found."""
    raise ConfigError(f"{what}, and {strange!r} is none of the settings.{did_you_mean(strange, known)}")


def _show_group(group: str, cluster: str | None, config: Path | None, *, as_json: bool) -> int:
    """What is expected of a group, line by line."""
    from workbench.settings import load_settings
    from workbench.settings_of_groups import Expectations, GroupSettings

    settings = load_settings(config)
    chosen = settings.cluster(cluster or default_cluster(config))
    expectations = Expectations(chosen.groups)
    found, limits = expectations.of(group), expectations.limits(settings.thresholds_of(chosen), group)
    values = found.settings.model_dump(mode="json")
    defaults = {
        "time_lag_objective": f"{limits.time_lag_objective_seconds:g} s",
        "commit_every": f"{limits.commit_every_seconds:g} s",
    }
    if as_json:
        write_json({"cluster": chosen.name, "group": group, "settings": values, "lines": dict(found.lines)})
        return ExitCode.OK
    for name in GroupSettings.model_fields:
        line = found.lines.get(name)
        where = f'[clusters.{chosen.name}.groups."{line}"]' if line is not None else "default"
        value = _schedule(values.get(name)) if name == "batch" and line is not None else defaults.get(name)
        value = value or (_in_words(values.get(name)) if line is not None else "none")
        tell(f" {name:22} {value}  ({where})")
    return ExitCode.OK


def _schedule(text: str | None) -> str | None:
    """A batch with its last and its next run."""
    from datetime import UTC, datetime

    from workbench.schedule import schedule_of

    if text is None or schedule_of(text).every is not None:
        return text
    now = datetime.now(UTC)
    last, following = next(schedule_of(text).due_before(now)), schedule_of(text).due_after(now)
    return f"{text}: last due {last:%Y-%m-%d %H:%MZ}, next {following:%Y-%m-%d %H:%MZ}"


def _in_words(value: object) -> str:
    return ", ".join(f"{name} {text}" for name, text in value.items()) if isinstance(value, dict) else str(value)


def _java() -> str:
    from workbench.spark.java import find_java

    java = find_java()
    return f"Java {java.version} from {java.found_in}: {java.program}"


def _archive() -> str:
    from workbench.errors import SetupError
    from workbench.spark.class_archive import archive_path, is_built
    from workbench.spark.java import find_java

    path = archive_path(find_java())
    if not is_built(path):
        raise SetupError(
            "Not built: the first triage takes twice as long to start.", hint="Build it with: workbench lab setup"
        )
    return (
        str(path)
        if path.exists()
        else f"this Java does not support one; the other cached start-up data is in {path.parent}"
    )


def _notebook() -> str:
    from importlib.metadata import version

    from workbench.cli.notebook import need_jupyterlab

    need_jupyterlab()
    return f"JupyterLab {version('jupyterlab')}"


def _jars() -> str:
    from workbench.errors import SetupError
    from workbench.lab.kafka_jars import BROKER, KAFKA_VERSION

    if not BROKER.ready:
        raise SetupError(f"Kafka {KAFKA_VERSION} is not downloaded yet.", hint="Download it with: workbench lab setup")
    return f"Kafka {KAFKA_VERSION} in {BROKER.folder}"


def _prometheus() -> str:
    from workbench.errors import SetupError
    from workbench.lab.prometheus import find_prometheus

    found = find_prometheus()
    if found is None:
        raise SetupError("Not found; the lab scrapes the metrics itself.", hint="Download it with: workbench lab setup")
    return str(found)


def _of_queue(cluster: Cluster) -> Iterator[tuple[str, Callable[[], str], bool]]:
    """What to look at in the queue itself: name, look, whether it is needed; nothing without its address."""
    from workbench.queues.systems import own_part

    if (own := own_part(cluster.system, "workbench.{}.access_checkup")) is not None:
        # Without an address, the first one says which setting it needs.
        wanted = own.checks(cluster) if cluster.address is not None else own.checks(cluster)[:1]
        yield from ((it.name, it.look, it.needed) for it in wanted)
    elif cluster.address is not None:
        yield cluster.system, lambda: _cluster_id(cluster), True


def _cluster_id(cluster: Cluster) -> str:
    from workbench.queues.systems import system_of

    return f"cluster id {system_of(cluster).observer(cluster).cluster_id()}"


def _page(cluster: Cluster, url: str) -> str:
    """What the cluster's profiles find on one of its pages."""
    from workbench.collect.page_metrics import PageMetrics
    from workbench.profiles import load_profile
    from workbench.profiles.profile_fit import fit

    profiles = [load_profile(name) for name in cluster.profiles]
    page = PageMetrics(urls=[url], profiles=profiles, timeout_seconds=_TRY_SECONDS)
    try:
        there = page.names()
    except SourceUnreachableError as error:
        reason = error.message.rstrip(".")
        raise SourceUnreachableError(f"The metrics page does not answer: {reason}.", hint=error.hint) from None
    fits = [fit(it, page.examples(among=there), names=there) for it in profiles]
    found = {signal: it.profile.name for it in reversed(fits) for signal in it.found}
    if not found:
        raise EvidenceError(
            f"It answers, and no profile of the cluster ({listed(cluster.profiles)}) knows one of its metrics.",
            hint=f"Which one does? workbench profiles check --cluster {shell_word(cluster.name)}",
        )
    return f"{plural(len(found), 'signal')} of {listed(sorted(set(found.values())))}"


def _answers(cluster: Cluster, address: PrometheusAddress) -> str:
    """What one of several addresses has; that all of them together have enough is another check."""
    from datetime import UTC, datetime

    from workbench.collect.samples_from_prometheus import PrometheusSource

    source = PrometheusSource.of(
        cluster, [], addresses=[address], timeout_seconds=min(_TRY_SECONDS, cluster.timeout_seconds)
    )
    names = source.names(at=datetime.now(UTC))
    partial = f"; incomplete: {source.partial[0]}" if source.partial else ""
    return f"answers; {plural(len(names), 'metric')}{partial}"


def _ask(cluster: object) -> str:
    from datetime import UTC, datetime, timedelta

    from workbench.collect.samples_from_prometheus import PrometheusSource
    from workbench.profiles import load_profile
    from workbench.profiles.profile_fit import RECENT_SECONDS
    from workbench.settings import Cluster
    from workbench.window import Window

    assert isinstance(cluster, Cluster) and cluster.prometheus is not None  # noqa: S101 - for the type checker
    profiles = [load_profile(name) for name in cluster.profiles]
    source = PrometheusSource.of(cluster, profiles, timeout_seconds=min(_TRY_SECONDS, cluster.timeout_seconds))
    window = Window.ending(datetime.now(UTC), length=timedelta(seconds=RECENT_SECONDS), baseline=timedelta(seconds=1))
    found = source.collect(window)
    groups = found.series.names["group"].drop_null().unique()
    within = f"in the last {duration(RECENT_SECONDS)}"
    if not len(groups):
        raise EvidenceError(
            f"It answers, and has no sample of a group {within}.",
            hint=f"Do the profiles fit? workbench profiles check --cluster {shell_word(cluster.name)}",
        )
    partial = f"; incomplete: {found.incomplete[0]}" if found.incomplete else ""
    return f"{plural(len(found.series.ts_us), 'sample')} of {plural(len(groups), 'group')} {within}{partial}"

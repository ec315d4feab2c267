"""`workbench export`: what other programs need, made from the settings."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click

from workbench.cli.help import Group
from workbench.cli.options import FILE, cluster_option, completing, config_option, output_folder
from workbench.errors import ExitCode, UsageError
from workbench.humanize import plural
from workbench.safe_output import say

_BROKERS = "brokers.yml"


@click.group(name="export", cls=Group)
def command() -> None:
    """Write files for other programs, made from the settings and profiles in use."""


@command.command()
@cluster_option(unless=("names",))
@click.option(
    "--profile",
    "names",
    multiple=True,
    shell_complete=completing("profiles"),
    help="Instead of a cluster: for this profile. May be repeated, in order of trust.",
)
@click.option(
    "--objective",
    default="2m",
    show_default=True,
    help="Older than this is late; with --cluster: its settings, by group.",
)
@click.option(
    "--availability",
    default=99.9,
    show_default=True,
    type=click.FloatRange(50, 100, min_open=True, max_open=True),
    help="Percentage of the time that must not be late.",
)
@click.option(
    "--runbook-base", default="runbooks", show_default=True, help="Address of the folder of runbooks, for alerts."
)
@output_folder("Folder for the files.")
@config_option
def grafana(
    cluster: str | None,
    names: tuple[str, ...],
    objective: str,
    availability: float,
    runbook_base: str,
    out: Path,
    config: Path | None,
) -> int:
    """Write dashboard.json and rules/alerts.yml, and check the rules with promtool if it is there.

    The dashboard has a panel for each signal of the profiles; the alerts are multi-window burn rates of the time over the objective.
    """
    from workbench.files import write_text, writing
    from workbench.profiles import load_profile
    from workbench.queues.systems import refuse_without_metrics
    from workbench.runbooks.burn_rates import burn_rules
    from workbench.runbooks.grafana_dashboard import dashboard
    from workbench.runbooks.runbook_promql import measured
    from workbench.settings import load_settings
    from workbench.settings_of_groups import NOTHING_EXPECTED, Expectations
    from workbench.window import parse_duration

    if (cluster is None) == (not names):
        raise UsageError("Give either --cluster or --profile.", hint="Profiles: workbench profiles list")
    seconds = parse_duration(objective).total_seconds()
    match: dict[str, str] = {}
    expectations, commit_every = NOTHING_EXPECTED, 0.0
    if cluster is not None:
        settings = load_settings(config)
        chosen = settings.cluster(cluster)
        refuse_without_metrics(chosen, "Exporting dashboards and objectives does")
        names, match = tuple(chosen.profiles), chosen.match
        limits, expectations = settings.thresholds_of(chosen), Expectations(chosen.groups)
        seconds, commit_every = limits.time_lag_objective_seconds, limits.commit_every_seconds
        every = chosen.groups.get("*")
        runbook_base = (every.runbook_base if every is not None else None) or runbook_base
    found = measured([load_profile(name) for name in names])
    if "consumer_lag" not in found and "time_lag" not in found:
        raise UsageError(f"These profiles measure no lag: {', '.join(names)}.", hint="Add one that does.")
    name = cluster or "-".join(names)
    board = dashboard(found, match, name=name, objective_seconds=seconds)
    rules = burn_rules(
        found,
        match,
        objective_seconds=seconds,
        commit_every_seconds=commit_every,
        expectations=expectations,
        availability=availability / 100,
        runbook_base=runbook_base,
        cluster=cluster,
    )
    with writing(f"The folder {out}"):
        (out / "rules").mkdir(parents=True, exist_ok=True)
        write_text(out / "dashboard.json", json.dumps(board, indent=1, ensure_ascii=False) + "\n")
        write_text(out / "rules" / "alerts.yml", rules)
    say(f"Wrote {out}/dashboard.json ({len(board['panels'])} panels) and {out}/rules/alerts.yml.")
    return _checked(out)


@command.command()
@click.option("--runbook-base", required=True, help="Address of the folder of runbooks: https://…")
@cluster_option(required=False)
@output_folder("Folder for the files.")
@config_option
def rules(runbook_base: str, cluster: str | None, out: Path, config: Path | None) -> int:
    """Write the alert rules of all verdicts, with runbook links that open from a chat, and check them with promtool if it is there.

    With --cluster, the alert ConsumerLag judges each group by the objective of its settings, with the cluster's own metrics, and the
    alerts about brokers are made of the metrics of the cluster's profiles; one whose signals these lack is left out, and named.
    """
    from workbench.files import write_text, writing
    from workbench.runbooks.objective_recording_rules import by_group
    from workbench.shipped_files import shipped

    base = runbook_base.rstrip("/")
    if not re.fullmatch(r"https?://[^\s\"']+", base):
        raise UsageError(
            f"{runbook_base!r} is no address.", hint="For example: --runbook-base https://wiki.example.com/runbooks"
        )
    own = _of_cluster(cluster, base, config) if cluster is not None else {}
    with writing(f"The folder {out}"):
        (out / "rules").mkdir(parents=True, exist_ok=True)
        files = [
            it for it in sorted((shipped("runbooks") / "rules").glob("*.yml")) if cluster is None or it.name != _BROKERS
        ]
        for path in files:
            linked = re.sub(
                r"^(\s*runbook_url: )runbooks/",
                lambda it: f"{it[1]}{base}/",
                path.read_text(encoding="utf-8"),
                flags=re.M,
            )
            write_text(out / "rules" / path.name, by_group(linked) if cluster is not None else linked)
        for name, text in own.items():
            write_text(out / "rules" / name, text)
    if cluster is not None and _BROKERS not in own:
        say(f"The profiles of {cluster} measure no broker, so there are no alerts about brokers: see docs/impact.md.")
    say(f"Wrote {plural(len(files) + len(own), 'file')} of alert rules to {out}/rules.")
    return _checked(out)


def _of_cluster(cluster: str, base: str, config: Path | None) -> dict[str, str]:
    """Files of one cluster: how far behind its groups are and may be, and the alerts about its brokers, if it measures them."""
    from workbench.profiles import load_profile
    from workbench.queues.systems import refuse_without_metrics
    from workbench.runbooks.broker_alert_rules import broker_rules
    from workbench.runbooks.objective_recording_rules import recordings, rule_file
    from workbench.runbooks.runbook_promql import measured
    from workbench.settings import load_settings
    from workbench.settings_of_groups import Expectations

    settings = load_settings(config)
    chosen = settings.cluster(cluster)
    refuse_without_metrics(chosen, "Exporting dashboards and objectives does")
    limits = settings.thresholds_of(chosen)
    signals = measured([load_profile(name) for name in chosen.profiles])
    found = recordings(
        signals,
        chosen.match,
        objective_seconds=limits.time_lag_objective_seconds,
        commit_every_seconds=limits.commit_every_seconds,
        expectations=Expectations(chosen.groups),
    )
    if not found:
        raise UsageError(f"These profiles measure no lag: {', '.join(chosen.profiles)}.", hint="Add one that does.")
    command = "`workbench export rules`"
    brokers = broker_rules(signals, chosen.match, command=command, runbook_base=base)
    return {
        "objectives.yml": rule_file("workbench-objectives", found, command=command),
        **({_BROKERS: brokers} if brokers is not None else {}),
    }


@command.command()
@cluster_option()
@click.option(
    "--output",
    "out",
    type=FILE,
    help="File for Kafka's own tools. Default: command_config of the settings, else client.properties in this folder.",
)
@click.option(
    "--kcat",
    is_flag=True,
    help="Write kcat.conf beside it, too: with the passwords themselves, as kcat takes them from nowhere else.",
)
@config_option
def login(cluster: str, out: Path | None, kcat: bool, config: Path | None) -> int:
    """Write the login of a cluster's settings as files for Kafka's own tools (--command-config) and for kcat (-F).

    Commands of findings and runbooks name these files. That of Kafka's tools has no secret: they take it from where the settings
    do (from Kafka 3.5 on). Only you can read the files, and one that exists is never replaced.
    """
    from workbench.files import write_text, writing
    from workbench.queues.systems import not_there
    from workbench.queues.tool_words import logins_of
    from workbench.settings import load_settings
    from workbench.settings_file import written_properties

    settings = load_settings(config)
    chosen = settings.cluster(cluster)
    if chosen.system != "kafka":
        raise not_there(chosen, "Writing a login for Kafka's own tools does")
    if (place := chosen.login_file) is None:
        raise UsageError(
            f"The cluster {cluster!r} needs no login: its settings have no security.protocol.",
            hint='Add it to its table `kafka`, as in workbench init --property "security.protocol=SASL_SSL".',
        )
    path = out or Path(place).expanduser()
    files = logins_of(path, written_properties(settings.file, cluster), chosen.kafka if kcat else None)
    for file in files:
        if file.exists():
            raise UsageError(
                f"{file} exists, and is not replaced.", hint="Name another file with --output, or remove it."
            )
    for file, made in files.items():
        with writing(f"The login {file}"):
            write_text(file, made.text, private=True, new=True)
        say(f"Wrote {file}.")
        for text in made.notes:
            say(f"  {text}")
    if out is not None and str(out) != place:
        say(f'So that findings name it: command_config = "{out.absolute()}" in [clusters.{cluster}].')
    return ExitCode.OK


def _checked(out: Path) -> int:
    from workbench.runbooks.promtool import check_rules

    checked = check_rules(out)
    for text in checked.problems:
        say(f"promtool: {text}")
    if not checked.ran:
        say("promtool is not here: the rules are not checked.")
    return ExitCode.INTERNAL if checked.problems else ExitCode.OK

"""`workbench init`: try the sources of a cluster, and write a commented `workbench.toml` that works at once."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import click

from workbench.cli.options import FILE, renamed
from workbench.errors import ConfigError, ExitCode, SourceUnreachableError, UsageError, WorkbenchError
from workbench.humanize import listed, plural, shell_word
from workbench.masking import is_secret_name, remember, secrets_in_url
from workbench.safe_output import ask, say

if TYPE_CHECKING:
    from workbench.profiles.profile_fit import Fit
    from workbench.settings import Cluster

_TRY_SECONDS = 10.0  # a source that takes longer to answer a first question is reported as not answering


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What a person said of the cluster."""

    name: str
    bootstrap: str | None
    prometheus: str | None
    metrics: tuple[str, ...]
    properties: Mapping[str, str]


@click.command(name="init")
@click.option("--name", help="Name of the cluster in the settings, for --cluster of other commands.  [default: prod]")
@click.option("--prometheus", help="URL of a Prometheus, Thanos, Mimir or VictoriaMetrics.")
@click.option("--bootstrap", help="host:port of one or more brokers, separated by commas.")
@click.option("--metrics", multiple=True, help="URL of a metrics page, where there is no Prometheus. May be repeated.")
@click.option(
    "--property",
    "properties",
    multiple=True,
    metavar="NAME=VALUE",
    help="A librdkafka property, for TLS and logins; write secrets as '${NAME}' (environment) or '${file:PATH}'. May be repeated.",
)
@click.option("--lab", is_flag=True, help="Take the addresses of the running lab.")
@renamed(
    "--output",
    "out",
    old=("--out",),
    type=FILE,
    default=Path("workbench.toml"),
    show_default=True,
    help="File to write. One that exists is never replaced.",
)
@click.option("--yes", is_flag=True, help="Ask nothing: use the options and defaults.")
@click.option("--unchecked", is_flag=True, help="Write the file although a source does not answer.")
def command(
    name: str | None,
    prometheus: str | None,
    bootstrap: str | None,
    metrics: tuple[str, ...],
    properties: tuple[str, ...],
    lab: bool,
    out: Path,
    yes: bool,
    unchecked: bool,
) -> int:
    """Try the sources of a cluster, and write a commented settings file.

    Asks for what is not given, if there is a terminal. Exit code 5 if a source does not answer; then nothing is written.
    """
    from workbench.profiles.profile_fit import without_work

    if out.exists():
        raise UsageError(f"{out} exists, and is not replaced.", hint="Name another file with --output, or edit it.")
    given = Answers(
        name=name or ("lab" if lab else "prod"),
        bootstrap=bootstrap,
        prometheus=prometheus,
        metrics=metrics,
        properties=_pairs(properties),
    )
    if lab:
        given = _of_lab(given)
    elif not yes and sys.stdin.isatty():
        given = _asked(given, name_given=name is not None)
    _refuse_what_no_file_should_hold(given)
    if given.bootstrap is None and given.prometheus is None and not given.metrics:
        raise UsageError(
            "There is nothing to read from.", hint="Give --prometheus, --bootstrap or --metrics, or --lab."
        )
    cluster = _cluster(given, ())
    fits, failed = _tried(given, cluster)
    if failed and not unchecked:
        raise SourceUnreachableError(
            f"No answer from {listed(failed)}; {out} was not written.",
            hint="Correct the address, or write the file anyway with --unchecked.",
        )
    _write(out, given, [it.profile.name for it in fits])
    of, config = (
        f"--cluster {shell_word(given.name)}",
        "" if out == Path("workbench.toml") else f" --config {shell_word(str(out))}",
    )
    is_read = (given.prometheus is not None or bool(given.metrics)) and not failed
    if is_read and fits and (words := without_work(fits, of + config)) is not None:
        say(words)
    if cluster.login_file is not None:
        words = f"export login {of}{config}"
        say(f"Commands of Kafka's own tools need this login in a file: workbench {words}")
    say(f"Wrote {out}. Try: workbench {_first_command(given, of, is_unread=is_read and not fits)}{config}")
    return ExitCode.SOURCE if failed else ExitCode.OK


def _first_command(given: Answers, of: str, *, is_unread: bool) -> str:
    """What to type next; it works with what the new settings have. `is_unread`: no profile knows a metric that is there."""
    if is_unread:
        return f"profiles new {of} --output ours.yaml"
    if given.prometheus is not None:
        return f"triage {of} --all"
    if given.bootstrap is not None:
        return f"snapshot {of} --limit 10"
    return f"triage {of} --observe 60s"


def _pairs(properties: Sequence[str]) -> dict[str, str]:
    found = {}
    for text in properties:
        name, sign, value = text.partition("=")
        if not sign or not name.strip():
            raise UsageError("A property is NAME=VALUE.", hint="For example: --property security.protocol=SASL_SSL")
        if is_secret_name(name) and "${" not in value:
            remember(value.strip())
            raise UsageError(
                f"{name.strip()} is a secret, and does not belong in a settings file.",
                hint=f"Give --property '{name.strip()}=${{KAFKA_PASSWORD}}' (the environment), or '…=${{file:/path}}'.",
            )
        found[name.strip()] = value.strip()
    return found


def _refuse_what_no_file_should_hold(given: Answers) -> None:
    """Passwords within addresses, and texts that are none."""
    from workbench.humanize import is_text

    for text in (given.name, given.prometheus, given.bootstrap, *given.metrics, *chain(*given.properties.items())):
        if text is not None and not is_text(text):
            raise UsageError(f"{text!r} is not text in UTF-8.", hint="Use a terminal whose encoding is UTF-8.")
    for url in filter(None, [given.prometheus, *given.metrics]):
        written = [it for it in secrets_in_url(url) if it and "${" not in it]
        if written:
            remember(*written)
            raise UsageError(
                "The password in an address is a secret, and does not belong in a settings file.",
                hint="Write ${PROMETHEUS_PASSWORD} in its place (the environment), or ${file:/path}.",
            )


def _of_lab(given: Answers) -> Answers:
    from workbench.settings import LAB_CLUSTER, Settings

    lab = Settings().cluster(LAB_CLUSTER)
    return replace(
        given,
        bootstrap=given.bootstrap or lab.bootstrap,
        prometheus=given.prometheus or next((it.url for it in lab.prometheus_servers), None),
        metrics=given.metrics or tuple(lab.metrics if lab.prometheus is None else ()),
    )


def _asked(given: Answers, *, name_given: bool) -> Answers:
    """Ask for what is not given; an empty answer means "there is none"."""
    if not name_given:
        given = replace(given, name=ask("Name of the cluster [prod]").strip() or given.name)
    if given.prometheus is None:
        given = replace(given, prometheus=ask("URL of its Prometheus [none]").strip() or None)
    if given.bootstrap is None:
        given = replace(given, bootstrap=ask("Bootstrap servers, host:port [none]").strip() or None)
    if given.bootstrap is not None and not given.properties:
        given = replace(given, properties=_asked_for_login())
    if given.prometheus is None and not given.metrics:
        page = ask("URL of a metrics page of a consumer [none]").strip()
        given = replace(given, metrics=(page,) if page else ())
    return given


def _asked_for_login() -> dict[str, str]:
    protocol = ask("Security protocol: PLAINTEXT, SSL, SASL_SSL [PLAINTEXT]").strip().upper()
    if protocol in ("", "PLAINTEXT"):
        return {}
    found = {"security.protocol": protocol}
    if authority := ask("CA certificate, path of a PEM file [the system's]").strip():
        found["ssl.ca.location"] = authority
    if protocol.startswith("SASL"):
        found["sasl.mechanism"] = ask("Mechanism [SCRAM-SHA-512]").strip() or "SCRAM-SHA-512"
        found["sasl.username"] = ask("User name").strip()
        found["sasl.password"] = "${KAFKA_PASSWORD}"
        say("The password is read from the environment: export KAFKA_PASSWORD.")
    return found


# Trying the sources


def _tried(given: Answers, cluster: Cluster) -> tuple[list[Fit], list[str]]:
    """Profiles that fit, and the sources that do not answer; says what each source answered."""
    failed: list[str] = []
    fits: list[Fit] = []

    def look(name: str, what: Callable[[], str]) -> None:
        from workbench.cli.progress import Steps

        try:
            with Steps().waiting(f"Asking {name}", at_most_seconds=_TRY_SECONDS):
                said = what()
        except WorkbenchError as error:
            failed.append(name)
            say(f" {name}: {error.message}" + (f" {error.hint}" if error.hint else ""), mark=("✗", "red"))
        else:
            say(f" {name}: {said}", mark=("✓", "green"))

    if given.prometheus is not None:
        look("Prometheus", lambda: _fitting(cluster, fits))
    if given.bootstrap is not None:
        look("Kafka", lambda: _groups_of(cluster))
    for number, page in enumerate(given.metrics, 1):
        look(f"metrics page {number}" if len(given.metrics) > 1 else "metrics page", partial(_page, page))
    if given.prometheus is None and len(given.metrics) > sum(it.startswith("metrics page") for it in failed):
        look("metrics", lambda: _fitting(cluster, fits))
    return fits, failed


def _fitting(cluster: Cluster, fits: list[Fit]) -> str:
    """Note what fits its Prometheus, or without one its metrics pages, and say so."""
    from workbench.collect.page_metrics import names_of_metrics
    from workbench.profiles import known_profiles
    from workbench.profiles.profile_fit import fitting, recommended

    every, servers = known_profiles(), cluster.prometheus_servers
    source = names_of_metrics(cluster, every, timeout_seconds=_TRY_SECONDS)
    there = source.names()
    fits.extend(recommended(fitting(every, source.examples(among=there), names=there)))
    found = [it.profile.name for it in fits]
    which = f"{plural(len(found), 'profile')} fit{'s' if len(found) == 1 else ''}: {', '.join(found)}"
    if not servers:
        is_lag_told = cluster.bootstrap is not None or any(
            {"consumer_lag", "committed_offset"} & {*it.found} for it in fits
        )
        lag = "" if is_lag_told else ". None of them tells a lag, so a triage needs --bootstrap, too"
        return f"{which}{lag}" if found else "no profile fits them"
    if not found:
        return f"answers; no profile fits its metrics. Draft one: workbench profiles new --url {shell_word(servers[0].url)}"
    return f"answers; {which}"


def _groups_of(cluster: Cluster) -> str:
    from workbench.queues.systems import system_of

    observer = system_of(cluster).observer(cluster, seconds=_TRY_SECONDS)
    groups = observer.listing().kinds
    return f"answers; cluster {observer.cluster_id()}, {plural(len(groups), 'group')}"


def _page(url: str) -> str:
    from workbench.collect.scrape import fetch

    page = fetch(url, timeout_seconds=_TRY_SECONDS)
    if page.error is not None:
        raise SourceUnreachableError(page.error)
    return f"answers; {plural(len(page.text.splitlines()), 'line')}"


def _cluster(given: Answers, profiles: Sequence[str]) -> Cluster:
    from workbench.settings import checked_cluster
    from workbench.settings_interpolation import from_environment

    values = {
        "name": given.name,
        "bootstrap": given.bootstrap,
        "prometheus": given.prometheus,
        "metrics": list(given.metrics),
        "kafka": dict(given.properties),
        "timeout_seconds": _TRY_SECONDS,
    }
    for key, of in (("kafka", "--property"), ("prometheus", "--prometheus"), ("metrics", "--metrics")):
        values[key] = from_environment(values[key], Path(of), key)  # each is tried as it will be read from the file
    return checked_cluster({**values, **({"profiles": list(profiles)} if profiles else {})})


# The file


def _write(out: Path, given: Answers, profiles: Sequence[str]) -> None:
    from workbench.cli.init_file import settings_text
    from workbench.files import atomic_write, writing
    from workbench.settings import load_settings

    text = settings_text(
        name=given.name,
        bootstrap=given.bootstrap,
        prometheus=given.prometheus,
        metrics=given.metrics,
        properties=given.properties,
        profiles=profiles,
    )
    with writing(f"The settings {out}"), atomic_write(out, new=True) as temporary:
        temporary.write_text(text, encoding="utf-8")
        temporary.chmod(0o600)  # a property may hold a secret after all
        try:
            load_settings(temporary)
        except ConfigError as error:
            raise UsageError(f"These settings would not be valid: {error.message}") from None

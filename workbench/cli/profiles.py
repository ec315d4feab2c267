"""`workbench profiles`: which exporters and frameworks are known, and what each can tell."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from workbench.cli.help import Group
from workbench.cli.options import (
    A_TIME,
    FILE,
    PLACE,
    cluster_option,
    config_option,
    json_option,
    table_option,
    wrote_rows,
)
from workbench.errors import ExitCode, UsageError
from workbench.humanize import listed, plural, shell_word
from workbench.safe_output import say, tell, tell_page, write_json

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from workbench.profiles import Profile, Quality
    from workbench.profiles.profile_fit import Fit
    from workbench.settings import Cluster

_MOST_CANDIDATES = 500
_EXAMPLES = 3


@click.group(name="profiles", cls=Group)
def command() -> None:
    """List the known exporters and frameworks, and the signals of each."""


@command.command(name="list")
@table_option
def list_(as_json: bool) -> int:
    """List all profiles, signal by signal: exact, proxy or absent."""
    from workbench.profiles import Quality, known_profiles
    from workbench.signals import SIGNALS

    profiles = known_profiles()
    if as_json:
        write_json(
            [
                {
                    "profile": profile.name,
                    "title": profile.title,
                    "names_from": profile.names_from,
                    "signals": {name: str(profile.quality(name)) for name in SIGNALS},
                }
                for profile in profiles
            ]
        )
        return ExitCode.OK
    qualities = ({name: str(it.quality(name)) for name in SIGNALS} for it in profiles)
    if wrote_rows(
        lambda: ({"profile": it.name, "title": it.title, **of} for it, of in zip(profiles, qualities, strict=True))
    ):
        return ExitCode.OK
    from workbench.terminal_tables import FittingTable, SafeConsole, wrapped

    table = FittingTable("profile", *wrapped("what it is"), "names from", *wrapped("exact", "proxy"))
    for profile in profiles:
        by_quality = {
            quality: ", ".join(name for name in SIGNALS if profile.quality(name) is quality) or "-"
            for quality in Quality
        }
        table.add_row(
            profile.name, profile.title, profile.names_from or "-", by_quality[Quality.EXACT], by_quality[Quality.PROXY]
        )
    SafeConsole().print(table)
    return ExitCode.OK


@command.command()
@click.option("--url", help="Base URL of a Prometheus, or of a server with the same API.")
@cluster_option(unless=("url", "folder"))
@click.option("--capture", "folder", type=PLACE, help="Check a recording instead: which signals it has.")
@click.option(
    "--profile", "names", multiple=True, help="Check this profile, rule by rule: a name or a file. Repeatable."
)
@click.option("--at", help=f"Check the minutes before this time: {A_TIME}. Default: now.")
@config_option
@json_option
def check(
    url: str | None,
    cluster: str | None,
    folder: Path | None,
    names: tuple[str, ...],
    at: str | None,
    config: Path | None,
    as_json: bool,
) -> int:
    """Find the profiles that fit a live Prometheus, or the metrics pages of a cluster, and say why a rule finds nothing.

    With --profile, or for the profiles of a cluster: rule by rule, whether there is no such metric, a metric without the label, no
    recent sample, or a native histogram.

    Exit code 4 if no profile fits, or if the server's answer is incomplete.
    """
    from workbench.cli.progress import Steps
    from workbench.collect.page_metrics import names_of_metrics
    from workbench.profiles import known_profiles, load_profile, name_of
    from workbench.profiles.profile_fit import RuleState, coverage, fit, fitting, recommended
    from workbench.window import parse_instant

    if sum(it is not None for it in (url, cluster, folder)) != 1:
        raise UsageError("Give --url, --cluster or --capture.", hint="For example: --url http://prometheus:9090")
    if folder is not None:
        return _check_capture(folder, as_json=as_json)
    target = _target(url, cluster, config)
    wanted = [*names] or ([*target.profiles] if cluster is not None else [])
    profiles = known_profiles(wanted)
    instant = parse_instant(at) if at is not None else None
    source = names_of_metrics(target, profiles)
    with Steps(quiet=as_json).waiting(_reading(target)):
        there = source.names(at=instant)
        examples = source.examples(at=instant, among=there)
    fits = fitting(profiles, examples, names=there)
    checked = [fit(load_profile(name), examples, names=there) for name in dict.fromkeys(wanted)]
    chosen = recommended(fits)
    covered = coverage(chosen)
    own = {name_of(name): name for name in wanted}
    if as_json:
        write_json(
            {
                "url": ", ".join([it.url for it in target.prometheus_servers] or target.metrics),
                "fits": [{"profile": it.profile.name, "found": it.found, "absent": it.absent} for it in fits],
                "recommended": [own.get(it.profile.name, it.profile.name) for it in chosen],
                "rules": [
                    {
                        "profile": it.profile.name,
                        "signal": rule.signal,
                        "metric": rule.metric,
                        "state": str(rule.state),
                        "detail": rule.detail,
                    }
                    for it in checked or fits
                    for rule in it.checks
                ],
                "signals": {
                    name: {"quality": str(quality), "profile": profile} for name, (quality, profile) in covered.items()
                },
                "incomplete": list(source.partial),
            }
        )
    else:
        for it in checked:
            _print_rules(it)
        if target.match and any(rule.state is RuleState.STALE for it in checked for rule in it.checks):
            only = ", ".join(f"{name} {pattern}" for name, pattern in target.match.items())
            say(f"Only series with these labels count (match in the settings): {only}. Are they your exporter's?")
        _print_check(
            _where(target),
            fits,
            chosen,
            covered,
            profiles,
            own=own,
            source=_source(url, cluster, at),
        )
        for text in source.partial:
            say(f"Incomplete: {text}")
    return ExitCode.OK if fits and not source.partial else ExitCode.EVIDENCE


@command.command()
@click.option("--url", help="Base URL of a Prometheus, or of a server with the same API.")
@cluster_option(unless=("url",))
@click.option("--name", default="ours", show_default=True, help="Name of the profile.")
@click.option("--output", type=FILE, help="Write it to this file; default: print it.")
@click.option("--job", help="Only metrics of this scrape job (the label `job`). Default: the jobs that tell most.")
@click.option(
    "--match",
    "matchers",
    multiple=True,
    metavar="LABEL=VALUE",
    help='Only series with this label, as `match` in the settings: "pod=~orders-.*". Repeatable.',
)
@click.option("--at", help=f"Look at the metrics of this time: {A_TIME}. Default: now.")
@config_option
def new(
    url: str | None,
    cluster: str | None,
    name: str,
    output: Path | None,
    job: str | None,
    matchers: tuple[str, ...],
    at: str | None,
    config: Path | None,
) -> int:
    """Draft a profile from what a Prometheus or metrics pages show: by name, unit and labels, with what is missing.

    Check every line, then use it: profiles = ["./ours.yaml"] in workbench.toml. Exit code 4 if no lag was found.
    """
    from workbench.cli.progress import Steps
    from workbench.collect.page_metrics import names_of_metrics
    from workbench.files import atomic_write, writing
    from workbench.profiles.draft_labels_from_names import some_of_each
    from workbench.profiles.profile_draft import draft, interesting
    from workbench.window import parse_instant

    if (url is None) == (cluster is None):
        raise UsageError("Give either --url or --cluster.", hint="For example: --url http://prometheus:9090")
    target = _target(url, cluster, config)
    source = names_of_metrics(target, [], match=_match(matchers) | ({} if job is None else {"job": job}))
    instant = parse_instant(at) if at is not None else None
    with Steps().waiting(_reading(target)):
        candidates = some_of_each(interesting(source.names(at=instant)), _EXAMPLES)
    if len(candidates) > _MOST_CANDIDATES:
        say(
            f"{plural(len(candidates), 'metric')} may belong to consumers; only the first {_MOST_CANDIDATES} are looked at."
        )
    with Steps().waiting("Reading examples of the metrics"):
        found = draft(
            name, source.recent(candidates[:_MOST_CANDIDATES], most=_EXAMPLES, each="job", at=instant), most=_EXAMPLES
        )
    for words in source.silent:
        say(f"Incomplete: {words}")
    if not found.signals:
        tell("No metric could be mapped to a signal, so there is no draft.")
        for metric, reason in found.left.items():
            tell(f"  {metric}: {reason}")
        say("Without a lag: read it from Kafka itself (bootstrap in workbench.toml), or run a lag exporter.")
        return ExitCode.EVIDENCE
    text = found.to_yaml()
    if output is not None:
        with writing(f"The profile {output}"):
            try:
                with atomic_write(output, new=True) as temporary:
                    temporary.write_text(text, encoding="utf-8")
            except FileExistsError:
                raise UsageError(
                    f"{output} exists.", hint="Name another file: a draft never replaces your work."
                ) from None
        say(
            f"Wrote {output}. Check it with: workbench profiles check {_source(url, cluster, at)} --profile {shell_word(str(output))}"
        )
    else:
        tell_page(text)
    return ExitCode.OK if {"consumer_lag", "committed_offset"} & found.signals.keys() else ExitCode.EVIDENCE


def _match(matchers: Sequence[str]) -> dict[str, str]:
    from workbench.prometheus_settings import valid_match

    found = {}
    for text in matchers:
        written = re.fullmatch(r"([^=!]*)(!=|=~|=)(.*)", text, flags=re.DOTALL)  # as in a query
        if written is None:
            raise UsageError(f"{text!r} is no LABEL=VALUE.", hint='For example: --match "pod=~orders-.*"')
        label, sign, value = written.groups()
        found[label] = value if sign == "=" else sign + value
    try:
        return valid_match(found)
    except ValueError as error:
        raise UsageError(f"{error}.", hint='For example: --match "pod=~orders-.*"') from None


@command.command()
def schema() -> int:
    """Print the JSON schema of a profile, for editors."""
    from workbench.profiles.profile_schema import profile_schema

    write_json(profile_schema())
    return ExitCode.OK


def _source(url: str | None, cluster: str | None, at: str | None) -> str:
    """The options that name the Prometheus and the time, for a command to copy."""
    then = f" --at {shell_word(at)}" if at is not None else ""
    return f"--cluster {shell_word(cluster)}{then}" if cluster is not None else f"--url {shell_word(url or '')}{then}"


def _target(url: str | None, cluster: str | None, config: Path | None) -> Cluster:
    from workbench.queues.systems import refuse_without_metrics
    from workbench.settings import checked_cluster, load_settings

    if cluster is None:
        return checked_cluster({"name": "checked", "prometheus": url})
    target = load_settings(config).cluster(cluster)
    refuse_without_metrics(target, "Reading its metrics does")
    if target.prometheus is None and not target.metrics:
        raise UsageError(
            f"The cluster {target.name!r} has neither a Prometheus nor metrics pages in the settings.",
            hint="Give a Prometheus with --url.",
        )
    return target


def _where(target: Cluster) -> str:
    from workbench.prometheus_settings import names_of

    return listed(names_of(target.prometheus_servers)) or listed(target.metrics, most=_EXAMPLES)


def _reading(target: Cluster) -> str:
    return f"Reading the names of the metrics from {'Prometheus' if target.prometheus_servers else 'metrics pages'}"


def _check_capture(folder: Path, *, as_json: bool) -> int:
    """Signals of a recording, and where each comes from."""
    from workbench.collect.capture import read_capture
    from workbench.profiles import known_profiles
    from workbench.signals import SIGNALS

    capture = read_capture(folder)
    table = capture.samples.group_by(["signal", "source"]).aggregate([("ts", "count"), ("ts", "max")]).to_pylist()
    rows = [
        {
            "signal": name,
            "profile": row["source"],
            "samples": row["ts_count"],
            "last": row["ts_max"].isoformat(),
        }
        for name in SIGNALS
        for row in sorted(table, key=lambda row: str(row["source"]))
        if row["signal"] == name
    ]
    found = {row["signal"] for row in rows}
    absent = [name for name in _of_these_sources(found) if name not in found]
    if as_json:
        write_json({"capture": str(folder), "signals": rows, "absent": absent})
        return ExitCode.OK if rows else ExitCode.EVIDENCE
    from workbench.terminal_tables import FittingTable, SafeConsole

    shown = FittingTable("signal", "profile", "samples", "last sample")
    for row in rows:
        shown.add_row(row["signal"], row["profile"], f"{row['samples']:,}", row["last"][:19].replace("T", " ") + "Z")
    SafeConsole().print(shown)
    tell(f"Absent: {', '.join(absent) or 'nothing'}.")
    _tell_of_brokers(found, known_profiles())
    return ExitCode.OK if rows else ExitCode.EVIDENCE


def _of_these_sources(found: Collection[str]) -> list[str]:
    """Signals that these sources have or could have.

    Not what servers or gateways tell of themselves, where none of them tells anything: a lag exporter lacks nothing of a broker's.
    """
    from workbench.signals import OF_BROKERS, SIGNALS, Grain

    told = {SIGNALS[name].grain for name in found}
    silent = (OF_BROKERS if not told & OF_BROKERS else frozenset()) | ({Grain.DISPATCHER, Grain.GATEWAY} - told)
    return [name for name, signal in SIGNALS.items() if signal.grain not in silent]


def _tell_of_brokers(found: Collection[str], profiles: Sequence[Profile]) -> None:
    """What `_of_these_sources` leaves out of a Kafka's brokers, and what would tell it."""
    from workbench.signals import OF_BROKERS, SIGNALS

    if any(SIGNALS[name].grain in OF_BROKERS for name in found):
        return
    theirs = {name for name, signal in SIGNALS.items() if signal.grain in OF_BROKERS}
    givers = [it.name for it in profiles if theirs & it.signals.keys()]
    tell(
        f"No broker tells of itself here (load, requests, replicas), so nobody sees who slows whom on a broker. "
        f"Profiles with that: {listed(givers, most=3)}."
    )


def _print_rules(it: Fit) -> None:
    from workbench.profiles.profile_fit import RuleState
    from workbench.terminal_tables import FittingTable, SafeConsole, wrapped

    tell(f"Profile {it.profile.name}: {len(it.found)} of {plural(len(it.checks), 'signal')} found.")
    table = FittingTable("signal", "state", *wrapped("what is there"))
    for rule in it.checks:
        table.add_row(rule.signal, "ok" if rule.state is RuleState.FOUND else str(rule.state), rule.detail)
    SafeConsole().print(table)
    tell("")


def _print_check(
    where: str,
    fits: list[Fit],
    chosen: list[Fit],
    covered: dict[str, tuple[Quality, str | None]],
    profiles: list[Profile],
    *,
    own: dict[str, str],
    source: str,
) -> None:
    from workbench.profiles.profile_fit import what_to_add, without_work
    from workbench.terminal_tables import FittingTable, SafeConsole, wrapped

    if not fits:
        tell(
            f"No profile fits the metrics at {where}. Draft one from what is there with: workbench profiles new {source}"
        )
        return
    tell(f"Profiles that match metrics at {where}:")
    for it in fits:
        absent = f", missing: {', '.join(it.absent)}" if it.absent and it.profile.name not in own else ""
        tell(f"  {it.profile.name:20} {len(it.found)} of {plural(len(it.found) + len(it.absent), 'signal')}{absent}")
    names = ", ".join(json.dumps(own.get(it.profile.name, it.profile.name)) for it in chosen)
    tell_page(f"\nFor workbench.toml: profiles = [{names}]\n")
    table = FittingTable("signal", "quality", *wrapped("source, or how to get it"))
    found = {signal for signal, (_, profile) in covered.items() if profile is not None}
    for signal in _of_these_sources(found):
        quality, giver = covered[signal]
        table.add_row(
            signal, str(quality), giver or what_to_add(signal, profiles, fitting=[it.profile for it in chosen])
        )
    SafeConsole().print(table)
    _tell_of_brokers(found, profiles)
    if (words := without_work(chosen, source)) is not None:
        tell(words)

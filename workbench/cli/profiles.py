"""`workbench profiles`: which exporters and frameworks are known, and what each can tell."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from workbench.cli.options import cluster_option, config_option, json_option
from workbench.errors import ExitCode, UsageError
from workbench.screen import say, tell, tell_page, write_json

if TYPE_CHECKING:
    from workbench.profiles import Profile, Quality
    from workbench.profiles.fit import Fit


@click.group(name="profiles")
def command() -> None:
    """List the known exporters and frameworks, and the signals of each."""


@command.command(name="list")
@json_option
def list_(as_json: bool) -> int:
    """List all profiles, signal by signal: exact, proxy or absent."""
    from workbench.profiles import Quality, load_profile, profile_names
    from workbench.signals import SIGNALS

    profiles = [load_profile(name) for name in profile_names()]
    if as_json:
        write_json(
            [
                {
                    "profile": profile.name,
                    "title": profile.title,
                    "signals": {name: str(profile.quality(name)) for name in SIGNALS},
                }
                for profile in profiles
            ]
        )
        return ExitCode.OK
    from rich.table import Table

    from workbench.console import SafeConsole

    table = Table(box=None, header_style="bold")
    for name in ("profile", "what it is", "exact", "proxy"):
        table.add_column(name)
    for profile in profiles:
        by_quality = {
            quality: ", ".join(name for name in SIGNALS if profile.quality(name) is quality) or "-"
            for quality in Quality
        }
        table.add_row(profile.name, profile.title, by_quality[Quality.EXACT], by_quality[Quality.PROXY])
    SafeConsole().print(table)
    return ExitCode.OK


@command.command()
@click.option("--url", help="Base URL of a Prometheus, or of a server with the same API.")
@cluster_option(required=False)
@config_option
@json_option
def check(url: str | None, cluster: str | None, config: Path | None, as_json: bool) -> int:
    """Find the profiles that fit a live Prometheus. Shows for each signal whether it is exact, a proxy or absent.

    Exit code 4 if no profile fits, or if the server's answer is incomplete.
    """
    from workbench.collect.prometheus import PrometheusSource
    from workbench.profiles import load_profile, profile_names
    from workbench.profiles.fit import coverage, fitting, recommended
    from workbench.settings import checked_cluster, load_settings

    if (url is None) == (cluster is None):
        raise UsageError("Give either --url or --cluster.", hint="For example: --url http://prometheus:9090")
    target = (
        checked_cluster({"name": "checked", "prometheus": url})
        if cluster is None
        else load_settings(config).cluster(cluster)
    )
    if target.prometheus is None:
        raise UsageError(f"The cluster {target.name!r} has no Prometheus in the settings.", hint="Give one with --url.")
    profiles = [load_profile(name) for name in profile_names()]
    source = PrometheusSource(
        url=target.prometheus,
        cluster=target.name,
        profiles=profiles,
        headers=target.prometheus_headers,
        timeout_seconds=target.timeout_seconds,
        match=target.match,
    )
    fits = fitting(profiles, source.examples())
    chosen = recommended(fits)
    covered = coverage(chosen)
    if as_json:
        write_json(
            {
                "url": target.prometheus,
                "fits": [{"profile": it.profile.name, "found": it.found, "absent": it.absent} for it in fits],
                "recommended": [it.profile.name for it in chosen],
                "signals": {
                    name: {"quality": str(quality), "profile": profile} for name, (quality, profile) in covered.items()
                },
                "incomplete": list(source.partial),
            }
        )
    else:
        _print_check(target.prometheus, fits, chosen, covered, profiles)
        for text in source.partial:
            say(f"Incomplete: {text}")
    return ExitCode.OK if fits and not source.partial else ExitCode.EVIDENCE


def _print_check(
    url: str,
    fits: list[Fit],
    chosen: list[Fit],
    covered: dict[str, tuple[Quality, str | None]],
    profiles: list[Profile],
) -> None:
    from urllib.parse import urlsplit

    from rich.table import Table

    from workbench.console import SafeConsole
    from workbench.profiles.fit import what_to_add

    host = urlsplit(url).netloc.rpartition("@")[2]
    if not fits:
        tell(f"No profile fits the metrics at {host}. See the metrics of each profile with: workbench profiles list")
        return
    tell(f"Profiles that match metrics at {host}:")
    for it in fits:
        absent = f", missing: {', '.join(it.absent)}" if it.absent else ""
        tell(f"  {it.profile.name:20} {len(it.found)} of {len(it.found) + len(it.absent)} signals{absent}")
    names = ", ".join(f'"{it.profile.name}"' for it in chosen)
    tell_page(f"\nFor workbench.toml: profiles = [{names}]\n")
    table = Table(box=None, header_style="bold")
    for name in ("signal", "quality", "source, or how to get it"):
        table.add_column(name)
    for signal, (quality, profile) in covered.items():
        table.add_row(signal, str(quality), profile or what_to_add(signal, profiles))
    SafeConsole(soft_wrap=True).print(table)

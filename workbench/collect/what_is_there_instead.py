"""What a Prometheus has where the profiles in use find no series of any group, and what to write in the settings."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from workbench.collect.samples_from_prometheus import PrometheusSource
from workbench.errors import WorkbenchError
from workbench.humanize import duration, listed, shell_word
from workbench.profiles import Profile, known_profiles, name_of, system_among
from workbench.profiles.profile_draft import interesting
from workbench.profiles.profile_fit import RECENT_SECONDS, Fit, asked_for, fitting, recommended
from workbench.profiles.usual_metric_names import LIKE_LAG
from workbench.settings import Cluster

# Where a group stands: without one of them there is nothing to judge.
_POSITIONS = ("consumer_lag", "committed_offset")
_OF_A_LOOP = re.compile(r"event_?loop")  # how late a runtime's own loop is


def there_instead(cluster: Cluster, at: datetime) -> tuple[str, str]:
    """A sentence on what is there, and what to write; empty where nothing like it is there, or Prometheus fails now.

    Args:
        cluster: whose profiles found nothing.
        at: the end of the window that was asked for.
    """
    profiles = known_profiles(cluster.profiles)
    source = PrometheusSource.of(cluster, profiles)
    own = {name_of(name) for name in cluster.profiles}
    try:
        names = source.names(at=at)
        fits = _fitting(source, names, at)
        clients = _clients(source, [it for it in fits if it.profile.name in own], at)
    except WorkbenchError:  # it has just answered; that it fails now must not hide what was asked
        return "", ""
    if clients:
        return _of_no_group(cluster, clients)
    if any(it.profile.name in own for it in fits):
        return "", ""  # other groups are read: it is the name, or the time, that is wrong
    if chosen := recommended(fits):
        wanted = ", ".join(json.dumps(it.profile.name) for it in chosen)
        system = system_among([it.profile for it in chosen])
        queue = "" if system == cluster.system else f"system = {json.dumps(system)}, and "
        return (
            f" What it has fits other profiles than {listed(sorted(own))}.",
            f"In workbench.toml: {queue}profiles = [{wanted}]. What they read: "
            f"workbench profiles check --cluster {shell_word(cluster.name)}{_then(at)}",
        )
    like = [name for name in interesting(names) if LIKE_LAG.search(name) and not _OF_A_LOOP.search(name)]
    read = asked_for([it for it in profiles if it.name in own], like)
    if read:
        only = f" with the labels of match ({', '.join(cluster.match)})" if cluster.match else ""
        return (
            f" It has {listed(sorted(read))}, but no sample of them{only} in the last {duration(RECENT_SECONDS)}.",
            "Is the target up, and is match in workbench.toml that of your exporter?" if only else "Is the target up?",
        )
    if like:
        return (
            f" No profile in use reads what looks like lag or offsets there: {listed(like)}.",
            f"Draft a profile of it: workbench profiles new --cluster {shell_word(cluster.name)} --output profiles/ours.yaml"
            f"{_then(at)}",
        )
    if names:
        return (
            f" Nothing there looks like lag or offsets. Profiles in use: {listed(sorted(own))}.",
            "An exporter of lag has to be there, beside what the clients tell of their own work: workbench profiles list",
        )
    return "", ""


def _then(at: datetime) -> str:
    """What makes a command look at this time, where what was there then may be gone by now."""
    is_past = (datetime.now(UTC) - at).total_seconds() > RECENT_SECONDS
    return f" --at {at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}" if is_past else ""


def _fitting(source: PrometheusSource, names: frozenset[str], at: datetime) -> list[Fit]:
    """Profiles that find positions, with all that they find. Each metric is a question: those of other profiles are not asked for."""
    wanted = {name for profile in source.profiles for name in names if _reads_position(profile, name)}
    examples = source.examples(at=at, among=frozenset(wanted))
    of_positions = [it.profile for it in fitting(source.profiles, examples, names=names) if _places(it)]
    examples = replace(source, profiles=of_positions).examples(at=at, among=names)
    return fitting(of_positions, examples, names=names)


def _reads_position(profile: Profile, metric: str) -> bool:
    read = profile.read_name(metric)
    return read is not None and any(signal in _POSITIONS for signal, _, _ in profile.metrics()[read[0]])


def _places(fit: Fit) -> list[str]:
    return [signal for signal in _POSITIONS if signal in fit.found]


def _clients(source: PrometheusSource, fits: Sequence[Fit], at: datetime) -> list[str]:
    """Clients and applications that tell where they stand, and not for which group."""
    found = set[str]()
    for fit in fits:
        for rule in (fit.profile.signals[signal] for signal in _places(fit)):
            if "group" in rule.labels or "member" not in rule.labels:
                continue
            for metric, series in source.recent(rule.metrics, each=rule.labels["member"], at=at).items():
                meanings = (fit.profile.meaning(metric, labels) for labels in series)
                found |= {str(it.labels["member"]) for it in meanings if it is not None and it.labels.get("member")}
    return sorted(found)


def _of_no_group(cluster: Cluster, clients: Sequence[str]) -> tuple[str, str]:
    kafka = (
        "" if cluster.bootstrap is not None else ", or name Kafka (bootstrap), whose member list tells it of clients"
    )
    return (
        f" It has series of {listed(clients)}, but nothing tells their group.",
        f"In workbench.toml: members = {{{json.dumps(clients[0])} = 'GROUP'}} for each of them{kafka}.",
    )

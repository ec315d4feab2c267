"""What a Prometheus has where the profiles in use find no series of any group, and what to write in the settings."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import datetime

from workbench.collect.samples_from_prometheus import PrometheusSource
from workbench.errors import WorkbenchError
from workbench.humanize import duration, listed, shell_word
from workbench.profiles import known_profiles, name_of
from workbench.profiles.profile_draft import interesting
from workbench.profiles.profile_fit import RECENT_SECONDS, Fit, asked_for, fitting, recommended
from workbench.profiles.usual_metric_names import LIKE_LAG
from workbench.settings import Cluster

# Where a group stands: without one of them there is nothing to judge.
_POSITIONS = ("consumer_lag", "committed_offset")
# A large Prometheus has hundreds of metrics that profiles read, and each is one question: only those of positions are asked for.
_OF_POSITIONS = re.compile(r"lag|offset", re.IGNORECASE)


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
        examples = source.examples(at=at, among=frozenset(filter(_OF_POSITIONS.search, names)))
        fits = fitting(profiles, examples, names=names)
        clients = _clients(source, [it for it in fits if it.profile.name in own], at)
    except WorkbenchError:  # it has just answered; that it fails now must not hide what was asked
        return "", ""
    if clients:
        return _of_no_group(cluster, clients)
    chosen = recommended(fits)
    if any(it.profile.name not in own and _places(it) for it in chosen):
        wanted = ", ".join(json.dumps(it.profile.name) for it in chosen)
        return (
            f" What it has fits other profiles than {listed(sorted(own))}.",
            f"In workbench.toml: profiles = [{wanted}]. What they read: workbench profiles check --cluster {shell_word(cluster.name)}",
        )
    like = [name for name in interesting(names) if LIKE_LAG.search(name)]
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
            f"Draft a profile of it: workbench profiles new --cluster {shell_word(cluster.name)} --output profiles/ours.yaml",
        )
    return "", ""


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

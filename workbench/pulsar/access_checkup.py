"""What this program can read of a Pulsar with the token of the settings, and what is off in its brokers. Reads only.

For `workbench doctor`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from workbench.errors import EvidenceError, SourceUnreachableError
from workbench.humanize import plural
from workbench.pulsar.admin import PulsarAdmin
from workbench.pulsar.broker_conf import running_config
from workbench.pulsar.policies import TopicPolicies, read_policies
from workbench.pulsar.risky_settings import is_version
from workbench.pulsar.subscription_survey import survey
from workbench.pulsar.topic_names import WHOLE, part_name
from workbench.pulsar_metrics_by_setting import METRIC_SETTINGS
from workbench.settings import Cluster

# Setting of a broker to the values with which something is off, and what that is.
_OFF: dict[str, tuple[tuple[str, ...], str]] = {
    **{it.name: (("false",), it.lacks) for it in METRIC_SETTINGS},
    "topicLevelPoliciesEnabled": (("false",), "limits cannot be set for a topic alone, as findings advise"),
    "defaultRetentionTimeInMinutes": (
        ("0",),
        "a replay reaches only what some subscription has not acknowledged, where no namespace has a retention",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PulsarCheck:
    """One look; `look` answers in words, or raises a `WorkbenchError`.

    Attributes:
        needed: whether triage and snapshots need it.
    """

    name: str
    look: Callable[[], str]
    needed: bool


def checks(cluster: Cluster) -> Sequence[PulsarCheck]:
    """Everything to look at, in order."""
    return (
        PulsarCheck(name="pulsar", look=lambda: _admin(cluster), needed=True),
        PulsarCheck(name="subscriptions", look=lambda: _subscriptions(cluster), needed=True),
        PulsarCheck(name="positions and policies", look=lambda: _rights(cluster), needed=False),
        PulsarCheck(name="broker settings", look=lambda: _off(cluster), needed=False),
    )


def _admin(cluster: Cluster) -> str:
    admin = PulsarAdmin(cluster)
    found = admin.get("clusters")
    names = ", ".join(map(str, found)) if isinstance(found, list) else "unknown"
    try:
        version = admin.get_text("brokers/version").strip('"')
    except SourceUnreachableError:
        version = ""
    return f"cluster {names}, version {version if is_version(version) else 'not told'}"


def _subscriptions(cluster: Cluster) -> str:
    found = survey(PulsarAdmin(cluster), namespaces=cluster.pulsar.namespaces)
    if found.incomplete:
        more = f" (and {len(found.incomplete) - 1} more)" if len(found.incomplete) > 1 else ""
        raise EvidenceError(f"Not all can be read: {found.incomplete[0]}{more}")
    topics = {part.topic for part in found.parts}
    names = {(part.topic, part.subscription) for part in found.parts}
    return f"{plural(len(names), 'subscription')} on {plural(len(topics), 'topic')}"


def _rights(cluster: Cluster) -> str:
    """By one topic: a token that may not read them has no right to them anywhere, or not there."""
    found = survey(PulsarAdmin(cluster), namespaces=cluster.pulsar.namespaces)
    part = next(iter(sorted(found.parts, key=lambda it: (str(it.topic), it.partition))), None)
    if part is None:
        return "no topic has a subscription to try it on"
    admin, lacking = PulsarAdmin(cluster), list[str]()
    topic = part_name(part.topic, part.partition) if part.partition != WHOLE else part.topic
    try:
        admin.get(f"{topic.path}/internalStats")
    except SourceUnreachableError:
        lacking.append("positions: no hole, no throttling and no catching up can be told")
    if read_policies(admin, part.topic) == TopicPolicies():
        lacking.append("policies: no expiry, no quota and no limit can be told")
    if lacking:
        raise EvidenceError(
            f"The admin does not tell of {part.topic} its {'; nor its '.join(lacking)}.",
            hint="A token of the tenant's administrator may read both.",
        )
    return f"those of {part.topic} can be read"


def _off(cluster: Cluster) -> str:
    try:
        values, _ = running_config(PulsarAdmin(cluster))
    except SourceUnreachableError as error:
        raise SourceUnreachableError(
            error.message, hint="Only a superuser may read them; without, workbench pulsar config-check takes a file."
        ) from None
    off = [f"{name}={values[name]}: {what}" for name, (bad, what) in _OFF.items() if values.get(name) in bad]
    if off:
        raise EvidenceError(f"Off in the broker that answers: {'; '.join(off)}.")
    return "nothing that findings, alerts or replays need is off"

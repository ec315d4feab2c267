"""What each profile of brokers lets `workbench impact` tell, as a table for docs/impact.md: by the profiles and the verdicts' needs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from workbench.features.broker_features import OF_SERVERS, WORKED_OUT
from workbench.profiles import Profile, load_profile, profile_names
from workbench.triage.broker_findings import BrokerVerdict
from workbench.triage.broker_strains import WATCHED
from workbench.triage.brokers import NEEDS

# What Kafka itself tells of any cluster, or any exporter of lag.
FROM_KAFKA = frozenset({"consumer_lag", "committed_offset", "log_end_offset", "leader", "missing_replicas"})


def of_brokers() -> Iterator[Profile]:
    """Profiles of brokers, and of what keeps no replicas."""
    for name in profile_names():
        profile = load_profile(name)
        if profile.no_replicas is not None or set(OF_SERVERS) & profile.signals.keys():
            yield profile


def told(profile: Profile) -> frozenset[str]:
    """Signals that are known of a cluster with this profile, with what is worked out."""
    found = FROM_KAFKA | (profile.signals.keys() if "server_start_time" in profile.signals else set())
    return frozenset(found | {signal for signal, source in WORKED_OUT.items() if source in found})


def lacking(profile: Profile) -> Mapping[BrokerVerdict, tuple[str, ...]]:
    """Verdicts that cannot be told with it, each with the signals that it lacks."""
    known = told(profile)
    unsuited = {BrokerVerdict.UNDER_REPLICATED} if profile.no_replicas is not None else set()
    found = {
        verdict: tuple(" or ".join(sorted(one)) for one in wanted if not one & known)
        for verdict, wanted in NEEDS.items()
        if verdict not in unsuited
    }
    return {verdict: names for verdict, names in found.items() if names}


def offenders(profile: Profile) -> str:
    """Whom it lets one accuse."""
    known = told(profile)
    if "broker_traffic" not in known or not {"client_reads", "topic_reads"} & known:
        return "nobody"
    readers = "readers by client id" if "client_reads" in known else "readers by topic"
    return f"{readers}, producers" if "client_writes" in known else readers


def as_markdown() -> str:
    """A row for each profile."""
    rows = [
        "| profile | who may be accused | strains | verdicts | cannot tell |",
        "|---|---|---|---|---|",
    ]
    for profile in of_brokers():
        known, open_ones = told(profile), lacking(profile)
        verdicts = [it for it in NEEDS if it not in open_ones]
        if profile.no_replicas is not None:
            verdicts.remove(BrokerVerdict.UNDER_REPLICATED)
        rows.append(
            f"| `{profile.name}` | {offenders(profile)} | {len(WATCHED & known)} of {len(WATCHED)} | {_code(verdicts)}"
            f" | {'; '.join(f'`{it}`: no {_code(names)}' for it, names in open_ones.items()) or 'nothing of these'} |"
        )
    reasons = [
        f"`{it.name}` is not asked for `under_replicated`: {it.no_replicas}." for it in of_brokers() if it.no_replicas
    ]
    return "\n".join([*rows, "", *reasons]) + "\n"


def _code(names: Collection[str]) -> str:
    return ", ".join(f"`{it}`".replace(" or ", "` or `") for it in names) or "-"

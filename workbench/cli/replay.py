"""`workbench replay`: process again from a point in time, in a new consumer group; planned, guarded, verified, undoable."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from workbench.cli.options import cluster_option, config_option, json_option, print_json, say
from workbench.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from workbench.replay.kafka_gateway import KafkaGateway
    from workbench.settings import Cluster

PLAN_FILE = click.Path(path_type=Path, dir_okay=False)


@click.group(name="replay")
def command() -> None:
    """Process again from a point in time, in a new consumer group: plan, apply, follow, verify, cut over, roll back.

    The old group's offsets are never touched. Only `apply`, `rollback` and `cutover` change anything, and each is in the journal.
    """


def gateway_of(cluster: Cluster) -> KafkaGateway:
    """The way to a cluster.

    Raises:
        UsageError: if the settings do not say where its brokers are.
    """
    from workbench.replay.kafka_gateway import KafkaGateway

    if cluster.bootstrap is None:
        raise UsageError(
            f"The cluster {cluster.name!r} has no bootstrap in the settings.", hint="Add it to workbench.toml."
        )
    return KafkaGateway(cluster.bootstrap, cluster.kafka, deadline_seconds=cluster.timeout_seconds)


@command.command(name="plan")
@cluster_option()
@click.option("--from-group", required=True, help="The group that processed it the first time; it stays as it is.")
@click.option("--new-group", required=True, help="The group that will process it again.")
@click.option("--topic", "topics", multiple=True, required=True, help="A topic to replay. May be repeated.")
@click.option(
    "--partition", "partitions", multiple=True, help="Only this partition: 3, or orders:3 with several topics. Repeat."
)
@click.option(
    "--since", required=True, help="Start: an instant with its zone (2026-11-21T03:00:00+08:00, …Z) or 15m ago."
)
@click.option("--until", help="End, exclusive. Default: what is there when the plan is made.")
@click.option(
    "--after-end",
    type=click.Choice(["skip", "end", "fail"]),
    default="fail",
    show_default=True,
    help="Where no record is at or after the start: commit nothing, commit the end, or refuse.",
)
@click.option("--reason", help="Why, for those who read the plan and the journal.")
@click.option("-o", "--out", type=PLAN_FILE, help="Where to keep the plan; `apply` takes it from there.")
@click.option("--csv", "csv_file", type=PLAN_FILE, help="Also as the CSV that kafka-consumer-groups --from-file takes.")
@json_option
@config_option
def plan_command(
    cluster: str,
    from_group: str,
    new_group: str,
    topics: tuple[str, ...],
    partitions: tuple[str, ...],
    since: str,
    until: str | None,
    after_end: str,
    reason: str | None,
    out: Path | None,
    csv_file: Path | None,
    as_json: bool,
    config: Path | None,
) -> int:
    """Look up, for each partition, where a replay would begin. Read-only: writes nothing to Kafka and joins no group."""
    from datetime import UTC, datetime

    from workbench.cli.replay_show import show_plan
    from workbench.replay.plan import Request, make_plan, survey, to_csv
    from workbench.replay.planfile import AfterEnd, write_file
    from workbench.settings import load_settings
    from workbench.window import parse_instant

    now = datetime.now(UTC)
    request = Request(
        cluster=cluster,
        from_group=from_group,
        new_group=new_group,
        topics=topics,
        since=parse_instant(since, now=now),
        requested_since=since,
        partitions=_partitions(partitions, topics),
        until=parse_instant(until, now=now) if until else None,
        requested_until=until,
        after_end=AfterEnd(after_end),
        reason=reason,
    )
    for path in (out, csv_file):
        if path is not None and not path.absolute().parent.is_dir():
            raise UsageError(f"The folder of {path} does not exist.")
    chosen = load_settings(config).cluster(cluster)
    gateway = gateway_of(chosen)
    plan = make_plan(request, *survey(gateway, request))
    if out is not None:
        write_file(out, plan.document())
    if csv_file is not None:
        csv_file.write_text(to_csv(plan))
    if as_json:
        print_json(plan.document())
    else:
        show_plan(plan, gateway.bootstrap, out)
    return ExitCode.OK


def _partitions(words: tuple[str, ...], topics: tuple[str, ...]) -> dict[str, list[int]] | None:
    """`3` and `orders:3` by topic.

    Raises:
        UsageError: if one is neither.
    """
    found: dict[str, list[int]] = {}
    for word in words:
        topic, colon, number = word.rpartition(":")
        if not colon and len(topics) == 1:
            topic = topics[0]
        if topic not in topics or not number.isdecimal():
            raise UsageError(f"--partition {word!r} is not a partition of the topics.", hint="Write 3, or orders:3.")
        found.setdefault(topic, []).append(int(number))
    return found or None


def quiet(text: str) -> None:
    """Words for people, where nobody listens."""


def speak(as_json: bool) -> object:
    """Where words for people go."""
    return quiet if as_json else say

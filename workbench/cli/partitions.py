"""`workbench partitions`: which partitions producers should leave out."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from workbench.cli.help import Group
from workbench.cli.options import PLACE, cluster_option, completing, config_option, json_option
from workbench.errors import ExitCode, UsageError
from workbench.humanize import listed, plural, printable
from workbench.queues.partitions_to_avoid import FLOOR, SHARE, TIMES, ExclusionRule
from workbench.safe_output import say, tell, write_json


@click.group(name="partitions", cls=Group)
def command() -> None:
    """Partitions that get too much, or are read too slowly."""


@command.command(name="exclude")
@cluster_option()
@click.option("--group", required=True, shell_complete=completing("groups"), help="The group that reads the topic.")
@click.option("--topic", required=True, help="The topic.")
@click.option("--file", type=PLACE, help="List that the producers read. What is in it now is taken into account.")
@click.option("--write", is_flag=True, help="Write the list; without it, nothing is changed.")
@click.option(
    "--times",
    type=click.FloatRange(1.0),
    default=TIMES,
    show_default=True,
    help="Times the smaller of mean and median.",
)
@click.option(
    "--floor",
    type=click.IntRange(0),
    default=FLOOR,
    show_default=True,
    help="Lag in messages below which none is left out.",
)
@click.option(
    "--share", type=click.FloatRange(0.0, 0.9), default=SHARE, show_default=True, help="Most that are left out, of all."
)
@json_option
@config_option
def exclude_command(
    cluster: str,
    group: str,
    topic: str,
    file: Path | None,
    write: bool,
    times: float,
    floor: int,
    share: float,
    as_json: bool,
    config: Path | None,
) -> int:
    """Find partitions whose lag is far above the others', for producers of records without a key to leave out.

    Hot is what lags by more than --times × min(mean, median) and --floor. It comes back below half of that. A producer that obeys:
    `workbench.kafka.audited_producer.AuditedProducer(left_out=FILE)`. Exit code 3 if some are to be left out.
    """
    from workbench.api.partitions_to_avoid import exclude_partitions

    if write and file is None:
        raise UsageError("--write needs a file.", hint="Name it with --file.")
    rule = ExclusionRule(times=times, floor=floor, share=share)
    found = exclude_partitions(
        cluster=cluster, group=group, topic=topic, file=file, write=write, rule=rule, config=config
    )
    if as_json:
        write_json(
            {
                "schema": "workbench.partitions-exclude/1",
                "topic": topic,
                "group": group,
                "written": write,
                **asdict(found),
            }
        )
    else:
        for words, some in (
            ("leave out", found.added),
            ("take back", found.returned),
            ("hot, and not left out: the share is used up", found.over_share),
            ("lag not known, so they stay as they are", found.unknown),
        ):
            if some:
                tell(f"{words}: {listed([str(it) for it in some])}")
        done = f"written to {file}" if write else "nothing was written (--write)"
        say(f"{printable(topic)}: {plural(len(found.partitions), 'partition')} left out; {done}.")
    return ExitCode.FINDINGS if found.partitions else ExitCode.OK

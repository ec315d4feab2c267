"""`workbench replay cutover`: the rolling change of a fleet from the old group to the new one, and back."""

from __future__ import annotations

from pathlib import Path

import click

from workbench.cli.options import cluster_option, config_option, json_option
from workbench.cli.replay_options import PLAN_FILE, confirm_option, confirmed
from workbench.errors import ExitCode, UsageError
from workbench.humanize import plural, shell_word
from workbench.safe_output import say, write_json


@click.command(name="retire")
@click.argument("plan_file", metavar="PLAN", type=PLAN_FILE)
@cluster_option(required=False)
@click.option("--stay", "stays", is_flag=True, help="The new group stays, and the old one is deleted.")
@click.option(
    "--allow-gap", is_flag=True, help="With --stay: also if messages are left that only the old group would process."
)
@click.option(
    "--allow-unproven",
    is_flag=True,
    help="Also if it cannot be told whether the new group processed the whole window: retention has deleted a part of it.",
)
@confirm_option
@json_option
@config_option
def retire_command(
    plan_file: Path,
    cluster: str | None,
    stays: bool,
    allow_gap: bool,
    allow_unproven: bool,
    confirm: str | None,
    as_json: bool,
    config: Path | None,
) -> int:
    """End a replay: remove the new group, after a check that nothing is left only to it; or keep it, and remove the old one.

    The commits of the removed group are written to a file next to the plan first (plan.retired.json). Where the brokers may hide topics
    from these credentials, only the commits that they see are taken away, and the brokers remove a group that has none left.
    """
    from workbench.api.replay_steps import open_replay
    from workbench.cli.progress import Steps

    replay = open_replay(plan_file, cluster=cluster, config=config)
    plan, expected = replay.plan, replay.retiring(stays=stays)
    with Steps(quiet=as_json).waiting(f"Reading the topics of {plan.cluster} from Kafka"):
        replay.check_cluster(with_topics=not stays)  # the old group of a topic that is gone may go, too
    what = f"Delete the group {expected.name!r}; the plan has {plural(len(plan.partitions), 'partition')}."
    confirmed(expected, confirm, what)
    with Steps(quiet=as_json).waiting("Deleting the group"):
        found = replay.retire(plan.hash, stays=stays, allow_gap=allow_gap, allow_unproven=allow_unproven)
    if as_json:
        document = {
            "schema": "workbench.replay-retire/1",
            "plan": plan.hash,
            "group": found.group,
            "existed": found.existed,
        }
        write_json({**document, "commits": len(found.commits), "file": str(found.file), "stands": found.stands})
    elif found.stands:
        say(
            f"The group {found.group!r} has no commit any more that these credentials see; its "
            f"{plural(len(found.commits), 'commit is', 'commits are')} in {found.file}. The brokers remove a group without commits "
            "within minutes (offsets.retention.check.interval.ms). If it still stands then, it has commits on other topics."
        )
    elif found.existed:
        say(
            f"The group {found.group!r} is deleted; its {plural(len(found.commits), 'commit is', 'commits are')} in {found.file}."
        )
    else:
        say(f"The group {found.group!r} was not there any more.")
    return ExitCode.OK


@click.command(name="cutover")
@click.argument("plan_file", metavar="PLAN", type=PLAN_FILE)
@click.option(
    "--fleet", "fleet_file", type=PLAN_FILE, required=True, help="fleet.toml: the instances, and how to switch them."
)
@cluster_option(required=False)
@confirm_option
@click.option("--back", is_flag=True, help="Switch the fleet back to the old group.")
@click.option(
    "--max-bytes-per-second",
    type=click.IntRange(min=1000),
    help="Read limit of each instance; overrides that of the fleet file.",
)
@click.option(
    "--allow-under-replicated", is_flag=True, help="Continue although the cluster has under-replicated partitions."
)
@click.option(
    "--allow-gap",
    is_flag=True,
    help="Skip records that the old group has not processed before the targets, and records that it reads beyond the plan.",
)
@click.option(
    "--carry-others",
    is_flag=True,
    help="On partitions that only the old group reads, begin at its commits. They are written and read back before the first switch.",
)
@click.option(
    "--allow-forgetting",
    is_flag=True,
    help="Continue although a restart of an instance would bring it back to the old group.",
)
@click.option(
    "--allow-beyond",
    is_flag=True,
    help="Continue although the instances do not stop at the end of the plan's ranges, or would not after a restart.",
)
@click.option(
    "--allow-unnamed",
    is_flag=True,
    help="Continue although the group has members that the fleet file does not name: they stay, and process everything once more.",
)
@json_option
@config_option
def cutover_command(
    plan_file: Path,
    fleet_file: Path,
    cluster: str | None,
    confirm: str | None,
    back: bool,
    max_bytes_per_second: int | None,
    allow_under_replicated: bool,
    allow_gap: bool,
    carry_others: bool,
    allow_forgetting: bool,
    allow_beyond: bool,
    allow_unnamed: bool,
    as_json: bool,
    config: Path | None,
) -> int:
    """Switch a fleet to the new group: first one instance, then batches. Each batch must be healthy before the next.

    Stops at the first batch that is not healthy, and says how to switch back. It is safe to repeat after any failure: it continues
    with the instances that are left.
    """
    from workbench.api.replay_steps import open_replay
    from workbench.cli.progress import Steps
    from workbench.cli.replay_output import preflight_lines
    from workbench.replay.guard import ReplayLimits
    from workbench.replay.service_fleet import read_fleet
    from workbench.replay.service_fleet_kinds import make_fleet

    replay, file = open_replay(plan_file, cluster=cluster, config=config), read_fleet(fleet_file)
    plan = replay.plan
    if max_bytes_per_second is not None and not make_fleet(file).can.limits_bytes:
        raise UsageError(
            f"A fleet of kind {file.kind} takes no --max-bytes-per-second.", hint="Set the limit in its own settings."
        )
    if max_bytes_per_second is not None or back:
        cap = None if back else max_bytes_per_second  # what goes back reads at full speed
        file = file.model_copy(update={"max_bytes_per_second": cap})
    if carry_others and back:
        raise UsageError(
            "--carry-others cannot be combined with --back.", hint="The old group still has its own commits."
        )
    for line in preflight_lines(plan, file.max_bytes_per_second, len(file.instances)):
        say(line)
    expected = replay.switching(file, back=back)
    where = expected.name
    confirmed(expected, confirm, f"{plural(len(file.instances), 'instance')} will switch to the group {where!r}.")
    limits = ReplayLimits(
        allow_under_replicated=allow_under_replicated,
        allow_gap=allow_gap,
        allow_forgetting=allow_forgetting,
        allow_beyond=allow_beyond,
        allow_unnamed=allow_unnamed,
    )
    with Steps(quiet=as_json).waiting(f"Waiting for the instances to switch to {where}"):
        replay.cut_over(file, plan.hash, back=back, carry_others=carry_others, limits=limits, say=say)
    say(f"Done: {plural(len(file.instances), 'instance is', 'instances are')} in {where!r}.")
    if not back:
        if allow_forgetting:
            say(f"Also set {plan.new_group!r} in their configuration: a restart would switch them back.")
        say(f"Then: workbench replay follow {shell_word(str(plan_file))}")
    if as_json:
        document = {"schema": "workbench.replay-cutover/1", "plan": plan.hash, "group": where}
        write_json({**document, "instances": file.instances, "outcome": "done"})
    return ExitCode.OK

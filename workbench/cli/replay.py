"""`workbench replay`: process again from a point in time, in a new consumer group; planned, guarded, verified, undoable."""

from __future__ import annotations

from pathlib import Path

import click

from workbench.cli.options import cluster_option, config_option, json_option
from workbench.cli.replay_cutover import cutover_command
from workbench.cli.replay_options import PLAN_FILE, collect_no_garbage, confirm_hash, seconds_of
from workbench.cli.replay_watch import follow_command, inspect_command, verify_command
from workbench.errors import ExitCode, UsageError
from workbench.replay.connect import gateway_of
from workbench.screen import say, write_json


@click.group(name="replay")
def command() -> None:
    """Process again from a point in time, in a new consumer group: plan, apply, follow, verify, cut over, roll back.

    The old group's offsets are never touched. Only `apply`, `rollback` and `cutover` change anything, and each is in the journal.
    """


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
@click.option("--force", is_flag=True, help="Replace a plan at --out that was never applied.")
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
    force: bool,
    csv_file: Path | None,
    as_json: bool,
    config: Path | None,
) -> int:
    """Look up, for each partition, where a replay would begin. Read-only: writes nothing to Kafka and joins no group."""
    from workbench.api.replays import plan_on
    from workbench.cli.replay_show import show_plan
    from workbench.replay.journal import Journal
    from workbench.replay.keep import check_csv_place, check_place
    from workbench.replay.parse_request import request_of
    from workbench.replay.plan import to_csv
    from workbench.replay.planfile import write_file
    from workbench.settings import load_settings

    collect_no_garbage()
    request = request_of(
        cluster=cluster,
        from_group=from_group,
        new_group=new_group,
        topics=topics,
        partitions=partitions,
        since=since,
        until=until,
        after_end=after_end,
        reason=reason,
    )
    for path in (out, csv_file):
        if path is not None and not path.absolute().parent.is_dir():
            raise UsageError(f"The folder of {path} does not exist.")
    if out is not None:
        check_place(out, Journal.of_user(), replace=force)
    if csv_file is not None:
        check_csv_place(csv_file)
    gateway = gateway_of(load_settings(config).cluster(cluster))
    plan = plan_on(request, gateway, bootstrap=gateway.bootstrap).plan
    if out is not None:
        write_file(out, plan.document())
    if csv_file is not None:
        csv_file.write_text(to_csv(plan), encoding="utf-8")  # it may be a pipe
    if as_json:
        write_json(plan.document())
    else:
        show_plan(plan, gateway.bootstrap, out)
    return ExitCode.OK


@command.command(name="apply")
@click.argument("plan_file", metavar="PLAN", type=PLAN_FILE)
@cluster_option(required=False)
@click.option("--confirm", help="The plan's hash, or its first 8 characters; asked for on a terminal.")
@click.option(
    "--allow-existing", is_flag=True, help="The new group may have committed offsets already; they are replaced."
)
@click.option("--allow-under-replicated", is_flag=True, help="Go on although replicas are missing in the cluster.")
@click.option(
    "--retention-margin",
    default="10m",
    show_default=True,
    help="Refuse if retention may take a record to be replayed sooner; 0s: take what is left.",
)
@click.option("--quiet-period", help="How long the group's commits must not move. Default: 6s, or 1s if it has none.")
@click.option("--dry-run", is_flag=True, help="Check everything, write nothing.")
@json_option
@config_option
def apply_command(
    plan_file: Path,
    cluster: str | None,
    confirm: str | None,
    allow_existing: bool,
    allow_under_replicated: bool,
    retention_margin: str,
    quiet_period: str | None,
    dry_run: bool,
    as_json: bool,
    config: Path | None,
) -> int:
    """Commit a plan's offsets for its new group: after all guards, with a rollback file beside the plan, and read back afterwards.

    Exit code 6 if a guard refused, or if not every offset was read back as planned. Can be run again after any failure.
    """
    from workbench.cli.replay_show import show_receipt
    from workbench.replay.apply import Options, apply_plan
    from workbench.replay.guard import Limits
    from workbench.replay.journal import Journal
    from workbench.replay.planfile import read_plan
    from workbench.replay.receipt import ReplayOutcome
    from workbench.settings import load_settings

    collect_no_garbage()
    plan = read_plan(plan_file)
    options = Options(
        limits=Limits(
            retention_margin_seconds=seconds_of(retention_margin),
            allow_existing=allow_existing,
            allow_under_replicated=allow_under_replicated,
        ),
        quiet_seconds=seconds_of(quiet_period) if quiet_period is not None else None,
        dry_run=dry_run,
    )
    gateway = gateway_of(load_settings(config).cluster(cluster or plan.cluster))
    if not dry_run:
        summary = f"Commit {len(plan.targets):,} offsets for the group {plan.new_group!r} ({plan.messages:,} messages)."
        confirm_hash(plan.hash, confirm, summary)
    receipt = apply_plan(plan, plan_file, gateway, Journal.of_user(), options)
    if as_json:
        write_json(receipt.document())
    show_receipt(receipt, plan_file, as_json=as_json)
    return ExitCode.OK if receipt.outcome in (ReplayOutcome.DONE, ReplayOutcome.DRY_RUN) else ExitCode.GUARD


@command.command(name="rollback")
@click.argument("rollback_file", metavar="ROLLBACK", type=PLAN_FILE)
@cluster_option(required=False)
@click.option("--confirm", help="The rollback file's hash, or its first 8 characters; asked for on a terminal.")
@click.option("--discard-progress", is_flag=True, help="Also if the group has consumed since; that is given up.")
@json_option
@config_option
def rollback_command(
    rollback_file: Path,
    cluster: str | None,
    confirm: str | None,
    discard_progress: bool,
    as_json: bool,
    config: Path | None,
) -> int:
    """Make the new group as it was before `apply`, from the file that `apply` left beside the plan (plan.rollback.json)."""
    from workbench.humanize import plural
    from workbench.replay.journal import Journal
    from workbench.replay.receipt import read_rollback
    from workbench.replay.rollback import roll_back
    from workbench.settings import load_settings

    rollback = read_rollback(rollback_file)
    gateway = gateway_of(load_settings(config).cluster(cluster or rollback.cluster))
    what = f"restore {len(rollback.before):,} commits" if rollback.before else "delete it, for it did not exist"
    confirm_hash(rollback.hash, confirm, f"Group {rollback.group!r}: {what}.")
    found = roll_back(rollback, gateway, Journal.of_user(), discard_progress=discard_progress)
    if as_json:
        failed = [{"topic": t, "partition": n, "error": words} for (t, n), words in sorted(found.failed.items())]
        document = {"schema": "workbench.replay-rolled-back/1", "group": found.group, "deleted": found.deleted}
        write_json({**document, "restored": found.restored, "failed": failed})
    for (topic, number), words in sorted(found.failed.items()):
        say(f"{topic}-{number}: {words}")
    if not found.failed and not as_json:
        say(
            f"The group is as it was: {plural(found.restored, 'commit')}"
            + (", none of it new." if found.deleted else ".")
        )
    return ExitCode.GUARD if found.failed else ExitCode.OK


@command.command(name="log")
@click.option("--plan", "plan_hash", help="Only this plan: its hash, or the beginning of it.")
@click.option("--group", help="Only this group.")
@json_option
def log_command(plan_hash: str | None, group: str | None, as_json: bool) -> int:
    """Read the journal: what was changed, when, by whom, from which offset to which, and how it ended."""
    from workbench.cli.replay_show import show_journal
    from workbench.replay.journal import Journal

    entries, torn = Journal.of_user().read()
    chosen = [entry for entry in entries if entry.plan.startswith(plan_hash or "") and group in (None, entry.group)]
    if as_json:
        write_json([entry.model_dump(mode="json", by_alias=True) for entry in chosen])
    else:
        show_journal(chosen)
    if torn:
        say(f"{torn} line(s) of the journal are cut off or damaged.")
    return ExitCode.EVIDENCE if torn else ExitCode.OK


for _each in (follow_command, verify_command, inspect_command, cutover_command):
    command.add_command(_each)

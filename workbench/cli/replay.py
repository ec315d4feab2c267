"""`workbench replay`: process records again from a point in time, in a new consumer group."""

from __future__ import annotations

from pathlib import Path

import click

from workbench.cli.help import Group
from workbench.cli.options import A_TIME, cluster_option, completing, config_option, json_option, renamed
from workbench.cli.replay_cutover import cutover_command, retire_command
from workbench.cli.replay_follow import follow_command, inspect_command, verify_command
from workbench.cli.replay_options import (
    PLAN_FILE,
    collect_no_garbage,
    confirm_option,
    confirmed,
    done_by_its_queue,
    seconds_of,
)
from workbench.errors import ExitCode, UsageError
from workbench.humanize import plural
from workbench.queues.systems import gateway_of
from workbench.safe_output import say, write_json


@click.group(name="replay", cls=Group)
def command() -> None:
    """Process records again from a point in time, in a new consumer group.

    The offsets of the old group are never changed. Only `apply`, `rollback`, `cutover` and `retire`
    change anything; the journal has every change.
    """


@command.command(name="plan")
@cluster_option()
@click.option(
    "--from-group",
    required=True,
    shell_complete=completing("groups"),
    help="The group that processed the records the first time. It is not changed.",
)
@click.option("--new-group", required=True, help="The new group, which will process them again.")
@click.option("--topic", "topics", multiple=True, help="A topic to replay. May be repeated.")
@click.option(
    "--partition",
    "partitions",
    multiple=True,
    help="Only this partition: 3, or orders:3 with several topics. May be repeated.",
)
@click.option("--since", help=f"Start: {A_TIME} (2026-11-21T03:00:00+08:00).")
@click.option("--until", help=f"End, exclusive: {A_TIME}. Default: the end of each log when the plan is made.")
@click.option(
    "--range",
    "ranges",
    multiple=True,
    help="Instead of --since: exactly these offsets, orders:3:100-200, the end exclusive. May be repeated.",
)
@click.option(
    "--window",
    "windows",
    nargs=2,
    multiple=True,
    metavar="SINCE UNTIL",
    help="Instead of --since: exactly the records from SINCE to UNTIL. May be repeated, also with --range.",
)
@click.option(
    "--from-audit",
    type=PLAN_FILE,
    help="Instead of --since: exactly the missing records that `workbench audit missing --output` has named.",
)
@click.option(
    "--after-end",
    type=click.Choice(["skip", "end", "fail"]),
    default="fail",
    show_default=True,
    help="For partitions without a record at or after the start: commit nothing, commit the log end, or refuse.",
)
@click.option("--reason", help="Reason for the replay; stored in the plan and the journal.")
@renamed("-o", "--output", "out", old=("--out",), type=PLAN_FILE, help="File for the plan; `apply` reads it.")
@click.option("--force", is_flag=True, help="Replace a plan at --output that was never applied.")
@click.option(
    "--csv", "csv_file", type=PLAN_FILE, help="Also write the offsets as CSV for kafka-consumer-groups --from-file."
)
@json_option
@config_option
def plan_command(
    cluster: str,
    from_group: str,
    new_group: str,
    topics: tuple[str, ...],
    partitions: tuple[str, ...],
    since: str | None,
    until: str | None,
    ranges: tuple[str, ...],
    windows: tuple[tuple[str, str], ...],
    from_audit: Path | None,
    after_end: str,
    reason: str | None,
    out: Path | None,
    force: bool,
    csv_file: Path | None,
    as_json: bool,
    config: Path | None,
) -> int:
    """Find the offset where a replay would begin, for each partition. Read-only: writes nothing to Kafka and joins no group."""
    from workbench.api.replays import plan_on
    from workbench.cli.progress import Steps
    from workbench.cli.replay_output import show_plan
    from workbench.plans.journal import Journal
    from workbench.plans.missing_records_file import read_missing
    from workbench.plans.strict_document import write_file
    from workbench.replay.parse_replay_request import request_of, windows_of
    from workbench.replay.plan import to_csv
    from workbench.replay.plan_of_given_ranges import make_range_plan, parse_ranges
    from workbench.replay.plan_save_path import check_csv_place, check_place
    from workbench.settings import load_settings

    collect_no_garbage()
    chosen = load_settings(config).cluster(cluster)
    if (done := done_by_its_queue("plan", of=chosen)) is not None:
        return done
    of_audit = read_missing(from_audit) if from_audit is not None else None
    missing = of_audit.ranges() if of_audit is not None else {}
    if (since is None) == (not ranges and not windows and not missing) or (until is not None and since is None):
        raise UsageError("Give either --since (with --until), or --range and --window, or --from-audit.")
    if not topics and not missing:
        raise UsageError("No topic to replay was given.", hint="Give it with --topic.")
    topics = topics or tuple(dict.fromkeys(topic for topic, _ in missing))
    spans = windows_of(windows)
    request = request_of(
        cluster=cluster,
        from_group=from_group,
        new_group=new_group,
        topics=topics,
        partitions=partitions,
        since=since or (windows[0][0] if windows else "now"),
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
    gateway, bootstrap = gateway_of(chosen), chosen.bootstrap or ""
    with Steps(quiet=as_json) as steps, steps.waiting(f"Reading offsets of {cluster} from Kafka"):
        if since is None:
            given = parse_ranges(ranges)
            wanted = {key: [*missing.get(key, ()), *given.get(key, ())] for key in {**missing, **given}}
            plan = make_range_plan(request, gateway, ranges=wanted, windows=spans)
            if of_audit is not None:
                of_audit.check_same_topics(plan.cluster_id, plan.topic_ids)
        else:
            plan = plan_on(request, gateway, bootstrap=bootstrap).plan
    if out is not None:
        write_file(out, plan.document())
    if csv_file is not None:
        csv_file.write_text(to_csv(plan), encoding="utf-8")  # it may be a pipe
    if as_json:
        write_json(plan.document())
    else:
        show_plan(plan, bootstrap, out, login_file=chosen.login_file)
    return ExitCode.OK


@command.command(name="apply")
@click.argument("plan_file", metavar="PLAN", type=PLAN_FILE)
@cluster_option(required=False)
@confirm_option
@click.option("--allow-existing", is_flag=True, help="Replace offsets that the new group has already committed.")
@click.option(
    "--allow-under-replicated", is_flag=True, help="Continue although the cluster has under-replicated partitions."
)
@click.option(
    "--allow-busy-brokers",
    is_flag=True,
    help="Continue although brokers of the plan have no room for more reading, by their own metrics.",
)
@click.option(
    "--retention-margin",
    default="10m",
    show_default=True,
    help="Refuse if retention may delete a record of the window within this time; 0s: replay the remaining records.",
)
@click.option(
    "--quiet-period", help="Time during which the group's commits must not move. Default: 6s, or 1s if it has none."
)
@click.option("--dry-run", is_flag=True, help="Run all safety checks, write nothing.")
@json_option
@config_option
def apply_command(
    plan_file: Path,
    cluster: str | None,
    confirm: str | None,
    allow_existing: bool,
    allow_under_replicated: bool,
    allow_busy_brokers: bool,
    retention_margin: str,
    quiet_period: str | None,
    dry_run: bool,
    as_json: bool,
    config: Path | None,
) -> int:
    """Commit a plan's offsets for its new group, after all safety checks.

    Writes a rollback file next to the plan first, and reads the offsets back afterwards. It is safe to repeat after any failure.
    Exit code 6 if a safety check failed, or if an offset was not read back as planned.
    """
    from workbench.api.replay_steps import open_replay
    from workbench.cli.progress import Steps
    from workbench.cli.replay_output import show_head, show_receipt
    from workbench.replay.confirm import of_plan
    from workbench.replay.guard import ReplayLimits
    from workbench.replay.receipt import ReplayOutcome
    from workbench.terminal_tables import SafeConsole

    collect_no_garbage()
    if (done := done_by_its_queue("apply", of=plan_file)) is not None:
        return done
    replay = open_replay(plan_file, cluster=cluster, config=config)
    plan = replay.plan
    limits = ReplayLimits(
        retention_margin_seconds=seconds_of(retention_margin),
        allow_existing=allow_existing,
        allow_under_replicated=allow_under_replicated,
        allow_busy_brokers=allow_busy_brokers,
    )
    quiet = seconds_of(quiet_period) if quiet_period is not None else None
    if not dry_run:
        summary = f"Commit {plural(len(plan.targets), 'offset')} for the group {plan.new_group!r} ({plural(plan.messages, 'message')})."
        confirmed(of_plan(plan), confirm, summary, show=lambda: show_head(SafeConsole(stderr=True), plan))
    with Steps(quiet=as_json) as steps, steps.waiting(f"Checking and committing for {plan.new_group}"):
        receipt = replay.apply(None if dry_run else plan.hash, limits=limits, quiet_seconds=quiet)
    if as_json:
        write_json(receipt.document())
    show_receipt(receipt, plan_file, as_json=as_json)
    return ExitCode.OK if receipt.outcome in (ReplayOutcome.DONE, ReplayOutcome.DRY_RUN) else ExitCode.GUARD


@command.command(name="rollback")
@click.argument("rollback_file", metavar="ROLLBACK", type=PLAN_FILE)
@cluster_option(required=False)
@confirm_option
@click.option(
    "--discard-progress", is_flag=True, help="Roll back even if the group has consumed since; that progress is lost."
)
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
    """Restore the new group as it was before `apply`.

    ROLLBACK is the file that `apply` wrote next to the plan (plan.rollback.json).
    """
    from workbench.api.replay_steps import open_rollback
    from workbench.cli.progress import Steps
    from workbench.replay.confirm import of_rollback

    if (done := done_by_its_queue("roll_back", of=rollback_file)) is not None:
        return done
    undo = open_rollback(rollback_file, cluster=cluster, config=config)
    rollback = undo.rollback
    what = (
        f"restore {plural(len(rollback.before), 'commit')}"
        if rollback.existed
        else "remove it (0 commits are restored), because it did not exist before"
    )
    confirmed(of_rollback(rollback), confirm, f"Group {rollback.group!r}: {what}.")
    with Steps(quiet=as_json) as steps, steps.waiting(f"Restoring {rollback.group}"):
        found = undo.run(rollback.hash, discard_progress=discard_progress)
    if as_json:
        failed = [{"topic": t, "partition": n, "error": words} for (t, n), words in sorted(found.failed.items())]
        document = {"schema": "workbench.replay-rolled-back/1", "group": found.group, "deleted": found.deleted}
        write_json({**document, "restored": found.restored, "failed": failed})
    for (topic, number), words in sorted(found.failed.items()):
        say(f"{topic}-{number}: {words}")
    if not found.failed and not as_json:
        say(
            f"Rolled back: {found.group} had no offsets before, and has none now."
            if not rollback.before
            else f"Rolled back: {found.group} has its {plural(found.restored, 'commit')} of before again."
        )
    return ExitCode.GUARD if found.failed else ExitCode.OK


@command.command(name="log")
@click.option("--plan", "plan_hash", help="Only this plan: its hash, or a prefix of it.")
@click.option("--group", help="Only this group.")
@json_option
@config_option
def log_command(plan_hash: str | None, group: str | None, as_json: bool, config: Path | None) -> int:
    """Show the journal: who changed which offsets, when, and the outcome. Secrets of the settings are masked in it."""
    from workbench.cli.replay_output import show_journal
    from workbench.plans.journal import Journal
    from workbench.settings import load_settings

    if config is not None:
        load_settings(config)
    entries, torn = Journal.of_user().read()
    chosen = [entry for entry in entries if entry.plan.startswith(plan_hash or "") and group in (None, entry.group)]
    if as_json:
        write_json([entry.model_dump(mode="json", by_alias=True) for entry in chosen])
    else:
        show_journal(chosen)
    if torn:
        say(f"{torn} line(s) of the journal are truncated or damaged.")
    return ExitCode.EVIDENCE if torn else ExitCode.OK


for _each in (follow_command, verify_command, inspect_command, cutover_command, retire_command):
    command.add_command(_each)

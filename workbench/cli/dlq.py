"""`workbench dlq`: dead letters; list and show them, and produce them again by a plan, exactly once."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click

from workbench.api.letter_redrives import apply_redrive, dead_letters, letters_setup, plan_redrive
from workbench.cli.dlq_follow import discard_command, follow_command, give_up_command, verify_command
from workbench.cli.dlq_options import dry_run_option, selection_options_of_letters
from workbench.cli.help import Group
from workbench.cli.options import cluster_option, config_option, json_option, renamed, table_option, wrote_rows
from workbench.cli.replay_options import PLAN_FILE, collect_no_garbage, confirm_option, confirmed, seconds_of
from workbench.errors import ExitCode
from workbench.humanize import plural, shell_word
from workbench.safe_output import say, write_json


@click.group(name="dlq", cls=Group)
def command() -> None:
    """Dead letters: list and show them, and redrive them by a plan.

    Only `apply`, `discard` and `give-up` change anything, each after a confirmation; the journal has every change. No letter is ever
    deleted.
    """


@command.command(name="list")
@cluster_option()
@table_option
@config_option
def list_command(cluster: str, as_json: bool, config: Path | None) -> int:
    """List the topics with dead letters: number, age, rate, errors and source topics. Joins no group.

    Topics are found by name (-dlt, .DLQ, _dead_letters and so on), or by `dead_letters.topics` of the cluster's settings.
    """
    from workbench.cli.dead_letter_output import show_topics
    from workbench.cli.progress import Steps

    with Steps(quiet=as_json) as steps, steps.waiting(f"Reading the dead-letter topics of {cluster}"):
        found = dead_letters(cluster=cluster, config=config)
    if as_json:
        write_json(found.to_json())
    elif not wrote_rows(lambda: (it.document() for it in found.topics)):
        show_topics(found.topics, cluster)
    return ExitCode.OK


@command.command(name="show")
@click.argument("topic")
@cluster_option()
@selection_options_of_letters
@click.option(
    "--by",
    "kinds",
    type=click.Choice(["error", "type", "minute", "key", "source", "partition"]),
    multiple=True,
    help="Count the letters by this field instead of listing them. May be repeated.",
)
@click.option("--payload", is_flag=True, help="Show keys and values, decoded; hidden fields stay hidden.")
@click.option(
    "--limit",
    type=click.IntRange(1, 10_000),
    default=20,
    show_default=True,
    help="Number of letters, or of lines per count.",
)
@json_option
@config_option
def show_command(
    topic: str,
    cluster: str,
    kinds: tuple[str, ...],
    payload: bool,
    limit: int,
    as_json: bool,
    config: Path | None,
    **chosen: Any,
) -> int:
    """Show the letters of TOPIC: where each came from, and why it failed. Without --payload, keys and values are not shown."""
    from workbench.cli.dead_letter_output import show_counts_of_letters, show_letters
    from workbench.cli.progress import Steps
    from workbench.redrive.parse_redrive_request import selection_of
    from workbench.redrive.show_letters import count_letters, newest_letters

    selection = selection_of(**chosen)
    settings, kafka = letters_setup(cluster, config)
    look: dict[str, Any] = {
        "gateway": kafka.gateway,
        "letters": kafka.letters(topic),
        "settings": settings,
        "topic": topic,
    }
    steps, title = Steps(quiet=as_json), f"Reading the letters of {topic}"
    if kinds:
        with steps.waiting(title):
            counts = count_letters(
                **look, selection=selection, kinds=list(dict.fromkeys(kinds)), most=limit, payload=payload
            )
        if as_json:
            write_json({"schema": "workbench.dlq-counts/1", "topic": topic, **counts})
        else:
            show_counts_of_letters(counts)
        return ExitCode.OK
    with steps.waiting(title):
        found = newest_letters(**look, selection=selection, most=limit, payload=payload)
    if as_json:
        write_json({"schema": "workbench.dlq-show/1", "topic": topic, "letters": [it.document() for it in found]})
    else:
        show_letters(found, topic, payload=payload)
    return ExitCode.OK


@command.command(name="plan")
@click.argument("topic")
@cluster_option()
@selection_options_of_letters
@click.option(
    "--to", "to_topic", help="Produce all letters to this topic. Default: to the topic in each letter's headers."
)
@click.option(
    "--to-url", help="Send each letter to this REST service instead; not exactly once (see the plan's warnings)."
)
@click.option("--source", help="Source topic of letters whose headers do not name it. Default: by the topic's name.")
@click.option(
    "--partition-by",
    type=click.Choice(["origin", "key"]),
    default="origin",
    show_default=True,
    help="Partition of a record: that of its source record, or by its key as Java's producers choose it.",
)
@click.option(
    "--timestamps",
    type=click.Choice(["new", "original"]),
    default="new",
    show_default=True,
    help="Timestamp of a record: the time of the redrive, or that of its source record.",
)
@click.option(
    "--dedup",
    type=click.Choice(["origin", "content", "none"]),
    default="origin",
    show_default=True,
    help="Which letters are the same record: same source offset, key and value, or same target, key and value. "
    "The first one is produced.",
)
@click.option(
    "--order",
    type=click.Choice(["origin", "log"]),
    default="origin",
    show_default=True,
    help="Order of the letters of one key: that of their source records, or that of the dead-letter topic.",
)
@click.option(
    "--max-rounds", type=click.IntRange(1, 1000), default=3, show_default=True, help="A letter redriven so often stays."
)
@click.option("--max-records-per-second", type=click.FloatRange(min=0, min_open=True), help="Cap of the redrive.")
@click.option("--max-bytes-per-second", type=click.FloatRange(min=0, min_open=True), help="Cap of the redrive.")
@click.option(
    "--known-plan",
    "known_plans",
    type=PLAN_FILE,
    multiple=True,
    help="A plan applied or discarded on another machine; its letters are left out.",
)
@click.option("--again", is_flag=True, help="Also plan letters that earlier plans have produced or discarded.")
@click.option("--reason", help="Reason for the redrive; stored in the plan.")
@renamed("-o", "--output", "out", old=("--out",), type=PLAN_FILE, help="File for the plan; `apply` reads it.")
@json_option
@config_option
def plan_command(
    topic: str,
    cluster: str,
    out: Path | None,
    as_json: bool,
    **asked: Any,
) -> int:
    """Plan which letters of TOPIC are produced again, and where. Read-only: writes nothing to Kafka and joins no group."""
    from workbench.cli.dead_letter_output import show_redrive_plan
    from workbench.cli.progress import Steps
    from workbench.redrive.plan_never_overwritten import check_redrive_place

    collect_no_garbage()
    if out is not None:
        check_redrive_place(out)
    with Steps(quiet=as_json) as steps, steps.waiting(f"Reading the letters of {topic}"):
        found = plan_redrive(cluster=cluster, topic=topic, **asked)
    if out is not None:
        found.write(out)
    if as_json:
        write_json(found.to_json())
    else:
        show_redrive_plan(found.plan, out)
    return ExitCode.OK


@command.command(name="apply")
@click.argument("plan_file", metavar="PLAN", type=PLAN_FILE)
@cluster_option(required=False)
@dry_run_option
@confirm_option
@click.option(
    "--allow-under-replicated", is_flag=True, help="Continue although partitions of the cluster lack a replica."
)
@click.option(
    "--retention-margin",
    default="10m",
    show_default=True,
    help="Refuse if retention may delete a letter within the duration of the redrive and this time; 0s: never refuse.",
)
@json_option
@config_option
def apply_command(
    plan_file: Path,
    cluster: str | None,
    dry_run: bool,
    confirm: str | None,
    allow_under_replicated: bool,
    retention_margin: str,
    as_json: bool,
    config: Path | None,
) -> int:
    """Produce the records of a plan in transactions, after all safety checks and a confirmation.

    It is safe to repeat after any failure or kill: it continues exactly where the last transaction ended. A letter that the target
    refuses is left out and named: exit code 3. Exit code 6 if the redrive is refused.
    """
    from workbench.cli.dead_letter_output import ApplyBar, show_redrive_receipt
    from workbench.cli.progress import Steps
    from workbench.redrive.apply import RedriveOutcome
    from workbench.redrive.confirmation import of_letters
    from workbench.redrive.planfile import read_redrive_plan

    collect_no_garbage()
    plan = read_redrive_plan(plan_file)
    is_real = not dry_run
    if is_real:
        targets = ", ".join(f"{it.topic} ({it.letters:,})" for it in plan.targets) or plan.destination.url or "nowhere"
        summary = f"Produce {plural(plan.letters, 'letter')} of {plan.topic} again, to {targets}."
        confirmed(of_letters(plan.hash, plan.topic, plan.letters), confirm, summary)
    # On a terminal the bar shows a real run; a dry run reads the letters first.
    bar = ApplyBar(plan.letters, quiet=as_json or not is_real)
    title = "Producing the records" if is_real else "Reading the letters, and checking"
    waiting = nullcontext() if bar.shows else Steps(quiet=as_json).waiting(title)
    with bar, waiting:
        receipt = apply_redrive(
            plan_file,
            confirm=plan.hash if is_real else None,
            cluster=cluster,
            retention_margin_seconds=seconds_of(retention_margin),
            allow_under_replicated=allow_under_replicated,
            on_progress=bar.show,
            config=config,
        )
    if as_json:
        write_json(receipt.document())
    show_redrive_receipt(receipt, plan_file, as_json=as_json)
    if receipt.outcome is RedriveOutcome.DRY_RUN and not as_json:
        say(f"Nothing was written. Produce with: workbench dlq apply {shell_word(str(plan_file))}")
    codes = {RedriveOutcome.REFUSED: ExitCode.GUARD, RedriveOutcome.PARTIAL: ExitCode.FINDINGS}
    return codes.get(receipt.outcome, ExitCode.OK)


command.add_command(verify_command)
command.add_command(follow_command)
command.add_command(discard_command)
command.add_command(give_up_command)

"""`workbench replay` on a Pulsar: each command with the options that it takes (`replay_options.done_by_its_queue`)."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.cli.replay_options import confirmed, seconds_of
from workbench.errors import DeadlineError, EvidenceError, ExitCode, UsageError
from workbench.humanize import duration, one_line, plural, shell_word
from workbench.safe_output import say, write_json

if TYPE_CHECKING:
    from workbench.pulsar.replay_plan import PulsarReplayPlan
    from workbench.pulsar.replay_progress import PulsarProgress

_MOST_ROWS = 20


def plan(
    *,
    cluster: str,
    from_group: str,
    new_group: str,
    topics: tuple[str, ...],
    since: str | None,
    until: str | None,
    from_audit: Path | None,
    reason: str | None,
    out: Path | None,
    force: bool,
    as_json: bool,
    config: Path | None,
) -> int:
    """`replay plan`."""
    from workbench.cli.progress import Steps
    from workbench.plans.journal import Journal
    from workbench.plans.missing_records_file import read_missing
    from workbench.plans.strict_document import write_file
    from workbench.pulsar.replay_plan import read_plan, topic_of
    from workbench.pulsar.replay_steps import plan_pulsar_replay
    from workbench.pulsar.topic_names import split_group
    from workbench.replay.plan_save_path import check_place
    from workbench.settings import load_settings

    _, topic = split_group(from_group)
    missing = read_missing(from_audit).ranges() if from_audit is not None else {}
    topics = topics or ((topic,) if topic else tuple(sorted({it for it, _ in missing})))
    if len(topics) != 1:
        raise UsageError("A replay on Pulsar is of one topic.", hint="Give it with --topic tenant/namespace/topic.")
    wanted = str(topic_of(topics[0]))
    if others := sorted({it for it, _ in missing} - {wanted}):
        raise UsageError(f"The file names missing records of {others[0]}, and this is a replay of {wanted}.")
    if (since is None) == (not missing) or (until is not None and since is None):
        raise UsageError("Give either the start with --since, or --from-audit with a file that names missing records.")
    if out is not None:
        check_place(out, Journal.of_user(), replace=force, read=read_plan)
    with Steps(quiet=as_json) as steps, steps.waiting(f"Reading positions of {cluster} from Pulsar"):
        made = plan_pulsar_replay(
            load_settings(config).cluster(cluster),
            topic=wanted,
            from_subscription=from_group,
            new_subscription=new_group,
            since=since,
            until=until,
            missing={number: some for (_, number), some in missing.items()} or None,
            reason=reason,
        )
    if out is not None:
        write_file(out, made.document())
    if as_json:
        write_json(made.document())
    else:
        _show(made, out)
    return ExitCode.OK


def apply(
    plan_file: Path, *, cluster: str | None, confirm: str | None, dry_run: bool, as_json: bool, config: Path | None
) -> int:
    """`replay apply`."""
    from workbench.cli.progress import Steps
    from workbench.pulsar.replay_steps import open_pulsar_replay

    replay = open_pulsar_replay(plan_file, cluster=cluster, config=config)
    plan = replay.plan
    if not dry_run:
        where, entries = plural(len(plan.windows), "partition"), plural(plan.entries, "entry", "entries")
        summary = f"Make the subscription {plan.new_subscription!r} on {where} ({entries})."
        confirmed(plan.confirmation, confirm, summary, show=lambda: _head(plan))
    with Steps(quiet=as_json) as steps, steps.waiting(f"Checking and making {plan.new_subscription}"):
        found = replay.apply(None if dry_run else plan.hash)
    if as_json:
        write_json(found.document())
    _say_each({it.partition: it.error or "" for it in found.failed})
    if found.failed:
        say("What is missing is made, or named, by the same command again.")
        say(f"The way back: workbench replay rollback {shell_word(str(found.undo))}")
    elif not as_json:
        say(
            f"Done: {plan.new_subscription} begins as planned on {plural(len(found.partitions), 'partition')}, read back from each."
            if found.undo is not None
            else "Dry run: all checks passed, nothing was changed."
        )
        if found.undo is not None:
            say(f"Next: consumers with this subscription, then: workbench replay follow {shell_word(str(plan_file))}")
            say(f"The way back: workbench replay rollback {shell_word(str(found.undo))}")
    return ExitCode.GUARD if found.failed else ExitCode.OK


def roll_back(
    rollback_file: Path,
    *,
    cluster: str | None,
    confirm: str | None,
    discard_progress: bool,
    as_json: bool,
    config: Path | None,
) -> int:
    """`replay rollback`."""
    from workbench.pulsar.replay_apply import read_undo
    from workbench.pulsar.replay_steps import roll_back_pulsar

    undo = read_undo(rollback_file)
    partitions = plural(len(undo.starts), "partition")
    confirmed(undo.confirmation, confirm, f"Delete the subscription {undo.subscription!r} on {partitions}.")
    found = roll_back_pulsar(undo, undo.hash, cluster=cluster, config=config, discard_progress=discard_progress)
    if as_json:
        write_json(found.document())
    _say_each(found.failed)
    _say_each(dict.fromkeys(found.others, "this plan has not made the subscription that is there; it stays."))
    if not found.failed and not as_json:
        say(f"Rolled back: {undo.subscription} is gone from {plural(len(found.deleted), 'partition')}.")
    return ExitCode.GUARD if found.failed else ExitCode.OK


def follow(
    plan_file: Path,
    *,
    cluster: str | None,
    interval: str,
    timeout: str | None,
    once: bool,
    fleet: Path | None,  # noqa: ARG001 - a runtime is not held here
    neighbours: bool,  # noqa: ARG001 - nor are others watched
    as_json: bool,
    config: Path | None,
) -> int:
    """`replay follow`."""
    from workbench.pulsar.replay_steps import open_pulsar_replay

    replay = open_pulsar_replay(plan_file, cluster=cluster, config=config)
    deadline = time.monotonic() + seconds_of(timeout) if timeout else float("inf")

    def stop(seconds: float) -> bool:
        if once or time.monotonic() + seconds > deadline:
            return True
        time.sleep(seconds)
        return False

    for look in replay.looks(interval_seconds=max(0.2, seconds_of(interval)), stop=stop):
        if as_json:
            write_json(look.document(), indent=None)
        else:
            say(_words(look))
    if not look.complete:
        hint = f"Check again with: workbench replay follow {shell_word(str(plan_file))}"
        if look.unplanned:
            number, words = next(iter(look.unplanned.items()))
            where = plural(len(look.unplanned), "partition")
            raise DeadlineError(
                f"{replay.plan.new_subscription!r} is not as planned on {where}. {_part(number).capitalize()}: {words}.",
                hint=f"Make it with: workbench replay apply {shell_word(str(plan_file))}",
            )
        if look.consumers == 0:
            raise DeadlineError(f"Nobody is connected to {replay.plan.new_subscription!r}.", hint=hint)
        raise DeadlineError(f"{replay.plan.new_subscription!r} has not acknowledged the whole window.", hint=hint)
    return _sure(look)


def verify(plan_file: Path, *, cluster: str | None, as_json: bool, config: Path | None) -> int:
    """`replay verify`."""
    from workbench.pulsar.replay_steps import open_pulsar_replay

    look = open_pulsar_replay(plan_file, cluster=cluster, config=config).look()
    if as_json:
        write_json(look.document())
    else:
        say(_words(look))
        open_ones = {
            number: look.unplanned.get(number) or f"{plural(left or 0, 'entry', 'entries')} not acknowledged"
            for number, left in look.left.items()
            if left != 0
        }
        _say_each(open_ones)
    return _sure(look) if look.complete else ExitCode.FINDINGS


def _sure(look: PulsarProgress) -> int:
    if look.doubt is not None:
        raise EvidenceError(f"Everything is acknowledged. {look.doubt}", hint="Ask its consumers what they handled.")
    return ExitCode.OK


def _words(look: PulsarProgress) -> str:
    consumers = "consumers not known" if look.consumers is None else plural(look.consumers, "consumer")
    return f"{look.done:,} of {plural(look.plan.entries, 'entry', 'entries')} acknowledged   {consumers}"


def _say_each(words: dict[int, str]) -> None:
    """A line for each partition, or for the first of thousands."""
    for number, told in sorted(words.items())[:_MOST_ROWS]:
        say(f"{_part(number)}: {told}")
    if len(words) > _MOST_ROWS:
        say(f"… and {plural(len(words) - _MOST_ROWS, 'partition')} more. All of them: --json.")


def _part(number: int) -> str:
    return "the topic" if number < 0 else f"partition {number}"


def _head(plan: PulsarReplayPlan) -> None:
    say(
        f"Replay of {one_line(plan.from_subscription)} into {one_line(plan.new_subscription)} on {one_line(plan.topic)}"
    )
    until = "the last entry when this was made" if plan.until_ms is None else _instant(plan.until_ms)
    say(f"From {_instant(plan.since_ms)} to {until} (you wrote: {one_line(plan.written)}), by publish time.")
    say(
        f"{plural(plan.entries, 'entry', 'entries')} on {plural(len(plan.windows), 'partition')}; an entry is a batch of messages."
    )
    say(f"Retention: {one_line(plan.retention)}.")
    if plan.ttl_seconds:
        say(f"Time-to-live: {duration(plan.ttl_seconds)}; brokers acknowledge what is older, read or not.")
    for warning in plan.warnings():
        say(f"! {one_line(warning)}")


def _show(plan: PulsarReplayPlan, out: Path | None) -> None:
    from workbench.terminal_tables import FittingTable, SafeConsole, right

    _head(plan)
    entries = right("entries")
    table = FittingTable("partition", "begins at", "window ends before", *entries, "oldest kept", pad_edge=False)
    rows = sorted(plan.windows, key=lambda it: -it.entries)
    for it in rows[:_MOST_ROWS]:
        oldest = "none" if it.oldest_ms is None else _instant(it.oldest_ms)
        table.add_row("-" if it.partition < 0 else str(it.partition), it.start, it.stop, f"{it.entries:,}", oldest)
    SafeConsole().print(table)
    if len(rows) > _MOST_ROWS:
        say(f"… and {plural(len(rows) - _MOST_ROWS, 'partition')} with fewer entries. The plan has all of them.")
    if out is not None:
        say(f"Plan {plan.hash[:8]}. Next: workbench replay apply {shell_word(str(out))}")
    else:
        say(f"Plan {plan.hash[:8]}. Save it with -o plan.json. Nothing has been changed.")


def _instant(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")

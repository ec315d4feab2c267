"""`workbench replay follow`, `verify` and `inspect`: look at a replay; none of them changes anything."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from workbench.cli.options import PLACE, cluster_option, config_option, json_option, renamed
from workbench.cli.replay_options import PLAN_FILE, done_by_its_queue, seconds_of
from workbench.errors import DeadlineError, EvidenceError, ExitCode
from workbench.humanize import plural, shell_word
from workbench.safe_output import say, write_json

if TYPE_CHECKING:
    from workbench.api.replay_steps import Replay
    from workbench.replay.pause_for_neighbours import HoldReport
    from workbench.replay.planfile import Plan
    from workbench.replay.progress import Pace, ReplayProgress

_PLAIN_LINE_SECONDS = 10.0  # without a terminal a line every so often is enough


@click.command(name="follow")
@click.argument("plan_file", metavar="PLAN", type=PLAN_FILE)
@cluster_option(required=False)
@click.option("--interval", default="2s", show_default=True, help="Time between two checks.")
@click.option("--timeout", help="Stop after this time with exit code 7. Default: never.")
@click.option("--once", is_flag=True, help="Check once. Exit code 7 if the window is not complete.")
@click.option(
    "--fleet",
    type=PLAN_FILE,
    help="fleet.toml: hold the instances of a runtime while a group on the same brokers is late.",
)
@click.option(
    "--neighbours/--no-neighbours",
    default=True,
    show_default=True,
    help="Watch the groups on the same brokers, where the settings name a Prometheus.",
)
@json_option
@config_option
def follow_command(
    plan_file: Path,
    cluster: str | None,
    interval: str,
    timeout: str | None,
    once: bool,
    fleet: Path | None,
    neighbours: bool,
    as_json: bool,
    config: Path | None,
) -> int:
    """Watch the new group until it has committed the whole window, or all ranges of the plan.

    It also watches the groups that read from the same brokers. While one of them is about to pass its objective, the instances of a
    runtime (--fleet) read no more, and go on when it is back; each step is in the journal. For other consumers the command is printed.
    A group whose lag is not known is named, and holds nothing. After the last range,
    it says how to switch back. Also shows the lag of the old group. --json prints a line per check.
    Exit code 4 if the commits are there, but do not prove that every record was processed: retention has deleted some.
    """
    from workbench.api.replay_steps import open_replay
    from workbench.cli.progress import Steps
    from workbench.replay.progress import Pace, next_steps

    if (done := done_by_its_queue("follow", of=plan_file)) is not None:
        return done
    replay = open_replay(plan_file, cluster=cluster, config=config)
    plan, pace = replay.plan, Pace()
    with Steps(quiet=as_json).waiting(f"Reading the topics of {plan.cluster} from Kafka"):
        replay.check_cluster()
    deadline = time.monotonic() + seconds_of(timeout) if timeout else float("inf")

    def stop(seconds: float) -> bool:
        if once or time.monotonic() + seconds > deadline:
            return True
        time.sleep(seconds)
        return False

    watch = replay.neighbours(fleet) if neighbours and (replay.cluster.prometheus or fleet is not None) else None
    look = report = None
    with _Screen(plan, as_json=as_json) as screen:
        for look in replay.looks(interval_seconds=max(0.2, seconds_of(interval)), stop=stop):
            pace.add(look)
            if watch is not None and not look.complete and watch.is_due():
                report = watch.look()
                for line in report.lines:
                    screen.tell(line)
            screen.show(look, pace, report)
    name = shell_word(str(plan_file))
    if report is not None and report.is_held:
        say(
            f"The replay is still held. Go on watching: workbench replay follow {name} --fleet {shell_word(str(fleet))}"
        )
    if look is not None and look.waiting is not None and not look.left:
        raise DeadlineError(
            f"The group {plan.new_group!r} has committed all known records of the window. {look.waiting}",
            hint=f"Check again with: workbench replay follow {name}",
        )
    if look is not None and not look.members and not look.done and look.left:
        raise DeadlineError(
            f"Not started: no consumer in {plan.new_group!r}.",
            hint=f"Start consumers with group.id={plan.new_group}, then: workbench replay follow {name}",
        )
    if look is None or not look.complete:
        raise DeadlineError(
            f"The group {plan.new_group!r} has not committed the whole window: "
            f"{plural(len(look.left if look is not None else plan.partitions), 'partition is', 'partitions are')} not complete.",
            hint=f"Check again with: workbench replay follow {name}",
        )
    if look.doubt is not None:
        raise EvidenceError(
            f"The group {plan.new_group!r} has committed up to the window's end, which does not prove that it processed every record. "
            + look.doubt,
            hint=f"Ask its instances, or its log of processed records: workbench replay verify {name} --fleet fleet.toml",
        )
    if not as_json:
        for line in next_steps(plan, look, plan_file):
            say(line)
    return ExitCode.OK


class _Screen:
    """A bar for each topic on a terminal, plain lines elsewhere, or JSON lines."""

    def __init__(self, plan: Plan, *, as_json: bool) -> None:
        from workbench.humanize import printable
        from workbench.terminal_tables import SafeConsole, worded_bars

        self._plan, self._json = plan, as_json
        self._console = SafeConsole(stderr=True, quiet=as_json)
        self._bars = worded_bars(self._console, disable=as_json or not self._console.is_terminal)
        self._tasks = {topic: self._bars.add_task(printable(topic), total=None, words="") for topic in plan.topics}
        self._next_line = 0.0

    def __enter__(self) -> _Screen:
        self._bars.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._bars.stop()

    def tell(self, line: str) -> None:
        """A line of its own; in JSON it is in the next document."""
        if not self._json:
            say(line)

    def show(self, look: ReplayProgress, pace: Pace, beside: HoldReport | None = None) -> None:
        """Show the progress at one moment."""
        if self._json:
            write_json(look_document(self._plan, look, pace, beside), indent=None)
            return
        from workbench.replay.progress import in_words

        words = in_words(look, pace, group=self._plan.new_group)
        for topic in look.topics:
            self._bars.update(self._tasks[topic.topic], completed=topic.done, total=topic.total, words=words)
        if not self._console.is_terminal and (look.complete or time.monotonic() >= self._next_line):
            self._next_line = time.monotonic() + _PLAIN_LINE_SECONDS
            say(f"{look.done:,} of {plural(look.total, 'message')}   {words}")


def look_document(plan: Plan, look: ReplayProgress, pace: Pace, beside: HoldReport | None = None) -> dict[str, Any]:
    """One JSON line of `follow`."""
    return {
        "schema": "workbench.replay-progress/1",
        "plan": plan.hash,
        "group": plan.new_group,
        "done": look.done,
        "total": look.total,
        "complete": look.complete,
        "waiting": look.waiting,
        "doubt": look.doubt,
        "partitions_left": len(look.left),
        "ranges": look.ranges,
        "ranges_through": look.ranges_through,
        "messages_per_second": pace.per_second,
        "eta_seconds": pace.eta_seconds,
        "members": look.members,
        "lag_messages": look.new_lag,
        "old_group_lag_messages": look.old_lag,
        "neighbours": None if beside is None else beside.to_json(),
        "topics": [{"topic": topic.topic, "done": topic.done, "total": topic.total} for topic in look.topics],
    }


@click.command(name="verify")
@click.argument("plan_file", metavar="PLAN", type=PLAN_FILE)
@cluster_option(required=False)
@click.option("--fleet", type=PLAN_FILE, help="fleet.toml: also compare with the counts of the instances.")
@click.option(
    "--processed",
    type=PLACE,
    help="A log of processed records (topic, partition, offset; JSON lines, CSV or Parquet), to look up each record.",
)
@click.option("--records", is_flag=True, help="Read the records and count them by partition.")
@click.option(
    "--key-ranges", type=click.IntRange(1, 65_536), help="Count the records by this many ranges of the key's hash."
)
@json_option
@config_option
def verify_command(
    plan_file: Path,
    cluster: str | None,
    fleet: Path | None,
    processed: Path | None,
    records: bool,
    key_ranges: int | None,
    as_json: bool,
    config: Path | None,
) -> int:
    """Check whether the new group got every record of the window.

    Uses the group's commits, the counts of the instances (--fleet) and a log of processed records (--processed).
    Exit code 0: yes; 3: no, with the partitions; 4: cannot tell.
    """
    from workbench.api.replay_steps import open_replay
    from workbench.cli.progress import Steps
    from workbench.cli.replay_output import show_verdict
    from workbench.replay.verify import VerifyVerdict

    if (done := done_by_its_queue("verify", of=plan_file)) is not None:
        return done
    replay = open_replay(plan_file, cluster=cluster, config=config)
    what = "records" if records or processed is not None else "commits"
    with Steps(quiet=as_json).waiting(f"Reading the {what} of {replay.plan.new_group}"):
        found = replay.verify(fleet=fleet, processed=processed, records=records, key_ranges=key_ranges)
    if as_json:
        write_json(found.document())
    else:
        show_verdict(found)
    return {VerifyVerdict.VERIFIED: ExitCode.OK, VerifyVerdict.INCOMPLETE: ExitCode.FINDINGS}.get(
        found.verdict, ExitCode.EVIDENCE
    )


@click.command(name="inspect")
@click.argument("plan_file", metavar="PLAN", type=PLAN_FILE)
@cluster_option(required=False)
@click.option(
    "--by",
    "kinds",
    type=click.Choice(["type", "key", "minute", "partition"]),
    multiple=True,
    default=("type", "minute"),
    show_default=True,
    help="Count by this field. May be repeated.",
)
@renamed(
    "--limit",
    "most",
    old=("--most",),
    type=click.IntRange(1, 100_000),
    default=20,
    show_default=True,
    help="Number of lines per count.",
)
@click.option(
    "--show",
    type=click.IntRange(1, 10_000),
    help="Show this number of records instead, decoded; hidden fields stay hidden.",
)
@json_option
@config_option
def inspect_command(
    plan_file: Path,
    cluster: str | None,
    kinds: tuple[str, ...],
    most: int,
    show: int | None,
    as_json: bool,
    config: Path | None,
) -> int:
    """Read the records of a plan's window, and count them by event type, key, minute or partition. Joins no group."""
    from workbench.api.replay_steps import open_replay
    from workbench.cli.progress import Steps
    from workbench.cli.replay_output import show_counts

    replay = open_replay(plan_file, cluster=cluster, config=config)
    if show is not None:
        return _shown(replay, show, as_json=as_json)
    with Steps(quiet=as_json).waiting("Counting the records of the plan"):
        found = replay.counts(list(dict.fromkeys(kinds)), most=most)
    if as_json:
        write_json({"schema": "workbench.replay-inspect/1", "plan": replay.plan.hash, **found})
    else:
        show_counts(found)
    return ExitCode.OK


def _shown(replay: Replay, most: int, *, as_json: bool) -> int:
    from workbench.cli.progress import Steps
    from workbench.safe_output import tell

    plan = replay.plan
    with Steps(quiet=as_json).waiting("Reading the first records of the plan"):
        found = replay.first_records(most=most)
    if as_json:
        write_json({"schema": "workbench.replay-records/1", "plan": plan.hash, "records": found})
        return ExitCode.OK
    for it in found:
        problem = f"  ({it['problem']})" if it["problem"] else ""
        tell(f"{it['topic']}-{it['partition']}:{it['offset']}  {it['type']}  key {it['key']}  {it['value']}{problem}")
    return ExitCode.OK

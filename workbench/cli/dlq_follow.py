"""`workbench dlq verify`, `follow` and `discard`."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

import click

from workbench.api.letter_redrives import letters_setup, verify_redrive
from workbench.cli.dlq_options import dry_run_option
from workbench.cli.options import cluster_option, config_option, json_option
from workbench.cli.replay_options import PLAN_FILE, confirm_option, confirmed, seconds_of
from workbench.errors import DeadlineError, ExitCode, GuardError
from workbench.humanize import plural, shell_word
from workbench.safe_output import say, tell, write_json


@click.command(name="verify")
@click.argument("plan_file", metavar="PLAN", type=PLAN_FILE)
@cluster_option(required=False)
@click.option(
    "--group",
    "groups",
    multiple=True,
    help="A consumer group of the targets: how far has it processed? May be repeated.",
)
@json_option
@config_option
def verify_command(
    plan_file: Path, cluster: str | None, groups: tuple[str, ...], as_json: bool, config: Path | None
) -> int:
    """Read the target topics: was each planned letter produced once, and was it dead-lettered again?

    Exit code 0: yes; 3: no, with the letters, and the target's reason where it refuses them; 4: cannot tell, because records were
    deleted, or replaced by the compaction of the target.
    """
    from workbench.cli.progress import Steps
    from workbench.redrive.verify import RedriveVerdict

    with Steps(quiet=as_json) as steps, steps.waiting("Reading the target topics"):
        found = verify_redrive(plan_file, groups=groups, cluster=cluster, config=config)
    if as_json:
        write_json(found.document())
    else:
        for sentence in found.sentences():
            tell(sentence)
    return {RedriveVerdict.VERIFIED: ExitCode.OK, RedriveVerdict.INCOMPLETE: ExitCode.FINDINGS}.get(
        found.verdict, ExitCode.EVIDENCE
    )


@click.command(name="follow")
@click.argument("plan_file", metavar="PLAN", type=PLAN_FILE)
@cluster_option(required=False)
@click.option("--interval", default="2s", show_default=True, help="Time between two checks.")
@click.option("--timeout", help="Stop after this time with exit code 7. Default: never.")
@click.option("--once", is_flag=True, help="Check once. Exit code 7 if it is not complete.")
@json_option
@config_option
def follow_command(
    plan_file: Path,
    cluster: str | None,
    interval: str,
    timeout: str | None,
    once: bool,
    as_json: bool,
    config: Path | None,
) -> int:
    """Watch a redrive from any machine, by the positions that its transactions have committed.

    Exit code 3 if letters were left out, because the target refuses them; 6 if the plan was discarded or given up.
    """
    from workbench.cli.progress import Steps
    from workbench.humanize import duration, plural, rate
    from workbench.redrive.commit_marks import PlanState
    from workbench.redrive.follow import RedriveFollower
    from workbench.redrive.guard import HINTS, ended_words
    from workbench.redrive.planfile import read_redrive_plan

    plan = read_redrive_plan(plan_file)
    _, kafka = letters_setup(cluster or plan.cluster, config)
    follower = RedriveFollower(plan, kafka.gateway)
    deadline = time.monotonic() + seconds_of(timeout) if timeout else float("inf")
    pause = max(0.2, seconds_of(interval))
    while True:
        with Steps(quiet=as_json).waiting(f"Reading the positions of the redrive of {plan.topic}"):
            look = follower.look()
        if as_json:
            write_json(look.document(), indent=None)
        else:
            eta = f", ETA {duration(look.eta_seconds)}" if look.eta_seconds is not None else ""
            speed = f", {rate(look.per_second)}" if look.per_second is not None else ""
            new = f", {plural(look.new_letters, 'new letter')} since the plan" if look.new_letters else ""
            unknown = ", new letters unknown: a partition does not answer, or the topic was deleted"
            new = unknown if look.new_letters is None else new
            refused = f", {look.refused:,} left out (the target refuses them)" if look.refused else ""
            tell(f"{look.produced:,} of {look.planned:,} produced{refused}{speed}{eta}{new}")
        if look.state in (PlanState.DISCARDED, PlanState.GIVEN_UP):
            raise GuardError(f"{ended_words(plan, look.state)}.", hint=HINTS[look.state.value])
        if look.is_done:
            if not as_json:
                say(f"Complete. Next: workbench dlq verify {shell_word(str(plan_file))}")
            return ExitCode.FINDINGS if look.refused else ExitCode.OK
        if once or time.monotonic() + pause > deadline:
            raise DeadlineError(
                f"{plural(look.left, 'letter is', 'letters are')} not produced yet.",
                hint=f"Continue with: workbench dlq apply {shell_word(str(plan_file))}",
            )
        time.sleep(pause)


@click.command(name="discard")
@click.argument("plan_file", metavar="PLAN", type=PLAN_FILE)
@cluster_option(required=False)
@click.option("--reason", required=True, help="Why the letters are given up; stored in the journal.")
@click.option("--group", help="Also move this group past the letters. It must have no members, and only moves forward.")
@dry_run_option
@confirm_option
@json_option
@config_option
def discard_command(
    plan_file: Path,
    cluster: str | None,
    reason: str,
    group: str | None,
    dry_run: bool,
    confirm: str | None,
    as_json: bool,
    config: Path | None,
) -> int:
    """Give up the letters of a plan instead of producing them: later plans leave them out. No letter is deleted."""
    from workbench.cli.progress import Steps
    from workbench.plans.journal import Journal
    from workbench.redrive.commit_marks import PlanState
    from workbench.redrive.confirmation import of_letters
    from workbench.redrive.discard import discard
    from workbench.redrive.planfile import read_redrive_plan
    from workbench.redrive.redrive_ledger import Ledger

    plan = read_redrive_plan(plan_file)
    summary = f"Mark {plural(plan.letters, 'letter')} of {plan.topic} as discarded."
    if dry_run:
        say(f"{summary} Nothing was changed.")
        return ExitCode.OK
    _, kafka = letters_setup(cluster or plan.cluster, config)
    confirmed(of_letters(plan.hash, plan.topic, plan.letters), confirm, summary)
    letters, journal, ledger = kafka.letters(plan.topic), Journal.of_user(), Ledger.of_user()
    with Steps(quiet=as_json).waiting(f"Reading the letters of {plan.topic}"):
        claim = partial(kafka.end, plan, PlanState.DISCARDED, ledger)
        found = discard(plan, kafka.gateway, letters, journal, ledger, reason=reason, group=group, claim=claim)
    if as_json:
        moved = {f"{topic}-{number}": at for (topic, number), at in sorted(found.moved.items())}
        held = {f"{topic}-{number}": at for (topic, number), at in sorted(found.held.items())}
        document = {"schema": "workbench.dlq-discarded/1", "plan": plan.hash, "letters": found.letters}
        write_json({**document, "group": group, "moved": moved, "held": held})
    else:
        marked = plural(found.letters, "letter is", "letters are")
        say(f"{marked} marked as discarded; plans leave {'it' if found.letters == 1 else 'them'} out from now on.")
        for (topic, number), at in sorted(found.moved.items()):
            say(f"{group}: {topic}-{number} is now at {at:,}.")
        for (topic, number), at in sorted(found.held.items()):
            say(f"{group}: {topic}-{number} stays before the letter {at:,}, which is not in the plan.")
    return ExitCode.OK


@click.command(name="give-up")
@click.argument("plan_file", metavar="PLAN", type=PLAN_FILE)
@cluster_option(required=False)
@click.option("--reason", required=True, help="Why the rest of the plan is given up; stored in the journal.")
@dry_run_option
@confirm_option
@json_option
@config_option
def give_up_command(
    plan_file: Path,
    cluster: str | None,
    reason: str,
    dry_run: bool,
    confirm: str | None,
    as_json: bool,
    config: Path | None,
) -> int:
    """End a plan that was begun: it produces nothing more, and other plans may take the letters that it has not produced."""
    from workbench.cli.progress import Steps
    from workbench.plans.journal import Journal
    from workbench.redrive.abandon_plan import give_up
    from workbench.redrive.commit_marks import PlanState
    from workbench.redrive.confirmation import of_letters
    from workbench.redrive.planfile import read_redrive_plan
    from workbench.redrive.redrive_ledger import Ledger

    plan = read_redrive_plan(plan_file)
    summary = f"Give up what is left of the redrive of {plural(plan.letters, 'letter')} of {plan.topic}."
    if dry_run:
        say(f"{summary} Nothing was changed.")
        return ExitCode.OK
    _, kafka = letters_setup(cluster or plan.cluster, config)
    confirmed(of_letters(plan.hash, plan.topic, plan.letters), confirm, summary)
    ledger = Ledger.of_user()
    with Steps(quiet=as_json).waiting(f"Ending the redrive of {plan.topic}"):
        end = partial(kafka.end, plan, PlanState.GIVEN_UP, ledger)
        produced = give_up(plan, Journal.of_user(), ledger, end, reason=reason)
    left = plan.letters - produced
    if as_json:
        document = {"schema": "workbench.dlq-given-up/1", "plan": plan.hash, "letters": plan.letters}
        write_json({**document, "produced": produced, "left": left})
    else:
        say(f"Given up: {plural(produced, 'letter was', 'letters were')} produced, {left:,} can be planned again.")
    return ExitCode.OK

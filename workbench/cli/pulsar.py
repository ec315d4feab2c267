"""`workbench pulsar`: what operators of Pulsar ask besides triage: where to split a bundle, which settings hurt, who is dead."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from workbench.cli.help import EXAMPLES, Group
from workbench.cli.options import FILE, cluster_option, config_option, json_option, renamed, table_option, wrote_rows
from workbench.errors import ExitCode, UsageError
from workbench.safe_output import say, tell, write_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workbench.pulsar.bundle_split import Division, SplitPlan, TopicLoad
    from workbench.pulsar.risky_settings import CheckedSetting
    from workbench.pulsar.subscriptions import PulsarSubscription

EXAMPLES |= {
    "pulsar": (("pulsar split-plan bundle.json", "where to split a bundle with hot topics"),),
    "pulsar config-check": (
        ("pulsar config-check --cluster events", "six settings that have made incidents"),
        ("pulsar config-check broker.conf --version 4.0.7", "the same, of a file"),
    ),
    "pulsar split-plan": (
        ("pulsar split-plan bundle.json --namespace video/live", "the cuts, and the admin's command"),
        (
            "pulsar split-plan --bundle 0x00000000_0x40000000 \\\n      --hot 0x25000000=90 --hot 0x32000000=80",
            "two hot hashes",
        ),
    ),
    "pulsar subscriptions": (
        ("pulsar subscriptions --cluster events --limit 20", "the oldest backlogs"),
        ("pulsar subscriptions --cluster events --dead", "who holds storage, with nobody connected"),
    ),
}
_SAID = 20  # missing parts that are listed; --json has all of them


@click.group(name="pulsar", cls=Group)
def command() -> None:
    """Answer questions of a Pulsar cluster's operators: bundles, settings, subscriptions. All read-only."""


@command.command(name="split-plan")
@click.argument("file", required=False, type=FILE)
@click.option("--bundle", "bundle_name", help="The bundle, if no FILE names it: 0x00000000_0x40000000.")
@click.option(
    "--hot", "hot", multiple=True, help="A topic, if no FILE lists them: HASH=LOAD, as 0x25000000=120. May be repeated."
)
@click.option(
    "--pieces", type=click.IntRange(min=2, max=64), default=2, show_default=True, help="Bundles to make of it."
)
@click.option(
    "--namespace", help="tenant/namespace of the bundle: needed with --cluster, and for the command that is printed."
)
@cluster_option(required=False)
@config_option
@json_option
def split_plan(
    file: Path | None,
    bundle_name: str | None,
    hot: tuple[str, ...],
    pieces: int,
    namespace: str | None,
    cluster: str | None,
    config: Path | None,
    as_json: bool,
) -> int:
    """Find where to split a bundle so that its largest side carries as little as possible. Changes nothing.

    FILE is JSON: {"bundle": "0x…_0x…", "topics": [{"topic": "persistent://…", "load": 120}]}. The load may be of any unit, such as
    bytes per second; a topic's hash comes from its full name, unless the file gives `hash`. A topic without a load is "cannot tell".
    Instead of a FILE: --bundle with --hot, or with --cluster and --namespace for what its topics carry now.
    """
    from workbench.pulsar.admin import PulsarAdmin
    from workbench.pulsar.bundle_split import Bundle, plan_split
    from workbench.pulsar.bundle_split_file import read_split_file
    from workbench.pulsar.bundle_topic_loads import read_bundle
    from workbench.settings import load_settings

    if [file is not None, bool(hot), cluster is not None].count(True) != 1 or (file is None) == (bundle_name is None):
        raise UsageError(
            "Give a FILE, or --bundle with --hot, or --bundle with --cluster.",
            hint="For example: --bundle 0x00000000_0x40000000 --hot 0x25000000=120",
        )
    if file is not None:
        bundle, topics = read_split_file(file)
    else:
        bundle = Bundle.parse(bundle_name or "")
        topics = [_hot(text) for text in hot]
    if cluster is not None:
        if namespace is None:
            raise UsageError("Missing option '--namespace'.", hint="For example: --namespace shop/orders")
        topics = read_bundle(PulsarAdmin(load_settings(config).cluster(cluster)), namespace, bundle)
    plan = plan_split(bundle, topics, pieces=pieces)
    if as_json:
        write_json(_plan_document(plan))
    else:
        _show_plan(plan, namespace)
    return ExitCode.OK


@command.command(name="config-check")
@click.argument("files", nargs=-1, metavar="FILES", type=FILE)
@click.option("--version", "version", help="Version of the brokers, such as 4.0.7: some incidents depend on it.")
@click.option(
    "--cursors",
    type=click.IntRange(min=0),
    help="Durable subscriptions on a broker, counted on each topic and partition.",
)
@click.option(
    "--publish-rate", type=click.FloatRange(min=0), help="Entries that producers write to the broker, per second."
)
@cluster_option(unless=("files",))
@config_option
@json_option
def config_check(
    files: tuple[Path, ...],
    version: str | None,
    cursors: int | None,
    publish_rate: float | None,
    cluster: str | None,
    config: Path | None,
    as_json: bool,
) -> int:
    """Check six settings of a broker that have made incidents. Changes nothing.

    FILES are broker.conf, bookkeeper.conf, or JSON as pulsar-admin prints it; a later one overrides an earlier one. Without them, the
    broker behind the cluster's admin URL is asked. What is not set there is "cannot tell".

    Exit code 3 if a setting is at risk, 4 if of one it cannot be told.
    """
    from workbench.pulsar.admin import PulsarAdmin
    from workbench.pulsar.broker_conf import read_configs, running_config
    from workbench.pulsar.risky_settings import BrokerSettings, Soundness, check_config, misspelt, parse_version
    from workbench.settings import load_settings

    if files and cluster is not None:
        raise UsageError("Give FILES or --cluster, not both.")
    if cluster is not None:
        values, running = running_config(PulsarAdmin(load_settings(config).cluster(cluster)))
        version = version or running
    else:
        values = read_configs(files)
    known = BrokerSettings(
        values=values,
        version=parse_version(version) if version is not None else None,
        cursors=cursors,
        publish_rate=publish_rate,
    )
    checked, wrong = check_config(known), misspelt(values)
    if as_json:
        write_json(
            {
                "schema": "workbench.pulsar-config-check/1",
                "checks": [{name: getattr(it, name) for name in it.__dataclass_fields__} for it in checked],
                "misspelt": [{"name": name, "meant": meant} for name, meant in wrong],
            }
        )
    else:
        _show_checks(checked, wrong)
    found = {it.soundness for it in checked}
    if Soundness.AT_RISK in found or wrong:
        return ExitCode.FINDINGS
    return ExitCode.EVIDENCE if Soundness.UNKNOWN in found else ExitCode.OK


@command.command(name="subscriptions")
@cluster_option()
@click.option("--dead", is_flag=True, help="Only those that hold a backlog, with nobody connected.")
@renamed("--limit", "top", old=("--top",), type=click.IntRange(min=1), help="Only the N that are furthest behind.")
@click.option(
    "--count", "count_messages", is_flag=True, help="Count the messages of backlogs: brokers read them from storage."
)
@click.option(
    "--timeout", "deadline", help="Time limit of the whole, for example 15s. Default: the cluster's timeout_seconds."
)
@table_option
@config_option
def subscriptions(
    cluster: str,
    dead: bool,
    top: int | None,
    count_messages: bool,
    deadline: str | None,
    as_json: bool,
    config: Path | None,
) -> int:
    """List the subscriptions of a Pulsar, the oldest backlog first. Reads only.

    A backlog is in entries, each a batch of messages; with --count it is in messages, too. Two of one name on two topics are two.
    Exit code 4 if something could not be read in time.
    """
    from dataclasses import asdict

    from workbench.cli.progress import Steps
    from workbench.humanize import iso_instant
    from workbench.pulsar.subscriptions import read_subscriptions
    from workbench.settings import load_settings
    from workbench.window import parse_duration

    chosen = load_settings(config).cluster(cluster)
    seconds = parse_duration(deadline).total_seconds() if deadline else chosen.timeout_seconds
    with (
        Steps(quiet=as_json) as steps,
        steps.waiting(f"Reading the subscriptions of {cluster}", at_most_seconds=seconds),
    ):
        found = read_subscriptions(chosen, seconds=seconds, dead=dead, top=top, count_messages=count_messages)
    rows = [asdict(it) for it in found.rows]
    if as_json:
        head = {
            "schema": "workbench.pulsar-subscriptions/1",
            "cluster": cluster,
            "taken_at": iso_instant(found.taken_at * 1000),
        }
        write_json({**head, "subscriptions": rows, "incomplete": list(found.incomplete)})
    elif not wrote_rows(lambda: rows):
        _show_subscriptions(found.rows, dead=dead)
    for text in found.incomplete[:_SAID]:
        say(f"Incomplete: {text}")
    if len(found.incomplete) > _SAID:
        say(f"Incomplete: {len(found.incomplete) - _SAID:,} more.")
    return ExitCode.EVIDENCE if found.incomplete else ExitCode.OK


def _show_subscriptions(rows: Sequence[PulsarSubscription], *, dead: bool) -> None:
    from rich.text import Text

    from workbench.humanize import count, duration, plural, printable, size
    from workbench.terminal_tables import FittingTable, SafeConsole, right

    def known(number: int | None) -> str:
        return "-" if number is None else count(number)

    title = plural(len(rows), "dead subscription" if dead else "subscription")
    numbers = right("oldest", "entries", "messages", "held", "unacked", "consumers", "parts")
    drops = ("type", "held", "parts")
    table = FittingTable("subscription ← topic", *numbers, "type", title=title, drops=drops)
    for it in rows:
        table.add_row(
            Text(f"{printable(it.subscription)} ← {printable(it.topic)}" + ("  (blocked)" if it.blocked else "")),
            "-" if it.oldest_seconds is None else duration(it.oldest_seconds),
            known(it.backlog_entries),
            known(it.backlog_messages),
            "-" if it.backlog_bytes is None else size(it.backlog_bytes),
            known(it.unacked_messages),
            known(it.consumers),
            str(it.partitions),
            printable(it.kind or "-"),
        )
    SafeConsole().print(table)


def _show_checks(checked: list[CheckedSetting], wrong: list[tuple[str, str]]) -> None:
    from workbench.humanize import printable
    from workbench.pulsar.risky_settings import Soundness

    colours = {Soundness.AT_RISK: "red", Soundness.UNKNOWN: "yellow", Soundness.FINE: "green"}
    for name, meant in wrong:
        tell(f": {printable(name)} is no setting, and brokers ignore it. Is {meant} meant?", mark=("misspelt", "red"))
    for it in checked:
        tell(f": {it.incident}", mark=(it.soundness, colours[it.soundness]))
        tell(f"  {it.setting} = {'not known' if it.value is None else printable(it.value)}: {it.why}.")
        if it.soundness is not Soundness.FINE:
            tell(f"  Cure: {it.cure}.")
            tell(f"  Cost: {it.cost}.")


def _hot(text: str) -> TopicLoad:
    from workbench.pulsar.bundle_split import TopicLoad
    from workbench.pulsar.bundle_split_file import parse_hash

    position, equals, load = text.partition("=")
    try:
        value = float(load)
    except ValueError:
        value = -1.0
    if not equals or not value >= 0:
        raise UsageError(f"{text!r} is not HASH=LOAD.", hint="For example: --hot 0x25000000=120")
    return TopicLoad(topic=position, position=parse_hash(position), load=value)


def _plan_document(plan: SplitPlan) -> dict[str, Any]:
    from workbench.pulsar.bundle_split import hexed

    def division(of: Division) -> dict[str, Any]:
        return {
            "cuts": list(of.cuts),
            "cuts_hex": [hexed(cut) for cut in of.cuts],
            "largest": of.largest,
            "sides": [{"bundle": str(it.bundle), "load": it.load, "topics": list(it.topics)} for it in of.sides],
        }

    return {
        "schema": "workbench.pulsar-split-plan/1",
        "bundle": str(plan.bundle),
        "total": plan.total,
        "heaviest_hash": plan.least,
        "best": division(plan.best),
        "range_equally_divide": division(plan.by_range),
        "topic_count_equally_divide": division(plan.by_count),
    }


def _show_plan(plan: SplitPlan, namespace: str | None) -> None:
    from workbench.humanize import count, percent, plural, shell_word
    from workbench.judgement_numbers import MORE
    from workbench.pulsar.bundle_split import hexed
    from workbench.terminal_tables import FittingTable, Line, SafeConsole, right

    def share(load: float) -> str:
        return percent(load / plan.total) if plan.total else "0 %"

    cuts = ", ".join(map(hexed, plan.best.cuts))
    tell(f"Split {plan.bundle} at {cuts}: the largest side then carries {share(plan.best.largest)} of the load.")
    if plan.least >= plan.best.largest > MORE * plan.total / len(plan.best.sides):
        tell("One hash alone carries that much, and no split can divide it: give its topic more partitions.")
    console = SafeConsole()
    table = FittingTable("way", "cuts", *right("load", "share"), title="Largest side, by way to split")
    ways = (
        ("specified_positions_divide", plan.best),
        ("range_equally_divide", plan.by_range),
        ("topic_count_equally_divide", plan.by_count),
    )
    for name, way in ways:
        table.add_row(name, ", ".join(map(hexed, way.cuts)) or "none", count(way.largest), share(way.largest))
    console.print(table)
    for side in plan.best.sides:
        tell(f"{side.bundle}  {plural(len(side.topics), 'topic')}, {count(side.load)} ({share(side.load)})")
    positions = ",".join(map(str, plan.best.cuts))
    where = shell_word(namespace) if namespace else "TENANT/NAMESPACE"
    tell(
        "Bundles cannot be merged again. The broker must list the algorithm in supportedNamespaceBundleSplitAlgorithms. Then:"
    )
    console.print(
        Line(
            f"pulsar-admin namespaces split-bundle -b {plan.bundle} -san specified_positions_divide -sb {positions} -u {where}",
            indent=2,
        )
    )
    if len(plan.by_range.cuts) > 1:
        say("One step of Pulsar's own algorithms makes two bundles; here each is compared with as many pieces.")

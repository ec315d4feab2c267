"""Help pages of the commands: examples, whole sentences in every list, near names for a mistyped command."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from workbench.humanize import did_you_mean

# Command path (without `workbench`) to its examples: (what to type after `workbench`, what it does).
EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "": (
        ("demo", "a first look, without a Kafka of your own"),
        ("init", "write workbench.toml for a cluster of yours"),
        ("triage --cluster prod --group payments", "why does this group lag?"),
    ),
    "capture": (("capture --cluster prod --since 30m --output incident", "keep the last 30 minutes"),),
    "completion": (('eval "$(workbench completion bash)"', "in ~/.bashrc"),),
    "demo": (("demo", "takes about 90 seconds"),),
    "dlq": (
        ("dlq list --cluster prod", "topics with dead letters, and why they failed"),
        ("dlq plan --help", "what is produced again, and where; writes nothing to Kafka"),
        ("dlq apply redrive.json", "asks first, then produces"),
    ),
    "dlq apply": (
        ("dlq apply redrive.json --dry-run", "safety checks only"),
        ("dlq apply redrive.json", "asks for the topic and the number of letters"),
    ),
    "dlq discard": (('dlq discard redrive.json --reason "test data"', "no letter is deleted"),),
    "dlq give-up": (('dlq give-up redrive.json --reason "too many"', "plan the rest anew"),),
    "dlq follow": (("dlq follow redrive.json", "from any machine"),),
    "dlq list": (("dlq list --cluster prod", "largest first"),),
    "dlq plan": (
        (
            "dlq plan orders-dlt --cluster prod --error '*Timeout*' \\\n"
            "      --max-records-per-second 5000 --output redrive.json",
            "the letters of one error, slowly",
        ),
    ),
    "dlq show": (
        ("dlq show orders-dlt --cluster prod --by error --by minute", "how many, and when"),
        ("dlq show orders-dlt --cluster prod --limit 5 --payload", "the newest, decoded"),
    ),
    "dlq verify": (("dlq verify redrive.json --group payments", "was each record processed?"),),
    "doctor": (
        ("doctor", "this machine and every cluster"),
        ("doctor --cluster prod --group payments", "what is expected of a group, and why"),
    ),
    "events": (("events list --cluster prod", "what was deployed"),),
    "events add": (
        ("events add --cluster prod --service payments --version 2", "the last step of a deploy"),
        ("events add --cluster prod --kind config --text quota --at 5m", "5 min ago"),
    ),
    "events import": (("events import --cluster prod --kubernetes --since 6h", "deploys, from Prometheus"),),
    "events list": (("events list --cluster prod --json", "for a script"),),
    "export": (("export grafana --cluster prod --output monitoring", "dashboard and alert rules"),),
    "audit": (("audit show --rows rows --layers gateway,collector", "where not everything arrived"),),
    "audit show": (("audit show --rows rows --layers agent,gateway,collector", "the worst windows first"),),
    "audit gate": (("audit gate orders --stream s --since '2h ago' --until '1h ago'", "before a job"),),
    "audit publish": (("audit publish orders --output audits", "by a timer, each 15 minutes"),),
    "audit restarts": (("audit restarts --cluster prod --since 1d", "the last day; numbers are bounds"),),
    "audit upstream": (("audit upstream --cluster prod", "late data, and no consumer lags"),),
    "audit run": (("audit run orders --output ledger", "every window, as Parquet"),),
    "audit missing": (
        ("audit missing orders --stream orders --layer collector", "read again from Kafka"),
        ("audit missing orders --stream s --layer l --output missing.json", "for a replay"),
    ),
    "audit compare": (("audit compare prod:orders-v1 prod:orders-v2", "two versions, side by side"),),
    "audit trace": (("audit trace order-17 --cluster prod --topic orders", "by its id or key"),),
    "partitions": (("partitions exclude --cluster prod --group g --topic orders", "changes nothing"),),
    "partitions exclude": (
        ("partitions exclude --cluster prod --group g --topic orders", "changes nothing"),
        ("partitions exclude --cluster prod --group g --topic t \\\n      --file out.json --write", "for producers"),
    ),
    "export grafana": (
        ("export grafana --cluster prod --output monitoring", "for the profiles of a cluster"),
        ("export grafana --profile kafka_exporter --output monitoring", "without settings"),
    ),
    "export login": (("export login --cluster prod", "client.properties, for Kafka's own tools"),),
    "export rules": (("export rules --runbook-base https://wiki.example --output rules", "the shipped rules"),),
    "impact": (
        ("impact --cluster prod", "the last 15 minutes against the hour before"),
        ("impact --cluster prod --since 2h --baseline 6h --json", "for programs"),
        ("impact --cluster prod --observe 5m", "without a Prometheus"),
    ),
    "init": (
        ("init", "asks for every address, and tries it"),
        ("init --name prod --prometheus http://prometheus:9090 --yes", "asks nothing"),
        ("init --lab --name lab", "the running lab"),
    ),
    "lab": (
        ("lab up", "then every command accepts --cluster lab"),
        ("lab run slow_processor", "cause an incident, and find it"),
        ("lab down", "stop it"),
    ),
    "lab down": (("lab down", "also after a crash"),),
    "lab list": (("lab list", "names for `lab run`"),),
    "lab run": (("lab run hot_key --seed 7 --output hot", "and keep the capture"),),
    "lab setup": (("lab setup", "once, before `lab up` without a network"),),
    "lab status": (("lab status", "addresses, and when it stops"),),
    "lab up": (("lab up --ttl 2h", "until then, or `lab down`"),),
    "mcp": (
        ("mcp", "what an agent's settings start"),
        ("mcp --http", "over HTTP, with a token"),
    ),
    "notebook": (
        ("notebook", "the triage panel on your cluster, or on a recorded incident"),
        ("notebook --cluster prod --group payments", "live, with the form filled in"),
        ("notebook replay --cluster prod", "the replay panel"),
    ),
    "profiles": (("profiles check --cluster prod", "which exporters does it have?"),),
    "profiles check": (
        ("profiles check --url http://prometheus:9090", "which profiles fit"),
        ("profiles check --cluster prod --profile ./ours.yaml", "rule by rule"),
    ),
    "profiles list": (("profiles list", "names for workbench.toml"),),
    "profiles new": (("profiles new --url http://prometheus:9090 --output ours.yaml", "a draft"),),
    "profiles schema": (("profiles schema > profile.schema.json", "for an editor"),),
    "replay": (
        ("replay plan --help", "first of all, a plan; it changes nothing"),
        ("replay apply plan.json", "after all safety checks"),
        ("replay follow plan.json", "until the window is processed"),
    ),
    "replay apply": (("replay apply plan.json", "asks for the new group and the number of messages"),),
    "replay cutover": (("replay cutover plan.json --fleet fleet.toml", "one instance first"),),
    "replay follow": (("replay follow plan.json --timeout 30m", "stop after half an hour"),),
    "replay inspect": (("replay inspect plan.json --by key --limit 5", "the commonest keys"),),
    "replay log": (("replay log --group payments-2", "what was changed, and when"),),
    "replay plan": (
        (
            "replay plan --cluster prod --from-group payments \\\n"
            "      --new-group payments-2 --topic orders --since 2h --output plan.json",
            "writes nothing to Kafka",
        ),
    ),
    "replay retire": (
        ("replay retire plan.json", "delete the new group"),
        ("replay retire plan.json --stay", "keep it, and delete the old one"),
    ),
    "replay rollback": (("replay rollback plan.rollback.json", "asks for the group and the number of commits"),),
    "replay verify": (("replay verify plan.json", "did it get every record?"),),
    "report": (("report run health --cluster prod", "all groups, worst first"),),
    "report list": (("report list", "runs, and how each ended"),),
    "report run": (("report run health --cluster prod", "all groups, worst first"),),
    "report run health": (("report run health --cluster prod --help", "every parameter"),),
    "report send": (("report send workbench-reports/RUN --help", "where it can go"),),
    "runbooks": (("runbooks show slow_processor", "by verdict, or by alert (SlowProcessor)"),),
    "runbooks check": (("runbooks check", "exit code 0 if all match"),),
    "runbooks show": (("runbooks show ConsumerStopped", "by alert"),),
    "runbooks write": (("runbooks write --dir runbooks", "your copy, with the tree of this version"),),
    "runtime": (("runtime settings", "every setting, with its default"),),
    "runtime check": (("runtime check orders.toml shop.handlers", "before a deploy"),),
    "runtime run": (("runtime run orders.toml shop.handlers", "until SIGTERM or Ctrl-C"),),
    "runtime settings": (("runtime settings | grep queue", "unit, default and reason"),),
    "schema": (
        ("schema", "every document"),
        ("schema triage > triage.schema.json", "for a validator"),
    ),
    "serve": (
        ("serve", "on this computer only; prints where its token is"),
        ("serve --host 0.0.0.0 --certificate serve.pem --key serve.key", "for others, with TLS"),
    ),
    "settings": (
        ("settings", "every key of workbench.toml"),
        ("settings slow_ratio", "one threshold, with its reason"),
    ),
    "snapshot": (
        ("snapshot --cluster prod --group payments", "its partitions and owners"),
        ("snapshot --cluster prod --limit 10", "who is furthest behind"),
    ),
    "tree": (
        ("tree", "every question, with its rules"),
        ("tree hot_partition", "what leads to one verdict"),
        ("tree throttled --json", "one question, for programs"),
    ),
    "triage": (
        ("triage --cluster prod --group payments", "the last 15 minutes"),
        ("triage --group payments --via http://127.0.0.1:8480", "at once: `serve` is warm"),
        ("triage --cluster prod --group payments --since 2h --html r.html", "with a report"),
        ("triage --cluster prod --all", "every group, worst first"),
        ("triage --capture incident", "a recording; no network"),
        ("triage --alert webhook.json", "from an alert, with its runbook"),
    ),
    "watch": (
        ("watch --cluster prod --live", "the fleet on one screen; q ends it"),
        ("watch --cluster prod --output recording --for 10m", "record, without a Prometheus"),
    ),
}


class Group(click.Group):
    """A group that lists its commands with whole sentences, and answers a mistyped one with near names."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands; a sentence that does not fit on its line goes on in the next."""
        rows = [(name, self.summary_of(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def summary_of(self, ctx: click.Context, name: str) -> str:
        """First sentence of a command's help."""
        it = self.get_command(ctx, name)
        return it.get_short_help_str(limit=1000) if it is not None else ""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Find a command by its name."""
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            known = self.list_commands(ctx)
            means = did_you_mean(name, known)
            every = "" if means else f" Commands: {', '.join(known)}."
            raise click.UsageError(f"There is no command `{ctx.command_path} {name}`.{means}{every}", ctx=ctx)
        return super().resolve_command(ctx, args)


def with_examples(command: click.Command, path: str) -> click.Command:
    """Put the examples of a command, and of the commands below it, under their help."""
    rows = EXAMPLES.get(path, ())
    if rows:
        command.epilog = examples_text(rows) + (f"\n\n{command.epilog}" if command.epilog else "")
    if isinstance(command, Group) and path:
        for name, below in command.commands.items():
            with_examples(below, f"{path} {name}")
    return command


def examples_text(rows: Sequence[tuple[str, str]]) -> str:
    """Examples as a paragraph that is not wrapped: a comment, and below it the line to type."""
    lines = ["\b", "Examples:"]
    for words, why in rows:
        lines += [f"  # {why}", f"  {words}" if "workbench " in words else f"  workbench {words}"]
    return "\n".join(lines)

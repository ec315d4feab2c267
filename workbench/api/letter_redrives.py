"""Dead letters: list them, plan which are produced again, apply the plan, and verify what it did."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from workbench.errors import GuardError
from workbench.humanize import plural

if TYPE_CHECKING:
    from workbench.redrive.apply import RedriveReceipt
    from workbench.redrive.dead_letter_topics import LetterTopic
    from workbench.redrive.plan import RedriveRequest
    from workbench.redrive.planfile import RedrivePlan
    from workbench.redrive.redrive_cluster import RedriveCluster
    from workbench.redrive.verify import RedriveCheck
    from workbench.settings import Cluster

_MOST_TARGETS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterTopics:
    """Topics with dead letters, most letters first."""

    cluster: str
    topics: tuple[LetterTopic, ...]

    def to_json(self) -> dict[str, Any]:
        """The document `workbench.dlq-list/1`."""
        return {
            "schema": "workbench.dlq-list/1",
            "cluster": self.cluster,
            "topics": [it.document() for it in self.topics],
        }

    def _repr_html_(self) -> str:
        from workbench.api.html_table import table_html
        from workbench.humanize import duration

        rows = [
            {
                "topic": it.topic,
                "letters": it.in_words if it.silent or it.gaps else it.letters,
                "oldest": duration(it.oldest_seconds) if it.oldest_seconds is not None else None,
                "last_hour": it.per_hour,
                "errors_of_the_newest": _counted(it.errors),
                "source_topics": _counted(it.sources),
            }
            for it in self.topics
        ]
        return table_html(f"Dead letters on {self.cluster}", rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRedrive:
    """A redrive plan."""

    plan: RedrivePlan

    def to_json(self) -> dict[str, Any]:
        """The plan's document, as `workbench dlq plan --json` prints it."""
        return self.plan.document()

    def write(self, path: str | Path) -> Path:
        """Write the plan to a file, for `workbench dlq apply` or `apply_redrive`.

        Raises:
            GuardError: if a plan of this name was applied. UsageError: if the file exists, or its folder does not.
        """
        from workbench.plans.strict_document import write_file
        from workbench.redrive.plan_never_overwritten import check_redrive_place

        check_redrive_place(Path(path))
        write_file(Path(path), self.to_json())
        return Path(path)

    def _repr_html_(self) -> str:
        from workbench.api.html_table import table_html

        plan = self.plan
        rows = [
            {"target": it.topic, "partitions": len(it.ends), "letters": it.letters, "bytes": it.bytes}
            for it in sorted(plan.targets, key=lambda it: -it.letters)[:_MOST_TARGETS]
        ]
        if plan.destination.url is not None:
            rows.append(
                {"target": plan.destination.url, "partitions": None, "letters": plan.letters, "bytes": plan.bytes}
            )
        notes = [f"Errors: {_counted(plan.errors, 8)}."]
        if plan.left:
            notes.append(f"Stay: {_counted({name.replace('_', ' '): n for name, n in plan.left.items()}, 12)}.")
        title = f"Redrive of {plural(plan.letters, 'letter')} of {plan.topic}, hash {plan.short_hash}"
        return table_html(title, rows, notes=[*notes, *plan.warnings])


def dead_letters(*, cluster: str, config: Path | None = None) -> LetterTopics:
    """List the topics with dead letters: number, age, rate, errors and source topics. Joins no group and writes nothing.

    Args:
        cluster: a cluster of the settings with `bootstrap`.

    Raises:
        ConfigError, UsageError: if the settings are wrong. SourceUnreachableError: if Kafka does not answer.
    """
    from workbench.redrive.dead_letter_topics import list_topics

    settings, kafka = letters_setup(cluster, config)
    found = list_topics(kafka.gateway, kafka.letters, settings.dead_letters.topics, mapping_of(settings))
    return LetterTopics(cluster=cluster, topics=tuple(found))


def plan_redrive(
    *,
    cluster: str,
    topic: str,
    errors: Sequence[str] = (),
    sources: Sequence[str] = (),
    since: str | None = None,
    until: str | None = None,
    offsets: Sequence[str] = (),
    keys: Sequence[str] = (),
    headers: Sequence[str] = (),
    most: int | None = None,
    to_topic: str | None = None,
    to_url: str | None = None,
    source: str | None = None,
    partition_by: Literal["origin", "key"] = "origin",
    timestamps: Literal["new", "original"] = "new",
    dedup: Literal["origin", "content", "none"] = "origin",
    order: Literal["origin", "log"] = "origin",
    max_rounds: int = 3,
    max_records_per_second: float | None = None,
    max_bytes_per_second: float | None = None,
    known_plans: Sequence[Path] = (),
    again: bool = False,
    reason: str | None = None,
    config: Path | None = None,
) -> PlannedRedrive:
    """Plan which dead letters are produced again, and where. Writes nothing to Kafka and joins no group.

    Args:
        cluster, topic: a cluster of the settings with `bootstrap`, and its dead-letter topic.
        errors, sources: class of the error, and source topic, or patterns of them (`*Timeout*`); empty: all.
        since, until: timestamps with a time zone, or `15m ago`.
        offsets: `partition:first-last`, such as `3:100-200`.
        keys, headers: exactly these keys; header expressions such as `tenant=blue` or `!retry`.
        most: at most this number of letters, the first ones.
        to_topic, to_url: one target for all; without them, the topic in each letter's headers.
        source: source topic of letters whose headers do not name it; None: by the topic's name.
        partition_by, timestamps, dedup, order, max_rounds: as the options of `workbench dlq plan`.
        max_records_per_second, max_bytes_per_second: cap of the redrive; None: none.
        known_plans: plans that were applied or discarded on another machine; their letters are left out.
        again: also plan letters that earlier plans have produced or discarded.
        reason: stored in the plan and the journal.

    Raises:
        UsageError, WindowError, ConfigError: if the request or the settings are wrong.
        UnknownGroupError: if the topic does not exist. GuardError: if no letter is left to redrive.
        SourceUnreachableError: if Kafka does not answer.
    """
    from workbench.redrive.parse_redrive_request import destination_of, selection_of
    from workbench.redrive.plan import RedriveRequest
    from workbench.redrive.planfile import Dedup, Order, read_redrive_plan
    from workbench.redrive.redrive_ledger import Ledger

    to = destination_of(
        to_topic=to_topic, to_url=to_url, fallback=source, partition_by=partition_by, timestamps=timestamps
    )
    selection = selection_of(
        errors=errors, sources=sources, since=since, until=until, offsets=offsets, keys=keys, headers=headers, most=most
    )
    settings, kafka = letters_setup(cluster, config)
    ledger = Ledger.of_user()
    for path in known_plans:
        ledger.know(read_redrive_plan(path))
    request = RedriveRequest(
        cluster=settings.name,
        topic=topic,
        selection=selection,
        destination=to,
        dedup=Dedup(dedup),
        order=Order(order),
        max_rounds=max_rounds,
        max_records_per_second=max_records_per_second,
        max_bytes_per_second=max_bytes_per_second,
        mapping=mapping_of(settings),
        again=again,
        reason=reason,
    )
    return PlannedRedrive(plan=plan_on_kafka(request, kafka))


def plan_on_kafka(request: RedriveRequest, kafka: RedriveCluster) -> RedrivePlan:
    """Make a plan on a connected cluster: letters of earlier plans stay, and a source topic is found by the topic's name."""
    from dataclasses import replace

    from workbench.redrive.dead_letter_topics import source_by_name
    from workbench.redrive.plan import make_redrive_plan
    from workbench.redrive.redrive_ledger import Ledger

    view = kafka.gateway.cluster([request.topic])
    topic_id = view.topics[request.topic].topic_id if request.topic in view.topics else None
    where = (request.topic, topic_id, view.cluster_id, Ledger.of_user())
    done, discarded = ({}, {}) if request.again else kafka.handled(*where)
    to = request.destination
    if to.fallback is None:
        to = to.model_copy(update={"fallback": source_by_name(request.topic, list(view.topics))})
    asked = replace(request, destination=to, done=done, discarded=discarded)
    made = make_redrive_plan(asked, kafka.gateway, kafka.letters(request.topic), kafka.limit_of, readers=kafka.readers)
    promise = [kafka.promise] if kafka.promise is not None and to.url is None else []
    # Another user may apply the plan, so what this one lacks refuses it only there.
    more = [*promise, *(f"To apply it: {words}" for words in kafka.lacking(made))]
    return made.model_copy(update={"warnings": [*made.warnings, *more]}).sealed() if more else made


def apply_redrive(
    plan_file: str | Path,
    *,
    confirm: str | None = None,
    cluster: str | None = None,
    retention_margin_seconds: float = 600.0,
    allow_under_replicated: bool = False,
    on_progress: Callable[[int], None] | None = None,
    config: Path | None = None,
) -> RedriveReceipt:
    """Run the safety checks of a plan; with its hash in `confirm`, produce its records in transactions.

    It is safe to repeat after any failure or kill: it continues exactly where the last transaction ended.

    Args:
        plan_file: a plan that `PlannedRedrive.write` or `workbench dlq plan` has written.
        confirm: the plan's hash, or at least its first 8 characters. None: only the safety checks run.
        cluster: the name in the settings; None: the plan's.
        retention_margin_seconds: refuse if retention may delete a letter within the redrive's duration and this time; 0: never.
        allow_under_replicated: continue although partitions lack a replica.
        on_progress: called with the number of records produced so far.

    Returns:
        The receipt; its outcome is `done`, `partial` (with the letters that the target refuses), `dry_run` or `refused`.

    Raises:
        GuardError: if `confirm` is not the plan's hash, or another process applies the plan.
        SourceUnreachableError: if Kafka stops answering; repeat it then. EvidenceError: if a planned letter is gone.
    """
    from workbench.plans.journal import Journal
    from workbench.plans.strict_document import SHORT_HASH
    from workbench.redrive.apply import keep_receipt
    from workbench.redrive.guard import RedriveLimits
    from workbench.redrive.planfile import read_redrive_plan
    from workbench.redrive.redrive_ledger import Ledger

    plan = read_redrive_plan(Path(plan_file))
    if confirm is not None and (len(confirm) < SHORT_HASH or not plan.hash.startswith(confirm)):
        raise GuardError(f"{confirm!r} is not the hash of this plan.", hint="Read the plan; its file has the hash.")
    _, kafka = letters_setup(cluster or plan.cluster, config)
    limits = RedriveLimits(
        retention_margin_seconds=retention_margin_seconds, allow_under_replicated=allow_under_replicated
    )
    run = kafka.redrive(plan, Journal.of_user(), Ledger.of_user(), limits)
    if on_progress is not None:
        run.on_progress = on_progress
    receipt = run.run(dry_run=confirm is None)
    if confirm is not None:
        keep_receipt(Path(plan_file), receipt)
    return receipt


def verify_redrive(
    plan_file: str | Path, *, groups: Sequence[str] = (), cluster: str | None = None, config: Path | None = None
) -> RedriveCheck:
    """Read the target topics: was each planned letter produced once, was it dead-lettered again, have `groups` processed it?

    Raises:
        UsageError, GuardError: if the plan cannot be read or was changed. SourceUnreachableError: if Kafka does not answer.
    """
    from workbench.redrive.planfile import read_redrive_plan
    from workbench.redrive.redrive_ledger import Ledger
    from workbench.redrive.verify import verify_redrive as verify

    plan = read_redrive_plan(Path(plan_file))
    _, kafka = letters_setup(cluster or plan.cluster, config)
    ended = Ledger.of_user().ended(plan)
    refused = ended.refused_places if ended is not None else {}
    return verify(plan, kafka.gateway, kafka.letters, groups=groups, refused=refused)


def letters_setup(cluster: str, config: Path | None) -> tuple[Cluster, RedriveCluster]:
    """Settings and connection of a cluster.

    Raises:
        ConfigError, UsageError: if the settings are wrong.
    """
    from workbench.queues.systems import system_of
    from workbench.redrive.redrive_cluster import RedriveCluster
    from workbench.settings import load_settings

    chosen = load_settings(config).cluster(cluster)
    return chosen, RedriveCluster(system_of(chosen).letter_queue(chosen))


def mapping_of(settings: Cluster) -> dict[str, str]:
    """Names of the headers of unknown frameworks, from the settings."""
    return {str(name): header for name, header in settings.dead_letters.headers.items()}


def _counted(counts: dict[str, int] | Any, most: int = 3) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in list(counts.items())[:most]) or "none"

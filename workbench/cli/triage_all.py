"""`workbench triage --all`: every subscription of a cluster, out of a store that is brought up to date first."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.cli.options import wrote_rows
from workbench.errors import ExitCode, NoSeriesError, UsageError
from workbench.humanize import duration, groups_on_topics, plural, shell_word
from workbench.safe_output import write_json

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence, Set

    from workbench.cli.progress import Steps
    from workbench.queues.group_kinds import Unjudged
    from workbench.settings import Cluster
    from workbench.sweep.fleet_store import FleetStore
    from workbench.sweep.sweep_engine import Sweep
    from workbench.window import Window

    # Group to its kind, groups that cannot be judged, and what is missing.
    OtherGroups = tuple[dict[str, str], Sequence[Unjudged], list[str]]
    # Those that no exporter shows, beside these groups.
    Unseen = Callable[[Set[str]], Sequence[Unjudged]]

Events = tuple[dict[str, Any], ...]
# Scrapes that are under way, remote writes and the like.
_SETTLING = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRequest:
    """All subscriptions of a cluster, of a store, or of a cluster kept in a store; and where the result goes."""

    cluster: str | None
    store: Path | str | None
    until: str | None
    top: int
    html: Path | None
    parquet: Path | None
    as_json: bool
    config: Path | None


def triage_all(request: SweepRequest) -> int:
    """Land missing slots (of a live cluster), sweep, and show; the exit code is that of `workbench triage`."""
    from workbench.cli.late_errors import LateErrors
    from workbench.cli.progress import Steps
    from workbench.collect.deploys_and_alerts import of_window
    from workbench.plans.journal import replays_begun_here
    from workbench.settings import own_cluster
    from workbench.spark.session import start_in_background
    from workbench.sweep.fleet_store import open_store

    for path in (request.html, request.parquet):
        if path is not None and not path.parent.is_dir():
            raise UsageError(f"There is no folder {path.parent} for {path.name}.", hint="Create it first.")
    late = LateErrors()
    with Steps(quiet=request.as_json) as steps:
        if request.cluster is None:
            # Object storage may take a while; its address may hold what is refused.
            with steps.waiting("Opening the store"):
                store = open_store(request.store or Path())
            own = own_cluster(store.info.cluster, request.config, tell=steps.say)
            if own is not None:
                store = replace(store, own=own.groups, login_file=own.login_file)
            window = store.window(_instant(request.until))
            start_in_background()
            asked: OtherGroups = ({}, (), [])
        else:
            store, window = _landed(request.cluster, request.store, _instant(request.until), request.config, steps)
            asked = _other_groups(request.cluster, request.config, steps)
        store = replace(store, begun=replays_begun_here())
        events = of_window(store.info.cluster, window.baseline_start, window.end)
        unseen = None if request.until is not None else _unseen(request.cluster, request.config, asked)
        result = _sweep(store, window, request.top, events, asked, steps, unseen)
        if request.parquet is not None:
            with late.kept():
                _write_table(request.parquet, result)
                steps.say(f"Wrote the table of {groups_on_topics(result.table.num_rows)} to {request.parquet}.")
        if request.html is not None:
            with late.kept(), steps.step("Writing the report") as step:
                _write_report(request.html, store, result, events)
                step.note = str(request.html)
    if request.as_json:
        write_json(result.to_json())
    elif not wrote_rows(result.table.to_pylist):
        from workbench.report.sweep import show_sweep
        from workbench.terminal_tables import SafeConsole

        show_sweep(SafeConsole(), result)
    late.tell()
    return exit_code(result)


def exit_code(result: Sweep) -> int:
    """Exit code of the worst subscription; "lagging" outweighs "cannot tell", which outweighs healthy with incomplete data."""
    if result.lagging:
        return ExitCode.FINDINGS
    return ExitCode.EVIDENCE if result.unsure or result.partial else ExitCode.OK


def _instant(until: str | None) -> datetime | None:
    from workbench.window import parse_instant

    return parse_instant(until) if until is not None else None


def _landed(
    name: str, folder: Path | str | None, until: datetime | None, config: Path | None, steps: Steps
) -> tuple[FleetStore, Window]:
    """Open the cluster's store, and land the window's missing slots from Prometheus."""
    from workbench.collect import capture_in_memory
    from workbench.profiles import load_profile, name_of
    from workbench.settings import load_settings
    from workbench.spark.session import start_in_background
    from workbench.sweep.fleet_store import StoreInfo, make_store
    from workbench.sweep.land_samples import land_missing, wanting
    from workbench.user_folders import state_dir

    settings = load_settings(config)
    cluster = settings.cluster(name)
    thresholds = settings.thresholds_of(cluster)
    own = folder is None
    slot_seconds = round(settings.windows_of(cluster).length.total_seconds())
    place = folder or state_dir() / "stores" / _store_name(cluster, slot_seconds)
    with steps.waiting("Opening the store"):
        store = make_store(
            place,
            StoreInfo(
                cluster=cluster.name,
                slot_seconds=slot_seconds,
                bootstrap=cluster.bootstrap,
                profiles=[name_of(name) for name in cluster.profiles],
                match=cluster.match,
                parts=cluster.parts,
                thresholds=thresholds,
                expected=cluster.groups,
            ),
            own=cluster.groups,
            login_file=cluster.login_file,
            reading=capture_in_memory.reading_of(cluster),
        )
    # A landed slot is not queried again, so wait until its last samples have certainly arrived, whatever time is asked for.
    late = max((load_profile(name).late_seconds for name in cluster.profiles), default=0.0)
    settled = datetime.now(UTC) - min(_SETTLING, store.slot / 4) - timedelta(seconds=late)
    window = store.window_ending(store.slot_end(min(until or settled, settled)))
    start_in_background()
    asked = wanting(store, window)
    with steps.step(f"Reading the sources of {cluster.name} for {len(asked)} of 5 slots") as step:
        try:
            landed = land_missing(store, window, lambda slot: capture_in_memory.collect_series(cluster, slot))
        except NoSeriesError as error:
            if until is not None:
                raise
            raise NoSeriesError(
                error.message,
                hint=f"--all judges the last full {duration(store.slot.total_seconds())}, here until {window.end:%H:%M}Z. If the "
                f"series are younger: workbench triage --cluster {shell_word(cluster.name)}. {error.hint}",
            ) from None
        step.note = f"{plural(landed.rows, 'sample')}"
    for text in landed.sources:
        steps.say(f"Sources: {text}.")
    if own:  # no archive was requested
        store.prune(window.baseline_start)
    return store, window


def _other_groups(name: str, config: Path | None, steps: Steps) -> OtherGroups:
    """Kinds of all groups, from Kafka; exporters do not tell."""
    from workbench.collect import capture_in_memory
    from workbench.settings import load_settings

    cluster = load_settings(config).cluster(name)
    if cluster.bootstrap is None:
        return {}, (), []
    with steps.step(f"Asking {cluster.name} for the kinds of its groups") as step:
        kinds, others, missing = capture_in_memory.other_groups(cluster)
        step.note = f"{plural(len(kinds), 'group')}, {len(others)} cannot be judged"
    return kinds, others, missing


def _store_name(cluster: Cluster, slot_seconds: int) -> str:
    """Another one for other series, or slots of another length: samples of two clusters must not meet in a store."""
    from workbench.report.runs.parameters import file_stem
    from workbench.settings import Windows

    name = file_stem(cluster.name)
    if slot_seconds != Windows().length.total_seconds():
        name += f"-{slot_seconds}s"
    if not cluster.match and not cluster.parts:
        return name
    told = [cluster.match, cluster.parts] if cluster.parts else cluster.match
    digest = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()
    return f"{name}-{digest[:8]}"


def _unseen(name: str | None, config: Path | None, asked: OtherGroups) -> Unseen | None:
    """Asks Kafka for groups that no exporter shows, because they have never committed."""
    from workbench.collect import capture_in_memory
    from workbench.queues.group_kinds import JUDGED, is_redrive_plan
    from workbench.settings import load_settings

    kinds, _, missing = asked
    if name is None or not kinds:
        return None
    cluster = load_settings(config).cluster(name)
    wanted = {group for group, kind in kinds.items() if kind in JUDGED and not is_redrive_plan(group)}
    return lambda seen: capture_in_memory.never_committed(cluster, wanted - seen, missing)


def _sweep(
    store: FleetStore,
    window: Window,
    top: int,
    events: Events,
    asked: OtherGroups,
    steps: Steps,
    unseen: Unseen | None,
) -> Sweep:
    from workbench.spark.session import for_much_data, session
    from workbench.sweep.sweep_engine import sweep

    with steps.step("Starting Spark") as step:
        spark = session()
        for_much_data(spark)
        step.note = f"Spark {spark.version}"
    with steps.step("Walking the tree for all groups on topics") as step:
        kinds, others, missing = asked
        result = sweep(
            store,
            spark,
            window=window,
            top=top,
            events=events,
            kinds=kinds,
            others=others,
            unseen=unseen,
            missing=missing,
        )
        read = result.reading
        step.note = (
            f"{groups_on_topics(result.table.num_rows)}, {read.condensed} of {plural(read.files, 'file')} read "
            f"({plural(read.samples_read, 'sample')})"
        )
    return result


def _write_table(path: Path, result: Sweep) -> None:
    import pyarrow.parquet as pq

    from workbench.files import atomic_write

    try:
        with atomic_write(path) as temporary:
            pq.write_table(result.table, temporary, compression="zstd")
    except OSError as error:
        raise UsageError(f"The table {path} cannot be written: {error.strerror}.") from None


def _write_report(path: Path, store: FleetStore, result: Sweep, events: Events) -> None:
    from workbench.collect.capture import Capture, new_info
    from workbench.report.html_report import write_html

    info = new_info(
        cluster=store.info.cluster,
        bootstrap=store.info.bootstrap,
        source=store.info.source,
        profiles=store.info.profiles,
        window=result.window,
        incomplete=list(result.incomplete),
        thresholds=store.info.thresholds,
        match=store.info.match,
        expected=store.info.expected,
    )
    samples = store.samples_of(result.window, [(it.group, it.topic) for it in result.findings])
    write_html(
        path,
        result.as_triage(),
        Capture(info=info, samples=samples, events=events, own=store.own, login_file=store.login_file),
    )

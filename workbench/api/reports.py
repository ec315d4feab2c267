"""The health of all subscriptions over a period, for scheduled reports."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.api.triages import TriageResult
    from workbench.collect.capture import Capture
    from workbench.report.health_audit_lines import StreamLine
    from workbench.report.health_broker_lines import BrokerLine
    from workbench.report.health_report import Health
    from workbench.report.state_before_kafka import BeforeKafka
    from workbench.triage.triage_engine import Triage
    from workbench.window import Window

# From so many samples on, compiling Spark's stages costs less than not to.
_MUCH = 200_000
# Of brokers a report says how they are at its end: what slowed somebody hours ago and is over is in no line of the fleet either.
_NOW, _BEFORE = timedelta(minutes=15), timedelta(hours=1)


def health(
    *,
    cluster: str = "",
    capture: str = "",
    since: str = "",
    until: str = "",
    config: str = "",
    previous: str = "",
    run_id: str = "",
) -> Health:
    """Collect a period and judge its end.

    The last stretch of the period, as long as the settings' window, is judged by the tree; the error budget counts all of it.
    A Pulsar is judged as it is now, by two looks at it, whatever the period is.

    Args:
        cluster, capture: a cluster of the settings, or a recorded folder.
        since, until: the period, ISO 8601 with zone; empty: all of a capture.
        previous: path of the last run's result.json, for the trend; empty or unreadable: none.

    Raises:
        SourceUnreachableError: if the source does not answer. NoSeriesError: if it has nothing.
    """
    if not capture and (now := _of_now(cluster, config)) is not None:
        return _health_of_now(now, previous, run_id)
    from workbench.spark.session import for_much_data, session, start_in_background

    start_in_background()  # it takes longer than loading the rest
    from workbench.collect.capture import read_capture, with_own
    from workbench.plans.journal import replays_begun_here
    from workbench.report.error_budget import budgets
    from workbench.report.health_report import assess
    from workbench.report.health_result import read_previous
    from workbench.settings import own_cluster
    from workbench.triage.triage_engine import triage
    from workbench.window import Window, parse_instant

    letter_topics: Sequence[str] = ()
    if capture:
        recorded = read_capture(Path(capture))
        own = own_cluster(
            recorded.info.cluster, Path(config) if config else None, tell=logging.getLogger(__name__).warning
        )
        recorded = with_own(recorded, own)
        window = recorded.window
        start = parse_instant(since) if since else window.baseline_start
        end = parse_instant(until) if until else window.end
        if end != window.end:
            window = Window(baseline_start=start, start=max(start, end - (window.end - window.start)), end=end)
    else:
        recorded, window, start, end, letter_topics = _collected(cluster, since, until, config)
    recorded = replace(recorded, begun=replays_begun_here())
    spark = session()
    if recorded.samples.num_rows > _MUCH:
        for_much_data(spark)
    result = triage(recorded, spark, window=window)
    spent = budgets(
        recorded.samples,
        start=start,
        end=end,
        objective_seconds=recorded.info.thresholds.time_lag_objective_seconds,
        expectations=recorded.expectations,
    )
    brokers, brokers_unsure = _on_brokers(recorded, start, end)
    arrivals = [] if capture else _arrivals(cluster, start, end, config, result)
    return assess(
        recorded,
        result,
        spent,
        start=start,
        end=end,
        previous=read_previous(previous),
        run_id=run_id,
        letter_topics=letter_topics,
        arrivals=arrivals,
        brokers=brokers,
        brokers_unsure=brokers_unsure,
        before_kafka=_before_kafka(recorded, window, start, end, config),
    )


def _of_now(cluster: str, config: str) -> TriageResult | None:
    """A cluster whose metrics are not read (a Pulsar), as it is now; None for any other."""
    from workbench.api.measurement_requests import Measurements
    from workbench.api.triages import dispatched

    return dispatched(Measurements(cluster=cluster, config=Path(config) if config else None))


def _health_of_now(found: TriageResult, previous: str, run_id: str) -> Health:
    from workbench.report.health_report import assess
    from workbench.report.health_result import read_previous

    seen, before = found.triage.window, read_previous(previous)
    return assess(found.capture, found.triage, {}, start=seen.start, end=seen.end, previous=before, run_id=run_id)


def _on_brokers(recorded: Capture, start: datetime, end: datetime) -> tuple[list[BrokerLine], str | None]:
    """Causes on brokers in the last quarter of an hour, against the hour before, and why it cannot be told who slows whom.

    Nothing at all if nothing measures a broker.
    """
    from workbench.api.who_slows_whom import impact_of
    from workbench.features.broker_features import neighbourhood, tells_of_brokers
    from workbench.report.health_broker_lines import lines_of_brokers
    from workbench.triage.verdict_names import Answer
    from workbench.window import Window

    if not tells_of_brokers(recorded.samples):
        return [], None
    now = max(start + (end - start) / 3, end - _NOW)
    window = Window(baseline_start=max(start, now - _BEFORE), start=now, end=end)
    all_of = neighbourhood(recorded.samples, recorded.groups, window)
    found = impact_of(recorded, all_of)
    unsure = found.found.sentence if all_of.servers and found.found.answer is Answer.CANNOT_TELL else None
    return lines_of_brokers(found.found, found.actions, found.brokers.findings), unsure


def _before_kafka(recorded: Capture, window: Window, start: datetime, end: datetime, config: str) -> BeforeKafka | None:
    """Breakers of gateways in the period, and what is held back at its end."""
    from workbench.api.gateway_state import before_kafka_in
    from workbench.window import Window

    period = Window(baseline_start=start, start=start, end=end)
    tell = logging.getLogger(__name__).warning
    return before_kafka_in(recorded, period, window, config=Path(config) if config else None, tell=tell)


def _arrivals(cluster: str, start: datetime, end: datetime, config: str, result: Triage) -> list[StreamLine]:
    """What the audits of this cluster say of the period; one that cannot be made says why."""
    from workbench.api.audits import audit
    from workbench.errors import WorkbenchError
    from workbench.report.health_audit_lines import StreamLine, stream_lines
    from workbench.settings import load_settings
    from workbench.triage.verdict_names import State
    from workbench.window import instant_ms

    path = Path(config) if config else None
    settings = load_settings(path)
    default = settings.default_cluster()
    lagging = {(it.group, it.topic) for it in result.findings if it.state is State.LAGGING}
    found: list[StreamLine] = []
    for name, one in sorted(settings.audits.items()):
        if (one.cluster or (default.name if default is not None else None)) != cluster:
            continue
        try:
            rows = audit(name=name, since_ms=instant_ms(start), config=path).by_stream(
                since_ms=instant_ms(start), until_ms=instant_ms(end)
            )
        except WorkbenchError as error:
            found.append(StreamLine(audit=name, stream=None, problem=error.message))
        else:
            found += stream_lines(name, rows, lagging)
            if not rows:
                found.append(StreamLine(audit=name, stream=None, problem="No layer has told anything of the period."))
    return found


def _collected(
    cluster: str, since: str, until: str, config: str
) -> tuple[Capture, Window, datetime, datetime, list[str]]:
    from workbench.collect import capture_in_memory
    from workbench.settings import load_settings
    from workbench.window import Window, parse_instant

    settings = load_settings(Path(config) if config else None)
    chosen = settings.cluster(cluster)
    thresholds = settings.thresholds_of(chosen)
    lengths = settings.windows_of(chosen)
    start, end = parse_instant(since), parse_instant(until)
    window = Window.ending(end, length=lengths.length, baseline=lengths.baseline)
    asked = Window(baseline_start=min(start, window.baseline_start), start=window.start, end=end)
    return (
        capture_in_memory.collect(chosen, asked, thresholds=thresholds),
        window,
        start,
        end,
        chosen.dead_letters.topics,
    )

"""Recorder: scrapes metrics pages and Kafka itself periodically, and writes a capture."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event
from typing import Any, Literal

import pyarrow as pa

from workbench.collect.capture import PARTS, Capture, complete_recording, new_info, read_capture, write_parquet
from workbench.collect.capture_info import INFO, CaptureInfo, write_info
from workbench.collect.current_partition_owner import samples_of_present_owners
from workbench.collect.deploys_and_alerts import of_window
from workbench.collect.page_history import PageHistory
from workbench.collect.processes_of_one_name import ProcessNames
from workbench.collect.scrape import scrape
from workbench.collect.scraped_timestamps import OwnTimes
from workbench.collect.source_join import committing_in, groups_of_clients, with_derived
from workbench.collect.whole_from_parts_or_rates import Wholes
from workbench.errors import NoSeriesError, SourceUnreachableError, UsageError
from workbench.files import require_empty, writing
from workbench.humanize import plural, shell_word
from workbench.profiles import load_profile
from workbench.queues.snapshot_views import SOURCE as KAFKA_PROFILE
from workbench.queues.systems import refuse_without_metrics, system_of
from workbench.samples import SeriesTable, concat, most_trusted
from workbench.settings import Cluster
from workbench.thresholds import Thresholds
from workbench.window import Window

_FLUSH_SECONDS = 10.0

# Called after each round with (rounds so far, samples so far, missing targets of this round).
Report = Callable[[int, int, list[str]], None]


class Recorder:
    """Records one cluster into a folder until it is stopped.

    The folder is a capture from the first flush on (state "recording"), so a killed recorder loses at most the last seconds.

    Raises:
        UsageError: if the folder is not empty, or the cluster has no source to record.
    """

    def __init__(
        self,
        cluster: Cluster,
        folder: Path,
        *,
        interval_seconds: float,
        groups: list[str] | None = None,
        thresholds: Thresholds | None = None,
    ) -> None:
        refuse_without_metrics(cluster, "Recording does")
        if not cluster.metrics and cluster.bootstrap is None:
            raise UsageError(
                f"The cluster {cluster.name!r} has no source to record.",
                hint=f"Give it {'`bootstrap` or ' if cluster.system == 'kafka' else ''}`metrics` in workbench.toml.",
            )
        require_empty(folder, what="recording")
        self._cluster = cluster
        self._folder = folder
        self._interval = interval_seconds
        self._groups = groups
        self._thresholds = thresholds or Thresholds()
        self._profiles = [load_profile(name) for name in cluster.profiles]
        self._wholes = [Wholes(it) for it in self._profiles]
        self._own_times, self._processes = OwnTimes(), ProcessNames()
        self._history = PageHistory(profiles=self._profiles)
        self._asked = system_of(cluster).observer(cluster).rounds() if cluster.bootstrap is not None else None
        self._started, self._began = datetime.now(UTC), time.monotonic()
        self._samples: list[pa.Table] = []
        # In any round: a job that tells no commit in one of them is no job without.
        self._committing = set[tuple[Any, ...]]()
        self._views: list[pa.Table] = []
        self._parts = 0
        self._members: dict[str, str] = {}
        self.total_samples = 0
        self.rounds = 0
        self.missing: dict[str, int] = {}

    def run(self, stop: Event, *, seconds: float | None = None, report: Report | None = None) -> Capture:
        """Record until `stop` is set or the time limit is reached, then complete the capture and return it.

        Raises:
            SourceUnreachableError: if no source answers in the first round. NoSeriesError: if they answer, and tell of no group.
            OutputError: if it cannot be written; what was written before stays a recording.
        """
        deadline = time.monotonic() + seconds if seconds is not None else None
        last_flush = time.monotonic()
        try:
            while not stop.is_set():
                began = time.monotonic()
                missing = self.round()
                if self.rounds == 1:
                    self._begin(missing)
                if report is not None:
                    report(self.rounds, self.total_samples, missing)
                if time.monotonic() - last_flush >= _FLUSH_SECONDS:
                    self.flush()
                    last_flush = time.monotonic()
                if deadline is not None and time.monotonic() >= deadline:
                    break
                stop.wait(max(0.0, self._interval - (time.monotonic() - began)))
        finally:
            self.flush()
        return self.close()

    def round(self) -> list[str]:
        """Scrape every target once; return those without an answer."""
        missing: list[str] = []
        tables: list[SeriesTable] = []
        if self._asked is not None:
            try:
                # A wrong name is reported in the first round; a group that disappears later is a fact to record.
                seen = self._asked.next(groups=self._groups, all_known=self.rounds == 0)
                missing += seen.incomplete
                tables += seen.series
                self._views.append(seen.views)
                # A client id that two groups use now says nothing of its group, also if one of them had it before.
                known = groups_of_clients(seen.views)
                used = {name: known.get(name) for name in seen.views["client_id"].to_pylist() if name is not None}
                self._members = {name: it for name, it in {**self._members, **used}.items() if it is not None}
            except SourceUnreachableError as error:
                missing.append(error.message)
        pages, unreachable = scrape(
            self._cluster.metrics,
            self._profiles,
            cluster=self._cluster.name,
            timeout_seconds=self._cluster.timeout_seconds,
            members=self._groups_of_members,
            wholes=self._wholes,
            own_times=self._own_times,
            processes=self._processes,
            history=self._history,
            topics=(topic for it in tables for topic in it.names["topic"].to_pylist() if topic is not None),
        )
        missing += unreachable
        # Kafka itself comes first: its values are more recent than any exporter's.
        joined = most_trusted([*tables, pages])
        self._committing |= committing_in(joined)
        found = with_derived(joined, committing=self._committing).to_samples()
        self._samples.append(found)
        self.rounds += 1
        self.total_samples += found.num_rows
        for text in missing:
            self.missing[text] = self.missing.get(text, 0) + 1
        return missing

    @property
    def _groups_of_members(self) -> dict[str, str]:
        return {**self._members, **self._cluster.members}

    def _begin(self, missing: list[str]) -> None:
        """Make the folder after the first round has shown that there are samples: one that cannot be written ends it at once."""
        if self.total_samples == 0:
            self._samples, self._views = [], []
            if not missing:
                raise NoSeriesError(
                    f"The sources of the cluster {self._cluster.name!r} answer, and nothing there tells of a group.",
                    hint=f"Which profiles fit? workbench profiles check --cluster {shell_word(self._cluster.name)}. Where metrics name "
                    'no group, name that of each page: members = {"app-1:8000" = "GROUP"}; Kafka tells the lag: bootstrap.',
                )
            reasons = "; ".join(it.rstrip(".") for it in missing)
            raise SourceUnreachableError(
                f"No source of the cluster {self._cluster.name!r} answers: {reasons}.",
                hint="Are the addresses in workbench.toml correct?",
            )
        self.flush()

    def flush(self) -> None:
        """Write the samples since the last flush.

        Raises:
            OutputError: if they cannot be written; the next attempt replaces what this one has left.
        """
        if self._samples:
            number = self._parts + 1
            with writing(f"The recording {self._folder}"):
                (self._folder / PARTS).mkdir(parents=True, exist_ok=True)
                write_parquet(self._folder / PARTS / f"samples-{number:06d}.parquet", concat(self._samples))
                if self._views:
                    write_parquet(self._folder / PARTS / f"groups-{number:06d}.parquet", pa.concat_tables(self._views))
                self._parts = number
                self._samples, self._views = [], []
                write_info(self._folder, self._info("recording"))

    def close(self) -> Capture:
        """Combine the parts to a complete capture."""
        if not (self._folder / INFO).exists():
            raise UsageError("Nothing was recorded: the recording was stopped before the first scrape.")
        recorded = read_capture(self._folder, room_gib=math.inf)  # our own lock, which must be kept
        events = of_window(self._cluster.name, self._started, datetime.now(UTC))
        own, former = samples_of_present_owners(recorded.samples, self._profiles)
        samples, copies = self._history.with_threads(
            own,
            recorded.window,
            cluster=self._cluster.name,
            members=self._groups_of_members,
            aliases=self._processes.aliases,
        )
        info = self._info("complete", sources=(*former, *copies))
        whole = Capture(info=info, samples=samples, groups=recorded.groups, events=events)
        complete_recording(self._folder, whole)
        return read_capture(self._folder, room_gib=math.inf)

    def _info(self, state: Literal["recording", "complete"], *, sources: Sequence[str] = ()) -> CaptureInfo:
        # A clock that is set back must not end the recording: its window would end before it starts.
        now = max(datetime.now(UTC), self._started + timedelta(seconds=time.monotonic() - self._began))
        middle = self._started + (now - self._started) * 0.6  # a default that triage's --since overrides
        return new_info(
            cluster=self._cluster.name,
            bootstrap=self._cluster.bootstrap,
            source="watch",
            profiles=[*([KAFKA_PROFILE] if self._asked is not None else []), *(it.name for it in self._profiles)],
            window=Window(baseline_start=self._started, start=middle, end=now),
            groups=self._groups,
            incomplete=[
                *(f"{text} ({count} of {plural(self.rounds, 'round')})" for text, count in self.missing.items()),
                *self._own_times.too_late((now - middle).total_seconds()),
            ],
            thresholds=self._thresholds,
            expected=self._cluster.groups,
            sources=sources,
            state=state,
        )

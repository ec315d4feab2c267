"""Scraper of metrics pages, for clusters without a reachable Prometheus."""

from __future__ import annotations

import io
import re
import time
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TextIO, cast
from urllib.parse import urlsplit

import requests
import urllib3
from prometheus_client.parser import text_fd_to_metric_families
from prometheus_client.samples import Sample

from workbench.collect.measurer_labels import CLUSTER_LABELS, PLACE_LABELS, REPLICA_LABELS
from workbench.collect.page_history import PageHistory
from workbench.collect.processes_of_one_name import ProcessNames
from workbench.collect.restore_underscored_names import Spelling, in_full_first
from workbench.collect.scraped_timestamps import OwnTimes
from workbench.collect.source_join import namesakes, with_groups
from workbench.collect.whole_from_parts_or_rates import Wholes
from workbench.errors import SourceUnreachableError
from workbench.http_client import WebSession, cause
from workbench.profiles import LeftOut, Meaning, Profile
from workbench.samples import OF_A_MEMBER, SampleBatch, SeriesTable, concat_series, most_trusted
from workbench.signals import SIGNALS, Kind

MAX_PAGE_BYTES = 64 << 20
_PARALLEL = 8
_END = "# EOF"  # of a page in the form of OpenMetrics
_COUNTS = frozenset({"content-length", "transfer-encoding"})  # an answer without either ends where its connection does
_LINE_CHARACTERS = 16_384  # much longer than any labels; the parser takes 10 ms for this many blanks
_SOURCES = REPLICA_LABELS | CLUSTER_LABELS | PLACE_LABELS
# The parser trusts its input.
_NO_PAGE = (ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError)
_NAME = re.compile(r"\s*([a-zA-Z_:][a-zA-Z0-9_:]*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One answer of a page, or the reason why there is none."""

    url: str
    taken_at: float
    text: str = ""
    error: str | None = None


def fetch(url: str, *, timeout_seconds: float) -> Page:
    """Get one page. A failure is part of the result: a dead target is evidence, and must not stop the others."""
    host = urlsplit(url).netloc.rpartition("@")[2]
    taken_at = time.time()
    try:
        with WebSession(deadline_seconds=timeout_seconds, max_bytes=MAX_PAGE_BYTES) as session:
            response = session.get(url)
            response.raise_for_status()
            body = response.content
            is_counted = not _COUNTS.isdisjoint(name.lower() for name in response.headers)
    except (requests.RequestException, urllib3.exceptions.HTTPError, ValueError) as error:
        return Page(url=url, taken_at=taken_at, error=f"{host}: {cause(error)}")
    text = body.decode("utf-8", "replace")
    # What HTTP has counted is whole: some programs leave out the last line's end, and Prometheus takes that, too. Else this may be the
    # begin of a longer page, and half of a number is another number.
    if text and not is_counted and not text.endswith(("\n", _END)):
        return Page(url=url, taken_at=taken_at, error=f"{host}: the page breaks off within a line")
    return Page(url=url, taken_at=taken_at, text=text)


def fetch_all(urls: Sequence[str], *, timeout_seconds: float) -> list[Page]:
    """Get several pages in parallel, so that a hanging one does not delay the others."""
    if not urls:
        return []
    with ThreadPoolExecutor(min(_PARALLEL, len(urls))) as pool:
        return list(pool.map(lambda url: fetch(url, timeout_seconds=timeout_seconds), urls))


def page_series(
    page: Page,
    profiles: Sequence[Profile],
    *,
    cluster: str,
    left_out: LeftOut | None = None,
    own_times: OwnTimes | None = None,
    processes: ProcessNames | None = None,
    history: PageHistory | None = None,
) -> list[SeriesTable]:
    """Parse the series of one page, for each profile; invalid ones are noted in `left_out`.

    A series that has a time of its own counts at that time, and once (`own_times` remembers it). Members of one name are told apart
    (`processes` remembers who had it first). What its threads measure is kept in `history`, too.

    Of several names of one metric (`also`), the first one that a member has counts.

    Raises:
        SourceUnreachableError: if the answer is not a metrics page.
    """
    # Of each profile, a batch for each place in its lists of names.
    generations = [
        [SampleBatch(cluster, profile.name) for _ in range(profile.names_of_a_metric)] for profile in profiles
    ]
    views = [(it, batches) for profile, batches in zip(profiles, generations, strict=True) for it in profile.views()]
    times = own_times if own_times is not None else OwnTimes()
    processes = processes if processes is not None else ProcessNames()
    host = urlsplit(page.url).netloc.rpartition("@")[2]
    is_open = page.text.rstrip().endswith(_END)
    instance = {"instance": host}  # as a Prometheus names its target
    counted = _Counted()
    try:
        for family in text_fd_to_metric_families(cast(TextIO, _lines(page.text, profiles))):
            for sample in family.samples:
                labels = {**instance, **sample.labels}
                at = None
                if history is not None and history.wants(sample.name):
                    at = times.of(sample, host, page.taken_at, is_open_metrics=is_open)
                    if at is None:
                        continue
                    history.keep(sample.name, labels, at, sample.value)
                for profile, batches in views:
                    meaning = profile.meaning(sample.name, labels, left_out=left_out)
                    if meaning is None:
                        continue
                    at = at or times.of(sample, host, page.taken_at, is_open_metrics=is_open)
                    if at is None:
                        continue
                    told = replace(meaning, labels=processes.told_apart(meaning, profile, labels))
                    value = meaning.value_of(sample.value)
                    if SIGNALS[told.signal].kind is Kind.GAUGE:
                        _add(batches[told.generation], told, at, value)
                    else:
                        counted.add(batches[told.generation], told, at, value, apart=counted.source(profile, sample))
    except _NO_PAGE as error:
        raise _no_page(host, error) from None
    counted.finish()
    return [most_trusted([it.to_series() for it in batches], by=OF_A_MEMBER) for batches in generations]


def exported(page: Page) -> Iterator[tuple[str, dict[str, str]]]:
    """Name and labels of every sample of a page, with its address as Prometheus names a target.

    Raises:
        SourceUnreachableError: if it does not answer, or not with a metrics page.
    """
    host = urlsplit(page.url).netloc.rpartition("@")[2]
    if page.error is not None:
        raise SourceUnreachableError(page.error)
    try:
        for family in text_fd_to_metric_families(cast(TextIO, _lines(page.text, ()))):
            yield from ((it.name, {"instance": host, **it.labels}) for it in family.samples)
    except _NO_PAGE as error:
        raise _no_page(host, error) from None


def _no_page(host: str, error: Exception) -> SourceUnreachableError:
    return SourceUnreachableError(
        f"The answer of {host} is not a metrics page ({error.__class__.__name__}).",
        hint="The URL usually ends in /metrics.",
    )


def _add(batch: SampleBatch, told: Meaning, at: float, value: float) -> None:
    when = [round(at * 1e6)]
    batch.add(
        told.signal, told.labels, when, [value],
        stat=told.stat, le=told.le, scale=told.scale, plus=told.plus, counted_twice=told.counted_twice,
    )  # fmt: skip


class _Counted:
    """Counters of one page.

    Those that only labels of the metric itself tell apart (an error's type, a partition) are parts of one, as they are with a
    Prometheus. One after the other in one series, they would seem to begin anew with each sample.
    """

    def __init__(self) -> None:
        self._found: dict[Hashable, tuple[SampleBatch, Meaning, float, float]] = {}
        self._apart: dict[str, frozenset[str]] = {}

    def source(self, profile: Profile, sample: Sample) -> Hashable:
        """What tells a sample from those that are no parts of the same."""
        apart = self._apart.get(profile.name)
        if apart is None:
            apart = self._apart[profile.name] = _SOURCES.union(*(rule.passing for _, rule in profile.rules()))
        return sample.name, frozenset(pair for pair in sample.labels.items() if pair[0] in apart)

    def add(self, batch: SampleBatch, told: Meaning, at: float, value: float, *, apart: Hashable) -> None:
        """Add a sample to those of the same meaning, source and time."""
        key = (id(batch), told.signal, told.stat, told.le, frozenset(told.labels.items()), at, apart)
        before = self._found.get(key)
        self._found[key] = batch, told, at, value + (before[3] if before is not None else 0.0)

    def finish(self) -> None:
        """Put the sums into the batches."""
        for batch, told, at, value in self._found.values():
            _add(batch, told, at, value)


def _lines(text: str, profiles: Sequence[Profile]) -> Iterator[str]:
    """Lines of a page, without long lines that are not needed: the parser's time is quadratic in a line's length.

    Raises:
        ValueError: if a needed line is too long.
    """
    for line in io.StringIO(text):
        if len(line) > _LINE_CHARACTERS:
            name = _NAME.match(line)
            if line.lstrip().startswith("#") or (name and not any(it.read_name(name[1]) for it in profiles)):
                continue
            raise ValueError("a line that is too long")
        yield line


def scrape(
    urls: Sequence[str],
    profiles: Sequence[Profile],
    *,
    cluster: str,
    timeout_seconds: float,
    members: Mapping[str, str] | None = None,
    wholes: Sequence[Wholes] | None = None,
    topics: Iterable[str] = (),
    own_times: OwnTimes | None = None,
    processes: ProcessNames | None = None,
    history: PageHistory | None = None,
) -> tuple[SeriesTable, list[str]]:
    """Scrape all pages once: series, and what is missing.

    Args:
        members: as for `source_join.with_groups`.
        wholes: of the profiles, if they are scraped again and again.
        topics: that are known to be there.
        own_times, processes, history: of the pages, if they are scraped again and again.
    """
    processes = processes if processes is not None else ProcessNames()
    own_times = own_times if own_times is not None else OwnTimes()
    own_times.next_round(time.time())
    pages = fetch_all(urls, timeout_seconds=timeout_seconds)
    missing: list[str] = []
    found: list[list[SeriesTable]] = []
    left_out = LeftOut()
    for page in pages:
        if page.error is not None:
            missing.append(page.error)
            continue
        try:
            found.append(
                page_series(
                    page,
                    profiles,
                    cluster=cluster,
                    left_out=left_out,
                    own_times=own_times,
                    processes=processes,
                    history=history,
                )
            )
        except SourceUnreachableError as error:  # one invalid page must not affect the others
            missing.append(error.message)
    missing += [*left_out.words(), *own_times.refused]
    members = dict(members or {})
    members |= {alias: members[name] for alias, name in processes.aliases.items() if name in members}
    spelling = Spelling.of_groups(members.values())
    spelling.known["topic"].update(topics)
    by_profile = [
        (whole.profile, whole.of(concat_series(series)))
        for whole, series in zip(wholes or map(Wholes, profiles), zip(*found, strict=True), strict=False)
    ]
    told: dict[int, SeriesTable] = {}
    for at in in_full_first([profile for profile, _ in by_profile]):
        profile, series = by_profile[at]
        also = namesakes(spelling.known["group"]) if profile.member_is == "thread" else {}
        told[at] = with_groups(spelling.corrected(series, profile), profile, {**also, **members})
    missing += spelling.notes
    return most_trusted([told[at] for at in sorted(told)]), missing

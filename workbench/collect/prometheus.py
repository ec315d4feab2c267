"""Samples from Prometheus, with prometheus-api-client and our own HTTP session.

The session parses by column, sends `Accept-Encoding: identity` (compression cost the server 6 s, sending 0.8 s), keeps warnings that
the client drops, and aborts slow answers. It queries raw samples (`m[range]`), not `query_range`: without a staleness marker, that
repeats the last sample for five minutes. Long windows are queried by step.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pyarrow.compute as pc
import requests
import urllib3
from urllib3.util.retry import Retry

from workbench.collect import remote_read
from workbench.collect.duplicate_series import count_once
from workbench.collect.matrix_parser import EMPTY, Matrix, parse_answer, partial_of
from workbench.collect.original_names import Spelling, in_full_first
from workbench.collect.prometheus_errors import redirected, refusal
from workbench.collect.selectors import LabelMatcher, matchers_of, named, one_of, to_promql
from workbench.collect.source_join import with_derived_lag, with_groups
from workbench.collect.sum_parts_and_rates import Wholes
from workbench.errors import SourceUnreachableError
from workbench.http_client import AnswerTooLargeError, RedirectRefusedError, WebSession, cause
from workbench.profiles import LeftOut, MappingRule, Profile
from workbench.profiles.profile_fit import RECENT_SECONDS, asked_for
from workbench.samples import OF_A_MEMBER, STALE_NAN_BITS, SampleBatch, SeriesTable, concat_series, most_trusted
from workbench.settings import Cluster
from workbench.window import Window

# Prometheus refuses more than 11,000 points per series in one range query.
MAX_POINTS = 10_000
# Longest window that is queried as raw samples: 6 h at 15 s are 1,440 samples per series.
RAW_LIMIT = timedelta(hours=6)
_TARGET_POINTS = 1_440
_ROUND_STEPS_SECONDS = (15, 30, 60, 120, 300, 600, 900, 1800, 3600)
_MAX_TOPICS_IN_QUERY = 200  # a longer list would make the URL too long for some proxies; then all topics are queried
_RETRIES = 2


class _ColumnarSession(WebSession):
    """Session that parses matrix answers as columns, and stores warnings."""

    def __init__(self, deadline_seconds: float) -> None:
        super().__init__(deadline_seconds=deadline_seconds)
        self.headers["Accept-Encoding"] = "identity"
        self.warnings: list[str] = []

    def request(self, method: str | bytes, url: str | bytes, *args: Any, **kwargs: Any) -> requests.Response:
        if str(url).endswith(remote_read.PATH):  # reads the answer itself
            return super().request(method, url, *args, **kwargs)
        response = super().request(method, url, *args, **kwargs)
        if (error := refusal(response, _host(str(url)))) is not None:
            raise error
        if response.status_code == 200 and "/api/v1/query" in str(url):
            parsed = self._parse(response.content)
            response.json = lambda **_kwargs: parsed  # type: ignore[method-assign]
        elif response.status_code == 200:
            self.warnings += partial_of(json.loads(response.content))
        return response

    def _parse(self, body: bytes) -> dict[str, Any]:
        answer = parse_answer(body)
        self.warnings += answer.partial
        return {"data": {"result": answer.matrix}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """Samples by series, what is known to be missing, and how many sources measured the same."""

    series: SeriesTable
    incomplete: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class PrometheusSource:
    """One Prometheus, or a server with its API.

    Args:
        url: its base URL.
        cluster: name for the samples' `cluster` column.
        profiles: in order of trust.
        headers: for authentication.
        timeout_seconds: for one query.
        members: client id or application to group, for profiles without a group.
        match: label to value or pattern: only these series are the cluster's.
        copies: labels that tell copies of one measurement apart.
        step_seconds: forces a resolution; None: raw samples, or a suitable step for long windows.
    """

    url: str
    cluster: str
    profiles: Sequence[Profile]
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout_seconds: float = 30.0
    step_seconds: int | None = None
    members: Mapping[str, str] = field(default_factory=dict)
    match: Mapping[str, str] = field(default_factory=dict)
    copies: Sequence[str] = ()
    queries: list[str] = field(default_factory=list)
    _client: Any = None
    _session: Any = None
    _chunks_offered: bool = True
    _left_out: LeftOut = field(default_factory=LeftOut)

    @classmethod
    def of(cls, cluster: Cluster, profiles: Sequence[Profile], **more: Any) -> PrometheusSource:
        """The Prometheus of a cluster's settings; `more` are further arguments, or others than the settings'."""
        settings: dict[str, Any] = {
            "headers": cluster.prometheus_headers,
            "timeout_seconds": cluster.timeout_seconds,
            "match": cluster.match,
            "copies": cluster.copies,
        }
        return cls(url=cluster.prometheus or "", cluster=cluster.name, profiles=profiles, **(settings | more))

    def collect(
        self, window: Window, *, groups: Sequence[str] | None = None, topics: Sequence[str] | None = None
    ) -> Collected:
        """Query all signals of the profiles, over baseline and window.

        Raises:
            SourceUnreachableError: if Prometheus does not answer, or answers with an error.
            MixedSourcesError: if two clusters answer.
        """
        self._connect()
        self._session.warnings.clear()
        self._left_out = LeftOut()
        tables: dict[int, SeriesTable] = {}
        sources: list[str] = []
        spelling = Spelling.of_groups([*self.members.values(), *(groups or ())])
        spelling.known["topic"].update(topics or ())
        for at in in_full_first(self.profiles):
            generations = self.profiles[at].generations()
            found = [self._of_generation(it, window, groups, topics, sources, spelling) for it in generations]
            tables[at] = most_trusted(found, by=OF_A_MEMBER)
        return Collected(
            series=with_derived_lag(most_trusted([tables[at] for at in sorted(tables)])),
            incomplete=(*self.partial, *self._left_out.words(), *dict.fromkeys(spelling.notes)),
            sources=tuple(dict.fromkeys([*sources, *self._left_out.notes()])),
        )

    def _of_generation(
        self,
        profile: Profile,
        window: Window,
        groups: Sequence[str] | None,
        topics: Sequence[str] | None,
        sources: list[str],
        spelling: Spelling,
    ) -> SeriesTable:
        """Series of a profile with one name for each metric, with their groups; notes on copies are added to `sources`."""
        by_group = [rule for _, rule in profile.rules() if "group" in rule.labels]
        others = [rule for _, rule in profile.rules() if "group" not in rule.labels]
        found = self._collect(profile, by_group, window, groups=groups, topics=topics)
        if others and (len(found.series) or not by_group):
            named = found.series.names["topic"].drop_null()
            seen = topics or (sorted(pc.unique(named).to_pylist()) if groups else None)
            found = _joined([found, self._collect(profile, others, window, groups=None, topics=seen)])
        counted = count_once(found.series, found.labels, profile, copies=self.copies)
        sources += counted.notes
        members = {
            **self.members,
            **{to: self.members[of] for to, of in counted.aliases.items() if of in self.members},
        }
        whole = spelling.corrected(Wholes(profile).of(counted.series), profile)
        return with_groups(whole, profile, members, groups=groups)

    @property
    def partial(self) -> tuple[str, ...]:
        """What the server reported as missing from its last answers."""
        return tuple(dict.fromkeys(self._session.warnings)) if self._session is not None else ()

    def names(self, *, at: datetime | None = None) -> frozenset[str]:
        """All metric names, also of series without recent samples.

        Args:
            at: in the hour before this instant; default: whatever the server has.

        Raises:
            SourceUnreachableError: if Prometheus does not answer.
        """
        self._connect()
        params = {} if at is None else {"start": str(at.timestamp() - 3600), "end": str(at.timestamp())}
        found = self._guarded("label values", lambda: self._client.get_label_values("__name__", params=params))
        return frozenset(found)

    def recent(
        self, names: Iterable[str], *, most: int = 1, each: str | None = None, at: datetime | None = None
    ) -> dict[str, list[dict[str, str]]]:
        """Labels of some series that have samples in the last ten minutes (`RECENT_SECONDS`).

        Args:
            names: metric names.
            most: series of each; with `each`, of each value of this label.
            at: the end of these minutes; default: now.

        Raises:
            SourceUnreachableError: if Prometheus does not answer.
        """
        self._connect()
        params = {} if at is None else {"time": str(at.timestamp())}
        found: dict[str, list[dict[str, str]]] = {}
        for name in sorted(names):
            selector = to_promql((one_of("__name__", [name]), *matchers_of(self.match)))
            by = f"by ({each}) " if each is not None else ""
            # A subquery, so that its answer is a matrix like those of all other queries; of one instant, because a longer one is
            # evaluated at whole minutes only, and a Prometheus may be younger than the last of them.
            query = f"topk {by}({most}, last_over_time({selector}[{RECENT_SECONDS:g}s]))[1s:1s]"
            matrix = self._ask(query, lambda query=query: self._client.custom_query(query, params=params))
            if len(matrix):
                found[name] = [labels for labels, _, _ in matrix.series()][: most if each is None else None]
        return found

    def examples(self, *, at: datetime | None = None, among: frozenset[str] | None = None) -> dict[str, dict[str, str]]:
        """Every exported metric name of the profiles, with the labels of one recent series (and those that its name carries).

        Args:
            at: the end of the minutes that count as recent; default: now.
            among: of `names`, if they are known already.

        Raises:
            SourceUnreachableError: if Prometheus does not answer.
        """
        wanted = asked_for(self.profiles, self.names(at=at) if among is None else among)
        found = self.recent(wanted, at=at)
        return {wanted[metric][0]: {**series[0], **wanted[metric][1]} for metric, series in found.items()}

    def read(self, metric: str, window: Window) -> Iterator[tuple[dict[str, str], np.ndarray, np.ndarray]]:
        """Labels, µs since the epoch and values of every series of a metric, whatever its labels are.

        Raises:
            SourceUnreachableError: if Prometheus does not answer.
        """
        self._connect()
        for matrix in self._fetch([one_of("__name__", [metric])], window, by_chunks=False):
            yield from matrix.series()

    def _connect(self) -> None:
        if self._client is not None:
            return
        from prometheus_api_client import PrometheusConnect

        self._session = _ColumnarSession(self.timeout_seconds)
        self._client = PrometheusConnect(
            self.url,
            headers=dict(self.headers),
            session=self._session,
            timeout=self.timeout_seconds,  # type: ignore[arg-type,unused-ignore]
            # Do not repeat a query that timed out on the server (503), and keep the last answer for the error.
            retry=Retry(
                total=_RETRIES,
                connect=_RETRIES,
                read=0,
                backoff_factor=0.2,
                status_forcelist=[429, 502, 504],
                raise_on_status=False,
            ),
        )

    def _collect(
        self,
        profile: Profile,
        rules: Iterable[MappingRule],
        window: Window,
        *,
        groups: Sequence[str] | None,
        topics: Sequence[str] | None,
    ) -> _Found:
        tables = []
        wanted = {id(rule) for rule in rules}
        by_labels: dict[tuple[str | None, str | None], list[str]] = {}
        for name, meanings in profile.metrics().items():
            rules_of = [rule for _, rule, _ in meanings if id(rule) in wanted]
            of = {(rule.asked_by("group", name), rule.asked_by("topic", name)) for rule in rules_of}
            if of:  # meanings with other labels than each other are asked for without any: each series once
                by_labels.setdefault(of.pop() if len(of) == 1 else (None, None), []).append(name)
        for (group_label, topic_label), names in by_labels.items():
            matchers = [named(sorted(names))]
            if groups and group_label:
                matchers.append(one_of(group_label, groups))
            if topics and topic_label and len(topics) <= _MAX_TOPICS_IN_QUERY:
                matchers.append(one_of(topic_label, topics))
            narrow = len(matchers) > 1
            matchers += matchers_of(self.match)
            for matrix in self._fetch(matchers, window, by_chunks=not narrow):
                tables.append(_to_series(matrix, profile, self.cluster, window, self._left_out))
        return _joined(tables)

    def _fetch(self, matchers: Sequence[LabelMatcher], window: Window, *, by_chunks: bool) -> Iterator[Matrix]:
        total = window.end - window.baseline_start
        step = self.step_seconds or (None if total <= RAW_LIMIT else fitting_step(total.total_seconds()))
        selector = to_promql(matchers)
        if step is None:
            found = self._stored_chunks(matchers, window) if by_chunks else None
            yield found if found is not None else self._raw(selector, window)
            return
        for start, end in chunks(window.baseline_start, window.end, step):
            yield self._ask(
                selector,
                lambda start=start, end=end: self._client.custom_query_range(selector, start, end, str(step)),
            )

    def _raw(self, selector: str, window: Window) -> Matrix:
        milliseconds = math.ceil((window.end - window.baseline_start).total_seconds() * 1000)
        query = f"{selector}[{milliseconds}ms]"
        return self._ask(query, lambda: self._client.custom_query(query, params={"time": window.end.timestamp()}))

    def _stored_chunks(self, matchers: Sequence[LabelMatcher], window: Window) -> Matrix | None:
        """Read the same samples as stored chunks, with a twelfth of the bytes; None if the server does not offer that."""
        if not self._chunks_offered:
            return None
        start_ms, end_ms = (round(at.timestamp() * 1000) for at in (window.baseline_start, window.end))

        def call() -> Matrix | None:
            try:
                return remote_read.fetch(
                    self._session,
                    self.url,
                    matchers,
                    start_ms=start_ms,
                    end_ms=end_ms,
                    timeout_seconds=self.timeout_seconds,
                    headers=self.headers,
                )
            except remote_read.NotOffered:
                return None

        found: Matrix | None = self._guarded(f"read {to_promql(matchers)}", call)
        if found is None:
            self._chunks_offered = False
            return None
        return found.where(found.values.view(np.uint64) != STALE_NAN_BITS)  # like `m[range]`

    def _ask(self, query: str, call: Any) -> Matrix:
        result = self._guarded(query, call)
        return result if isinstance(result, Matrix) else EMPTY

    def _guarded(self, query: str, call: Any) -> Any:
        self.queries.append(query)
        host = _host(self.url)
        try:
            return call()
        except RedirectRefusedError as error:
            raise redirected(error.response, host) from None
        except AnswerTooLargeError as error:
            raise SourceUnreachableError(
                f"Prometheus at {host} sends too much: {error}.",
                hint="A shorter window (--since) or a single group (--group) needs fewer samples.",
            ) from None
        except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
            if isinstance(error, requests.Timeout) or "timed out" in str(error):  # the retry adapter wraps the error
                raise SourceUnreachableError(
                    f"Prometheus at {host} did not answer within {self.timeout_seconds:g} s.",
                    hint="Is it overloaded? A shorter window (--since) needs fewer samples.",
                ) from None
            raise SourceUnreachableError(
                f"Prometheus at {host} cannot be reached: {cause(error)}.",
                hint="Is its URL correct?",
            ) from None
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise SourceUnreachableError(
                f"The server at {host} is not a Prometheus: {_message(str(error)) or type(error).__name__}.",
                hint="The URL must be the base of its API, without /api/v1.",
            ) from None


def fitting_step(seconds: float) -> int:
    """Round step with about 1,440 points."""
    wanted = seconds / _TARGET_POINTS
    return next((step for step in _ROUND_STEPS_SECONDS if step >= wanted), math.ceil(wanted / 3600) * 3600)


def chunks(start: datetime, end: datetime, step: int) -> Iterator[tuple[datetime, datetime]]:
    """Divide a range into parts of at most `MAX_POINTS` steps, at multiples of the step (for caches), without overlap."""
    at = math.floor(start.timestamp() / step) * step
    last = math.ceil(end.timestamp() / step) * step
    while at <= last:
        upto = min(last, at + (MAX_POINTS - 1) * step)
        yield datetime.fromtimestamp(at, UTC), datetime.fromtimestamp(upto, UTC)
        at = upto + step


@dataclass(frozen=True, slots=True)
class _Found:
    """Series with the server's own labels of each, (k,)."""

    series: SeriesTable
    labels: Sequence[Mapping[str, str]]


def _joined(tables: Sequence[_Found]) -> _Found:
    return _Found(concat_series([it.series for it in tables]), [of for it in tables for of in it.labels])


def _to_series(matrix: Matrix, profile: Profile, cluster: str, window: Window, left_out: LeftOut) -> _Found:
    batch = SampleBatch(cluster, profile.name)
    known = np.zeros(len(matrix), bool)
    states = np.full(len(matrix), np.nan)  # placeholder for the values of a series
    for at, labels in enumerate(matrix.labels):
        meaning = profile.meaning(labels.get("__name__", ""), labels, left_out=left_out)
        if meaning is None:
            continue
        known[at] = True
        if meaning.value is not None:
            states[at] = meaning.value
        batch.name(
            meaning.signal, meaning.labels, stat=meaning.stat, le=meaning.le, scale=meaning.scale, plus=meaning.plus
        )
    first, last = round(window.baseline_start.timestamp() * 1e6), round(window.end.timestamp() * 1e6)
    inside = (matrix.ts_us >= first) & (matrix.ts_us <= last)  # chunks and servers differ at the edges
    if not known.all():
        inside &= np.repeat(known, matrix.lengths)
    found = matrix.where(inside)
    values = found.values
    if (stated := ~np.isnan(states)).any():
        values = np.where(
            np.repeat(stated, found.lengths),
            np.where(values != 0, np.repeat(states, found.lengths), np.nan),
            values,
        )
    lengths = found.lengths[known]
    batch.fill(lengths, found.ts_us, values)
    here = np.flatnonzero(known)[lengths > 0]  # a series without samples is left out
    return _Found(batch.to_series(), [matrix.labels[at] for at in here])


def _host(url: str) -> str:
    """Host and port of a URL, never its password."""
    return urlsplit(url).netloc.rpartition("@")[2]


def _message(text: str) -> str:
    """Text of an error, cut to one line, without control characters."""
    words = text[:1000]
    return re.sub(r"[\s\x00-\x1f\x7f]+", " ", words).strip()[:200]

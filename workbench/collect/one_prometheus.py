"""One Prometheus, asked with prometheus-api-client and our own HTTP session.

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

import numpy as np
import requests
import urllib3
from urllib3.util.retry import Retry

from workbench.collect import remote_read
from workbench.collect.matrix_parser import EMPTY, Matrix, parse_answer, partial_of
from workbench.collect.prometheus_errors import redirected, refusal
from workbench.collect.selectors import LabelMatcher, matchers_of, one_of, to_promql
from workbench.errors import SourceUnreachableError
from workbench.http_client import AnswerTooLargeError, RedirectRefusedError, WebSession, cause, trust_hint
from workbench.profiles.profile_fit import RECENT_SECONDS
from workbench.samples import STALE_NAN_BITS
from workbench.window import Window

# Prometheus refuses more than 11,000 points per series in one range query.
MAX_POINTS = 10_000
# Longest window that is queried as raw samples: 6 h at 15 s are 1,440 samples per series.
RAW_LIMIT = timedelta(hours=6)
_TARGET_POINTS = 1_440
_ROUND_STEPS_SECONDS = (15, 30, 60, 120, 300, 600, 900, 1800, 3600)
_RETRIES = 2


class _ColumnarSession(WebSession):
    """Session that parses matrix answers as columns, and stores warnings."""

    def __init__(self, name: str, deadline_seconds: float) -> None:
        super().__init__(deadline_seconds=deadline_seconds)
        self.server = name
        self.headers["Accept-Encoding"] = "identity"
        self.warnings: list[str] = []

    def request(self, method: str | bytes, url: str | bytes, *args: Any, **kwargs: Any) -> requests.Response:
        if str(url).endswith(remote_read.PATH):  # reads the answer itself
            return super().request(method, url, *args, **kwargs)
        response = super().request(method, url, *args, **kwargs)
        if (error := refusal(response, self.server)) is not None:
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


@dataclass(slots=True, kw_only=True)
class AskedPrometheus:
    """One Prometheus, or a server with its API.

    Args:
        url: its base URL.
        name: in messages.
        headers: for authentication.
        match: label to value or pattern: only these series are asked for.
        timeout_seconds: for one query.
        step_seconds: forces a resolution; None: raw samples, or a suitable step for long windows.
        is_one_of_several: whether its answers are joined with those of others.
    """

    url: str
    name: str
    headers: Mapping[str, str] = field(default_factory=dict)
    match: Mapping[str, str] = field(default_factory=dict)
    timeout_seconds: float = 30.0
    step_seconds: int | None = None
    is_one_of_several: bool = False
    queries: list[str] = field(default_factory=list)
    _client: Any = None
    _session: Any = None
    _chunks_offered: bool = True
    _added: frozenset[str] | None = None

    @property
    def partial(self) -> tuple[str, ...]:
        """What it reported as missing from its last answers."""
        return tuple(dict.fromkeys(self._session.warnings)) if self._session is not None else ()

    def begin(self) -> None:
        """Forget what was missing from former answers."""
        if self._session is not None:
            self._session.warnings.clear()

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

    def fetch(self, matchers: Sequence[LabelMatcher], window: Window, *, by_chunks: bool) -> Iterator[Matrix]:
        """Read all samples of the matching series of this cluster, in parts of the window: as many for every server.

        Args:
            by_chunks: read stored chunks, if the server offers them.

        Raises:
            SourceUnreachableError: if it does not answer, or answers with an error.
        """
        self._connect()
        of_metrics, matchers = to_promql(matchers), [*matchers, *matchers_of(self.match)]
        total = window.end - window.baseline_start
        step = self.step_seconds or (None if total <= RAW_LIMIT else fitting_step(total.total_seconds()))
        selector = to_promql(matchers)
        if step is None:
            found = self._stored_chunks(matchers, window, of_metrics) if by_chunks else None
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

    def _stored_chunks(self, matchers: Sequence[LabelMatcher], window: Window, of_metrics: str) -> Matrix | None:
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
        if found is not None and self.is_one_of_several:
            found = self._as_queried(found, of_metrics, window)
        if found is None:
            self._chunks_offered = False
            return None
        return found.where(found.values.view(np.uint64) != STALE_NAN_BITS)  # like `m[range]`

    def _as_queried(self, found: Matrix, of_metrics: str, window: Window) -> Matrix | None:
        """Stored chunks without the server's external labels, which only remote read adds: a pair differs in them, and in nothing else.

        None if it is not known which these are.
        """
        if self._added is None and len(found):
            params = {
                "match[]": of_metrics,
                "start": str(window.baseline_start.timestamp()),
                "end": str(window.end.timestamp()),
            }
            told = len(self.partial)
            try:
                own = self._guarded("labels", lambda: self._client.get_label_names(params=params))
            except SourceUnreachableError:
                return None
            if len(self.partial) > told or "__name__" not in own:
                return None
            self._added = frozenset(found.labels[0]) - frozenset(own)
        added = self._added
        if not added:
            return found
        labels = [{name: value for name, value in of.items() if name not in added} for of in found.labels]
        return Matrix(labels, found.lengths, found.ts_us, found.values)

    def _connect(self) -> None:
        if self._client is not None:
            return
        from prometheus_api_client import PrometheusConnect

        self._session = _ColumnarSession(self.name, self.timeout_seconds)
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

    def _ask(self, query: str, call: Any) -> Matrix:
        result = self._guarded(query, call)
        return result if isinstance(result, Matrix) else EMPTY

    def _guarded(self, query: str, call: Any) -> Any:
        self.queries.append(query)
        host = self.name
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
                hint=trust_hint(error) or "Is its URL correct?",
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


def _message(text: str) -> str:
    """Text of an error, cut to one line, without control characters."""
    words = text[:1000]
    return re.sub(r"[\s\x00-\x1f\x7f]+", " ", words).strip()[:200]

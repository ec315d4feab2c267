"""Services that share a scrape job, for drafts: handlers that are timed under one name nowhere where another name is."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from workbench.profiles.draft_labels_from_names import Seen

HISTOGRAM = ("_bucket", "_sum", "_count")


def target_labels(labels: Mapping[str, str]) -> tuple[str | None, str | None]:
    """What tells the target of a series apart."""
    return labels.get("job"), labels.get("instance")


def series_of(page: Seen, metric: str) -> Iterator[Mapping[str, str]]:
    """Labels of a metric's series, and of a timer's parts."""
    for name in (metric, *(f"{metric}{end}" for end in HISTOGRAM)):
        yield from page.get(name, ())


def services_of(page: Seen, timers: Collection[str], most: int | None) -> list[Seen]:
    """The page of a job, or one for each of its services: of its targets, and of those that time no handlers.

    Args:
        page: labels of some series of each metric.
        timers: metrics of the page that may tell how long handlers take.
        most: of a metric's series, no more are in it, so its other ones may be of any target; None: all are in it.
    """

    def is_whole(series: Sequence[Mapping[str, str]]) -> bool:
        return most is None or len(series) < most

    services: list[set[tuple[str | None, str | None]]] = []
    for metric in sorted(timers):
        if not is_whole(page[metric]):
            continue
        mine = {target_labels(it) for it in page[metric]}
        joined = [it for it in services if it & mine]
        services = [it for it in services if not it & mine] + [mine.union(*joined)]
    if len(services) < 2:
        return [page]
    every = set().union(*services)

    def kept(metric: str, mine: set[tuple[str | None, str | None]]) -> Sequence[Mapping[str, str]]:
        series = page[metric]
        own = [it for it in series if target_labels(it) in mine or target_labels(it) not in every]
        return own or ([] if is_whole(series) or metric in timers else series)

    pages = [{metric: kept(metric, mine) for metric in page} for mine in services]
    return [{metric: series for metric, series in it.items() if series} for it in pages]


def matcher_of(page: Seen, metric: str) -> str:
    """What `--match` could say of the targets of a metric (or of a timer's parts): those that were looked at."""
    series = list(series_of(page, metric))
    label = next((it for it in ("pod", "instance") if all(it in labels for labels in series)), None)
    if label is None or not series:
        return "LABEL=VALUE"
    values = sorted({re.sub(r"[^\w:-]", r"\\\g<0>", labels[label]) for labels in series})
    return f"{label}=~{'|'.join(values)}"

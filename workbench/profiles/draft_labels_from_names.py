"""Which names of metrics carry a broker, topic, partition or group, for drafts: by the words before the value and its form."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from workbench.profiles.labels_in_metric_names import MOST_PLACES, as_written

# Labels of some recent series of each metric name.
Seen = Mapping[str, Sequence[Mapping[str, str]]]

_STATISTIC = r"count|min|max|mean|avg|median|sum|std_?dev|p[0-9]+|rate[0-9]*|rate_\w+|current|seconds|ms|bytes|ratio"
# The word of a label and a number, as in `node_1`; words and any value to the end, as in `for_topic_orders`.
_NUMBERED = re.compile(r"(?<=_)(?P<word>broker|node|partition|shard)_(?P<value>[0-9]+)(?=_|$)")
_NAMED = re.compile(rf"_for_(?P<word>topic|group)_(?P<value>\w+?)(?=(?:_(?:{_STATISTIC}))?$)")
# `_total` ends the name of a counter: what comes after it is a value.
_COUNTED = re.compile(rf"(?:^|_)(?P<word>group|topic)_\w+_total_(?P<value>(?!(?:{_STATISTIC})$)\w+)$")
_LABELS = {"node": "broker", "shard": "partition"}
NUMBERS = ("broker", "partition")
_MOSTLY = 0.6
# First words of what a client library adds to every page (of a small service, these are most of its metrics), and what is counted.
_NO_NAMESPACE = re.compile(r"process|python|go|jvm|nodejs|(record|message|event|msg|task)s?")


def with_places(metric: str, topics: re.Pattern[str] | None = None) -> tuple[str, dict[str, str]]:
    """The name with a place for each value that it carries, and the values.

    Args:
        metric: as the server has it.
        topics: of those that are known, as they are written in names; of these, one with a partition's number after it.
    """
    spans: dict[str, tuple[int, int]] = {}
    for pattern in (_NUMBERED, _NAMED, _COUNTED):
        if (found := pattern.search(metric)) is not None:
            spans.setdefault(_LABELS.get(found["word"], found["word"]), found.span("value"))
    if topics is not None and (found := topics.search(metric)) is not None:
        spans |= {"topic": found.span("topic"), "partition": found.span("partition")}
    values = {label: metric[start:end] for label, (start, end) in spans.items()}
    name, after = "", 0
    for label, (start, end) in sorted(spans.items(), key=lambda it: it[1]):
        if start < after or len(spans) > MOST_PLACES:
            return metric, {}
        name, after = f"{name}{metric[after:start]}{{{label}}}", end
    return name + metric[after:], values


def by_place(seen: Seen, topics: Iterable[str]) -> Seen:
    """The same series under names with places, with the labels that their names carried.

    Args:
        seen: by the server's own names.
        topics: that labels of other metrics name.
    """
    written = sorted({as_written(it) for it in topics}, key=lambda it: (-len(it), it))
    known = re.compile(rf"(?<=_)(?P<topic>{'|'.join(map(re.escape, written))})_(?P<partition>[0-9]+)(?=_|$)")
    found: dict[str, list[Mapping[str, str]]] = {}
    for metric, series in seen.items():
        name, values = with_places(metric, known if written else None)
        found.setdefault(name, []).extend({**values, **labels} for labels in series)
    return found


def some_of_each(metrics: Iterable[str], most: int) -> list[str]:
    """Of metrics that differ only in what their names carry, some."""
    found: dict[str, list[str]] = {}
    for metric in metrics:
        found.setdefault(with_places(metric)[0], []).append(metric)
    return [metric for of in found.values() for metric in of[:most]]


def namespace_of(names: Iterable[str]) -> str:
    """The first word that most metrics of an exporter have: it may contain "lag" or "offset" and says nothing."""
    counted = Counter(word for name in names if not _NO_NAMESPACE.fullmatch(word := name.partition("_")[0]))
    return next((word for word, count in counted.most_common(1) if count > _MOSTLY * counted.total()), "")

"""What a profile does not read of the series of an exporter, or reads as less than it seems to be."""

from __future__ import annotations

from dataclasses import dataclass, field

WHOLE = 0  # number of the partition that stands for a topic as a whole
_EXAMPLE_CHARACTERS = 40


@dataclass(slots=True)
class LeftOut:
    """Series of a profile that are not read, or tell less: with invalid labels, with one example per kind; without partitions."""

    _counts: dict[tuple[str, str, str], int] = field(default_factory=dict)
    _examples: dict[tuple[str, str, str], str] = field(default_factory=dict)
    of_topics: set[str] = field(default_factory=set)  # metrics without partitions

    def add(self, metric: str, label: str, value: str | None, *, wanted: str) -> None:
        """Count a series."""
        key = (metric, label, wanted)
        self._counts[key] = self._counts.get(key, 0) + 1
        self._examples.setdefault(key, "missing" if value is None else ascii(value[:_EXAMPLE_CHARACTERS]))

    def words(self) -> list[str]:
        """Series that were left out, a line for each metric and label."""
        return [
            f"{count} series of {metric} left out: the label {label} is not a valid {wanted} ({self._examples[metric, label, wanted]})"
            for (metric, label, wanted), count in self._counts.items()
        ]

    def notes(self) -> list[str]:
        """What is read, and tells less than it seems to."""
        if not self.of_topics:
            return []
        names = ", ".join(sorted(self.of_topics))
        return [
            f"{names}: a topic as a whole, shown as partition {WHOLE}. A stuck or hot partition cannot be seen in it"
        ]

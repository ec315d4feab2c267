"""Two sets of records, compared whatever their order: numbers and sums of hashes by hour, and then only what differs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.audit.audit_ledger import Sum64
from workbench.spark.parsed_sql_cache import columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_BUCKETS = 4096  # pieces by hash: where few records differ, most pieces are the same and are looked at no more


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The answer.

    Attributes:
        names: of the two.
        hours: by hour of the record's timestamp (`hour_ms`; None: it has none): `one` and `other`, numbers of records, and `same`.
        records: numbers of records.
        only: records that only one of them has, or has more of: numbers, and a sample of their places.
    """

    names: tuple[str, str]
    hours: Sequence[dict[str, Any]]
    records: tuple[int, int]
    only: tuple[int, int]
    samples: tuple[Sequence[str], Sequence[str]]

    @property
    def is_same(self) -> bool:
        """Whether both have the same records, each as often."""
        return self.only == (0, 0)

    def document(self) -> dict[str, Any]:
        """As `workbench audit compare --json` prints it."""
        return {
            "schema": "workbench.audit-compare/1",
            "same": self.is_same,
            "sides": [
                {"name": name, "records": records, "only": only, "sample": list(sample)}
                for name, records, only, sample in zip(self.names, self.records, self.only, self.samples, strict=True)
            ],
            "hours": list(self.hours),
        }


def compare_frames(one: DataFrame, other: DataFrame, *, names: tuple[str, str], sample: int) -> Comparison:
    """Compare two frames with `hour_ms`, `hash` and `place`.

    First one pass over each: numbers and sums by hour and by piece of the hashes. Only pieces that differ are read again.
    """
    summed = [
        side.groupBy("hour_ms", "piece").agg(*columns("count(*) AS records", f"{Sum64('hash').total} AS sum"))
        for side in (_pieces(one), _pieces(other))
    ]
    keys = "a.hour_ms <=> b.hour_ms AND a.piece = b.piece"
    joined = summed[0].alias("a").join(summed[1].alias("b"), on=_expr(keys), how="full")
    rows = joined.selectExpr(
        "coalesce(a.hour_ms, b.hour_ms) AS hour_ms", "coalesce(a.piece, b.piece) AS piece",
        "coalesce(a.records, 0L) AS one", "coalesce(b.records, 0L) AS other",
        "a.records <=> b.records AND a.sum <=> b.sum AS same",
    ).collect()  # fmt: skip
    hours: dict[int | None, dict[str, Any]] = {}
    for row in rows:
        hour = hours.setdefault(row["hour_ms"], {"hour_ms": row["hour_ms"], "one": 0, "other": 0, "same": True})
        hour["one"] += row["one"]
        hour["other"] += row["other"]
        hour["same"] = hour["same"] and row["same"]
    totals = (sum(it["one"] for it in hours.values()), sum(it["other"] for it in hours.values()))
    # A record whose hour is another one is the same record, so pieces count whatever their hour.
    odd = sorted({row["piece"] for row in rows if not row["same"]})
    only, samples = _differences(one, other, odd, sample) if odd else ((0, 0), ([], []))
    ordered = sorted(hours.values(), key=lambda it: (it["hour_ms"] is not None, it["hour_ms"] or 0))
    return Comparison(names=names, hours=ordered, records=totals, only=only, samples=samples)


def _differences(
    one: DataFrame, other: DataFrame, odd: Sequence[int], sample: int
) -> tuple[tuple[int, int], tuple[list[str], list[str]]]:
    counted = []
    for side in (_pieces(one), _pieces(other)):
        some = side if len(odd) == _BUCKETS else side.where(f"piece IN ({', '.join(map(str, odd))})")
        counted.append(some.groupBy("hash").agg(*columns("count(*) AS records", "min(place) AS place")))
    joined = counted[0].alias("a").join(counted[1].alias("b"), on=_expr("a.hash = b.hash"), how="full").selectExpr(
        "coalesce(a.records, 0L) - coalesce(b.records, 0L) AS more", "a.place AS one_place", "b.place AS other_place"
    )  # fmt: skip
    apart = joined.where("more <> 0").cache()
    try:
        [numbers] = apart.selectExpr(
            "coalesce(sum(more) FILTER (WHERE more > 0), 0L) AS one",
            "coalesce(-sum(more) FILTER (WHERE more < 0), 0L) AS other",
        ).collect()
        first, second = (
            [row[place] for row in apart.where(which).orderBy(place).limit(sample).collect()]
            for which, place in (("more > 0", "one_place"), ("more < 0", "other_place"))
        )
    finally:
        apart.unpersist()
    return (numbers["one"], numbers["other"]), (first, second)


def _pieces(side: DataFrame) -> DataFrame:
    return side.selectExpr("hour_ms", "hash", "place", f"CAST(hash & {_BUCKETS - 1} AS int) AS piece")


def _expr(text: str) -> Any:
    from pyspark.sql import functions as f

    return f.expr(text)

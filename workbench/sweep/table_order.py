"""The table of a sweep: worst first, and what is muted. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Set

import pyarrow as pa
import pyarrow.compute as pc

from workbench.settings_of_groups import Expectations
from workbench.triage.owner_links_commands import WAITING
from workbench.triage.triage_engine import rank
from workbench.triage.verdict_leaves import leaf_of
from workbench.triage.verdict_names import State, Verdict, waits
from workbench.window import Window


def worst_first(table: pa.Table, waiting: Set[tuple[str, str]]) -> pa.Table:
    """Add the state; worst first, and replays that wait for consumers just above what is healthy."""
    states = {verdict.value: leaf_of(verdict).state for verdict in Verdict}
    verdicts = table["verdict"].to_pylist()
    ranks = [
        rank(states[name], WAITING if key in waiting else None)
        for key, name in zip(_keys(table), verdicts, strict=True)
    ]
    told = zip(table["time_lag_seconds"].to_pylist(), table["lag_messages"].to_pylist(), strict=True)
    lag = pa.array([waits(seconds, messages) for seconds, messages in told], pa.float64())
    table = table.append_column("state", pa.array([str(states[name]) for name in verdicts]))
    order = pc.sort_indices(
        pa.table({"rank": pa.array(ranks, pa.float64()), "lag": lag, "group": table["group"], "topic": table["topic"]}),
        sort_keys=[
            ("rank", "ascending"),
            ("lag", "descending"),
            ("group", "ascending"),
            ("topic", "ascending"),
        ],
    )
    return table.take(order)


def _keys(table: pa.Table) -> Iterator[tuple[str, str]]:
    return zip(table["group"].to_pylist(), table["topic"].to_pylist(), strict=True)


def with_mutes(table: pa.Table, expected: Expectations, window: Window, waiting: Set[tuple[str, str]]) -> pa.Table:
    """Add the column `muted`: until when and why, for what is not healthy."""

    def words(key: tuple[str, str]) -> str | None:
        return (expected.of(key[0]).muted(window.end) if expected else None) or (WAITING if key in waiting else None)

    healthy = str(State.HEALTHY)
    texts = [
        words(key) if state != healthy else None
        for key, state in zip(_keys(table), table["state"].to_pylist(), strict=True)
    ]
    return table.append_column("muted", pa.array(texts, pa.string()))

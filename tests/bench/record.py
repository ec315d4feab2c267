"""The results last recorded on a quiet machine: the floors of later runs, and the table in docs/benchmarks.md."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from tests.bench.harness import Result, keep, kept

RECORDED = Path(__file__).parent / "recorded.json"
PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"
# A ratio may fall by so much below the recorded one: ours and the peer's share what disturbs them. One run may be further off by
# chance, so that a loss is measured again, and the median counts.
ALLOWED_LOSS, MEASURED_AGAIN = 0.1, 2
_BEGIN, _END = "<!-- bench: made by `make bench RECORD=1` -->\n", "<!-- end of bench -->\n"


def recorded() -> dict[str, dict[str, Any]]:
    """Name of a bench to its recorded result."""
    return kept(RECORDED)


def fallen(results: Iterable[Result], before: dict[str, dict[str, Any]]) -> list[str]:
    """A line for each result whose ratio to its peer is more than a tenth below the recorded one."""
    lines = []
    for result in results:
        floor = before.get(result.name, {}).get("ratio")
        if floor is None:
            continue
        if result.ratio is None or result.ratio < floor * (1 - ALLOWED_LOSS):
            now = "gone" if result.ratio is None else f"{result.ratio:.2f}"
            lines.append(f"{result.name}: the ratio to {result.peer_name} was {floor:.2f} and is {now}")
    return lines


def surely(measure: Callable[[], Result], before: dict[str, dict[str, Any]]) -> Result:
    """A result; one that seems to be a loss is measured twice more, and is the one with the median ratio."""
    found = [measure()]
    if not fallen(found, before):
        return found[0]
    found += [measure() for _ in range(MEASURED_AGAIN)]
    return sorted(found, key=lambda it: it.ratio or 0.0)[len(found) // 2]


def record(results: Sequence[Result]) -> None:
    """Record these results, and regenerate the table of the page."""
    keep(results, RECORDED)
    PAGE.write_text(with_table(PAGE.read_text(), recorded().values()))


def with_table(page: str, results: Iterable[dict[str, Any]]) -> str:
    """Replace the table in the page by one of these results."""
    head, rest = page.split(_BEGIN)
    _, tail = rest.split(_END)
    return head + _BEGIN + table(results) + _END + tail


def table(results: Iterable[dict[str, Any]]) -> str:
    """Write the results as a Markdown table: work, ours, the peer's, ratio, and how busy the machine was."""
    lines = ["| benchmark | work | Workbench | compared with | ratio | load |", "|---|---|---|---|---|---|"]
    for item in results:
        peer = f"{_amount(item['peer'], item['unit'])} ({item['peer_name']})" if item["peer"] is not None else ""
        ratio = f"{item['ratio']:.1f} ×" if item["ratio"] is not None else ""
        load = f"{item['load']:.1f}" if item.get("load") is not None else ""
        ours = _amount(item["ours"], item["unit"])
        lines.append(f"| {item['name'].replace('_', ' ')} | {item['work']} | {ours} | {peer} | {ratio} | {load} |")
    return "\n".join(lines) + "\n"


def _amount(value: float, unit: str) -> str:
    if value >= 1000:
        return f"{value:,.0f} {unit}"
    return f"{value:.3g} {unit}"

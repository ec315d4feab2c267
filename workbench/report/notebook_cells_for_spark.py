"""From a finding to Spark: three cells that read its measurements, its features, and draw its lag, for a notebook of one's own."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workbench.collect.capture import Capture
from workbench.files import write_text
from workbench.humanize import shell_word
from workbench.triage.finding import Finding
from workbench.window import Window

_MOST_COPIES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One cell of a notebook."""

    title: str
    code: str


def can_be_read_again(capture: Capture) -> bool:
    """Whether others can read the same measurements: from a folder, or from a Prometheus."""
    return capture.folder is not None or capture.info.source == "prometheus"


def spark_cells(finding: Finding, capture: Capture, window: Window) -> tuple[Cell, ...]:
    """Cells that work when pasted, on this subscription and its window; none if nobody can read its measurements again."""
    if not can_be_read_again(capture):
        return ()
    where = (
        f"capture={str(capture.folder.resolve())!r}"
        if capture.folder is not None
        else f"cluster={capture.info.cluster!r}"
    )
    asked = (
        f"    {where}, groups=[{finding.group!r}], topics=[{finding.topic!r}],\n"
        f'    since="{window.start.isoformat()}", until="{window.end.isoformat()}",\n'
    )
    return (
        Cell(
            title="The samples, with their baseline, as a Spark frame and as the view `samples`",
            code=(
                "from workbench import api\n\n"
                f"samples = api.samples(\n{asked})\n"
                'samples.createOrReplaceTempView("samples")\n'
                'samples.groupBy("signal", "stat").count().orderBy("signal").show(50, truncate=False)'
            ),
        ),
        Cell(
            title="What the decision tree tests: one row, a column for each feature",
            code=(f"from workbench import api\n\nfeatures = api.features(\n{asked})\nfeatures.toPandas().T"),
        ),
        Cell(
            title="Lag by partition over time, from SQL",
            code=(
                "from workbench.api.sql_over_samples import draw_sql\n\n"
                'draw_sql("""\n'
                "    SELECT ts, 'partition' AS what, partition, value AS lag_messages\n"
                "    FROM samples WHERE signal = 'consumer_lag' AND value IS NOT NULL\n"
                '""", title="Lag by partition")'
            ),
        ),
    )


def explore_command(finding: Finding, capture: Capture, window: Window) -> str | None:
    """Command that opens the notebook `explore` on a finding's measurements; None if nobody can read them again."""
    if not can_be_read_again(capture):
        return None
    names = f" --group {shell_word(finding.group)} --topic {shell_word(finding.topic)}"
    times = f" --since {window.start:%Y-%m-%dT%H:%M:%SZ} --until {window.end:%Y-%m-%dT%H:%M:%SZ}"
    if capture.folder is not None:
        return f"workbench notebook explore --capture {shell_word(str(capture.folder))}{names}{times}"
    return f"workbench notebook explore --cluster {shell_word(capture.info.cluster)}{names}{times}"


def as_notebook(finding: Finding, cells: tuple[Cell, ...]) -> dict[str, Any]:
    """A notebook with these cells (nbformat 4.5)."""
    made: list[dict[str, Any]] = [_markdown("title", f"# {_plain(finding.group)} ← {_plain(finding.topic)}, in Spark")]
    for number, it in enumerate(cells, start=1):
        made.append(_markdown(f"about_{number}", it.title + "."))
        code: dict[str, Any] = {
            "cell_type": "code",
            "id": f"cell_{number}",
            "metadata": {},
            "execution_count": None,
            "outputs": [],
        }
        made.append({**code, "source": it.code.splitlines(keepends=True)})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"cells": made, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def write_notebook(folder: Path, finding: Finding, cells: tuple[Cell, ...]) -> Path:
    """Write a notebook with these cells beside the others; a file that exists stays.

    Raises:
        OSError: if it cannot be written.
    """
    slug = re.sub(r"[^A-Za-z0-9]+", "-", finding.group).strip("-")[:60] or "group"
    names = (f"spark-{slug}.ipynb", *(f"spark-{slug}-{number}.ipynb" for number in range(2, _MOST_COPIES)))
    path = next(it for it in (folder / name for name in names) if not it.exists())
    write_text(path, json.dumps(as_notebook(finding, cells), indent=1, ensure_ascii=False) + "\n")
    return path


def _markdown(name: str, text: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "id": name, "metadata": {}, "source": [text]}


def _plain(name: str) -> str:
    """A name as code of Markdown: nothing in it is markup."""
    return "`" + re.sub(r"[`\r\n]", "'", repr(name)[1:-1]) + "`"

"""The lines of Python in docs/start/ and docs/api.md's first block run, on a recording instead of a cluster."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
INCIDENT = ROOT / "notebooks" / "captures" / "incident-1"


@pytest.mark.jvm
def test_the_first_lines_of_a_data_engineer_run(spark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """As they stand there; only the source is another one, and raw series need a Prometheus."""
    text = (ROOT / "docs" / "start" / "data.md").read_text(encoding="utf-8")
    [block] = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    code = re.sub(r"(?m)^lag = .*\n", "", block)
    code = re.sub(
        r'cluster="prod", groups=\["payments"\], since="6h ago"|cluster="prod"', f"capture={str(INCIDENT)!r}", code
    )
    space: dict[str, Any] = {}
    exec(compile(code, "docs/start/data.md", "exec"), space)
    assert "lag_messages" in capsys.readouterr().out
    assert space["samples"].count() > 100
    assert spark.sql("SELECT count(*) AS n FROM samples").first().n > 100

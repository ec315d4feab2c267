"""Rules of `workbench settings` and docs/settings.md: every key that is read, with a default that may be written, and a reason."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from workbench.cli import root
from workbench.reference.settings_page import as_markdown, keys
from workbench.runtime.config import AuditConfig, ProcessorConfig, PulsarRuntimeConfig, RuntimeConfig
from workbench.settings import Settings, load_settings
from workbench.thresholds import Thresholds

RUNTIME = "[runtime"


def test_every_key_has_a_reason_and_a_type() -> None:
    """Whoever adds a key says what it is for."""
    assert [it.path for it in keys() if len(it.why) < 10] == []
    assert [it.path for it in keys() if not it.kind] == []
    paths = [it.path for it in keys()]
    assert len(set(paths)) == len(paths)


def test_every_threshold_is_there_with_its_unit_and_default() -> None:
    """And every key of the runtime's file."""
    found = {it.path: it for it in keys()}
    for name, field in Thresholds.model_fields.items():
        it = found[f"thresholds.{name}"]
        assert it.unit, name
        assert it.default is not None
        assert float(it.default) == pytest.approx(field.default)
    assert {f"runtime.{it}" for it in RuntimeConfig.model_fields} <= found.keys() | {
        "runtime.processors",
        "runtime.audit",
        "runtime.pulsar",
    }
    assert {f"runtime.pulsar.{it}" for it in PulsarRuntimeConfig.model_fields} <= found.keys()
    assert {f"runtime.audit.{it}" for it in AuditConfig.model_fields} <= found.keys()
    assert {f"runtime.processors.NAME.{it}" for it in ProcessorConfig.model_fields} <= found.keys()


def test_a_file_with_every_default_is_read_and_changes_nothing(tmp_path: Path) -> None:
    """A default of the page can be pasted: of each table with what it requires."""
    required = {
        "[audits.NAME]": 'layers = ["a", "b"]\ntopic = "audit"',
        "[[clusters.NAME.prometheus]]": 'url = "http://prometheus:9090"',
        "[[serve.targets]]": 'name = "a"\nkind = "webhook"\nurl = "https://hook.example"',
        '[clusters.NAME.groups."PATTERN".mute]': 'until = 2030-01-01T00:00:00Z\nreason = "a move"',
    }
    lines: list[str] = []
    for table in dict.fromkeys(it.table for it in keys() if not it.table.startswith(RUNTIME)):
        lines += [table, required.get(table, "")]
        lines += [f"{it.name} = {it.default}" for it in keys() if it.table == table and it.default not in (None, "{}")]
    path = tmp_path / "workbench.toml"
    path.write_text("\n".join(lines), encoding="utf-8")
    assert tomllib.loads(path.read_text(encoding="utf-8"))["thresholds"]["slow_ratio"] == 3
    settings, plain = load_settings(path), Settings()
    for name in Thresholds.model_fields:
        assert getattr(settings.thresholds, name) == pytest.approx(getattr(plain.thresholds, name)), name
    assert settings.windows == plain.windows
    assert settings.serve.model_copy(update={"targets": []}) == plain.serve
    assert settings.alerts == plain.alerts


def test_the_table_of_a_key_is_read_by_the_settings(tmp_path: Path) -> None:
    """A key that the page names and the settings refuse would be a trap: the words of the refusal name no unknown key."""
    path = tmp_path / "workbench.toml"
    path.write_text('[clusters.NAME]\nnmae = "x"\n', encoding="utf-8")
    result = CliRunner().invoke(root, ["doctor", "--config", str(path)])
    assert result.exit_code != 0


def test_one_key_by_a_part_of_its_name() -> None:
    """For a terminal and as a document; a wrong name gets the nearest ones."""
    text = CliRunner().invoke(root, ["settings", "slow_ratio"]).output
    assert text.splitlines()[:2] == ["[thresholds]", "  slow_ratio = 3  (number, ratio, > 1)"]
    found = json.loads(CliRunner().invoke(root, ["settings", "serve.targets", "--json"]).output)
    assert {it["table"] for it in found["keys"]} == {"[[serve.targets]]"}
    wrong = CliRunner().invoke(root, ["settings", "slow_ration"])
    assert "Did you mean `slow_ratio`" in str(wrong.exception)
    assert CliRunner().invoke(root, ["settings", "--markdown"]).output == as_markdown()

"""`workbench init` on three secured brokers: the settings file works at once, and has no password in it."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from tests.estate.conftest import Filled, filled, fresh
from tests.lab.conftest import workbench
from workbench.lab.estate import PASSWORD_VARIABLE, Estate
from workbench.lab.estate_access import ONCALL, PREFIX

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def quiet(estate: Estate) -> Filled:
    """Groups and a topic on which nothing moves."""
    return filled(estate, *(fresh(f"{PREFIX}quiet") for _ in range(2)))


@pytest.mark.parametrize("kept", ["environment", "file"])
def test_the_settings_work_at_once_and_hold_no_password(
    estate: Estate, quiet: Filled, tmp_path: Path, kept: str
) -> None:
    """Sources are tried with TLS and the login; then doctor, snapshot and profiles use the file as it was written."""
    password, out = estate.passwords[ONCALL], tmp_path / "workbench.toml"
    reference = f"${{{PASSWORD_VARIABLE}}}" if kept == "environment" else f"${{file:{estate.password_file(ONCALL)}}}"
    environment = {PASSWORD_VARIABLE: password} if kept == "environment" else {}
    given = estate.properties(ONCALL) | {"sasl.password": reference}
    words = ["init", "--yes", "--name", "shop", "--bootstrap", estate.bootstrap, "--out", str(out)]
    words += ["--prometheus", estate.prometheus_url] if estate.prometheus_url else []
    words += [it for name, value in given.items() for it in ("--property", f"{name}={value}")]
    made = workbench(*words, env=environment)
    assert made.returncode == 0, made.stderr
    assert "Kafka: answers; cluster" in made.stderr
    assert password not in out.read_text() + made.stdout + made.stderr
    assert reference in out.read_text()
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    config = ("--config", str(out))
    doctor = workbench("doctor", "--json", *config, env=environment)
    asked = {it["check"]: it["ok"] for it in json.loads(doctor.stdout) if it["check"].startswith("shop: ")}
    assert asked and all(asked.values()), doctor.stdout
    shown = workbench("snapshot", "--cluster", "shop", "--json", *config, env=environment)
    assert shown.returncode == 0, shown.stderr
    found = {it["group"] for it in json.loads(shown.stdout)["partitions"]}
    assert set(quiet.commits) <= found
    assert password not in shown.stdout + shown.stderr + doctor.stdout + doctor.stderr


def test_a_wrong_password_writes_nothing(estate: Estate, tmp_path: Path) -> None:
    """The login is named, not the network."""
    out = tmp_path / "workbench.toml"
    given = estate.properties(ONCALL) | {"sasl.password": f"${{{PASSWORD_VARIABLE}}}"}
    words = ["init", "--yes", "--bootstrap", estate.bootstrap, "--out", str(out)]
    words += [it for name, value in given.items() for it in ("--property", f"{name}={value}")]
    made = workbench(*words, env={PASSWORD_VARIABLE: "not-this-one"})
    assert made.returncode == 5, made.stderr
    assert "password" in made.stderr or "login" in made.stderr.lower() or "authenticat" in made.stderr.lower()
    assert "not-this-one" not in made.stderr
    assert not out.exists()

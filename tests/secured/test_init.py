"""`workbench init` on three secured brokers: the settings file works at once, and has no password in it."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path

import pytest

from tests.lab.conftest import workbench
from tests.lab.kafka_programs import write_programs
from tests.secured.conftest import Filled, filled, fresh
from tests.three_brokers.access import ADMIN, ONCALL, PREFIX
from tests.three_brokers.secured import PASSWORD_VARIABLE, SecuredLab
from workbench.queues.tool_words import tools_of

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def quiet(secured: SecuredLab) -> Filled:
    """Groups and a topic on which nothing moves."""
    return filled(secured, *(fresh(f"{PREFIX}quiet") for _ in range(2)))


@pytest.mark.parametrize("kept", ["environment", "file"])
@pytest.mark.usefixtures("scraped")
def test_the_settings_work_at_once_and_hold_no_password(
    secured: SecuredLab, quiet: Filled, tmp_path: Path, kept: str
) -> None:
    """Sources are tried with TLS and the login; then doctor, snapshot and profiles use the file as it was written."""
    password, out = secured.passwords[ONCALL], tmp_path / "workbench.toml"
    reference = f"${{{PASSWORD_VARIABLE}}}" if kept == "environment" else f"${{file:{secured.password_file(ONCALL)}}}"
    environment = {PASSWORD_VARIABLE: password} if kept == "environment" else {}
    given = secured.properties(ONCALL) | {"sasl.password": reference}
    words = ["init", "--yes", "--name", "shop", "--bootstrap", secured.bootstrap, "--out", str(out)]
    words += ["--prometheus", secured.prometheus_url] if secured.prometheus_url else []
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


def test_a_wrong_password_writes_nothing(secured: SecuredLab, tmp_path: Path) -> None:
    """The login is named, not the network."""
    out = tmp_path / "workbench.toml"
    given = secured.properties(ONCALL) | {"sasl.password": f"${{{PASSWORD_VARIABLE}}}"}
    words = ["init", "--yes", "--bootstrap", secured.bootstrap, "--out", str(out)]
    words += [it for name, value in given.items() for it in ("--property", f"{name}={value}")]
    made = workbench(*words, env={PASSWORD_VARIABLE: "not-this-one"})
    assert made.returncode == 5, made.stderr
    assert "password" in made.stderr or "login" in made.stderr.lower() or "authenticat" in made.stderr.lower()
    assert "not-this-one" not in made.stderr
    assert not out.exists()


@pytest.mark.parametrize("kept", ["environment", "file"])
def test_kafkas_own_tools_log_in_as_the_settings_do(
    secured: SecuredLab, quiet: Filled, tmp_path: Path, kept: str
) -> None:
    """With the file that is written for them, which has no password: each kind of tool, as the commands of findings call it."""
    secret = tmp_path / "password"
    secret.write_text(secured.passwords[ADMIN])  # without the line break at the end of the lab's own file
    reference = f"${{{PASSWORD_VARIABLE}}}" if kept == "environment" else f"${{file:{secret}}}"
    environment = {PASSWORD_VARIABLE: secured.passwords[ADMIN]} if kept == "environment" else {}
    lines = "\n".join(
        f"{json.dumps(name)} = {json.dumps(value)}"
        for name, value in secured.properties(ADMIN, sasl_password=reference).items()
    )
    (tmp_path / "workbench.toml").write_text(
        f'[clusters.shop]\nbootstrap = "{secured.bootstrap}"\n[clusters.shop.kafka]\n{lines}\n'
    )
    login = tmp_path / "client.properties"
    made = workbench(
        "export",
        "login",
        "--cluster",
        "shop",
        "--output",
        str(login),
        "--config",
        str(tmp_path / "workbench.toml"),
        env=environment,
    )
    assert made.returncode == 0, made.stderr
    assert secured.passwords[ADMIN] not in login.read_text()
    tools = tools_of(secured.bootstrap, login_file=str(login))
    group = next(iter(quiet.commits))
    programs = write_programs(tmp_path / "bin")
    for command, said in (
        (tools.describe_group(group), quiet.topic),
        (tools.list_short(), ""),
        (tools.list_quotas(), ""),
        (tools.list_writers(quiet.topic, 0), "ProducerId"),
    ):
        shown = subprocess.run(
            ["sh", "-c", str(command)],
            env={**os.environ, **environment, "PATH": f"{programs}:{os.environ['PATH']}"},
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert shown.returncode == 0, shown.stderr + shown.stdout
        assert said in shown.stdout

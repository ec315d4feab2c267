"""Names that a shell passes and no Kafka has."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_COMMAND = "import sys; from workbench.cli import main; sys.argv[0] = 'workbench'; main()"


@pytest.mark.parametrize(
    "words",
    [
        [b"snapshot", b"--group", b"caf\xe9"],
        [b"replay", b"plan", b"--from-group", b"caf\xe9", b"--new-group", b"new", b"--topic", b"orders", b"--since", b"1h"],
        [b"replay", b"plan", b"--from-group", b"old", b"--new-group", b"new", b"--topic", b"\xff", b"--since", b"1h"],
    ],
)  # fmt: skip
def test_a_name_that_is_no_text_is_refused_by_name(words: list[bytes], tmp_path: Path) -> None:
    """librdkafka's client ends the process on it; it is a mistake of the user."""
    settings = tmp_path / "workbench.toml"
    settings.write_text('[clusters.prod]\nbootstrap = "127.0.0.1:1"\ntimeout_seconds = 1\n')
    environment = os.environ | {"WORKBENCH_CONFIG": str(settings), "XDG_STATE_HOME": str(tmp_path)}
    ran = subprocess.run([sys.executable, "-c", _COMMAND, *words], env=environment, capture_output=True, timeout=60)
    assert ran.returncode in (2, 5), ran.stderr  # a replay asks the brokers who they are first


@pytest.mark.parametrize("method", ["describe_consumer_groups", "delete_consumer_groups"])
def test_no_request_by_group_takes_it(method: str) -> None:
    """In a process of its own: without the refusal it ends by a signal."""
    code = (
        "from workbench.kafka.admin_client import TextAdminClient\n"
        f"TextAdminClient({{'bootstrap.servers': '127.0.0.1:1'}}).{method}(['\\udcff'])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, text=True)
    assert "UsageError: '\\udcff' is no name in Kafka" in ran.stderr


def test_no_request_by_topic_takes_it() -> None:
    """As for groups."""
    code = (
        "from confluent_kafka import TopicCollection\nfrom workbench.kafka.admin_client import TextAdminClient\n"
        "TextAdminClient({'bootstrap.servers': '127.0.0.1:1'}).describe_topics(TopicCollection(['\\udcff']))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, text=True)
    assert "UsageError: '\\udcff' is no name in Kafka" in ran.stderr

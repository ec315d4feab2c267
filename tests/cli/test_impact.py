"""`workbench impact` on a recording: what people read, what programs read, and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.triage.brokers import WINDOW, Made, after, at
from tests.triage.test_blame_heavy_readers import cluster, hog
from workbench.cli import root
from workbench.collect.capture import Capture, new_info, write_capture
from workbench.spark import session


def kept(made: Made, folder: Path, profile: str = "jmx_kafka_broker") -> Path:
    """A capture of it."""
    info = new_info(cluster="prod", source="watch", profiles=[profile], window=WINDOW)
    write_capture(folder, Capture(info=info, samples=made.samples(), groups=made.groups()))
    return folder


def run(*words: str | Path) -> tuple[int, str]:
    """Exit code and output; it must not start Spark."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "start_in_background", lambda: pytest.fail("Spark was started"))
        shown = CliRunner().invoke(root, ["impact", *map(str, words)], standalone_mode=False)
    assert shown.exception is None, shown.exception
    return int(shown.return_value), shown.output


def test_a_culprit_is_told_with_its_cap_and_its_victims(tmp_path: Path) -> None:
    """And that it is a correlation; exit code 3."""
    made = cluster()
    hog(made, 1)
    code, text = run("--capture", kept(made, tmp_path / "c"))
    assert code == 3
    for words in (
        'Group "hog" reads 50 MB/s from broker 1',
        "A correlation",
        "g10",
        "consumer_byte_rate=",
        "--delete-config",
    ):
        assert words in text, words
    code, text = run("--capture", tmp_path / "c", "--json")
    document = json.loads(text[text.index("{") :])
    assert (code, document["schema"], document["answer"]) == (3, "workbench.impact/1", "yes")


def test_a_broker_in_trouble_is_told_without_a_culprit(tmp_path: Path) -> None:
    """With its groups, and a command."""
    made = cluster(strain=False)
    made.own(2, "under_replicated", after(-9, 4.0))
    code, text = run("--capture", kept(made, tmp_path / "c"))
    assert code == 3 and "under_replicated: 4 partitions without all replicas in sync" in text
    assert "kafka-topics" in text


def test_brokers_without_replicas_are_not_asked_for_them_and_the_reason_is_told(tmp_path: Path) -> None:
    """Whatever another source says of replicas."""
    made = cluster(strain=False)
    made.own(2, "under_replicated", after(-9, 4.0))
    _, text = run("--capture", kept(made, tmp_path / "c", "automq"))
    assert "without all replicas" not in text
    assert "Not asked: under_replicated: AutoMQ keeps each partition once" in " ".join(text.split())


def test_what_is_not_measured_is_named(tmp_path: Path) -> None:
    """Exit code 4, with the signals."""
    made = Made()
    made.group("g", 1, at(200), after(-6, 0.5, before=1.0))
    code, text = run("--capture", kept(made, tmp_path / "c"))
    assert code == 4 and "Cannot tell" in text and "broker_traffic" in text


def test_a_hostile_name_is_escaped(tmp_path: Path) -> None:
    """On the screen; in JSON it is what it is."""
    made = cluster()
    hog(made, 1, name="evil\x1b[2Jgroup")
    _, text = run("--capture", kept(made, tmp_path / "c"))
    assert "\x1b[2J" not in text and "evil" in text

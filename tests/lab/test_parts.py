"""Rules of what the lab is made of: only the expected jars, and a seed decides everything about a scenario."""

from __future__ import annotations

import hashlib
import json
import zlib
from pathlib import Path
from typing import Any

import pytest

from evaluation.others.scenarios import EVERY, make_scenario
from evaluation.stories.book import draw
from workbench.errors import SetupError, UsageError
from workbench.lab.client_spec import Behaviour, Watched, write
from workbench.lab.kafka_jars import BROKER, CONNECT, STREAMS, TOOLS, check
from workbench.lab.lab import Lab
from workbench.lab.lab_broker import new_cluster_id
from workbench.lab.producer import key_of, partition_of
from workbench.lab.run_scenario import run_scenario
from workbench.lab.scenarios import SCENARIOS, demo_scenario
from workbench.triage.verdict_names import Verdict


def test_a_jar_that_is_missing_changed_or_unexpected_is_refused_by_name(tmp_path: Path) -> None:
    """Nothing that is not on the list is ever started."""
    (tmp_path / "a.jar").write_bytes(b"a")
    digest = hashlib.sha256(b"a").hexdigest()
    check(tmp_path, {"a.jar": digest}, what="the jars")
    with pytest.raises(SetupError, match=r"b\.jar is missing"):
        check(tmp_path, {"a.jar": digest, "b.jar": digest}, what="the jars")
    with pytest.raises(SetupError, match=r"a\.jar is not the expected file"):
        check(tmp_path, {"a.jar": "0" * 64}, what="the jars")
    (tmp_path / "evil.jar").write_bytes(b"e")
    with pytest.raises(SetupError, match=r"evil\.jar was not expected"):
        check(tmp_path, {"a.jar": digest}, what="the jars")


@pytest.mark.parametrize(("jars", "least"), [(BROKER, 40), (TOOLS, 40), (CONNECT, 40), (STREAMS, 5)])
def test_the_committed_lists_are_lists_of_jars(jars: object, least: int) -> None:
    """A name and a SHA-256 on each line."""
    sums = jars.checksums  # type: ignore[attr-defined]
    assert len(sums) > least
    assert all(name.endswith(".jar") and len(digest) == 64 for name, digest in sums.items())


def test_cluster_ids_are_never_taken_for_an_option() -> None:
    """Kafka's own tools stumble over an id that begins with a dash."""
    assert not any(new_cluster_id().startswith("-") for _ in range(300))


@pytest.mark.parametrize("name", EVERY)
def test_a_seed_decides_everything(name: str) -> None:
    """The same seed makes the same run, another one another."""

    def described(seed: int) -> str:
        made = make_scenario(name, seed, bootstrap="b", run_id="r")
        return json.dumps([repr(made.spec), made.steady_seconds, made.incident_seconds, made.scope], default=str)

    assert described(5) == described(5)
    assert len({described(seed) for seed in range(6)}) == 6


def test_every_verdict_has_a_scenario() -> None:
    """A verdict that the lab cannot provoke is one that nobody has seen; "cannot tell" is a matter of what is measured.

    Those that are about hours (what is usual) are told as stories at the pace of real life: `evaluation/stories`.
    """
    expected = {make_scenario(name, 1, bootstrap="b", run_id="r").expected for name in SCENARIOS}
    stories = {Verdict.RECOVERED, Verdict.PRODUCER_SILENT, Verdict.BURST}
    told = {name for story in draw(1) for truth in story.truths for name in truth.verdicts}
    assert stories <= told
    by_settings = {
        Verdict.BATCH_MISSED
    }  # tests/triage/test_batch.py: a schedule, and data that do not reach back to the last run
    in_its_own_lab = {Verdict.COLD_READ}  # tests/lab/test_cold_read.py: three brokers with remote storage
    assert expected == set(Verdict) - {Verdict.CANNOT_TELL} - stories - by_settings - in_its_own_lab


@pytest.mark.parametrize("name", [*EVERY, "demo"])
@pytest.mark.parametrize("seed", range(1, 40, 7))
def test_a_run_fits_into_ninety_seconds(name: str, seed: int) -> None:
    """Start and triage take about 15 s of them."""
    made = demo_scenario("b", seed=seed) if name == "demo" else make_scenario(name, seed, bootstrap="b", run_id="r")
    assert made.steady_seconds + made.incident_seconds <= 75
    traffic = made.spec.traffic
    used = {partition_of(key_of(number), traffic.partitions) for number in range(traffic.keys)}
    assert used == set(range(traffic.partitions))


def test_an_unknown_scenario_is_refused_with_near_ones_and_the_list() -> None:
    """A typo costs no minute."""
    with pytest.raises(UsageError) as caught:
        make_scenario("slow_proccessor", 1, bootstrap="b", run_id="r")
    assert "slow_processor" in caught.value.message and "workbench lab list" in (caught.value.hint or "")


def test_the_producers_partitioner_is_librdkafkas() -> None:
    """CRC-32 of the key, as `consistent` does it."""
    assert partition_of(b"key-00001", 7) == zlib.crc32(b"key-00001") % 7


def test_a_watched_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    """That is how a fault begins."""
    path = tmp_path / "behaviour.json"
    write(path, Behaviour(process_seconds={"a": 0.1}))
    watched = Watched(path, Behaviour)
    assert watched.refresh().process_seconds == {"a": 0.1}
    write(path, Behaviour(process_seconds={"a": 0.5}))
    assert watched.refresh().process_seconds == {"a": 0.5}


def test_a_lab_without_a_prometheus_can_only_be_scraped(tmp_path: Path) -> None:
    """Told before anything is started."""
    scenario = make_scenario("loop_healthy", 1, bootstrap="b", run_id="r")
    with pytest.raises(SetupError, match="no Prometheus") as caught:
        run_scenario(Lab(tmp_path, "b", None), scenario, _no_session, folder=tmp_path / "run", source="prometheus")
    assert "--source scrape" in (caught.value.hint or "")
    assert not (tmp_path / "run").exists()


def _no_session() -> Any:
    raise AssertionError("nothing was measured")

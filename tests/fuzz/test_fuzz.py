"""Every parser of foreign bytes answers or refuses in one clear error, whatever it is given, within its bounds.

`make fuzz` runs 100,000 inputs, of any seed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from evaluation.stories import WINDOW
from tests.chunks import encode
from tests.fuzz import child
from tests.fuzz.breaking import VARIABLE
from tests.fuzz.measurements import _MATRICES
from tests.fuzz.mutators import json_text
from tests.fuzz.runner import Findings, run, shares
from tests.fuzz.target import Target
from tests.fuzz.targets import targets
from workbench.alerts import read_alerts
from workbench.collect.xor_chunks import decode
from workbench.errors import UsageError, WorkbenchError
from workbench.replay.planfile import read_plan
from workbench.replay.service_fleet import read_fleet
from workbench.report.health_result import read_previous
from workbench.runtime.config import RuntimeConfig
from workbench.settings import load_settings

SEED = 20261121


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Target]]:
    """All targets, without the process that bounds them."""
    from requests.adapters import HTTPAdapter

    sending = HTTPAdapter.send
    try:
        yield {target.name: target for target in targets(tmp_path_factory.mktemp("seeds"))}
    finally:
        HTTPAdapter.send = sending  # type: ignore[method-assign]  # the server of the targets answers nobody else


@pytest.mark.parametrize("inputs", [2_000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_mutated_inputs_are_answered_or_refused(known: dict[str, Target], inputs: int) -> None:
    """The same ones each time: no other exception, no message that is long, unprintable or tells a secret, 512 MB, 2 s for each."""
    found = run(SEED, shares(inputs, {name: target.share for name, target in known.items()}))
    assert not found.defects, found.report()
    assert found.inputs == inputs
    for name, tally in found.tallies.items():
        assert tally.answer + tally.refusal == tally.inputs > 0, name
        assert tally.answer, f"no input of {name} is read any more: what is behind its first check is not tried"


def test_an_input_depends_on_its_seed_and_number_only(known: dict[str, Target]) -> None:
    """So that one that was found can be looked at alone."""
    for target in known.values():
        for number in (0, 17):
            assert child.case_of(target, 1, number) == child.case_of(target, 1, number), target.name
    plan = known["plan"]
    assert len({child.case_of(plan, seed, number) for seed in range(5) for number in range(20)}) > 90


BREAKING = {
    "traceback": "KeyError",
    "unclear": "an empty message",
    "secret": "a secret in the message",
    "memory": "MemoryError",
    "growth": "bytes of 0",
    "hang": "the process died",
    "death": "the process died",
}


@pytest.fixture(scope="module")
def broken() -> Findings:
    """One run of all of them, between targets that keep the promise: each run starts a process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, "1")
        return run(1, [("typed_times", 0, 10), *((target, 0, 3) for target in BREAKING), ("journal", 0, 10)], workers=1)


@pytest.mark.parametrize("target", BREAKING)
def test_what_breaks_the_promise_is_found(broken: Findings, target: str) -> None:
    """An input that breaks it is named by its number, and the others are tried all the same."""
    [defect] = [it for it in broken.defects.values() if it.target == target]
    assert defect.numbers == [1]
    assert BREAKING[target] in defect.words
    assert {name: it.inputs for name, it in broken.tallies.items()} == {
        "typed_times": 10, **dict.fromkeys(BREAKING, 3), "journal": 10,
    }  # fmt: skip


_CHUNK = encode([(int((WINDOW.end.timestamp() - 30) * 1000) + at, at) for at in range(3)])
_LONG_CHUNK = (65_535).to_bytes(2) + _CHUNK[2:]
_RUN = {
    "run_id": "r", "report": "health", "cluster": "c", "parameters": {}, "started_at": "2026-11-21T03:00:00",
    "deadline_seconds": 1, "pid": 1, "process_started": 1,
}  # fmt: skip
FOUND = [
    ("settings", b"a = " + b"[" * 5000),
    ("settings", b".".join([b"a"] * 3000) + b" = 1"),
    ("settings", b"a = " + b"9" * 5000),
    ("settings", b'["\\u001b[0m"]'),
    ("fleet_file", b"a = " + b"{a=" * 5000),
    ("runtime_file", b"a = " + b"9" * 5000),
    ("runtime_file", b'bootstrap = "b"\ngroup = "g"\ntopics = ["^' + b"(" * 1000 + b')"]'),
    ("runtime_environment", {"TOPICS": b"[" * 100_000}),
    ("profile", b"note: 2026-02-30"),
    ("profile", b"- " * 5000),
    ("profile", b"title: t\nsignals: {consumer_lag: {metric: m, labels: {}, where: {a: '('}}}"),
    ("statistics_callback", b'{"brokers": []}'),
    ("statistics_callback", b"{"),
    ("statistics_callback", b'{"topics": {"t": {"topic": "t", "partitions": {"x": {}}}}}'),
    ("run_record", {"a/run.json": json_text({**_RUN, "pid": -1, "started_at": "2026-11-21T03:00:00Z"})}),
    ("run_record", {"a/run.json": json_text(_RUN), "b/run.json": json_text({**_RUN, "started_at": "2026-11-21T03:00:00Z"})}),
    ("store", {"store.json": b'{"cluster": "c", "slot_seconds": 99999999999999}', "samples/day=2026-11-21/slot=031500/x": b""}),
    (
        "store",
        {
            "store.json": b'{"cluster": "c", "slot_seconds": 900}',
            "samples/day=2026-11-21/slot=031500/_incomplete.json": b"[" * 9000,
        },
    ),
    ("report_parameters", {"since": b"99999d99999w", "until": b"2026-11-21T03:00:00Z"}),
    ("previous_result", b'{"schema": "workbench.health/1", "lines": [3]}'),
    ("typed_times", {"duration": b"9" * 300_000}),
    ("alert", json_text({"alerts": [{"startsAt": "9" * 300_000 + "ago"}]})),
    ("exposition", b"# TYPE wb" + b"\t" * 300_000 + b"x gauge\n"),
    ("exposition", b"m 1 " + b"9" * 400 + b"\n"),
    ("prometheus_json", {"status": b"503", "body": b"<" * 300_000}),
    ("prometheus_json", {"status": b"200", "body": _MATRICES[0].replace(b"[[", b'[[1e308,"1"],[', 1)}),
    ("http_orders", b"GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text; version=x.y\r\n\r\n"),
    ("http_orders", b"P" * 60_000 + b" / HTTP/1.1\r\n\r\n"),
]  # fmt: skip


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("number", range(len(FOUND)))
def test_what_was_found_once_stays_mended(number: int, known: dict[str, Target], tmp_path: Path) -> None:
    """Each of these was a traceback, a member that ended, a hang, or an unreadable message."""
    name, case = FOUND[number]
    kind, words = child.tried(known[name], case, tmp_path)
    assert kind in ("answer", "refusal"), words


def test_no_chunk_is_read_on_into_the_next() -> None:
    """A count or a bit that is wrong must not make samples of the neighbour's bytes."""
    with pytest.raises(ValueError, match="chunk"):
        decode(_CHUNK + _CHUNK, np.array([0]), np.array([len(_CHUNK) - 2]))
    with pytest.raises(ValueError, match="chunk"):
        decode(_LONG_CHUNK + b"\0" * 100_000, np.array([0]), np.array([len(_LONG_CHUNK)]))
    assert decode(_CHUNK + _CHUNK, np.array([0]), np.array([len(_CHUNK)])).lengths.tolist() == [3]


def test_a_file_without_an_end_is_refused() -> None:
    """As settings, plan, alert or record: it is not read until the memory is full."""
    endless = Path("/dev/zero")
    for read in (load_settings, read_plan, read_alerts, read_fleet, RuntimeConfig.from_toml):
        with pytest.raises(UsageError):
            read(endless)
    assert read_previous(str(endless)) is None


def test_every_input_is_given_to_somebody() -> None:
    """Shares are whole numbers, and together all."""
    pieces = shares(1001, {"a": 3, "b": 4, "c": 10})
    assert sum(last - first for _, first, last in pieces) == 1001
    assert [name for name, _, _ in pieces] == ["a", "b", "c"]


def test_messages_of_errors_are_harmless_and_short() -> None:
    """Whatever name a file, a server or a person has put into them: escapes, half pairs, a megabyte."""
    error = UsageError("\x1b[31m\ud800" + "x" * 1_000_000 + "\x00 is no field.", hint="\x9b" * 5000)
    assert child.broken_promise(error) is None
    assert error.message.startswith("\\x1b[31m\\ud800xxx") and error.message.endswith("is no field.")
    assert str(error) == error.message
    assert WorkbenchError("one\ntwo").message == "one\ntwo"

"""Every parser of foreign bytes answers or refuses in one clear error, whatever it is given, within its bounds.

`make fuzz` runs ten times as many inputs, of any seed.
"""

from __future__ import annotations

import pytest

from tests.fuzz import child
from tests.fuzz.breaking import VARIABLE
from tests.fuzz.runner import run, shares
from tests.fuzz.target import Target
from tests.fuzz.targets import targets
from workbench.errors import UsageError, WorkbenchError

SEED, INPUTS = 20261121, 10_000


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Target]:
    """All targets, without the process that bounds them."""
    from requests.adapters import HTTPAdapter

    sending = HTTPAdapter.send
    try:
        return {target.name: target for target in targets(tmp_path_factory.mktemp("seeds"))}
    finally:
        HTTPAdapter.send = sending  # type: ignore[method-assign]  # the server of the targets answers nobody else


def test_ten_thousand_mutated_inputs_are_answered_or_refused(known: dict[str, Target]) -> None:
    """The same ones each time: no other exception, no message that is long, unprintable or tells a secret, 512 MB, 2 s for each."""
    found = run(SEED, shares(INPUTS, {name: target.share for name, target in known.items()}))
    assert not found.defects, found.report()
    assert found.inputs == INPUTS
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


@pytest.mark.parametrize(
    ("target", "wrong"),
    [
        ("traceback", "KeyError"),
        ("unclear", "an empty message"),
        ("secret", "a secret in the message"),
        ("memory", "MemoryError"),
        ("hang", "the process died"),
        ("death", "the process died"),
    ],
)
def test_what_breaks_the_promise_is_found(target: str, wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An input that breaks it is named by its number, and the others are tried all the same."""
    monkeypatch.setenv(VARIABLE, "1")
    found = run(1, [("typed_times", 0, 10), (target, 0, 3), ("journal", 0, 10)], workers=1)
    [defect] = found.defects.values()
    assert (defect.target, defect.numbers) == (target, [1])
    assert wrong in defect.words
    assert {name: it.inputs for name, it in found.tallies.items()} == {"typed_times": 10, target: 3, "journal": 10}


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

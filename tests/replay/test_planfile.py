"""A plan file that is not what was written is refused, with a reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.replay.fakes import orders, plan_of
from workbench.errors import GuardError, UsageError, WorkbenchError
from workbench.plans.strict_document import canonical_hash, write_file
from workbench.replay.planfile import Plan, read_plan

PLAN = plan_of(orders())


def written(folder: Path, document: dict[str, Any]) -> Path:
    """The document as a file."""
    path = folder / "plan.json"
    write_file(path, document)
    return path


def test_it_comes_back_as_it_went(tmp_path: Path) -> None:
    """Field by field; and in another layout it is the same plan."""
    path = written(tmp_path, PLAN.document())
    assert read_plan(path) == PLAN
    shuffled = dict(reversed(json.loads(path.read_text()).items()))
    path.write_text(json.dumps(shuffled, indent=4))
    assert read_plan(path) == PLAN
    assert [item.name for item in tmp_path.iterdir()] == ["plan.json"], "a temporary file was left"


@given(st.data())
def test_every_flipped_bit_is_found(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Either it is refused by name, or what it says is still the same to the last field (a flip in blank space)."""
    path = written(tmp_path_factory.mktemp("flip"), PLAN.document())
    content = bytearray(path.read_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(content)
    try:
        assert read_plan(path) == PLAN
    except WorkbenchError as error:
        assert error.exit_code in (2, 6)
        assert str(path) in error.message


@given(st.data())
def test_every_missing_or_strange_field_is_found(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """A field less, one more, or one of another type, at the top or in a partition; also with a hash that fits."""
    document = PLAN.document()
    place = data.draw(st.sampled_from([document, document["partitions"][0]]))
    how = data.draw(st.sampled_from(["missing", "more", "type"]))
    optional = {"topic_ids"} if how == "missing" else set()  # plans of earlier versions have none
    name = data.draw(st.sampled_from(sorted(set(place) - optional)))
    if how == "missing":
        del place[name]
    elif how == "more":
        place[name + "_"] = 1
    else:
        place[name] = data.draw(st.sampled_from([[1], {"a": 1}, 1.5, True]))
    if data.draw(st.booleans()) and name != "hash":
        document["hash"] = canonical_hash(document)
    if how == "missing" and name in ("hash", "schema") and place is document:
        name = "plan"
    path = written(tmp_path_factory.mktemp("field"), document)
    with pytest.raises((GuardError, UsageError)) as caught:
        read_plan(path)
    assert str(path) in caught.value.message


@pytest.mark.parametrize(
    "field", ["target", "log_end", "stop", "messages", "log_start", "old_committed", "target_timestamp"]
)
def test_a_tampered_offset_is_found(tmp_path: Path, field: str) -> None:
    """By the hash; and mostly by what does not add up any more, even with the hash made anew."""
    document = PLAN.document()
    document["partitions"][1][field] += 1
    with pytest.raises(GuardError):
        read_plan(written(tmp_path, document))
    document["hash"] = canonical_hash(document)
    if field in ("target", "stop", "messages"):
        with pytest.raises(GuardError, match="do not fit between"):
            read_plan(written(tmp_path, document))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"schema": "workbench.replay-plan/3"}, "schema"),
        ({"schema": "workbench.replay-plan/2"}, "ranges in every partition"),
        ({"schema": "workbench.capture/1"}, "not a replay plan"),
        ({"new_group": "old"}, "same group"),
        ({"since": "2026-11-21T03:00:00"}, "no time zone"),
        ({"since": "soon"}, "soon"),
        ({"until": "2000-01-01T00:00:00+00:00"}, "until is not after since"),
        ({"partitions": []}, "partitions"),
        ({"partitions": [PLAN.document()["partitions"][0]] * 2}, "planned twice"),
        ({"after_end": "guess"}, "after_end"),
    ],
)
def test_what_makes_no_sense_is_named(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    """Even where the hash fits."""
    document = PLAN.document() | change
    document["hash"] = canonical_hash(document)
    with pytest.raises(WorkbenchError, match=words):
        read_plan(written(tmp_path, document))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not JSON"),
        (b"[]", "not a replay plan"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"schema": 1, "schema": 2}', "occurs twice"),
        (b'{"a": NaN}', "NaN"),
    ],
)
def test_what_is_no_plan_at_all(tmp_path: Path, content: bytes, words: str) -> None:
    """One line, exit code 2."""
    path = tmp_path / "plan.json"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=words):
        read_plan(path)
    with pytest.raises(UsageError, match="cannot be read"):
        read_plan(tmp_path / "nowhere.json")


def test_a_full_disk_leaves_nothing_half_written(tmp_path: Path) -> None:
    """The old file stays, no temporary one is left."""
    path = written(tmp_path, PLAN.document())
    before = path.read_bytes()
    with pytest.raises(UsageError, match="cannot be written"):
        write_file(tmp_path / "no" / "folder.json", PLAN.document())
    assert path.read_bytes() == before


def test_the_hash_is_of_the_content_only() -> None:
    """Order and layout do not count, every value does."""
    document = PLAN.document()
    assert canonical_hash(dict(reversed(document.items()))) == PLAN.hash
    assert canonical_hash(document | {"reason": "other"}) != PLAN.hash
    assert Plan.model_validate_json(json.dumps(document)) == PLAN


def test_a_plan_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    """Without topic ids, and with the hash of what stands in it."""
    document = PLAN.document()
    del document["topic_ids"]
    document["hash"] = canonical_hash(document)
    plan = read_plan(written(tmp_path, document))
    assert (plan.topic_ids, plan.targets) == ({}, PLAN.targets)

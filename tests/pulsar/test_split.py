"""Where a bundle is split: the largest side, against a naive search and against Pulsar's own algorithms."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from tests.pulsar.pages import FakeAdmin
from tests.servers import Script, scripted
from workbench.cli.pulsar import command
from workbench.errors import EvidenceError, SourceUnreachableError, UsageError
from workbench.pulsar.bundle_split import FULL, Bundle, TopicLoad, hash_of, hexed, plan_split
from workbench.pulsar.bundle_split_file import parse_hash, read_split_file

QUARTER = Bundle(0x00000000, 0x40000000)


def topics_of(loads: dict[int, float]) -> list[TopicLoad]:
    """Topics t0, t1 and so on: hash to load."""
    return [TopicLoad(topic=f"t{number}", position=at, load=load) for number, (at, load) in enumerate(loads.items())]


# Fifteen topics of one bundle. The hashes of T11 and T13 are a published case's, the others are drawn.
# Both are hot and lie in the upper half, behind the middle topic T8.
ARTICLE = {
    0x01000000: 1.0, 0x04000000: 1.0, 0x07000000: 1.0, 0x0A000000: 1.0, 0x0D000000: 1.0, 0x10000000: 1.0, 0x13000000: 1.0,
    0x16000000: 1.0, 0x19000000: 1.0, 0x1C000000: 1.0, 0x25000000: 100.0, 0x31000000: 1.0, 0x32000000: 100.0,
    0x38000000: 1.0, 0x3C000000: 1.0,
}  # fmt: skip


def test_two_hot_topics_that_lie_close_are_parted() -> None:
    """0x25000000 and 0x32000000 are parted at 0x30000000; equal ranges and equal numbers of topics keep them together."""
    plan = plan_split(QUARTER, topics_of(ARTICLE))
    assert [hexed(cut) for cut in plan.best.cuts] == ["0x30000000"]
    assert plan.best.largest == 110.0
    assert plan.by_range.cuts == (0x20000000,) and plan.by_range.largest == 203.0
    assert plan.by_count.cuts == (0x13000000 + (0x16000000 - 0x13000000) // 2,) and plan.by_count.largest > 200.0


def test_equally_good_cuts_are_told_as_the_roundest_number() -> None:
    """Between two hot hashes alone, every place is as good: a person reads 0x30000000 and compares it."""
    assert plan_split(QUARTER, topics_of({0x25000000: 1.0, 0x32000000: 1.0})).best.cuts == (0x30000000,)


loads_of = st.dictionaries(
    st.one_of(st.integers(0, FULL - 2), st.just(FULL)),
    st.one_of(st.integers(0, 50).map(float), st.floats(0, 1e9)),
    min_size=2,
    max_size=9,
).filter(lambda loads: any(loads.values()))


@given(loads_of, st.integers(2, 5))
def test_no_way_to_cut_has_a_smaller_largest_side(loads: dict[int, float], pieces: int) -> None:
    """The naive search tries every set of places between hashes; the sides hold every topic once, in bundles that join."""
    whole = Bundle(0, FULL)
    plan = plan_split(whole, topics_of(loads), pieces=pieces)
    hashes = sorted(min(it, FULL - 1) for it in loads)
    assert len(plan.best.sides) == min(pieces, len(set(hashes)))
    naive = min(
        plan_largest(loads, cuts) for cuts in itertools.combinations(sorted(set(hashes))[1:], len(plan.best.cuts))
    )
    assert plan.best.largest == pytest.approx(naive)
    assert sorted(name for side in plan.best.sides for name in side.topics) == sorted(
        f"t{it}" for it in range(len(loads))
    )
    assert [side.bundle.high for side in plan.best.sides[:-1]] == [side.bundle.low for side in plan.best.sides[1:]]
    assert (plan.best.sides[0].bundle.low, plan.best.sides[-1].bundle.high) == (0, FULL)


def plan_largest(loads: dict[int, float], cuts: tuple[int, ...]) -> float:
    """Load of the largest side, the naive way."""
    edges = [0, *cuts, FULL + 1]
    return max(
        sum(load for at, load in loads.items() if low <= min(at, FULL - 1) < high)
        for low, high in itertools.pairwise(edges)
    )


@given(loads_of, st.integers(2, 8))
def test_it_is_never_worse_than_pulsars_own_algorithms(loads: dict[int, float], pieces: int) -> None:
    """Whatever the loads: not than equal ranges, not than equal numbers of topics; and never below the heaviest hash."""
    plan = plan_split(Bundle(0, FULL), topics_of(loads), pieces=pieces)
    assert plan.best.largest <= plan.by_range.largest * (1 + 1e-12)
    assert plan.best.largest <= plan.by_count.largest * (1 + 1e-12)
    assert plan.least <= plan.best.largest * (1 + 1e-12)


def test_an_unknown_load_is_not_zero() -> None:
    """The topic without a load may be the hot one: no plan, and it is named."""
    topics = [*topics_of({1: 5.0, 9: 6.0}), TopicLoad(topic="who", position=5, load=None)]
    with pytest.raises(EvidenceError, match="load of 1 of 3 topics is not known, such as 'who'"):
        plan_split(QUARTER, topics)


def test_no_load_is_no_plan() -> None:
    """Any place would be as good."""
    with pytest.raises(EvidenceError, match="no topic of the bundle carries any load"):
        plan_split(QUARTER, topics_of({1: 0.0, 2: 0.0}))


def test_a_live_bundle_carries_what_its_admin_tells(tmp_path: Path) -> None:
    """Bytes in and out of each topic; one that does not tell makes it unknown."""
    a, b, c = (f"persistent://shop/orders/{it}" for it in ("a", "b c", "d-partition-0"))
    stats = {f"persistent/shop/orders/{it}/stats": {"msgThroughputIn": 10.0, "msgThroughputOut": load} for it, load in
             (("a", 90.0), ("b%20c", 80.0), ("d-partition-0", 0.0))}  # fmt: skip
    path = "namespaces/shop/orders/0x00000000_0x40000000/topicHashPositions"
    answers = {**stats, path: {"topicHashPositions": {a: 0x25000000, b: 0x32000000, c: 0x3F000000}}}
    admin = FakeAdmin({}, extra=answers)
    words = [
        "split-plan",
        "--cluster",
        "events",
        "--namespace",
        "shop/orders",
        "--bundle",
        "0x00000000_0x40000000",
        "--json",
    ]
    with scripted(Script(answer=admin)) as script:
        config = tmp_path / "workbench.toml"
        config.write_text(
            f'[clusters.events]\nsystem = "pulsar"\n[clusters.events.pulsar]\nadmin_url = "{script.url}"\n'
        )
        shown = CliRunner().invoke(command, [*words, "--config", str(config)], standalone_mode=False)
        document = json.loads(shown.stdout)
        assert document["best"]["cuts_hex"] == ["0x30000000"]
        assert [it["load"] for it in document["best"]["sides"]] == [100.0, 100.0]
        for wrong in (b"no", {"msgThroughputIn": -1.0, "msgThroughputOut": 0.0}, {"msgThroughputIn": 1.0}):
            admin.answers["persistent/shop/orders/a/stats"] = wrong
            shown = CliRunner().invoke(command, [*words, "--config", str(config)], standalone_mode=False)
            assert isinstance(shown.exception, EvidenceError)
        for odd in (["x"], {"topicHashPositions": {a: 0x25000000, b: 1 << 32}}, {"topicHashPositions": {a: -1}}):
            admin.answers[path] = odd  # a topic that is left out would be a load that the plan does not know
            shown = CliRunner().invoke(command, [*words, "--config", str(config)], standalone_mode=False)
            assert isinstance(shown.exception, SourceUnreachableError)
            assert "no list of hashes" in shown.exception.message


@pytest.mark.parametrize(
    ("topics", "said"),
    [
        (topics_of({0x40000000: 1.0, 1: 1.0}), "outside of 0x00000000_0x40000000"),
        (topics_of({1: float("inf"), 2: 1.0}), "is inf, which is no load"),
        (topics_of({1: 1e308, 2: 1e308}), "too large to be added"),
        (topics_of({1: 1.0}), "only one hash with topics"),
        ([], "only one hash with topics"),
    ],
)
def test_what_cannot_be_split_is_refused(topics: list[TopicLoad], said: str) -> None:
    """A hash of another bundle, a load that is none, a bundle of one hash."""
    with pytest.raises(UsageError, match=said):
        plan_split(QUARTER, topics)


@pytest.mark.parametrize(
    "text", ["", "0x", "0x40000000_0x00000000", "0x0_0x0", "1_2", "0x000000000_0x1", "0x0_0x100000000"]
)
def test_a_wrong_bundle_is_named(text: str) -> None:
    """Also a reversed one, and one beyond 32 bits."""
    with pytest.raises(UsageError, match="is not a bundle"):
        Bundle.parse(text)


@pytest.mark.parametrize("text", ["", "0x", "-1", "4294967296", "0x1ffffffff", "x", "1_000"])
def test_a_wrong_hash_is_named(text: str) -> None:
    """32 bits, in decimal or hexadecimal."""
    with pytest.raises(UsageError, match="is not a hash"):
        parse_hash(text)


def test_the_hash_of_a_topic_is_its_names_crc() -> None:
    """CRC-32 of the full name; a name that cannot be encoded is no crash."""
    assert hash_of("123456789") == 0xCBF43926
    hash_of("persistent://t/n/\ud800")


def test_the_file_gives_hashes_or_names(tmp_path: Path) -> None:
    """Hashes as hexadecimal, as numbers, or by the name; a missing load stays missing."""
    file = tmp_path / "bundle.json"
    name = "persistent://t/n/a"
    file.write_text(
        json.dumps(
            {
                "bundle": "0x00000000_0xffffffff",
                "topics": [
                    {"topic": name, "load": 1.5},
                    {"topic": "b", "hash": "0x10", "load": 2},
                    {"topic": "c", "hash": 7},
                ],
            }
        )
    )
    bundle, topics = read_split_file(file)
    assert bundle == Bundle(0, FULL)
    assert [(it.position, it.load) for it in topics] == [(hash_of(name), 1.5), (16, 2.0), (7, None)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not JSON"),
        ("[]", "cannot be used"),
        ('{"bundle": "x", "topics": []}', "is not a bundle"),
        ('{"bundle": "0x0_0x9", "topics": [{"topic": "a", "hash": "0xz", "load": 1}]}', "topics.0.hash"),
        ('{"bundle": "0x0_0x9", "topics": [{"topic": "a", "load": "1"}]}', "topics.0.load"),
        ('{"bundle": "0x0_0x9", "topics": [{"topic": "a", "laod": 1}]}', "topics.0.laod: there is no such field"),
    ],
)
def test_a_wrong_file_is_one_error(tmp_path: Path, text: str, said: str) -> None:
    """It names the field."""
    file = tmp_path / "bundle.json"
    file.write_text(text)
    with pytest.raises(UsageError, match=said):
        read_split_file(file)


def test_the_command_tells_the_cut_and_the_admins_command() -> None:
    """In decimal, as the admin takes it, and with what the other ways would do."""
    words = ["split-plan", "--bundle", "0x00000000_0x40000000", "--hot", "0x25000000=100", "--hot", "0x32000000=90"]
    shown = CliRunner().invoke(command, [*words, "--namespace", "video/live; rm -rf ~"], standalone_mode=False)
    assert shown.exception is None
    assert "Split 0x00000000_0x40000000 at 0x30000000: the largest side then carries 53 % of the load." in shown.output
    assert "-san specified_positions_divide -sb 805306368 -u 'video/live; rm -rf ~'" in shown.output
    document = json.loads(CliRunner().invoke(command, [*words, "--json"], standalone_mode=False).output)
    assert document["best"]["cuts"] == [0x30000000]
    assert document["range_equally_divide"]["largest"] == 190.0


@pytest.mark.parametrize(
    "words",
    [[], ["--bundle", "0x0_0x9", "--hot", "1"], ["--bundle", "0x0_0x9", "--hot", "1=nan"], ["f", "--hot", "1=1"]],
)
def test_the_command_refuses_what_it_cannot_read(words: list[str]) -> None:
    """Without a traceback."""
    shown = CliRunner().invoke(command, ["split-plan", *words], standalone_mode=False)
    assert isinstance(shown.exception, UsageError)

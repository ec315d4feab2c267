"""Which partitions a producer leaves out: the rule at both sides of each of its numbers, and on a real broker."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.running import run_here
from tests.waiting import wait_for
from workbench.errors import UsageError
from workbench.kafka.audited_producer import AuditedProducer
from workbench.lab.lab import Lab
from workbench.lab.lab_broker import create_topic
from workbench.queues.partitions_to_avoid import Exclusion, ExclusionList, ExclusionRule, exclude, read_list, write_list
from workbench.queues.systems import system_of
from workbench.settings import load_settings

EVEN = dict.fromkeys(range(10), 100)


def of(lags: dict[int, int | None], *, before: tuple[int, ...] = (), **rule: float) -> Exclusion:
    """By the rule with these numbers."""
    return exclude(lags, before=before, rule=ExclusionRule(**rule))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("lags", "out"),
    [
        ({**EVEN}, ()),  # nobody is late
        ({**EVEN, 3: 1_000}, ()),  # the floor: more than that it must be
        ({**EVEN, 3: 1_001}, (3,)),
        ({**dict.fromkeys(range(10), 1_000), 3: 3_000}, ()),  # the median is 1,000, the mean 1,200: three times the median
        ({**dict.fromkeys(range(10), 1_000), 3: 3_001}, (3,)),
        # Six of ten are late: the median is theirs, and the mean is smaller.
        ({**dict.fromkeys(range(6), 9_000), **dict.fromkeys(range(6, 10), 0)}, ()),
        ({**dict.fromkeys(range(6), 9_000), **dict.fromkeys(range(6, 10), 0), 0: 40_000}, (0,)),
        ({**EVEN, 1: 5_000, 2: 6_000, 3: 7_000}, (2, 3)),  # a fifth of ten are two: the latest ones
        ({0: 50_000, 1: 10, 2: 10, 3: 10}, ()),  # a fifth of four is none
    ],
)  # fmt: skip
def test_the_rule_as_a_table(lags: dict[int, int | None], out: tuple[int, ...]) -> None:
    """k × min(mean, median), a floor, a share."""
    assert of(lags).partitions == out


def test_it_comes_back_at_half_the_bound_and_not_at_the_bound() -> None:
    """Else it would come and go."""
    assert of({**EVEN, 3: 1_001}, before=(3,)).partitions == (3,)
    assert of({**EVEN, 3: 501}, before=(3,)).partitions == (3,)
    found = of({**EVEN, 3: 500}, before=(3,))
    assert (found.partitions, found.returned) == ((), (3,))


def test_what_is_not_known_stays_as_it_is() -> None:
    """And is named."""
    found = of({**EVEN, 3: None, 4: None}, before=(3,))
    assert (found.partitions, found.added, found.returned, found.unknown) == ((3,), (), (), (3, 4))
    assert of(dict.fromkeys(range(5), None), before=(1,)).bound is None


@given(
    lags=st.dictionaries(st.integers(0, 30), st.one_of(st.none(), st.integers(0, 10**6)), min_size=1),
    before=st.sets(st.integers(0, 30)),
    share=st.floats(0, 0.9),
)
def test_never_more_than_a_share_and_never_one_that_is_not_late(
    lags: dict[int, int | None], before: set[int], share: float
) -> None:
    """Whatever the lags are; a lag that is not known changes nothing."""
    before &= set(lags)
    found = exclude(lags, before=before, rule=ExclusionRule(share=share))
    unknown = {number for number, lag in lags.items() if lag is None}
    assert set(found.partitions) & unknown == before & unknown
    assert len(found.partitions) <= max(int(share * len(lags)), len(before & unknown))
    for number in found.added:
        assert (lags[number] or 0) > 1_000
    again = exclude(lags, before=found.partitions, rule=ExclusionRule(share=share))
    assert set(again.partitions) >= set(found.partitions)


def test_a_list_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Other topics stay; what is no list is refused."""
    path = tmp_path / "list.json"
    assert read_list(path) == ExclusionList()
    write_list(path, ExclusionList().with_topic("a", [3, 1]).with_topic("b", [0]))
    write_list(path, read_list(path).with_topic("a", []))
    assert (read_list(path).of("a"), read_list(path).of("b")) == (frozenset(), frozenset({0}))
    path.write_text('{"schema": "workbench.partitions/1", "topics": {"a": [-1]}}')
    with pytest.raises(UsageError, match="no list of partitions"):
        read_list(path)


@pytest.mark.lab
def test_a_producer_obeys_and_the_lag_goes(lab: Lab, tmp_path: Path) -> None:
    """One partition of ten is read at a quarter of its speed; it is left out, its lag falls, and it comes back."""
    topic, slow = "hot-partition", 4
    create_topic(lab.bootstrap, topic, 10)
    create_topic(lab.bootstrap, "hot-rows", 1)
    listed, settings = tmp_path / "list.json", tmp_path / "workbench.toml"
    settings.write_text(f'[clusters.prod]\nbootstrap = "{lab.bootstrap}"\n')
    ending = threading.Event()
    # Not by 10 ms: each partition would have its records in heaps, and now and then none for seconds.
    spread = {"bootstrap.servers": lab.bootstrap, "sticky.partitioning.linger.ms": 0}
    producer = AuditedProducer(spread, stream="s", layer="gateway", rows_topic="hot-rows", left_out=listed)
    sent: Counter[int] = Counter()

    def read(numbers: list[int], most: int) -> None:
        consumer = Consumer({"bootstrap.servers": lab.bootstrap, "group.id": "hot", "enable.auto.commit": False})
        consumer.assign([TopicPartition(topic, number, 0) for number in numbers])
        while not ending.is_set():
            if consumer.consume(most, 0.1):
                consumer.commit(asynchronous=False)
            time.sleep(0.1)
        consumer.close()

    def send() -> None:
        begun, made = time.monotonic(), 0
        while not ending.is_set():
            # By the clock: a busy machine slows down the slow reader, not this.
            due = round(4_000 * (time.monotonic() - begun))
            for _ in range(due - made):
                producer.produce(topic, b"x", on_delivery=lambda _error, message: sent.update([message.partition()]))
            made = due
            time.sleep(0.1)

    def look(*words: str) -> list[int]:
        shown = run_here(
            "partitions", "exclude", "--cluster", "prod", "--group", "hot", "--topic", topic, "--file", str(listed),
            "--floor", "500", "--json", "--config", str(settings), *words, cwd=tmp_path,
        )  # fmt: skip
        assert shown.returncode in (0, 3), shown.stderr
        found: list[int] = json.loads(shown.stdout)["partitions"]
        return found

    def grows(seconds: float) -> float:
        """Messages a second that come to the lag of the slow partition; below 0 if it falls."""
        lags = []
        for pause in (seconds, 0.0):
            seen = system_of(cluster).observer(cluster).snapshot(groups=["hot"])
            lags.append((time.monotonic(), seen.lag("hot", topic, slow) or 0))
            time.sleep(pause)
        (first, less), (last, more) = lags
        return (more - less) / (last - first)

    cluster = load_settings(settings).cluster("prod")
    others = [number for number in range(10) if number != slow]
    threads = [
        threading.Thread(target=read, args=([slow], 20)),
        threading.Thread(target=read, args=(others, 20_000)),
        threading.Thread(target=send),
    ]
    for thread in threads:
        thread.start()
    try:
        time.sleep(3)
        wait_for(lambda: look() == [slow], seconds=60)
        assert not listed.exists()  # a look changes nothing
        without = grows(3)
        wait_for(lambda: look("--write") == [slow], seconds=60)
        assert read_list(listed).of(topic) == frozenset({slow})
        time.sleep(2)  # it reads the list each second
        producer.settle(60)  # what it gave out before may be on its way
        before = sent[slow]
        time.sleep(1)
        assert sent[slow] == before
        with_list = grows(2)
        print(f"the hot partition's lag: {without:+.0f}/s without the list, {with_list:+.0f}/s with it")
        assert with_list < 0 < without
        wait_for(lambda: look("--write") == [], seconds=90)
        assert read_list(listed).of(topic) == frozenset()
    finally:
        ending.set()
        for thread in threads:
            thread.join(20)
        producer.close()

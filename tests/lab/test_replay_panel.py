"""Rules of the replay panel on a real broker: its buttons do what the commands do, and nothing before the hash was typed."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.lab.replaying import footprint, fresh, now_ms, topic_with
from tests.waiting import wait_for
from workbench.kafka.kafka_gateway import KafkaGateway
from workbench.lab.lab import Lab
from workbench.widgets.prefill import Wish
from workbench.widgets.replay import ReplayPanel

pytestmark = pytest.mark.lab


def consume(lab: Lab, group: str, topic: str, until: dict[int, int]) -> set[tuple[int, int]]:
    """Read as a member of the group from its commits to these offsets, and commit them; (partition, offset) that were read."""
    consumer = Consumer({"bootstrap.servers": lab.bootstrap, "group.id": group, "enable.auto.commit": False})
    seen: set[tuple[int, int]] = set()
    consumer.subscribe([topic])

    def all_read() -> bool:
        message = consumer.poll(0.5)
        while message is not None:
            assert message.error() is None
            seen.add((message.partition() or 0, message.offset() or 0))
            message = consumer.poll(0.1)
        return all((number, stop - 1) in seen for number, stop in until.items())

    try:
        wait_for(all_read, 60)
        consumer.commit(
            offsets=[TopicPartition(topic, number, stop) for number, stop in until.items()], asynchronous=False
        )
    finally:
        consumer.close()
    return seen


def test_plan_apply_follow_verify_and_back_by_buttons(
    lab: Lab, settings_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new group gets exactly the records from the instant on; afterwards its offsets are gone again, the old group's as before."""
    monkeypatch.setenv("WORKBENCH_CONFIG", str(settings_file))
    now = now_ms()
    topic, old = topic_with(lab, {n: [now - 1000 * (40 - i) - n for i in range(40)] for n in range(3)})
    new, gateway = fresh("new"), KafkaGateway(lab.bootstrap)
    wish = Wish(
        cluster="mine", from_group=old, new_group=new, topics=topic, since="20s ago", file=str(tmp_path / "plan.json")
    )
    panel = ReplayPanel(wish)
    before = footprint(lab)
    panel.make.click()
    panel.wait(60)
    plan = panel.plan
    assert plan is not None, panel.trouble.value
    panel.start_apply(dry_run=False)
    panel.wait(60)
    assert "nor the hash" in panel.trouble.value
    assert footprint(lab) == before
    panel.typed.value = plan.short_hash
    panel.apply.click()
    panel.wait(120)
    assert "read back as planned" in panel.outcome.value, panel.trouble.value
    assert dict(gateway.commits(new)) == plan.targets
    wanted = {(part.partition, offset) for part in plan.partitions for offset in range(part.target or 0, part.stop)}
    panel.follow.click()
    assert consume(lab, new, topic, {part.partition: part.stop for part in plan.partitions}) == wanted
    panel.wait(60)
    assert "has committed the window" in panel.status.value, panel.trouble.value
    panel.verify.click()
    panel.wait(60)
    assert "Verified" in panel.verdict.value, panel.trouble.value
    assert dict(gateway.commits(old)) == {(topic, number): 0 for number in range(3)}
    assert panel._rollback is not None
    panel.back_typed.value = panel._rollback.short_hash
    panel.back.click()
    panel.wait(60)
    assert "has moved on" in panel.trouble.value  # it has consumed: giving that up is asked for by name, in a terminal

"""Rules of the replay panel: nothing is changed before the hash was typed, Cancel leaves no half, and there is a way back."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import ipywidgets as w
import pytest

from tests.replay.fakes import FakeGateway, now_ms, orders
from tests.widgets.test_panel import HOSTILE
from workbench.api.replay_steps import ReplayConnections
from workbench.plans.journal import Journal
from workbench.queues.replay_port import TopicSettings
from workbench.queues.snapshot_views import Partition
from workbench.widgets.prefill import Wish, wish_of
from workbench.widgets.replay import ReplayPanel

MINUTE = 60_000


def connections(gateway: FakeGateway) -> ReplayConnections:
    """To a cluster in memory, where every offset holds a record."""

    def count(ranges: Mapping[Partition, tuple[int, int]]) -> dict[Partition, int]:
        return {key: stop - start for key, (start, stop) in ranges.items()}

    return ReplayConnections(gateway=lambda _cluster: gateway, counter=lambda _cluster: count)


@pytest.fixture
def gateway() -> FakeGateway:
    """Four partitions with a record a minute."""
    return orders()


@pytest.fixture
def panel(gateway: FakeGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ReplayPanel]:
    """A panel on such a cluster, filled in."""
    (tmp_path / "settings.toml").write_text('[clusters.c]\nbootstrap = "b:9092"\n')
    monkeypatch.setenv("WORKBENCH_CONFIG", str(tmp_path / "settings.toml"))
    wish = Wish(
        cluster="c",
        from_group="old",
        new_group="new",
        topics="orders",
        since="5m ago",
        file=str(tmp_path / "plan.json"),
    )
    yield ReplayPanel(wish, connections=connections(gateway))


def planned(panel: ReplayPanel) -> ReplayPanel:
    """With a plan made."""
    panel.make.click()
    panel.wait()
    assert panel.plan is not None
    assert panel.trouble.value == ""
    return panel


def test_apply_is_never_shown_as_pressable_before_it_is_confirmed(
    panel: ReplayPanel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even for the moment in which a work ends; and a page that reads its last words finds the buttons as they stay."""
    sent: list[tuple[Any, Any]] = []
    send = w.Widget.send_state

    def noted(self: Any, key: Any = None) -> None:
        for name in {key} if isinstance(key, str) else set(key or ()):
            if name in ("disabled", "value"):
                sent.append((self, getattr(self, name)))
        send(self, key)

    monkeypatch.setattr(w.Widget, "send_state", noted)
    planned(panel)
    mine = [value for it, value in sent if it is panel.apply]
    assert mine
    assert all(mine)
    told = sent.index((panel.status, panel.status.value))
    assert (panel.make, False) in sent[:told]
    assert not [it for it, _ in sent[told:] if isinstance(it, w.Button)]


def confirmed(panel: ReplayPanel) -> ReplayPanel:
    """With a plan made, and its group and number of messages typed."""
    plan = planned(panel).plan
    assert plan is not None
    panel.typed.value = f"{plan.new_group} {plan.messages:,}"
    assert not panel.apply.disabled
    return panel


def applied(panel: ReplayPanel) -> ReplayPanel:
    """With its offsets committed."""
    confirmed(panel)
    panel.apply.click()
    panel.wait()
    assert panel.receipt is not None, panel.trouble.value
    return panel


def test_planning_shows_each_partition_and_changes_nothing(
    panel: ReplayPanel, gateway: FakeGateway, tmp_path: Path
) -> None:
    """The review has each partition's first offset, the picture its time; the file is there; nothing was written to the cluster."""
    planned(panel)
    assert "4 of 4 partitions begin exactly at" in panel.review.value
    assert panel.plan is not None
    for part in panel.plan.partitions:
        assert f'<td class="n">{part.target:,}</td>' in panel.review.value
    figures = [it["data"].get("application/vnd.plotly.v1+json") for it in panel.picture.outputs]
    [figure] = [it for it in figures if it]
    assert sorted(figure["data"][0]["y"]) == [f"orders-{number}" for number in range(4)]
    assert figure["config"]["showSendToCloud"] is False
    assert json.loads((tmp_path / "plan.json").read_text())["hash"] == panel.plan.hash
    assert gateway.writes == []
    assert "Nothing has been written yet" in panel.asking.value
    assert panel.plan.short_hash not in panel.asking.value
    assert panel.follow.disabled
    assert panel.verify.disabled


@pytest.mark.parametrize("typed", ["", "1234567", "0" * 8, "new", "new 1", " "])
def test_apply_wants_group_and_number(panel: ReplayPanel, gateway: FakeGateway, typed: str) -> None:
    """The button stays dead for anything else, and what is behind it refuses all the same."""
    planned(panel).typed.value = typed
    assert panel.apply.disabled
    panel.start_apply(dry_run=False)
    panel.wait()
    assert "is neither the new group and the number of messages nor the hash" in panel.trouble.value
    assert gateway.writes == []


def test_a_plan_that_was_changed_on_the_disk_is_not_applied(
    panel: ReplayPanel, gateway: FakeGateway, tmp_path: Path
) -> None:
    """What is confirmed is what lies in the file now, not what was once shown."""
    confirmed(panel)
    text = (tmp_path / "plan.json").read_text()
    (tmp_path / "plan.json").write_text(text.replace('"reason": null', '"reason": "other"'))
    panel.apply.click()
    panel.wait()
    assert "was changed after it was written" in panel.trouble.value
    assert gateway.writes == []


def test_the_check_writes_nothing(panel: ReplayPanel, gateway: FakeGateway) -> None:
    """It needs no hash, and says whether the guards are content."""
    planned(panel)
    assert not panel.check.disabled
    panel.check.click()
    panel.wait()
    assert "all safety checks passed" in panel.outcome.value
    assert gateway.writes == []
    assert Journal.of_user().read()[0] == []


def test_apply_follow_verify_and_the_way_back(panel: ReplayPanel, gateway: FakeGateway, tmp_path: Path) -> None:
    """The whole life of a replay, by buttons alone."""
    applied(panel)
    assert panel.plan is not None
    assert "read back as planned" in panel.outcome.value
    assert gateway.groups["new"] == panel.plan.targets
    assert gateway.groups["old"] == dict.fromkeys(panel.plan.targets, 10)
    assert panel.typed.value == ""
    assert panel.apply.disabled
    assert panel.confirming.layout.display == "none", "nothing asks for what is done"
    assert not panel.follow.disabled
    panel.verify.click()
    panel.wait()
    assert "Not started: no consumer in new." in panel.verdict.value
    gateway.groups["new"] = {part.key: part.stop for part in panel.plan.partitions}
    panel.follow.click()
    panel.wait()
    assert panel.messages.value == panel.messages.max == panel.plan.messages
    assert "has committed the window" in panel.status.value
    panel.verify.click()
    panel.wait()
    assert "Verified" in panel.verdict.value
    assert panel.back.disabled
    gateway.groups["new"] = dict(panel.plan.targets)
    panel.back_typed.value = "new 0"
    assert not panel.back.disabled
    panel.back.click()
    panel.wait()
    assert "as it was before" in panel.gone_back.value
    assert "new" not in gateway.groups
    assert panel.confirming.layout.display == ""
    assert "Nothing has been written yet" in panel.asking.value
    assert panel.follow.disabled
    assert [entry.action for entry in Journal.of_user().read()[0]] == ["apply"] * 2 + ["rollback"] * 2


def test_a_group_that_has_moved_on_is_not_rolled_back(panel: ReplayPanel, gateway: FakeGateway, tmp_path: Path) -> None:
    """Giving up progress is a decision for the command line, which asks for it by name."""
    applied(panel)
    gateway.groups["new"] = {key: offset + 1 for key, offset in gateway.groups["new"].items()}
    panel.back_typed.value = json.loads((tmp_path / "plan.rollback.json").read_text())["hash"][:8]
    panel.back.click()
    panel.wait()
    assert "has moved on" in panel.trouble.value
    assert ("delete", "new") not in gateway.writes


def test_cancel_before_the_first_write_leaves_nothing(panel: ReplayPanel, gateway: FakeGateway, tmp_path: Path) -> None:
    """While the guards watch the group it takes effect at once: no offset, no rollback file, no line in the journal."""
    gateway.groups["new"] = {}
    watching = threading.Event()
    tell = panel._tell

    def noted(done: int, title: str) -> None:
        tell(done, title)
        if title.startswith("Checking"):
            watching.set()

    panel._tell = noted  # type: ignore[method-assign]
    confirmed(panel)
    panel.apply.click()
    assert watching.wait(30)
    panel.cancel.click()
    panel.wait()
    assert panel.status.value == "Cancelled."
    assert gateway.writes == []
    assert not (tmp_path / "plan.rollback.json").exists()
    assert Journal.of_user().read()[0] == []


def test_cancel_after_the_first_write_does_nothing(panel: ReplayPanel, gateway: FakeGateway) -> None:
    """Half of a commit would be worse than either: the button is dead, and a call of it too."""
    pressed: list[bool] = []

    def in_the_middle() -> None:
        pressed.append(panel.cancel.disabled)
        panel.stop()

    gateway.before_commit = in_the_middle
    applied(panel)
    assert pressed == [True]
    assert "read back as planned" in panel.outcome.value


def test_guards_are_told_with_what_to_do(panel: ReplayPanel, gateway: FakeGateway) -> None:
    """A refusal is a result: why, for which partition, and a hint."""
    gateway.members["new"] = ["somebody"]
    applied(panel)
    assert "REFUSED" in panel.outcome.value
    assert "Stop its consumers first" in panel.outcome.value
    assert gateway.writes == []
    assert panel._rollback is None


def test_partitions_without_a_record_are_asked_about(panel: ReplayPanel, gateway: FakeGateway) -> None:
    """Never guessed: the plan is refused, until the policy says what to do; then the picture shows them by another sign."""
    gateway.records["orders", 3] = []
    gateway.topic_settings["orders"] = TopicSettings(retention_ms=60 * MINUTE)
    panel.make.click()
    panel.wait()
    assert "no record at or after" in panel.trouble.value
    panel.after_end.value = "skip"
    planned(panel)
    assert "nothing is committed" in panel.review.value
    figure = panel.picture.outputs[1]["data"]["application/vnd.plotly.v1+json"]
    assert {trace["marker"]["symbol"] for trace in figure["data"] if trace["mode"] == "markers"} == {
        "circle",
        "square-open",
    }


def test_an_applied_plan_is_not_overwritten_and_can_be_opened_again(panel: ReplayPanel) -> None:
    """Its way back hangs on it."""
    applied(panel)
    known = panel.plan
    panel.make.click()
    panel.wait()
    assert "give the new plan another name" in panel.trouble.value.lower()
    panel.open.click()
    assert panel.plan == known
    assert "It was applied before" in panel.asking.value
    assert not panel.follow.disabled
    assert panel.going_back.layout.display == ""


def test_hostile_names_stay_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Topic, groups and reason are shown, and none of them becomes markup."""
    name = HOSTILE.replace("\n", " ").replace(" ", "_")
    key = (name, 0)
    gateway = FakeGateway({key: [(0, now_ms() - MINUTE), (1, now_ms())]}, groups={name + "old": {key: 2}})
    (tmp_path / "settings.toml").write_text('[clusters."<b>"]\nbootstrap = "b:9092"\n')
    monkeypatch.setenv("WORKBENCH_CONFIG", str(tmp_path / "settings.toml"))
    wish = Wish(
        cluster="<b>", from_group=name + "old", new_group=name, topics=name, since="5m ago", reason=name,
        file=str(tmp_path / "<b>.json"),
    )  # fmt: skip
    made = applied(ReplayPanel(wish, connections=connections(gateway)))
    made.verify.click()
    made.wait()
    html = [made.review, made.asking, made.outcome, made.verdict, made.back_asking, made.trouble]
    assert not any("<img" in it.value or "<b>" in it.value for it in html)
    assert not any("<img" in json.dumps(it["data"]) for it in made.picture.outputs)


@pytest.mark.parametrize("missing", ["cluster", "from_group", "new_group", "since"])
def test_what_is_not_said_is_asked_for(missing: str) -> None:
    """In one line, before any cluster is asked."""
    wish = {"cluster": "c", "from_group": "a", "new_group": "b", "topics": "t", "since": "5m ago", missing: ""}
    made = ReplayPanel(
        Wish(**wish), connections=ReplayConnections(gateway=lambda _cluster: pytest.fail("asked the cluster"))
    )  # type: ignore[arg-type]
    made.make.click()
    made.wait()
    assert "Enter the " in made.trouble.value
    assert not made.make.disabled


def test_the_same_call_gives_the_same_panel_and_an_address_fills_it_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a cell that is run again loses no input; what was typed outweighs the page's address."""
    from workbench.widgets import replay_panel

    first = replay_panel(new_group="again")
    first.topics.value = "typed"
    first.address.query = "?cluster=prod&group=payments&topic=orders&since=15m+ago"
    assert replay_panel(new_group="again") is first
    wish = first.wish
    assert (wish.cluster, wish.from_group, wish.topics, wish.since) == ("prod", "payments", "typed", "15m ago")
    assert wish.new_group == "again"


def test_what_the_notebook_says_outweighs_the_environment() -> None:
    """Name by name."""
    outside = {"WORKBENCH_CLUSTER": "prod", "WORKBENCH_GROUP": "payments", "WORKBENCH_TOPIC": "orders"}
    found = wish_of({"topics": "mine", "new_group": ""}, outside)
    assert (found.cluster, found.from_group, found.topics, found.after_end) == ("prod", "payments", "mine", "fail")

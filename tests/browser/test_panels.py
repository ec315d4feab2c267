"""Rules of the panels, in a real JupyterLab and a real Chromium."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.browser.devtools import Page, chromium
from tests.browser.jupyter import ROOT, RUN_ALL, STATUS, Address, click, enter, jupyterlab, opened, text_of
from tests.browser.looking import PICTURES, SHARE, inert, within
from tests.lab.replaying import fresh, now_ms, topic_with
from tests.widgets.test_panel import hostile_capture
from workbench.collect.capture import write_capture
from workbench.kafka.kafka_gateway import KafkaGateway
from workbench.lab.lab import Lab

pytestmark = [pytest.mark.jvm, pytest.mark.apt]

INCIDENT = ROOT / "notebooks" / "captures" / "incident-1"
DRAWN = "document.querySelectorAll('.wb-charts .js-plotly-plot .main-svg').length >= 5"


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a hostile capture, and settings that name no cluster yet."""
    room = tmp_path_factory.mktemp("room")
    write_capture(room / "capture", hostile_capture())
    (room / "settings.toml").write_text("")
    return room


@pytest.fixture(scope="module")
def jupyter(room: Path) -> Iterator[Address]:
    """One JupyterLab for all of them; each notebook has its kernel."""
    environment = {"WORKBENCH_CAPTURE": str(room / "capture"), "WORKBENCH_CONFIG": str(room / "settings.toml")}
    with jupyterlab(room, environment=environment) as address:
        yield address


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    """A browser."""
    with chromium(tmp_path / "chromium") as made:
        made.resize(1280, 1400)
        yield made


def test_the_triage_panel_on_hostile_names(page: Page, jupyter: Address) -> None:
    """Run all, cancel, find by keyboard, read; what was typed survives a cell that is run again; no name is markup."""
    opened(page, jupyter("lag_triage"))
    click(page, "wb-find")
    click(page, "wb-cancel")
    page.wait("['Cancelled.', 'Done.'].includes(" + STATUS + ")")
    page.run("document.querySelector('button.wb-find').focus()")
    page.press("Enter", 13)
    page.wait("document.querySelector('.wb-answer svg.tree .leaf.taken') && " + STATUS + " === 'Done.'")
    assert "slow processor" in text_of(page, "wb-verdict")
    page.wait(DRAWN)
    page.wait("document.querySelectorAll('.wb-choice option').length === 2")
    assert page.run("document.querySelectorAll('.wb-charts details.numbers table').length") >= 5
    assert page.run(SHARE) is None
    page.screenshot(PICTURES / "panel-1280.png")
    inert(page)
    enter(page, "wb-topic", "typed")
    assert page.run(RUN_ALL)
    page.wait("[...document.querySelectorAll('.wb-topic input')].every(it => it.value === 'typed')")
    inert(page)


def test_from_opening_to_verdict(page: Page, jupyter: Address) -> None:
    """One click (Find the cause) and 15 s on two cores with nothing else; a link has filled it in."""
    began = time.monotonic()
    opened(page, jupyter("lag_triage", capture=str(INCIDENT), topic="orders"))
    page.wait(f"document.querySelector('.wb-capture input').value === {json.dumps(str(INCIDENT))}")
    assert page.run("document.querySelector('.wb-topic input').value") == "orders"
    click(page, "wb-find")
    page.wait("document.querySelector('.wb-answer svg.tree .leaf.taken')")
    within(time.monotonic() - began, 15.0, "from opening to verdict")
    assert "refund" in text_of(page, "wb-verdict")
    page.wait(DRAWN)
    page.run("window.jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Dark'}).then(() => true)")
    page.wait("document.body.dataset.jpThemeLight === 'false' && !document.querySelector('#jupyterlab-splash')")
    ink, paper = page.run(
        "(() => { const it = getComputedStyle(document.querySelector('.wb-answer .wb')); return [it.color, it.backgroundColor] })()"
    )
    assert sum(int(part) for part in ink[4:-1].split(",")) > 450 > sum(int(part) for part in paper[4:-1].split(","))
    page.screenshot(PICTURES / "panel-dark.png")
    page.run(
        "window.jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Light'}).then(() => true)"
    )
    page.resize(390, 844)
    page.screenshot(PICTURES / "panel-390.png")
    inert(page)


def test_a_game_day_round_by_keyboard(page: Page, jupyter: Address) -> None:
    """Tab, Enter and letters alone lead from the incident to the truth; before the guess there is no tree on the page."""
    opened(page, jupyter("game_day"))
    for _ in range(10):  # the tree needs one question only for some incidents, and then has no hint
        page.run("document.querySelector('button.wb-recorded').focus()")
        page.press("Enter", 13)
        page.wait(f"{STATUS} === 'Your turn.'")
        if not page.run("document.querySelector('button.wb-hint').disabled"):
            break
    page.wait("document.querySelectorAll('.wb-charts .js-plotly-plot .main-svg').length >= 2")
    assert not page.run("document.querySelector('.wb-tree svg')")
    page.run("document.querySelector('button.wb-hint').focus()")
    page.press("Enter", 13)
    page.wait("document.querySelectorAll('.wb-alert ol.hints li').length === 1")
    page.screenshot(PICTURES / "game-1280.png")
    page.wait("document.querySelector('.wb-panel').hasAttribute('data-lm-suppress-shortcuts')")
    page.run("document.querySelector('.wb-guess select').focus()")
    page.press("s", 83)  # the first of the list with this letter
    page.wait("document.querySelector('.wb-guess select').selectedOptions[0].textContent.startsWith('stuck')")
    page.wait("!document.querySelector('button.wb-say').disabled")
    page.press("Tab", 9)
    page.press("Tab", 9)
    assert page.run("document.activeElement.classList.contains('wb-say')")
    page.press("Enter", 13)
    page.wait("document.querySelector('.wb-tree svg.tree')")
    assert "The truth" in text_of(page, "wb-answer")
    page.screenshot(PICTURES / "game-told-1280.png")
    assert page.run(SHARE) is None
    inert(page)


def live(lab: Lab, room: Path) -> tuple[str, str]:
    """The lab as the cluster "mine", with a topic that somebody writes to, and a group on it that nobody is a member of any more."""
    topic, group = topic_with(lab, {n: [now_ms() - 1000 * (60 - i) for i in range(60)] for n in range(4)})
    lines = ["[clusters.mine]", f'bootstrap = "{lab.bootstrap}"', "timeout_seconds = 30"]
    lines += [f'prometheus = "{lab.prometheus_url}"', 'profiles = ["kafka_exporter", "group_state"]']
    lines += ["[windows]", 'length = "20s"', 'baseline = "20s"']
    lines += ["[thresholds]", "stale_after_seconds = 15", "time_lag_objective_seconds = 5"]
    (room / "settings.toml").write_text("\n".join(lines))
    producer = Producer({"bootstrap.servers": lab.bootstrap})
    for _ in range(45):  # the exporter and Prometheus need some looks at it
        for partition in range(4):
            producer.produce(topic, b"v", partition=partition)
        assert producer.flush(30) == 0
        time.sleep(1)
    return topic, group


@pytest.mark.lab
@pytest.mark.usefixtures("prometheus_url")
def test_triage_and_replay_on_a_live_cluster(page: Page, jupyter: Address, lab: Lab, room: Path) -> None:
    """The stopped consumer is found; its replay wants group and number typed, commits, and can be taken back; by buttons alone."""
    assert lab.prometheus_url is not None
    topic, group = live(lab, room)
    since = (datetime.now(UTC) - timedelta(seconds=30)).isoformat(timespec="seconds")
    opened(page, jupyter("lag_triage", cluster="mine", group=group))
    page.wait("document.querySelector('.wb-source select').selectedOptions[0].textContent === 'mine'")
    click(page, "wb-find")
    page.wait(f"['Done.', 'Failed.'].includes({STATUS})")
    assert "consumer stopped" in text_of(page, "wb-verdict"), text_of(page, "wb-trouble")
    inert(page)

    new, gateway = fresh("new"), KafkaGateway(lab.bootstrap)
    opened(page, jupyter("replay", cluster="mine", group=group, topic=topic, since=since))
    page.wait(f"document.querySelector('.wb-from-group input').value === {json.dumps(group)}")
    enter(page, "wb-new-group", new)
    click(page, "wb-plan")
    page.wait("document.querySelector('.wb-picture .js-plotly-plot .main-svg')")
    assert page.run("document.querySelectorAll('.wb-review table.review tr').length") == 5
    assert page.run("document.querySelector('button.wb-apply').disabled")
    enter(page, "wb-typed", "00000000")
    time.sleep(1)
    assert page.run("document.querySelector('button.wb-apply').disabled")
    assert gateway.commits(new) == {}
    number = page.run(
        "[...document.querySelectorAll('.wb-review dt')].find(it => it.textContent === 'Messages').nextSibling.firstChild.textContent"
    )
    assert page.run("document.querySelector('button.wb-follow').disabled")
    page.screenshot(PICTURES / "replay-1280.png")
    page.run("document.querySelector('.wb-typed input').focus()")
    page.run("document.querySelector('.wb-typed input').select()")
    page.type(f"{new} {number}")
    click(page, "wb-apply")
    page.wait("document.querySelector('.wb-outcome [role=status]')")
    assert "read back as planned" in text_of(page, "wb-outcome")
    assert len(gateway.commits(new)) == 4
    click(page, "wb-verify")
    page.wait("document.querySelector('.wb-verdict [role=status]')")
    assert "Not started: no consumer in" in text_of(page, "wb-verdict")
    enter(page, "wb-back-typed", f"{new} 0")
    click(page, "wb-back")
    page.wait("document.querySelector('.wb-gone-back [role=status]')")
    assert "as it was before" in text_of(page, "wb-gone-back")
    assert gateway.commits(new) == {}
    page.screenshot(PICTURES / "replay-done-1280.png")
    assert page.run(SHARE) is None
    inert(page)


@pytest.mark.lab
def test_a_live_game_day(page: Page, jupyter: Address) -> None:
    """A lab of its own comes up, something is done to it, and the round ends with the truth; nothing is left running."""
    opened(page, jupyter("game_day"))
    click(page, "wb-live")
    page.wait(f"['Your turn.', 'Failed.'].includes({STATUS})", seconds=900)
    assert text_of(page, "wb-trouble") == ""
    page.run(
        "(() => { const it = document.querySelector('.wb-guess select'); it.selectedIndex = 1;"
        " it.dispatchEvent(new Event('change', {bubbles: true})); })()"
    )
    click(page, "wb-say")
    page.wait("document.querySelector('.wb-tree svg.tree')")
    assert "The truth" in text_of(page, "wb-answer")
    inert(page)

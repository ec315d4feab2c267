"""Tasks of somebody on call in a real Chromium, from the address in a message on: what docs/tasks.md says, in at most three clicks."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from tests.browser.devtools import Page, chromium
from tests.browser.looking import FITS
from tests.serve.serving import TOKEN, Office, Running, alert, judged, running
from tests.serve.test_incidents import post
from tests.serve.test_opened_pages import detailed
from workbench.serve import fleet_verdicts

pytestmark = pytest.mark.apt


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Office:
    """A fleet with two incidents: one now, and one with the same cause a day ago, whose note says what helped."""
    office = Office(tmp_path_factory.mktemp("office"), cluster="prod")
    office.worker._clusters = lambda: {"prod": None}
    office.worker.take_lead()
    sick = judged("payments", "orders", detail=detailed(), picture="<h3>What to do</h3>")
    for lagging in (True, False):
        office.oracle.says = lambda _q, it=lagging: [sick if it else judged("payments", "orders", "healthy")]  # type: ignore[misc]
        post(office, alert("payments", "orders"))
        office.worker.judge_alerts()
        office.clock.now += 4 * 3600
        office.worker._look_at.clear()
        office.worker.look_again()
    office.clock.now += 86_400
    office.oracle.says = lambda _q: [sick]
    fleet_verdicts.record(office.store, "prod", [sick, judged("mail", "outbox", "healthy")], every_seconds=300)
    post(office, alert("payments", "orders", number=1))
    office.worker.judge_alerts()
    office.send()
    return office


@pytest.fixture(scope="module")
def server(office: Office) -> Iterator[Running]:
    """Its server."""
    with running(office, threads=False) as found:
        yield found


class Hand:
    """A person at a page, whose clicks are counted."""

    def __init__(self, page: Page) -> None:
        self.page, self.clicks = page, 0

    def on(self, words: str) -> None:
        """Click the link, button or summary with these words."""
        at = (
            "[...document.querySelectorAll('a, button, summary')]"
            f".find((it) => it.innerText.trim() === {json.dumps(words)} && it.getClientRects().length)"
        )
        self.page.wait(at, seconds=20)
        self.page.run(f"void {at}.click()")
        self.clicks += 1
        time.sleep(0.2)
        self.page.wait("document.readyState === 'complete'")

    def sees(self, words: str) -> bool:
        """Whether it is on the page, which may be long, and is not folded."""
        return words in str(self.page.run("document.body.innerText"))


@pytest.fixture(scope="module")
def phone(server: Running, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A signed-in browser of 390 px."""
    with chromium(tmp_path_factory.mktemp("chromium") / "c") as page:
        page.resize(390, 844)
        page.open(f"{server.url}/sign-in")
        page.run(f"document.querySelector('input[name=token]').value = '{TOKEN}'")
        page.run("void document.querySelector('form').submit()")
        page.wait("document.querySelector('nav form')")
        yield page


@pytest.fixture
def hand(phone: Page, server: Running, office: Office) -> Hand:
    """After the first click: that on the link in the message."""
    told = office.postman.parcels[-1].message.incident
    phone.open(f"{server.url}/incidents/{told}")
    hand = Hand(phone)
    hand.clicks = 1
    return hand


TASKS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("which pod has the partition that waits", ("payments",), "at 10.0.0.7"),
    ("what changed before", ("payments",), "payments v7"),
    ("was it so last week", ("payments", "30 days"), "Time lag"),
    ("is it only us", ("Fleet",), "1 lagging"),
    ("read the runbook", ("Runbook",), "Meaning"),
    ("say that I have it", ("Acknowledge",), "Acknowledged by"),
    ("look at it again, now", ("Triage now",), "payments"),
    ("be left alone for an hour", ("Mute",), "Muted until"),
)


@pytest.mark.parametrize(("clicks", "seen"), [it[1:] for it in TASKS], ids=[it[0] for it in TASKS])
def test_a_task_on_a_phone_takes_at_most_three_clicks(hand: Hand, clicks: tuple[str, ...], seen: str) -> None:
    """From the link in a message, on a screen of 390 px that nothing leaves to the side."""
    for words in clicks:
        hand.on(words)
    hand.page.wait(f"document.body.innerText.includes({json.dumps(seen)})", seconds=20)
    hand.page.wait(FITS)
    assert hand.clicks <= 3
    assert hand.page.errors == []

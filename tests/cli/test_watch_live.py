"""Rules of `workbench watch --live`: the keys answer while it reads, and what it shows stays where the eye is."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Static

from tests.browser.looking import PICTURES
from tests.cli.running import check, run_here
from workbench.cli.watch_live import LiveApp, Source
from workbench.errors import SourceUnreachableError

HOSTILE = "evil\x1b[31m[bold]group"


def row(group: str, lag: int | None) -> dict[str, Any]:
    """A subscription as a snapshot ranks it."""
    return {"group": group, "topic": "orders", "lag_messages": lag, "state": "stable"}


class Fake:
    """A cluster whose lag grows, and commands that are only noted."""

    def __init__(self) -> None:
        self.reads = 0
        self.commands: list[list[str]] = []
        self.error: str | None = None
        self.rows = [row("payments", 3000), row("billing", 20), row(HOSTILE, None)]

    def source(self) -> Source:
        """For the screen."""
        return Source(
            name="prod",
            ranked=self.ranked,
            partitions=lambda group: [
                {"topic": "orders", "partition": 3, "lag_messages": 7, "client_id": f"client-of-{group}"}
            ],
            command=self.command,
            now=lambda: datetime(2026, 11, 21, 3, tzinfo=UTC),
        )

    def ranked(self) -> list[dict[str, Any]]:
        """A read."""
        self.reads += 1
        if self.error:
            raise SourceUnreachableError(self.error)
        for it in self.rows:
            if it["lag_messages"] is not None:
                it["lag_messages"] += 100
        return list(self.rows)

    def command(self, words: list[str]) -> tuple[int, str]:
        """A command."""
        self.commands.append(words)
        return 3, "payments LAGGING slow_processor\nOne processor is slow."


async def settled(app: LiveApp, pilot: Pilot[int]) -> None:
    """Wait until nothing is read or run; what was overtaken by another key is cancelled, and that is no error."""
    while True:
        await pilot.pause()
        if all(it.is_finished for it in app.workers):
            return
        await asyncio.sleep(0.01)


def played(
    fake: Fake,
    play: Callable[[LiveApp, Pilot[int]], Awaitable[None]],
    *,
    every: float = 60.0,
    size: tuple[int, int] = (100, 30),
) -> None:
    """Run the screen, and play."""

    async def whole() -> None:
        app = LiveApp(fake.source(), every_seconds=every)
        async with app.run_test(size=size) as pilot:
            await settled(app, pilot)
            await pilot.pause()
            await play(app, pilot)

    asyncio.run(whole())


def text(app: LiveApp, part: str) -> str:
    """What a part of the screen says."""
    return str(app.query_one(part, Static).render())


def test_it_shows_the_fleet_and_the_chosen_group() -> None:
    """Largest lag first; the partitions follow the cursor; names cannot control the terminal."""

    async def play(app: LiveApp, pilot: Pilot[int]) -> None:
        cells = [[str(it) for it in app.fleet.get_row_at(n)] for n in range(3)]
        assert [it[0] for it in cells] == ["payments ← orders", "billing ← orders", "evil\\x1b[31m[bold]group ← orders"]
        assert [it[2] for it in cells] == ["3,100", "120", "unknown"]
        assert "client-of-payments" in text(app, "#detail")
        await pilot.press("down")
        await settled(app, pilot)
        await pilot.pause()
        assert "client-of-billing" in text(app, "#detail")
        assert "3 groups on topics" in text(app, "#status")
        PICTURES.mkdir(parents=True, exist_ok=True)
        app.save_screenshot(str(PICTURES / "watch-live.svg"))

    played(Fake(), play)


def test_the_keys_triage_capture_and_open_the_runbook() -> None:
    """Of the chosen group; the verdict then stands in the table, and its runbook opens."""
    fake = Fake()

    async def play(app: LiveApp, pilot: Pilot[int]) -> None:
        await pilot.press("r")
        assert "Press t first" in text(app, "#status")
        for key in ("t", "r", "c"):
            await pilot.press(key)
            await settled(app, pilot)
            await pilot.pause()
        assert "One processor is slow." in text(app, "#detail")
        assert str(app.fleet.get_row_at(0)[3]) == "slow_processor"

    played(fake, play)
    assert fake.commands == [
        ["triage", "--cluster", "prod", "--group", "payments"],
        ["runbooks", "show", "slow_processor"],
        ["capture", "--cluster", "prod", "--group", "payments", "--output", "capture-payments-20261121T030000Z"],
    ]


def shown(app: LiveApp) -> list[str]:
    """Names in the table."""
    return [str(app.fleet.get_row_at(number)[0]) for number in range(app.fleet.row_count)]


@pytest.mark.parametrize("size", [(80, 24), (120, 30), (140, 40), (200, 50)])
def test_every_column_fits_at_every_size(size: tuple[int, int]) -> None:
    """The time lag, too; where there is no room for both, the detail takes the place of the fleet, and Esc leads back."""
    fake = Fake()
    fake.rows[0] |= {"time_lag_low": 4321.0, "time_lag_high": 4325.0}
    fake.rows[1] |= {"time_lag_low": 60.0, "time_lag_high": None}

    async def play(app: LiveApp, pilot: Pilot[int]) -> None:
        table = app.fleet
        assert sum(it.get_render_width(table) for it in table.ordered_columns) <= table.size.width
        assert [str(it.label) for it in table.ordered_columns] == ["group ← topic", "behind", "lag", "state", "trend"]
        assert str(table.get_row_at(0)[1]) == "1 h 12 min"
        assert str(table.get_row_at(1)[1]) == "over 1 min"
        assert str(table.get_row_at(0)[0]) == "payments ← orders"
        narrow = size[0] < 140
        assert app.query_one("#side").display is not narrow
        await pilot.press("t")
        await settled(app, pilot)
        await pilot.pause()
        assert app.query_one("#side").display
        assert app.fleet.display is not narrow
        await pilot.press("escape")
        await pilot.pause()
        assert app.fleet.display
        PICTURES.mkdir(parents=True, exist_ok=True)
        app.save_screenshot(str(PICTURES / f"watch-live-{size[0]}.svg"))

    played(fake, play, size=size)


def test_it_sorts_filters_and_explains_itself() -> None:
    """By lag, time lag (what waits for an unknown time first) and name; by a part of a name; `?` names keys and columns."""
    fake = Fake()
    fake.rows = [
        row("b", 900) | {"time_lag_low": 5.0, "time_lag_high": 6.0},
        row("c", 50) | {"time_lag_low": None, "time_lag_high": None},
        row("a", 10) | {"time_lag_low": 600.0, "time_lag_high": 700.0},
    ]

    async def play(app: LiveApp, pilot: Pilot[int]) -> None:
        orders = [shown(app)]
        for _ in range(3):
            await pilot.press("s")
            orders.append(shown(app))
        assert [[it[0] for it in one] for one in orders] == [
            ["b", "c", "a"],
            ["c", "a", "b"],
            ["a", "b", "c"],
            ["b", "c", "a"],
        ]
        await pilot.press("slash", "a", "enter")
        assert shown(app) == ["a ← orders"]
        assert "1 group on topic of 3" in text(app, "#status")
        await pilot.press("escape")
        assert len(shown(app)) == 3
        await pilot.press("question_mark")
        await pilot.pause()
        assert "sort by lag" in text(app, "#detail")

    played(fake, play)


def test_the_cursor_stays_on_its_subscription_when_the_order_changes() -> None:
    """A key must not hit another group because a number has changed."""
    fake = Fake()

    async def play(app: LiveApp, pilot: Pilot[int]) -> None:
        await pilot.press("down")
        fake.rows.reverse()
        app.read()
        await settled(app, pilot)
        await pilot.pause()
        assert app.chosen() is not None
        assert app.chosen()["group"] == "billing"  # type: ignore[index]

    played(fake, play)


def test_a_cluster_that_does_not_answer_is_named_and_asked_again() -> None:
    """What was read before stays on the screen."""
    fake = Fake()

    async def play(app: LiveApp, pilot: Pilot[int]) -> None:
        fake.error = "Kafka at broker:9092 does not answer."
        app.read()
        await settled(app, pilot)
        await pilot.pause()
        assert "broker:9092 does not answer" in text(app, "#status")
        assert app.fleet.row_count == 3

    played(fake, play)


def test_the_keys_answer_while_kafka_hangs() -> None:
    """Reading happens beside the screen."""
    fake, free = Fake(), threading.Event()

    async def play(app: LiveApp, pilot: Pilot[int]) -> None:
        slow = app.source.ranked
        object.__setattr__(app.source, "ranked", lambda: free.wait(20) and slow())
        app.read()
        await pilot.press("space")
        await pilot.pause()
        assert "Paused" in text(app, "#status")
        free.set()

    played(fake, play)


def test_it_does_not_wait_for_a_kafka_that_hangs() -> None:
    """Whoever leaves has left: the prompt is back at once."""
    fake, never = Fake(), threading.Event()

    async def play(app: LiveApp, pilot: Pilot[int]) -> None:
        object.__setattr__(app.source, "ranked", lambda: never.wait(30) and [])
        app.read()
        await pilot.press("q")

    began = time.monotonic()
    played(fake, play)
    assert time.monotonic() - began < 15
    never.set()


def test_it_closes_while_a_read_is_under_way() -> None:
    """What arrives after the screen has gone is dropped: q at the moment of an answer must not end in a traceback."""
    fake = Fake()

    async def play(app: LiveApp, _pilot: Pilot[int]) -> None:
        await app.query_one("#fleet").remove()
        await app.query_one("#detail").remove()
        app.shows_partitions = True
        before = fake.reads
        app.read()
        app.show_partitions()
        await settled(app, _pilot)
        assert app.chosen() is None
        assert fake.reads == before + 1

    played(fake, play)


def test_wrong_use_is_refused_before_the_screen(tmp_path: Path) -> None:
    """Without a terminal, with options of a recording, or without either."""
    (tmp_path / "workbench.toml").write_text('[clusters.prod]\nbootstrap = "127.0.0.1:1"\n[clusters.far]\n')
    check(run_here("watch", "--cluster", "prod", "--live", cwd=tmp_path), 2, "needs a terminal")
    check(run_here("watch", "--cluster", "prod", "--live", "--out", "x", cwd=tmp_path), 2, "records nothing")
    check(run_here("watch", "--cluster", "far", "--live", cwd=tmp_path), 2, "no bootstrap")
    check(run_here("watch", "--cluster", "prod", cwd=tmp_path), 2, "--output is missing")


def test_no_other_command_loads_textual() -> None:
    """The start of a command costs what it needs."""
    code = (
        "import sys; from workbench.cli import root; import workbench.cli.triage, workbench.cli.watch, workbench.cli.snapshot;"
        " assert 'textual' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

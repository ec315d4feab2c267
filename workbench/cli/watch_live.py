"""`workbench watch --live`: the fleet and one group on one screen, read from Kafka; keys triage, capture and open the runbook.

Textual is imported here only, when somebody asks for the screen.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.css.query import NoMatches
from textual.widgets import DataTable, Footer, Header, Input, Static

from workbench.background import in_background
from workbench.errors import WorkbenchError
from workbench.humanize import count, duration, groups_on_topics, one_line, printable
from workbench.masking import masked
from workbench.report.terminal import sparkline

_NARROW = 140  # columns; below, either the fleet or the detail is shown
_MOST_TIMED = 300  # subscriptions whose time lag is looked up at each read
ORDERS = ("lag", "time lag", "name")
_HELP = """Keys
  up, down  choose a subscription
  t  triage of its group      r  runbook of that verdict
  c  save a capture           p  partitions and their owners
  s  sort by lag, time lag or name
  /  show only names with a text; Esc shows all
  space  pause                q  end
  Esc  back to the fleet, on a narrow screen

Columns
  behind  age of the oldest message that waits (at most)
  lag     messages between commit and log end
  state   of the group in Kafka; after t, its verdict
  trend   lag since the screen was opened, red: it grows"""
_KEPT = 120  # reads in a line of blocks: ten minutes at 5 s
Rows = Sequence[dict[str, Any]]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What the screen shows, and what its keys do.

    Attributes:
        name: of the cluster.
        ranked: reads subscriptions, largest lag first (rows of `SnapshotResult.ranked`).
        partitions: reads the partitions of a group (rows of `SnapshotResult.partitions`).
        command: words of a `workbench` command to run, for triage and capture; gives what it printed, and its exit code.
        now: the time shown.
    """

    name: str
    ranked: Callable[[], Rows]
    partitions: Callable[[str], Rows]
    command: Callable[[list[str]], tuple[int, str]]
    now: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))


class LiveApp(App[int]):
    """Left: the subscriptions. Right: the chosen group's partitions, or what a key has found."""

    TITLE = "Workbench"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #fleet { width: 3fr; } #side { width: 2fr; border-left: solid $primary; padding: 0 1; }
    #status { height: 1; background: $panel; padding: 0 1; } #filter { display: none; height: 3; }
    Screen.narrow #side { display: none; } Screen.narrow #fleet { width: 1fr; }
    Screen.narrow.detail #side { display: block; width: 1fr; border-left: none; } Screen.narrow.detail #fleet { display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        ("t", "triage", "Triage"),
        ("c", "capture", "Capture"),
        ("r", "runbook", "Runbook"),
        ("p", "partitions", "Partitions"),
        ("s", "sort", "Sort"),
        ("slash", "filter", "Filter"),
        ("question_mark", "help", "Help"),
        Binding("escape", "leave", "Back", show=False),
        ("space", "pause", "Pause"),
        ("q", "quit", "Quit"),
    ]

    def __init__(self, source: Source, *, every_seconds: float) -> None:
        super().__init__()
        self.source, self.every_seconds = source, every_seconds
        self.rows: list[dict[str, Any]] = []  # that are shown
        self.read_rows: list[dict[str, Any]] = []
        self.trend_width = 16
        self.lags: dict[tuple[str, str | None], deque[float]] = {}
        self.verdicts: dict[str, str] = {}
        self.paused = False
        self.shows_partitions = True
        self.order, self.wanted = ORDERS[0], ""
        self.sub_title = source.name

    def compose(self) -> ComposeResult:
        """Lay the screen out."""
        yield Header(show_clock=False)
        with Horizontal():
            yield DataTable(id="fleet", cursor_type="row", zebra_stripes=True)
            with VerticalScroll(id="side"):
                yield Static("Choose a group.", id="detail", markup=False)
        yield Input(placeholder="part of a group's or topic's name; Enter, or Esc for all", id="filter")
        yield Static("Asking Kafka …", id="status", markup=False)
        yield Footer()

    def on_mount(self) -> None:
        """Begin to read."""
        self.fleet.focus()
        self.fit()
        self.read()
        self.set_interval(self.every_seconds, self.read)

    def on_resize(self) -> None:
        """The terminal has another width: columns that fit, and one of the two halves where there is no room for both."""
        self.fit()
        self.fill()

    def fit(self) -> None:
        """Columns by the width: the name takes what the others leave, and is cut last."""
        with suppress(NoMatches):
            width = self.size.width
            narrow = width < _NARROW
            self.screen.set_class(narrow, "narrow")
            self.trend_width = 8 if narrow else 16
            rest = {"behind": 12, "lag": 9, "state": 19, "trend": self.trend_width}
            mine = width if narrow else width * 3 // 5
            name = max(16, mine - sum(rest.values()) - 2 * (len(rest) + 1) - 2)
            self.fleet.clear(columns=True)
            for title, size in ({"group ← topic": name} | rest).items():
                self.fleet.add_column(title, key=title, width=size)

    @property
    def fleet(self) -> DataTable[Text]:
        """The table of subscriptions."""
        return self.query_one("#fleet", DataTable)

    def chosen(self) -> dict[str, Any] | None:
        """The subscription under the cursor; None when there is none, and while the screen closes under a read."""
        try:
            at = self.fleet.cursor_row
        except NoMatches:
            return None
        return self.rows[at] if 0 <= at < len(self.rows) else None

    @work(exclusive=True, group="read")
    async def read(self) -> None:
        """Read once, in a thread: the keys answer meanwhile."""
        if self.paused:
            return
        began = time.monotonic()
        try:
            rows = list(await _beside(self.source.ranked))
        except WorkbenchError as error:
            self.say(f"{error.message} {error.hint or ''} Trying again in {self.every_seconds:g} s.")
            return
        self.show_rows(rows)
        self.say(
            f"{self.source.now():%H:%M:%S} UTC, {groups_on_topics(len(rows))}, read in {time.monotonic() - began:.1f} s, "
            f"again in {self.every_seconds:g} s"
        )
        if self.shows_partitions:
            self.show_partitions()

    def show_rows(self, rows: list[dict[str, Any]]) -> None:
        """Take what was read."""
        if not self.query("#fleet"):  # the screen is closing
            return
        for row in rows:
            lags = self.lags.setdefault((row["group"], row["topic"]), deque(maxlen=_KEPT))
            lags.append(float("nan") if row["lag_messages"] is None else float(row["lag_messages"]))
        self.read_rows = rows
        self.fill()

    def fill(self) -> None:
        """Show what was read, by filter and order; the cursor stays on its subscription."""
        if not self.query("#fleet"):
            return
        before = self.chosen()
        self.rows = ordered([it for it in self.read_rows if _has(it, self.wanted)], self.order)
        table = self.fleet
        table.clear()
        for row in self.rows:
            lags = self.lags[row["group"], row["topic"]]
            name = printable(row["group"]) + (f" ← {printable(row['topic'])}" if row["topic"] is not None else "")
            state = self.verdicts.get(row["group"]) or str(row["state"]).replace("_", " ")
            trend = Text(_trend(lags, self.trend_width), style=_colour(lags))
            lag = Text(count(row["lag_messages"]), justify="right")
            table.add_row(Text(name), Text(_behind(row), justify="right"), lag, Text(state), trend)
        if before is not None:
            names = [(row["group"], row["topic"]) for row in self.rows]
            with suppress(ValueError):
                table.move_cursor(row=names.index((before["group"], before["topic"])))

    def on_data_table_row_highlighted(self, _event: DataTable.RowHighlighted) -> None:
        """Another subscription was chosen."""
        if self.shows_partitions:
            self.show_partitions()

    @work(exclusive=True, group="side")
    async def show_partitions(self) -> None:
        """Partitions of the chosen group, the largest lag first."""
        row = self.chosen()
        if row is None:
            return
        try:
            parts = list(await _beside(lambda: self.source.partitions(row["group"])))
        except WorkbenchError as error:
            self.detail(error.message)
            return
        parts.sort(key=lambda it: -(it["lag_messages"] if it["lag_messages"] is not None else -1))
        lines = [printable(row["group"])]
        for topic in dict.fromkeys(it["topic"] for it in parts):
            lines += ["", printable(topic), f"{'part':>4} {'lag':>9}  owner"]
            for it in parts:
                if it["topic"] == topic:
                    owner = printable(it["client_id"]) if it["client_id"] else "-"
                    lines.append(f"{it['partition']:>4} {count(it['lag_messages']):>9}  {owner}")
        self.detail("\n".join(lines))

    def action_sort(self) -> None:
        """Take the next order."""
        self.order = ORDERS[(ORDERS.index(self.order) + 1) % len(ORDERS)]
        self.fill()
        self.say(f"Sorted by {self.order}.")

    def action_filter(self) -> None:
        """Ask for a part of a name."""
        box = self.query_one("#filter", Input)
        box.styles.display = "block"
        box.focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Show what has this text in its name."""
        self._filtered(event.value.strip())

    def _filtered(self, wanted: str) -> None:
        self.wanted = wanted
        self.query_one("#filter", Input).styles.display = "none"
        self.fleet.focus()
        self.fill()
        found = groups_on_topics(len(self.rows))
        self.say(f"{found} of {len(self.read_rows):,} with {wanted!r}. Esc shows all." if wanted else f"{found}.")

    def action_leave(self) -> None:
        """Leave the detail of a narrow screen, or else the filter."""
        if self.screen.has_class("narrow") and self.screen.has_class("detail"):
            self.screen.remove_class("detail")
        else:
            self.query_one("#filter", Input).value = ""
            self._filtered("")

    def action_help(self) -> None:
        """Say what the keys and the columns are."""
        self.shows_partitions = False
        self.screen.add_class("detail")
        self.detail(_HELP)

    def action_partitions(self) -> None:
        """Show the partitions again."""
        self.shows_partitions = True
        self.screen.add_class("detail")
        self.show_partitions()

    def action_pause(self) -> None:
        """Stop or resume reading."""
        self.paused = not self.paused
        self.say("Paused. Space continues." if self.paused else "Continuing …")

    def action_triage(self) -> None:
        """Find the cause for the chosen group."""
        if (row := self.chosen()) is not None:
            self.run_command(row["group"], ["triage", "--cluster", self.source.name, "--group", row["group"]], "Triage")

    def action_capture(self) -> None:
        """Save the chosen group's measurements."""
        if (row := self.chosen()) is not None:
            slug = "".join(char if char.isalnum() else "-" for char in row["group"])[:40]
            out = f"capture-{slug}-{self.source.now():%Y%m%dT%H%M%SZ}"
            words = ["capture", "--cluster", self.source.name, "--group", row["group"], "--output", out]
            self.run_command(row["group"], words, f"Capture into {out}")

    def action_runbook(self) -> None:
        """Show the runbook of the verdict that the last triage of the group gave."""
        row = self.chosen()
        verdict = self.verdicts.get(row["group"]) if row is not None else None
        if row is None or verdict is None:
            self.say("Press t first: the runbook is that of the verdict.")
            return
        self.run_command(row["group"], ["runbooks", "show", verdict], "Runbook")

    @work(exclusive=True, group="side")
    async def run_command(self, group: str, words: list[str], title: str) -> None:
        """Run a command beside the screen, and show what it prints."""
        self.shows_partitions = False
        self.screen.add_class("detail")
        self.detail(f"{title} of {printable(group)} …")
        began = time.monotonic()
        code, printed = await _beside(lambda: self.source.command(words))
        if words[0] == "triage":
            self._keep_verdict(group, printed)
        self.detail(printed.strip() or f"{title}: done.")
        self.say(
            f"{title} of {printable(group)} took {time.monotonic() - began:.1f} s, exit code {code}. p: partitions"
        )

    def _keep_verdict(self, group: str, printed: str) -> None:
        from workbench.triage.verdict_names import Verdict

        words = set(printed.split())
        found = next((str(it) for it in Verdict if str(it) in words), None)
        if found is not None:
            self.verdicts[group] = found
            self.fill()

    def detail(self, text: str) -> None:
        """Show a text on the right."""
        with suppress(NoMatches):  # the screen is closing
            self.query_one("#detail", Static).update(Text("\n".join(one_line(masked(it)) for it in text.splitlines())))

    def say(self, text: str) -> None:
        """Show a line at the bottom."""
        with suppress(NoMatches):
            self.query_one("#status", Static).update(Text(one_line(masked(text))))


async def _beside(call: Callable[[], T]) -> T:
    """Run it in a thread that q does not wait for: Kafka may hang."""
    return await asyncio.wrap_future(in_background(call, "watch"))


def ordered(rows: list[dict[str, Any]], by: str) -> list[dict[str, Any]]:
    """Rows by lag, time lag or name; what waits for an unknown time may be the worst, and comes first."""

    def late(row: dict[str, Any]) -> float:
        low = row.get("time_lag_low")
        return low if low is not None else float("inf") if row["lag_messages"] else -1.0

    if by == "name":
        return sorted(rows, key=lambda it: (it["group"], it["topic"] or ""))
    lag = {"lag": lambda it: -1 if it["lag_messages"] is None else it["lag_messages"], "time lag": late}[by]
    return sorted(rows, key=lambda it: (-lag(it), it["group"], it["topic"] or ""))


def _has(row: dict[str, Any], wanted: str) -> bool:
    return wanted.lower() in f"{row['group']} {row['topic'] or ''}".lower()


def _behind(row: dict[str, Any]) -> str:
    """The time lag, at least; a dash where it was not asked for."""
    if "time_lag_low" not in row:
        return "-"
    low, high = row["time_lag_low"], row["time_lag_high"]
    if low is None:
        return "unknown" if row["lag_messages"] else "-"
    return f"over {duration(low)}" if high is None else duration(high)


def _trend(lags: Sequence[float], width: int) -> str:
    """Blocks of the last reads; a lag that does not change is said to be steady."""
    known = [lag for lag in lags if lag == lag]
    if len(known) < 2:
        return ""
    return "steady" if min(known) == max(known) else sparkline(np.array(lags), width=width)


def _colour(lags: Sequence[float]) -> str:
    """Red while it grows, green while it shrinks; the blocks show the same."""
    known = [lag for lag in lags if lag == lag]
    if len(known) < 2 or known[-1] == known[0]:
        return ""
    return "red" if known[-1] > known[0] else "green"


def live(cluster: str, *, groups: Sequence[str], every_seconds: float, config: Path | None) -> int:
    """Run the screen until somebody ends it."""
    from workbench.api.groups_now import snapshot
    from workbench.settings import load_settings

    config = load_settings(config).file

    number = 0

    def ranked() -> Rows:
        nonlocal number
        # Ages are looked up in the logs: not at each read of a large cluster.
        by: Literal["lag", "time_lag"] = "time_lag" if 0 < number <= _MOST_TIMED else "lag"
        found = snapshot(cluster=cluster, groups=groups, sort=by, config=config).ranked or []
        number = len(found)
        return found

    def partitions(group: str) -> Rows:
        return snapshot(cluster=cluster, groups=[group], config=config).partitions

    def command(words: list[str]) -> tuple[int, str]:
        import os
        import subprocess

        own = ["--config", str(config)] if config is not None and words[0] in ("triage", "capture") else []
        done = subprocess.run(
            [sys.executable, "-c", "from workbench.cli import main; main()", *words, *own],
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            check=False,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "COLUMNS": "80"},
        )
        return done.returncode, done.stdout or done.stderr

    app = LiveApp(
        Source(name=cluster, ranked=ranked, partitions=partitions, command=command), every_seconds=every_seconds
    )
    app.run()
    return app.return_code or 0

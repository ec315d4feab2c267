"""The head of the scheduled report: what is new, worse, still behind and fixed, and nothing that nobody knows."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.report.test_handoff import document
from workbench.report.error_budget import Budget
from workbench.report.health_report import Health, HealthLine, assess
from workbench.report.html_report import environment
from workbench.report.send_report import alerts_of, chat_text
from workbench.report.sizing_advice import SizingAdvice
from workbench.triage.finding import Finding, Scope, TimeLag
from workbench.triage.owner_links_commands import WAITING
from workbench.triage.verdict_names import State, Verdict

END = datetime(2026, 11, 25, 3, tzinfo=UTC)
DAY = timedelta(days=1)
VERDICTS = {
    State.LAGGING: Verdict.SLOW_PROCESSOR,
    State.HEALTHY: Verdict.HEALTHY,
    State.CANNOT_TELL: Verdict.CANNOT_TELL,
}


def found(group: str, state: State = State.LAGGING, seconds: float | None = 600.0, **values: Any) -> Finding:
    """A finding about a group."""
    lag = TimeLag(seconds=seconds, method="exact" if seconds is not None else "unknown")
    return Finding(
        cluster="prod", group=group, topic="orders", verdict=VERDICTS[state], state=state, headline="x", scope=Scope(), time_lag=lag,
        lag_messages=10, arrival_per_second=None, lag_slope=None, eta_drain_seconds=None, eta_loss_seconds=None, path=(),
        features=cast(Any, None), **values,
    )  # fmt: skip


def report(
    *findings: Finding,
    before: Any = None,
    end: datetime = END,
    kept: timedelta = DAY,
    spent: dict[Any, Any] | None = None,
) -> Health:
    """The report of one day, after another one's."""
    samples = SimpleNamespace()
    capture: Any = SimpleNamespace(samples=samples, info=SimpleNamespace(cluster="prod"), folder=None, is_known=True)
    window = SimpleNamespace(seconds=900.0, to_json=dict)
    triage: Any = SimpleNamespace(findings=findings, not_judged=(), incomplete=(), window=window, source="test")
    return assess(capture, triage, spent or {}, start=end - kept, end=end, previous=before, run_id="r")


@pytest.fixture(autouse=True)
def _without_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes and dead letters have tests of their own."""
    sizing = SizingAdvice(partitions=0, brokers=None, advice=(), unknown=())
    monkeypatch.setattr("workbench.report.health_report.sizing_of", lambda *_: sizing)
    monkeypatch.setattr("workbench.report.health_report.dead_letters_in", lambda *_, **__: ())


def page(health: Health) -> str:
    """Its part of the page."""
    return environment().get_template("health.html.j2").render(health=health, detailed=[])


def groups(health: Health) -> dict[str, list[str]]:
    """Groups by news."""
    return {kind: [it.finding.group for it in lines] for kind, lines in health.news.items()}


def test_the_head_says_what_is_new_worse_still_behind_and_fixed() -> None:
    """Against the run of the day before; what cannot be told is neither fixed nor new."""
    first = report(
        found("old"), found("grew"), found("ended"), found("calm", State.HEALTHY, 0.1), found("broke", State.HEALTHY, 0.1),
        found("dark"), end=END - DAY,
    )  # fmt: skip
    assert first.news == {}
    second = report(
        found("old"), found("grew", seconds=6000.0), found("ended", State.HEALTHY, 0.1), found("calm", State.HEALTHY, 0.1),
        found("broke"), found("dark", State.CANNOT_TELL, None), found("fresh"), before=first.to_json(),
    )  # fmt: skip
    assert groups(second) == {"new": ["broke", "fresh"], "worse": ["grew"], "still": ["old"], "fixed": ["ended"]}
    words = page(second)
    assert words.index("New: 2") < words.index("Worse: 1") < words.index("Still behind: 1") < words.index("Fixed: 1")
    assert words.index("Fixed: 1") < words.index("The fleet, worst first")
    assert "grew ← orders: slow processor, 1 h 40 min behind for 1 d, was 10 min" in words
    assert "ended ← orders: was 10 min behind" in words


def test_days_add_up_over_the_runs() -> None:
    """Four runs in a row are three days; a run of an earlier version, without that field, counts from its end."""
    before: Any = None
    for day in range(4):
        health = report(found("old"), before=before, end=END + day * DAY)
        before = health.to_json()
    [line] = health.lines
    assert line.lagging_since == END
    assert line.news_words(health.end).endswith("10 min behind for 3 days, was 10 min")
    del before["lines"][0]["lagging_since"]
    [line] = report(found("old"), before=before, end=END + 5 * DAY).lines
    assert line.lagging_since == END + 3 * DAY
    before["lines"][0]["lagging_since"] = "yesterday"
    assert report(found("old"), before=before, end=END + 5 * DAY).lines[0].lagging_since == END + 3 * DAY


def test_a_planned_replay_stands_apart() -> None:
    """It is behind by design: no news, not in the table of the fleet, not counted as lagging."""
    waiting = found("re-1", muted=WAITING)
    health = report(
        waiting, found("calm", State.HEALTHY, 0.1), before=report(found("calm", State.HEALTHY, 0.1)).to_json()
    )
    assert health.news == {}
    assert health.sentence == "2 groups on topics: 1 healthy, 1 planned replay."
    words = page(health)
    assert "wait for their consumers, and alarm nobody: re-1 ← orders." in words
    assert words.count("re-1") == 1


def test_no_budget_that_nobody_can_judge_is_said_to_hold() -> None:
    """Neither in the page nor in the chat, whether the period is too short or nothing was measured."""
    for health in (report(found("a"), kept=timedelta(hours=1)), report(found("a"))):
        words = page(health)
        assert "are exceeded" not in words and "exceeded" not in words and "Error budget</th>" not in words
        assert "budget" not in chat_text({**document(), **health.to_json(), "cluster": "prod"})
    well = Budget(
        period_seconds=86_400, known_seconds=86_400, late_seconds=0, allowed_seconds=8.6, resolution_seconds=60
    )
    over = replace(well, late_seconds=600)
    health = report(found("a"), found("b"), found("c"), spent={("a", "orders"): over, ("b", "orders"): well})
    assert "1 of 2 error budgets has been exceeded" in page(health)
    assert "For 1 it cannot be judged." in page(health)
    assert "1 of 2 over their error budget" in chat_text(health.to_json() | {"cluster": "prod"})


def test_columns_and_headings_that_tell_nothing_are_left_out() -> None:
    """One kind of group, no run before, no advice on size; names are text; each cell of a card has its name."""
    hostile = found("<img src=x>", kind="classic")
    words = page(report(hostile, found("b", kind="classic")))
    for without in (">Kind<", ">Trend<", "<h3>Size</h3>", "<img"):
        assert without not in words, without
    assert 'class="cards"' in words and 'data-label="Time lag"' in words
    assert ">Kind<" in page(report(hostile, found("b", kind="share")))


def test_the_chat_counts_news() -> None:
    """In its first line."""
    before = report(found("old"), end=END - DAY).to_json()
    text = chat_text({**report(found("old"), found("fresh"), before=before).to_json(), "cluster": "prod"})
    assert text.splitlines()[0] == "prod: 2 lagging; 1 new, 1 still."


def test_a_line_without_a_run_before_has_no_news() -> None:
    """Nothing is new in a first report."""
    assert HealthLine(finding=found("a"), budget=None, trend=None).news is None


def test_a_message_says_an_age_as_the_report_does() -> None:
    """ "About" where it is a guess; a result of an older version has its seconds alone."""
    guess = TimeLag(seconds=780.0, method="extrapolated_capped", low=180.0)
    told = {**report(replace(found("a"), time_lag=guess)).to_json(), "cluster": "prod", "run_id": "r"}
    assert "about 13 min behind, slow processor" in chat_text(told)
    told["judged"] = {"start": END.isoformat(), "end": END.isoformat()}
    assert alerts_of(told)[0]["annotations"]["time_lag"] == "about 13 min"
    del told["lines"][0]["time_lag_words"]
    assert "orders: 13 min behind" in chat_text(told)

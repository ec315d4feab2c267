"""Rules of the health report: the error budget against a naive count, trends, and nothing unknown passed off as well."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from evaluation.stories import END, THRESHOLDS, TIMES, WINDOW, Story, growing, lagging, values
from tests.reference.valid import valid
from tests.triage.brokers import WINDOW as BROKERS_WINDOW
from tests.triage.test_blame_heavy_readers import cluster as hogged
from tests.triage.test_blame_heavy_readers import hog
from workbench.api.reports import _before_kafka, _on_brokers
from workbench.collect.capture import Capture, new_info
from workbench.report import health_report
from workbench.report.error_budget import Budget, budgets
from workbench.report.health_audit_lines import StreamLine, stream_lines
from workbench.report.html_report import render_html
from workbench.samples import SERIES_ORDER, SampleBatch, concat
from workbench.settings_of_groups import Expectations, GroupSettings
from workbench.triage.triage_engine import triage

pytestmark = pytest.mark.jvm

DAY = 86_400.0


def capture_of(*stories: Story) -> Capture:
    """A capture of these subscriptions."""
    info = new_info(cluster="test", source="test", profiles=["runtime"], window=WINDOW, thresholds=THRESHOLDS)
    return Capture(info=info, samples=concat([story.samples() for story in stories]))


def assessed(spark: Any, capture: Capture, previous: dict[str, Any] | None = None) -> health_report.Health:
    """The health of all of the capture."""
    start, end = WINDOW.baseline_start, WINDOW.end
    objective = THRESHOLDS.time_lag_objective_seconds
    spent = budgets(capture.samples, start=start, end=end, objective_seconds=objective)
    return health_report.assess(
        capture, triage(capture, spark), spent, start=start, end=end, previous=previous, run_id="now"
    )


def test_the_error_budget_is_what_a_naive_count_says(spark: Any) -> None:
    """Late as soon as one partition is; seconds in which nobody measured are neither late nor well."""
    late = growing(0.5, start=0.0, since=-90.0)
    story = Story(group="a", topic="t").partition(0, time_lag=0.1).partition(1, time_lag=late).people()
    quiet = Story(group="b", topic="t").partition(0, time_lag=0.1, keep=TIMES < -60).people()
    found = assessed(spark, capture_of(story, quiet))
    by_group = {line.finding.group: line.budget for line in found.lines}
    inside = TIMES < 0  # the end itself belongs to the next period
    over = int(((values(late) > THRESHOLDS.time_lag_objective_seconds) & inside).sum())
    a, b = by_group["a"], by_group["b"]
    assert a is not None
    assert b is not None
    assert a.late_seconds == over * a.resolution_seconds
    assert replace(a, period_seconds=DAY).holds is False
    assert b.late_seconds == 0
    assert b.known_share < 0.9
    assert replace(b, period_seconds=DAY).holds is None


def test_a_period_of_minutes_has_no_error_budget(spark: Any) -> None:
    """0.01 % of a capture of seconds are milliseconds: nothing is exceeded or kept, and the page says why."""
    late = growing(0.5, start=0.0, since=-90.0)
    found = assessed(spark, capture_of(Story(group="a", topic="t").partition(0, time_lag=late).people()))
    [line] = found.lines
    assert line.budget is not None
    assert line.budget.late_seconds > 0
    assert line.budget.holds is None
    told = r"late for [0-9a-z ]+ of [0-9a-z ]+ \(an error budget needs at least 3 h\)"
    assert re.fullmatch(told, line.budget_words), line.budget_words
    assert (found.over_budget, found.budget_unknown) == (0, 1)
    page = render_html(found.triage, found.capture, health=found)
    assert "is too short, they need 3 h or more." in page
    assert " allowed" not in page


def _holds(budget: Budget | None) -> bool | None:
    """Whether it would hold if a whole day, which is long enough for a budget, were like these minutes."""
    assert budget is not None
    times = DAY / budget.period_seconds
    scaled = {
        name: getattr(budget, name) * times
        for name in ("period_seconds", "known_seconds", "late_seconds", "allowed_seconds")
    }
    return replace(budget, **scaled).holds


def test_a_lag_exporter_alone_has_a_budget(spark: Any) -> None:
    """The log's end says when each message was produced: late where a naive count says so, to a sample."""
    backlog = growing(20.0, start=5.0, since=-90.0)  # of 50/s: after t seconds the oldest message is 0.4 t old
    story = Story(group="a", topic="t").partition(0, lag=5.0, time_lag=None).partition(1, lag=backlog, time_lag=None)
    well = Story(group="b", topic="t").all_partitions(time_lag=None)
    # Behind from the first sample on: how far is not known until it is surely over the objective.
    old = Story(group="c", topic="t").partition(0, lag=400.0, time_lag=None)
    stands = Story(group="d", topic="t").partition(
        0, lag=lambda times: 400.0 + 50.0 * (times - times[0]), time_lag=None
    )
    found = assessed(spark, capture_of(story.people(), well.people(), old.people(), stands.people()))
    budget = {line.finding.group: line.budget for line in found.lines}
    a, b, c, d = (budget[name] for name in "abcd")
    assert a is not None and b is not None and c is not None and d is not None
    over = ((values(backlog) / 50.0 > THRESHOLDS.time_lag_objective_seconds) & (TIMES < 0)).sum() * a.resolution_seconds
    assert abs(a.late_seconds - over) <= 2 * a.resolution_seconds
    assert (_holds(a), a.known_share) == (False, 1.0)
    assert (b.late_seconds, _holds(b)) == (0, True)
    # 8 s before the data begin: the first four samples are not known, and then it is seen to be 8 s.
    assert c.late_seconds == 0 and 0.9 <= c.known_share < 1.0
    # It stands still: not known until it has waited in the data for as long as the objective.
    assert _holds(d) is False
    assert d.late_seconds == pytest.approx(180 - THRESHOLDS.time_lag_objective_seconds, abs=2 * d.resolution_seconds)


def test_the_budget_of_a_lag_exporter_is_judged_by_group(spark: Any) -> None:
    """By objective and commit interval of the settings."""
    stories = [
        Story(group=name, topic="t").partition(0, lag=1000.0, time_lag=None).people() for name in ("a", "slow", "sink")
    ]
    expected = Expectations(
        {
            "slow": GroupSettings(time_lag_objective=timedelta(seconds=25)),
            "sink": GroupSettings(commit_every=timedelta(seconds=15)),
        }
    )
    found = budgets(
        capture_of(*stories).samples,
        start=WINDOW.baseline_start,
        end=WINDOW.end,
        objective_seconds=10.0,
        expectations=expected,
    )
    assert {group: _holds(it) for (group, _), it in found.items()} == {"a": False, "slow": True, "sink": True}
    assert all(found[name, "t"].late_seconds == 0 for name in ("slow", "sink"))


@pytest.mark.parametrize("told", ["before and after", "of the other partition", "of the whole group"])
def test_a_time_without_consumers_counts_by_their_offsets(spark: Any, told: str) -> None:
    """Their own pages went with them, for 72 minutes of a day: that nobody has told of them does not mean that nobody was late."""
    at = np.arange(0, 86_401, 60)
    down = (at >= 36_000) & (at < 36_000 + 72 * 60)
    end = 1e6 + 10.0 * at
    commit = np.where(down, end[600], end)
    times = round((END.timestamp() - DAY) * 1e6) + at * 1_000_000
    batch = SampleBatch("test", "test")
    for partition in (0, 1):
        labels = {"topic": "t", "partition": partition, "group": "g"}
        batch.add("log_end_offset", labels | {"group": None}, times, end)
        batch.add("committed_offset", labels, times, commit)
        if told == "of the other partition" and partition == 1:
            batch.add("time_lag", labels, times, np.full(len(at), np.nan))  # as an exporter that does not know it
            continue
        whole = {"partition": None} if told == "of the whole group" else {}
        batch.add("time_lag", labels | whole | {"member": f"m-{partition}"}, times[~down], np.zeros((~down).sum()))
    samples = batch.to_arrow().sort_by([(name, "ascending") for name in (*SERIES_ORDER, "ts")])
    found = budgets(samples, start=END - timedelta(days=1), end=END, objective_seconds=120.0)["g", "t"]
    assert found.holds is False
    assert found.late_seconds == pytest.approx(70 * 60, abs=120)
    assert found.known_share == pytest.approx(1.0, abs=0.01)


def test_without_lag_and_time_lag_the_budget_cannot_be_told(spark: Any) -> None:
    """Nothing says how old the messages are."""
    story = Story(group="a", topic="t").add("consumer_lag", 5.0, group="a", topic="t", partition=0).people()
    found = assessed(spark, capture_of(story))
    [line] = found.lines
    assert line.budget is None
    assert "cannot tell" in line.budget_words
    assert found.budget_unknown == 1


@pytest.mark.parametrize(
    ("known", "late", "holds"), [(100, 0, True), (80, 0, None), (10, 5, False), (100, 0.009, True)]
)
def test_over_the_budget_can_be_known_when_within_cannot(known: float, late: float, holds: bool | None) -> None:
    """Too little measured to say "within" may be enough to say "over"."""
    part = DAY / 100
    it = Budget(
        period_seconds=DAY,
        known_seconds=known * part,
        late_seconds=late * part,
        allowed_seconds=DAY * (1 - 0.9999),
        resolution_seconds=1,
    )
    assert it.holds is holds


def test_trends_tell_new_worse_recovered_and_gone(spark: Any) -> None:
    """Against the result of the run before, read back from its JSON."""
    sick = lagging(Story(group="sick", topic="t")).calm()
    well = Story(group="well", topic="t").all_partitions().calm()
    first = assessed(spark, capture_of(sick, well, Story(group="gone", topic="t").all_partitions().calm()))
    before = valid("health", first.to_json())
    assert all(line.trend is None for line in first.lines)
    for line in before["lines"]:
        line["state"] = {"sick": "healthy", "well": "lagging"}.get(line["group"], line["state"])
    second = assessed(
        spark, capture_of(sick, well, Story(group="fresh", topic="t").all_partitions().calm()), previous=before
    )
    assert {line.finding.group: line.trend for line in second.lines} == {
        "sick": "worse",
        "well": "recovered",
        "fresh": "new",
    }
    assert second.gone == ("gone ← t",)
    assert second.previous_run == "now"
    assert second.compared_with.endswith("UTC, 0 s earlier")
    assert str(second.end.year) in second.compared_with
    assert second.exit_code == 3


def test_the_report_is_small_and_names_everything_for_a_hundred_subscriptions(spark: Any, tmp_path: Path) -> None:
    """Every one is in the table and in the JSON, whether it has a picture or not; at most 1.5 MB."""
    stories = []
    for number in range(100):
        story = Story(group=f"g{number}", topic="t", partitions=2, members=1)
        stories.append(lagging(story).calm() if number % 10 == 0 else story.all_partitions().people())
    found = assessed(spark, capture_of(*stories))
    page = render_html(found.triage, found.capture, health=found)
    assert len(page.encode()) <= 1_500_000
    assert len(found.to_json()["lines"]) == 100
    assert all(f">g{n} ← t<" in page for n in range(100))
    assert found.states["lagging"] == 10
    assert found.end - found.start == timedelta(seconds=180)
    assert found.end == END


def test_dead_letters_have_a_section(spark: Any) -> None:
    """Their number and who reads them, in HTML, JSON and text; names are escaped; without such a topic there is no section."""
    from tests.report.test_dead_letters import samples

    plain = capture_of(Story(group="a", topic="t").all_partitions().calm())
    assert "Dead letters" not in render_html(triage(plain, spark), plain, health=assessed(spark, plain))
    times = [WINDOW.baseline_start, WINDOW.end]
    letters = samples("<b>-dlt", [5, 9])
    at = [int(it.timestamp() * 1e6) for it in times]
    moved = [at[0] if row["value"] == 5 else at[1] for row in letters.to_pylist()]
    letters = letters.set_column(
        letters.schema.get_field_index("ts"),
        letters.schema.field("ts"),
        pa.array(moved, letters.schema.field("ts").type),
    )
    capture = Capture(info=plain.info, samples=concat([plain.samples, letters]))
    found = assessed(spark, capture)
    assert [it.new for it in found.dead_letters] == [8]
    page = render_html(found.triage, capture, health=found)
    assert "&lt;b&gt;-dlt" in page and "<b>-dlt" not in page
    assert "Never looked at" in page and "Never looked at" in health_report.overview(found)
    assert found.to_json()["dead_letters"][0]["new"] == 8


def test_what_audits_say_has_a_section_and_decides_the_exit_code(spark: Any) -> None:
    """Losses are findings; what cannot be told is no all-clear; who lags where records are lost is named; names are escaped."""
    plain = capture_of(Story(group="a", topic="t").all_partitions().calm())
    calm = assessed(spark, plain)
    assert calm.exit_code == 0 and "Did everything arrive" not in render_html(calm.triage, plain, health=calm)
    whole = {"windows": 9, "lost": 0, "doubled": 0, "others": 0, "missing_at_most": 0, "open_windows": 0, "edge": None}
    rows = [
        {**whole, "stream": "ok"},
        {**whole, "stream": "<b>", "lost": 40, "doubled": 2, "edge": "gateway → collector"},
        {**whole, "stream": "open", "missing_at_most": 7, "open_windows": 1},
    ]
    lines = stream_lines("orders", rows, {("late", "<b>"), ("other", "x")})
    assert [it.stream for it in lines] == ["<b>", "open", "ok"]
    assert lines[0].words == "40 records lost and 2 records doubled, at gateway → collector; late also lags there"
    assert lines[1].words == "complete; up to 7 more may be missing; 1 window is not final"
    found = replace(calm, arrivals=tuple(lines))
    page = render_html(found.triage, plain, health=found)
    assert "Did everything arrive?" in page and "&lt;b&gt;" in page and "<b>" not in page.partition("Did everything")[2]
    assert (found.exit_code, "40 records lost" in health_report.overview(found)) == (3, True)
    assert found.to_json()["arrivals"][0]["lost"] == 40
    assert replace(calm, arrivals=tuple(lines[1:])).exit_code == 4
    broken = StreamLine(audit="orders", stream=None, problem="The cluster has no topic.")
    assert replace(calm, arrivals=(broken,)).exit_code == 4
    assert replace(calm, arrivals=tuple(lines[2:])).exit_code == 0


def upstream_tables(age: float, *, name: str = "agent-7") -> pa.Table:
    """An agent with a backlog of this age, and a gateway whose breaker was open for three minutes before the last two."""
    batch, end = SampleBatch("test", "ours"), WINDOW.end.timestamp()
    times = [round((end - 15 * at) * 1e6) for at in range(40)][::-1]
    batch.add("disk_backlog_age", {"member": name}, times, [age] * 40)
    is_open = [float(-300 < at / 1e6 - end <= -120) for at in times]
    for state, shown in (("open", is_open), ("closed", [1 - it for it in is_open])):
        batch.add("breaker_state", {"member": "gw-1", "queue": "normal"}, times, shown, stat=state)
    for outcome, rate in (("ok", 900.0), ("failed", 9.0)):
        sent = [rate * at for at in range(40)]
        batch.add("gateway_sends", {"member": "gw-1", "queue": "normal"}, times, sent, stat=outcome)
    return batch.to_arrow()


def test_what_stands_before_kafka_has_a_section_only_where_somebody_tells_of_it(spark: Any) -> None:
    """Held back at the end is a finding; a half that nobody tells is said and no doubt; names are escaped; the document has it."""
    plain = capture_of(Story(group="a", topic="t").all_partitions().calm())
    calm = assessed(spark, plain)

    def of(*tables: pa.Table) -> health_report.Health:
        recorded = replace(plain, samples=concat([plain.samples, *tables]))
        told = _before_kafka(recorded, WINDOW, WINDOW.baseline_start, WINDOW.end, "")
        return replace(calm, before_kafka=told)

    nobody, young, late = of(), of(upstream_tables(3.0)), of(upstream_tables(900.0, name="<b>\x1b"))
    assert nobody.before_kafka is None and nobody.exit_code == 0
    assert "Before Kafka" not in render_html(nobody.triage, plain, health=nobody)
    assert "Before Kafka" not in health_report.overview(nobody)
    assert young.before_kafka is not None
    assert young.before_kafka.sentence == (
        "1 gateway tells of its breaker, 1 process tells whether records wait. All is well."
    )
    assert (young.exit_code, late.exit_code) == (0, 3)
    page = render_html(late.triage, plain, health=late).partition("Before Kafka")[2]
    assert "&lt;b&gt;" in page and "<b>" not in page and "\x1b" not in page
    assert "the oldest 15 min old" in page and "the oldest 15 min old" in health_report.overview(late)
    [line] = valid("health", late.to_json())["before_kafka"]["lines"]
    assert (line["what"], line["seconds"]) == ("disk", 900.0)
    agents = of(upstream_tables(3.0).filter(pc.equal(upstream_tables(3.0)["signal"], "disk_backlog_age")))
    assert agents.exit_code == 0
    assert "cannot tell: no gateway tells of its breaker" in render_html(agents.triage, plain, health=agents)
    half = SampleBatch("test", "ours")
    half.add("gateway_answers", {"member": "gw-2"}, [round(WINDOW.end.timestamp() * 1e6)], [9.0], stat="429")
    assert of(upstream_tables(3.0), half.to_arrow()).exit_code == 4


def test_a_cause_on_a_broker_is_one_line_with_everybody_that_it_hits(spark: Any) -> None:
    """Who slows whom, before the fleet; a name in it is text; brokers in trouble are findings."""
    plain = capture_of(Story(group="a", topic="t").all_partitions().calm())
    calm = assessed(spark, plain)
    assert calm.exit_code == 0 and "On brokers" not in render_html(calm.triage, plain, health=calm)
    made = hogged()
    hog(made, 1, name="<b>hog")
    recorded = replace(plain, samples=made.samples(), groups=made.groups())
    lines, unsure = _on_brokers(recorded, BROKERS_WINDOW.baseline_start, BROKERS_WINDOW.end)
    assert unsure is None
    assert [(it.verdict, it.brokers, set(it.groups)) for it in lines] == [
        ("slows_others", (1,), {"g10", "g11", "g12", "g13"})
    ]
    assert lines[0].command is not None and "client_id" not in lines[0].headline
    found = replace(calm, brokers=tuple(lines))
    page = render_html(found.triage, plain, health=found)
    assert "<b>hog" not in page and "&lt;b&gt;hog" in page and "hits 4 groups" in page
    assert page.index("On brokers") < page.index("The fleet, worst first")
    assert (found.exit_code, found.held_up_by("g12"), found.held_up_by("a")) == (3, lines[0].headline, None)
    assert "1 cause on brokers." in found.sentence and "On brokers:" in health_report.overview(found)
    assert found.to_json()["brokers"][0]["groups"] == list(lines[0].groups)
    assert _on_brokers(plain, WINDOW.baseline_start, WINDOW.end) == ([], None)  # nothing measures a broker
    short = BROKERS_WINDOW.end - timedelta(seconds=60)
    nothing, why = _on_brokers(recorded, short, BROKERS_WINDOW.end)
    assert nothing == [] and why == "Cannot tell: there is no time before the window to compare with."
    open_one = replace(calm, brokers_unsure=why)
    assert "Who slows whom: Cannot tell" in render_html(calm.triage, plain, health=open_one)
    assert why in health_report.overview(open_one) and open_one.to_json()["brokers_unsure"] == why


def test_of_thousands_of_complete_streams_a_few_are_shown() -> None:
    """And every one that is not."""
    whole = {"windows": 9, "lost": 0, "doubled": 0, "others": 0, "missing_at_most": 0, "open_windows": 0, "edge": None}
    rows = [{**whole, "stream": f"s{number}", "lost": number % 100 == 0} for number in range(4000)]
    found = stream_lines("a", rows, ())
    assert (len(found), all(it.lost for it in found)) == (40, True)
    assert len(stream_lines("a", [{**it, "lost": 0} for it in rows], ())) == 20

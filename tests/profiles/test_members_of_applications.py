"""Rules of members that are parts of an application (subtasks of a Flink job): the settings name the application."""

from __future__ import annotations

import pytest

from tests.profiles.pages import PAGES
from workbench.collect.scrape import Page, page_series
from workbench.collect.source_join import with_groups
from workbench.profiles import load_profile
from workbench.profiles.mapping_rule import first_of_form


@pytest.mark.parametrize("job", ["pay-app", "pay_app"])
def test_the_parts_of_an_application_have_its_group(job: str) -> None:
    """Also where the reporter writes its dashes as underscores, and what the job tells as a whole."""
    profile = load_profile("flink")
    page = PAGES["flink"].replace("pay-app", job)
    [series] = page_series(Page(url="http://page", taken_at=1000.0, text=page), [profile], cluster="c")
    rows = with_groups(series, profile, {"pay-app": "pay"}).to_samples().to_pylist()
    assert {row["group"] for row in rows} == {"pay"}
    assert {row["member"] for row in rows if row["signal"] != "restore_time"} == {f"{job}-0"}
    assert {row["member"] for row in rows if row["signal"] == "restore_time"} == {job}


def test_the_application_is_what_its_form_begins_with() -> None:
    """Its own name may hold what lies between two places; what has not the form is a name itself."""
    form = load_profile("flink").member_form or ""
    names = ("pay-app-3", "pay_app-12", "pay")
    assert [first_of_form(form, it) for it in names] == ["pay-app", "pay_app", "pay"]


def test_nothing_comes_into_a_sources_task() -> None:
    """Its records are those of its operator: the zero of the task is left out, and each task has one count."""
    profile = load_profile("flink")
    [series] = page_series(Page(url="http://page", taken_at=1000.0, text=PAGES["flink"]), [profile], cluster="c")
    rows = series.to_samples().to_pylist()
    counts = {
        row["processor"]: row["value"] for row in rows if (row["signal"], row["stat"]) == ("process_time", "count")
    }
    assert counts == {"Source:_orders": 1436.0, "Sink:_write": 1432.0}
    assert sum(row["stat"] == "count" for row in rows) == len(counts)

"""What the pages say: whom an incident concerns, what is old, who has a partition, and what can be done from there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.serve.serving import HOSTILE, TOKEN, Office, Running, alert, judged, running
from tests.serve.test_incidents import post
from tests.triage.findings import finding
from workbench.collect.capture import Capture, new_info
from workbench.samples import GROUPS_SCHEMA, concat
from workbench.serve import fleet_verdicts
from workbench.serve.group_detail import packed, unpacked
from workbench.serve.judge_groups import reduced
from workbench.serve.kept_verdict import Judged
from workbench.triage.finding import TimeLag


@pytest.fixture
def office(tmp_path: Path) -> Office:
    """A worker without threads."""
    return Office(tmp_path, cluster="prod")


@pytest.fixture
def server(office: Office) -> Iterator[Running]:
    """Its server."""
    with running(office, threads=False) as found:
        yield found


class Person(requests.Session):
    """A browser that runs no script."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url
        self.headers["Accept"] = "text/html"
        self.post(f"{url}/sign-in", data={"token": TOKEN}, timeout=10).raise_for_status()

    def see(self, path: str, status: int = 200, **values: str) -> str:
        """A page's text."""
        answer = self.get(self.url + path, params=values, timeout=10)
        assert answer.status_code == status, answer.text
        return answer.text


def told(page: str) -> str:
    """What is read: without tags, blanks as one."""
    return " ".join(re.sub(r"<[^>]*>", " ", page).split())


def test_old_verdicts_are_marked_and_present_ones_are_not(office: Office, server: Running) -> None:
    """After a night without triage the page does not say "lagging" as if it were so now; it has its own time."""
    fleet_verdicts.record(office.store, "prod", [judged("payments")], every_seconds=300)
    person = Person(server.url)
    assert "not judged since" not in person.see("/")
    assert "Not judged since" not in person.see("/group", cluster="prod", group="payments")
    office.clock.now += 33 * 3600
    person = Person(server.url)
    page = told(person.see("/"))
    assert re.search(r"prod: not judged since [A-Z][a-z]{2} \d+ \d\d:\d\d UTC 33 h ago", page), page
    assert "was lagging" in page
    assert re.search(r"Page of \d\d:\d\d:\d\d UTC now", page)
    assert "Not judged since" in person.see("/group", cluster="prod", group="payments")


def test_incidents_are_named_by_whom_and_the_worst_is_first(office: Office, server: Running) -> None:
    """Eight groups with one cause: the first of them and the owner are in the title; lagging comes before "cannot tell"."""
    groups = [f"team-{n}" for n in range(8)]
    post(office, *(alert(it) for it in [*groups, "dark"]))
    known = [
        judged(it, owner="#checkout" if it == "team-3" else None, time_lag_seconds=900.0 if it == "team-3" else 60.0)
        for it in groups
    ]
    office.oracle.says = lambda _q: [*known, judged("dark", verdict="cannot_tell", cause="dark", time_lag_seconds=None)]
    office.worker.judge_alerts()
    person = Person(server.url)
    page = told(person.see("/incidents"))
    assert "team-3, team-0 and 6 more: slow processor prod , owner #checkout" in page.replace("prod,", "prod ,"), page
    assert page.index("team-3, team-0") < page.index("dark: cannot tell")
    assert "Closed" not in page.replace("Open Closed", "")
    [incident] = [it["id"] for it in office.store.rows("SELECT id FROM incident WHERE verdict = 'slow_processor'")]
    one = person.see(f"/incidents/{incident}")
    assert "<title>team-3, team-0 and 6 more: slow processor, prod" in one
    assert 'class="steps"' in one
    assert "workbench notebook --cluster prod --group team-3" in one


def test_an_age_is_said_as_commands_and_reports_say_it(office: Office, server: Running) -> None:
    """ "About" or "over" where it is that, on every page; kept rows of an older version have the seconds alone."""
    guess = TimeLag(seconds=780.0, method="extrapolated_capped", low=180.0)
    least = TimeLag(seconds=180.0, method="extrapolated_capped", low=180.0)
    found = [reduced(finding(group=name, time_lag=lag)) for name, lag in (("guess", guess), ("least", least))]
    assert [it.time_lag_words for it in found] == [guess.words, least.words] == ["about 13 min", "over 3 min"]
    post(office, alert("guess"), alert("least"))
    office.oracle.says = lambda _q: [replace(it, cause=it.group) for it in found]
    office.worker.judge_alerts()
    fleet_verdicts.record(office.store, "prod", found, every_seconds=300)
    person = Person(server.url)
    assert {"about 13 min", "over 3 min"} <= set(re.findall(r"(?:about|over) \d+ min", told(person.see("/"))))
    for name, words in (("guess", "about 13 min"), ("least", "over 3 min")):
        page = person.see("/group", cluster="prod", group=name)
        assert f"{words} behind" in told(page)
        assert f"last {words}" in page  # the picture in words
        assert re.search(rf'<td class="n">{words}</td>', page)  # the same as a table
        [incident] = [it["incident"] for it in office.store.rows("SELECT incident FROM member WHERE grp = ?", (name,))]
        assert f'data-label="Time lag">{words}<' in person.see(f"/incidents/{incident}")
    # A later triage of one leaves the other's words, and a plain age is said plainly.
    office.clock.now += 61
    exact = TimeLag(seconds=900.0, method="exact_record")
    office.oracle.says = lambda _q: [replace(reduced(finding(group="guess", time_lag=exact)), cause="guess")]
    office.worker.look_again()
    kept = {it["grp"]: it["time_lag_words"] for it in office.store.rows("SELECT grp, time_lag_words FROM member")}
    assert kept["guess"] == "15 min"
    with office.store.writing() as db:
        for table in ("member", "fleet", "finding"):
            db.execute(f"UPDATE {table} SET time_lag_words = NULL")
    assert "13 min behind" in told(person.see("/group", cluster="prod", group="guess"))


def detailed() -> bytes:
    """Details of a finding with two partitions, one of them owned, a deploy, and hostile words in all places."""
    from types import SimpleNamespace as Plain

    from evaluation.stories import THRESHOLDS, WINDOW, Story

    info = new_info(cluster="prod", source="test", profiles=["runtime"], window=WINDOW, thresholds=THRESHOLDS)
    at = WINDOW.end
    member = {
        "ts": at, "cluster": "prod", "group": "payments", "state": "Stable", "member_id": "m-1", "client_id": f"pay{HOSTILE}",
        "host": "/10.0.0.7", "topic": "orders", "partition": 1,
    }  # fmt: skip
    import pyarrow as pa

    capture = Capture(
        info=info, samples=concat([Story(group="payments", topic="orders").all_partitions().samples()]),
        groups=pa.Table.from_pylist([member], schema=GROUPS_SCHEMA),
        events=({"ts": at.isoformat(), "kind": "deploy", "text": f"payments v7 {HOSTILE}"},),
    )  # fmt: skip
    parts = [
        Plain(partition=0, lag_messages=0, time_lag_seconds=0.0),
        Plain(partition=1, lag_messages=700, time_lag_seconds=None),
        Plain(partition=2, lag_messages=9, time_lag_seconds=30.0),
    ]
    links = {"Grafana": "https://grafana.example.com/d/lag?var-group=payments", "Bad": "javascript:alert(1)"}
    finding: Any = Plain(
        group="payments", topic="orders", partitions=parts, owner="#pay", runbook="runbooks/SlowProcessor.md", own_runbook=None,
        links=links,
    )  # fmt: skip
    return packed(finding, capture)


def test_the_group_page_tells_who_has_each_partition_and_what_changed(office: Office, server: Running) -> None:
    """Worst first, with client and host; the objective is drawn; links that are none are left out; nothing is markup."""
    kept = detailed()
    assert [it[0] for it in unpacked(kept)["partitions"]] == [1, 2, 0]
    found: list[Judged] = [judged("payments", "orders", detail=kept)]
    fleet_verdicts.record(office.store, "prod", found, every_seconds=300)
    post(office, alert("payments", "orders", alertname=HOSTILE))
    page = Person(server.url).see("/group", cluster="prod", group="payments")
    words = told(page)
    assert re.search(r"1 700 unknown pay&lt;img .*? at 10\.0\.0\.7 2 9 30 s nobody 0 0 0 s nobody", words), words
    assert "deploy : payments v7" in words.replace("deploy:", "deploy :")
    assert 'href="https://grafana.example.com/d/lag?var-group=payments"' in page
    assert "javascript:" not in page
    assert '<a href="/runbooks/SlowProcessor.md">Runbook</a>' in page
    assert 'class="objective"' in page
    assert "<img" not in page
    assert "fires, received" in words
    assert len(page) < 40_000


def test_triage_now_needs_the_form_of_a_visit_and_lets_the_turn_come(office: Office, server: Running) -> None:
    """Without its token nothing happens; with it the cluster's turn comes, though it was judged a moment ago, but not at once again."""
    office.worker._clusters = lambda: {"prod": None}
    office.worker.take_lead()
    assert office.worker.judge_fleet()
    assert not office.worker.judge_fleet()
    person = Person(server.url)
    page = person.see("/group", cluster="prod", group="payments")
    [csrf] = set(re.findall(r'name="csrf" value="([^"]+)"', page))
    form = {"csrf": csrf}
    address = f"{server.url}/group/triage?cluster=prod&group=payments"
    refused = person.post(address, data={**form, "csrf": "x"}, timeout=10)
    assert refused.status_code == 403 and "<h1>" in refused.text
    assert requests.post(address, data=form, timeout=10).status_code == 401
    office.worker._fleet_ended.clear()
    answer = person.post(address, data=form, timeout=10)
    assert answer.status_code == 200 and "/group?" in answer.url
    assert office.worker.judge_fleet()
    person.post(address, data=form, timeout=10)
    assert not office.worker.judge_fleet()
    unknown = person.post(address.replace("prod", "nope"), data=form, timeout=10)
    assert unknown.status_code == 409


def test_triage_now_looks_again_at_the_open_incident_of_the_group(office: Office, server: Running) -> None:
    """On any instance: it is the database that says whose turn it is."""
    post(office, alert("payments"))
    office.worker.judge_alerts()
    assert not office.worker.look_again()
    person = Person(server.url)
    [csrf] = set(re.findall(r'name="csrf" value="([^"]+)"', person.see("/incidents")))
    answer = person.post(f"{server.url}/group/triage?cluster=prod&group=payments", data={"csrf": csrf}, timeout=10)
    assert answer.status_code == 200
    assert office.worker.look_again()


def test_a_runbook_is_rendered_and_its_machinery_is_not_shown(server: Running) -> None:
    """Headings, lists and code; no front matter, no comment, no raw HTML."""
    page = Person(server.url).see("/runbooks/SlowProcessor.md")
    assert "<h2>Meaning</h2>" in page and "<ol>" in page and "<pre" in page
    assert "generated:" not in page and "severity:" not in page and "## " not in page
    from workbench.serve.runbook_pages import rendered

    hostile = rendered("# A\n<script>x</script>\n[a](javascript:alert(1)) ![i](http://x/y.png) <!-- b -->")
    assert "<script" not in hostile and 'href="javascript' not in hostile and "<img" not in hostile


def test_a_wrong_address_is_a_page_for_people_and_a_document_for_programs(server: Running) -> None:
    """And the sign-in says where the token is."""
    browser = {"Accept": "text/html,application/xhtml+xml"}
    page = requests.get(f"{server.url}/nowhere", headers=browser, timeout=10)
    assert page.status_code == 404
    assert page.headers["Content-Type"].startswith("text/html") and "Not found" in page.text
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    program = requests.get(f"{server.url}/nowhere", timeout=10)
    assert (program.status_code, program.json()) == (404, {"error": "Not Found"})
    assert requests.get(f"{server.url}/api/fleet", headers=browser, timeout=10).json()["error"]
    assert "serve.token" in requests.get(f"{server.url}/sign-in", timeout=10).text


def test_of_a_storm_whoever_waits_longest_is_first(office: Office, server: Running) -> None:
    """Incidents that were opened in one turn, on both pages."""
    waits = {"a": 60.0, "b": 900.0, "c": 300.0}
    post(office, *(alert(it) for it in waits))
    office.oracle.says = lambda _q: [judged(it, cause=it, time_lag_seconds=seconds) for it, seconds in waits.items()]
    office.worker.judge_alerts()
    fleet_verdicts.record(office.store, "prod", [judged("a")], every_seconds=300)
    for path in ("/", "/incidents"):
        titles = re.findall(r">([abc]): slow processor<", Person(server.url).see(path))
        assert titles == ["b", "c", "a"], path


def test_the_picture_of_a_new_group_begins_where_something_is_known(office: Office, server: Running) -> None:
    """An empty day with a dot at its end reads as a fault of the page; an hour is the least."""
    fleet_verdicts.record(office.store, "prod", [judged("payments", verdict="healthy")], every_seconds=300)
    office.clock.now += 2 * 3600
    fleet_verdicts.record(office.store, "prod", [judged("payments")], every_seconds=7200)
    page = Person(server.url).see("/group", cluster="prod", group="payments")
    picture = page.partition('class="steps"')[2].partition("</svg>")[0]
    known = re.search(r'class="area" d="M([0-9.]+)', picture)
    assert known is not None and float(known[1]) < 5, picture

"""The pages of audits: worst first, what is old is marked, and the commands are those for what is wrong."""

from __future__ import annotations

import html
import json
import re
import shlex
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.audit.states import edge, state, stream, upstream, window
from tests.cli.said import Said, problem_of
from tests.serve.serving import HOSTILE, Office, running
from tests.serve.test_opened_pages import Person, told
from workbench.report.audit_state import AuditState, SilentLayer, StreamState, write_state
from workbench.report.state_before_kafka import write_upstream
from workbench.serve.audits import Shelf, commands, runbooks_of

LOSSY = edge(lost=40, breach="40 records lost of 1,000; S1 allows 0.01%.")


def published(folder: Path, office: Office, *streams: StreamState, ago: float = 0.0, **values: object) -> AuditState:
    """What an audit has written so long ago."""
    made = datetime.fromtimestamp(office.clock.now - ago, UTC)
    found = state(*streams, made_at=made, since=made - timedelta(hours=6), until=made, **values)  # type: ignore[arg-type]
    write_state(folder, found)
    return found


def test_streams_are_shown_in_their_order_with_what_is_wrong(tmp_path: Path) -> None:
    """By a part of the name, too; states of windows are counted over all edges."""
    office = Office(tmp_path)
    published(
        tmp_path, office, stream("pay", edge("gateway", final=3), LOSSY), stream("calm", edge(final=0, amended=7))
    )
    with running(office, threads=False, audits=Shelf(tmp_path, ["orders", "never"])) as server:
        person = Person(server.url)
        page = told(person.see("/audits"))
        assert page.index("pay S1") < page.index("calm S1")
        assert "breach 1 stream" in page and "complete 1 stream" in page
        assert "40 records lost at collector" in page
        assert "never: not made yet." in page
        assert "Not made since" not in page
        only = told(person.see("/audits", text="CALM"))
        assert "calm S1" in only and "pay S1" not in only
        assert "7" in only.split("calm S1")[1]


def test_an_old_answer_is_marked_on_both_pages(tmp_path: Path) -> None:
    """After three of its periods, and not before."""
    office = Office(tmp_path)
    for ago, is_old in ((2_700.0, False), (2_701.0, True)):
        published(tmp_path, office, stream("pay", LOSSY), ago=ago)
        with running(office, threads=False, audits=Shelf(tmp_path)) as server:
            person = Person(server.url)
            for path in ("/audits", "/audit?audit=orders&stream=pay"):
                page = told(person.see(path))
                assert ("Not made since" in page, "was breach" in page) == (is_old, is_old), path


def test_a_stream_shows_its_edges_windows_and_what_to_do(tmp_path: Path) -> None:
    """Shares are cut off; bounds are bounds; other streams' windows are theirs."""
    office = Office(tmp_path)
    windows = (
        window("pay", state="amended", arrival="ok", lost_low=0, lost_high=0),
        window("pay", state="provisional", lost_low=1, lost_high=9),
        window("other", lost_low=777, lost_high=777),
    )
    published(tmp_path, office, stream("pay", edge("gateway → collector"), LOSSY), windows=windows)
    with running(office, threads=False, audits=Shelf(tmp_path)) as server:
        page = Person(server.url).see("/audit?audit=orders&stream=pay")
        text = told(page)
        assert "96 %" in text and "gateway → collector 100 %" in text
        assert "amended" in text and "1 to 9" in text and "777" not in text
        assert "/runbooks/AuditLoss.md" in page and "/runbooks/AuditSilent.md" not in page
        assert "workbench audit missing orders --stream pay --layer collector" in html.unescape(text)
        assert told(Person(server.url).see("/runbooks/AuditLoss.md")).count("AuditLoss")
        Person(server.url).see("/audit?audit=orders&stream=none", 404)


def test_without_a_folder_the_page_says_how_to_set_one(tmp_path: Path) -> None:
    """And names a file that is none of ours."""
    office = Office(tmp_path)
    with running(office, threads=False) as server:
        assert "No folder of audits is set" in told(Person(server.url).see("/audits"))
    (tmp_path / "bad.workbench_audit.json").write_text("<script>")
    with running(office, threads=False, audits=Shelf(tmp_path)) as server:
        page = Person(server.url).see("/audits")
        assert "bad.workbench_audit.json is no answer of an audit" in told(page)
    with running(office, threads=False, audits=Shelf(tmp_path / "none")) as server:
        page = told(Person(server.url).see("/audits"))
        assert "cannot be read: No such file or directory" in page and "No audit has been published" not in page


@pytest.mark.parametrize(
    ("where", "value", "field"),
    [
        (("every_seconds",), float("nan"), "every_seconds"),
        (("made_at",), "0001-01-01T00:00:00+14:00", "made_at"),
        (("until",), "9999-12-31T23:59:59-14:00", "until"),
        (("streams", 0, "edges", 0, "lost"), 10**400, "lost"),
        (("streams", 0, "edges", 0, "final"), -7, "final"),
        (("windows", 0, "start"), "0001-01-01T00:00:00Z", "start"),
    ],
)
def test_a_number_that_is_none_spoils_its_own_file_alone(
    tmp_path: Path, where: tuple[str | int, ...], value: object, field: str
) -> None:
    """The page is there, with the other audits; not a number compares as neither old nor new."""
    office = Office(tmp_path)
    published(tmp_path, office, stream("pay"), audit="good")
    document = json.loads(state(stream("pay"), windows=(window("pay"),)).model_dump_json(by_alias=True))
    at = document
    for key in where[:-1]:
        at = at[key]
    at[where[-1]] = value
    (tmp_path / "bad.workbench_audit.json").write_text(json.dumps(document))
    with running(office, threads=False, audits=Shelf(tmp_path)) as server:
        page = told(Person(server.url).see("/audits"))
        assert "bad.workbench_audit.json is no answer of an audit" in page and field in page
        assert "good" in page and "pay S1" in page


def test_an_answer_of_a_clock_that_is_ahead_is_no_present(tmp_path: Path) -> None:
    """It would be new for as long as the clock is ahead."""
    office = Office(tmp_path)
    published(tmp_path, office, stream("pay", LOSSY), ago=-2_701.0)
    with running(office, threads=False, audits=Shelf(tmp_path)) as server:
        assert "was breach" in told(Person(server.url).see("/audits"))


def test_commands_name_rows_where_the_settings_have_no_such_audit() -> None:
    """By the options that it was published with."""
    found = state(stream("pay", edge(lost=3)), audit="rows", named=("--rows", "/data/my rows.jsonl", "--layers", "a,b"))
    shown = dict(commands(found, found.streams[0]))
    assert shown["Windows"] == "workbench audit show --rows '/data/my rows.jsonl' --layers a,b --stream pay"
    for command in shown.values():
        assert problem_of(Said("page", command.removeprefix("workbench "))) is None, command


@pytest.mark.parametrize("name", ["pay", HOSTILE, "a b; rm -rf /"])
def test_every_command_can_be_pasted(name: str) -> None:
    """Whatever the names hold: a word each, and the real parser takes them."""
    found = state(stream(name, edge("gateway → collector", lost=3), edge(name, lost=3)), audit=name)
    shown = commands(found, found.streams[0])
    assert [it.split()[1:3] for _, it in shown] == [
        ["audit", "show"], ["audit", "missing"], ["replay", "plan"], ["audit", "gate"],
    ]  # fmt: skip
    for _, command in shown:
        assert "\n" not in command and "\x1b" not in command
        if "$'" not in command:
            assert name in shlex.split(command) or "replay" in command
            assert problem_of(Said("page", command.removeprefix("workbench "))) is None, command


def test_what_stands_before_kafka_is_shown_beside_the_audits(tmp_path: Path) -> None:
    """With its runbook and a command; what is old is marked; names are text; a file that is none spoils nothing else."""
    office = Office(tmp_path)
    for ago, is_old in ((900.0, False), (901.0, True)):
        until = datetime.fromtimestamp(office.clock.now - ago, UTC)
        wrong = upstream(HOSTILE, "both open", "flapping", "disk", "cannot tell", cluster=HOSTILE, until=until)
        write_upstream(tmp_path, wrong)
        write_upstream(tmp_path, upstream("gw-1", cluster="calm", until=until))
        with running(office, threads=False, audits=Shelf(tmp_path)) as server:
            page = Person(server.url).see("/audits")
            assert ("Not looked at since" in told(page), "was both open" in told(page)) == (is_old, is_old)
            assert "Before Kafka: calm" in told(page) and "All is well." in told(page)
            assert "No audit has been published" not in page
            assert HOSTILE not in page and "<script>" not in page.partition("Before Kafka")[2].partition("</main>")[0]
            for name in ("BreakerBothOpen", "BreakerOpen", "HeldBeforeKafka"):
                assert f"/runbooks/{name}.md" in page
                Person(server.url).see(f"/runbooks/{name}.md")
            assert "workbench audit upstream --cluster " in page
    (tmp_path / "bad.workbench_upstream.json").write_text('{"lines": 7}')
    with running(office, threads=False, audits=Shelf(tmp_path)) as server:
        page = told(Person(server.url).see("/audits"))
        assert "bad.workbench_upstream.json is no answer of an audit" in page and "Before Kafka: calm" in page


def test_each_problem_leads_to_its_runbook() -> None:
    """The most urgent first, and each of them exists."""
    silent = SilentLayer(layer="a", told=None, seconds=700.0)
    wrong = edge(lost=1, doubled=1, late=1, overdue_seconds=9.0, unknown=1)
    assert runbooks_of(stream("s", wrong, silent=(silent,))) == [
        "AuditLoss", "AuditDoubled", "AuditSilent", "AuditLate", "AuditNotFinal",
    ]  # fmt: skip
    assert runbooks_of(stream("s")) == []
    folder = Path(__file__).parent.parent.parent / "runbooks"
    page = (folder.parent / "workbench" / "serve" / "audits.py").read_text()
    assert set(re.findall(r'"(Audit\w+)"', page)) == {it.stem for it in folder.glob("Audit*.md")}

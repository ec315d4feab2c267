"""The database in a real PostgreSQL server: all that holds for a file holds for it, and two instances share it."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

import psycopg
import pytest
import requests

from tests.serve import (
    serving,
    test_app,
    test_fleet,
    test_incidents,
    test_killed,
    test_lasting,
    test_telling,
    test_telling_machine,
)
from tests.serve.postgresql import Cluster, postgresql
from tests.serve.serving import Clock, Office, alert, judged, running, webhook
from tests.serve.test_incidents import post
from tests.serve.test_killed import BEARER
from workbench.errors import UsageError
from workbench.lab.process import free_port
from workbench.serve import database_migrations as schema
from workbench.serve import postgres
from workbench.serve.alert_journal import waiting
from workbench.serve.incidents import conclude
from workbench.serve.outbox import claim
from workbench.serve.postgres import DatabaseStore
from workbench.serve.server_database import Store, StoreError

pytestmark = pytest.mark.apt

_NUMBERS = count()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """One server for all tests."""
    with postgresql() as found:
        yield found


@pytest.fixture(autouse=True)
def url(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A database of the test's own; each office keeps its database there."""
    found = cluster.database(f"test{next(_NUMBERS)}")
    opened: list[Store] = []

    def database(_folder: Path, clock: Clock) -> Store:
        opened.append(DatabaseStore(found, clock=clock))
        return opened[-1]

    monkeypatch.setattr(serving, "DATABASE", database)
    yield found
    for store in opened:
        store.close()


def _tests_of(*modules: ModuleType) -> dict[str, Any]:
    """Tests that are written for an office, whatever its database is, with their fixtures."""
    return {
        name: it
        for module in modules
        for name, it in vars(module).items()
        if name.startswith("test_") or name in ("office", "server")
    }


globals().update(_tests_of(test_incidents, test_fleet, test_app, test_telling, test_lasting))
for _of_a_file in (
    "test_no_secret_is_in_the_memory_or_the_log",
    "test_a_memory_of_the_first_version_opens_and_goes_on",
):
    del globals()[_of_a_file]


def test_tables_of_the_first_version_are_brought_up_to_date(url: str) -> None:
    """As those of a file."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE workbench_serve (version BIGINT NOT NULL, awake TIMESTAMPTZ)")
        for statement in schema._FIRST.split(";\n"):
            for mine, theirs in postgres._TYPES.items():
                statement = re.sub(mine, theirs, statement)
            connection.execute(statement.encode())
        connection.execute("INSERT INTO workbench_serve (version) VALUES (1)")
    store = DatabaseStore(url)
    assert store.leads() and store.lead == 1
    assert store.number("SELECT version FROM workbench_serve") == schema.VERSION
    store.close()


def test_everybody_is_told_once_and_in_order(cluster: Cluster) -> None:
    """The model of the messages; some hundred steps, for each begins with a database of its own."""

    class Machine(test_telling_machine.Machine):
        @staticmethod
        def make(clock: Clock) -> tuple[Store, Store]:
            found = cluster.database(f"model{next(_NUMBERS)}")
            return DatabaseStore(found, clock=clock), DatabaseStore(found, clock=clock)

    test_telling_machine.run(Machine, int(os.environ.get("TELLING_STEPS", "200")))


def test_of_two_instances_one_judges_and_the_other_takes_over(tmp_path: Path) -> None:
    """Both take alerts. The messages that the first was sending when it ended are sent by the second, with the same key."""
    first, second = Office(tmp_path), Office(tmp_path)
    first.worker.take_lead()
    second.worker.take_lead()
    assert (first.worker.leading, second.worker.leading) == (True, False)
    post(second, alert())
    first.worker.judge_alerts()
    claimed = claim(first.store, "oncall")
    assert claimed is not None
    first.store.close()
    second.worker.take_lead()
    assert second.worker.leading
    assert second.send() == ["new"]
    assert second.postman.parcels[0].key == claimed.key


def test_an_instance_that_is_frozen_loses_the_lead(tmp_path: Path, url: str) -> None:
    """Its connections live on, for the system answers for it; when it wakes up, it knows that it does not lead any more."""
    first, second = Office(tmp_path), Office(tmp_path)
    first.worker.take_lead()
    second.worker.take_lead()
    assert not second.worker.leading
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("UPDATE workbench_serve SET awake = awake - interval '1 minute'")
    second.worker.take_lead()
    first.worker.take_lead()
    assert (first.worker.leading, second.worker.leading) == (False, True)


def test_an_alert_that_another_instance_has_judged_is_not_judged_again(tmp_path: Path) -> None:
    """The one that led before may still be at work when the next one begins."""
    first, second = Office(tmp_path), Office(tmp_path)
    post(first, alert())
    stale = waiting(first.store)
    second.worker.judge_alerts()
    conclude(first.store, stale, [judged(verdict="hot_partition")], first.settings)
    assert first.store.number("SELECT count(*) FROM incident") == 1
    assert first.store.rows("SELECT verdict FROM incident")[0]["verdict"] == "slow_processor"


def test_what_it_cannot_hold_is_written_in_another_way(tmp_path: Path) -> None:
    """NUL, lone surrogates and NaN: one bad name must not stop the others."""
    office = Office(tmp_path)
    office.oracle.says = lambda _question: [judged("a\0b\udcff", time_lag_seconds=float("nan"))]
    post(office, alert("a\0b\udcff"))
    office.worker.judge_alerts()
    [row] = office.store.rows("SELECT * FROM member")
    assert row["time_lag"] is None and "\0" not in row["grp"] and row["grp"].startswith("a\\x00b")


def test_while_the_database_is_away_alerts_are_refused_and_afterwards_all_goes_on(
    tmp_path: Path, cluster: Cluster
) -> None:
    """503, so Alertmanager sends them again; no process ends."""
    office = Office(tmp_path)
    with running(office) as server:

        def answer(number: int) -> int:
            body = webhook(alert(number=number, cluster=f"c{number}"))
            return requests.post(f"{server.url}/alerts", body, headers=BEARER, timeout=60).status_code

        assert answer(1) == 200
        cluster.stop()
        try:
            assert answer(2) == 503
            page = requests.get(f"{server.url}/api/fleet", headers=BEARER, timeout=60)
            assert (page.status_code, page.json()["error"]) == (503, "The database does not answer. Try again.")
        finally:
            cluster.start()
        deadline = time.monotonic() + 60
        while answer(2) != 200 or len(office.postman.parcels) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        assert office.worker.alive
    assert sorted({it.message.cluster for it in office.postman.parcels}) == ["c1", "c2"]


def test_what_is_wrong_is_named(url: str, cluster: Cluster) -> None:
    """No server, no database, tables of a newer version, no URL; the password is never shown."""
    with pytest.raises(StoreError, match="refused") as error:
        DatabaseStore(f"postgresql://me:secret-word@127.0.0.1:{free_port()}/x")
    assert "secret-word" not in str(error.value)
    with pytest.raises(StoreError, match='"nothing" does not exist'):
        DatabaseStore(cluster.url("nothing"))
    DatabaseStore(url).close()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("UPDATE workbench_serve SET version = 99")
    with pytest.raises(UsageError, match="newer version"):
        DatabaseStore(url)
    with pytest.raises(UsageError, match="no URL of PostgreSQL"):
        DatabaseStore("postgresql://h/d?nonsense=1")


def test_two_instances_start_at_the_same_time(url: str) -> None:
    """One makes the tables, the others wait for it."""
    with ThreadPoolExecutor(4) as pool:
        stores = list(pool.map(lambda _number: DatabaseStore(url), range(4)))
    assert [it.leads() for it in stores].count(True) == 1
    for it in stores:
        it.close()


def test_nothing_acknowledged_is_lost_by_two_instances(tmp_path: Path, url: str) -> None:
    """50 kills of one or the other, while both take alerts."""
    test_killed.killed_often(tmp_path, int(os.environ.get("SERVE_KILLS", "50")), instances=2, store=url)

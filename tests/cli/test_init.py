"""Rules of `workbench init`: what it writes works at once, and it never writes over anything."""

from __future__ import annotations

import base64
import sys
import time
import tomllib
from pathlib import Path

import pexpect
import pytest

from tests.cli.running import check, run_here
from tests.collect.test_samples_from_prometheus import LAG, body
from tests.servers import Script, scripted
from workbench.cli.init_file import settings_text
from workbench.settings import load_settings

PAGE = b'# TYPE kafka_consumergroup_lag gauge\nkafka_consumergroup_lag{consumergroup="g",topic="t",partition="0"} 1\n'
NOBODY = "http://127.0.0.1:9"  # the port "discard": nothing listens there


def test_a_metrics_page_alone_gives_settings_that_work(tmp_path: Path) -> None:
    """The file is valid, and names only what was given; only its owner can read it."""
    with scripted(Script(body=PAGE)) as server:
        shown = run_here("init", "--name", "shop", "--metrics", server.url, "--yes", cwd=tmp_path)
        assert shown.returncode == 0, shown.stderr
        assert "metrics page: answers; 2 lines" in shown.stderr
        cluster = load_settings(tmp_path / "workbench.toml").cluster("shop")
        assert cluster.metrics == [server.url]
        [fitting] = cluster.profiles  # one of those that know this name
        assert f"✓ metrics: 1 profile fits: {fitting}\n" in shown.stderr
        assert "Try: workbench triage --cluster shop --observe 60s\n" in shown.stderr
    assert (tmp_path / "workbench.toml").stat().st_mode & 0o077 == 0
    assert run_here("doctor", "--group", "g", cwd=tmp_path).returncode == 0


def test_a_source_that_does_not_answer_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    """Exit code 5; --unchecked writes all the same."""
    words = ["init", "--prometheus", NOBODY, "--yes"]
    shown = run_here(*words, cwd=tmp_path)
    assert shown.returncode == 5
    assert "✗ Prometheus" in shown.stderr
    assert "No answer from Prometheus; workbench.toml was not written." in shown.stderr
    assert not (tmp_path / "workbench.toml").exists()
    assert run_here(*words, "--unchecked", cwd=tmp_path).returncode == 5
    assert load_settings(tmp_path / "workbench.toml").cluster("prod").prometheus == NOBODY


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--yes"], "nothing to read from"),
        (["--yes", "--bootstrap", "b:1", "--property", "security.protocol"], "NAME=VALUE"),
        (["--yes", "--prometheus", "prometheus:9090"], "http or https URL"),
        (["--yes", "--bootstrap", "kafka:port"], "'kafka:port' is not host:port"),
        (["--yes", "--bootstrap", "http://kafka:9092"], "is not host:port"),
        (["--yes", "--bootstrap", "kafka-1:9092,kafka-2:99999"], "'kafka-2:99999' is not host:port"),
        (["--yes", "--bootstrap", "b:1", "--property", "sasl.password=${NOT_THERE}"], "NOT_THERE"),
        (["--yes", "--bootstrap", "b:1", "--property", "sasl.password=${file:not-there}"], "not-there"),
        (["--yes", "--bootstrap", "b:1", "--property", "sasl.password=hunter22"], "sasl.password is a secret"),
        (["--yes", "--bootstrap", "b:1", "--property", "ssl.key.pem=hunter22"], "${file:/path}"),
        (["--yes", "--prometheus", "http://oncall:hunter22@p:9090"], "The password in an address is a secret"),
        (["--yes", "--metrics", "http://hunter22@app:8000/metrics"], "${PROMETHEUS_PASSWORD}"),
        (["--yes", "--prometheus", "http://oncall:${NOT_THERE}@p:9090"], "NOT_THERE"),
        (["--yes", "--name", "caf\udce9", "--metrics", "http://app:8000/metrics"], "is not text in UTF-8"),
    ],
)
def test_wrong_answers_are_refused(words: list[str], said: str, tmp_path: Path) -> None:
    """Before anything is written."""
    shown = run_here("init", *words, cwd=tmp_path)
    check(shown, 2, said)
    assert "hunter22" not in shown.stderr
    assert not (tmp_path / "workbench.toml").exists()


def test_a_password_is_tried_and_stays_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reference in an address is sent as what it refers to, and written as it was given."""
    monkeypatch.setenv("PROMETHEUS_PASSWORD", "hunter22")
    with scripted(Script(body=body((LAG, [])))) as server:
        address = server.url.replace("http://", "http://oncall:${PROMETHEUS_PASSWORD}@")
        shown = run_here("init", "--yes", "--prometheus", address, "--unchecked", cwd=tmp_path)
        sent = {headers.get("Authorization") for _, _, headers in server.requests}
    assert sent == {"Basic " + base64.b64encode(b"oncall:hunter22").decode()}, shown.stderr
    text = (tmp_path / "workbench.toml").read_text()
    assert address in text and "hunter22" not in text
    assert load_settings(tmp_path / "workbench.toml").cluster("prod").prometheus_servers[0].secrets()[0] == "hunter22"


def test_a_file_that_exists_is_never_replaced(tmp_path: Path) -> None:
    """Whoever has settings has put work into them."""
    (tmp_path / "workbench.toml").write_text("# mine\n")
    check(run_here("init", "--yes", "--prometheus", NOBODY, cwd=tmp_path), 2, "exists, and is not replaced")
    assert (tmp_path / "workbench.toml").read_text() == "# mine\n"


@pytest.mark.parametrize("name", ["prod", "eu-1", "my cluster", 'a"b', "größe"])
def test_every_name_and_value_survives_the_file(name: str, tmp_path: Path) -> None:
    """Quotes, blanks and backslashes included; the examples in comments are valid settings, too."""
    text = settings_text(
        name=name, bootstrap="b:9092", prometheus='http://p:9090/a"b\\c', metrics=(), profiles=("kminion",),
        properties={"ssl.ca.location": "C:\\ca.pem", "sasl.password": "${PASSWORD}"},
    )  # fmt: skip
    [(found, values)] = tomllib.loads(text)["clusters"].items()
    assert found == name
    assert values["prometheus"] == 'http://p:9090/a"b\\c'
    assert values["kafka"] == {"ssl.ca.location": "C:\\ca.pem", "sasl.password": "${PASSWORD}"}
    example = text.partition("# What is expected of groups")[2]
    lines = [line[2:] for line in example.splitlines()[1:] if line.startswith("# ") and "….groups" not in line]
    (tmp_path / "workbench.toml").write_text("\n".join(lines))
    assert load_settings(tmp_path / "workbench.toml").cluster(name).groups["billing-*"].owner == "#billing-oncall"


def test_it_asks_on_a_terminal(tmp_path: Path) -> None:
    """An empty answer is the default; the password goes to the environment, never into the file."""
    with scripted(Script(body=PAGE)) as server:
        words = ["-c", "import sys; sys.argv[0] = 'workbench'; from workbench.cli import main; main()", "init"]
        child = pexpect.spawn(
            sys.executable, words, cwd=str(tmp_path), encoding="utf-8", timeout=60, dimensions=(24, 80)
        )
        for question, answer in (
            ("Name of the cluster", "shop"),
            ("URL of its Prometheus", ""),
            ("Bootstrap servers", ""),
            ("metrics page", server.url),
        ):
            child.expect(question)
            child.sendline(answer)
        child.expect("Wrote workbench.toml")
        child.expect(pexpect.EOF)
        child.close()
    assert child.exitstatus == 0
    assert load_settings(tmp_path / "workbench.toml").cluster("shop").metrics == [server.url]


def test_the_command_that_it_advises_works_with_what_was_given(tmp_path: Path) -> None:
    """Quoted, with the file that was written, and with a source that there is."""
    with scripted(Script(body=PAGE)) as server:
        pages = run_here("init", "--name", "my shop", "--metrics", server.url, "--yes", "--out", "w.toml", cwd=tmp_path)
    assert "draft a profile: workbench profiles new --cluster 'my shop' --config w.toml\n" in pages.stderr
    assert "Try: workbench triage --cluster 'my shop' --observe 60s --config w.toml" in pages.stderr
    words = ["init", "--yes", "--unchecked"]
    shown = run_here(*words, "--prometheus", NOBODY, cwd=tmp_path)
    assert "Try: workbench triage --cluster prod --all\n" in shown.stderr
    shown = run_here(*words, "--bootstrap", "127.0.0.1:1", "--out", "b.toml", cwd=tmp_path)
    assert "Try: workbench snapshot --cluster prod --limit 10 --config b.toml\n" in shown.stderr


def test_what_no_profile_fits_needs_a_profile_first(tmp_path: Path) -> None:
    """A triage would have nothing to read: the next command drafts one, and it works with what was written."""
    relabelled = {"__name__": "acme_consumer_lag", "consumer_group": "g", "topic": "t", "partition": "0"}

    def answer(path: str, _query: dict[str, list[str]]) -> bytes:
        if path.endswith("/values"):
            return b'{"status":"success","data":["acme_consumer_lag"]}'
        return body((relabelled, [[time.time(), "1"]]))

    with scripted(Script(answer=answer)) as server:
        shown = run_here("init", "--yes", "--prometheus", server.url, cwd=tmp_path)
        advised = shown.stderr.rpartition("Try: workbench ")[2].split()
        assert advised[:2] == ["profiles", "new"], shown.stderr
        assert run_here(*advised, cwd=tmp_path).returncode == 0
    assert "acme_consumer_lag" in (tmp_path / advised[-1]).read_text()


def test_a_page_of_an_own_program_leads_to_a_profile(tmp_path: Path) -> None:
    """Without a Prometheus, too: what to type next drafts it, and a look says rule by rule whether it fits."""
    page = b'acme_consumer_lag{consumer_group="g",topic="t",partition="0"} 1\nacme_work_seconds_sum{topic="t"} 1\n'
    with scripted(Script(body=page)) as server:
        shown = run_here("init", "--yes", "--metrics", server.url, cwd=tmp_path)
        assert "no profile fits them" in shown.stderr
        advised = shown.stderr.rpartition("Try: workbench ")[2].split()
        assert advised[:2] == ["profiles", "new"], shown.stderr
        assert run_here(*advised, cwd=tmp_path).returncode == 0
        assert "acme_consumer_lag" in (tmp_path / advised[-1]).read_text()
        look = ("profiles", "check", "--cluster", "prod")
        looked = run_here(*look, "--profile", advised[-1], cwd=tmp_path)
        assert looked.returncode == 0, looked.stderr
        assert "1 of 1 signal found" in looked.stdout
        check(run_here(*look, "--at", "1h ago", cwd=tmp_path), 2, "tell of no past moment")
        check(run_here("profiles", "new", "--cluster", "prod", "--job", "x", cwd=tmp_path), 2, "tell of no scrape job")
    check(run_here(*look, cwd=tmp_path), 5, "connection refused")


def test_a_page_is_looked_at_though_kafka_does_not_answer(tmp_path: Path) -> None:
    """What one source lacks hides nothing of another."""
    with scripted(Script(body=PAGE)) as server:
        shown = run_here("init", "--yes", "--bootstrap", "127.0.0.1:9", "--metrics", server.url, cwd=tmp_path)
    assert shown.returncode == 5
    assert "✓ metrics: 1 profile fits" in shown.stderr


def test_a_page_without_a_lag_says_what_else_a_triage_needs(tmp_path: Path) -> None:
    """How long handlers take is known then, and of which group nobody."""
    page = b"watermill_x 1\n# TYPE subscriber_messages_received_total counter\nsubscriber_messages_received_total 1\n"
    page += b'handler_execution_time_seconds_sum{handler_name="h",success="true"} 1\n'
    page += b'handler_execution_time_seconds_count{handler_name="h",success="true"} 1\n'
    with scripted(Script(body=page)) as server:
        shown = run_here("init", "--yes", "--metrics", server.url, cwd=tmp_path)
    assert "a triage needs --bootstrap, too" in " ".join(shown.stderr.split()), shown.stderr


def test_doctor_checks_one_cluster_and_its_metrics_pages(tmp_path: Path) -> None:
    """`--cluster` leaves the others alone; a page that does not answer is named in words."""
    with scripted(Script(body=PAGE)) as server:
        (tmp_path / "workbench.toml").write_text(
            f'[clusters.good]\nmetrics = ["{server.url}"]\nprofiles = ["kafka_exporter"]\n'
            f'[clusters.other]\nmetrics = ["{server.url}"]\nprofiles = ["librdkafka"]\n[clusters.bad]\nmetrics = ["{NOBODY}/metrics"]\n'
        )
        good = run_here("doctor", "--cluster", "good", cwd=tmp_path).stdout
        assert "good: metrics page     1 signal of kafka_exporter" in good
        other = run_here("doctor", "--cluster", "other", cwd=tmp_path)
        assert other.returncode == 5  # it answers, and a triage would find nothing
        assert "no profile of the cluster (librdkafka) knows one of its metrics." in " ".join(other.stdout.split())
        assert "workbench profiles check --cluster other" in other.stdout
        assert "bad:" not in good
    bad = run_here("doctor", "--cluster", "bad", cwd=tmp_path)
    assert bad.returncode == 5
    assert "The metrics page does not answer: 127.0.0.1:9: connection refused." in bad.stdout
    check(run_here("doctor", "--cluster", "god", cwd=tmp_path), 2, "Did you mean `good`?")


def test_a_name_of_no_cluster_of_the_settings_is_shown(tmp_path: Path) -> None:
    """Mistyped, a target would never be told of anything, and nobody would notice before the next night."""
    target = "[[serve.targets]]\nname = '{}'\nkind = 'webhook'\nurl = 'http://127.0.0.1:9'\nclusters = ['{}']\n"
    audit = "[audits.{}]\nlayers = ['a', 'b']\ntopic = 'rows'\ncluster = '{}'\n"
    text = "[clusters.prod]\n[serve]\ncluster = 'pord'\n" + target.format("ours", "prod") + target.format("chat", "prd")
    text += audit.format("pay", "prod") + audit.format("bill", "lab") + audit.format("ship", "staging")
    (tmp_path / "workbench.toml").write_text(text)
    shown = run_here("doctor", cwd=tmp_path)
    assert shown.returncode == 0, shown.stdout
    words = " ".join(shown.stdout.split())
    assert "✗ target chat It is told only of clusters that it names, and 'prd' is none of the settings." in words
    assert "serve.cluster names, and 'pord' is none of the settings. Did you mean `prod`?" in words
    assert "✗ audit ship Its rows are in the cluster that it names, and 'staging' is none of the settings." in words
    assert "`prod`" in words
    for good in ("target ours", "audit pay", "audit bill"):
        assert good not in words


def test_a_prometheus_that_knows_no_group_does_not_pass_the_doctor(tmp_path: Path) -> None:
    """It answers; but nothing of it can be judged, and the next command says why."""
    with scripted(Script(body=b'{"status":"success","data":{"resultType":"matrix","result":[]}}')) as server:
        (tmp_path / "workbench.toml").write_text(f'[clusters.shop]\nprometheus = "{server.url}"\n')
        shown = run_here("doctor", cwd=tmp_path)
    assert "✗ shop: prometheus" in shown.stdout
    assert "no sample of a group in the last 10 min" in shown.stdout
    assert "workbench profiles check --cluster shop" in shown.stdout
    assert shown.returncode == 5


def test_doctor_looks_at_each_prometheus_of_a_cluster(tmp_path: Path) -> None:
    """Which one is silent, by its host; and what all of them tell together."""

    def answer(path: str, query: dict[str, list[str]]) -> bytes:
        if path.endswith("/values"):
            return b'{"status":"success","data":["up","kafka_consumergroup_lag"]}'
        return body((LAG, [[float(query["time"][0]) - 1, "1"]]) if "time" in query else (LAG, []))

    with scripted(Script(answer=answer)) as server:
        (tmp_path / "workbench.toml").write_text(
            f'[clusters.shop]\nprometheus = ["{server.url}", {{url = "http://user:hunter2@127.0.0.1:9"}}]\n'
        )
        shown = run_here("doctor", cwd=tmp_path)
    host = server.url.removeprefix("http://")
    assert f"✓ shop: prometheus {host} answers; 2 metrics" in shown.stdout
    assert "✗ shop: prometheus 127.0.0.1:9 Prometheus at 127.0.0.1:9 cannot be reached" in shown.stdout
    assert "of 1 group in the last 10 min; incomplete: Prometheus at 127.0.0.1:9" in shown.stdout
    assert shown.returncode == 5
    assert "hunter2" not in shown.stdout + shown.stderr


def test_waiting_for_a_source_is_visible_within_a_second(tmp_path: Path) -> None:
    """On a terminal: what is asked, and how long at most."""
    with scripted(Script(body=PAGE, delay_seconds=3.0)) as server:
        words = ["-c", "import sys; sys.argv[0] = 'workbench'; from workbench.cli import main; main()"]
        more = ["init", "--yes", "--metrics", server.url]
        child = pexpect.spawn(sys.executable, [*words, *more], cwd=str(tmp_path), encoding="utf-8", timeout=30)
        child.expect("Asking metrics page")
        seen = time.monotonic()
        child.expect("1 s, at most 10 s")
        child.expect("Wrote")
        assert time.monotonic() - seen > 1.0
        child.close()

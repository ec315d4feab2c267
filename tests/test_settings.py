"""Rules of the settings: every mistake names its field, and secrets stay out of sight."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from workbench.errors import ConfigError, UnknownClusterError
from workbench.limited_reads import first_problem
from workbench.settings import Settings, load_settings
from workbench.thresholds import Thresholds


def write(folder: Path, text: str) -> Path:
    """A settings file."""
    path = folder / "workbench.toml"
    path.write_text(text)
    return path


def test_without_a_file_there_are_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings are needed to analyse a capture."""
    monkeypatch.chdir(tmp_path)
    assert load_settings() == Settings()


def test_a_cluster_is_read_with_its_own_thresholds(tmp_path: Path) -> None:
    """A cluster's thresholds take the place of the general ones."""
    path = write(
        tmp_path,
        """
        [thresholds]
        time_lag_objective_seconds = 300
        [clusters.prod]
        bootstrap = "k:9092"
        prometheus = "http://prom:9090/"
        [clusters.batch]
        bootstrap = "b:9092"
        thresholds = { time_lag_objective_seconds = 3600 }
        """,
    )
    settings = load_settings(path)
    assert settings.cluster("prod").prometheus == "http://prom:9090"
    assert settings.thresholds_of(settings.cluster("prod")).time_lag_objective_seconds == 300
    assert settings.thresholds_of(settings.cluster("batch")).time_lag_objective_seconds == 3600


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[clusters.prod]\nbootstrp = 'k'", "clusters.prod.bootstrp"),
        ("[clusters.prod]\nprometheus = 'prom:9090'", "clusters.prod.prometheus"),
        ("[clusters.prod]\nprometheus = []", "clusters.prod.prometheus: the list is empty"),
        ("[clusters.prod]\nprometheus = 5", "clusters.prod.prometheus: it must be a URL, or a list"),
        (
            "[clusters.prod]\nprometheus = ['http://a', 'b:9090']",
            "clusters.prod.prometheus: address 2: url: this is not",
        ),
        ("[clusters.prod]\nprometheus = ['http://a', 5]", "clusters.prod.prometheus: address 2: it must be a URL"),
        ("[clusters.prod]\nprometheus = [{headers = {}}]", "clusters.prod.prometheus: address 1: url: it is missing"),
        (
            "[clusters.prod]\nprometheus = [{url = 'http://a', heders = {}}]",
            "address 1: heders: there is no such field",
        ),
        (
            "[clusters.prod]\nprometheus = [{url = 'http://a', match = {'1' = 'x'}}]",
            "address 1: match: '1' is not a label",
        ),
        ("[clusters.prod]\nprometheus = ['http://a', 'http://A:80/']", "address 2 is the same as address 1"),
        ("[thresholds]\nslow_ratio = 0.5", "thresholds.slow_ratio"),
        ("[windows]\nlength = '15 parsecs'", "parsecs"),
        ("[windows]\nlength = 'P9999999D'", "windows.length"),
        ("[windows]\nbaseline = -5", "windows.baseline"),
        ("[windows]\nlength = 15", 'windows.length: a duration is a text with its unit, such as "15m"'),
        ("[windows]\nlength = true", "windows.length: a duration is a text"),
        ("[clusters.prod.groups.g]\ntime_lag_objective = 120", "groups.g.time_lag_objective: a duration is a text"),
        ("[clusters.prod]\ntimeout_seconds = true", "timeout_seconds: it must be a number, and not true or false"),
        ("[thresholds]\nrebalances = true", "thresholds.rebalances: it must be a number, and not true or false"),
        (
            "[clusters.prod]\nkafka = {'sasl.password' = '${NOT_SET_4711}'}",
            "clusters.prod.kafka.sasl.password uses ${NOT",
        ),
        (
            "[clusters.prod]\nmetrics = ['http://a', '${file:/none}']",
            "clusters.prod.metrics.1 uses ${file:/none}, which",
        ),
        ("[clusters.prod]\nbootstrap = 'SASL_SSL://u:hunter2@k:1'", "bootstrap: 'k:1' is not host:port"),
        ("[thresholds]\ntime_lag_objective_seconds = inf", "thresholds.time_lag_objective_seconds"),
        ("[thresholds]\nhot_floor_messages = nan", "thresholds.hot_floor_messages"),
        ("[clusters.prod]\ntimeout_seconds = inf", "clusters.prod.timeout_seconds"),
        ("[clusters.prod.thresholds]\nrtt_seconds = inf", "clusters.prod.thresholds.rtt_seconds"),
        ("[clusters.prod\n", "workbench.toml"),
        ("[clusters.prod]\nname = 'production'", "clusters.prod.name: a cluster has the name of its table"),
        ("clusters = 3", "clusters"),
    ],
)
def test_a_wrong_field_is_named(tmp_path: Path, text: str, named: str) -> None:
    """The message leads to the line; there is no traceback."""
    with pytest.raises((ConfigError,)) as caught:
        load_settings(write(tmp_path, text))
    assert named in caught.value.message
    assert "hunter2" not in caught.value.message


def test_a_file_may_begin_with_the_mark_of_an_editor(tmp_path: Path) -> None:
    """Editors of Windows put a byte order mark before UTF-8 and end lines with CRLF: the settings are the same."""
    path = tmp_path / "workbench.toml"
    path.write_bytes(b'\xef\xbb\xbf[clusters.prod]\r\nbootstrap = "k:9092"\r\n')
    assert load_settings(path).cluster("prod").bootstrap == "k:9092"


def test_what_is_put_in_is_not_looked_at_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A password that looks like a place for a value is a password, and a file that is too long is refused, not cut."""
    (tmp_path / "other").write_text("other")
    password = f"a${{file:{tmp_path / 'other'}}}b"
    monkeypatch.setenv("KAFKA_PASSWORD", password)
    path = write(tmp_path, "[clusters.prod]\nkafka = { 'sasl.password' = '${KAFKA_PASSWORD}' }")
    assert load_settings(path).cluster("prod").kafka["sasl.password"] == password
    (tmp_path / "long").write_text("k" * 70_000)
    path = write(tmp_path, f"[clusters.prod]\nkafka = {{ 'ssl.key.pem' = '${{file:{tmp_path / 'long'}}}' }}")
    with pytest.raises(ConfigError, match=r"kafka\.ssl\.key\.pem uses .*: File too large"):
        load_settings(path)


def test_secrets_come_from_the_environment_and_do_not_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """${NAME} is replaced; what is missing is named; a password is in no representation."""
    path = write(tmp_path, "[clusters.prod]\nkafka = { 'sasl.password' = '${KAFKA_PASSWORD}' }")
    with pytest.raises(ConfigError, match="KAFKA_PASSWORD"):
        load_settings(path)
    monkeypatch.setenv("KAFKA_PASSWORD", "hunter2")
    cluster = load_settings(path).cluster("prod")
    assert cluster.kafka["sasl.password"] == "hunter2"
    assert "hunter2" not in repr(cluster)


def test_a_list_of_prometheus_is_read_and_its_secrets_do_not_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """URLs and tables, also as `[[clusters.prod.prometheus]]`; two tenants of one address are two; nothing is lost in a copy."""
    monkeypatch.setenv("THANOS_TOKEN", "t0ken-4711")
    text = """
        [clusters.prod]
        match = {cluster = "eu"}
        prometheus_headers = {Authorization = "Bearer first-4711"}
        prometheus = [
          "http://user:hunter2@prom:9090/",
          {url = "https://thanos/", headers = {Authorization = "Bearer ${THANOS_TOKEN}"}, match = {}},
          {url = "https://thanos/", headers = {X-Scope-OrgID = "b"}},
        ]
    """
    cluster = load_settings(write(tmp_path, text)).cluster("prod")
    one, two, three = cluster.prometheus_servers
    assert (one.url, one.headers, one.match) == (
        "http://user:hunter2@prom:9090",
        {"Authorization": "Bearer first-4711"},
        {"cluster": "eu"},
    )
    assert (two.url, two.headers, two.match) == ("https://thanos", {"Authorization": "Bearer t0ken-4711"}, {})
    assert (three.headers, three.match) == ({"X-Scope-OrgID": "b"}, {"cluster": "eu"})
    assert cluster.secrets() >= {"hunter2", "first-4711", "t0ken-4711"}
    shown = f"{cluster!r} {one!r} {two!r} {cluster.parts}"
    assert not any(it in shown for it in ("hunter2", "first-4711", "t0ken-4711"))
    assert cluster.with_pages(["http://page"]).prometheus_servers == cluster.prometheus_servers
    tables = "[[clusters.a.prometheus]]\nurl = 'http://one'\n[[clusters.a.prometheus]]\nurl = 'http://two'\n"
    assert [it.url for it in load_settings(write(tmp_path, tables)).cluster("a").prometheus_servers] == [
        "http://one",
        "http://two",
    ]
    alone = load_settings(write(tmp_path, "[clusters.a]\nbootstrap = 'k'")).cluster("a")
    assert (alone.prometheus_servers, alone.parts) == ((), [])


def test_an_unknown_cluster_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    """The hint lists what there is, and how to start the lab."""
    settings = load_settings(write(tmp_path, "[clusters.prod]\nbootstrap='k'"))
    with pytest.raises(UnknownClusterError) as caught:
        settings.cluster("prd")
    assert "prod" in (caught.value.hint or "")
    with pytest.raises(UnknownClusterError) as caught:
        settings.cluster("lab")
    assert "workbench lab up" in (caught.value.hint or "")


def test_every_threshold_has_its_reason() -> None:
    """A number without a reason is a guess."""
    for name, field in Thresholds.model_fields.items():
        assert field.description, name
        assert field.default is not None, name


def test_a_number_that_is_none_is_said_in_our_words() -> None:
    """The validator's own words stay inside."""
    with pytest.raises(ValidationError) as caught:
        Thresholds.model_validate({"time_lag_objective_seconds": "soon"})
    assert str(first_problem(caught.value)) == "time_lag_objective_seconds: it must be a number"


@pytest.mark.parametrize(
    "place", ["${KAFKA-PASSWORD}", "${KAFKA_PASSWORD:-none}", "${KAFKA_PASSWORD", "${}", "${ KEY }"]
)
def test_a_place_for_a_secret_that_is_none_is_refused(tmp_path: Path, place: str) -> None:
    """Else it would be the password itself, and Kafka alone would say that something is wrong. The value stays inside."""
    text = f'[clusters.prod]\nbootstrap = "k"\n[clusters.prod.kafka]\n"sasl.password" = "hunter2{place}"\n'
    with pytest.raises(ConfigError, match="begins neither") as caught:
        load_settings(write(tmp_path, text))
    assert "hunter2" not in f"{caught.value.message}{caught.value.hint}"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[clusters]\nprod = 'k:9092'", "clusters.prod: it must be a table"),
        ("clusters = ['prod']", "clusters: it must be a table"),
        (
            "[clusters.prod.kafka.sasl]\npassword = 'x'",
            "clusters.prod.kafka.sasl: it must be a text or a number or true or false",
        ),
    ],
)
def test_what_has_another_type_is_said_in_words_of_the_file(tmp_path: Path, text: str, words: str) -> None:
    """Tables and texts, and no names of the program's own types."""
    with pytest.raises(ConfigError) as caught:
        load_settings(write(tmp_path, text))
    assert words in caught.value.message


def test_a_file_may_begin_with_a_mark_and_have_other_line_ends(tmp_path: Path) -> None:
    """As some editors write them."""
    path = tmp_path / "marked.toml"
    path.write_bytes(b"\xef\xbb\xbf[clusters.prod]\r\nbootstrap = 'k'\r\n")
    assert load_settings(path).clusters["prod"].bootstrap == "k"


def test_a_file_of_another_user_takes_no_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that somebody has unpacked could send a key to its own URL; who names the file trusts it."""
    import workbench.settings as settings

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("A_SECRET", "s3cr3t-4711")
    file = tmp_path / "workbench.toml"
    for text in ("${A_SECRET}", "${file:~/.ssh/id}"):
        file.write_text(f'[clusters.x]\nprometheus = "http://h"\nprometheus_headers = {{ a = "{text}" }}\n')
        monkeypatch.setattr(settings, "is_own", lambda _path: False)
        with pytest.raises(ConfigError, match="another user"):
            load_settings()
    monkeypatch.setenv("HOME", str(tmp_path))
    file.write_text('[clusters.x.prometheus_headers]\na = "${A_SECRET}"\n')
    assert load_settings(file).clusters["x"].prometheus_headers == {"a": "s3cr3t-4711"}
    file.write_text("[clusters.x]\n")
    assert list(load_settings().clusters) == ["x"]
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("A_SECRET", "s3cr3t-4711")
    file.write_text('[clusters.y.prometheus_headers]\na = "${A_SECRET}"\n')
    assert list(load_settings().clusters) == ["y"]


def test_a_file_of_this_folder_that_hides_the_users_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Once; and not where there is no other."""
    import workbench.settings_file as settings_file

    monkeypatch.chdir(tmp_path)
    (tmp_path / "workbench.toml").write_text("[clusters.x]\n")
    own = tmp_path / "own.toml"
    monkeypatch.setattr(settings_file, "config_file", lambda: own)
    settings_file.say_it_is_here.cache_clear()
    load_settings()
    assert capsys.readouterr().err == ""
    own.write_text("[clusters.y]\n")
    settings_file.say_it_is_here.cache_clear()
    load_settings()
    load_settings()
    assert capsys.readouterr().err.count("own.toml") == 1
    load_settings(own)
    assert capsys.readouterr().err == ""

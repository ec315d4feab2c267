"""The login of settings as files for Kafka's own tools and kcat, and the commands that name them."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from evaluation.kept import read
from tests.cli.running import run_here
from workbench.kafka.tool_login import java_login, kcat_login
from workbench.queues.tool_words import tools_of
from workbench.settings import Cluster
from workbench.triage.build_finding import build_finding

SASL = {"security.protocol": "sasl_ssl", "sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "on call"}
MODULE = "org.apache.kafka.common.security"


def lines(**given: object) -> dict[str, str]:
    """Properties for Kafka's own tools; `_` for dots."""
    written = {name.replace("_", "."): value for name, value in given.items()}
    return dict(line.split("=", 1) for line in java_login(written).text.splitlines())


def test_a_password_is_taken_from_where_the_settings_take_it() -> None:
    """By Kafka's own providers of values, so it is in no file."""
    made = java_login({**SASL, "sasl.password": "${KAFKA_PASSWORD}"}).text
    assert made.startswith(
        "config.providers=env\nconfig.providers.env.class=org.apache.kafka.common.config.provider.Env"
    )
    assert f'{MODULE}.scram.ScramLoginModule required username="on call" password="${{env:KAFKA_PASSWORD}}";' in made
    assert "security.protocol=SASL_SSL\n" in made
    of_file = java_login({**SASL, "sasl.password": "${file:/run/secrets/kafka}"})
    assert 'password="${directory:/run/secrets:kafka}";' in of_file.text
    assert any("line break" in note for note in of_file.notes)


def test_a_password_that_is_written_out_is_not_written_out_again() -> None:
    """Somebody may show the new file to others."""
    made = java_login({**SASL, "sasl.password": "hunter2"})
    assert "hunter2" not in made.text + " ".join(made.notes)
    assert 'password="${env:KAFKA_PASSWORD}";' in made.text
    assert "the environment, KAFKA_PASSWORD." in made.notes[0]


def test_certificates_are_those_of_the_settings() -> None:
    """In PEM, as librdkafka has them; a key must be PKCS#8 for Java, and that is said."""
    found = lines(
        security_protocol="SSL",
        ssl_ca_location="/etc/ca.pem",
        ssl_certificate_location="/etc/me.pem",
        ssl_key_location="/k/me.key",
    )
    assert found["ssl.truststore.location"] == "/etc/ca.pem"
    assert found["ssl.keystore.certificate.chain"] == "${directory:/etc:me.pem}"
    assert found["ssl.keystore.key"] == "${directory:/k:me.key}"
    assert "sasl.mechanism" not in found
    made = java_login(
        {"security.protocol": "SSL", "ssl.certificate.location": "/etc/me.pem", "ssl.key.location": "/k/me.key"}
    )
    assert [note for note in made.notes if "line break" in note] == []  # only a password would have it
    found = lines(security_protocol="SSL", ssl_keystore_location="/k/me.p12", ssl_keystore_password="${P}")
    assert (found["ssl.keystore.type"], found["ssl.keystore.password"]) == ("PKCS12", "${env:P}")
    assert (
        lines(security_protocol="SSL", ssl_endpoint_identification_algorithm="none")[
            "ssl.endpoint.identification.algorithm"
        ]
        == ""
    )


@pytest.mark.parametrize(
    ("mechanism", "said"),
    [
        ("PLAIN", "plain.PlainLoginModule"),
        ("SCRAM-SHA-256", "scram.ScramLoginModule"),
        ("GSSAPI", "com.sun.security.auth.module.Krb5LoginModule required useTicketCache=true;"),
    ],
)
def test_each_mechanism_has_its_module(mechanism: str, said: str) -> None:
    """As Kafka's clients call it."""
    assert (
        said
        in lines(security_protocol="SASL_SSL", sasl_mechanisms=mechanism, sasl_username="u", sasl_password="${P}")[
            "sasl.jaas.config"
        ]
    )


def test_what_cannot_be_said_to_a_java_client_is_told() -> None:
    """And never left out without a word."""
    made = java_login(
        {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER", "enable.ssl.certificate.verification": False}
    )
    assert [it.partition(" ")[0] for it in made.notes] == ["Kafka's", "OAUTHBEARER"]


def test_odd_letters_survive_a_file_of_java() -> None:
    """Which is Latin-1, and takes a backslash for an escape."""
    user = lines(
        **{name.replace(".", "_"): value for name, value in SASL.items()}
        | {"sasl_username": 'a\\"é\U0001f600', "sasl_password": "${P}"}
    )
    assert 'username="a\\\\\\\\\\\\"\\u00e9\\ud83d\\ude00"' in user["sasl.jaas.config"]


def test_kcat_has_the_properties_themselves() -> None:
    """What has several lines would be cut."""
    made = kcat_login(
        {**SASL, "sasl.password": "x=y", "ssl.ca.pem": "-----\na\n", "enable.ssl.certificate.verification": True}
    )
    assert "sasl.password=x=y\n" in made.text
    assert "enable.ssl.certificate.verification=true\n" in made.text
    assert "ssl.ca.pem" not in made.text
    assert "ssl.ca.pem has several lines" in made.notes[0]


def test_commands_name_the_login_of_a_secured_cluster() -> None:
    """Without it, a tool takes the brokers for plaintext: it ends with an OutOfMemoryError, or after a minute."""
    open_one, closed = Cluster(name="a", bootstrap="k:1"), Cluster(name="a", bootstrap="k:1", kafka={**SASL})
    assert (open_one.login_file, closed.login_file) == (None, "client.properties")
    assert Cluster(name="a", kafka={"security.protocol": "plaintext"}).login_file is None
    named = Cluster(name="a", kafka={**SASL}, command_config="/etc/kafka/on call.properties")
    tools = tools_of("k:1", login_file=named.login_file)
    with_login = "--bootstrap-server k:1 --command-config '/etc/kafka/on call.properties' "
    for text in (
        tools.describe_group("g"),
        tools.list_quotas(),
        tools.list_writers("t", 0),
        tools.reset_from_file("g"),
    ):
        assert with_login in str(text)
    assert str(tools.read_record("t", 3, 7)) == "kcat -F /etc/kafka/kcat.conf -b k:1 -C -t t -p 3 -o 7 -c 1 -J"
    assert tools_of("k:1").describe_group("g") == "kafka-consumer-groups --bootstrap-server k:1 --describe --group g"


def test_every_finding_of_a_secured_cluster_can_be_acted_on() -> None:
    """Over the kept cases: no command of Kafka's own tools, nor of kcat, is without the login."""
    seen = set()
    for case, _, _ in read():
        for action in build_finding(
            case.judged(), profiles=[], bootstrap="b:9093", login_file="client.properties"
        ).actions:
            words = (action.command or "workbench").partition(" ")[0]
            assert (
                words == "workbench"
                or "--command-config client.properties" in str(action.command)
                or "-F kcat.conf" in str(action.command)
            )
            seen.add(words)
    assert {"kafka-consumer-groups", "kcat", "workbench"} <= seen


def test_the_command_writes_what_findings_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For its owner alone, and never over a file that is there."""
    monkeypatch.setenv("SECRET_OF_TEST", "hunter2")
    given = {**SASL, "sasl.password": "${SECRET_OF_TEST}"}
    written = "\n".join(f"{json.dumps(name)} = {json.dumps(value)}" for name, value in given.items())
    (tmp_path / "workbench.toml").write_text(f"[clusters.prod.kafka]\n{written}\n[clusters.open]\n")
    made = run_here("export", "login", "--cluster", "prod", "--kcat", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    assert "hunter2" not in (tmp_path / "client.properties").read_text() + made.stderr
    assert "sasl.password=hunter2\n" in (tmp_path / "kcat.conf").read_text()
    assert {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("client.properties", "kcat.conf")} == {0o600}
    for words, said in (
        (("prod",), "client.properties exists, and is not replaced"),
        (("open",), "'open' needs no login"),
    ):
        refused = run_here("export", "login", "--cluster", *words, cwd=tmp_path)
        assert (refused.returncode, said in refused.stderr) == (2, True), refused.stderr

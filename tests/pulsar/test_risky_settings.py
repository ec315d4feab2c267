"""Six settings of a broker: at risk, fine, or cannot tell; never fine because a value is missing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.pulsar.pages import FakeAdmin
from tests.servers import Script, scripted
from workbench.cli.pulsar import command
from workbench.errors import UsageError
from workbench.pulsar.broker_conf import read_configs
from workbench.pulsar.risky_settings import BrokerSettings, Soundness, check_config, misspelt, parse_version

CACHE, TIME = "cacheEvictionByMarkDeletedPosition", "managedLedgerCacheEvictionTimeThresholdMillis"
ACKS, SHRINK = "managedLedgerDefaultMarkDeleteRateLimit", "autoShrinkForConsumerPendingAcksMap"
SPLITS, HEALTH, VERSION = "supportedNamespaceBundleSplitAlgorithms", "bookkeeperClientHealthCheckEnabled", "(version)"
R, U, F = Soundness.AT_RISK, Soundness.UNKNOWN, Soundness.FINE


def judged(setting: str, values: dict[str, str], version: str | None = None, **known: float) -> tuple[Soundness, str]:
    """Soundness and reason of one setting."""
    broker = BrokerSettings(values=values, version=parse_version(version) if version else None, **known)  # type: ignore[arg-type]
    [it] = [it for it in check_config(broker) if it.setting == setting]
    return it.soundness, it.why


@pytest.mark.parametrize(
    ("setting", "values", "version", "expected"),
    [
        (CACHE, {CACHE: "false", TIME: "1800000"}, "3.0.1", R),
        (CACHE, {CACHE: "true", TIME: "1800000"}, "3.0.1", F),
        (CACHE, {CACHE: "true", TIME: "1000"}, "3.0.1", R),  # the time takes it away anyway
        (CACHE, {CACHE: "true"}, "3.0.1", U),
        (CACHE, {CACHE: "yes"}, "3.0.1", U),
        (CACHE, {CACHE: "false"}, "4.1.0", U),
        (VERSION, {}, "2.8.2", R),
        (VERSION, {}, "2.8.3", F),
        (VERSION, {}, "2.9.1", R),
        (VERSION, {}, "2.9.2", F),
        (VERSION, {}, "2.10", F),
        (VERSION, {}, None, U),
        (SHRINK, {SHRINK: "false"}, "2.11.0", R),
        (SHRINK, {SHRINK: "true"}, "2.11.0", F),
        (SHRINK, {}, "3.3.9", U),
        (SHRINK, {}, None, U),
        (SHRINK, {}, "4.0.7", F),
        (ACKS, {ACKS: "0"}, None, R),
        (ACKS, {ACKS: "1.0"}, None, U),
        (ACKS, {ACKS: "nan"}, None, U),
        (ACKS, {ACKS: "inf"}, None, U),
        (SPLITS, {SPLITS: "[range_equally_divide, specified_positions_divide]"}, None, F),
        (SPLITS, {SPLITS: "range_equally_divide,topic_count_equally_divide"}, None, R),
        (HEALTH, {HEALTH: "true"}, None, R),
        (HEALTH, {HEALTH: "false"}, None, F),
    ],
)
def test_each_setting_is_judged_by_its_value_and_version(
    setting: str, values: dict[str, str], version: str | None, expected: Soundness
) -> None:
    """What does not parse is not known, and a version without the fault is fine whatever the setting."""
    assert judged(setting, values, version)[0] is expected


def test_nothing_known_is_nothing_fine() -> None:
    """An empty file says nothing about a broker."""
    found = check_config(BrokerSettings(values={}))
    assert len(found) == 6
    assert {it.soundness for it in found} == {U}


def test_writes_of_acknowledgements_are_compared_with_those_of_producers() -> None:
    """250,000 a second beside 8,000 at one write per cursor; a hundredth of it is fine."""
    soundness, why = judged(ACKS, {ACKS: "1.0"}, cursors=250_000, publish_rate=8_000.0)
    assert soundness is R
    assert "250 k/s for 250 k cursors, beside 8,000/s of producers" in why
    assert judged(ACKS, {ACKS: "0.01"}, cursors=250_000, publish_rate=8_000.0)[0] is F
    assert judged(ACKS, {ACKS: "0.01"}, cursors=250_000)[0] is U


def test_the_time_of_quarantine_is_the_brokers() -> None:
    """As it is set, or said to be the default."""
    own = {HEALTH: "true", "bookkeeperClientHealthCheckQuarantineTimeInSeconds": "60"}
    assert "no new ledgers for 1 min" in judged(HEALTH, own)[1]
    assert "not known (default: 30 min)" in judged(HEALTH, {HEALTH: "true"})[1]


def test_a_misspelt_name_is_told() -> None:
    """Brokers ignore it without a word; a name that is right is not doubted."""
    assert misspelt({"managedLedgerDefaultMarkDeleteTateLimit": "0.01"}) == [
        ("managedLedgerDefaultMarkDeleteTateLimit", ACKS)
    ]
    assert (
        misspelt({ACKS: "1", "defaultNamespaceBundleSplitAlgorithm": "x", "managedLedgerCacheEvictionIntervalMs": "1"})
        == []
    )


def test_files_are_read_as_brokers_read_them(tmp_path: Path) -> None:
    """Comments, blanks, other separators, lines that go on; a later file stands over; an empty value is none."""
    conf, dynamic = tmp_path / "broker.conf", tmp_path / "dynamic.json"
    conf.write_text(
        f"# {HEALTH}=false\n! no\n{ACKS} = 1.0\n{CACHE}: true\n{SPLITS}=a,\\\n   b\nempty=\n{TIME} 7\n\nlone\n"
    )
    dynamic.write_text(json.dumps({ACKS: 0.01, HEALTH: True, "list": [1], "none": None}))
    assert read_configs([conf, dynamic]) == {ACKS: "0.01", CACHE: "true", SPLITS: "a,b", TIME: "7", HEALTH: "true"}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\xff\xfe", "is not text in UTF-8"),
        (b'{"password": "hunter22"', "begins like JSON"),
        (b"{" * 100_000, "begins like JSON"),
    ],
)
def test_a_wrong_file_is_one_error_without_its_lines(tmp_path: Path, content: bytes, said: str) -> None:
    """A line of it may be a password."""
    file = tmp_path / "broker.conf"
    file.write_bytes(content)
    with pytest.raises(UsageError, match=said) as raised:
        read_configs([file])
    assert "hunter22" not in str(raised.value) + str(raised.value.hint)


@pytest.mark.parametrize("text", ["", "four", "4", "v4.0", "99999.1"])
def test_a_wrong_version_is_named(text: str) -> None:
    """Two or three numbers; what follows does not matter."""
    with pytest.raises(UsageError, match="is not a version"):
        parse_version(text)
    assert parse_version("3.0.1-SNAPSHOT") == (3, 0, 1)
    assert parse_version("2.10") == (2, 10, 0)


@pytest.mark.parametrize(
    ("text", "code"),
    [(f"{HEALTH}=true\n", 3), ("", 4), ("managedLedgerDefaultMarkDeleteTateLimit=0.01\n", 3)],
)
def test_the_exit_code_says_the_worst(tmp_path: Path, text: str, code: int) -> None:
    """3 for a risk or a name that does nothing, 4 if something is not known."""
    file = tmp_path / "broker.conf"
    file.write_text(text + "brokerClientAuthenticationParameters=token:hunter22hunter22\n")
    shown = CliRunner().invoke(command, ["config-check", str(file)], standalone_mode=False)
    assert shown.exception is None
    assert shown.return_value == code
    assert "hunter22" not in shown.output


def test_what_a_file_says_cannot_control_the_terminal(tmp_path: Path) -> None:
    """A value is escaped, on the screen and in JSON."""
    file = tmp_path / "broker.conf"
    file.write_text(f"{SPLITS}=\x1b[2Jx\n")
    shown = CliRunner().invoke(command, ["config-check", str(file)], standalone_mode=False)
    assert "\x1b[2J" not in shown.output and "\\x1b[2Jx" in shown.output
    document = json.loads(
        CliRunner().invoke(command, ["config-check", "--json", str(file)], standalone_mode=False).output
    )
    assert [it["value"] for it in document["checks"] if it["setting"] == SPLITS] == ["\x1b[2Jx"]


@pytest.mark.parametrize(
    ("version", "expected"), [(b"4.0.7", "fine"), (b"<html>", "cannot tell"), (b"2.8.2", "at risk")]
)
def test_without_files_the_broker_is_asked(tmp_path: Path, version: bytes, expected: str) -> None:
    """Its settings as it runs, and its version; a version that is none is not known."""
    answers = {"brokers/configuration/runtime": {HEALTH: "false"}, "brokers/version": version}
    with scripted(Script(answer=FakeAdmin({}, extra=answers))) as script:
        config = tmp_path / "workbench.toml"
        config.write_text(
            f'[clusters.events]\nsystem = "pulsar"\n[clusters.events.pulsar]\nadmin_url = "{script.url}"\n'
        )
        words = ["config-check", "--cluster", "events", "--json", "--config", str(config)]
        shown = CliRunner().invoke(command, words, standalone_mode=False)
        both = CliRunner().invoke(command, [*words, str(config)], standalone_mode=False)
    found = {it["setting"]: it["soundness"] for it in json.loads(shown.stdout)["checks"]}
    assert (found[VERSION], found[HEALTH], found[SPLITS]) == (expected, "fine", "cannot tell")
    assert isinstance(both.exception, UsageError)

"""The two ways to a fleet: HTTP that misbehaves, and commands that fail."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.servers import Script, scripted
from workbench.errors import ConfigError, NoAnswerError, SourceUnreachableError
from workbench.replay.service_fleet import CommandFleet, FleetFile, HttpFleet, read_fleet
from workbench.replay.service_fleet_kinds import make_fleet

STATUS = {
    "schema": "workbench.runtime-status/1", "client_id": "a", "group": "g", "state": "running", "rebalances": 2, "more": [1],
    "members": [{"member": "a-0", "partitions": [{"topic": "t", "partition": 0, "first_offset": 5, "committed": 9, "completed": 4}]}],
}  # fmt: skip


def http(url: str, token: str | None = "secret-token") -> HttpFleet:
    """A fleet of one."""
    return HttpFleet(FleetFile(kind="http", instances=[url], token=token, request_timeout_seconds=1.0))


def test_a_status_is_read_and_an_order_is_sent() -> None:
    """With the bearer token; unknown fields of a newer runtime do not matter."""
    with scripted(Script(body=json.dumps(STATUS).encode())) as server:
        fleet = http(server.url)
        status = fleet.status(server.url)
        fleet.switch(server.url, group="new", old_group="old", since="2026-11-21T00:00:00+00:00")
    assert (status.group, status.state, status.rebalances) == ("g", "running", 2)
    assert status.members[0].partitions[0].completed == 4
    assert [path for path, _, _ in server.requests] == ["/status", "/replay"]
    assert all(headers["Authorization"] == "Bearer secret-token" for _, _, headers in server.requests)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (Script(status=500, body=b"oops\x1b[31m"), "500"),
        (Script(status=401), "refuses the token"),
        (Script(status=302), "302"),
        (Script(body=b"<html>"), "unexpected document"),
        (Script(body=b'{"client_id": "a"}'), "group is missing or wrong"),
        (Script(delay_seconds=3.0), "no answer in time"),
    ],
)
def test_a_bad_answer_is_an_error_with_the_instance_in_it(script: Script, words: str) -> None:
    """Never a traceback, never the token, never a redirect that would carry the token away."""
    with scripted(script) as server, pytest.raises(SourceUnreachableError) as caught:
        http(server.url).status(server.url)
    assert words in caught.value.message
    assert server.url in caught.value.message
    assert "secret-token" not in caught.value.message + (caught.value.hint or "")
    assert "\x1b" not in caught.value.message


@pytest.mark.parametrize(
    "script",
    [Script(delay_seconds=3.0), Script(status=504), Script(status=502), Script(body=b"xx", trickle_seconds=1.5)],
    ids=repr,
)
def test_an_order_whose_answer_is_missing_may_have_been_heeded(script: Script) -> None:
    """Late, lost behind a proxy, or cut off in the middle: that is not known, and is no refusal."""
    with scripted(script) as server, pytest.raises(NoAnswerError):
        http(server.url).switch(server.url, group="new", old_group="old", since="s")


@pytest.mark.parametrize("script", [Script(status=500), Script(status=409), Script(status=401)], ids=repr)
def test_an_order_that_is_refused_was_not_heeded(script: Script) -> None:
    """The instance said so; and where nobody listens, nobody heard it."""
    with scripted(script) as server, pytest.raises(SourceUnreachableError) as caught:
        http(server.url).switch(server.url, group="new", old_group="old", since="s")
    assert not isinstance(caught.value, NoAnswerError)
    with pytest.raises(SourceUnreachableError) as caught:
        http("http://127.0.0.1:9").switch("http://127.0.0.1:9", group="new", old_group="old", since="s")
    assert not isinstance(caught.value, NoAnswerError)


def test_nobody_there() -> None:
    """A refused connection names the instance."""
    with pytest.raises(SourceUnreachableError, match=r"http://127\.0\.0\.1:9"):
        http("http://127.0.0.1:9").status("http://127.0.0.1:9")


def commands(*switch: str, check: list[str] | None = None, timeout: float = 5.0) -> CommandFleet:
    """A fleet of names."""
    values = {"switch": list(switch), "check": check, "timeout_seconds": timeout}
    fleet = make_fleet(FleetFile(kind="command", instances=["svc-0"], command=values))  # type: ignore[arg-type]
    assert isinstance(fleet, CommandFleet)
    return fleet


def test_a_command_gets_its_words_filled_in_without_a_shell(tmp_path: Path) -> None:
    """What looks like shell stays a word."""
    out = tmp_path / "out"
    program = "import sys; open(sys.argv[1], 'w').write('|'.join(sys.argv[2:]))"
    words = ["{instance}", "GROUP={group}", "$({old_group})", '{"spec": {"since": "{since}"}}']
    fleet = commands(sys.executable, "-c", program, str(out), *words)
    fleet.switch("svc-0", group="new; rm -rf /", old_group="old", since="s")
    assert out.read_text() == 'svc-0|GROUP=new; rm -rf /|$(old)|{"spec": {"since": "s"}}'
    assert fleet.status("svc-0") is None


def test_a_command_that_fails_hangs_or_is_not_there() -> None:
    """Its last line is told; a check that fails is just not healthy."""
    bad = "import sys; print('first', file=sys.stderr); sys.exit('no such deployment')"
    with pytest.raises(SourceUnreachableError, match="ended with 1: no such deployment"):
        commands(sys.executable, "-c", bad).switch("svc-0", group="g", old_group="o", since="s")
    with pytest.raises(NoAnswerError, match="did not finish in time"):
        commands(sys.executable, "-c", "import time; time.sleep(60)", timeout=0.5).switch(
            "svc-0", group="g", old_group="o", since="s"
        )
    with pytest.raises(ConfigError, match="does not exist"):
        commands("/no/such/program").switch("svc-0", group="g", old_group="o", since="s")
    assert not commands("true", check=[sys.executable, "-c", bad]).healthy("svc-0", group="g")
    assert commands("true").healthy("svc-0", group="g")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kind = 'http'", "instances"),
        ("kind = 'ssh'\ninstances = ['a']", "kind"),
        ("kind = 'http'\ninstances = ['svc']", "URL"),
        ("kind = 'command'\ninstances = ['a']", r"no \[command\]"),
        ("kind = 'command'\ninstances = ['a']\n[command]\nswitch = ['{pod}']", "placeholder"),
        ("kind = 'command'\ninstances = ['a', 'a']\n[command]\nswitch = ['x']", "twice"),
        ("kind = 'http'\ninstances = ['http://a']\nbatchsize = 1", "batchsize"),
        ("kind = 'http'\ninstances = ['http://a']\ntoken = '${NO_SUCH_VARIABLE}'", "NO_SUCH_VARIABLE"),
        ("kind = ", "cannot be read"),
    ],
)
def test_a_fleet_file_that_is_wrong_is_named(tmp_path: Path, text: str, words: str) -> None:
    """File and field; a token never appears."""
    path = tmp_path / "fleet.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=words) as caught:
        read_fleet(path)
    assert str(path) in caught.value.message


def test_the_token_comes_from_the_environment_and_stays_out_of_sight(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`${NAME}`; and no repr shows it."""
    monkeypatch.setenv("FLEET_TOKEN", "hidden-value")
    path = tmp_path / "fleet.toml"
    path.write_text("kind = 'http'\ninstances = ['http://127.0.0.1:1']\ntoken = '${FLEET_TOKEN}'")
    file = read_fleet(path)
    assert file.token == "hidden-value"
    assert "hidden-value" not in repr(file)

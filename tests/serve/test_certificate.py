"""A certificate that is renewed while it is served."""

from __future__ import annotations

import logging
import shutil
import ssl
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.certificates import certificate
from tests.serve.serving import Office, running
from workbench.errors import OutputError
from workbench.serve import certificate as module
from workbench.serve.certificate import Certificate
from workbench.serve.server import Options


@dataclass
class Clock:
    """Seconds, as told; each look is a while after the last."""

    now: float = 0.0

    def __call__(self) -> float:
        self.now += 60.0
        return self.now


def served(port: int) -> str:
    """The certificate that a new connection gets, as PEM."""
    return ssl.get_server_certificate(("127.0.0.1", port), timeout=10)


def renew(folder: Path, *names: str) -> str:
    """Put a new pair, or a half of it, in place of the files `server.*`; the new certificate."""
    fresh = folder / "fresh"
    fresh.mkdir(exist_ok=True)
    certificate(fresh, "server")
    for name in names or ("server.pem", "server.key"):
        shutil.copyfile(fresh / name, folder / name)
    return (fresh / "server.pem").read_text()


def test_a_renewed_certificate_is_served_without_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the next connection on; one that is open goes on."""
    monkeypatch.setattr(module, "_LOOK_SECONDS", 0.0)
    certificate(tmp_path, "server")
    pair = Options(certificate=tmp_path / "server.pem", key=tmp_path / "server.key")
    first = (tmp_path / "server.pem").read_text()
    with running(Office(tmp_path), threads=False, options=pair) as server:
        assert served(server.port) == first
        second = renew(tmp_path)
        assert served(server.port) == second != first


def test_a_key_that_does_not_fit_leaves_the_former_pair(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is told once, and when the other half comes, the new pair is served."""
    monkeypatch.setattr(module, "_LOOK_SECONDS", 0.0)
    certificate(tmp_path, "server")
    pair = Options(certificate=tmp_path / "server.pem", key=tmp_path / "server.key")
    first = (tmp_path / "server.pem").read_text()
    with running(Office(tmp_path), threads=False, options=pair) as server:
        second = renew(tmp_path, "server.pem")
        for _ in range(3):
            assert served(server.port) == first
        told = [it for it in caplog.records if "former one is still served" in it.getMessage()]
        assert len(told) == 1
        assert str(tmp_path) not in told[0].getMessage() and "PRIVATE" not in caplog.text
        shutil.copyfile(tmp_path / "fresh" / "server.key", tmp_path / "server.key")
        assert served(server.port) == second


@pytest.mark.parametrize(
    "damage", ["", "no PEM", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", None]
)
def test_half_a_file_or_none_leaves_the_former_pair(
    tmp_path: Path, damage: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """Removed, emptied, or cut: the log says so."""
    certificate(tmp_path, "server")
    pair = Certificate(tmp_path / "server.pem", tmp_path / "server.key", clock=Clock())
    before = pair._current
    if damage is None:
        (tmp_path / "server.pem").unlink()
    else:
        (tmp_path / "server.pem").write_text(damage)
    with caplog.at_level(logging.WARNING):
        pair.look()
        pair.look()
    assert pair._current is before
    assert len(caplog.records) == 1
    renew(tmp_path)
    pair.look()
    assert pair._current is not before


def test_a_first_pair_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    """As is a file that is none, and a key with a password, which nobody is asked for."""
    certificate(tmp_path, "server")
    certificate(tmp_path, "other")
    for key in ("other.key", "server.pem", "missing.key"):
        with pytest.raises(OutputError, match="cannot be used"):
            Certificate(tmp_path / "server.pem", tmp_path / key)

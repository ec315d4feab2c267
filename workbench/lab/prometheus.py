"""One real Prometheus on a free loopback port, with targets that come and go by file."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import requests

from workbench.errors import SetupError
from workbench.http_client import WebSession
from workbench.lab import process
from workbench.user_folders import cache_dir

START_SECONDS = 30.0
_PACKAGE_SECONDS = 120

_CONFIG = """\
global:
  scrape_interval: {scrape_seconds}s
  scrape_timeout: {scrape_seconds}s
scrape_configs:
  - job_name: lab
    file_sd_configs:
      - files: ["{targets}/*.json"]
        refresh_interval: 5s
"""


@dataclass(slots=True)
class PrometheusServer:
    """A running Prometheus."""

    url: str
    child: process.Child
    targets: Path

    def stop(self) -> None:
        """End it; its data stay in its folder."""
        self.child.stop()


def find_prometheus() -> Path | None:
    """The program, from PATH or from what `ensure_prometheus` put into the cache; None if neither has it."""
    if on_path := shutil.which("prometheus"):
        return Path(on_path)
    cached = _cached_program()
    return cached if cached.exists() else None


def ensure_prometheus() -> Path | None:
    """The program, fetched through the system's package manager if need be; None where that is not possible without asking.

    Nothing is installed and no service started: the package is downloaded by apt (which checks its signature) with lists of its own
    in our cache, and unpacked there. That needs no root.
    """
    found = find_prometheus()
    if found is not None:
        return found
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        return None
    with suppress(OSError, StopIteration):  # a time that has run out is one of them
        _unpack_debian_package("prometheus")
    return find_prometheus()


def ensure_alertmanager() -> Path | None:
    """Alertmanager's program, had in the same way."""
    return _ensure("prometheus-alertmanager", "alertmanager")


def ensure_victoria_metrics() -> Path | None:
    """VictoriaMetrics' program, had in the same way."""
    return _ensure("victoria-metrics")


def ensure_burrow() -> Path | None:
    """Burrow's program, had in the same way; for the tests."""
    return _ensure("burrow", "Burrow")


def _ensure(package: str, *other_names: str) -> Path | None:
    names = (package, *other_names)
    for name in names:
        if on_path := shutil.which(name):
            return Path(on_path)
    cached = [cache_dir() / package / "usr" / "bin" / name for name in names]
    if not any(it.exists() for it in cached) and shutil.which("apt-get") and shutil.which("dpkg-deb"):
        with suppress(OSError, StopIteration):
            _unpack_debian_package(package)
    return next((it for it in cached if it.exists()), None)


def _cached_program() -> Path:
    return cache_dir() / "prometheus" / "usr" / "bin" / "prometheus"


def _unpack_debian_package(name: str) -> None:
    with tempfile.TemporaryDirectory(dir=cache_dir()) as room:
        for folder in ("lists/partial", "cache/archives/partial", "unpacked"):
            (Path(room) / folder).mkdir(parents=True)
        apt = [
            "apt-get",
            "-qq",
            f"-oDir::State::lists={room}/lists",
            f"-oDir::Cache={room}/cache",
            "-oAPT::Sandbox::User=",
        ]
        for command in ([*apt, "update"], [*apt, "download", name]):
            _run(command, Path(room))
        package = next(Path(room).glob(f"{name}_*.deb"))
        _run(["dpkg-deb", "-x", package, f"{room}/unpacked"], Path(room))
        target = cache_dir() / name
        shutil.rmtree(target, ignore_errors=True)
        os.rename(f"{room}/unpacked", target)  # noqa: PTH104 - atomic, and Path.replace refuses folders on some systems


def _run(command: Sequence[str | Path], folder: Path) -> None:
    if process.run_within(_PACKAGE_SECONDS, command, cwd=folder) != 0:
        raise OSError(f"{command[0]} has failed")


def start_prometheus(folder: Path, *, scrape_seconds: int = 1) -> PrometheusServer:
    """Start a Prometheus in an empty folder and wait until it answers.

    Raises:
        SetupError: if there is no program or it does not come up.
    """
    program = ensure_prometheus()
    if program is None:
        raise SetupError(
            "There is no prometheus program on PATH.",
            hint="Install it, or record without it: workbench watch --cluster lab --output recording",
        )
    targets = folder / "targets"
    targets.mkdir(parents=True)
    config = folder / "prometheus.yml"
    config.write_text(_CONFIG.format(scrape_seconds=scrape_seconds, targets=targets), encoding="utf-8")
    port = process.free_port()
    child = process.start(
        "prometheus",
        [
            program,
            f"--config.file={config}",
            f"--storage.tsdb.path={folder}/data",
            f"--web.listen-address=127.0.0.1:{port}",
            "--log.level=warn",
        ],
        folder=folder,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        process.wait_until(lambda: _ready(url), child=child, seconds=START_SECONDS, what="Prometheus")
    except BaseException:
        child.kill()
        raise
    return PrometheusServer(url, child, targets)


def _ready(url: str) -> bool:
    try:
        with WebSession(deadline_seconds=2.0) as session:
            return bool(session.get(f"{url}/-/ready").status_code == 200)
    except requests.RequestException:
        return False

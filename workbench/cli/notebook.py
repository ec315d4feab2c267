"""`workbench notebook`: JupyterLab on the triage notebook, with its inputs filled in."""

from __future__ import annotations

import importlib.util
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import IO

import click

from workbench.cli.notebook_folder import lab_command, lab_environment, prepare
from workbench.cli.options import A_TIME, FOLDER, PLACE, cluster_option, completing, config_option, default_cluster
from workbench.errors import SetupError, UsageError
from workbench.extras import how_to_install
from workbench.lab.process import free_port
from workbench.safe_output import say, tell_address

_DEMO = Path("build/demo/capture")
_LIVE = ("lag_triage", "replay", "dead_letters", "explore", "impact")  # notebooks that read a cluster
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_LOOK_SECONDS = 0.2
_PATIENCE_SECONDS = 30.0  # JupyterLab gives its kernels ten


@click.command(name="notebook")
@click.argument("name", default="lag_triage", shell_complete=completing("notebooks"))
@cluster_option(required=False)
@click.option(
    "--capture",
    type=PLACE,
    help="Folder of a capture. Default, if there is no cluster either: the demo's, else a shipped one.",
)
@click.option("--group", shell_complete=completing("groups"), help="Only this consumer group.")
@click.option("--topic", help="Only this topic.")
@click.option("--since", help=f"Start of the window: {A_TIME}.")
@click.option("--until", help=f"End of the window: {A_TIME}. Default: now.")
@click.option(
    "--alert", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="File with an Alertmanager webhook."
)
@click.option(
    "--dir",
    "folder",
    type=FOLDER,
    default=Path("workbench-notebooks"),
    show_default=True,
    help="Folder for your copies of the notebooks. Your changes there are not overwritten.",
)
@click.option("--no-browser", is_flag=True, help="Print the address instead of opening a browser.")
@click.option("--port", type=click.IntRange(0, 65_535), default=0, help="Port on loopback. Default: a free one.")
@config_option
def command(
    name: str,
    cluster: str | None,
    capture: Path | None,
    group: str | None,
    topic: str | None,
    since: str | None,
    until: str | None,
    alert: Path | None,
    folder: Path,
    no_browser: bool,
    port: int,
    config: Path | None,
) -> int:
    """Open JupyterLab on a notebook. Ctrl-C stops it.

    \b
    NAME is one of:
      lag_triage     why a group lags (default)
      replay         process records again
      impact         who slows whom on the brokers
      dead_letters   produce dead letters again
      game_day       practise on recorded incidents
      explore        Spark SQL over the measurements
      audit          did everything arrive
      health_report  what the scheduled report runs

    The panel is ready when the notebook opens: press "Find the cause". Only notebooks that came with Workbench, or that you
    have run and saved here, run on opening. JupyterLab listens on loopback only, with a token of its own.
    """
    from workbench.settings import load_settings
    from workbench.shipped_files import notebook, shipped

    if cluster is not None and capture is not None:
        raise UsageError("Give either --cluster or --capture.")
    source = notebook(name)
    need_jupyterlab()
    settings = load_settings(config)
    if cluster is None and capture is None and alert is None and source.stem in _LIVE and settings.default_cluster():
        cluster = default_cluster(config)
    if cluster is not None:
        settings.cluster(cluster)
    chosen = None if cluster is not None else _capture(capture, source.stem)
    prepare(folder, shipped("notebooks"))
    environment = lab_environment(
        folder,
        {
            "WORKBENCH_CONFIG": str(settings.file) if settings.file is not None else None,
            "WORKBENCH_CLUSTER": cluster,
            "WORKBENCH_CAPTURE": str(chosen) if chosen is not None else None,
            "WORKBENCH_GROUP": group,
            "WORKBENCH_TOPIC": topic,
            "WORKBENCH_SINCE": since,
            "WORKBENCH_UNTIL": until,
            "WORKBENCH_ALERT": str(alert.resolve()) if alert is not None else None,
        },
    )
    port = port or free_port()
    token = environment["JUPYTER_TOKEN"] = secrets.token_hex(24)
    words = lab_command(folder, source.name, port=port, browser=not no_browser)
    log = folder.resolve() / ".lab" / "jupyter.log"
    say(f"Starting JupyterLab in {folder.resolve()} (log: {log}). Ctrl-C stops it.")

    def ready() -> None:
        tell_address(f"http://127.0.0.1:{port}/lab/tree/{source.name}?token={token}")

    return supervised(words, environment, log=log, port=port, ready=ready)


def need_jupyterlab() -> None:
    """Check that JupyterLab is here; it comes with the extra `notebook`.

    Raises:
        SetupError: if it is not.
    """
    if importlib.util.find_spec("jupyterlab") is None:
        raise SetupError("JupyterLab is not installed.", hint=f"Try: {how_to_install('notebook')}")


def supervised(
    words: list[str],
    environment: Mapping[str, str],
    *,
    patience_seconds: float = _PATIENCE_SECONDS,
    log: Path | None = None,
    port: int | None = None,
    ready: Callable[[], None] = lambda: None,
) -> int:
    """Run JupyterLab until it ends, and have it end its kernels when somebody wants it to end.

    It is not in our terminal's process group, where Ctrl-C would make it ask for confirmation. We forward a signal as
    SIGTERM; it then ends its kernels and itself, and we wait for that.

    Args:
        words, environment: of the program.
        patience_seconds: it is killed this long after it was told to end.
        log: file for its output.
        port: where it listens; `ready` is called once it does.

    Returns:
        its exit status; 0 after Ctrl-C, and 128 and the signal's number after another.
    """
    heard: list[int] = []
    before = {number: signal.signal(number, lambda number, _: heard.append(number)) for number in _ENDING}
    try:
        with _output(log) as output:
            child = subprocess.Popen(
                words,
                env=dict(environment),
                start_new_session=True,
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
            )
        waiting = port is not None
        while (code := _ended(child)) is None and not heard:
            if waiting and _listens(port or 0):
                waiting = False
                ready()
        if code is not None:
            if waiting and log is not None:
                say(f"JupyterLab has ended. Its last words are in {log}.")
            return code
        child.terminate()
        deadline = time.monotonic() + patience_seconds
        while (code := _ended(child)) is None and time.monotonic() < deadline:
            pass
        if code is None:
            say("JupyterLab does not stop. Killing it; its kernels stop by themselves.")
            child.kill()
            child.wait()
        return 0 if heard[0] == signal.SIGINT else 128 + heard[0]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _output(log: Path | None) -> AbstractContextManager[IO[bytes] | None]:
    return nullcontext() if log is None else log.open("wb")


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=0.2).close()
    except OSError:
        return False
    return True


def _ended(child: subprocess.Popen[bytes]) -> int | None:
    """Its exit status, or None if it goes on; asked for a moment, since a signal does not end the waiting."""
    try:
        return child.wait(_LOOK_SECONDS)
    except subprocess.TimeoutExpired:
        return None


def _capture(given: Path | None, name: str) -> Path | None:
    """The one that was given, or one that the notebook can say something about."""
    from workbench.collect.capture_info import read_info
    from workbench.shipped_files import shipped

    if given is not None:
        read_info(given)
        return given.resolve()
    captures = shipped("notebooks") / "captures"
    for place in (captures / "neighbours-1",) if name == "impact" else (_DEMO, captures / "incident-1"):
        if place.is_dir():
            return place.resolve()
    return None

"""Commands whose screens are kept: at 80 columns, piped and on a terminal, right and wrong input.

python -m tests.cli.transcribed [NAME …]    writes them anew; read the difference before you commit it
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path

import pexpect

from tests.cli.running import run_here
from workbench import __version__

ROOT = Path(__file__).parent.parent.parent
FOLDER = Path(__file__).parent / "transcripts"
CAPTURE = "incident"
SETTINGS = """
[clusters.prod]
prometheus = "http://127.0.0.1:9"
bootstrap = "127.0.0.1:9"
timeout_seconds = 2

[clusters.staging]
metrics = ["http://127.0.0.1:9/metrics"]

[clusters.prod.groups."pay*"]
time_lag_objective = "5m"
owner = "#payments"
runbook_base = "https://wiki.example.com/runbooks"
actions = { restart_consumers = "kubectl rollout restart deploy/{group}" }
"""
# name → words of the command
RIGHT = {
    "bare": "",
    "bare-lab": "lab",
    "bare-replay": "replay",
    "bare-dlq": "dlq",
    "bare-events": "events",
    "bare-export": "export",
    "help-triage": "triage --help",
    "help-notebook": "notebook --help",
    "help-snapshot": "snapshot --help",
    "help-watch": "watch --help",
    "help-init": "init --help",
    "help-export": "export grafana --help",
    "help-replay-plan": "replay plan --help",
    "help-replay-retire": "replay retire --help",
    "help-dlq-plan": "dlq plan --help",
    "help-dlq-apply": "dlq apply --help",
    "help-capture": "capture --help",
    "doctor-group": "doctor --cluster prod --group payments",
    "profiles-list": "profiles list",
    "profiles-check": f"profiles check --capture {CAPTURE}",
    "lab-list": "lab list",
    "runtime-settings": "runtime settings",
    "events-list": "events list --cluster prod",
    "replay-log": "replay log",
    "export": "export grafana --profile kafka_exporter --out monitoring",
    "completion": "completion fish",
}
WRONG = {
    "wrong-command": "triag",
    "wrong-subcommand": "lab staus",
    "wrong-option": "triage --clster prod",
    "nothing-given": "triage",
    "no-cluster": "triage --cluster prd",
    "no-capture": "triage --capture nowhere",
    "no-group": f"triage --capture {CAPTURE} --group payment",
    "no-topic": f"triage --capture {CAPTURE} --topic order",
    "no-time": f"triage --capture {CAPTURE} --since yesterday",
    "no-zone": f"triage --capture {CAPTURE} --since 2026-11-21T03:00:00",
    "no-duration": f"triage --capture {CAPTURE} --baseline long",
    "missing-option": "snapshot",
    "kafka-closed": "snapshot --cluster prod",
    "prometheus-closed": "profiles check --cluster prod",
    "no-bootstrap": "snapshot --cluster staging",
    "no-out": "watch --cluster prod",
    "no-notebook": "notebook lag-triage",
    "no-runbook": "runbooks show slow_procesor",
    "no-kind": "events add --cluster prod --kind deplyo",
    "no-plan": "replay apply plan.json",
    "no-lab": "snapshot --cluster lab",
    "no-port": "init --yes --bootstrap kafka:port --out new.toml",
    "a-file": "triage --capture workbench.toml",
    "wrong-dlq": "dlq lst",
    "no-redrive-plan": "dlq apply redrive.json",
    "no-letters-range": "dlq plan orders-dlt --cluster prod --offset 3",
    "two-targets": "dlq plan orders-dlt --cluster prod --to orders --to-url http://h/in",
    "dlq-closed": "dlq list --cluster prod",
    "retire-no-plan": "replay retire plan.json",
    "no-profile": "export grafana --profile kafka_exportr --out m",
    "no-url": "init --yes --prometheus prometheus:9090 --out new.toml",
    "broken-settings": "snapshot --cluster prod --config broken.toml",
    "unknown-field": "snapshot --cluster prod --config unknown.toml",
    "unknown-action": "snapshot --cluster prod --config action.toml",
    "no-scenario": "lab run slow_proces",
}
COMMANDS = {**RIGHT, **WRONG}


def furnish(room: Path) -> None:
    """Put settings, good and bad, and a capture into a folder."""
    (room / "workbench.toml").write_text(SETTINGS)
    (room / "broken.toml").write_text("[clusters.prod\n")
    (room / "unknown.toml").write_text('[clusters.prod]\nbotstrap = "b:9092"\n')
    (room / "action.toml").write_text('[clusters.prod]\n[clusters.prod.groups."*"]\nactions = { restart = "x" }\n')
    (room / CAPTURE).symlink_to(ROOT / "notebooks" / "captures" / "incident-1")


def piped(words: str, room: Path) -> str:
    """Exit code, stdout and stderr, each for itself."""
    shown = run_here(*words.split(), cwd=room)
    parts = [f"exit code {int(shown.returncode)}"]
    parts += [
        f"-- {name}\n{text.rstrip()}" for name, text in (("stdout", shown.stdout), ("stderr", shown.stderr)) if text
    ]
    return plain("\n".join(parts), room)


def on_terminal(words: str, room: Path) -> str:
    """What an 80 columns wide terminal shows, without colours and what is wiped again."""
    code = "import sys; sys.argv[0] = 'workbench'; from workbench.cli import main; main()"
    child = pexpect.spawn(
        sys.executable, ["-c", code, *words.split()], cwd=str(room), dimensions=(50, 80), encoding="utf-8", timeout=120,
        env={**os.environ, "TERM": "xterm-256color"},
    )  # fmt: skip
    child.expect(pexpect.EOF)
    child.close()
    text = re.sub(r"\x1b\[\?25[hl]", "", str(child.before))
    # A spinner writes its line, and wipes it.
    text = re.sub(r"[^\n]*(\r\x1b\[2K|\x1b\[1A\x1b\[2K)+", "", text)
    text = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text).replace("\r", "")
    text = "\n".join(line for line in text.splitlines() if not line.startswith(tuple("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")))
    return plain(f"exit code {child.exitstatus}\n{text.rstrip()}", room)


def plain(text: str, room: Path) -> str:
    """The same on every machine and every day."""
    text = text.replace(str(room), "ROOM").replace(__version__, "VERSION")
    text = re.sub(r"\d+\.\d s\b", "N s", text)
    # What is said of a wait depends on how fast the machine is; tests/cli/test_progress.py holds it.
    kept = [line.rstrip() for line in text.splitlines() if not line.startswith("… ")]
    if kept[-1] == "-- stderr":
        kept.pop()
    return "\n".join(kept) + "\n"


def both(name: str, room: Path) -> str:
    """The file: command, piped, terminal."""
    words = COMMANDS[name]
    return f"$ workbench {words}\n== piped\n{piped(words, room)}== terminal\n{on_terminal(words, room)}"


def main(*names: str) -> None:
    """Write some transcripts anew, or all."""
    os.environ["COLUMNS"] = "80"
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.glob("*.txt"):
        if not names:
            old.unlink()
    for name in names or COMMANDS:
        with tempfile.TemporaryDirectory() as place:
            room = Path(place)
            isolate(room, os.environ)  # type: ignore[arg-type]
            furnish(room)
            (FOLDER / f"{name}.txt").write_text(both(name, room), encoding="utf-8")


def isolate(room: Path, environ: dict[str, str]) -> None:
    """No settings, no running lab, no journal and no programs of this machine (promtool)."""
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        environ[name] = str(room / "home")
    environ["PATH"] = str(Path(sys.executable).parent)
    for name in ("WORKBENCH_CONFIG", "WORKBENCH_CLUSTER"):
        environ.pop(name, None)


if __name__ == "__main__":
    main(*sys.argv[1:])

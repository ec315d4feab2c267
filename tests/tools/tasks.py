"""Tasks of an engineer on call, each as one command: keystrokes and seconds, into docs/tasks.md; the clicks are those of tests.

    python -m tests.tools.tasks

It needs Java, and no cluster: the measurements are a recorded incident, and a store that is made here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.cli.transcribed import SETTINGS, isolate
from tests.fleet import land_fleet

ROOT = Path(__file__).parent.parent.parent
# task → command, and the exit codes that are its answer
TASKS: tuple[tuple[str, str, tuple[int, ...]], ...] = (
    ("From an alert to cause, actions and runbook", "triage --alert alert.json --capture one", (3,)),
    ("Why does this group lag?", "triage --capture one --group payments", (3,)),
    ("The same, for the last 10 seconds only", "triage --capture one --since 10s", (3, 4)),
    ("Hand it over as one offline page", "triage --capture one --html incident.html", (3,)),
    ("Give it to a program", "triage --capture one --json", (3,)),
    ("Did the fix work? Compare before and after", "triage --compare one two", (0, 3, 4)),
    ("Which of 100 groups need me?", "triage --all --store store", (0, 3, 4)),
    ("The fleet as a table for analysis", "triage --all --store store --parquet fleet.parquet", (0, 3, 4)),
    ("Read the runbook of a verdict", "runbooks show slow_processor", (0,)),
    ("Read the runbook of an alert", "runbooks show ConsumerStopped", (0,)),
    ("What was deployed today?", "events list --cluster prod", (0,)),
    ("Record a deploy", "events add --cluster prod --service payments --version 2.4", (0,)),
    ("What is expected of this group, and who owns it?", "doctor --cluster prod --group payments", (0,)),
    ("Which signals does a recording have?", "profiles check --capture one", (0,)),
    ("Which exporters does Workbench know?", "profiles list", (0,)),
    ("What was replayed, and by whom?", "replay log", (0,)),
    ("Make a dashboard and alerts", "export grafana --cluster prod --output monitoring", (0,)),
    (
        "Write the settings of a new cluster",
        "init --name shop --prometheus http://127.0.0.1:9 --yes --unchecked --output new.toml",
        (5,),
    ),
    ("Which incidents can I practise?", "lab list", (0,)),
    ("How does a command work?", "triage --help", (0,)),
)
HEAD = """# Tasks on call

Each is one command, or at most three clicks. Keystrokes count every letter and Enter, without completion. Seconds are from
Enter to the prompt, on the machine of the last run ({cores} cores, load average {load:.0f}), with a JVM that starts anew each
time. `python -m tests.tools.tasks` measures them again.

In a browser, with the clicks from the alert:

| task | way | clicks |
|---|---|---:|
| Read the runbook | the alert's `runbook_url` (with `runbook_base` set) | 1 |
| See the verdict of `workbench serve` | the link in the message | 1 |
| Find the cause in a notebook | a link with cluster and group filled in; **Find the cause** | 2 |
| Hand it over | the same, then **Save report** | 3 |
| Copy a command of a report, or open Grafana or the logs | a button, or a link, of the finding | 1 |
| A finding of a fleet, and back | its name in the overview; *Back to the fleet* | 1 |

From the link in a message to `workbench serve`, on a phone (390 px). `tests/serve/test_tasks.py` clicks them:

| task | way | clicks |
|---|---|---:|
| Which pod has the partition that waits? | the link; the group: *Partitions*, worst first, with their consumers | 2 |
| What was deployed before? | the same: *Last changes* | 2 |
| Was it so last week? | the link; the group; *30 days* | 3 |
| Is it only us? | the link; *Fleet* | 2 |
| Read the runbook | the link; *Runbook* | 2 |
| Say that I have it | the link; **Acknowledge** (a name is asked for, and not needed) | 2 |
| Look again, now | the link; **Triage now** | 2 |
| Be left alone for an hour | the link; **Mute** | 2 |

From a finding or a plan:

| task | way | clicks |
|---|---|---:|
| To a Spark query of this group | **Open in Spark** of the panel, which shows three cells to run; in a report, *Open in Spark* | 1 |
| From a wrong time zone to the warning | the first lines of `workbench replay plan` (139 keystrokes) | 0 |

As commands:

| task | command | keystrokes | seconds |
|---|---|---:|---:|
"""


def furnish(room: Path) -> None:
    """Put settings, an alert, two recordings and a store into a folder."""
    (room / "workbench.toml").write_text(SETTINGS)
    for name, incident in (("one", "incident-1"), ("two", "incident-2")):
        (room / name).symlink_to(ROOT / "notebooks" / "captures" / incident)
    alert = {
        "labels": {"alertname": "SlowProcessor", "cluster": "lab", "group": "payments", "topic": "orders"},
        "annotations": {},
        "startsAt": "2026-11-21T13:18:10Z",
        "status": "firing",
    }
    webhook = {"version": "4", "status": "firing", "alerts": [alert], "commonLabels": alert["labels"]}
    (room / "alert.json").write_text(json.dumps(webhook))
    land_fleet(room / "store", subscriptions=100, slot_seconds=900)


def main() -> None:
    """Run the tasks in order, and write the page."""
    page = HEAD.format(cores=os.cpu_count(), load=os.getloadavg()[0])
    with tempfile.TemporaryDirectory() as place:
        room = Path(place)
        furnish(room)
        environment = dict(os.environ)
        caches = Path.home() / ".cache"
        isolate(room, environment)
        environment |= {
            "XDG_CACHE_HOME": str(caches),
            "PYTHONPATH": str(ROOT),
            "PATH": os.environ["PATH"],
        }  # with its Java
        for task, words, codes in TASKS:
            began = time.monotonic()
            done = subprocess.run(
                [sys.executable, "-c", "from workbench.cli import main; main()", *words.split()],
                cwd=room, env=environment, capture_output=True, text=True, check=False,
            )  # fmt: skip
            seconds = time.monotonic() - began
            assert done.returncode in codes, (words, done.returncode, done.stderr)
            page += f"| {task} | `workbench {words}` | {len('workbench ') + len(words) + 1} | {seconds:.1f} |\n"
            print(f"{seconds:6.1f} s  {task}", flush=True)
    (ROOT / "docs" / "tasks.md").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()

"""A stand-in for kubectl with a StatefulSet and its controller, as far as a cutover sees them. It keeps its state in a JSON file.

It behaves like the real one in what matters: `set env` changes the template and returns at once; the controller replaces pods from the
highest number down to `partition`, one by one, and waits until each is ready; a deleted pod comes back with the template's current
revision only if its number is at or above the partition, and else with the former one.

Run as `python stand_in_kubectl.py STATE.json [--namespace N] words…`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def reconcile(state: dict[str, Any], *, steps: int = 100) -> None:
    """Replace the pods that are due."""
    for number in sorted((int(name.rpartition("-")[2]) for name in state["pods"]), reverse=True):
        pod = state["pods"][f"{state['name']}-{number}"]
        if number >= state["partition"] and pod["group"] != state["template"]:
            pod["group"], steps = state["template"], steps - 1
            state["restarts"].append(number)
            if number in state.get("broken", []):
                pod["ready"] = False
                return
            if steps == 0:
                return


def restarted(state: dict[str, Any], number: int) -> None:
    """What a deleted pod comes back with."""
    pod = state["pods"][f"{state['name']}-{number}"]
    pod["group"] = state["template"] if number >= state["partition"] else state["former"]


def containers(group: str) -> dict[str, Any]:
    """A pod's spec."""
    return {"containers": [{"name": "app", "env": [{"name": "WORKBENCH_RUNTIME_GROUP", "value": group}]}]}


def main() -> int:
    """One command."""
    path, words = Path(sys.argv[1]), sys.argv[2:]
    state = json.loads(path.read_text())
    if words[:1] == ["--namespace"]:
        assert words[1] == state["namespace"], words
        words = words[2:]
    match words:
        case ["get", "pod", name, "-o", "json"]:
            pod = state["pods"].get(name)
            if pod is None:
                print(f'Error from server (NotFound): pods "{name}" not found', file=sys.stderr)
                return 1
            ready = {"type": "Ready", "status": "True" if pod["ready"] else "False"}
            print(json.dumps({"metadata": {}, "spec": containers(pod["group"]), "status": {"conditions": [ready]}}))
        case ["get", kind, "-o", "json"] if kind == f"statefulset/{state['name']}":
            strategy = {
                "type": state.get("strategy", "RollingUpdate"),
                "rollingUpdate": {"partition": state["partition"]},
            }
            shown = {"replicas": len(state["pods"]), "template": {"spec": containers(state["template"])}}
            print(json.dumps({"spec": {**shown, "updateStrategy": strategy}}))
        case ["patch", kind, "--type=merge", "-p", patch] if kind == f"statefulset/{state['name']}":
            state["partition"] = json.loads(patch)["spec"]["updateStrategy"]["rollingUpdate"]["partition"]
        case ["set", "env", kind, variable] if kind == f"statefulset/{state['name']}":
            name, _, value = variable.partition("=")
            assert name == "WORKBENCH_RUNTIME_GROUP"
            state["former"], state["template"] = state["template"], value
        case _:
            print(f"error: unknown command {words}", file=sys.stderr)
            return 1
    reconcile(state)
    path.write_text(json.dumps(state))
    return 0


if __name__ == "__main__":
    sys.exit(main())

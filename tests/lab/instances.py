"""A fleet of noting instances on ports of their own, as a supervisor would run them."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import requests

from workbench.lab import process
from workbench.lab.lab import Lab
from workbench.runtime import RuntimeConfig

TOKEN = "let-me-in"
ROOT = Path(__file__).parent.parent.parent


@dataclass
class Fleet:
    """Instances that note what they handle."""

    lab: Lab
    topic: str
    group: str
    folder: Path
    ports: list[int]
    children: dict[int, process.Child]
    keeps: bool = True  # a switch survives a restart

    def start(self, index: int) -> None:
        """Start one, with the configuration of the old group, as a supervisor would."""
        config = RuntimeConfig(
            bootstrap=self.lab.bootstrap,
            group=self.group,
            topics=[self.topic],
            client_id=f"svc-{index}",
            metrics_port=self.ports[index],
            admin_token=TOKEN,
            shutdown_seconds=5.0,
            switch_file=self.folder / f"svc-{index}.switch" if self.keeps else None,
            rebalance_drain_seconds=2.0,
            kafka={"session.timeout.ms": 6000, "heartbeat.interval.ms": 500},
        )
        path = self.folder / f"svc-{index}.json"
        plain = config.model_dump(mode="json", exclude_unset=True) | {"admin_token": TOKEN}
        path.write_text(json.dumps(plain))
        notes = self.folder / "notes" / f"svc-{index}.jsonl"
        self.children[index] = process.start(
            f"svc-{index}",
            [sys.executable, "-m", "tests.lab.noting", path, notes],
            folder=self.folder,
            env={"PYTHONPATH": str(ROOT)},
        )

    def url(self, index: int) -> str:
        """Of its admin API."""
        return f"http://127.0.0.1:{self.ports[index]}"

    def answers(self, index: int) -> bool:
        """Whether it is up."""
        try:
            return requests.get(self.url(index) + "/metrics", timeout=2).ok
        except requests.RequestException:
            return False

    def stop(self) -> None:
        """End all of them."""
        for child in self.children.values():
            if child.alive:
                child.popen.terminate()
        for child in self.children.values():
            child.stop()


def fleet_file(fleet: Fleet) -> Path:
    """fleet.toml."""
    path = fleet.folder / "fleet.toml"
    urls = json.dumps([fleet.url(index) for index in range(len(fleet.ports))])
    path.write_text(
        f'kind = "http"\ninstances = {urls}\ntoken = "{TOKEN}"\n[health]\ntimeout_seconds = 30\nsettle_seconds = 2\n'
    )
    return path

"""A consumer process that notes every record it handles before its handler returns: `python -m tests.lab.noting CONFIG NOTES`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from workbench.runtime import Event, Runtime, RuntimeConfig


def main(config: Path, notes: Path) -> None:
    """Run until SIGTERM. A write of one line is atomic and in the kernel's hands: a kill -9 does not lose it."""
    out = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(event: Event) -> None:
        record = event.record
        line = {"topic": record.topic, "partition": record.partition, "offset": record.offset}
        os.write(out, json.dumps(line).encode() + b"\n")

    settings = RuntimeConfig.parse(json.loads(config.read_text()), where=str(config))
    Runtime(settings, {"*": note}).run()


if __name__ == "__main__":
    main(*(Path(argument) for argument in sys.argv[1:3]))

"""A server whose judge needs no Spark, as a process that a test can kill: `python -m tests.serve.killing FOLDER PORT TARGET`."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.serve.serving import TOKEN, judged
from workbench.serve.access import Access
from workbench.serve.app import Server, application
from workbench.serve.judge_groups import Question
from workbench.serve.kept_verdict import Judged
from workbench.serve.server import Options, open_store, run
from workbench.serve.worker import Worker
from workbench.serve_settings import ServeSettings


def judge(question: Question) -> Sequence[Judged]:
    """A verdict for each group, after a moment."""
    time.sleep(0.01)
    return [judged(it) for it in question.groups]


def main(folder: Path, port: int, target: str) -> None:
    """Serve until killed."""
    settings = ServeSettings.model_validate(
        {"gather": "PT0S", "look_again": "1h", "targets": [{"name": "t", "kind": "webhook", "url": target}]}
    )
    store = open_store(os.environ.get("SERVE_STORE", str(folder / "serve.sqlite")))
    access = Access(store, folder / "token", environment={"WORKBENCH_SERVE_TOKEN": TOKEN})
    worker = Worker(store, judge, settings)
    server = Server(store=store, access=access, worker=worker, settings=settings)
    run(application(server), worker, Options(port=port))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])

"""`workbench completion`: the script of a shell. It asks the command itself, so it knows clusters, groups and scenarios."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress

import click
from click.shell_completion import CompletionItem, get_completion_class

from workbench.errors import ExitCode, WorkbenchError
from workbench.safe_output import tell_page

_VARIABLE = "_WORKBENCH_COMPLETE"  # click's: the name of the program, in capitals
_FRESH_SECONDS = 300.0  # names of groups from Kafka are kept so long, because a person presses Tab several times


@click.command(name="completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> int:
    """Print the completion script of a shell.

    It completes commands, options, clusters of the settings, groups of a cluster, scenarios of the lab, profiles and runbooks.
    """
    kind = get_completion_class(shell)
    assert kind is not None  # noqa: S101 - click has these three
    tell_page(kind(click.Command("workbench"), {}, "workbench", _VARIABLE).source().rstrip())
    return ExitCode.OK


Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def of(names: Callable[[click.Context], Sequence[str]]) -> Complete:
    """Complete from names; an error completes nothing, because a message would garble the line that is typed."""

    def complete(context: click.Context, _parameter: click.Parameter, typed: str) -> list[CompletionItem]:
        with suppress(WorkbenchError, OSError):
            return [CompletionItem(name) for name in names(context) if name.startswith(typed)]
        return []

    return complete


def clusters(context: click.Context) -> list[str]:
    """Clusters of the settings, and the running lab."""
    from workbench.settings import LAB_CLUSTER, lab_cluster_file, load_settings

    running = [LAB_CLUSTER] if lab_cluster_file().is_file() else []
    return sorted({*load_settings(context.params.get("config")).clusters, *running})


def groups(context: click.Context) -> list[str]:
    """Groups of the cluster on the line, from Kafka; kept for five minutes."""
    import hashlib
    import json

    from workbench.files import write_text
    from workbench.queues.systems import system_of
    from workbench.settings import load_settings
    from workbench.user_folders import state_dir

    settings = load_settings(context.params.get("config"))
    default = settings.default_cluster()
    name = context.params.get("cluster") or (default.name if default is not None else None)
    if not name:
        return []
    cluster = settings.cluster(name)
    if cluster.bootstrap is None:
        return []
    digest = hashlib.sha256(f"{name} {cluster.bootstrap}".encode()).hexdigest()[:16]
    kept = state_dir() / "completion" / f"{digest}.json"
    with suppress(OSError, ValueError):
        if time.time() - kept.stat().st_mtime < _FRESH_SECONDS:
            return [str(it) for it in json.loads(kept.read_text(encoding="utf-8"))]
    found = sorted(system_of(cluster).observer(cluster, seconds=3.0).listing().kinds)
    with suppress(OSError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_text(kept, json.dumps(found))
    return found


def scenarios(_context: click.Context) -> list[str]:
    """Faults of the lab."""
    from workbench.lab.scenarios import SCENARIOS

    return sorted(SCENARIOS)


def profiles(_context: click.Context) -> list[str]:
    """Profiles by name."""
    from workbench.profiles import profile_names

    return sorted(profile_names())


def notebooks(_context: click.Context) -> list[str]:
    """Notebooks that ship."""
    from workbench.shipped_files import shipped

    return sorted(it.stem for it in shipped("notebooks").glob("*.ipynb"))


def runbooks(_context: click.Context) -> list[str]:
    """Runbooks by alert."""
    from workbench.shipped_files import shipped

    return sorted(it.stem for it in shipped("runbooks").glob("*.md") if it.stem[:1].isupper() and it.stem != "README")

"""Completion as a shell does it: its own program, with the script that `workbench completion` prints."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from tests.cli.running import PROGRAM
from tests.system_packages import found_or_installed

# Each gets the words as arguments, the last one being typed, and prints the candidates one a line.
_BASH = """
source "$SCRIPT"
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
compopt() { echo "($*)"; }
_workbench_completion workbench
printf '%s\\n' "${COMPREPLY[@]}"
"""
# zsh's own functions only lay out a menu: the arrays that they are given are what is offered.
_ZSH = """
autoload() { :; }; compdef() { :; }; _path_files() { :; }
_describe() { print -rl -- "${(@P)3}"; }
compadd() { print -rl -- "${(@P)argv[-1]}"; }
commands[workbench]=1
source "$SCRIPT"
words=("$@"); CURRENT=$#
_workbench_completion workbench
"""
_FISH = """
source $SCRIPT
complete -C "$argv[1]"
"""


def find_shell(name: str) -> str:
    """The shell, installed by the package manager if that needs no asking.

    Raises:
        AssertionError: if there is none and none can be had: these tests are not skipped.
    """
    found = found_or_installed(lambda: shutil.which(name), name)
    assert found, f"This test needs {name}: install the system's package `{name}`."
    return found


def offered(shell: str, line: str, *, room: Path) -> list[str]:
    """What a shell offers for the last word of a line, in a folder with settings."""
    script = room / f"completion.{shell}"
    environment = {
        **os.environ,
        "PATH": f"{PROGRAM.parent}{os.pathsep}{os.environ['PATH']}",
        "SCRIPT": str(script),
        "XDG_STATE_HOME": str(room / "state"),
        "XDG_CONFIG_HOME": str(room / "config"),
    }
    words = ["workbench", "completion", shell]
    common = {"cwd": room, "env": environment, "text": True, "check": True, "timeout": 120}
    script.write_text(subprocess.run(words, stdout=subprocess.PIPE, **common).stdout)  # type: ignore[call-overload]
    typed = line.split(" ")
    call = {
        "bash": [find_shell("bash"), "--norc", "-c", _BASH, "bash", *typed],
        "zsh": [find_shell("zsh"), "-f", "-c", _ZSH, "zsh", *typed],
        "fish": [find_shell("fish"), "--no-config", "-c", _FISH, line],
    }[shell]
    shown = subprocess.run(call, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **common)  # type: ignore[call-overload]
    # zsh and fish show a description beside a candidate.
    return [re.split(r":|\t", it)[0] for it in shown.stdout.splitlines() if it]

"""The rules' syntax and their own tests, checked by Prometheus' promtool where there is one."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from workbench.user_folders import cache_dir

_SECONDS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class PromtoolResult:
    """Whether promtool ran, and what it found."""

    ran: bool
    problems: tuple[str, ...] = ()


def find_promtool() -> Path | None:
    """From PATH, or from the package that the lab has unpacked."""
    if on_path := shutil.which("promtool"):
        return Path(on_path)
    cached = cache_dir() / "prometheus" / "usr" / "bin" / "promtool"
    return cached if cached.exists() else None


def check_rules(folder: Path) -> PromtoolResult:
    """`promtool check rules` on every file, and `promtool test rules` on those below `rules/tests`."""
    program = find_promtool()
    if program is None:
        return PromtoolResult(ran=False)
    found: list[str] = []
    runs = [("check", path) for path in sorted((folder / "rules").glob("*.yml"))]
    runs += [("test", path) for path in sorted((folder / "rules" / "tests").glob("*.yml"))]
    for verb, path in runs:
        if reason := _refusal([str(program), verb, "rules", str(path)]):
            found.append(f"{path.name}: promtool {verb} rules: {reason}")
    return PromtoolResult(ran=True, problems=tuple(found))


def _refusal(words: list[str]) -> str:
    """What the program found, or ""."""
    try:
        shown = subprocess.run(
            words, capture_output=True, text=True, timeout=_SECONDS, check=False, encoding="utf-8", errors="replace"
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {_SECONDS} s. It evaluates every rule at every evaluation_interval up to the last eval_time."
    return "" if shown.returncode == 0 else " ".join((shown.stderr or shown.stdout).split())[:400]

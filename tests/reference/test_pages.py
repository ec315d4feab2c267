"""Pages of `docs/` that are printed from the code say what the code says today."""

from __future__ import annotations

from pathlib import Path

import pytest

from workbench.cli.write_printed_docs import PAGES, TABLES, printed_in, write

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_what_the_code_says(name: str) -> None:
    """A stale page misleads."""
    assert (DOCS / name).read_text(encoding="utf-8") == PAGES[name](), (
        "write it anew: python -m workbench.cli.write_printed_docs"
    )


def test_writing_again_changes_nothing(tmp_path: Path) -> None:
    """And the first time it writes every page."""
    assert write(tmp_path) == list(PAGES)
    assert write(tmp_path) == []


@pytest.mark.parametrize("name", PAGES)
def test_every_row_of_a_table_has_its_columns(name: str) -> None:
    """A bar within a cell would move the columns."""
    columns = 0
    for line in PAGES[name]().splitlines():
        if not line.startswith("|"):
            columns = 0
            continue
        found = line.replace("\\|", "").count("|")
        assert columns in (0, found), line
        columns = found


def test_every_command_and_option_is_on_its_page() -> None:
    """Also those of groups within groups; what is hidden is not."""
    from workbench.cli.cli_commands_page import every_command
    from workbench.errors import ExitCode

    text = PAGES["commands.md"]()
    found = list(every_command())
    assert len(found) > 50
    for path, command, _ in found:
        assert f"# {path}\n" in text, path
        shown = text.split(f"# {path}\n")[1].split("\n## ")[0].split("\n### ")[0]
        for it in command.params:
            if it.param_type_name == "option" and not getattr(it, "hidden", False):
                assert it.opts[0] in shown, (path, it.opts)
    assert all(f"| {int(code)} | " in text for code in ExitCode)


def test_every_open_rule_and_signal_is_in_troubleshooting() -> None:
    """With what decides it; a rule that is added is there, and one that is gone is not."""
    from workbench.reference.cannot_tell_page import GATE, open_rules
    from workbench.signals import SIGNALS
    from workbench.triage.question_order import TREE
    from workbench.triage.verdict_names import Answer

    assert GATE.keys() == {it.id for it in TREE["data_usable"].rules if it.answer is not Answer.YES}
    rows = [
        line.strip("| ").split(" | ") for line in PAGES["troubleshooting.md"]().splitlines() if line.startswith("| ")
    ]
    found = {row[0]: row[1] for row in rows if len(row) == 2}
    rules = list(open_rules())
    assert len(rules) > 20
    for _, rule in rules:
        assert len(found[rule.because]) > 3, rule.because
    for name in SIGNALS:
        [row] = [it for it in rows if it[0].startswith(f"`{name}` ")]
        assert len(row[-1]) > 10, name


@pytest.mark.parametrize("name", TABLES)
def test_a_table_within_a_page_is_what_the_code_says(name: str) -> None:
    """The rest of the page is a person's."""
    text = (DOCS / name).read_text(encoding="utf-8")
    assert printed_in(name, text) == text, "write it anew: python -m workbench.cli.write_printed_docs"

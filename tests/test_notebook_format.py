"""Notebook files are read without a grammar that no notebook needs."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
from workbench import notebook_format

nbformat = notebook_format.load()
assert notebook_format.load() is nbformat is sys.modules["nbformat"]
assert not {"lark", "rfc3987_syntax"} & sys.modules.keys()
import papermill, nbclient
assert "lark" not in sys.modules
book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1")])
nbformat.validate(book)
book.cells[0].pop("source")
try:
    nbformat.validate(book)
except nbformat.ValidationError:
    print("refused")
"""


def test_the_grammar_is_left_out_and_comes_if_somebody_asks_for_it() -> None:
    """Notebooks are validated as ever, and a program that wants the grammar finds it, if it is installed."""
    shown = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=False)
    assert (shown.returncode, shown.stdout) == (0, "refused\n"), shown.stderr

"""References that are printed from the code: settings, metrics, JSON, HTTP, and what a verdict cannot tell.

A page of `docs/` that repeats the code grows stale. Each module here reads what it describes; `workbench.cli.write_printed_docs`
writes the pages.
"""

__all__: list[str] = []  # its modules are imported by their names

"""The pages of `docs/` that are printed from the code: `python -m workbench.cli.write_printed_docs docs` writes them anew."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from workbench.cli import cli_commands_page
from workbench.files import write_text
from workbench.reference import broker_profile_table, cannot_tell_page, http_reference, metrics_reference, schemas
from workbench.reference import settings_page as settings
from workbench.triage import tree_reference as tree

PAGES: dict[str, Callable[[], str]] = {
    "commands.md": cli_commands_page.as_markdown,
    "http.md": http_reference.as_markdown,
    "metrics.md": metrics_reference.as_markdown,
    "schemas.md": schemas.as_markdown,
    "settings.md": settings.as_markdown,
    "troubleshooting.md": cannot_tell_page.as_markdown,
    "tree.md": tree.as_markdown,
}
# Tables inside a page that a person writes, between a pair of comments with this name.
TABLES: dict[str, tuple[str, Callable[[], str]]] = {
    "impact.md": ("profiles of brokers", broker_profile_table.as_markdown)
}


def printed_in(page: str, text: str) -> str:
    """A page with its table anew."""
    name, printed = TABLES[page]
    mark = f"<!-- {name} -->\n"
    before, _, after = text.split(mark)
    return f"{before}{mark}{printed()}{mark}{after}"


def write(folder: Path) -> list[str]:
    """Write the pages that have changed; return their names."""
    changed = []
    for name, printed in PAGES.items():
        path, text = folder / name, printed()
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_text(path, text)
            changed.append(name)
    for name in TABLES:
        path = folder / name
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        if text and (new := printed_in(name, text)) != text:
            write_text(path, new)
            changed.append(name)
    return changed


if __name__ == "__main__":
    from workbench.safe_output import tell

    for each in write(Path(sys.argv[1] if len(sys.argv) > 1 else "docs")):
        tell(f"written: {each}")

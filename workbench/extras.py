"""How to install an extra of this package, by the way in which the package itself was installed."""

from __future__ import annotations

import json
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit

from workbench.humanize import shell_word

NAME = "lag-workbench"


def how_to_install(extra: str) -> str:
    """Command that installs an extra from where this package came from: a checkout, a wheel, a repository, or an index.

    Installers record a direct URL (PEP 610), and nothing for an index. If the file is gone, the command names the extra's packages.
    """
    with suppress(PackageNotFoundError):
        found = distribution(NAME)
        read = found.read_text  # by name only: a distribution knows the encoding of its files
        if (text := read("direct_url.json")) is None:
            return f"pip install {shell_word(f'{NAME}[{extra}]')}"
        origin = json.loads(text)
        url = urlsplit(origin["url"])
        if url.scheme != "file":
            scheme = f"{origin['vcs_info']['vcs']}+" if "vcs_info" in origin else ""
            where = f"{NAME}[{extra}] @ {scheme}{origin['url']}"
            return f"pip install {shell_word(where)}"
        path = Path(unquote(url.path))
        if path.exists():
            return f"pip install {shell_word(f'{path}[{extra}]')}"
        mark = f'extra == "{extra}"'
        names = [it.partition(";")[0].strip() for it in found.requires or () if mark in it.replace("'", '"')]
        return f"pip install {' '.join(map(shell_word, names))}"
    checkout = Path(__file__).parent.parent  # on the path, and not installed
    return f"pip install {shell_word(f'{checkout}[{extra}]')}"

"""Runbooks as pages: Markdown rendered by markdown-it, with raw HTML off, and without what is meant for programs."""

from __future__ import annotations

import re
from functools import cache

from markdown_it import MarkdownIt
from markupsafe import Markup

from workbench.humanize import lines

_FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
_COMMENTS = re.compile(r"^<!--.*?-->\n?", re.DOTALL | re.MULTILINE)


@cache
def _markdown() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False, "breaks": True}).enable("table").disable("image")


def rendered(text: str) -> Markup:
    """A runbook as HTML."""
    markdown = _markdown()
    tokens = markdown.parse(_COMMENTS.sub("", _FRONT_MATTER.sub("", lines(text))))
    for token in tokens:
        if token.type == "fence":
            token.attrSet("tabindex", "0")  # long lines are scrolled by keyboard, too
    return Markup(markdown.renderer.render(tokens, markdown.options, {}))  # noqa: S704 - raw HTML is off, so all is escaped

"""`workbench tree`: the questions that triage asks, and the rules that answer them."""

from __future__ import annotations

import click

from workbench.cli.options import json_option
from workbench.errors import ExitCode, UsageError
from workbench.safe_output import tell_page, write_json


@click.command(name="tree")
@click.argument("words", metavar="[CAUSE]", nargs=-1)
@click.option("--markdown", is_flag=True, help="Print the page docs/tree.md.")
@json_option
def command(words: tuple[str, ...], markdown: bool, as_json: bool) -> int:
    """Print the questions that triage asks, in order, with the rules that answer them and the numbers that these compare.

    CAUSE is a verdict (hot_partition), a question (throttled), or what you ask in your own words (when is a partition hot): only what
    leads to it. A verdict or a question about a subscription of Pulsar (dead_subscription) likewise.
    """
    from workbench.triage.tree_reference import as_markdown, as_text, document, of_own_tree

    cause = " ".join(words) or None
    if markdown and (cause is not None or as_json):
        raise UsageError("--markdown prints the whole page.", hint="workbench tree --markdown > docs/tree.md")
    if cause is not None and (theirs := of_own_tree(cause)) is not None:
        tree, questions = theirs
        if as_json:
            write_json(tree.document(questions))
        else:
            tell_page(tree.as_text(questions))
    elif as_json:
        write_json(document(cause))
    else:
        tell_page(as_markdown().rstrip("\n") if markdown else as_text(cause))
    return ExitCode.OK

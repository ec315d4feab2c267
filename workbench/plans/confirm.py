"""What is typed before a change: a name and a number that say what will happen; a script gives the hash of what it has read."""

from __future__ import annotations

import re
from dataclasses import dataclass

from workbench.errors import GuardError
from workbench.plans.strict_document import is_hash

_BETWEEN_DIGITS = re.compile(r"[\s,.']")


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmation:
    """The right answer, which a refusal never tells.

    Attributes:
        hash: of the file, in full; its first eight characters are enough.
        name: of the group or topic that is changed.
        number: how many are changed, as the screen says it.
        asked: both in words, such as "the group and the number of messages".
    """

    hash: str
    name: str
    number: int
    asked: str

    def is_right(self, typed: str) -> bool:
        """Whether it is name and number, such as `payments-2 9,314`, or the hash."""
        typed = typed.strip()
        if is_hash(self.hash, typed):
            return True
        rest = typed.removeprefix(self.name)
        return rest[:1].isspace() and typed.startswith(self.name) and _BETWEEN_DIGITS.sub("", rest) == str(self.number)

    def check(self, typed: str) -> None:
        """Refuse a wrong answer.

        Raises:
            GuardError: without the right one.
        """
        if not self.is_right(typed):
            raise GuardError(
                f"{typed.strip()!r} is neither {self.asked} nor the hash. Nothing was changed.",
                hint="Read the plan again: both are on its screen and in its file.",
            )

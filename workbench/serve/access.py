"""Who may ask: bearer tokens for programs, and visits (a cookie, with a token against forged forms) for people."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from workbench.errors import UsageError
from workbench.files import write_text, writing
from workbench.masking import remember
from workbench.serve.server_database import Store
from workbench.token_file import SHORTEST_TOKEN, TOKEN_VARIABLE, read_tokens

AGENT_VARIABLE = "WORKBENCH_MCP_TOKEN"
COOKIE = "workbench_visit"
VISIT_SECONDS = 12 * 3600.0
_Signature = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """A person who has signed in; `csrf` must come back with each form."""

    csrf: str


class Access:
    """The tokens of a server: those of the environment variable and of a file.

    The file has one on each line; after a blank, a time with its zone says when it ends: `TOKEN 2027-01-01T00:00:00Z`. It is read again
    when it has changed, so tokens are replaced without a restart.

    Args:
        variables: the first of them that is set is taken, and no other.

    Raises:
        UsageError: if there is no usable token. OutputError: if a new one cannot be written.
    """

    def __init__(
        self,
        store: Store,
        path: Path,
        *,
        environment: Mapping[str, str] = os.environ,
        variables: Sequence[str] = (TOKEN_VARIABLE,),
    ) -> None:
        self._store, self._path = store, path
        self.variable = next((it for it in variables if it in environment), None)
        self._given = environment[self.variable].strip() if self.variable is not None else None
        self._read: tuple[_Signature, dict[str, float | None]] | None = None
        if self._given is not None and len(self._given) < SHORTEST_TOKEN:
            raise UsageError(f"{self.variable} has fewer than {SHORTEST_TOKEN} characters.")
        if self._given is None and not path.exists():
            with writing(f"The file of the token {path}"):
                path.parent.mkdir(parents=True, exist_ok=True)
                write_text(path, secrets.token_urlsafe(32) + "\n", private=True)
        remember(self._given)
        if not self._tokens():
            raise UsageError(f"{path} has no token.", hint=f"Write one on a line of its own, or set {variables[0]}.")

    @property
    def is_from_file(self) -> bool:
        """Whether the token is in the file, and not in the environment."""
        return self._given is None

    def _tokens(self) -> dict[str, float | None]:
        """Tokens, and when each ends (seconds since 1970)."""
        found: dict[str, float | None] = {self._given: None} if self._given else {}
        try:
            it = self._path.stat()
            changed = (
                it.st_ino,
                it.st_size,
                it.st_mtime_ns,
                it.st_ctime_ns,
            )  # a copy may keep the time of the original
            if self._read is None or self._read[0] != changed:
                self._read = changed, self._reread()
            found |= self._read[1]
        except OSError:
            pass
        return found

    def _reread(self) -> dict[str, float | None]:
        """The file's tokens; while it is being edited and wrong, those that it had."""
        try:
            return self._parsed()
        except UsageError:
            if self._read is None:
                raise
            return self._read[1]

    def _parsed(self) -> dict[str, float | None]:
        return read_tokens(self._path)

    def is_token(self, given: str) -> bool:
        """Whether a token is right and has not ended; the time this takes does not tell how much of it is right."""
        return self._name_of(given) is not None

    def _name_of(self, given: str) -> str | None:
        found = None
        for token, until in self._tokens().items():
            same = hmac.compare_digest(given.encode(errors="replace"), token.encode(errors="surrogateescape"))
            if same and (until is None or until > self._store.clock()):
                found = _hash(token)
        return found

    def is_bearer(self, header: str | None) -> bool:
        """Check an Authorization header."""
        kind, _, token = (header or "").partition(" ")
        return kind.lower() == "bearer" and self.is_token(token.strip())

    def sign_in(self, token: str) -> str | None:
        """Begin a visit; return its cookie, or None for a wrong token."""
        name = self._name_of(token)
        if name is None:
            return None
        cookie, csrf = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        with self._store.writing() as db:
            db.execute(
                "INSERT INTO visit (hash, csrf, until, token) VALUES (?, ?, ?, ?)",
                (_hash(cookie), csrf, self._store.clock() + VISIT_SECONDS, name),
            )
        return cookie

    def visit(self, cookie: str | None) -> Visit | None:
        """The visit of a cookie; None if it is unknown or over, or its token has ended."""
        if not cookie:
            return None
        row = self._store.row("SELECT * FROM visit WHERE hash = ? AND until > ?", (_hash(cookie), self._store.clock()))
        if row is None:
            return None
        now = self._store.clock()
        valid = {_hash(token) for token, until in self._tokens().items() if until is None or until > now}
        return Visit(csrf=row["csrf"]) if row["token"] in valid else None

    def sign_out(self, cookie: str | None) -> None:
        """End a visit."""
        if cookie:
            with self._store.writing() as db:
                db.execute("DELETE FROM visit WHERE hash = ?", (_hash(cookie),))

    @staticmethod
    def is_form_of(visit: Visit, given: str) -> bool:
        """Whether a form was made for this visit."""
        return hmac.compare_digest(visit.csrf.encode(), given.encode(errors="replace"))


def is_from_here(headers: Mapping[str, str]) -> bool:
    """Whether a browser says that a form comes from this server's own pages; programs without a browser say nothing."""
    return headers.get("sec-fetch-site", "same-origin") in ("same-origin", "none")


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()

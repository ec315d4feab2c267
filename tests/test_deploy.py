"""Rules of `deploy/`: what refers to something finds it, pods have no more rights than they need, and commands are accepted."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.said import Said, problem_of
from workbench import __version__
from workbench.settings import load_settings

FOLDER = Path(__file__).parent.parent / "deploy"
FILES = sorted(it for it in FOLDER.glob("*.yaml") if it.name != "kustomization.yaml")
_VALIDATOR = "kubernetes-validate==1.37.0"
_VALIDATE = """
import sys, kubernetes_validate, yaml
for path in sys.argv[1:]:
    for document in yaml.safe_load_all(open(path)):
        kubernetes_validate.validate(document, "1.34", strict=True)
        print(document["kind"])
"""


def documents() -> list[dict[str, Any]]:
    """Everything that is applied."""
    return [it for path in FILES for it in yaml.safe_load_all(path.read_text(encoding="utf-8"))]


def named(kind: str) -> set[str]:
    """Names of the resources of a kind."""
    return {it["metadata"]["name"] for it in documents() if it["kind"] == kind}


def pods() -> Iterator[dict[str, Any]]:
    """Templates of pods."""
    for it in documents():
        if it["kind"] == "Deployment":
            assert it["spec"]["selector"]["matchLabels"] == it["spec"]["template"]["metadata"]["labels"]
            yield it["spec"]["template"]
        elif it["kind"] == "CronJob":
            yield it["spec"]["jobTemplate"]["spec"]["template"]


def test_kustomize_has_every_file_and_this_version() -> None:
    """A file that is forgotten is not applied."""
    found = yaml.safe_load((FOLDER / "kustomization.yaml").read_text(encoding="utf-8"))
    assert sorted(found["resources"]) == [it.name for it in FILES]
    [image] = found["images"]
    assert image["newTag"] == __version__
    for pod in pods():
        for container in pod["spec"]["containers"]:
            assert container["image"] == f"{image['name']}:{__version__}"


def test_what_is_referred_to_is_there() -> None:
    """Volumes, claims, secrets, accounts, roles, and the pods of a service and of a policy."""
    for pod in pods():
        spec = pod["spec"]
        assert spec["serviceAccountName"] in named("ServiceAccount")
        volumes = {it["name"]: it for it in spec["volumes"]}
        for it in volumes.values():
            assert "persistentVolumeClaim" not in it or it["persistentVolumeClaim"]["claimName"] in named(
                "PersistentVolumeClaim"
            )
            for source in it.get("projected", {}).get("sources", ()):
                assert source["configMap"]["name"] in named("ConfigMap")
        for container in spec["containers"]:
            assert {it["name"] for it in container["volumeMounts"]} == volumes.keys()
            assert {it["secretRef"]["name"] for it in container["envFrom"]} <= named("Secret")
    labels = [pod["metadata"]["labels"] for pod in pods()]
    for it in documents():
        if it["kind"] == "Service":
            assert any(it["spec"]["selector"].items() <= found.items() for found in labels)
        if it["kind"] == "NetworkPolicy":
            assert all(it["spec"]["podSelector"]["matchLabels"].items() <= found.items() for found in labels)
            assert [port["port"] for rule in it["spec"]["ingress"] for port in rule["ports"]] == [8480]
        if it["kind"] == "RoleBinding":
            assert it["roleRef"]["name"] in named("Role")


def test_pods_have_no_rights_that_they_do_not_need() -> None:
    """No root, no token of Kubernetes, no capability, no writable root; and a limit of memory."""
    for pod in pods():
        spec = pod["spec"]
        assert spec["automountServiceAccountToken"] is False
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in spec["containers"]:
            own = container["securityContext"]
            assert own == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert container["resources"]["limits"]["memory"]
    [role] = [it for it in documents() if it["kind"] == "Role"]
    assert not any("*" in str(rule) or {"delete", "update", "patch"} & set(rule["verbs"]) for rule in role["rules"])


def test_commands_and_paths_are_those_of_the_program() -> None:
    """Each is accepted by the real parser; the user and the probe are those of the image and of the server."""
    found = []
    for pod in pods():
        for container in pod["spec"]["containers"]:
            lines = container.get("args", [" ".join(container["command"])])
            found += [
                line.strip() for text in lines for line in text.splitlines() if line.strip().startswith("workbench ")
            ]
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                assert probe not in container or container[probe]["httpGet"]["path"] == "/livez"
    assert len(found) == 2
    assert [problem_of(Said(where="deploy", words=it.removeprefix("workbench "))) for it in found] == [None, None]
    user = re.search(r"--uid (\d+)", (FOLDER.parent / "Dockerfile").read_text(encoding="utf-8"))
    assert user is not None
    assert {pod["spec"]["securityContext"]["runAsUser"] for pod in pods()} == {int(user[1])}


def test_the_settings_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the program, with the secrets of the Secret; the pages are reached by TLS, or serve would refuse all addresses."""
    [text] = [it["data"]["workbench.toml"] for it in documents() if "workbench.toml" in it.get("data", {})]
    [secret] = [it["stringData"] for it in documents() if it["kind"] == "Secret"]
    for name, value in secret.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "workbench.toml").write_text(text, encoding="utf-8")
    settings = load_settings(tmp_path / "workbench.toml")
    assert settings.default == "prod"
    assert settings.cluster("prod").kafka["sasl.password"] == secret["KAFKA_PASSWORD"]
    assert (settings.serve.url or "").startswith("https://")
    assert all("change-me" in it for it in secret.values())


@pytest.mark.apt
def test_kubernetes_own_schemas_accept_them(tmp_path: Path) -> None:
    """By a kept validator, which is fetched for this test alone: it holds the schemas of every version."""
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--target", str(tmp_path / "validator"), _VALIDATOR],
        check=True,
        timeout=300,
    )
    shown = subprocess.run(
        [sys.executable, "-c", _VALIDATE, *map(str, FILES)],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "validator")}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert shown.returncode == 0, shown.stderr[-2000:]
    assert len(shown.stdout.split()) == len(documents())

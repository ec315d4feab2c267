"""Users of a secured cluster: who may do what, and the quota."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from workbench.errors import SetupError
from workbench.lab.kafka_jars import BROKER
from workbench.spark.java import find_java

PREFIX = "team-"  # what `reader` may describe
READER_QUOTA = 1 << 20  # bytes per second that `reader` may fetch
ADMIN, ONCALL, SERVICE, READER = USERS = ("admin", "oncall", "service", "reader")

# Operation, type and name of the resource ("*" and names that end in "*" are patterns), by user. `admin` is a super user.
Right = tuple[str, str, str]
RIGHTS: dict[str, tuple[Right, ...]] = {
    ONCALL: (
        ("DESCRIBE", "BROKER", "kafka-cluster"),
        ("DESCRIBE", "TOPIC", "*"),
        ("DESCRIBE_CONFIGS", "TOPIC", "*"),
        ("READ", "TOPIC", "*"),
        ("DESCRIBE", "GROUP", "*"),
        ("READ", "GROUP", "*"),
        ("DELETE", "GROUP", "*"),
    ),
    SERVICE: (
        ("READ", "TOPIC", "*"),
        ("WRITE", "TOPIC", "*"),
        ("READ", "GROUP", "*"),
        ("WRITE", "TRANSACTIONAL_ID", "*"),
    ),
    READER: (
        ("DESCRIBE", "BROKER", "kafka-cluster"),
        ("DESCRIBE", "TOPIC", f"{PREFIX}*"),
        ("DESCRIBE", "GROUP", f"{PREFIX}*"),
    ),
}


def admin_client(bootstrap: str, properties: Mapping[str, str]) -> Any:
    """Make an AdminClient that says nothing by itself, and finds a restarted broker soon."""
    from confluent_kafka.admin import AdminClient

    own = {"log_level": 0, "socket.timeout.ms": 10_000, "reconnect.backoff.max.ms": 1_000}
    return AdminClient({**own, **properties, "bootstrap.servers": bootstrap})


def allow(admin: Any, user: str, *rights: Right) -> None:
    """Give rights to a user, and wait until they can be read back."""
    bindings = [_binding(user, right) for right in rights]
    for future in admin.create_acls(bindings).values():
        future.result(30)
    wait_until(lambda: all(_is_known(admin, user, right) for right in rights), "some rights are not known")


def forbid(admin: Any, user: str, *rights: Right) -> None:
    """Take rights from a user, and wait until they are gone."""
    for future in admin.delete_acls([_filter(user, right) for right in rights]).values():
        future.result(30)
    wait_until(lambda: not any(_is_known(admin, user, right) for right in rights), "some rights are still there")


def _is_known(admin: Any, user: str, right: Right) -> bool:
    return bool(admin.describe_acls(_filter(user, right)).result(30))


def _resource(right: Right) -> tuple[Any, str, Any]:
    from confluent_kafka.admin import ResourcePatternType, ResourceType

    _, kind, name = right
    prefixed = name.endswith("*") and name != "*"
    pattern = ResourcePatternType.PREFIXED if prefixed else ResourcePatternType.LITERAL
    return ResourceType[kind], name.removesuffix("*") if prefixed else name, pattern


def _binding(user: str, right: Right) -> Any:
    from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType

    operation = AclOperation[right[0]]
    return AclBinding(*_resource(right), f"User:{user}", "*", operation, AclPermissionType.ALLOW)


def _filter(user: str, right: Right) -> Any:
    from confluent_kafka.admin import AclBindingFilter, AclOperation, AclPermissionType

    operation = AclOperation[right[0]]
    return AclBindingFilter(*_resource(right), f"User:{user}", "*", operation, AclPermissionType.ALLOW)


def set_user_quota(bootstrap: str, command_config: Path, user: str, bytes_per_second: int) -> None:
    """Limit what a user may fetch from each broker, with Kafka's own tool: confluent-kafka has no call for quotas.

    Raises:
        SetupError: if it fails.
    """
    command: list[str | Path] = [
        find_java().program, "-Xmx128m", "-XX:TieredStopAtLevel=1", "-Dlog4j2.level=OFF", "-cp", BROKER.classpath,
        "kafka.admin.ConfigCommand", "--bootstrap-server", bootstrap, "--command-config", command_config,
        "--alter", "--add-config", f"consumer_byte_rate={bytes_per_second}", "--entity-type", "users", "--entity-name", user,
    ]  # fmt: skip
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=90, check=False, encoding="utf-8", errors="replace"
    )
    if done.returncode != 0:
        raise SetupError(f"The quota of {user!r} could not be set: {(done.stderr or done.stdout).strip()[-300:]}")


def wait_until(ready: Callable[[], bool], what: str, *, seconds: float = 30.0) -> None:
    """Wait until something holds.

    Raises:
        SetupError: saying `what`, if it takes too long.
    """
    deadline = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > deadline:
            raise SetupError(f"After {seconds:.0f} s {what}.")
        time.sleep(0.1)

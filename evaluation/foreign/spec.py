"""What a recording is made of: a client of another language, its traffic, what is done to it and when, and the truth."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

from workbench.lab.client_spec import Traffic
from workbench.thresholds import Thresholds

HERE = Path(__file__).parent
Library = Literal["franz_go", "kafkajs", "sarama", "kafka_go", "platformatic"]
LIBRARIES: tuple[Library, ...] = get_args(Library)
PROFILES: dict[Library, Path] = {library: HERE / f"{library}.yaml" for library in LIBRARIES}

# Time is compressed eight times: 15 s stand for the usual objective of 2 minutes.
THRESHOLDS = Thresholds(time_lag_objective_seconds=15.0, stale_after_seconds=10.0, poll_age_seconds=8.0)
STEADY_SECONDS = 75.0
INCIDENT_SECONDS = 105.0
WINDOW_SECONDS = 60.0
SESSION_SECONDS = 8.0


class Client(BaseModel):
    """Settings of one process; the programs read its JSON.

    Attributes:
        style: `loop`, or `partition` (a goroutine or a queue for each); `message` or `batch` of kafkajs.
        max_poll: records of one poll (franz-go), or that the client has room for; 0: the library's default.
        auto_commit: whether the library commits by itself (kafkajs).
        commit_seconds: between two commits; 0: after each record, or each batch of kafkajs.
        concurrency: partitions handled at the same time (kafkajs).
        by_type: whether its metrics tell event types apart.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    library: Library
    bootstrap: str = ""
    group: str = ""
    topic: str = ""
    client_id: str = ""
    metrics_port: str = ""
    style: Literal["loop", "partition", "message", "batch"]
    max_poll: int = 0
    auto_commit: bool = True
    commit_seconds: float
    concurrency: int = 1
    session_seconds: float = SESSION_SECONDS
    by_type: bool = True


class Behaviour(BaseModel):
    """How the handlers of a group behave; the programs read its JSON again when it changes.

    Attributes:
        stalled: client ids whose handlers never return.
        slower: client ids whose handlers take so many times as long.
        delay_seconds: no record is handled before it is so old.
        poison: what a record with the header `poison` does: nothing (""), fail each time, or end the process.
        fails: whether what the handlers call refuses everything.
        commits: whether commits are sent, sent and refused by the broker, or forgotten.
        paused: partitions that a circuit breaker has paused, and that nobody resumes.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    process_seconds: dict[str, float]
    jitter: float = Field(default=0.2, ge=0, lt=1)
    stalled: list[str] = []
    slower: dict[str, float] = {}
    delay_seconds: float = Field(default=0.0, ge=0)
    poison: Literal["", "retry", "crash"] = ""
    fails: bool = False
    commits: Literal["sent", "refused", "none"] = "sent"
    paused: list[int] = []


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """Something that is done to a group.

    Attributes:
        at: seconds after the healthy time has ended; before 0 it is part of that.
        what: `behave` and `traffic` replace those of before; `quota` limits each member (bytes/s); `stop` (in order), `kill`, `start`,
            `freeze` and `thaw` are of members by number; `forward` commits the log's end and `rewind` its beginning; `expire` deletes
            half of what waits in each partition; `grow` gives the topic so many partitions.
    """

    at: float
    what: Literal[
        "behave", "traffic", "quota", "stop", "kill", "start", "freeze", "thaw", "forward", "rewind", "expire", "grow"
    ]
    value: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One recording to be."""

    name: str
    seed: int
    kind: str
    library: Library
    group: str
    topic: str
    partitions: int
    members: int
    client: Client
    behaviour: Behaviour
    traffic: Traffic
    deeds: tuple[Deed, ...]
    verdict: str
    scope: dict[str, Any]
    also: tuple[str, ...]

    def client_id(self, number: int) -> str:
        """Of one member."""
        return f"{self.group}-{number}"

    def truth(self) -> dict[str, Any]:
        """What `evaluation.corpus` reads, and what was drawn beside it."""
        return {
            "scenario": f"{self.library}_{self.kind}",
            "seed": self.seed,
            "group": self.group,
            "expected": {"verdict": self.verdict, "scope": self.scope},
            "also": list(self.also),
            "drawn": {
                "partitions": self.partitions,
                "members": self.members,
                "rate_per_second": round(self.traffic.rate_per_second, 2),
                "client": self.client.model_dump(exclude={"bootstrap", "group", "topic", "client_id", "metrics_port"}),
                "process_seconds": {name: round(it, 4) for name, it in self.behaviour.process_seconds.items()},
            },
        }

"""Settings of audits: where the rows of a pipeline's layers are, and how much of each stream must arrive."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum

from pydantic import Field, field_validator, model_validator

from workbench.settings_base import LONGEST, Duration, Strict


class Grade(StrEnum):
    """How much of a stream must arrive: S0 all of it, and the same by its hashes; S1 99.99 %, S2 99.9 %, S3 99 %."""

    S0 = "S0"
    S1 = "S1"
    S2 = "S2"
    S3 = "S3"

    @property
    def completeness(self) -> float:
        """Least share of the records."""
        return {Grade.S0: 1.0, Grade.S1: 0.9999, Grade.S2: 0.999, Grade.S3: 0.99}[self]


class AuditSettings(Strict):
    """One pipeline whose layers tell what they took in and gave out."""

    layers: list[str] = Field(min_length=2, description="Names of the layers in order.")
    cluster: str | None = Field(default=None, description="Cluster of the topic; none: the default cluster.")
    topic: str | None = Field(default=None, description="Topic with the rows.")
    rows: str | None = Field(
        default=None, description="Instead of a topic: file or folder of rows, Parquet or JSON lines."
    )
    window: Duration = Field(
        default=timedelta(minutes=1),
        ge=timedelta(seconds=1),
        le=LONGEST,
        description="Length of the windows in the rows.",
    )
    lateness: Duration = Field(
        default=timedelta(minutes=10),
        ge=timedelta(0),
        le=LONGEST,
        description="A window is final once its layers have told of a time so long after its end.",
    )
    grade: Grade = Field(default=Grade.S1, description="How much of each stream must arrive.")
    grades: dict[str, Grade] = Field(default={}, description="Streams with another grade.")
    streams: list[str] = Field(
        default=[],
        max_length=100_000,
        description="Streams that must tell something: without a row they are named as silent, and so are those of grades.",
    )
    ended: list[str] = Field(
        default=[],
        max_length=100_000,
        description="Streams that have ended on purpose: their silence is not told.",
    )
    latency_p99: Duration | None = Field(
        default=None,
        description="Longest time from creation to the last layer, of 99 of 100 records; none: not judged.",
    )

    @property
    def expected(self) -> set[str]:
        """Streams that are named here: without rows they are silent, not gone."""
        return {*self.streams, *self.grades} - {*self.ended}

    @field_validator("layers")
    @classmethod
    def _each_once(cls, value: list[str]) -> list[str]:
        if len(set(value)) < len(value):
            raise ValueError("a layer is named twice")
        return value

    @model_validator(mode="after")
    def _one_place(self) -> AuditSettings:
        if (self.topic is None) == (self.rows is None):
            raise ValueError("either topic or rows is needed, and not both")
        return self

    def grade_of(self, stream: str) -> Grade:
        """Grade of a stream."""
        return self.grades.get(stream, self.grade)

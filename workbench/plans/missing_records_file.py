"""Records that an audit has found missing, as a file that a plan of a replay is made from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from workbench.errors import GuardError, UsageError
from workbench.limited_reads import first_problem
from workbench.plans.strict_document import Offset, StrictDocument, read_document, write_file

_Range = Annotated[list[Offset], Field(min_length=2, max_length=2)]


class MissingPartition(StrictDocument):
    """Offset ranges [start, stop) of one partition."""

    topic: str
    partition: Annotated[int, Field(ge=0)]
    ranges: list[_Range]


class MissingRecords(StrictDocument):
    """Records that a layer of a stream took in and did not give out.

    Attributes:
        records: number of those in the ranges.
        unnamed: number of those of which it cannot be told which they are.
        topic_ids: of the topics when their records were read, "cluster:topic", where the brokers have them: the offsets of a topic that
            was recreated are other records.
    """

    schema_: Literal["workbench.audit-missing/1"] = Field(alias="schema", default="workbench.audit-missing/1")
    stream: str
    layer: str
    records: Annotated[int, Field(ge=0)]
    unnamed: Annotated[int, Field(ge=0)]
    partitions: list[MissingPartition]
    topic_ids: dict[str, str] = Field(default={})  # files of earlier versions have none

    @classmethod
    def of(
        cls,
        stream: str,
        layer: str,
        found: Iterable[tuple[str, int, Sequence[int]]],
        *,
        unnamed: int,
        topic_ids: Mapping[str, str] | None = None,
    ) -> MissingRecords:
        """From offsets by partition."""
        offsets: dict[tuple[str, int], set[int]] = {}
        for topic, number, some in found:
            offsets.setdefault((topic, number), set()).update(some)
        return cls(
            stream=stream,
            layer=layer,
            records=sum(map(len, offsets.values())),
            unnamed=unnamed,
            partitions=[
                MissingPartition(topic=topic, partition=number, ranges=_runs(sorted(some)))
                for (topic, number), some in sorted(offsets.items())
                if some
            ],
            topic_ids=dict(topic_ids or {}),
        )

    def check_same_topics(self, cluster_id: str, topic_ids: Mapping[str, str]) -> None:
        """Check that the offsets are of the topics that are there now; ids that are not known cannot be compared.

        Raises:
            GuardError: if not.
        """
        for topic, known in sorted(self.topic_ids.items()):
            now = topic_ids.get(topic)
            if now is not None and known != f"{cluster_id}:{now}":
                raise GuardError(
                    f"{topic!r} is not the topic of which records were missing: it was recreated since, or is on another cluster.",
                    hint="Its offsets are other records now. `workbench audit missing --help` says how to find what is missing in it.",
                )

    def ranges(self) -> dict[tuple[str, int], list[tuple[int, int]]]:
        """By partition."""
        return {(it.topic, it.partition): [(start, stop) for start, stop in it.ranges] for it in self.partitions}


def _runs(offsets: Sequence[int]) -> list[list[int]]:
    found: list[list[int]] = []
    for offset in offsets:
        if found and found[-1][1] == offset:
            found[-1][1] = offset + 1
        else:
            found.append([offset, offset + 1])
    return found


def write_missing(path: Path, missing: MissingRecords) -> None:
    """Write the file.

    Raises:
        UsageError: if it cannot be written.
    """
    if not path.absolute().parent.is_dir():
        raise UsageError(f"The folder of {path} does not exist.")
    write_file(path, missing.document())


def read_missing(path: Path) -> MissingRecords:
    """Read the file.

    Raises:
        UsageError: if it is none, or names no record.
    """
    document = read_document(path, "file of missing records")
    try:
        found = MissingRecords.model_validate(document)
    except ValidationError as error:
        raise UsageError(
            f"{path} is no file of missing records: {first_problem(error, whole='it')}.",
            hint="`workbench audit missing --help` says how it is made.",
        ) from None
    if not found.partitions:
        raise UsageError(f"{path} names no record.", hint="Nothing was missing, or it could not be told which records.")
    return found

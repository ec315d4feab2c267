"""Parsers of what a redrive reads: plans, headers of dead letters, and values of records."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz.mutators import json_text, of_bytes, of_document, of_json
from tests.fuzz.target import Target, changed, from_file


def targets() -> list[Target]:
    """All of this module."""
    return [_plan(), _headers(), _values()]


def _plan() -> Target:
    from tests.redrive.making import letter_of, plan_from
    from workbench.plans.strict_document import canonical_hash
    from workbench.redrive.planfile import read_redrive_plan

    letters = [letter_of(number % 3, number // 3, b"k%d" % (number % 5), (0, 90 - number)) for number in range(60)]
    seed = json_text(plan_from(letters).document())

    def mutate(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
        """A change by structure with a hash that fits, so that more than the hash is looked at; else any change."""
        if random.random() < 0.5:
            return of_json(random, data, others)
        found = of_document(random, json.loads(data))
        if isinstance(found, dict):
            try:
                found["hash"] = canonical_hash(found)
            except (TypeError, ValueError, RecursionError):
                return of_json(random, data, others)
        return json_text(found)

    def use(path: Path) -> object:
        plan = read_redrive_plan(path)
        return plan.letters, plan.bytes, [str(part.parsed) for part in plan.partitions], plan.id, plan.selection.test()

    return Target(name="redrive_plan", make=changed(mutate, seed), call=from_file(use, "redrive.json"))


def _headers() -> Target:
    from tests.redrive.six_kinds import KINDS, headers_of
    from workbench.redrive.letter_headers import Reader

    seeds = []
    for kind in KINDS:
        pairs = [(name, value or b"") for name, value in headers_of(kind, "orders", 3, 70_000, "org.acme.Bad")]
        seeds.append(b"\xfe".join(name.encode() + b"\xff" + value for name, value in pairs))

    def call(data: bytes, _folder: Path) -> object:
        pairs: list[tuple[str, bytes | None]] = []
        for part in data.split(b"\xfe"):
            name, _, value = part.partition(b"\xff")
            pairs.append((name.decode(errors="replace"), value))
        reader = Reader({"topic": "mine", "error": "why"})
        origin = reader.origin(pairs)
        return origin, reader.restored(pairs, plan="p", letter="0:1", round_=origin.round + 1)

    return Target(name="letter_headers", make=changed(of_bytes, *seeds), call=call, share=2)


def _values() -> Target:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

    from workbench.payloads.decode import Decoder
    from workbench.record_settings import RecordSettings

    file = FileDescriptorProto(name="a.proto", package="acme", syntax="proto3")
    message = file.message_type.add(name="Order")
    message.field.add(name="id", number=1, type=3, label=1)
    message.field.add(name="password", number=2, type=9, label=1)
    descriptors: bytes = FileDescriptorSet(file=[file]).SerializeToString()
    seeds = (
        b"\0\0\0\0\1\0\x08\x07\x12\x03abc",
        b'{"id": 1, "password": "x", "list": [[1], {"a": null}]}',
        b"text",
        b"[" * 50,
    )

    def call(data: bytes, folder: Path) -> Any:
        (folder / "1.desc").write_bytes(descriptors)
        found = Decoder(RecordSettings(schemas=str(folder))).decode("orders", data)
        return found.line()

    return Target(name="record_value", make=changed(of_bytes, *seeds), call=call, share=2)

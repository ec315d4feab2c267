"""Decoding of record values for people: JSON, Avro, Protobuf, JSON Schema, text, and hex at last; hidden fields are never shown."""

__all__: list[str] = []  # its modules are imported by their names

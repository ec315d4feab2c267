"""Reader of structs in Thrift's compact protocol (source: Thrift's `thrift-compact-protocol.md`), of untrusted bytes.

Only fields that are asked for are kept; each item takes a byte at least, so what is built is bounded by the bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Wanted = Mapping[int, "Wanted | None"]  # fields by number; of structs, and of lists of structs, which of their fields

_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT, _UUID = 1, 2, 3, 7, 8, 9, 10, 11, 12, 13
_NUMBERS = (4, 5, 6)  # 16, 32 and 64 bits
_SIZES = {_TRUE: 1, _FALSE: 1, _BYTE: 1, _DOUBLE: 8, _UUID: 16}  # bytes, in a list or a map
_LONG = 15  # of a list's size: it follows
_DEEPEST = 8


class CompactReader:
    """Reads one struct.

    Attributes:
        at: bytes that were read.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def struct(self, wanted: Wanted, depth: int = 0) -> dict[int, Any]:
        """Its wanted fields, as numbers, bytes, truths, structs and lists.

        Raises:
            ValueError: if it cannot be read, or has a wanted field twice, which readers understand in different ways.
        """
        found: dict[int, Any] = {}
        field = 0
        _check_depth(depth)
        while head := self._byte():
            step, kind = head >> 4, head & 15
            field = field + step if step else self._number()
            if field not in wanted:
                self._pass(kind, depth, in_struct=True)
                continue
            if field in found:
                raise ValueError("a struct has a field twice")
            found[field] = kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind, wanted[field], depth)
        return found

    def _value(self, kind: int, wanted: Wanted | None, depth: int) -> Any:
        if kind in _NUMBERS:
            return self._number()
        if kind == _STRUCT:
            return self.struct(wanted or {}, depth + 1)
        if kind == _BINARY:
            return self._take(self._varint())
        if kind in (_LIST, _SET):
            size, of = self._list_head(depth)
            return [self._value(of, wanted, depth + 1) for _ in range(size)]
        self._pass(kind, depth, in_struct=False)
        return None

    def _pass(self, kind: int, depth: int, *, in_struct: bool) -> None:
        """Pass over a value; a struct has its truths in the heads of its fields."""
        if kind in _NUMBERS:
            self._varint()
        elif kind == _STRUCT:
            self.struct({}, depth + 1)
        elif kind == _BINARY:
            self._take(self._varint())
        elif kind in (_LIST, _SET):
            size, of = self._list_head(depth)
            for _ in range(size):
                self._pass(of, depth + 1, in_struct=False)
        elif kind == _MAP:
            _check_depth(depth)
            size = self._varint()
            kinds = self._byte() if size else 0
            for _ in range(size):
                self._pass(kinds >> 4, depth + 1, in_struct=False)
                self._pass(kinds & 15, depth + 1, in_struct=False)
        elif kind not in _SIZES:
            raise ValueError(f"a struct has a field of kind {kind}")
        elif not (in_struct and kind in (_TRUE, _FALSE)):
            self._take(_SIZES[kind])

    def _list_head(self, depth: int) -> tuple[int, int]:
        """Its length, and the kind of its items."""
        _check_depth(depth)
        head = self._byte()
        size = head >> 4
        return self._varint() if size == _LONG else size, head & 15

    def _byte(self) -> int:
        return self._take(1)[0]

    def _take(self, size: int) -> bytes:
        begin, self.at = self.at, self.at + size
        if self.at > len(self._data):
            raise ValueError("a struct has no end")
        return self._data[begin : self.at]

    def _varint(self) -> int:
        number = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            number |= (byte & 127) << shift
            if byte < 128:
                if number >> 64:
                    break
                return number
        raise ValueError("a number has more than 64 bits")

    def _number(self) -> int:
        zigzag = self._varint()
        return zigzag >> 1 ^ -(zigzag & 1)


def _check_depth(depth: int) -> None:
    if depth > _DEEPEST:
        raise ValueError("a struct is nested too deeply")

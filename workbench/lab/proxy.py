"""A TCP proxy in front of one of the broker's listeners: adds latency to the connections of some clients, or holds back the answers to
their fetches; clients are found by their client id.

Run as `python -m workbench.lab.proxy LISTEN_PORT BROKER_PORT WAYS_FOLDER ADDRESS.json`. Each file in the folder is a
`StartWay`; they are read again all the time, so that a network becomes slow while connections are open.
"""

from __future__ import annotations

import asyncio
import json
import struct
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from pydantic import ValidationError

from workbench.files import write_text
from workbench.lab.client_spec import StartWay

_REFRESH_SECONDS = 0.2
_CHUNK_BYTES = 65_536
_CHUNKS_UNDER_WAY = 256  # on the wire of one connection; more waits in the sender
_FETCH = 1  # its API key
_LARGEST_BYTES = 100_000_000  # of a message: brokers refuse larger ones


class Ways:
    """What applies now."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._delays: dict[str, float] = {}
        self._holds: dict[str, float] = {}

    def delay(self, client: str) -> float:
        """Latency of one direction for a client, in seconds."""
        return next((delay for prefix, delay in self._delays.items() if client.startswith(prefix)), 0.0)

    def holds(self, client: str, opened: float) -> bool:
        """Whether a client's connection, open since a time (s since the epoch), gets no more answers to its fetches."""
        return any(client.startswith(prefix) and opened < since for prefix, since in self._holds.items())

    async def follow(self) -> None:
        """Re-read the files for ever."""
        while True:
            found: dict[str, float] = {}
            holds: dict[str, float] = {}
            for path in self._folder.glob("*.json"):
                with suppress(OSError, ValidationError):
                    way = StartWay.model_validate_json(path.read_text(encoding="utf-8"))
                    found |= way.delay_seconds
                    holds |= way.hold_fetches
            self._delays, self._holds = found, holds
            await asyncio.sleep(_REFRESH_SECONDS)


def client_id(request: bytes) -> str:
    """The client id in a Kafka request; "" if it is none.

    Kafka's protocol guide, request header v1: size, API key, version, correlation id, then the client id.
    """
    if len(request) < 14:
        return ""
    (length,) = struct.unpack_from(">h", request, 12)
    return request[14 : 14 + length].decode("utf-8", "replace") if length > 0 else ""


class _Messages:
    """Cuts a stream into Kafka's messages: a size, and so many bytes."""

    def __init__(self) -> None:
        self._rest = b""

    def cut(self, piece: bytes) -> list[bytes]:
        """The messages that this piece completes, with their sizes; what cannot be one passes as it is."""
        self._rest += piece
        found = []
        while len(self._rest) >= 4:
            (size,) = struct.unpack_from(">i", self._rest)
            whole = 4 + size if 0 <= size <= _LARGEST_BYTES else len(self._rest)
            if len(self._rest) < whole:
                break
            found.append(self._rest[:whole])
            self._rest = self._rest[whole:]
        return found


class _Connection:
    """One client and its broker."""

    def __init__(self, ways: Ways) -> None:
        self._ways = ways
        self._client = ""
        self._opened = time.time()
        self._fetches: set[int] = set()  # correlation ids of fetches that were not answered

    def _asked(self, message: bytes) -> bool:
        """Note a fetch; every request passes."""
        if len(message) >= 12:
            key, _, correlation = struct.unpack_from(">hhi", message, 4)
            if key == _FETCH:
                self._fetches.add(correlation)
        return True

    def _answered(self, message: bytes) -> bool:
        """Whether an answer passes."""
        (correlation,) = struct.unpack_from(">i", message, 4) if len(message) >= 8 else (None,)
        if correlation not in self._fetches:
            return True
        self._fetches.discard(correlation)
        return not self._ways.holds(self._client, self._opened)

    async def carry(
        self,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        passes: Callable[[bytes], bool],
        *,
        first: bytes = b"",
    ) -> None:
        """Move messages one way; each arrives its latency later, and messages under way do not wait for each other."""
        messages = _Messages()
        wire: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_CHUNKS_UNDER_WAY)

        async def arrive() -> None:
            while True:
                due, piece = await wire.get()
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                if not piece:
                    return
                sink.write(piece)
                await sink.drain()

        arriving = asyncio.create_task(arrive())
        try:
            piece = first or await source.read(_CHUNK_BYTES)
            while piece and not arriving.done():
                for message in messages.cut(piece):
                    if passes(message):
                        await wire.put((time.monotonic() + self._ways.delay(self._client), message))
                piece = await source.read(_CHUNK_BYTES)
            await wire.put((0.0, b""))
            await arriving
        except OSError:
            arriving.cancel()
        finally:
            sink.close()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
        """Until one of the two ends closes."""
        try:
            first = await reader.read(_CHUNK_BYTES)
            self._client = client_id(first)
            if not first:
                writer.close()
                return
            broker_reader, broker_writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            writer.close()
            return
        both = (
            self.carry(reader, broker_writer, self._asked, first=first),
            self.carry(broker_reader, writer, self._answered),
        )
        await asyncio.gather(*both, return_exceptions=True)


async def _run(port: int, broker_port: int, folder: Path, address: Path) -> None:
    ways = Ways(folder)
    server = await asyncio.start_server(
        lambda reader, writer: _Connection(ways).serve(reader, writer, broker_port), "127.0.0.1", port
    )
    write_text(address, json.dumps({"bootstrap": f"127.0.0.1:{port}"}))
    async with server:
        await asyncio.gather(ways.follow(), server.serve_forever())


if __name__ == "__main__":
    asyncio.run(_run(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4])))

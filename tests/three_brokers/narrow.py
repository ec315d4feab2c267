"""A narrow network card of a broker: what it sends to all of its clients together is so many bytes a second at most.

Run as `python narrow.py LISTEN_PORT BROKER_PORT BYTES_PER_SECOND`. What clients send passes freely.
"""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import suppress

_CHUNK_BYTES = 16_384  # small, so that connections take turns
_AHEAD_SECONDS = 0.02  # what a card buffers


class _Card:
    """Lets so many bytes a second pass, whoever they are for."""

    def __init__(self, bytes_per_second: float) -> None:
        self._rate = bytes_per_second
        self._free_at = time.monotonic()

    async def send(self, size: int) -> None:
        """Wait for one's turn."""
        self._free_at = max(self._free_at, time.monotonic() - _AHEAD_SECONDS) + size / self._rate
        await asyncio.sleep(max(0.0, self._free_at - time.monotonic()))


async def _pass(source: asyncio.StreamReader, sink: asyncio.StreamWriter, card: _Card | None) -> None:
    try:
        while piece := await source.read(_CHUNK_BYTES):
            if card is not None:
                await card.send(len(piece))
            sink.write(piece)
            await sink.drain()
    except OSError:
        return  # one end has gone: the other learns it by the close below
    finally:
        sink.close()


async def _run(port: int, broker_port: int, bytes_per_second: float) -> None:
    card = _Card(bytes_per_second)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            from_broker, to_broker = await asyncio.open_connection("127.0.0.1", broker_port, limit=_CHUNK_BYTES)
        except OSError:
            writer.close()
            return
        await asyncio.gather(_pass(reader, to_broker, None), _pass(from_broker, writer, card), return_exceptions=True)

    server = await asyncio.start_server(serve, "127.0.0.1", port, limit=_CHUNK_BYTES)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(_run(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))

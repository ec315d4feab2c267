"""Rules of what the lab adds to carry out advice and to slow a network down; without a broker."""

from __future__ import annotations

import asyncio
import re
import struct
import time
from pathlib import Path

import pytest

from workbench.lab import try_advice
from workbench.lab.client_spec import StartWay, write
from workbench.lab.process import free_ports
from workbench.lab.proxy import Ways, _Connection, _Messages, client_id
from workbench.triage import causes, shared_actions, status
from workbench.triage.causes import rebalance_storm


def request(name: bytes | None, *, key: int = 18, number: int = 1) -> bytes:
    """A Kafka request with this client id, of the API with this key."""
    length = -1 if name is None else len(name)
    body = struct.pack(">hhih", key, 3, number, length) + (name or b"") + b"rest"
    return struct.pack(">i", len(body)) + body


def answer(number: int, body: bytes = b"records") -> bytes:
    """A broker's answer to a request."""
    return struct.pack(">ii", 4 + len(body), number) + body


@pytest.mark.parametrize(
    ("data", "expected"),
    [(request(b"pay-0"), "pay-0"), (request(None), ""), (request(b""), ""), (b"GET / HTTP", ""), (b"", "")],
)
def test_the_proxy_reads_the_client_id(data: bytes, expected: str) -> None:
    """Of the first request of a connection; anything else is nobody."""
    assert client_id(data) == expected


def test_a_way_is_chosen_by_the_beginning_of_the_client_id(tmp_path: Path) -> None:
    """And changes while the proxy runs; a broken file slows nobody down."""

    async def scenario() -> list[float]:
        ways = Ways(tmp_path)
        write(tmp_path / "a.json", StartWay(delay_seconds={"pay-1": 0.5}))
        (tmp_path / "broken.json").write_text("{")
        task = asyncio.create_task(ways.follow())
        await asyncio.sleep(0.05)
        found = [ways.delay("pay-1-0"), ways.delay("pay-2-0")]
        (tmp_path / "a.json").unlink()
        await asyncio.sleep(0.4)
        task.cancel()
        return [*found, ways.delay("pay-1-0")]

    assert asyncio.run(scenario()) == [0.5, 0.0, 0.0]


def test_pieces_under_way_do_not_wait_for_each_other(tmp_path: Path) -> None:
    """Latency, not bandwidth: ten pieces with 0.2 s each arrive together after 0.2 s, unchanged and in order."""

    async def scenario() -> tuple[bytes, float]:
        ways = Ways(tmp_path)
        ways._delays = {"pay": 0.2}

        async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while piece := await reader.read(1000):
                writer.write(piece)
                await writer.drain()
            writer.close()

        broker = await asyncio.start_server(echo, "127.0.0.1", 0)
        port = broker.sockets[0].getsockname()[1]
        proxy = await asyncio.start_server(lambda r, w: _Connection(ways).serve(r, w, port), "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.sockets[0].getsockname()[1])
        sent = request(b"pay-0")
        began = time.monotonic()
        for number in range(10):
            writer.write(sent if number == 0 else answer(number))
            await writer.drain()
            await asyncio.sleep(0.005)
        got = await reader.readexactly(len(sent) + 9 * len(answer(1)))
        took = time.monotonic() - began
        writer.close()
        proxy.close()
        broker.close()
        return got, took

    got, took = asyncio.run(scenario())
    assert got == request(b"pay-0") + b"".join(answer(number) for number in range(1, 10))
    assert took >= 0.4  # there and back; ten times that if they waited for each other
    assert took < 4.0


def test_messages_are_cut_wherever_a_piece_ends() -> None:
    """And what is no message passes as it is."""
    whole = request(b"pay-0") + answer(2) + answer(3)
    for size in (1, 5, 17, len(whole)):
        messages = _Messages()
        found = [it for at in range(0, len(whole), size) for it in messages.cut(whole[at : at + size])]
        assert found == [request(b"pay-0"), answer(2), answer(3)]
    assert _Messages().cut(b"GET / HTTP/1.1") == [b"GET / HTTP/1.1"]


def test_only_answers_to_fetches_are_held_and_only_on_connections_of_before(tmp_path: Path) -> None:
    """Heartbeats, lookups, other clients and a client that connects anew get theirs."""
    ways = Ways(tmp_path)

    def passed(client: str, *, opened: float) -> list[bool]:
        connection = _Connection(ways)
        connection._client, connection._opened = client, opened
        assert connection._asked(request(b"c", key=1, number=7))
        assert connection._asked(request(b"c", key=12, number=8))
        return [connection._answered(answer(number)) for number in (8, 7)]

    assert passed("pay-0-0", opened=5.0) == [True, True]
    ways._holds = {"pay-0-": 10.0}
    assert passed("pay-0-0", opened=5.0) == [True, False]
    assert passed("pay-0-0", opened=15.0) == [True, True]
    assert passed("pay-1-0", opened=5.0) == [True, True]


def test_every_kind_of_action_has_somebody_who_does_it() -> None:
    """What triage advises as data, the lab can carry out."""
    folders = [Path(it.__file__).parent for it in (causes, status)]
    modules = [Path(shared_actions.__file__), *(path for folder in folders for path in folder.glob("*.py"))]
    storms = {kind for *_, kind in rebalance_storm._CAUSES.values()}
    kinds = {kind for path in modules for kind in re.findall(r'kind="(\w+)"', path.read_text())} | storms
    assert len(kinds) > 8
    assert kinds == set(try_advice._ACTUATORS)


def test_ports_of_one_call_are_different() -> None:
    """Four servers on one port would be three too many."""
    assert len(set(free_ports(20))) == 20


def test_no_client_is_given_a_chosen_port() -> None:
    """Between its choice and its use, whatever connects somewhere takes a port of the system's own range."""
    given = Path("/proc/sys/net/ipv4/ip_local_port_range")
    lowest = int(given.read_text().split()[0]) if given.exists() else 49_152
    assert max(free_ports(200)) < max(lowest, 32_768)  # some machines give any


def test_the_time_to_drain_is_told_once_it_drains() -> None:
    """Not while it still grows, nor in the first moment after the top; then within a few percent on a steady slope."""
    rising = [(float(second), 100 * second) for second in range(10)]
    assert try_advice._eta(rising, 50) is None
    falling = [(float(second), 2000 - 40 * second) for second in range(30)]
    assert try_advice._eta(falling[:7], 50) is None  # not yet a fifth gone
    assert try_advice._eta(falling, 50) == pytest.approx((2000 - 40 * 29 - 50) / 40, rel=0.02)

"""Clients that end early, do not read, or send more than is room for."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator
from pathlib import Path
from socket import SO_LINGER, SOL_SOCKET
from typing import Any

import pytest

from faircall import Client
from faircall.client import Busy

from ..daemon import PROBE, TCP, Daemon, serving, until
from ..raw import FRAMINGS, Raw, framed, request
from .conftest import UNIX, Serve
from .gates import Gate

pytestmark = pytest.mark.slow

ONE = ("--handlers", "1")
KIB = 1 << 10


def settings(**values: object) -> list[str]:
    """`--set` for each: limits__send_timeout_ms=1 is limits.send-timeout-ms=1."""
    keys = {key.replace("__", ".").replace("_", "-"): value for key, value in values.items()}
    return [word for key, value in keys.items() for word in ("--set", f"{key}={value}")]


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """With one handler; for tests that leave it as it was, but for what it has counted."""
    with serving(tmp_path_factory.mktemp("single"), PROBE, *ONE, binds=(TCP, UNIX)) as daemon:
        yield daemon


def waiting(daemon: Daemon) -> Any:
    return daemon.stats()["ports"][0]["queue"]["waiting"]


@pytest.mark.parametrize("framing", FRAMINGS)
def test_after_a_half_close_everything_is_answered(
    address: str, framing: str, tmp_path: Path
) -> None:
    gate = Gate(tmp_path)
    with Raw(address, framing) as raw:
        raw.send(request("hold", gate.path, id=1), request("echo", 2, id=2))
        raw.end_input()
        gate.wait_for_call()
        gate.open("done")
        answers = raw.rest()
    assert {answer["id"]: answer["result"] for answer in answers} == {1: "done", 2: 2}


@pytest.mark.parametrize("socket", ["tcp", "unix"])
def test_a_disconnect_takes_waiting_calls_back(single: Daemon, tmp_path: Path, socket: str) -> None:
    """Over TCP by a reset: an orderly end could be a half-close, whose calls are answered."""
    daemon, gate, trace = single, Gate(tmp_path), tmp_path / "trace"
    before = daemon.totals()
    with Raw(getattr(daemon, socket)) as raw:
        raw.send(request("hold", gate.path, id=0))
        gate.wait_for_call()
        raw.send(*[request("append", str(trace), "x", id=n) for n in range(1, 20)])
        until(lambda: waiting(daemon) == 19)
        raw.end_input()
        if socket == "tcp":
            raw.sock.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
    until(lambda: waiting(daemon) == 0)
    gate.open()
    with Raw(daemon.tcp) as other:
        assert other.call("echo", 1) == 1
    assert not trace.exists()
    totals = daemon.totals()
    assert [totals[key] - before[key] for key in ("dropped", "run")] == [20, 2]


def test_notifications_outlive_their_connection(single: Daemon, tmp_path: Path) -> None:
    """Whoever sends and leaves wants them run."""
    daemon, trace = single, tmp_path / "trace"
    before = daemon.totals()["run"]
    for address in (daemon.tcp, daemon.unix):
        with Raw(address) as raw:
            raw.send(*[request("append", str(trace), "x") for _ in range(100)])
    until(lambda: daemon.totals()["run"] - before == 200)
    assert trace.read_text() == "x" * 200


def test_a_cancelled_call_is_answered_at_once(single: Daemon, tmp_path: Path) -> None:
    daemon, gate = single, Gate(tmp_path)
    before = daemon.totals()["cancelled"]
    with Raw(daemon.tcp) as raw:
        raw.send(request("hold", gate.path, id="runs"), request("echo", 1, id="waits"))
        gate.wait_for_call()
        for id in ("waits", "runs"):
            raw.send(request("rpc.cancel", id, id="cancel"))
            answers = {answer["id"]: answer for answer in (raw.receive(), raw.receive())}
            assert answers[id]["error"]["code"] == -32051
            assert answers["cancel"]["result"] is True
        gate.open()
        assert raw.call("echo", 2) == 2
    assert daemon.totals()["cancelled"] - before == 2


def test_a_client_that_does_not_read_is_closed(serve: Serve) -> None:
    """Others are served meanwhile, and the calls that it has in flight do no harm."""
    daemon = serve(PROBE, *ONE, *settings(limits__send_timeout_ms=600))
    with Raw(daemon.tcp) as deaf, Raw(daemon.tcp) as other:
        deaf.send(*[request("text", 100 * KIB, id=n) for n in range(300)])
        until(lambda: other.call("echo", 1) and daemon.totals()["connections"]["closed_slow"])
        assert _received(deaf) < 300 * 100 * KIB
        assert other.call("echo", 2) == 2
    until(lambda: set(_slots(daemon)) <= {"FREE"})


def _received(raw: Raw) -> int:
    """How many bytes come until the end of the connection."""
    received = 0
    try:
        while data := raw.sock.recv(1 << 20):
            received += len(data)
    except ConnectionResetError:
        pass
    return received


def _slots(daemon: Daemon) -> dict[str, int]:
    counts = daemon.stats()["ports"][0]["segment"]["slots"]
    return {state: count for state, count in counts.items() if count}


def test_a_client_that_reads_slowly_gets_one_large_answer(serve: Serve) -> None:
    """The limit is for no progress, not for the time that an answer takes."""
    daemon = serve(PROBE, *ONE, *settings(limits__send_timeout_ms=5000))
    length = 12 << 20
    with Raw(daemon.tcp) as raw:
        raw.send(request("text", length, id=1))
        received = bytearray()
        while not received.endswith(b"\n"):
            part = raw.sock.recv(64 * KIB)
            assert part, f"closed after {len(received)} bytes"
            received += part
    assert len(received) == len('{"jsonrpc":"2.0","id":1,"result":""}\n') + length


def test_a_full_queue_refuses_and_says_when_to_come_back(serve: Serve, tmp_path: Path) -> None:
    """16 calls of a principal may wait, of 64; a refused call did not run."""
    daemon = serve(PROBE, *ONE, *settings(ipc__0__callqueue__total_capacity=64), binds=(UNIX,))
    gate, trace = Gate(tmp_path), tmp_path / "trace"
    with Client(daemon.unix, retry=None) as client:
        held = client.submit("hold", gate.path)
        gate.wait_for_call()
        calls = [client.submit("append", str(trace), "x") for _ in range(40)]
        with pytest.raises(Busy) as raised:
            calls[-1].result()
        busy = raised.value
        assert (busy.reason, busy.retriable) == ("too_many_in_flight", True)
        assert busy.retry_after_ms is not None
        assert busy.retry_after_ms > 0
        gate.open()
        assert held.result() == ""
        refused = [call for call in calls if not _succeeds(call)]
        assert client.call("echo", "later") == "later"
    assert len(refused) == 24
    assert trace.read_text() == "x" * 16
    assert daemon.totals()["refused"]["too_many_in_flight"] == 24


def _succeeds(call: Any) -> bool:
    try:
        call.result()
    except Busy:
        return False
    return True


NO_BACKOFF = settings(
    ipc__0__backoff__enable="false",
    ipc__0__callqueue__total_capacity=128,
    ipc__0__scheduler__priority__levels=1,
)


@pytest.fixture(scope="module")
def without_backoff(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    folder = tmp_path_factory.mktemp("without_backoff")
    with serving(folder, PROBE, *ONE, *NO_BACKOFF, binds=(TCP, UNIX)) as daemon:
        yield daemon


SHARE = 32  # calls of a principal may wait: a quarter of the capacity


@pytest.mark.parametrize(("framing", "connections"), [*((f, 1) for f in FRAMINGS), ("lines", 10)])
def test_without_backoff_nothing_is_refused_and_nothing_lost(
    without_backoff: Daemon, tmp_path: Path, framing: str, connections: int
) -> None:
    """Connections are not read while there is no room; another user's call is served."""
    daemon, gate = without_backoff, Gate(tmp_path)
    count = 100
    with contextlib.ExitStack() as stack:
        raws = [stack.enter_context(Raw(daemon.tcp, framing)) for _ in range(connections)]
        other = stack.enter_context(Raw(daemon.unix))
        raws[0].send(request("hold", gate.path, id=count))
        gate.wait_for_call()
        for raw in raws:
            raw.send(*[request("echo", n, id=n) for n in range(count)])
        until(lambda: waiting(daemon) == SHARE)
        other.send(request("echo", "other", id=1))
        until(lambda: waiting(daemon) == SHARE + 1)
        gate.open()
        assert raws[0].receive()["id"] in (0, count)
        answers = [raw.receive() for raw in raws for _ in range(count)]
        assert other.receive()["result"] == "other"
    assert not [answer for answer in answers if "error" in answer]
    assert sum(daemon.totals()["refused"].values()) == 0


def test_unfinished_input_is_bounded_for_a_caller(serve: Serve) -> None:
    """Of all connections of a caller together: the one that exceeds it is closed, others live."""
    room = settings(
        limits__max_message_bytes="256KiB",
        limits__max_unfinished_bytes_per_principal="400KiB",
    )
    daemon = serve(PROBE, *ONE, *room, binds=(TCP, UNIX))
    part = framed("lsp", b"x" * (200 * KIB))[: 150 * KIB]
    raws = [Raw(daemon.tcp, "lsp") for _ in range(4)]
    for raw in raws:
        with contextlib.suppress(ConnectionError):  # it may be closed in the midst of this
            raw.sock.sendall(part)
    until(lambda: daemon.totals()["connections"]["closed_protocol"] == 2)
    with Raw(daemon.unix) as other:
        assert other.call("echo", 1) == 1
    for raw in raws:
        raw.close()


def test_payload_pages_that_run_out_are_a_full_queue(serve: Serve, tmp_path: Path) -> None:
    """2 MiB of payload: what finds no page is refused, and later accepted."""
    small = settings(limits__segment_payload_bytes="2MiB", limits__max_message_bytes="512KiB")
    daemon = serve(PROBE, *ONE, *small)
    gate, text = Gate(tmp_path), "y" * (100 * KIB)
    with Raw(daemon.tcp) as raw:
        raw.send(request("hold", gate.path, id=0))
        gate.wait_for_call()
        raw.send(*[request("echo", text, id=n) for n in range(1, 40)])
        refused = raw.receive()["error"]
        assert (refused["code"], refused["data"]["reason"]) == (-32005, "queue_full")
        assert refused["data"]["rule"] == "limits.segment-payload-bytes"
        gate.open()
        rest = {answer["id"]: answer for answer in (raw.receive() for _ in range(39))}
        assert rest.pop(0)["result"] == ""
        assert len(rest) == 38
        assert raw.call("echo", text) == text

"""The demonstration: what it measures, what it says of it, and that it runs on real servers."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from faircall.server.demo import demo
from faircall.server.demo import load as demo_load
from faircall.server.demo import server as demo_server
from faircall.server.demo.demo import FAIR, FIFO, Trial, conclusion, introduction, quantile, table
from faircall.server.demo.load import LIGHT_EVERY_NS, Load, LoadFailed, Measured
from faircall.server.demo.server import NotServing, command, environment, running_server

HELD = 3  # light calls that the server of the tests lets come together before it answers any


def trial(queue: str, light_ms: list[float], heavy_calls: int) -> Trial:
    light_ns = [int(ms * 1e6) for ms in light_ms]
    return Trial(queue, Measured(10.0, light_ns, heavy_calls), {"heavy": 3, "light": 0})


# -- what it says ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("part", "value"), [(0.5, 50), (0.99, 99), (1.0, 100), (0.001, 1)])
def test_a_quantile_is_the_value_of_the_nearest_rank(part: float, value: int) -> None:
    assert quantile(list(range(100, 0, -1)), part) == value
    assert quantile([7], part) == 7


def test_the_table_has_a_line_for_each_queue() -> None:
    lines = table([trial("FIFO", [100.0, 120.0], 19_000), trial("Fair", [1.0, 2.25], 18_000)])
    assert [line.split() for line in lines[1:]] == [
        ["FIFO", "100.0", "ms", "120.0", "ms", "120.0", "ms", "2", "1900"],
        ["Fair", "1.0", "ms", "2.2", "ms", "2.2", "ms", "2", "1800"],
    ]
    assert len({len(line) for line in lines}) == 1


def test_the_conclusion_gives_the_ratio_that_was_measured() -> None:
    text = conclusion(trial("FIFO", [120.0], 20_000), trial("Fair", [3.0], 18_000))
    assert "(light: level 0, heavy: level 3)" in text
    assert "was 40 times shorter in this run" in text


def test_no_difference_is_not_called_one() -> None:
    text = conclusion(trial("FIFO", [3.0], 20_000), trial("Fair", [2.9], 20_000))
    assert text.startswith("This run shows no difference worth the name (p99 1.0 times shorter)")


def test_the_introduction_says_how_many_handlers_there_are() -> None:
    assert "in 1 handler; the load generator shares 1 processor with" in introduction(1, 1)
    assert "in 2 handlers; the load generator shares 8 processors with" in introduction(2, 8)


def test_the_queues_differ_in_the_queue_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRCALL_CONFIG", "mine.toml")
    assert FAIR == {}
    fifo, fair = (" ".join(command(2, settings)) for settings in (FIFO, FAIR))
    assert fifo.startswith(fair)
    assert "--set ipc.0.callqueue.impl=LinkedBlockingQueue" in fifo
    assert environment({"FAIRCALL_CONFIG": "mine.toml", "HOME": "/"}) == {"HOME": "/"}


def test_why_a_server_did_not_start_is_its_own_last_reason() -> None:
    log = '{"event":"starting"}\n{"event":"cannot start","reason":"no room"}\n{"ev'
    assert demo_server.why_not(log) == "no room"
    assert demo_server.why_not("faircall: no such key\n") == "faircall: no such key"
    assert demo_server.why_not("") == "it did not get ready"


# -- what it measures -----------------------------------------------------------------------------


class Peer:
    """A server that answers heavy calls at once, and light ones when HELD of them have come."""

    def __init__(self) -> None:
        self.port = 0
        self.light_ids: list[int] = []
        self.fails = False
        self.closes = False
        self._held: list[tuple[asyncio.StreamWriter, int]] = []
        self._up, self._over = threading.Event(), asyncio.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    def __enter__(self) -> Peer:
        self._thread.start()
        self._up.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._up.set()
        await self._over.wait()
        server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        user = ""
        try:
            while line := await reader.readline():
                request = json.loads(line)
                if request["method"] == "faircall.hello":
                    user = request["params"]["user"]
                    answer(writer, request["id"])
                elif self.closes:
                    return
                elif user == "light":
                    self._take_light(writer, request["id"])
                else:
                    answer(writer, request["id"], self.fails)
        finally:
            writer.close()

    def _take_light(self, writer: asyncio.StreamWriter, id: int) -> None:
        self.light_ids.append(id)
        self._held.append((writer, id))
        if len(self._held) >= HELD:
            for to, held in self._held:
                answer(to, held)
            self._held.clear()


def answer(writer: asyncio.StreamWriter, id: int, fails: bool = False) -> None:
    what: dict[str, Any] = {"error": {"code": -1, "message": "no"}} if fails else {"result": 1}
    writer.write(json.dumps({"jsonrpc": "2.0", "id": id} | what).encode() + b"\n")


@pytest.fixture
def peer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Peer]:
    monkeypatch.setattr(demo_load, "HEAVY_CONNECTIONS", 4)
    with Peer() as made:
        yield made


def test_latency_counts_from_when_a_call_was_due(peer: Peer) -> None:
    load = Load("127.0.0.1", peer.port)
    calls = 2 * HELD
    measured = load.run(calls * LIGHT_EVERY_NS / 1e9, warm_up_s=0)
    load.close()
    assert peer.light_ids == list(range(1, calls + 1))
    assert len(measured.light_ns) == calls
    # None can have been answered before the last of those that came with it was due.
    least_ns = [at * LIGHT_EVERY_NS for at in (2, 2, 1, 1, 0, 0)]
    longest_first = sorted(measured.light_ns, reverse=True)
    assert all(took >= least for took, least in zip(longest_first, least_ns, strict=True))
    assert measured.heavy_calls > 0


def test_what_was_due_while_warming_up_is_not_counted(peer: Peer) -> None:
    load = Load("127.0.0.1", peer.port)
    warm_up_s = HELD * LIGHT_EVERY_NS / 1e9
    measured = load.run(warm_up_s, warm_up_s)
    load.close()
    assert len(peer.light_ids) == 2 * HELD
    assert len(measured.light_ns) == HELD


def test_who_was_stopped_while_it_measured_blames_no_server(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    load, began_ns = Load("127.0.0.1", peer.port), time.monotonic_ns()
    stopped_ns = 2 * demo_load.LAST_ANSWERS_NS

    def monotonic_ns() -> int:
        """It stands still before the last light call is due, without which none is answered."""
        now_ns = time.monotonic_ns()
        return now_ns + stopped_ns if now_ns - began_ns > LIGHT_EVERY_NS else now_ns

    monkeypatch.setattr(demo_load, "time", SimpleNamespace(monotonic_ns=monotonic_ns))
    measured = load.run(HELD * LIGHT_EVERY_NS / 1e9, warm_up_s=0)
    load.close()
    assert len(measured.light_ns) == HELD


def test_a_call_that_fails_ends_the_demonstration(peer: Peer) -> None:
    load = Load("127.0.0.1", peer.port)
    peer.fails = True
    with pytest.raises(LoadFailed, match="a call of the heavy user failed: no"):
        load.run(1, 0)
    load.close()


def test_a_connection_that_is_closed_ends_the_demonstration(peer: Peer) -> None:
    load = Load("127.0.0.1", peer.port)
    peer.closes = True
    with pytest.raises(LoadFailed, match="the server closed a connection"):
        load.run(1, 0)
    load.close()


# -- on real servers ------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_demonstration_runs_both_queues(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "MEASURED_S", 0.4)
    monkeypatch.setattr(demo, "WARM_UP_S", 0.1)
    monkeypatch.setattr(demo_load, "HEAVY_CONNECTIONS", 16)
    assert demo.run_demo() == 0
    printed = capsys.readouterr().out.splitlines()
    queues = [line.split()[0] for line in printed if "Queue " in line]
    assert queues == ["LinkedBlockingQueue", "FairCallQueue"]


@pytest.mark.slow
def test_a_server_that_does_not_start_is_told_in_its_own_words() -> None:
    with (
        pytest.raises(NotServing, match=r"limits\.nonsense"),
        running_server(1, {"limits.nonsense": "1"}),
    ):
        pass

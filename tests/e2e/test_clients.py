"""`Client` and `AsyncClient` against the real server, over every transport they know."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from faircall import AsyncClient, Client
from faircall.client import ConnectionFailed, DeadlineExceeded, RemoteError

from ..daemon import Daemon
from .gates import Gate, gates, wait_for_calls

pytestmark = pytest.mark.slow

CONTEXT = "nightly report"


@pytest.fixture(params=["tcp", "unix", "http", "http+unix"])
def place(request: pytest.FixtureRequest, shared: Daemon) -> str:
    """The address of the shared daemon, as clients write it."""
    forms: dict[str, Callable[[], str]] = {
        "tcp": lambda: shared.tcp,
        "unix": lambda: shared.unix,
        "http": lambda: f"http://127.0.0.1:{shared.tcp_port}",
        "http+unix": lambda: f"http+{shared.unix}",
    }
    return forms[request.param]()


def test_calls_errors_and_pipelining(place: str) -> None:
    with Client(place) as client:
        assert client.call("echo", {"a": [1.5, None]}) == {"a": [1.5, None]}
        assert client.call("echo", x="by name") == "by name"
        futures = [client.submit("echo", number) for number in range(200)]
        assert [future.result() for future in futures] == list(range(200))
        with pytest.raises(RemoteError, match="boom") as raised:
            client.call("fail", "boom")
        assert raised.value.code == -32000


def test_a_batch(place: str) -> None:
    with Client(place) as client:
        with client.batch() as batch:
            batch.notify("echo", "nobody waits")
            futures = [batch.add("echo", number) for number in range(50)]
            bad = batch.add("no_such_method")
        assert [future.result() for future in futures] == list(range(50))
        with pytest.raises(RemoteError) as raised:
            bad.result()
        assert raised.value.code == -32601


def test_a_notification_runs(place: str, tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    with Client(place) as client:
        client.notify("hold", gate.path)
        gate.wait_for_call()
        gate.open()
        assert client.call("echo", "after") == "after"


def test_context_and_deadline_reach_the_method(place: str) -> None:
    with Client(place, context=CONTEXT, timeout=30.0) as client:
        seen = client.call("about")
        assert seen["method"] == "about"
        assert seen["context"] == CONTEXT
        assert 0 < seen["remaining_s"] <= 30
        assert client.call("about", timeout=20.0)["remaining_s"] <= 20


def test_a_call_that_is_too_slow_is_told_so_by_the_server(place: str, tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    gate.hold_any_call()
    with Client(place) as client:
        slow = client.submit("hold", gate.path, timeout=1.0)
        with pytest.raises(DeadlineExceeded):
            slow.result()
        assert client.call("echo", "after") == "after"
    gate.open()


def test_the_claimed_user_is_believed(place: str) -> None:
    with Client(place, user="alice") as client:
        assert client.call("about")["user"] == "alice"


def test_bytes_and_large_texts_arrive(place: str) -> None:
    with Client(place) as client:
        text = "é" * 300_000
        assert client.call("echo", text) == text
        assert len(client.call("text", 2_000_000)) == 2_000_000


def test_many_tasks_share_an_async_client(place: str) -> None:
    async def work() -> None:
        async with AsyncClient(place, user="bob") as client:
            results = await asyncio.gather(*[client.call("echo", n) for n in range(200)])
            assert results == list(range(200))
            async with client.batch() as batch:
                answers = [batch.add("echo", n) for n in range(20)]
            assert [await answer for answer in answers] == list(range(20))
            assert (await client.call("about"))["user"] == "bob"
            with pytest.raises(RemoteError):
                await client.call("fail", "boom")

    asyncio.run(work())


def test_a_cancelled_task_takes_its_waiting_call_back(shared: Daemon, tmp_path: Path) -> None:
    """All handlers are held, so the call waits; once they are free, it does not run."""
    held, trace = gates(tmp_path, 4), tmp_path / "trace"

    async def work() -> None:
        async with AsyncClient(shared.unix) as client:
            holding = [asyncio.create_task(client.call("hold", gate.path)) for gate in held]
            await asyncio.sleep(0)
            await asyncio.to_thread(wait_for_calls, held)
            waiting = asyncio.create_task(client.call("append", str(trace), "ran"))
            await client.call("rpc.ping")
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await client.call("rpc.ping")
            for gate in held:
                gate.open("done")
            assert await asyncio.gather(*holding) == ["done"] * 4
            await client.call("echo", "after")

    asyncio.run(work())
    assert not trace.exists()


def test_nobody_listens(tmp_path: Path) -> None:
    with Client(f"unix:{tmp_path}/x.sock") as client, pytest.raises(ConnectionFailed):
        client.call("echo", 1)

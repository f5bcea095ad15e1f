"""The test client against a service: what a real server would do, in this process."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from faircall import Busy, DeadlineExceeded, RemoteError, RpcError, Service, current_call
from faircall.testing import TestClient

started: list[str] = []


def offered() -> Service:
    service = Service()
    service.on_start(lambda: started.append("start"))
    service.on_stop(lambda: started.append("stop"))

    @service.method
    def add(a: int, b: int = 1) -> int:
        return a + b

    @service.method
    def whoami() -> list[Any]:
        call = current_call()
        return [call.user, call.context, call.method, call.remaining() < 60]

    @service.method
    async def nap(seconds: float) -> tuple[str, bytes]:
        await asyncio.sleep(seconds)
        return "rested", b"well"

    @service.method(timeout=0.05)
    def slow() -> None:
        time.sleep(0.06)

    @service.method
    def fail(chosen: bool) -> None:
        if chosen:
            raise RpcError(-32005, "not now", {"retry_after_ms": 20})
        raise KeyError("key")

    return service


@pytest.fixture
def client() -> TestClient:
    return TestClient(offered(), user="alice", context="test")


def test_calls_go_through_json_and_are_checked(client: TestClient) -> None:
    assert client.call("add", 2) == 3
    assert client.call("add", a=2, b=5) == 7
    assert client.call("nap", 0) == ["rested", "d2VsbA=="]
    with pytest.raises(RemoteError, match="`a`") as raised:
        client.call("add", "two")
    assert (raised.value.code, raised.value.method) == (-32602, "add")
    with pytest.raises(RemoteError, match="did you mean add"):
        client.call("adds", 1)


def test_the_function_sees_its_call(client: TestClient) -> None:
    assert client.call("whoami", timeout=5) == ["alice", "test", "whoami", True]
    assert client.of("bob").call("whoami") == ["bob", "test", "whoami", False]
    with pytest.raises(RuntimeError):
        current_call()


def test_errors_are_those_of_a_client_and_say_what_was_raised(client: TestClient) -> None:
    with pytest.raises(Busy, match="not now") as raised:
        client.call("fail", True)
    assert raised.value.retry_after_ms == 20
    with pytest.raises(RemoteError, match="KeyError") as failed:
        client.call("fail", False)
    assert isinstance(failed.value.__cause__, KeyError)


def test_who_is_late_is_answered_so(client: TestClient) -> None:
    with pytest.raises(DeadlineExceeded):
        client.call("nap", 30, timeout=0.01)
    with pytest.raises(DeadlineExceeded):
        client.call("slow")


def test_whole_messages_are_answered_as_the_specification_says(client: TestClient) -> None:
    batch = (
        '[{"jsonrpc":"2.0","method":"add","params":[1],"id":7},{"jsonrpc":"2.0","method":"add"}]'
    )
    assert client.send(batch) == b'[{"jsonrpc":"2.0","id":7,"result":2}]'
    assert b"-32700" in (client.send("{") or b"")
    client.notify("add", 1)


def test_hooks_run_around_a_with_block(client: TestClient) -> None:
    started.clear()
    with client as entered:
        assert entered.call("nap", 0) == entered.call("nap", 0)
        assert started == ["start"]
    assert started == ["start", "stop"]


def test_it_works_inside_an_event_loop(client: TestClient) -> None:
    async def test() -> Any:
        return client.call("nap", 0)

    assert asyncio.run(test())[0] == "rested"

"""A call of the synchronous client between its attempts."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from faircall.client import Busy, Client, Future

from .scripted import AT_ONCE, BUSY, Scripted, error, result

if TYPE_CHECKING:
    from .conftest import Serve

LATER = error(-32005, retriable=True, retry_after_ms=1e9)


def refused(client: Client) -> Future:
    """A call whose refusal has come, though no one has waited for it."""
    future = client.submit("refused")
    assert client.call("next") == "next"
    return future


def client_of(script: Scripted, serve: Serve) -> Client:
    return Client(serve(script).address, retry=AT_ONCE, timeout=None)


def test_to_ask_whether_a_call_is_done_sends_it_again(serve: Serve) -> None:
    script = Scripted(BUSY, result("next"), result("again"), result("next"))
    with client_of(script, serve) as client:
        future = refused(client)
        future.done()
        assert script_has(script, client, 4)
        assert future.done()
        assert future.result() == "again"
    assert script.attempts == [None, None, 1, None]


def script_has(script: Scripted, client: Client, messages: int) -> bool:
    """After one more call: all that was sent before it has been seen and answered."""
    assert client.call("next") == "next"
    return len(script.seen) == messages


def test_a_call_that_waits_for_its_next_attempt_is_not_done(serve: Serve) -> None:
    script = Scripted(LATER, result("next"))
    with client_of(script, serve) as client:
        future = refused(client)
        assert not future.done()
        with pytest.raises(TimeoutError, match=r"no answer yet after 0\.001 s"):
            future.result(timeout=0.001)
        assert not future.done()
    assert script.attempts == [None, None]


def test_a_call_that_is_cancelled_is_not_sent_again(serve: Serve) -> None:
    script = Scripted(LATER, result("next"))
    with client_of(script, serve) as client:
        future = refused(client)
        assert not future.done()
        future.cancel()
        assert future.done()
        assert isinstance(future.exception(), Busy)
    assert script.attempts == [None, None]


def test_closing_the_client_ends_the_wait_for_the_next_attempt(serve: Serve) -> None:
    client = client_of(Scripted(LATER, result("next")), serve)
    with ThreadPoolExecutor(2) as pool:
        future = refused(client)
        waiting = [pool.submit(future.exception) for _ in range(2)]
        client.close()
        assert [type(waiter.result()) for waiter in waiting] == [Busy] * 2


def test_a_call_for_which_many_threads_wait_is_sent_again_once(serve: Serve) -> None:
    script = Scripted(BUSY, result("next"), result("again"))
    barrier = threading.Barrier(4)
    with client_of(script, serve) as client, ThreadPoolExecutor(4) as pool:
        future = refused(client)

        def work() -> object:
            barrier.wait()
            return future.result()

        waiting = [pool.submit(work) for _ in range(4)]
        assert [waiter.result() for waiter in waiting] == ["again"] * 4
    assert script.attempts == [None, None, 1]


def test_an_error_that_stands_is_raised_each_time_and_costs_one_token(serve: Serve) -> None:
    script = Scripted(BUSY)
    with client_of(script, serve) as client:
        future = client.submit("m")
        for _ in range(3):
            with pytest.raises(Busy):
                future.result()
    assert script.attempts == [None, 1, 2, 3]

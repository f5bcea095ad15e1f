"""Both clients, over real sockets, when calls fail: what is sent again, where, and how."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from faircall.client import Busy, ConnectionFailed, ConnectionLost, RemoteError, Retry

from .scripted import (
    BUSY,
    LOST,
    SHUTTING_DOWN,
    STANDBY,
    AsyncCaller,
    Caller,
    Scripted,
    SyncCaller,
    answer,
    error,
    result,
)

if TYPE_CHECKING:
    from .conftest import Peer, Serve

Connect = Callable[..., Caller]


@pytest.fixture(params=[SyncCaller, AsyncCaller])
def connect(request: pytest.FixtureRequest) -> Iterator[Connect]:
    """`connect(addresses, **options)`: either client in turn, closed after the test."""
    callers: list[Caller] = []

    def start(addresses: Any, **options: Any) -> Caller:
        callers.append(request.param(addresses, **options))
        return callers[-1]

    yield start
    for caller in callers:
        caller.close()


@pytest.fixture
def nowhere() -> Iterator[str]:
    """An address at which connections are refused, as long as the test runs."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"tcp://127.0.0.1:{bound.getsockname()[1]}"


def test_a_refused_call_is_sent_again_and_says_how_often(
    serve: Serve, connect: Connect, kind: str
) -> None:
    script = Scripted(BUSY, BUSY, result(7))
    server = serve(script, kind)
    caller = connect(server.address, context="job")
    assert caller.call("m", 1, "x") == 7
    assert script.attempts == [None, 1, 2]
    assert [message["params"] for message in script.messages] == [[1, "x"]] * 3
    assert {message["meta"]["caller_context"] for message in script.messages} == {"job"}
    assert server.connections == 1


def test_a_repeat_has_what_is_left_of_the_call_s_time(serve: Serve, connect: Connect) -> None:
    script = Scripted(BUSY, result(None))
    connect(serve(script).address, timeout=None).call(timeout=30)
    first, second = (message["meta"]["timeout_ms"] for message in script.messages)
    assert first == 30_000
    assert 0 < second <= first


def test_the_time_it_took_to_find_a_server_is_not_left(serve: Serve, connect: Connect) -> None:
    """The first one does not answer the hello, for which there are 20 ms."""
    script = Scripted(result(True), result(None))
    addresses = [serve(lambda peer: peer.receive() and peer.receive()).address]
    caller = connect([*addresses, serve(script).address], user="ann", connect_timeout=0.02)
    caller.call(timeout=30)
    assert script.messages[1]["meta"]["timeout_ms"] <= 29_981


def test_after_the_last_attempt_the_error_is_raised(serve: Serve, connect: Connect) -> None:
    script = Scripted(BUSY)
    caller = connect(serve(script).address, retry=Retry(attempts=3, random=lambda: 0.0))
    with pytest.raises(Busy):
        caller.call()
    assert script.attempts == [None, 1, 2]


def test_without_retry_nothing_is_sent_again(serve: Serve, connect: Connect) -> None:
    script = Scripted(BUSY, LOST)
    caller = connect(serve(script).address, retry=None)
    with pytest.raises(Busy):
        caller.call(idempotent=True)
    with pytest.raises(ConnectionLost):
        caller.call(idempotent=True)
    assert script.attempts == [None, None]


def test_a_server_that_asks_for_more_time_than_there_is_is_not_waited_for(
    serve: Serve, connect: Connect
) -> None:
    script = Scripted(error(-32005, retry_after_ms=5000))
    with pytest.raises(Busy, match="try again in 5000 ms"):
        connect(serve(script).address).call(timeout=4.9)
    assert script.attempts == [None]


@pytest.mark.parametrize(
    ("outcome", "idempotent", "repeated"),
    [
        (LOST, False, False),
        (LOST, True, True),
        (error(-32053, retriable=False), False, False),
        (error(-32053, retriable=False), True, True),
        (error(-32053, retriable=True), False, True),
        (error(-32005, retriable=False), False, False),
        (error(-32005, retriable=False), True, True),
        (error(-32000, retriable=False), True, False),
        (error(-32050), True, False),
    ],
)
def test_a_call_that_may_have_run_is_repeated_only_if_it_may_run_twice(
    serve: Serve, connect: Connect, outcome: Any, idempotent: bool, repeated: bool
) -> None:
    script = Scripted(outcome, result("again"))
    caller = connect(serve(script).address)
    if repeated:
        assert caller.call(idempotent=idempotent) == "again"
    else:
        with pytest.raises((RemoteError, ConnectionLost)):
            caller.call(idempotent=idempotent)
    assert script.attempts == [None, 1][: 1 + repeated]
    assert "idempotent" not in script.messages[0].get("params", {})


def test_repeats_end_when_the_budget_is_used_up(serve: Serve, connect: Connect) -> None:
    script = Scripted(BUSY, result(1), BUSY)
    policy = Retry(share=0, burst=1, random=lambda: 0.0)
    caller = connect(serve(script).address, retry=policy)
    assert caller.call() == 1
    with pytest.raises(Busy):
        caller.call()
    assert script.attempts == [None, 1, None]


def test_calls_fill_the_budget(serve: Serve, connect: Connect) -> None:
    script = Scripted(BUSY, result(1), BUSY, result(2), BUSY, result(3))
    policy = Retry(share=1, burst=1, random=lambda: 0.0)
    caller = connect(serve(script).address, retry=policy)
    assert [caller.call() for _ in range(3)] == [1, 2, 3]


@pytest.mark.parametrize("refusal", [STANDBY, SHUTTING_DOWN])
def test_who_is_refused_goes_to_the_next_server_and_stays_there(
    serve: Serve, connect: Connect, refusal: Any
) -> None:
    standby, active = Scripted(refusal), Scripted(result("here"))
    first, second = serve(standby), serve(active)
    caller = connect([first.address, second.address])
    assert [caller.call() for _ in range(3)] == ["here"] * 3
    assert standby.attempts == [None]
    assert active.attempts == [1, None, None]
    assert (first.connections, second.connections) == (1, 1)


def test_without_retry_the_next_call_goes_to_the_next_server(
    serve: Serve, connect: Connect, nowhere: str
) -> None:
    standby, active = Scripted(STANDBY), Scripted(result("here"))
    addresses = [serve(standby).address, nowhere, serve(active).address]
    caller = connect(",".join(addresses), retry=None)
    with pytest.raises(RemoteError, match="-32057"):
        caller.call()
    with pytest.raises(ConnectionFailed, match=nowhere):
        caller.call()
    assert caller.call() == "here"


@pytest.mark.parametrize("use", ["call", "batch", "notify"])
def test_a_server_that_cannot_be_reached_is_passed_over(
    serve: Serve, connect: Connect, nowhere: str, use: str
) -> None:
    script = Scripted([result(1), result(2)] if use == "batch" else result(3), result(3))
    caller = connect(f"{nowhere}, {serve(script).address}")
    if use == "batch":
        assert caller.batch(2) == [1, 2]
    if use == "notify":
        caller.notify()
    assert caller.call() == 3
    assert set(script.attempts) == {None}
    assert len(script.messages) == (1 if use == "call" else 2)


def test_a_refused_hello_sends_the_client_to_the_next_server(
    serve: Serve, connect: Connect
) -> None:
    standby, active = Scripted(STANDBY), Scripted(result(True), result("here"))
    caller = connect([serve(standby).address, serve(active).address], user="ann")
    assert caller.call() == "here"
    assert [message["method"] for message in standby.messages] == ["faircall.hello"]
    assert [message["method"] for message in active.messages] == ["faircall.hello", "m"]
    assert active.attempts == [None, None]


def test_when_no_server_serves_each_is_asked_once_an_attempt(
    serve: Serve, connect: Connect
) -> None:
    scripts = Scripted(STANDBY), Scripted(STANDBY)
    addresses = [serve(script).address for script in scripts]
    caller = connect(addresses, retry=Retry(attempts=2, random=lambda: 0.0))
    with pytest.raises(RemoteError, match=f"{addresses[1]}.*-32057"):
        caller.call()
    assert [script.attempts for script in scripts] == [[None, 2], [1, 3]]


def test_many_calls_refused_at_once_move_on_once(serve: Serve, connect: Connect) -> None:
    def refuse_five(peer: Peer) -> None:
        for request in [peer.receive() for _ in range(5)]:
            peer.send(answer(request, STANDBY))
        peer.receive()

    active, unused = Scripted(result("here")), Scripted(result("too far"))
    servers = [serve(script) for script in (refuse_five, active, unused)]
    caller = connect([server.address for server in servers])
    assert caller.calls(5) == ["here"] * 5
    assert [server.connections for server in servers] == [1, 1, 0]


def test_the_server_that_was_left_still_answers_what_it_has(serve: Serve, connect: Connect) -> None:
    """The refusal overtakes the answer; when that is there, the connection is closed."""

    def drain(peer: Peer) -> None:
        early, late = peer.receive(), peer.receive()
        peer.send(answer(late, SHUTTING_DOWN))
        peer.gate.wait()
        peer.send(answer(early, result("from the first")))
        with pytest.raises(EOFError):
            peer.receive()

    def serve_and_open(peer: Peer) -> None:
        peer.send(answer(peer.receive(), result("from the second")))
        first.gate.set()
        while True:
            peer.send(answer(peer.receive(), result("from the second")))

    first = serve(drain)
    caller = connect([first.address, serve(serve_and_open).address])
    assert caller.calls(2) == ["from the first", "from the second"]
    assert caller.call() == "from the second"
    if isinstance(caller, AsyncCaller):
        caller.call()  # lets its loop close what it is done with
    assert first.ended.acquire(timeout=60)


def test_what_is_refused_of_a_batch_is_sent_again_by_itself(
    serve: Serve, connect: Connect, kind: str
) -> None:
    script = Scripted([result(0), BUSY, result(2), BUSY], result("again"))
    caller = connect(serve(script, kind).address)
    assert caller.batch(4) == [0, "again", 2, "again"]
    batch, *repeats = script.messages
    assert [request["params"] for request in batch] == [[0], [1], [2], [3]]
    assert sorted(message["params"] for message in repeats) == [[1], [3]]
    assert [message["meta"]["attempt"] for message in repeats] == [1, 1]


def test_a_lost_batch_is_repeated_if_it_says_that_it_may_run_twice(
    serve: Serve, connect: Connect
) -> None:
    script = Scripted(LOST, LOST, result("again"))
    caller = connect(serve(script).address)
    with pytest.raises(ConnectionLost):
        caller.batch(2)
    assert caller.batch(2, idempotent=True) == ["again"] * 2


def test_a_batch_of_notifications_is_answered_by_no_one(serve: Serve, connect: Connect) -> None:
    script = Scripted(result(1))
    caller = connect(serve(script).address)
    assert caller.batch(2, notify=True) == []
    assert caller.call() == 1
    assert [request["params"] for request in script.messages[0]] == [[0], [1]]

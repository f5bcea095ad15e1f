"""Both clients with several servers: where calls go when one of them does not serve."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from faircall.client import ConnectionFailed, RemoteError, Retry

from .scripted import (
    SHUTTING_DOWN,
    STANDBY,
    AsyncCaller,
    Scripted,
    answer,
    result,
)

if TYPE_CHECKING:
    from .conftest import Connect, Peer, Serve


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

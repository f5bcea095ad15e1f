from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from faircall.client import (
    Busy,
    Client,
    DeadlineExceeded,
    RemoteError,
)

from .exchanges import receive, result

if TYPE_CHECKING:
    from .conftest import Peer, Serve

MIB = 1 << 20
STREAMS = ["tcp", "unix"]


def test_calls_with_positional_and_named_parameters(serve: Serve, kind: str) -> None:
    server = serve(kind=kind)
    with Client(server.address, timeout=50, context="job") as client:
        assert client.call("add", 2, 3) == 5
        request = client.call("request", name="ä", data=b"\x00", timeout=20)
    assert request["params"] == {"name": "ä", "data": "AA=="}
    assert request["meta"] == {"timeout_ms": 20_000, "caller_context": "job"}
    assert server.connections == 1


def test_without_a_timeout_the_server_decides(serve: Serve) -> None:
    with Client(serve().address, timeout=None) as client:
        assert "meta" not in client.call("request")


def test_nothing_is_connected_before_the_first_call() -> None:
    with Client("tcp://127.0.0.1:1"):
        pass


def test_error_objects_are_raised_with_and_without_data(serve: Serve, kind: str) -> None:
    with Client(serve(kind=kind).address, retry=None) as client:
        with pytest.raises(RemoteError, match=r"^fail at .*: no \(7\)$") as caught:
            client.call("fail", {"code": 7, "message": "no"})
        assert caught.value.data is None
        data = {"reason": "queue_full", "retriable": True, "retry_after_ms": 5}
        with pytest.raises(Busy, match="try again in 5 ms") as busy:
            client.call("fail", {"code": -32005, "message": "limit", "data": data})
        assert (busy.value.data, busy.value.retriable) == (data, True)
        with pytest.raises(DeadlineExceeded):
            client.call("fail", {"code": -32050, "message": "late"})
        assert client.call("add", 1, 1) == 2


@pytest.mark.parametrize("kind", STREAMS)
def test_answers_may_overtake_each_other(serve: Serve, kind: str) -> None:
    def script(peer: Peer) -> None:
        for request in reversed([peer.receive() for _ in range(5)]):
            peer.send(result(request, request["params"]))

    server = serve(script, kind)
    with Client(server.address) as client:
        futures = [client.submit("m", i) for i in range(5)]
        assert [future.result() for future in futures] == [[i] for i in range(5)]
        assert all(future.done() for future in futures)
    assert server.connections == 1


def test_over_http_many_calls_are_under_way_on_one_connection(serve: Serve) -> None:
    def script(peer: Peer) -> None:
        for request in [peer.receive() for _ in range(5)]:
            peer.send(result(request, request["params"]))

    server = serve(script, "http")
    with Client(server.address) as client:
        futures = [client.submit("m", i) for i in range(5)]
        assert [future.result() for future in reversed(futures)] == [[i] for i in range(4, -1, -1)]
    assert server.connections == 1


def test_a_batch_with_notifications(serve: Serve, kind: str) -> None:
    with Client(serve(kind=kind).address) as client:
        with client.batch(timeout=30) as batch:
            total = batch.add("add", 1, 2)
            batch.notify("log", "x")
            wrong = batch.add("nothing")
            request = batch.add("request", a=1)
        assert total.result() == 3
        assert request.result()["meta"] == {"timeout_ms": 30_000}
        assert isinstance(wrong.exception(), RemoteError)
        assert total.exception() is None
        with pytest.raises(RemoteError, match="Method not found"):
            batch.results()


def test_a_batch_is_sent_at_the_end_of_its_block(serve: Serve) -> None:
    with Client(serve().address) as client:
        with client.batch() as batch:
            future = batch.add("add", 1, 2)
            assert not future.done()
            with pytest.raises(RuntimeError, match="its batch is still open"):
                future.result()
        assert batch.results() == [3]


def give_up(client: Client) -> None:
    with client.batch() as batch:
        batch.add("add", 1, 2)
        raise LookupError


def test_a_batch_whose_block_fails_or_is_empty_is_not_sent(serve: Serve) -> None:
    server = serve()
    with Client(server.address) as client:
        with pytest.raises(LookupError):
            give_up(client)
        with client.batch() as batch:
            pass
        assert batch.results() == []
    assert server.connections == 0


def test_notifications_are_not_waited_for_and_their_empty_answers_are_read(
    serve: Serve, kind: str
) -> None:
    with Client(serve(kind=kind).address) as client:
        for _ in range(300):
            client.notify("log", "x" * 1000)
        with client.batch() as batch:
            batch.notify("log")
        assert client.call("add", 1, 1) == 2


def test_sixteen_mebibytes_there_and_back(serve: Serve, kind: str) -> None:
    with Client(serve(kind=kind).address) as client:
        text = "x" * (16 * MIB)
        assert client.call("add", text, "y") == text + "y"


def test_a_server_that_waits_for_its_answers_to_be_taken_does_not_block_the_sender(
    serve: Serve, kind: str
) -> None:
    with Client(serve(kind=kind).address) as client:
        text = "x" * MIB
        futures = [client.submit("add", text, str(i)) for i in range(20)]
        assert [future.result()[MIB:] for future in futures] == [str(i) for i in range(20)]


def test_waiting_can_end_before_the_call_does(serve: Serve) -> None:
    def script(peer: Peer) -> None:
        request = peer.receive()
        peer.gate.wait()
        peer.send(result(request, "late"))

    server = serve(script)
    with Client(server.address) as client:
        future = client.submit("m")
        with pytest.raises(TimeoutError, match=r"no answer yet after 0\.01 s"):
            future.result(timeout=0.01)
        assert not future.done()
        server.gate.set()
        assert future.result() == "late"


def test_an_answer_that_came_in_time_counts_although_no_one_took_it_in_before(
    serve: Serve,
) -> None:
    def script(peer: Peer) -> None:
        for request in (peer.receive(), peer.receive()):
            peer.send(result(request, request["method"]))

    server = serve(script, "unix")
    with Client(server.address) as client:
        connecting = client.submit("connecting")
        future = client.submit("early", timeout=1e-6)
        server.ended.acquire()
        assert future.result() == "early"
        assert connecting.result() == "connecting"


def test_a_call_can_be_taken_back(serve: Serve) -> None:
    def script(peer: Peer) -> None:
        call, cancel = receive(peer, 2)
        assert cancel["method"] == "rpc.cancel"
        assert cancel["params"] == {"id": call["id"]}
        assert "id" not in cancel
        peer.send({"id": call["id"], "error": {"code": -32051, "message": "cancelled"}})

    with Client(serve(script).address) as client:
        future = client.submit("m")
        future.cancel()
        with pytest.raises(RemoteError, match="-32051"):
            future.result()
        future.cancel()


def test_many_threads_share_one_connection(serve: Serve, kind: str) -> None:
    server = serve(kind=kind)
    with Client(server.address) as client, ThreadPoolExecutor(8) as pool:

        def work(thread: int) -> list[int]:
            return [client.call("add", thread * 1000, i) for i in range(200)]

        done = list(pool.map(work, range(8)))
    assert done == [[thread * 1000 + i for i in range(200)] for thread in range(8)]
    assert server.connections == 1


def test_the_calls_of_many_threads_are_under_way_at_once(serve: Serve) -> None:
    def script(peer: Peer) -> None:
        for _ in range(20):
            for request in reversed(receive(peer, 8)):
                peer.send(result(request, request["params"][0]))

    server = serve(script)
    with Client(server.address) as client, ThreadPoolExecutor(8) as pool:
        barrier = threading.Barrier(8)

        def work(thread: int) -> list[int]:
            barrier.wait()
            return [client.call("m", thread) for _ in range(20)]

        assert list(pool.map(work, range(8))) == [[thread] * 20 for thread in range(8)]
    assert server.connections == 1


def test_many_threads_may_wait_for_one_future(serve: Serve) -> None:
    def script(peer: Peer) -> None:
        request = peer.receive()
        peer.gate.wait()
        peer.send(result(request, 1))

    server = serve(script)
    with Client(server.address) as client, ThreadPoolExecutor(4) as pool:
        future = client.submit("m")
        waiting = [pool.submit(future.result) for _ in range(4)]
        server.gate.set()
        assert [waiter.result() for waiter in waiting] == [1] * 4


def test_a_parameter_that_cannot_be_sent_leaves_the_connection_as_it_was(serve: Serve) -> None:
    with Client(serve().address) as client:
        assert client.call("add", 1, 1) == 2
        with pytest.raises(TypeError):
            client.call("add", object())
        assert client.call("add", 1, 1) == 2

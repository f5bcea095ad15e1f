"""A client that is used on both sides of a fork."""

from __future__ import annotations

import os
import traceback
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from faircall.client import Client, ConnectionLost

if TYPE_CHECKING:
    from .conftest import Peer, Serve


def in_child(work: Callable[[], None]) -> int:
    """The exit code of a forked child that does `work`: 0 if it went well."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # 3.12 warns of threads, rightly
        pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.fixture(params=["tcp", "unix", "http"])
def forkable(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_each_side_has_a_connection_of_its_own(serve: Serve, forkable: str) -> None:
    server = serve(kind=forkable)
    with Client(server.address) as client:
        assert client.call("add", 1, 1) == 2

        def work() -> None:
            assert client.call("add", 2, 2) == 4
            client.close()

        assert in_child(work) == 0
        assert client.call("add", 3, 3) == 6
    assert server.connections == 2


def test_a_call_under_way_is_the_parent_s(serve: Serve) -> None:
    def script(peer: Peer) -> None:
        slow, quick = peer.receive(), peer.receive()
        for request in (quick, slow):
            peer.send({"id": request["id"], "result": request["method"]})

    with Client(serve(script).address) as client:
        slow = client.submit("slow")

        def work() -> None:
            with pytest.raises(ConnectionLost, match="before its fork"):
                slow.result()

        assert in_child(work) == 0
        assert client.call("quick") == "quick"
        assert slow.result() == "slow"


def test_locks_held_by_other_threads_at_the_fork_do_not_bind_the_child(serve: Serve) -> None:
    with Client(serve().address) as client:
        assert client.call("add", 1, 1) == 2
        pool = client._sender._pool
        (connection,) = pool._active

        def work() -> None:
            assert client.call("add", 2, 2) == 4

        with pool._changed, connection._sending, connection._lock:
            pool._connecting = True
            assert connection._turn.try_take()
            assert in_child(work) == 0
            connection._turn.give()
            pool._connecting = False
        assert client.call("add", 3, 3) == 6

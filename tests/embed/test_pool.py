"""Workers without a network: results, errors, deadlines, deaths, and the end."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
import warnings
from collections.abc import Iterator
from functools import partial

import pytest

from faircall import ConnectionLost, DeadlineExceeded, RemoteError, StartError, pool

from ..daemon import PROBE, session_members, until

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def workers() -> Iterator[pool]:
    with pool(PROBE.as_posix(), handlers=2) as workers:
        yield workers


def test_calls_run_in_the_workers(workers: pool) -> None:
    assert workers.call("pid") in session_members(workers.pid)
    assert workers.call("pid") != os.getpid()
    futures = [workers.submit("echo", number) for number in range(5)]
    assert [future.result() for future in futures] == list(range(5))


def test_there_is_no_socket_to_connect_to(workers: pool) -> None:
    found = workers.stats()["ports"][0]
    assert found["addresses"] == []
    assert "acceptor" not in {process["role"] for process in found["processes"]}


def test_map_keeps_the_order_and_takes_what_never_ends(workers: pool) -> None:
    assert list(workers.map("echo", range(100))) == list(range(100))
    assert list(itertools.islice(workers.map("echo", itertools.count()), 3)) == [0, 1, 2]


def test_errors_are_those_of_a_client(workers: pool) -> None:
    with pytest.raises(RemoteError, match="Method not found"):
        workers.call("nothing")
    with pytest.raises(DeadlineExceeded):
        workers.call("wait", 30, timeout=0.05)


@pytest.mark.fault
def test_a_worker_that_dies_is_told_and_replaced(workers: pool) -> None:
    with pytest.raises(RemoteError) as raised:
        workers.call("die", signal.SIGKILL)
    assert raised.value.code == -32053
    assert workers.call("pid", timeout=30) in session_members(workers.pid)


@pytest.mark.fault
def test_a_reader_that_dies_costs_a_connection_and_no_more(workers: pool) -> None:
    processes = workers.stats()["ports"][0]["processes"]
    reader = next(process["pid"] for process in processes if process["role"] == "reader")
    os.kill(reader, signal.SIGKILL)
    until(partial(has_ended, reader, workers), "the end of the reader")
    assert workers.call("echo", 1, idempotent=True) == 1


@pytest.mark.fault
def test_connections_wait_for_the_successor_of_the_only_reader(workers: pool) -> None:
    """Who calls while it is replaced has no failure but that of the connection that it had."""
    for number in range(3):
        processes = workers.stats()["ports"][0]["processes"]
        reader = next(process["pid"] for process in processes if process["role"] == "reader")
        os.kill(reader, signal.SIGKILL)
        until(partial(has_ended, reader, workers), "its end")
        with contextlib.suppress(ConnectionLost):
            workers.call("echo", number)
        assert [workers.call("echo", number) for _ in range(3)] == [number] * 3


def has_ended(pid: int, workers: pool) -> bool:
    return pid not in session_members(workers.pid)


def test_a_process_that_the_host_forks_may_call_too(workers: pool) -> None:
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # what tests run in has threads
        child = os.fork()
    if not child:
        try:
            os.write(write, str(workers.call("echo", 42)).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 10) == b"42"
    os.close(read)
    os.close(write)
    assert workers.call("echo", 1) == 1


def test_tasks_await_and_nothing_is_left() -> None:
    async def test() -> pool:
        async with pool(PROBE.as_posix(), handlers=1) as workers:
            results = await asyncio.gather(*(workers.acall("echo", n) for n in range(20)))
            assert results == list(range(20))
            assert workers.call("echo", 1) == 1
        with pytest.raises(RuntimeError, match="has been closed"):
            workers.call("echo", 1)
        return workers

    workers = asyncio.run(test())
    until(lambda: not session_members(workers.pid), "the end of the workers")


def test_a_pool_that_was_not_entered_does_nothing(workers: pool) -> None:
    with pytest.raises(RuntimeError, match="inside its `with` block"):
        pool("nowhere:service").call("echo")
    with pytest.raises(RuntimeError, match="async with"):
        asyncio.run(workers.acall("echo", 1))
    with pytest.raises(StartError, match="no module 'nowhere'"):
        pool("nowhere:service", handlers=1).start()

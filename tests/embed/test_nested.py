"""A function that calls its own server while nobody else is there to run the call."""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from faircall import Client, RemoteError, running
from faircall.testing.plugin import MakeServer

NESTED = str(Path(__file__).parent.parent / "services" / "nested.py")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def alone(
    faircall_servers: MakeServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[running]:
    """One handler, which runs nested calls itself; by its Unix socket we are trusted."""
    bind = [f"unix:{tmp_path_factory.mktemp('nested')}/x.sock", "tcp://127.0.0.1:0"]
    with faircall_servers(NESTED, handlers=1, bind=bind) as server:
        yield server


@pytest.fixture
def client(alone: running) -> Iterator[Client]:
    with alone.client(timeout=20, user="alice", context="tests") as client:
        yield client


def test_the_only_handler_runs_it_inside_the_call_that_made_it(
    alone: running, client: Client
) -> None:
    pid, inner, method = client.call("ask", alone.address, "about")
    assert inner["pid"] == pid
    assert (inner["user"], inner["context"], inner["servers"]) == ("alice", "tests", 1)
    assert 0 < inner["remaining_s"] <= 20
    assert method == "ask"  # what runs is again the outer one
    assert alone.stats()["ports"][0]["totals"]["refused"]["queue_full"] >= 1


def test_calls_in_calls_in_calls(alone: running, client: Client) -> None:
    inner = client.call("ask", alone.address, "ask", "ask", "about")[1]
    assert inner["servers"] == 3
    assert client.call("dig", alone.address, 0) == 32


def test_its_errors_are_as_from_the_wire(alone: running, client: Client) -> None:
    bad, nothing = client.call("ask_for_trouble", alone.address)
    assert bad == f"bad at {alone.address}: ValueError: as asked (-32000, exception)"
    assert "Method not found: nothing" in nothing


def test_what_cannot_run_inside_is_refused_at_once(alone: running, client: Client) -> None:
    """Calls of other threads, and of coroutines, have no place in the one that runs."""
    assert "-32005, nested" in client.call("ask_in_a_thread", alone.address)
    with pytest.raises(RemoteError, match="-32005, nested"):
        client.call("ask_async", alone.address)


def test_handlers_that_all_call_never_wait_for_each_other(faircall_servers: MakeServer) -> None:
    with faircall_servers(NESTED) as server, server.client(timeout=30) as client:
        futures = [client.submit("ask", server.address, "ask", "about") for _ in range(60)]
        found = [future.result() for future in futures]
    assert len(found) == 60
    assert {len(pids) for pids in found} == {3}


@pytest.fixture(scope="module")
def other(faircall_servers: MakeServer) -> Iterator[running]:
    settings = {"handlers.nested-calls": "refuse"}
    with faircall_servers(NESTED, handlers=1, settings=settings) as server:
        yield server


def test_it_may_be_refused_instead(other: running) -> None:
    with other.client(timeout=20) as client:
        with pytest.raises(RemoteError, match="waits for this call"):
            client.call("ask", other.address, "about")
        assert client.call("about")["servers"] == 0


def test_a_call_that_comes_back_by_way_of_another_server_is_refused(
    alone: running, other: running, client: Client
) -> None:
    there: list[Any] = client.call("ask", other.address, "about")
    assert there[1]["servers"] == 1
    with pytest.raises(RemoteError, match="nested"):
        client.call("ask_at", other.address, alone.address)


def test_whom_the_other_server_does_not_trust_calls_for_itself(
    alone: running, other: running, client: Client
) -> None:
    assert client.call("ask", other.address, "about")[1]["user"] == "127.0.0.1"
    trusting = alone.addresses[0]
    with other.client(timeout=20) as stranger:
        assert stranger.call("ask", trusting, "about")[1]["user"] == "127.0.0.1"
    with alone.client(timeout=20) as plain:
        inner = plain.call("ask", trusting, "about")[1]
    assert inner["user"] == getpass.getuser()

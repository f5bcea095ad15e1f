"""The end of a reader, seen by its clients."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from faircall.server.reader.ending import Ending
from faircall.shm import states
from faircall.shm.columns import Counter
from faircall.shm.states import Phase

from .reader_client import Client, call, post, reasons
from .reader_world import World

Make = Callable[..., World]


def end(world: World) -> None:
    """The supervisor says STOPPED; the reader's loop returns, and its process ends."""
    world.shared.phase.set(Phase.STOPPED, 0)
    world.reader.run()
    for connection in world.reader.clients.by_fd.values():
        connection.sock.close()
    world.reader.clients.by_fd.clear()


def heard(client: Client) -> list[tuple[object, str]]:
    """What a client has been told, when it has been told the end of it, too."""
    answers = reasons(client.answers())
    assert client.ended
    assert not client.reset
    return answers


@pytest.mark.parametrize("tcp", [True, False])
def test_what_came_unread_is_answered_and_nothing_is_reset(world: World, tcp: bool) -> None:
    client, silent = world.connect(tcp=tcp), world.connect(tcp=tcp)
    client.send(call("echo", ["late"], 1) + call("rpc.ping", id=2))
    end(world)
    assert sorted(heard(client)) == [(1, "shutting_down"), (2, "ok")]
    assert heard(silent) == []


def test_a_connection_on_its_way_is_answered(world: World) -> None:
    client = world.knock()
    client.send(call("echo", ["late"], 1))
    end(world)
    assert heard(client) == [(1, "shutting_down")]


def test_an_http_client_is_answered(world: World) -> None:
    client = world.connect(tcp=True)
    client.send(post(call("echo", ["late"], 1)))
    end(world)
    assert reasons(client.http_answers()) == [(1, "shutting_down")]
    assert client.read().startswith(b"HTTP/1.1 200")
    assert (client.ended, client.reset) == (True, False)


def test_what_waits_is_refused_and_what_runs_is_not_answered(world: World) -> None:
    """A refused call may be made again elsewhere; one that runs may not."""
    client = world.connect()
    client.send(b"".join(call("echo", [id_], id_) for id_ in range(3)))
    world.read()
    slots, tokens = [0], [0]
    assert world.shared.table.claim(0, world.now_ns, slots, tokens) == 1
    end(world)
    assert sorted(heard(client)) == [(1, "shutting_down"), (2, "shutting_down")]
    assert world.count(Counter.SHUTTING_DOWN) == 2
    assert world.states() == {"RUNNING": 1}
    assert world.word(slots[0]) & states.STATE_MASK == states.RUNNING


def test_what_waits_for_room_is_refused(make_world: Make) -> None:
    world = make_world(backoff=False)
    client = world.connect()
    client.send(b"".join(call("echo", [id_], id_) for id_ in range(40)))
    while world.read():
        pass
    assert world.reader.enqueuer.blocked
    end(world)
    assert sorted(heard(client)) == [(id_, "shutting_down") for id_ in range(40)]
    world.verify()


def test_who_drains_needs_no_room_to_refuse(make_world: Make) -> None:
    """With back-off off, a full server would else say nothing until it has room again."""
    world = make_world(backoff=False)
    fillers = [world.connect(tcp=bool(index % 2)) for index in range(2)]
    for filler in fillers:
        filler.send(call("echo", [], 1) * 16)
    while world.read():
        pass
    assert world.reader.book.free < 16
    world.shared.phase.set(Phase.DRAINING, 0)
    late = world.connect()
    late.send(call("echo", ["late"], 1))
    world.read()
    assert reasons(late.answers()) == [(1, "shutting_down")]


def test_a_client_that_never_stops_is_left(world: World) -> None:
    """The end is bounded however much is said."""
    reader, now_ns = world.reader, [0]
    client = world.connect()

    def clock() -> int:
        now_ns[0] += 1_000_000
        return now_ns[0]

    def poll(timeout_s: float) -> list[tuple[int, int]]:
        if not client.ended:
            client.try_send(call("echo", [], 1))
            client.read()
        return reader.poll()

    world.shared.phase.set(Phase.STOPPED, 0)
    Ending(reader.clients, reader._withdrawals, poll, reader._pass, clock).run()
    assert now_ns[0] < 1_000_000_000
    assert {reason for _, reason in reasons(client.answers())} == {"shutting_down"}
    assert len(client.answers()) > 100

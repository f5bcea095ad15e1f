"""One pass of a reader, and what it says about itself."""

from __future__ import annotations

import socket
from collections.abc import Callable

from faircall.server.reader.reader import ADOPT_AT_MOST, CALLS_PER_PASS
from faircall.server.reader.staging import AdmissionLimits
from faircall.shm.states import Phase

from .reader_client import call
from .reader_world import World

Make = Callable[..., World]


# -- connections -----------------------------------------------------------------------------------


def test_it_adopts_what_the_acceptor_sends_a_part_at_a_time(make_world: Make) -> None:
    world = make_world()
    for _ in range(ADOPT_AT_MOST + 3):
        world.knock()
    world.read()
    assert len(world.reader.clients.by_fd) == ADOPT_AT_MOST
    world.read()
    assert len(world.reader.clients.by_fd) == ADOPT_AT_MOST + 3
    assert world.handoff.pending() == 0
    world.finish()


def test_the_acceptor_is_told_how_many_connections_there_are(world: World) -> None:
    clients = [world.connect() for _ in range(3)]
    assert world.row("connections") == 3
    clients[0].close()
    world.run()
    assert world.row("connections") == 2


def test_a_connection_that_is_gone_before_it_is_adopted_is_no_trouble(world: World) -> None:
    world.knock().close()
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with near, far, socket.socket() as never_connected:
        assert world.handoff.send(never_connected)
    world.run()
    assert world.reader.clients.by_fd == {}
    world.connect().send(call("rpc.ping", id=1))
    world.run()
    world.finish()


def test_the_end_of_the_acceptors_side_is_looked_at_once(world: World) -> None:
    world.handoff.near.close()
    world.read()
    assert world.reader.poll() == []


# -- a pass ----------------------------------------------------------------------------------------


def test_a_pass_takes_so_many_calls_before_it_looks_at_answers(world: World) -> None:
    client = world.connect()
    client.send(call("rpc.ping", id=1) * (CALLS_PER_PASS + 10))
    assert world.read() == CALLS_PER_PASS
    assert world.read() == 10


def test_each_pass_is_a_beat(world: World) -> None:
    world.pass_ms(7)
    world.read()
    assert world.row("beat_ns") == world.now_ns


# -- the end ---------------------------------------------------------------------------------------


def test_it_is_quiet_when_nothing_is_in_flight_and_nothing_unsent(world: World) -> None:
    client = world.connect()
    client.send(call("big", [400_000], 1))
    world.read()
    assert world.row("quiet") == 0  # it is not asked yet
    world.shared.phase.set(Phase.DRAINING, 0)
    world.read()
    assert world.row("quiet") == 0
    world.handle()
    world.read()
    assert world.reader.book.calls == {}
    assert world.row("quiet") == 0  # most of it is unsent
    world.drain(client)
    assert world.row("quiet") == 1


def test_a_running_notification_is_waited_for(world: World) -> None:
    world.connect().send(call("seen"))
    world.read()
    world.shared.phase.set(Phase.DRAINING, 0)
    world.read()
    assert world.row("quiet") == 0
    world.run()
    assert world.row("quiet") == 1


def test_its_successor_gets_back_what_still_runs(make_world: Make) -> None:
    world = make_world(admission=AdmissionLimits(frame_only_above_bytes=1000))
    world.connect().send(call("big", [9000], 1) + call("seen", id=2))
    world.read()
    slots, tokens = [0], [0]
    assert world.shared.table.claim(1, world.now_ns, slots, tokens) == 1
    for connection in list(world.reader.clients.by_fd.values()):
        connection.sock.close()  # it dies
    world.reader.clients.by_fd.clear()
    world.reader.close()
    world.shared.table.recovery.reap_reader(0)
    world.reader = world.new_reader()
    client = world.connect()
    client.send(call("echo", ["new"], 3))
    world.read()
    world.handlers[1]._serve(slots[0], tokens[0])
    world.handlers[1]._publish()
    world.run()
    assert [(each["id"], each["result"]) for each in client.answers()] == [(3, "new")]
    assert world.seen == []
    world.verify()

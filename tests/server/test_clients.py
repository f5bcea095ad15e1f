"""Whose calls are taken, how many, and when a client has to read first."""

from __future__ import annotations

import json
from collections.abc import Callable

from faircall.server.reader.client_limits import ClientLimits
from faircall.server.reader.intake import RECEIVE_BYTES
from faircall.shm.columns import Counter

from .reader_client import batch, call, post, reasons
from .reader_world import World

Make = Callable[..., World]
PING = call("rpc.ping", id=1)


def pings(count: int) -> bytes:
    return PING * count


def buffered(world: World) -> int:
    return world.connection().wire.buffered


# -- turns -----------------------------------------------------------------------------------------


def test_a_turn_is_a_few_calls(world: World) -> None:
    client = world.connect()
    client.send(pings(40))
    clients = world.reader.clients
    clients.on_event(world.connection(), 1, world.now_ns)
    turns = []
    while clients.ready:
        turns.append(clients.serve(clients.ready.next(), world.now_ns))
    assert turns == [16, 16, 8]


def test_a_turn_is_a_few_bytes(make_world: Make) -> None:
    world = make_world(limits=ClientLimits(bytes_per_pass=1000))
    client = world.connect()
    client.send(call("rpc.ping", ["x" * 600], 1) * 5)
    clients = world.reader.clients
    clients.on_event(world.connection(), 1, world.now_ns)
    turns = []
    while clients.ready:
        turns.append(clients.serve(clients.ready.next(), world.now_ns))
    assert turns == [2, 2, 1]


def test_who_sends_much_does_not_keep_who_sends_little(make_world: Make) -> None:
    world = make_world(limits=ClientLimits(calls_per_pass=4))
    greedy, modest = world.connect(), world.connect()
    modest.send(call("faircall.hello", ["modest"]))
    world.read()
    greedy.send(pings(1000))
    world.read()
    modest.send(PING)
    world.read()
    assert len(modest.answers()) == 1
    assert len(greedy.answers()) < 500


def test_who_waits_for_a_turn_is_not_read(world: World) -> None:
    client = world.connect()
    most, left = 0, pings(5000)
    for _ in range(1000):
        left = left[client.try_send(left) :]
        world.read()
        client.read()
        most = max(most, buffered(world))
    assert RECEIVE_BYTES / 2 < most <= RECEIVE_BYTES + len(PING)
    world.run()
    assert len(client.answers()) == 5000


def test_a_client_may_pipeline_more_than_it_may_leave_unfinished(make_world: Make) -> None:
    limits = ClientLimits(max_unfinished_of_connection=100_000, max_unfinished_of_caller=100_000)
    world = make_world(limits=limits)
    client = world.connect()
    world.send(client, call("echo") * 10_000)
    assert not client.ended
    client.send(PING)
    world.run()
    assert client.answers()[-1]["result"] == "pong"


# -- limits in flight ------------------------------------------------------------------------------


def test_so_many_calls_may_be_in_flight(make_world: Make) -> None:
    world = make_world(limits=ClientLimits(max_in_flight=3))
    client = world.connect()
    client.send(b"".join(call("echo", id=id_) for id_ in range(8)))
    for _ in range(3):
        world.read()
    assert len(world.reader.book.calls) == 3
    client.send(call("rpc.ping", id=9) * 2000)
    for _ in range(3):
        world.read()
    assert world.reader.poll() == []
    assert buffered(world) < 1000  # the rest waits in the kernel
    world.handle()
    world.run()
    client.answers()  # as much as its socket holds at a time
    world.run()
    expected = [(id_, "ok") for id_ in (*range(8), *[9] * 2000)]
    assert sorted(reasons(client.answers())) == expected
    world.verify()


def test_the_items_of_batches_count_one_by_one(make_world: Make) -> None:
    world = make_world(limits=ClientLimits(max_in_flight=3))
    client = world.connect()
    client.send(batch(*[call("echo", id=id_) for id_ in range(4)]) + call("echo", id=9))
    for _ in range(3):
        world.read()
    assert len(world.reader.book.calls) == 4
    world.run()
    assert len(client.answers()) == 2


def test_so_many_http_requests_may_be_pipelined(make_world: Make) -> None:
    world = make_world(limits=ClientLimits(http_pipelining=2))
    client = world.connect()
    client.send(b"".join(post(call("echo", [id_], id_)) for id_ in range(7)))
    for _ in range(3):
        world.read()
    assert len(world.reader.book.calls) == 2
    world.run()
    assert [json.loads(body)["id"] for body in client.bodies()] == list(range(7))
    world.verify()


def test_http_answers_leave_in_the_order_of_the_requests(world: World) -> None:
    client = world.connect()
    client.send(post(call("seen", id=1)) + post(call("rpc.ping", id=2)) + post(call("echo")))
    world.read()
    assert client.read() == b""
    world.run()
    ids = [json.loads(body)["id"] if body else None for body in client.bodies()]
    assert ids == [1, 2, None]


# -- unsent answers --------------------------------------------------------------------------------


def test_a_client_that_does_not_read_is_not_read_either(make_world: Make) -> None:
    world = make_world(limits=ClientLimits(unsent_high_water_bytes=10_000, max_in_flight=4))
    client = world.connect()
    requests = b"".join(call("big", [30_000], id_) for id_ in range(100))
    left = requests
    for _ in range(60):
        left = left[client.try_send(left) :]
        world.read()
        world.handle()
    connection = world.connection()
    assert connection.stopped
    assert connection.stalled
    assert len(world.reader.book.calls) == 0
    assert connection.unsent < 300_000
    client.read()
    world.run()
    world.drain(client)
    world.send(client, left)
    world.drain(client)
    assert sorted(each["id"] for each in client.answers()) == list(range(100))
    world.verify()


def test_answers_that_wait_for_an_older_one_are_unsent_too(make_world: Make) -> None:
    world = make_world(limits=ClientLimits(unsent_high_water_bytes=10_000))
    client = world.connect()
    client.send(post(call("seen", id=1)) + post(call("rpc.ping", ["x"], 2)) * 3)
    client.send(post(call("big", [20_000], 3)) + post(call("seen", id=4)) * 3)
    world.read()
    slots, tokens = [0], [0]
    assert world.shared.table.claim(1, world.now_ns, slots, tokens) == 1  # the first, and slowest
    for _ in range(4):
        world.handle()
        world.read()
    client.send(post(call("echo", ["more"], 5)))
    world.read()
    assert world.connection().wire.held > 10_000
    assert world.connection().stopped
    world.handlers[1]._serve(slots[0], tokens[0])
    world.handlers[1]._publish()
    world.run()
    assert client.http_answers()[-1]["result"] == "more"


def test_a_client_that_lets_too_much_pile_up_is_closed(make_world: Make) -> None:
    world = make_world(limits=ClientLimits(max_unsent_bytes=100_000))
    client = world.connect()
    client.send(b"".join(call("big", [60_000], id_) for id_ in range(8)))
    world.run()
    assert world.reader.clients.by_fd == {}
    assert world.count(Counter.CLOSED_SLOW) == 1
    world.verify()


def test_one_answer_may_be_as_long_as_the_socket_is_slow(world: World) -> None:
    client = world.connect()
    client.send(call("big", [400_000], 1))
    world.run()
    assert world.connection().stalled
    world.drain(client)
    assert len(client.answers()[0]["result"]) == 400_000
    assert not world.connection().stalled

"""Without back-off: calls wait for room, and their connections with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from faircall.server.janitor.eviction import Eviction
from faircall.server.reader.reader import BLOCKED_MS
from faircall.shm.policy import QueuePolicy

from .reader_client import call, post, reasons
from .reader_world import World

ROOM = 4  # calls that may wait
FEW = QueuePolicy(capacities=(1, 1, 1, 1), max_principal=16)
Make = Callable[..., World]


@pytest.fixture
def blocking(make_world: Make) -> World:
    """Back-off off, and a small queue."""
    return make_world(policy=FEW, backoff=False)


def numbered(first: int, count: int) -> bytes:
    return b"".join(call("echo", [id_], id_) for id_ in range(first, first + count))


def paused(world: World) -> list[int]:
    return [each.paused for each in world.reader.clients.by_fd.values()]


def test_without_back_off_the_connection_is_paused_until_there_is_room(blocking: World) -> None:
    client = blocking.connect()
    client.send(numbered(1, ROOM + 2))
    blocking.read()
    assert (client.answers(), paused(blocking)) == ([], [2])
    client.send(numbered(7, 3))
    for _ in range(3):
        blocking.read()
    assert len(blocking.reader.book.calls) == ROOM + 2  # the three wait in the kernel
    blocking.run()
    assert sorted(each["id"] for each in client.answers()) == list(range(1, 10))
    assert paused(blocking) == [0]
    blocking.verify()


def test_a_connection_goes_on_as_soon_as_the_queue_has_its_calls(blocking: World) -> None:
    client = blocking.connect()
    client.send(numbered(1, ROOM + 1))
    blocking.read()
    client.send(call("rpc.ping", id="p"))
    blocking.read()
    assert client.answers() == []
    slots, tokens = [0], [0]
    assert blocking.shared.table.claim(1, blocking.now_ns, slots, tokens) == 1
    for _ in range(3):
        blocking.read()
    assert [each["id"] for each in client.answers()] == ["p"]


def test_without_back_off_nothing_is_refused_for_want_of_slots(blocking: World) -> None:
    clients = [blocking.connect() for _ in range(12)]
    for client in clients:
        client.send(numbered(1, 10))
    blocking.run()
    for client in clients:
        assert sorted(reasons(client.answers())) == [(id_, "ok") for id_ in range(1, 11)]
    blocking.verify()


def test_a_paused_connection_stops_no_other(blocking: World) -> None:
    one, other = blocking.connect(), blocking.connect()
    one.send(numbered(1, ROOM + 1))
    blocking.read()
    other.send(call("rpc.ping", id="p") + call("echo", id="e"))
    blocking.read()
    assert [each["id"] for each in other.answers()] == ["p"]
    assert paused(blocking) == [1, 1]
    blocking.run()
    assert [each["id"] for each in other.answers()] == ["p", "e"]


def test_blocked_calls_come_before_later_ones(blocking: World) -> None:
    one, other = blocking.connect(), blocking.connect()
    one.send(numbered(1, ROOM + 1))
    blocking.read()
    assert blocking.handle() == 1
    other.send(call("echo", id="late"))
    blocking.read()
    assert (paused(blocking), other.answers()) == ([0, 1], [])


def test_a_blocked_notification_pauses_too_and_is_not_lost(blocking: World) -> None:
    client = blocking.connect()
    client.send(call("seen") * (ROOM + 2))
    blocking.read()
    assert paused(blocking) == [2]
    client.half_close()
    blocking.run()
    assert len(blocking.seen) == ROOM + 2
    assert (client.read(), client.ended) == (b"", True)


def test_a_connection_with_many_users_is_never_paused(blocking: World) -> None:
    client = blocking.connect()
    client.send(call("faircall.hello", ["anna"], 0) + numbered(1, ROOM + 1))
    blocking.read()
    assert reasons(client.answers()[1:]) == [(ROOM + 1, "queue_full")]
    assert paused(blocking) == [0]


def test_nor_is_one_that_names_a_user_in_each_request(blocking: World) -> None:
    client = blocking.connect()
    client.send(
        b"".join(post(call("echo", id=id_), X_Faircall_User="a") for id_ in range(ROOM + 1))
    )
    blocking.run()
    assert reasons(client.http_answers())[-1] == (ROOM, "queue_full")


def test_a_blocked_call_expires(blocking: World) -> None:
    client = blocking.connect()
    client.send(numbered(1, ROOM) + call("echo", id=9, meta={"timeout_ms": 5}))
    blocking.read()
    blocking.pass_ms(5)
    blocking.read()
    assert reasons(client.answers()) == [(9, "deadline_exceeded")]
    assert paused(blocking) == [0]
    blocking.run()
    blocking.verify()


def test_blocked_calls_leave_with_their_connection(blocking: World) -> None:
    client = blocking.connect(tcp=True)
    client.send(numbered(1, ROOM + 3))
    blocking.read()
    blocking.reader.clients.close(blocking.connection())
    assert blocking.reader.enqueuer.blocked == []
    assert blocking.states() == {}
    blocking.run()
    blocking.verify()
    assert client.ended or not client.read()


# -- a reload ------------------------------------------------------------------------------------


def test_calls_that_are_blocked_stay_so_when_back_off_is_switched_on(blocking: World) -> None:
    """They were let in under the other rule; those that come later are refused."""
    client = blocking.connect()
    client.send(numbered(1, ROOM + 2))
    blocking.read()
    blocking.shared.table.set_policy(FEW)
    blocking.read()
    other = blocking.connect()
    other.send(numbered(7, 1))
    blocking.read()
    assert reasons(other.answers()) == [(7, "queue_full")]
    blocking.run()
    assert sorted(each["id"] for each in client.answers()) == list(range(1, ROOM + 3))
    assert paused(blocking) == [0, 0]
    blocking.verify()


def test_back_off_that_is_switched_off_refuses_nobody_any_more(make_world: Make) -> None:
    world = make_world(policy=FEW)
    client = world.connect()
    client.send(numbered(1, ROOM + 1))
    world.read()
    assert reasons(client.answers()) == [(ROOM + 1, "queue_full")]
    world.shared.table.set_policy(replace(FEW, backoff=False))
    client.send(numbered(ROOM + 2, 2))
    world.read()
    assert paused(world) == [2]
    world.run()
    assert [each["id"] for each in client.answers() if "error" in each] == [ROOM + 1]
    world.verify()


def test_who_waits_for_room_keeps_its_row(blocking: World) -> None:
    """However long it waits: its calls would else be charged to whoever has the row then."""
    filler = blocking.connect()
    filler.send(numbered(1, ROOM))
    blocking.read()
    patient = blocking.connect(tcp=True)
    patient.send(call("seen", id=1))
    blocking.read()
    identities = blocking.shared.names.identities
    row, eviction = identities.find("127.0.0.1"), Eviction(blocking.shared, 1)
    for _ in range(4):
        blocking.pass_ms(3000)
        blocking.read()
        eviction.tick(blocking.now_ns, np.zeros(blocking.shared.geometry.identities, bool))
    assert identities.find("127.0.0.1") == row
    blocking.run()
    assert blocking.seen[0].user == "127.0.0.1"


def test_what_is_sent_meanwhile_does_not_end_the_sleep(make_world: Make) -> None:
    """A connection that waits for its turn is not read: epoll would tell of it again and again."""
    world = make_world(backoff=False)
    fillers = [world.connect() for _ in range(2)]
    for filler in fillers:
        filler.send(numbered(1, 16))
    waiting = world.connect()
    waiting.send(numbered(1, 2))
    for _ in range(5):
        world.read()
    waiting.send(numbered(3, 2))
    assert world.reader.clients.ready
    slept: list[float] = []
    sources = world.reader._sources
    sources.rest = lambda timeout_s: slept.append(timeout_s) or []  # type: ignore
    sources.poll = lambda timeout_s: pytest.fail("it does not rest")  # type: ignore
    assert world.reader._wait() == []
    assert slept == [BLOCKED_MS / 1000]
    del sources.rest, sources.poll
    world.run()
    assert sorted(each["id"] for each in waiting.answers()) == [1, 2, 3, 4]

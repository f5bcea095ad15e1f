"""What becomes of staged calls: accepted, or refused with the time to come back."""

from __future__ import annotations

import select
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from faircall.server.reader.staging import AdmissionLimits
from faircall.server.wire.limits import WireLimits
from faircall.shm.columns import Counter
from faircall.shm.policy import QueuePolicy

from .reader_client import Client, batch, call, post, reasons
from .reader_world import World

ROOM = 4  # calls that may wait
FEW = QueuePolicy(capacities=(1, 1, 1, 1), max_principal=16)
Make = Callable[..., World]


@pytest.fixture
def polite(make_world: Make) -> World:
    """Back-off on, and a small queue."""
    return make_world(policy=FEW)


def numbered(first: int, count: int) -> bytes:
    return b"".join(call("echo", [id_], id_) for id_ in range(first, first + count))


def rings(world: World) -> list[bool]:
    """Whether each handler's bell does."""
    bells = world.shared.doorbells.handlers
    return [bool(select.select([bell], [], [], 0)[0]) for bell in bells]


def test_accepted_calls_wake_the_handlers_that_they_need(world: World) -> None:
    for number in range(2):
        assert world.handle(number) == 0  # and sleeps
    client = world.connect()
    client.send(numbered(1, 1))
    world.read()
    assert rings(world) == [True, False]
    client.send(numbered(2, 2))
    world.read()
    assert rings(world) == [True, True]


def test_the_calls_of_a_pass_are_offered_under_one_lock(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    offers: list[int] = []
    enqueue = world.shared.table.enqueue

    def offer(calls: Sequence[tuple[int, int]], *others: Any) -> int:
        offers.append(len(calls))
        return enqueue(calls, *others)

    monkeypatch.setattr(world.shared.table, "enqueue", offer)
    clients = [world.connect() for _ in range(3)]
    for client in clients:
        client.send(numbered(1, 2))
    world.read()
    assert offers == [6]
    world.read()
    assert offers == [6]


def test_what_does_not_fit_is_refused_and_the_connection_goes_on(polite: World) -> None:
    client = polite.connect()
    client.send(numbered(1, ROOM + 2))
    polite.read()
    assert reasons(client.answers()) == [(5, "queue_full"), (6, "queue_full")]
    error = client.answers()[0]["error"]
    assert (error["code"], error["data"]["retriable"]) == (-32005, True)
    assert (error["data"]["level"], error["data"]["retry_after_ms"]) == (0, 1000)
    polite.run()
    client.send(numbered(7, 1))
    polite.run()
    assert sorted(each["id"] for each in client.answers() if "result" in each) == [1, 2, 3, 4, 7]
    assert polite.count(Counter.REFUSED_QUEUE_FULL) == 2
    polite.verify()


def test_when_to_come_back_follows_from_how_fast_the_queue_drains(polite: World) -> None:
    client = polite.connect()
    for id_ in range(20):
        client.send(call("echo", id=id_))
        polite.read()
        polite.handle()
        polite.pass_ms(10)
    client.send(numbered(100, ROOM + 1))
    polite.read()
    refused = [each for each in client.answers() if "error" in each]
    assert [each["error"]["data"]["retry_after_ms"] for each in refused] == [ROOM * 10]


def test_a_principal_with_too_many_is_told_so(make_world: Make) -> None:
    world = make_world(policy=QueuePolicy(capacities=(8,) * 4, max_principal=2))
    anna, bert = world.connect(), world.connect()
    for client, name in ((anna, "anna"), (bert, "bert")):
        client.send(call("faircall.hello", [name], 0))
        client.send(numbered(1, 3))
    world.read()
    for client in (anna, bert):
        assert reasons(client.answers()[1:]) == [(3, "too_many_in_flight")]
    assert world.count(Counter.REFUSED_PRINCIPAL) == 2


def test_overload_has_the_http_status_of_overload(make_world: Make) -> None:
    world = make_world(policy=FEW, wire=WireLimits(busy_http_status=429))
    client = world.connect()
    client.send(b"".join(post(call("echo", id=id_)) for id_ in range(ROOM + 1)))
    world.run()
    statuses = [int(part[:3]) for part in client.read().split(b"HTTP/1.1 ")[1:]]
    assert statuses == [200] * ROOM + [429]


def test_an_undecoded_batch_is_refused_with_its_ids(make_world: Make) -> None:
    world = make_world(policy=FEW, admission=AdmissionLimits(frame_only_above_bytes=50))
    client = world.connect()
    client.send(numbered(1, ROOM))
    client.send(batch(call("echo", id=8), call("echo"), call("echo", ["x" * 50], 9)))
    world.read()
    assert reasons(client.answers()[0]) == [(8, "queue_full"), (9, "queue_full")]
    world.run()
    world.verify()


def test_a_staged_call_that_is_cancelled_was_never_offered(world: World) -> None:
    client = world.connect()
    client.send(batch(call("echo", id=1), call("rpc.cancel", [1], 2), call("echo", id=3)))
    world.read()
    assert world.states() == {"QUEUED": 1}
    world.run()
    answers = client.answers()[0]
    assert reasons(answers) == [(1, "cancelled"), (2, "ok"), (3, "ok")]
    assert answers[1]["result"] is True


@pytest.mark.parametrize("message", [call("seen"), batch(call("seen"), call("seen"))])
def test_the_exchange_of_notifications_ends_when_the_queue_has_them(
    polite: World, message: bytes
) -> None:
    client: Client = polite.connect()
    client.send(post(message))
    polite.read()
    assert client.bodies() == [b""]
    assert polite.connection().calls == set()
    polite.run()
    assert len(polite.seen) == message.count(b"seen")


def test_a_notification_that_is_refused_is_not_answered(polite: World) -> None:
    client = polite.connect()
    client.send(call("seen") * (ROOM + 1))
    polite.run()
    assert (len(polite.seen), client.answers()) == (ROOM, [])
    assert polite.count(Counter.REFUSED_QUEUE_FULL) == 1

"""Calls that nobody waits for any more, in every state that they can be in."""

from __future__ import annotations

import pytest

from faircall.server.reader.callbook import NEVER_NS
from faircall.shm.columns import Counter

from .reader_client import Client, batch, call, reasons
from .reader_world import World


def ask(client: Client, *ids: int, timeout_ms: float = 5) -> None:
    for id_ in ids:
        client.send(call("seen", id=id_, meta={"timeout_ms": timeout_ms}))


def claimed(world: World) -> tuple[list[int], list[int]]:
    """Handler 1 has one call, and has not begun it."""
    slots, tokens = [0], [0]
    assert world.shared.table.claim(1, world.now_ns, slots, tokens) == 1
    return slots, tokens


def serve(world: World, slots: list[int], tokens: list[int]) -> None:
    """It goes on."""
    world.handlers[1]._serve(slots[0], tokens[0])
    world.handlers[1]._publish()


def test_a_call_that_waits_expires_and_never_runs(world: World) -> None:
    client = world.connect()
    ask(client, 1)
    world.read()
    world.pass_ms(4.9)
    world.read()
    assert client.answers() == []
    world.pass_ms(0.1)
    world.read()
    assert reasons(client.answers()) == [(1, "deadline_exceeded")]
    assert world.states() == {}
    world.run()
    assert world.seen == []
    assert world.count(Counter.EXPIRED) == 1
    world.verify()


def test_a_call_that_runs_expires_and_its_answer_is_dropped(world: World) -> None:
    client = world.connect()
    client.send(call("spend", [10], 1, meta={"timeout_ms": 5}))
    world.read()
    held = claimed(world)
    world.pass_ms(5)
    world.read()
    assert reasons(client.answers()) == [(1, "deadline_exceeded")]
    serve(world, *held)
    world.run()
    assert len(client.answers()) == 1
    world.verify()


def test_a_call_expires_once(world: World) -> None:
    client = world.connect()
    ask(client, 1)
    world.read()
    held = claimed(world)
    ask(client, 2, timeout_ms=10)
    world.read()
    for _ in range(3):
        world.pass_ms(5)
        world.read()
    assert [id_ for id_, _ in reasons(client.answers())] == [1, 2]
    assert world.count(Counter.EXPIRED) == 2
    serve(world, *held)
    world.run()
    world.verify()


def test_an_answer_that_is_there_already_is_given(world: World) -> None:
    client = world.connect()
    ask(client, 1)
    world.read()
    world.handle()
    world.pass_ms(5)
    world.read()
    assert reasons(client.answers()) == [(1, "ok")]
    assert world.count(Counter.EXPIRED) == 0
    world.verify()


def test_what_a_handler_finds_expired_says_so(world: World) -> None:
    client = world.connect()
    ask(client, 1)
    world.read()
    world.pass_ms(5)
    world.handle()
    world.read()
    assert reasons(client.answers()) == [(1, "deadline_exceeded")]
    assert (world.count(Counter.EXPIRED), world.count(Counter.LATE)) == (1, 1)
    assert world.seen == []


METHOD_TIMEOUT = "Deadline exceeded: the call did not finish within the method's timeout of 0.5 s"


@pytest.mark.parametrize("found_by", ["reader", "handler"])
@pytest.mark.parametrize(
    ("method", "asked_ms", "text"),
    [
        ("brief", None, METHOD_TIMEOUT),
        ("brief", 900, METHOD_TIMEOUT),
        ("brief", 400, "Deadline exceeded"),
        ("echo", 500, "Deadline exceeded"),
    ],
)
def test_a_call_that_is_over_by_its_methods_timeout_says_so(
    world: World, found_by: str, method: str, asked_ms: float | None, text: str
) -> None:
    client = world.connect()
    client.send(call(method, id=1, meta={"timeout_ms": asked_ms} if asked_ms else {}))
    world.read()
    world.pass_ms(500)
    if found_by == "handler":
        world.handle()
    world.read()
    (answer,) = client.answers()
    assert answer["error"]["message"] == text
    assert answer["error"]["data"].get("method_timeout_s") == (
        0.5 if text != "Deadline exceeded" else None
    )
    assert world.count(Counter.EXPIRED) == 1
    world.verify()


def test_calls_that_expire_together_each_say_why(world: World) -> None:
    client = world.connect()
    client.send(call("brief", id=1) + call("echo", id=2, meta={"timeout_ms": 500}))
    world.read()
    world.pass_ms(500)
    world.read()
    texts = {answer["id"]: answer["error"]["message"] for answer in client.answers()}
    assert texts == {1: METHOD_TIMEOUT, 2: "Deadline exceeded"}


def test_the_next_deadline_is_that_of_the_calls_that_are_left(world: World) -> None:
    client, began_ns = world.connect(), world.now_ns
    for id_, timeout_ms in ((1, 5), (2, 50), (3, 20)):
        ask(client, id_, timeout_ms=timeout_ms)
    world.read()
    assert world.reader.book.next_deadline_ns == began_ns + 5_000_000
    world.pass_ms(5)
    world.read()
    assert world.reader.book.next_deadline_ns == began_ns + 20_000_000
    world.pass_ms(45)
    world.read()
    assert world.reader.book.next_deadline_ns == NEVER_NS
    assert [id_ for id_, _ in sorted(reasons(client.answers()))] == [1, 2, 3]


def test_an_expired_item_does_not_hold_up_its_batch(world: World) -> None:
    client = world.connect()
    client.send(batch(call("seen", id=1, meta={"timeout_ms": 5}), call("seen", id=2)))
    world.read()
    world.pass_ms(5)
    world.read()
    world.run()
    assert reasons(client.answers()[0]) == [(1, "deadline_exceeded"), (2, "ok")]


def test_a_notification_expires_without_a_word(world: World) -> None:
    client = world.connect()
    client.send(call("seen", meta={"timeout_ms": 5}))
    world.read()
    world.pass_ms(5)
    world.run()
    assert (client.read(), world.seen) == (b"", [])
    assert world.count(Counter.EXPIRED) == 1
    world.verify()


@pytest.mark.parametrize("state", ["staged", "queued", "running", "done"])
def test_the_calls_of_a_closed_connection_are_given_up(world: World, state: str) -> None:
    client = world.connect()
    client.send(call("seen", id=1))
    if state == "staged":
        world.reader._attend(world.reader.poll(), world.now_ns)
        world.reader.clients.serve(world.reader.clients.ready.next(), world.now_ns)
        assert world.reader.enqueuer.staged
    else:
        world.read()
    held = claimed(world) if state == "running" else None
    if state == "done":
        world.handle()
    world.reader.clients.close(world.connection())
    if held:
        serve(world, *held)
    world.run()
    assert len(world.seen) == (state == "done")
    assert world.count(Counter.DROPPED) == (state != "done")
    assert world.count(Counter.ANSWERED) == 0
    world.verify()
    world.finish()


def test_many_are_given_up_at_once(world: World) -> None:
    one, other = world.connect(), world.connect()
    ask(one, *range(8))
    ask(other, 100, timeout_ms=1000)
    world.read()
    world.pass_ms(5)
    world.read()
    assert sorted(reasons(one.answers())) == [(id_, "deadline_exceeded") for id_ in range(8)]
    assert world.states() == {"QUEUED": 1}
    world.run()
    assert reasons(other.answers()) == [(100, "ok")]

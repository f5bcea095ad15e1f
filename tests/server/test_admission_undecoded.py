"""Long messages, which a reader only frames and a handler decodes."""

from __future__ import annotations

from collections.abc import Callable

from faircall.server.reader.staging import AdmissionLimits
from faircall.shm import states
from faircall.shm.columns import Counter

from .reader_client import batch, call, post, reasons
from .reader_world import World

LONG = AdmissionLimits(frame_only_above_bytes=100)
Make = Callable[..., World]


def test_a_long_message_is_decoded_by_a_handler(make_world: Make) -> None:
    world = make_world(admission=LONG)
    client, slot = world.staged(call("echo", ["x" * 100], 1))
    assert world.flags(slot) == states.UNDECODED
    world.run()
    assert client.answers()[0]["result"] == "x" * 100
    world.verify()


def test_a_message_of_exactly_the_limit_is_decoded_here(make_world: Make) -> None:
    world = make_world(admission=LONG)
    line = call("echo", [""], 1)
    line = call("echo", ["x" * (100 - len(line) + 1)], 1)  # without its newline
    _, slot = world.staged(line)
    assert world.flags(slot) == states.IDEMPOTENT


def test_a_long_batch_is_charged_like_a_short_one(make_world: Make) -> None:
    world = make_world(admission=LONG)
    client = world.connect()
    client.send(call("faircall.hello", ["anna"], 0))
    items = [call("echo", [number], number) for number in range(5)]
    client.send(batch(*items, call("echo"), b"1", call("no_such", id=9)))
    world.run()
    assert len(client.answers()[1]) == 7
    assert world.charged("anna") == (7, 7)  # what is no request is charged by nobody


def test_a_long_batch_of_notifications_is_not_answered(make_world: Make) -> None:
    world = make_world(admission=LONG)
    client = world.connect()
    client.send(batch(*[call("seen")] * 5))
    world.run()
    assert (len(world.seen), client.read()) == (5, b"")
    world.verify()


def test_a_long_message_that_is_no_json_is_answered(make_world: Make) -> None:
    world = make_world(admission=LONG)
    client = world.connect()
    client.send(b"{" + b"x" * 200 + b"\n")
    world.run()
    assert client.answers()[0]["error"]["code"] == -32700
    world.verify()


def test_each_item_of_a_long_batch_has_a_meta_of_its_own(make_world: Make) -> None:
    world = make_world(admission=LONG)
    client = world.connect()
    items = (
        call("seen", id=1, meta={"caller_context": "first", "timeout_ms": 5}),
        call("spend", [10], 2),
        call("seen", id=3, meta={"timeout_ms": 5}),
        call("seen", id=4),
    )
    client.send(post(batch(*items), X_Faircall_Context="of-all"))
    world.run()
    (answers,) = client.http_answers()
    assert reasons(answers) == [(1, "ok"), (2, "ok"), (3, "deadline_exceeded"), (4, "ok")]
    assert [each.context for each in world.seen] == ["first", "of-all"]
    assert world.seen[0].deadline_ns < world.seen[1].deadline_ns


def test_what_a_dead_handler_leaves_of_a_long_message_names_its_ids(make_world: Make) -> None:
    world = make_world(admission=LONG)
    client = world.connect()
    client.send(batch(call("echo", ["x" * 100], 1), call("end", id=2), call("echo", id=3)))
    world.run()
    assert reasons(client.answers()[0]) == [(id_, "handler_died") for id_ in (1, 2, 3)]
    assert world.count(Counter.DIED) == 1
    world.verify()


def test_a_long_message_that_expires_names_its_ids(make_world: Make) -> None:
    world = make_world(admission=LONG)
    client = world.connect()
    message = batch(call("echo", ["x" * 100], 1), call("echo"), call("echo", id=3))
    client.send(post(message, X_Request_Timeout_Ms=5, X_Faircall_Context="c"))
    world.read()
    world.pass_ms(5)
    world.read()
    assert reasons(client.http_answers()[0]) == [
        (1, "deadline_exceeded"),
        (3, "deadline_exceeded"),
    ]
    world.run()
    world.verify()

"""What a reader answers by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from faircall.shm.columns import Counter

from .reader_client import Client, batch, call, post, reasons
from .reader_world import NOBODY_TRUSTED, World

Make = Callable[..., World]


def ask(world: World, method: str, params: Any = None) -> Any:
    """The answer to one request on a connection of its own."""
    client = world.connect()
    client.send(call(method, params, 1))
    world.read()
    return client.answers()[0]


def code(answer: Any) -> int:
    return int(answer["error"]["code"])


def test_a_ping_is_answered_without_the_queue(world: World) -> None:
    assert ask(world, "rpc.ping")["result"] == "pong"
    assert ask(world, "rpc.ping", {"any": "thing"})["result"] == "pong"
    assert world.states() == {}


@pytest.mark.parametrize("params", [["anna"], {"user": "anna"}])
def test_hello_says_for_whom_the_connection_calls(world: World, params: Any) -> None:
    client = world.connect()
    client.send(call("seen", id=1) + call("faircall.hello", params, 2) + call("seen", id=3))
    world.run()
    assert client.answers()[0]["result"] == {"user": "anna", "server": "faircall"}
    users = {each["id"]: each["result"] for each in client.answers()[1:]}
    assert users[3] == "anna" != users[1]


def test_hello_may_change_its_mind(world: World) -> None:
    client = world.connect()
    for name in ("anna", "bert"):
        client.send(call("faircall.hello", [name]) + call("seen", id=name))
    world.run()
    assert {each["id"]: each["result"] for each in client.answers()} == {
        "anna": "anna",
        "bert": "bert",
    }


def test_hello_from_a_stranger_is_refused_and_changes_nothing(make_world: Make) -> None:
    world = make_world(trusted=NOBODY_TRUSTED)
    client = world.connect(tcp=True)
    client.send(call("faircall.hello", ["root"], 1) + call("seen", id=2))
    world.run()
    assert code(client.answers()[0]) == -32055
    assert client.answers()[1]["result"] == "127.0.0.1"
    assert world.count(Counter.CLAIMS_REFUSED) == 1


@pytest.mark.parametrize(
    "params",
    [None, [], [1], [None], ["a", "b"], {}, {"name": "a"}, {"user": "a", "x": 1}, {"user": []}],
)
def test_hello_takes_a_name(world: World, params: Any) -> None:
    assert code(ask(world, "faircall.hello", params)) == -32602


def test_text_that_json_allows_and_no_name_can_hold_is_no_accident(world: World) -> None:
    """A lone surrogate is fine for one parser and an error for another."""
    client = world.connect()
    for method in ("faircall.hello", "rpc.cancel"):
        for params in (rb'["\ud800"]', rb'{"\ud800":1}', b"[1e999]", b"[NaN]"):
            client.send(
                b'{"jsonrpc":"2.0","method":"%s","params":%s,"id":1}\n' % (method.encode(), params)
            )
    client.send(call("rpc.ping", id=2))
    world.read()
    answers = client.answers()
    assert len(answers) == 9
    assert answers[-1]["result"] == "pong"


def test_over_http_the_user_is_named_by_a_header(world: World) -> None:
    client = world.connect()
    client.send(post(call("faircall.hello", ["anna"], 1)))
    world.read()
    assert b"X-Faircall-User" in client.bodies()[0]
    assert not world.connection().claimed


def running(world: World, *ids: Any) -> Client:
    """A client whose calls with these ids wait in the queue."""
    client = world.connect()
    for id_ in ids:
        client.send(call("seen", id=id_))
    world.read()
    return client


@pytest.mark.parametrize("id_", [7, -1, 0, "seven", "é", "", 10**30, 1.5])
def test_a_call_that_waits_is_cancelled_by_its_id(world: World, id_: Any) -> None:
    client = running(world, id_, "other")
    client.send(call("rpc.cancel", [id_], "c"))
    world.run()
    answers = {each["id"]: each for each in client.answers()}
    assert answers["c"]["result"] is True
    assert code(answers[id_]) == -32051
    assert "result" in answers["other"]
    assert len(world.seen) == 1
    assert world.count(Counter.CANCELLED) == 1
    world.verify()


def test_ids_are_compared_as_they_were_written(world: World) -> None:
    client = running(world, 1, "1", 1.0)
    client.send(call("rpc.cancel", {"id": 1.0}, "c"))
    world.read()
    assert client.read().startswith(b'{"jsonrpc":"2.0","id":1.0,"error"')
    assert len(world.reader.book.calls) == 2


def test_a_call_that_runs_is_given_up(world: World) -> None:
    client = world.connect()
    client.send(call("spend", [0], 1))
    world.read()
    slots, tokens = [0], [0]
    assert world.shared.table.claim(1, world.now_ns, slots, tokens) == 1
    client.send(call("rpc.cancel", [1], 2))
    world.read()
    assert sorted(reasons(client.answers())) == [(1, "cancelled"), (2, "ok")]
    assert world.states() == {"ABANDONED": 1}
    client.send(call("rpc.cancel", [1], 3))
    world.read()
    assert client.answers()[-1]["result"] is False  # once is enough
    world.handlers[1]._serve(slots[0], tokens[0])
    world.handlers[1]._publish()
    world.run()
    assert len(client.answers()) == 3
    assert world.count(Counter.LATE) == 1
    world.verify()


def test_a_call_that_is_answered_already_is_answered(world: World) -> None:
    client = running(world, 1)
    world.handle()
    client.send(call("rpc.cancel", [1], 2))
    world.run()
    assert sorted(reasons(client.answers())) == [(1, "ok"), (2, "ok")]
    assert next(each for each in client.answers() if each["id"] == 2)["result"] is False


def test_nobody_cancels_the_calls_of_another_connection(world: World) -> None:
    running(world, 1)
    assert ask(world, "rpc.cancel", [1])["result"] is False
    world.run()
    assert len(world.seen) == 1


@pytest.mark.parametrize("params", [None, [], [1, 2], [None], [True], [[1]], {"ids": 1}])
def test_cancel_takes_an_id(world: World, params: Any) -> None:
    assert code(ask(world, "rpc.cancel", params)) == -32602


def test_an_item_of_a_batch_is_cancelled_from_outside(world: World) -> None:
    client = world.connect()
    client.send(batch(call("seen", id=1), call("seen", id=2)))
    world.read()
    client.send(call("rpc.cancel", [1], 3))
    world.run()
    assert client.answers()[0]["id"] == 3
    assert reasons(client.answers()[1]) == [(1, "cancelled"), (2, "ok")]


def test_notifications_of_these_methods_are_done_and_not_answered(world: World) -> None:
    client = world.connect()
    client.send(call("rpc.ping") + call("faircall.hello", ["anna"]) + call("seen", id=1))
    client.send(call("rpc.cancel", []) + call("faircall.hello"))
    world.run()
    assert [each["result"] for each in client.answers()] == ["anna"]

"""An administrator cancels a user's calls: a reader's part, and the supervisor's."""

from __future__ import annotations

import pickle
from types import SimpleNamespace
from typing import Any

import pytest

from faircall.server.admin.cancel import CancelMethod
from faircall.server.reader.cancel_order import Cancelled, CancelOrder, answer_of
from faircall.server.supervisor.cancels import PATIENCE_NS, Cancels
from faircall.shm.columns import Counter
from faircall.workers.errors import RpcError

from .reader_client import call, reasons
from .reader_world import World


class Greeted:
    """A client that said who it is."""

    def __init__(self, world: World, user: str) -> None:
        self._client = world.connect()
        self.send = self._client.send
        self.send(call("faircall.hello", {"user": user}, 0))
        world.read()

    def answers(self) -> list[Any]:
        """All but the greeting's."""
        return [answer for answer in self._client.answers() if answer["id"] != 0]


def greet(world: World, user: str) -> Greeted:
    return Greeted(world, user)


def test_only_calls_of_that_user_are_cancelled(world: World) -> None:
    ann, bob = greet(world, "ann"), greet(world, "bob")
    for client in (ann, bob):
        client.send(call("seen", id=1) + call("echo", ["x"], 2))
    world.read()
    assert world.reader.cancel(CancelOrder(1, "ann")) == Cancelled(2, 0)
    assert reasons(ann.answers()) == [(1, "cancelled"), (2, "cancelled")]
    world.run()
    assert len(bob.answers()) == 2
    assert len(world.seen) == 1
    assert world.count(Counter.CANCELLED) == 2
    world.verify()


def test_what_runs_is_abandoned_and_its_result_dropped(world: World) -> None:
    ann = greet(world, "ann")
    ann.send(call("seen", id=1))
    world.read()
    slots, tokens = [0], [0]
    assert world.shared.table.claim(1, world.now_ns, slots, tokens) == 1
    assert world.reader.cancel(CancelOrder(1, "ann")) == Cancelled(0, 1)
    assert world.reader.cancel(CancelOrder(2, "ann")) == Cancelled(0, 0), "once"
    assert reasons(ann.answers()) == [(1, "cancelled")]
    world.handlers[1]._serve(slots[0], tokens[0])
    world.handlers[1]._publish()
    world.run()
    assert len(ann.answers()) == 1
    world.verify()


@pytest.mark.parametrize(
    ("order", "ids"),
    [
        (CancelOrder(1, "ann", context="job"), [1, 2]),
        (CancelOrder(1, "ann", method="echo"), [2, 3]),
        (CancelOrder(1, "ann", context="job", method="echo"), [2]),
        (CancelOrder(1, "ann", context="other"), []),
    ],
)
def test_context_and_method_narrow_it_down(
    world: World, order: CancelOrder, ids: list[int]
) -> None:
    ann, job = greet(world, "ann"), {"caller_context": "job"}
    ann.send(call("seen", id=1, meta=job) + call("echo", [0], 2, meta=job) + call("echo", [0], 3))
    world.read()
    assert world.reader.cancel(order) == Cancelled(len(ids), 0)
    assert [id_ for id_, _ in reasons(ann.answers())] == ids


class Reader:
    """A reader's process, that takes messages or does not."""

    def __init__(self, takes: bool = True) -> None:
        self.takes, self.sent = takes, list[CancelOrder]()

    def send(self, message: bytes) -> bool:
        if self.takes:
            self.sent.append(pickle.loads(message))
        return self.takes


def asked(*readers: Reader) -> tuple[Any, list[Any], list[dict[str, Any]]]:
    """The orders of an administrator, the places of `readers`, and the answers."""
    places = [SimpleNamespace(process=one, label=f"reader {at}") for at, one in enumerate(readers)]
    roster: Any = SimpleNamespace(living=lambda role: [(p, p.process) for p in places])
    cancels, answers = Cancels(roster), list[dict[str, Any]]()
    cancels.begin({"user": "ann", "context": None, "method": None}, answers.append)
    return cancels, places, answers


def test_the_answers_of_all_readers_are_added_up() -> None:
    first, second = Reader(), Reader()
    cancels, _, answers = asked(first, second)
    said = answer_of(first.sent[0], Cancelled(3, 1))
    cancels.answered(first, said)
    cancels.answered(first, said)
    assert answers == []
    cancels.answered(second, answer_of(second.sent[0], Cancelled(4, 0)))
    assert answers == [{"waiting": 7, "running": 1, "unanswered": []}]


def test_who_does_not_answer_is_named() -> None:
    dead, silent, deaf = Reader(), Reader(), Reader(takes=False)
    cancels, places, answers = asked(dead, silent, deaf)
    places[0].process = None
    cancels.tick(0)
    assert answers == []
    cancels.tick(1 << 62)
    (answer,) = answers
    assert sorted(answer["unanswered"]) == ["reader 0", "reader 1", "reader 2"]
    cancels.answered(silent, answer_of(silent.sent[0], Cancelled(1, 0)))  # too late: for nobody
    assert PATIENCE_NS < 1 << 62


@pytest.mark.parametrize(
    ("params", "what"),
    [
        ({}, "user is missing"),
        ({"user": ""}, "user is missing"),
        ({"user": 5}, "user = 5: must be a text"),
        ({"user": "ann", "usr": "x"}, "unknown member 'usr'; known are user, context, method"),
        (["ann"], "given by name"),
        ({"user": "a" * 1001}, "user has 1001 characters: at most 1000"),
    ],
)
def test_what_is_asked_in_a_wrong_way_is_refused(params: object, what: str) -> None:
    with pytest.raises(RpcError, match=what):
        CancelMethod(lambda verb, params: pytest.fail("asked"))(params)

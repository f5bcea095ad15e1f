"""Who calls what, as a reader counts and publishes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from faircall.scheduling.cost import CostRules
from faircall.server.reader.backoff import BackOffRules
from faircall.server.reader.caller_counts import MOST_CHARS, UNKNOWN_METHOD
from faircall.shm.policy import QueuePolicy
from faircall.shm.top_callers import QUEUE_FULL, Published

from .reader_client import call, post
from .reader_world import World

Make = Callable[..., World]

SECOND_MS = 1000  # a publication is due then


def published(world: World) -> Published:
    world.pass_ms(SECOND_MS)
    world.run()
    found = world.shared.top_callers.read(0)
    assert found is not None
    return found


def rows(found: Published, method: Callable[[int], str]) -> dict[tuple[str, ...], list[float]]:
    """(calls, cost) by user, context, method and address."""
    return {
        (
            found.text(at, "user"),
            found.text(at, "context"),
            method(int(found.rows["method"][at])),
            found.text(at, "address"),
        ): [round(figure, 6) for figure in (found.figures[at, :2] / found.seconds).tolist()]
        for at in range(len(found.rows))
    }


def test_calls_are_counted_by_user_context_method_and_address(world: World) -> None:
    line, web = world.connect(), world.connect(tcp=True)
    line.send(call("faircall.hello", {"user": "alice"}, 0))
    world.run()
    for number in range(3):
        line.send(call("echo", [number], number, meta={"caller_context": "job-7"}))
    line.send(call("echo", [1], 9))
    web.send(post(call("echo", [1], 1), X_Faircall_Context="web"))
    world.run()
    found = rows(published(world), world.shared.names.methods.name)
    address = world.reader.callers  # the name of who calls over TCP is its address
    assert address is not None
    assert found.pop(("127.0.0.1", "web", "echo", "127.0.0.1")) == [1, 1]
    users = {key[0] for key in found}
    assert len(users) == 1
    assert sorted((key[1:], figures) for key, figures in found.items()) == [
        (("", "echo", ""), [1, 1]),
        (("job-7", "echo", ""), [3, 3]),
    ]


def test_an_unknown_method_is_counted_without_a_name(world: World) -> None:
    world.connect().send(call("no_such", id=1))
    world.run()
    found = published(world)
    assert found.rows["method"].tolist() == [UNKNOWN_METHOD]


def test_of_a_long_context_the_beginning_counts(world: World) -> None:
    client = world.connect()
    for end in "ab":
        client.send(call("echo", [1], 1, meta={"caller_context": "x" * MOST_CHARS + end}))
    world.run()
    found = published(world)
    assert [found.text(0, "context"), len(found.rows)] == ["x" * MOST_CHARS, 1]


def refuse_some(make_world: Make, **rules: Any) -> tuple[World, Published]:
    """A queue with room for two of five calls."""
    policy = QueuePolicy(weights=(1,), capacities=(2,))
    world = make_world(policy=policy, backoff_rules=BackOffRules(**rules))
    client = world.connect()
    for number in range(5):
        client.send(call("echo", [1], number))
    world.run()
    return world, published(world)


def test_refused_calls_are_counted_by_reason_and_per_caller(make_world: Make) -> None:
    world, found = refuse_some(make_world)
    calls, cost, refused = found.figures[0, [0, 1, 3 + QUEUE_FULL]] / found.seconds
    assert [round(calls), round(cost), round(refused)] == [5, 5, 3]
    row = int(found.rows["identity"][0]) & 0xFFFF_FFFF
    assert world.shared.columns.refused_totals()[row] == 3


def test_what_is_not_charged_for_a_refused_call_is_no_cost(make_world: Make) -> None:
    _, found = refuse_some(make_world, charge_refused=False)
    assert round(found.figures[0, 1] / found.seconds) == 2


def test_where_costs_go_by_time_they_come_with_the_answer(make_world: Make) -> None:
    world = make_world(costs=CostRules(provider="WeightedTimeCostProvider"))
    world.connect().send(call("echo", [1], 1))
    world.read()
    found = published(world)
    assert found.figures[0, 0] > 0
    slots = world.shared.columns.cost_totals()
    assert round(found.figures[0, 1] / found.seconds) == int(slots.view("i8").sum())


def test_nobody_is_published_while_nobody_calls(world: World) -> None:
    world.pass_ms(SECOND_MS)
    world.run()
    assert world.shared.top_callers.read(0) is None


def test_who_stopped_is_taken_off_the_list(world: World) -> None:
    world.connect().send(call("echo", [1], 1))
    world.run()
    assert len(published(world).rows) == 1
    for _ in range(40):
        world.pass_ms(SECOND_MS)
        world.run()
    assert len(published(world).rows) == 0


def test_calls_are_charged_to_whoever_is_charged_now(world: World) -> None:
    """A newcomer gets a row of its own."""
    client = world.connect()
    client.send(call("echo", [1], 1))
    world.run()
    before = int(published(world).rows["identity"][0])
    (connection,) = world.reader.clients.by_fd.values()
    caller = connection.caller
    world.shared.names.evict([caller.row])
    client.send(call("echo", [1], 2))
    world.run()
    found = published(world)
    assert found.rows["identity"].tolist() == [caller.reference]
    assert caller.reference != before

"""What a reader charges: on arrival, for refused calls, and for writing answers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from faircall.scheduling.cost import CostRules
from faircall.server.reader.arrivals import Arrivals
from faircall.server.reader.backoff import BackOffRules
from faircall.shm.policy import QueuePolicy

from .reader_client import batch, call, reasons
from .reader_world import MS, World

Make = Callable[..., World]
FEW = QueuePolicy(capacities=(1, 1, 1, 1), max_principal=16)
BY_TIME = CostRules("WeightedTimeCostProvider", (0, 0, 0, 1, 0, 0, 0, 0, 0))
AWAY = BackOffRules(charge_refused=False)


def numbered(count: int) -> bytes:
    return b"".join(call("echo", [id_], id_) for id_ in range(1, count + 1))


def mean_cost(world: World, method: str, cost: int) -> None:
    row = world.shared.names.methods.find(method)
    world.shared.names.methods.rows[row]["mean_cost"] = cost


def name(world: World) -> str:
    return world.connection().caller.name


def test_a_methods_mean_cost_is_reserved_and_settled_when_it_has_run(make_world: Make) -> None:
    world = make_world(costs=BY_TIME)
    mean_cost(world, "spend", 1000)
    client = world.connect()
    client.send(call("spend", [3], 1))
    world.read()
    slot = world.only_slot()
    assert world.charged(name(world)) == (1000, 1)
    assert world.word(slot, "charged") == 1000
    assert world.word(slot, "queued_ns") == world.now_ns
    world.run()
    assert reasons(client.answers()) == [(1, "ok")]
    assert world.charged(name(world)) == (3 * MS, 1)


def test_each_call_of_a_batch_is_reserved_for_itself(make_world: Make) -> None:
    world = make_world(costs=BY_TIME)
    mean_cost(world, "spend", 1000)
    mean_cost(world, "echo", 10)
    client = world.connect()
    client.send(batch(call("spend", [1], 1), call("echo", id=2), call("missing", id=3)))
    world.read()
    assert world.charged(name(world)) == (1010, 3)
    world.run()
    assert world.charged(name(world)) == (MS, 3)


def test_the_ledger_is_what_calls_took_whatever_became_of_them(make_world: Make) -> None:
    world = make_world(costs=BY_TIME)
    mean_cost(world, "spend", 77)
    client = world.connect()
    client.send(b"".join(call("spend", [ms], ms) for ms in (1, 2, 3)) + call("fail", id=4))
    world.run()
    client.send(call("end", id=5))
    world.run()  # its handler died: what was reserved, nothing, stays
    assert len(client.answers()) == 5
    assert world.charged(name(world)) == (6 * MS, 5)


def test_charged_on_completion_nothing_is_charged_before(make_world: Make) -> None:
    for costs, cost in ((CostRules(charge="completion"), 1), (BY_TIME, 2 * MS)):
        rules = CostRules(costs.provider, costs.weights, "completion")
        world = make_world(costs=rules)
        mean_cost(world, "spend", 1000)
        client = world.connect()
        client.send(call("spend", [2], 1))
        world.read()
        assert world.charged(name(world)) == (0, 1)
        world.run()
        assert world.charged(name(world)) == (cost, 1)


@pytest.mark.parametrize(
    ("costs", "rules", "cost"),
    [
        (CostRules(), BackOffRules(), 6),
        (CostRules(), AWAY, 4),
        (BY_TIME, BackOffRules(), 600),
        (BY_TIME, AWAY, 400),
        (CostRules(charge="completion"), BackOffRules(), 0),
    ],
)
def test_refused_calls_are_charged_or_not(
    make_world: Make, costs: CostRules, rules: BackOffRules, cost: int
) -> None:
    world = make_world(policy=FEW, costs=costs, backoff_rules=rules)
    mean_cost(world, "echo", 100)
    client = world.connect()
    client.send(numbered(6))
    world.read()
    assert reasons(client.answers()) == [(5, "queue_full"), (6, "queue_full")]
    assert world.charged(name(world)) == (cost, 6)


@pytest.mark.parametrize(("rules", "cost"), [(BackOffRules(), 40), (AWAY, 32)])
def test_calls_that_find_no_slot_are_refused_calls(
    make_world: Make, rules: BackOffRules, cost: int
) -> None:
    world = make_world(backoff_rules=rules, policy=QueuePolicy(max_principal=100))
    client = world.connect()
    client.send(numbered(40))
    for _ in range(3):
        world.read()
    assert len(client.answers()) == 8  # 32 slots
    assert world.charged(name(world)) == (cost, 40)


def test_writing_the_answer_is_charged_by_the_reader(
    make_world: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world(costs=CostRules("WeightedTimeCostProvider", (0,) * 8 + (3,)))
    deliver = world.reader._answers._replies.deliver

    def slowly(*args: object) -> None:
        world.now_ns += 50
        deliver(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(world.reader._answers._replies, "deliver", slowly)
    client = world.connect()
    client.send(call("echo", id=1) + call("fail", id=2))
    world.run()
    assert len(client.answers()) == 2
    assert world.charged(name(world)) == (2 * 3 * 50, 2)


def test_a_users_own_provider_is_not_loaded_by_a_reader(make_world: Make) -> None:
    world = make_world()
    arrivals = Arrivals(world.shared, 0, CostRules("no_such_module:Class"), charge_refused=True)
    assert (arrivals.stamps, arrivals.unit, arrivals.charges_responses) == (True, 0, False)

"""Which calls a reader sends to a lane, and what is left of the lane elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from faircall.server.reader.backoff import BackOffRules
from faircall.server.reader.lanes import ReservedCalls
from faircall.shm import states
from faircall.shm.draws import RESERVED, SERVICE
from faircall.shm.layout import LEVEL, MAX_LEVELS
from faircall.shm.policy import QueuePolicy

from .reader_client import call, reasons
from .reader_world import POLICY, SMALL, World

Make = Callable[..., World]
BEATS = ReservedCalls(methods=frozenset({"brief"}))
ON = replace(POLICY, lane_shares=(500, 100))


def places(world: World) -> list[int]:
    """Where each waiting call waits, in the order of its slot."""
    slots = sorted(world.reader.book.calls, reverse=True)
    return [world.word(slot) >> states.LEVEL_SHIFT & states.LEVEL_MASK for slot in slots]


def scheduled(world: World) -> set[int]:
    """The level that each waiting call counts for."""
    calls = (world.word(slot, "call") for slot in world.reader.book.calls)
    return {word >> states.SCHEDULED_SHIFT & states.LEVEL_MASK for word in calls}


def test_calls_of_reserved_methods_wait_in_their_lane(make_world: Make) -> None:
    world = make_world(reserved=BEATS, policy=ON)
    client = world.connect()
    world.publish_level(world.connection().caller.name, 3)
    client.send(call("echo", id=1) + call("brief", id=2) + call("brief", id=3))
    world.read()
    assert sorted(places(world)) == [3, SMALL.levels + RESERVED, SMALL.levels + RESERVED]
    assert scheduled(world) == {3, 0}
    world.handle()
    world.read()
    assert reasons(client.answers()) == [(2, "ok")]
    world.run()
    world.verify()


def test_calls_of_reserved_users_wait_in_their_lane(make_world: Make) -> None:
    world = make_world(policy=ON)
    client = world.connect()
    name = world.connection().caller.name
    world.reader.configure(
        replace(world.settings.live, reserved=ReservedCalls(users=frozenset({name})))
    )
    client.send(call("echo", id=1) + call("fail", id=2))
    world.read()
    assert places(world) == [SMALL.levels + RESERVED] * 2


def test_what_is_reserved_may_change_while_it_serves(make_world: Make) -> None:
    world = make_world(policy=ON)
    client = world.connect()
    for reserved, place in ((BEATS, SMALL.levels + RESERVED), (ReservedCalls(), 0)):
        client.send(call("brief", id=1))
        world.run()
        world.reader.configure(replace(world.settings.live, reserved=reserved))
        client.send(call("brief", id=2))
        world.read()
        assert places(world) == [place]
        world.run()


def test_a_lane_that_is_off_is_level_0(make_world: Make) -> None:
    world = make_world(reserved=BEATS)
    world.connect().send(call("brief", id=1))
    world.read()
    assert places(world) == [0]


def test_a_service_user_is_in_its_lane_and_level_0_to_everybody_else(make_world: Make) -> None:
    world = make_world(policy=ON)
    client = world.connect()
    world.publish_level(world.connection().caller.name, SMALL.levels + SERVICE)
    client.send(call("seen", id=1))
    world.read()
    assert places(world) == [SMALL.levels + SERVICE]
    assert scheduled(world) == {0}
    world.run()
    assert [seen.level for seen in world.seen] == [0]


def test_the_refusal_of_a_lane_speaks_of_level_0(make_world: Make) -> None:
    policy = QueuePolicy(capacities=(1,), weights=(1,), max_principal=16, lane_shares=(0, 100))
    world = make_world(policy=policy, reserved=BEATS)
    client = world.connect()
    client.send(b"".join(call("brief", id=id_) for id_ in (1, 2)))
    world.read()
    (refused,) = client.answers()
    assert refused["id"] == 2
    assert (refused["error"]["data"]["reason"], refused["error"]["data"]["level"]) == (
        "too_many_in_flight",
        0,
    )


@pytest.mark.parametrize("place", ["reserved", "service"])
def test_slow_levels_and_long_queues_do_not_back_lanes_off(make_world: Make, place: str) -> None:
    rules = BackOffRules(by_response_time=True, max_wait_ms=1)
    world = make_world(policy=ON, reserved=BEATS, backoff_rules=rules)
    client = world.connect()
    layout = world.shared.segment.layout
    world.shared.segment.records(LEVEL, layout.level_words, MAX_LEVELS)["backs_off"] = 1
    if place == "service":
        world.publish_level(world.connection().caller.name, SMALL.levels + SERVICE)
    client.send(call("brief", id=1) + call("echo", id=2))
    world.run()
    found = dict(reasons(client.answers()))
    assert found[1] == "ok"
    assert found[2] == ("ok" if place == "service" else "response_time")

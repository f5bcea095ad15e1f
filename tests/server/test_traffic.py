"""Random clients against a reader and two handlers, stepped in random order."""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Callable

import pytest

from faircall.scheduling.cost import CostRules
from faircall.server.reader.backoff import BackOffRules
from faircall.server.reader.caller_rules import CallerRules
from faircall.server.reader.client_limits import ClientLimits
from faircall.server.reader.providers import ContextBelowUser
from faircall.server.reader.staging import AdmissionLimits
from faircall.server.reader.waiting import WaitLimits
from faircall.server.wire.limits import WireLimits
from faircall.shm.policy import QueuePolicy

from .reader_world import SMALL, World
from .traffic import FRAMINGS, Actor

STEPS = 250
Make = Callable[..., World]


def limits(dice: random.Random) -> dict[str, object]:
    """Small ones, so that all of them are met."""
    capacity = dice.choice((1, 2, 8))
    return {
        "policy": QueuePolicy(capacities=(capacity,) * 4, max_principal=dice.choice((2, 16))),
        "geometry": dataclasses.replace(SMALL, small_pages=dice.choice((8, 64)), large_pages=3),
        "backoff": dice.random() < 0.6,
        "wire": WireLimits(max_message_bytes=50_000),
        "admission": AdmissionLimits(frame_only_above_bytes=1000, max_message_bytes=50_000),
        "limits": ClientLimits(
            calls_per_pass=dice.choice((1, 3, 16)),
            bytes_per_pass=dice.choice((500, 65536)),
            max_in_flight=dice.choice((2, 8, 1024)),
            http_pipelining=dice.choice((1, 4, 64)),
            unsent_high_water_bytes=dice.choice((2000, 1 << 20)),
        ),
        "waiting": WaitLimits(nap_ns=dice.choice((0, 1_000_000))),  # some connections are patient
        "rules": CallerRules(
            newcomer_calls=dice.choice((0, 3)),
            provider=dice.choice((None, ContextBelowUser())),
        ),
        "backoff_rules": BackOffRules(
            max_wait_ms=dice.choice((None, None, 20)),
            disconnects=dice.random() < 0.2,
            charge_refused=dice.random() < 0.5,
        ),
        "costs": CostRules(dice.choice(("DefaultCostProvider", "WeightedTimeCostProvider"))),
    }


def step(world: World, actors: list[Actor], dice: random.Random, ids: itertools.count[int]) -> None:
    """Anybody does anything."""
    deed = dice.randrange(17)
    if deed < 4:
        world.read()
    elif deed == 5:
        world.handle(dice.randrange(2))
    elif deed == 6:
        world.pass_ms(dice.choice((0.1, 5, 50)))
    elif deed == 7 and len(actors) < 8:
        actors.append(Actor(world.knock(tcp=dice.random() < 0.1), dice.choice(FRAMINGS), dice, ids))
    elif actors:
        act(dice.choice(actors), deed, dice)


def act(actor: Actor, deed: int, dice: random.Random) -> None:
    if actor.left:
        return
    if deed < 11:
        actor.ask()
    elif deed < 14:
        actor.send()
    elif deed == 14:
        actor.look()
    elif deed == 15:
        actor.spoil()
    elif dice.random() < 0.4:
        dice.choice((actor.close, actor.half_close))()


@pytest.mark.parametrize("seed", range(60))
def test_every_call_is_answered_once_or_its_connection_is_closed(
    make_world: Make, seed: int
) -> None:
    dice, ids = random.Random(seed), itertools.count(1)
    world = make_world(**limits(dice))
    actors: list[Actor] = []
    for _ in range(STEPS):
        step(world, actors, dice, ids)
        if dice.random() < 0.05:
            for actor in actors:
                actor.check()
            assert world.shared.audit() == []
    for actor in actors:
        actor.send_all(world)
    world.run()
    for actor in actors:
        actor.check(at_the_end=True)
    world.verify()
    world.finish()

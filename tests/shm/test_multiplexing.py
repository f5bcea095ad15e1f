"""Which level is served: weighted round robin, exactly, in the order of claims."""

from __future__ import annotations

import mmap
from collections import Counter
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from faircall.shm import states
from faircall.shm.claims import Claims
from faircall.shm.policy import QueuePolicy

from ..fault.kill import start, wait_for
from ..fault.world import POLICY, SMALL, World
from .conftest import MakeWorld

WEIGHTS = (8, 4, 2, 1)
EXACT = Counter(dict(enumerate(WEIGHTS)))
CYCLES = 200


def levels_drawn(world: World, count: int) -> list[int]:
    """The levels of the next `count` calls; every level is filled up again before each draw."""
    reader, handler, drawn = world.reader(0), world.handler(1), []
    model = world.calls.get(1) or world.call()
    for _ in range(count):
        there = {call.level for call in reader.calls.values()}
        reader.offer([replace(model, level=level) for level in {0, 1, 2, 3} - there])
        handler.claim()
        drawn.append(reader.calls[handler.claimed[0][0]].level)
        handler.run()
        handler.publish()
        reader.gather()
    return drawn


def test_full_levels_are_drawn_by_their_weights_in_any_15_draws(world: World) -> None:
    drawn = levels_drawn(world, 60)
    for at in range(len(drawn) - 14):
        assert Counter(drawn[at : at + 15]) == EXACT


def test_the_order_is_hadoops(world: World) -> None:
    assert levels_drawn(world, 15) == [0] * 8 + [1] * 4 + [2] * 2 + [3]


@pytest.mark.parametrize(("from_cursor", "expected"), [(False, [0, 0, 3, 3]), (True, [3, 3, 0, 0])])
def test_an_empty_draw_takes_the_first_level_that_has_one(
    make_world: MakeWorld, from_cursor: bool, expected: list[int]
) -> None:
    """From the top (Hadoop 3), or from the cursor's level on."""
    policy = QueuePolicy(
        weights=WEIGHTS, capacities=(8,) * 4, scan_from_cursor=from_cursor, max_principal=16
    )
    world = make_world(policy)
    draws = world.table.draws
    world.q[draws.cursor_word] = 1
    world.q[draws.credit_word] = 4
    calls = [world.call(level=level) for level in (0, 0, 3, 3)]
    world.reader(0).offer(calls)
    drawn = [world.calls[tag].level for _ in range(4) for tag in world.handler(1).work()]
    assert drawn == expected


def test_an_empty_table_is_not_drawn_from(world: World) -> None:
    draws = world.table.draws
    before = world.q[draws.cursor_word], world.q[draws.credit_word]
    for _ in range(10):
        assert world.handler(0).claim() == []
    assert (
        world.q[draws.cursor_word],
        world.q[draws.credit_word],
    ) == before
    assert world.q[draws.drawn_word] == 0


def test_a_single_level_is_a_plain_queue(make_world: MakeWorld) -> None:
    world = make_world(QueuePolicy(weights=(1,), capacities=(16,), in_turn=False))
    tags = [call.tag for call in (world.call(who=who) for who in (1, 1, 2, 1))]
    world.reader(0).offer(list(world.calls.values()))
    while world.handler(1).work():
        pass
    assert world.ledger.run_order(0) == tags


class LoggingClaims(Claims):
    """Notes in `log` the level of each claim, by the number of the draw, and who claimed."""

    log: np.ndarray[tuple[int, int], np.dtype[np.uint64]]

    def take(self, slot: int, own: int, handler: int, now_ns: int) -> int:
        level = self._q[own] >> states.LEVEL_SHIFT & states.LEVEL_MASK
        self.log[self._q[self._draws.drawn_word]] = level + 1, handler
        return super().take(slot, own, handler, now_ns)


def test_four_handlers_together_draw_by_the_weights_in_any_15_draws(
    make_world: MakeWorld,
) -> None:
    calls = 15 * CYCLES
    world = make_world(
        QueuePolicy(weights=WEIGHTS, capacities=(calls,) * 4, max_principal=calls),
        replace(SMALL, handlers=4, slots=4096, turns=1024),
    )
    table = world.shared.table
    claims = LoggingClaims(table)
    claims.log = np.frombuffer(mmap.mmap(-1, (calls + 1) * 16), dtype=np.uint64).reshape(-1, 2)
    levels = [level for level, weight in enumerate(WEIGHTS) for _ in range(weight * CYCLES)]
    table.enqueue(list(enumerate(levels)), [0] * calls)

    def handle(number: int) -> None:
        out, tokens = [0], [0]
        for _ in range(calls // 2):  # nobody does it all alone, however late the others come
            if not claims.claim(number, 0, out, tokens):
                break
            table.publish(0, [(out[0], tokens[0])])

    with table.queue_lock:  # they all begin at once
        pids = [start(partial(handle, number)) for number in range(4)]
    assert [wait_for(pid) for pid in pids] == [0] * 4
    drawn = (claims.log[1:, 0] - 1).tolist()
    for at in range(calls - 14):
        assert Counter(drawn[at : at + 15]) == EXACT
    assert len(set(claims.log[1:, 1].tolist())) > 1, "only one of them ever claimed"
    assert world.audit() == []


def test_a_level_takes_over_what_others_do_not_use(world: World) -> None:
    world.reader(0).offer([world.call(level=3) for _ in range(6)])
    drawn = [world.calls[tag].level for _ in range(6) for tag in world.handler(1).work()]
    assert drawn == [3] * 6


def test_changed_weights_hold_from_the_next_cycle_on(make_world: MakeWorld) -> None:
    world = make_world(POLICY)
    levels_drawn(world, 15)
    world.table.set_policy(replace(POLICY, weights=(1, 1, 1, 3)))
    assert Counter(levels_drawn(world, 12)) == Counter({0: 2, 1: 2, 2: 2, 3: 6})

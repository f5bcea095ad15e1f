"""Rates that are put in force, by a janitor that may die behind each of its stores."""

from __future__ import annotations

import pytest

from faircall.scheduling.errors import BadValue
from faircall.server.limits import Key, Switches
from faircall.server.rates_in_force import check, put_in_force
from faircall.shm.layout import RATES_BYTES, Geometry
from faircall.shm.limiter_counters import L_LIMIT, L_USED, L_VERSION
from faircall.shm.rates import RatesTooLong
from faircall.shm.terms import CALLS, Kind, key_of

from ..fault.kill import Fate
from ..fault.scenario import Act, Scenario, endure_stores
from ..fault.world import World

GEOMETRY = Geometry(readers=2, limiters=100, methods=16)


def put_rates_in_force(world: World) -> Act:
    """Other rates, of which a row has used some; what was begun is done again."""
    limiters, before = world.table.limiters, Switches()
    limits = put_in_force(world.shared, before, ["server: calls=5"], 0)
    key = Key(key_of(Kind.SERVER))
    with world.table.queue_lock:
        row = limiters.make(*key, limits.terms_of(key), limits.version, 0, 0)
        limiters.charge(limiters.at(row), CALLS, 3)
    at = limiters.at(row)

    def operation() -> None:
        put_in_force(world.shared, Switches(paced=True), ["server: calls=9 period-s=2"], 0)

    def repaired() -> None:
        operation()
        version, text = world.shared.rates.read()
        assert (version, text.endswith("server: calls=9 period-s=2")) == (limits.version + 1, True)
        assert world.q[at + L_VERSION] == version
        assert (world.q[at + L_LIMIT], world.q[at + L_USED] & 0xFFFF_FFFF) == (10, 3)

    return Act(operation=operation, repaired=repaired)


@pytest.mark.fault
def test_sigkill_behind_every_store() -> None:
    ends = endure_stores(Scenario(put_rates_in_force), {Fate.KILL: slice(0, None)})
    assert ends[Fate.KILL] > 10


def test_there_must_be_room_for_all_who_are_named() -> None:
    lines = [f"caller c{number}: calls=1" for number in range(3)]
    check(GEOMETRY, 49, Switches(), lines)
    with pytest.raises(BadValue, match="name 3 callers and resources, and there is room for 2"):
        check(GEOMETRY, 50, Switches(), lines)
    with pytest.raises(BadValue, match="room for 0"):
        check(GEOMETRY, 49, Switches(per_process=True), lines)


def test_all_rates_together_have_a_longest_text() -> None:
    name = "m" * 1000
    lines = [f"method {name}{number}: calls=1" for number in range(RATES_BYTES // 1000)]
    with pytest.raises(RatesTooLong, match=f"at most {RATES_BYTES}"):
        check(GEOMETRY, 16, Switches(), lines)

"""A handler is killed behind each of its stores while it runs a call whose cost goes by time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from faircall.scheduling.cost import CostRules
from faircall.shm.states import Status
from faircall.workers.handler import HandlerLimits

from ..workers.handler_desk import MS, Desk, Methods
from .kill import Fate, meet, stores
from .world import watched_words

RESERVED, COST = 100, 2 * MS
RUNNING_TIME = CostRules("WeightedTimeCostProvider", (0, 0, 0, 1, 0, 0, 0, 0, 0))


@pytest.fixture
def desk() -> Iterator[Desk]:
    methods = Methods()

    @methods.service.method(idempotent=True)
    def spend_again() -> None:
        methods.desk.now_ns += COST

    @methods.service.method(batch=4, idempotent=True)
    def spend_together(x: list[int]) -> list[int]:
        methods.desk.now_ns += COST * len(x)
        return x

    made = methods.desk = Desk(methods.service, HandlerLimits(costs=RUNNING_TIME))
    yield made
    made.close()


def cost(desk: Desk) -> int:
    return int(desk.shared.columns.cost_totals()[desk.user])


@pytest.mark.fault
def test_a_call_is_charged_exactly_once_wherever_its_handler_is_killed(desk: Desk) -> None:
    slot = desk.put("spend_again")
    desk.set(slot, "charged", RESERVED)
    desk.set(slot, "queued_ns", desk.now_ns)
    desk.shared.columns.charge(0, desk.user, RESERVED)
    segment = desk.shared.segment
    before = bytes(segment.bytes)
    desk.table.claims.serve(0)
    points = stores(desk.work, watched_words(segment))
    seen = []
    for point in points:
        segment.bytes[:] = before
        desk.table.claims.serve(0)  # the others' work in this process changed that
        assert meet(Fate.KILL, point, desk.work)
        outcome = desk.reap()  # finishes the settlement that was decided, if one was
        seen.append(cost(desk))
        if outcome["requeued"]:
            assert desk.work() == 1
        elif not outcome["answered"]:
            desk.work(1)  # it was not claimed, or published already
        assert cost(desk) == COST, point
    assert sorted(set(seen)) == [RESERVED, COST]
    assert seen == sorted(seen)  # once it is charged, it stays charged


@pytest.mark.fault
def test_calls_run_together_are_each_charged_exactly_once(desk: Desk) -> None:
    """What was not answered when its handler died runs again, alone: it costs the same."""
    slots = [desk.put("spend_together", b"[%d]" % number) for number in range(3)]
    for slot in slots:
        desk.set(slot, "charged", RESERVED)
        desk.set(slot, "queued_ns", desk.now_ns)
        desk.shared.columns.charge(0, desk.user, RESERVED)
    segment = desk.shared.segment
    before = bytes(segment.bytes)
    desk.table.claims.serve(0)
    points = stores(desk.work, watched_words(segment))
    for point in points:
        segment.bytes[:] = before
        desk.table.claims.serve(0)  # the others' work in this process changed that
        assert meet(Fate.KILL, point, desk.work)
        desk.reap()
        while desk.work():
            pass
        assert desk.collect() == {
            slot: (Status.RESULT, b"%d" % number) for number, slot in enumerate(slots)
        }, point
        assert cost(desk) == 3 * COST, point
        assert desk.shared.audit() == []

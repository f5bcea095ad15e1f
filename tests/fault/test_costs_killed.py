"""A handler is killed behind each of its stores while it runs a call whose cost goes by time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from faircall.scheduling.cost import CostRules
from faircall.shm.layout import WORD
from faircall.workers.handler import HandlerLimits

from ..workers.handler_desk import MS, Desk, Methods
from .kill import Fate, meet, stores

RESERVED, COST = 100, 2 * MS
RUNNING_TIME = CostRules("WeightedTimeCostProvider", (0, 0, 0, 1, 0, 0, 0, 0, 0))


@pytest.fixture
def desk() -> Iterator[Desk]:
    methods = Methods()

    @methods.service.method(idempotent=True)
    def spend_again() -> None:
        methods.desk.now_ns += COST

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
    points = stores(desk.work, [segment.words(0, segment.layout.small_pages // WORD)])
    seen = []
    for point in points:
        segment.bytes[:] = before
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

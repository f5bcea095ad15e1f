"""What is charged for the call that a dead handler ran."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from faircall.scheduling.cost import CostRules
from faircall.server.janitor.dead_calls import DeadCalls
from faircall.shm.columns import Counter
from faircall.shm.histograms import Times
from faircall.shm.layout import SLOT, word_of

from ..workers.handler_desk import MS, Desk, Methods

RUNNING_TIME = CostRules("WeightedTimeCostProvider", (0, 1, 0, 1, 0, 0, 0, 0, 0))
assert word_of(SLOT, "charged")


@pytest.fixture
def desk() -> Iterator[Desk]:
    methods = Methods()

    @methods.service.method(batch=4)
    def end_together(x: list[int]) -> list[int]:
        raise SystemExit(3)

    made = methods.desk = Desk(methods.service)
    yield made
    made.close()


def die(desk: Desk, method: str, reserved: int) -> int:
    """A call waits 2 ns, and its handler dies in it."""
    slot = desk.put(method)
    desk.set(slot, "charged", reserved)
    desk.set(slot, "queued_ns", desk.now_ns)
    desk.shared.columns.charge(0, desk.user, reserved)
    desk.now_ns += 2
    with pytest.raises(SystemExit):
        desk.work()
    return slot


def cost(desk: Desk) -> int:
    return int(desk.shared.columns.cost_totals()[desk.user])


def histograms(desk: Desk) -> tuple[Times, Times]:
    """Of waits and of runs."""
    return desk.shared.histograms.wait(), desk.shared.histograms.service()


def deaths(desk: Desk) -> dict[str, int]:
    """By method, those that have any."""
    names = desk.shared.names.methods
    found = desk.shared.columns.deaths().sum(axis=0).tolist()
    return {names.name(row): count for row, count in enumerate(found) if count}


def test_a_call_that_ended_its_handler_is_counted_once_for_its_method(desk: Desk) -> None:
    die(desk, "end_once", reserved=0)
    dead = DeadCalls(desk.shared, CostRules())
    dead.count(0)
    dead.count(0)  # the order was repeated
    DeadCalls(desk.shared, CostRules()).count(0)  # by the next janitor
    assert deaths(desk) == {"end_once": 1}
    desk.reap()
    dead.count(0)
    assert deaths(desk) == {"end_once": 1}


def test_each_run_of_a_repeated_call_and_each_call_is_counted(desk: Desk) -> None:
    dead = DeadCalls(desk.shared, CostRules())
    die(desk, "end", reserved=0)
    dead.count(0)
    desk.reap()
    with pytest.raises(SystemExit):
        desk.work(0)  # the same call, by a handler of the same number
    dead.count(0)
    assert deaths(desk) == {"end": 2}


def test_a_call_that_had_ended_before_is_counted_as_it_would_have_been(desk: Desk) -> None:
    for method in ("spend", "end_once"):
        desk.expect(method, 1)  # so that they are claimed at once
    desk.put("spend", b"[0.1]")
    desk.now_ns += 2 * MS
    die(desk, "end_once", reserved=0)
    columns, row = desk.shared.columns, desk.shared.names.methods.find("spend")
    assert (columns.total(Counter.RUN), columns.methods[0][row]["calls"]) == (0, 0)
    DeadCalls(desk.shared, CostRules()).count(0)
    assert len(desk.reap()["answered"]) == 1
    column, response = columns.methods[0][row], columns.levels[0][0]
    assert (column["calls"], column["failed"], column["spent_ns"]) == (1, 0, MS // 10)
    assert (response["count"], response["response_ns"]) == (1, 2 * MS + 2 + MS // 10)
    assert columns.total(Counter.RUN) == 1
    assert [times.total().count for times in histograms(desk)] == [1, 1]
    assert deaths(desk) == {"end_once": 1}


def test_one_that_was_too_late_is_not_counted_as_run(desk: Desk) -> None:
    for method in ("echo", "end_once"):
        desk.expect(method, 1)
    desk.put("echo", timeout_ms=0)
    die(desk, "end_once", reserved=0)
    DeadCalls(desk.shared, CostRules()).count(0)
    columns = desk.shared.columns
    assert (columns.total(Counter.LATE), columns.total(Counter.RUN)) == (1, 0)
    assert [times.total().count for times in histograms(desk)] == [1, 0]


def test_the_time_that_it_ran_is_charged_once_if_it_is_more_than_was_reserved(desk: Desk) -> None:
    die(desk, "end_once", reserved=100)
    dead = DeadCalls(desk.shared, RUNNING_TIME)
    assert dead.charge(0, desk.now_ns + 500)
    assert cost(desk) == 502
    assert not dead.charge(0, desk.now_ns + 500)  # the order was repeated
    assert cost(desk) == 502
    assert len(desk.reap()["died"]) == 1
    assert not dead.charge(0, desk.now_ns + MS)
    assert cost(desk) == 502


def test_else_the_reservation_stays(desk: Desk) -> None:
    die(desk, "end_once", reserved=10_000)
    assert not DeadCalls(desk.shared, RUNNING_TIME).charge(0, desk.now_ns + 500)
    assert cost(desk) == 10_000


def test_a_call_that_is_run_again_pays_the_difference(desk: Desk) -> None:
    die(desk, "end", reserved=0)
    dead = DeadCalls(desk.shared, RUNNING_TIME)
    assert dead.charge(0, desk.now_ns + 500)
    desk.reap()
    with pytest.raises(SystemExit):
        desk.work(1)
    assert dead.charge(1, desk.now_ns + 700)
    assert cost(desk) == 702  # not 502 + 702


@pytest.mark.parametrize("rules", [CostRules(), CostRules("module_of:AnotherUser")])
def test_counts_and_users_own_costs_are_left_alone(desk: Desk, rules: CostRules) -> None:
    die(desk, "end_once", reserved=1)
    assert not DeadCalls(desk.shared, rules).charge(0, desk.now_ns + MS)
    assert cost(desk) == 1


def test_charged_on_completion_a_call_that_killed_its_handler_costs_one(desk: Desk) -> None:
    die(desk, "end_once", reserved=0)
    assert DeadCalls(desk.shared, CostRules(charge="completion")).charge(0, desk.now_ns)
    assert cost(desk) == 1


def test_a_handler_that_ran_nothing_owes_nothing(desk: Desk) -> None:
    desk.put("echo")
    assert not DeadCalls(desk.shared, RUNNING_TIME).charge(0, desk.now_ns)
    desk.work()
    assert not DeadCalls(desk.shared, RUNNING_TIME).charge(0, desk.now_ns + MS)
    assert cost(desk) == 0


def test_of_calls_run_together_each_is_counted_and_charged_its_part(desk: Desk) -> None:
    for number in range(3):
        slot = desk.put("end_together", b"[%d]" % number)
        desk.set(slot, "charged", 10)
        desk.set(slot, "queued_ns", desk.now_ns)
        desk.shared.columns.charge(0, desk.user, 10)
    with pytest.raises(SystemExit):
        desk.work()
    dead = DeadCalls(desk.shared, RUNNING_TIME)
    for _ in range(2):  # the order was repeated
        dead.count(0)
        dead.charge(0, desk.now_ns + 30 * MS)
    assert deaths(desk) == {"end_together": 3}
    assert cost(desk) == 30 * MS
    assert len(desk.reap()["died"]) == 3

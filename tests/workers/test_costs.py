"""What calls cost by their time: phases, settlement, failures, deaths. Time is the desk's."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from typing import ClassVar

import pytest

from faircall.scheduling.cost import CostRules, Phase, PhaseTimes
from faircall.scheduling.units import TimeUnit
from faircall.shm import states
from faircall.shm.columns import Counter
from faircall.shm.states import Status
from faircall.workers.context import Call, current_call
from faircall.workers.costs import phase_times
from faircall.workers.errors import ServiceError
from faircall.workers.handler import HandlerLimits

from .handler_desk import MS, Desk, Methods

LOCKS_ONLY = (0, 0, 0, 0, 1, 0, 10, 100, 0)
Make = Callable[[CostRules], Desk]


class Whimsical:
    """A provider of the user's own: what it says is set from outside."""

    says: object = 0
    saw: ClassVar[list[PhaseTimes]] = []

    def cost(self, times: PhaseTimes) -> object:
        self.saw.append(times)
        if isinstance(self.says, Exception):
            raise self.says
        return self.says


OWN = f"{__name__}:Whimsical"


@pytest.fixture
def methods() -> Methods:
    made = Methods()

    @made.service.method
    def locked() -> None:
        call, desk, lock = current_call(), made.desk, threading.Lock()
        with call.lock_shared(lock):
            desk.now_ns += 3
        with call.lock_exclusive(lock):
            desk.now_ns += 2
        desk.now_ns += 7
        call.report("lockwait", 1)

    @made.service.method
    def fail_late() -> None:
        made.desk.now_ns += 5
        raise ValueError("no")

    return made


@pytest.fixture
def make(methods: Methods) -> Iterator[Make]:
    desks: list[Desk] = []

    def make_desk(rules: CostRules) -> Desk:
        desks.append(Desk(methods.service, HandlerLimits(costs=rules)))
        methods.desk = desks[-1]
        return desks[-1]

    yield make_desk
    for desk in desks:
        desk.close()


def put(desk: Desk, method: str, request: bytes = b"", *, reserved: int = 0, flags: int = 0) -> int:
    """As a reader: the call is charged what is reserved, and offered at once."""
    slot = desk.put(method, request, flags=flags)
    desk.set(slot, "charged", reserved)
    desk.set(slot, "queued_ns", desk.now_ns)
    desk.shared.columns.charge(0, desk.user, reserved)
    return slot


def cost(desk: Desk) -> int:
    return int(desk.shared.columns.cost_totals()[desk.user])


# -- phases --------------------------------------------------------------------------------------


def test_the_phases_of_a_call_add_up() -> None:
    call = Call(processing_ns=100, wait_ns=5, shared_ns=10, exclusive_ns=20)
    call.report("response", 3)
    times = phase_times(call, arrived_ns=1000, queued_ns=1002, began_ns=1050, ended_ns=1170)
    assert times.values == (2, 48, 20, 100, 65, 5, 10, 20, 3)
    assert times.unit is TimeUnit.NANOSECONDS


def test_no_phase_is_below_zero() -> None:
    call = Call(processing_ns=10, wait_ns=50)
    times = phase_times(call, arrived_ns=10, queued_ns=5, began_ns=4, ended_ns=8)
    assert min(times.values) == 0


def test_time_in_locks_is_charged_by_its_kind(make: Make) -> None:
    desk = make(CostRules("WeightedTimeCostProvider", LOCKS_ONLY))
    put(desk, "locked", reserved=50)
    desk.work()
    free = 3 + 2 + 7 - (1 + 3 + 2)  # the reported wait lies within the method's time
    assert cost(desk) == free + 10 * 3 + 100 * 2
    row = desk.shared.names.methods.find("locked")
    assert int(desk.shared.columns.methods["cost"][0, row]) == cost(desk)


def test_queue_and_processing_count_by_their_weights(make: Make) -> None:
    weights = (0, 1, 0, 1000, 0, 0, 0, 0, 0)
    desk = make(CostRules("WeightedTimeCostProvider", weights))
    put(desk, "spend", b"[2]")
    desk.now_ns += 30
    desk.work()
    assert cost(desk) == 30 + 1000 * 2 * MS


def test_a_message_is_charged_for_the_time_of_all_its_calls(make: Make) -> None:
    desk = make(CostRules("WeightedTimeCostProvider", LOCKS_ONLY))
    item = b'{"jsonrpc":"2.0","id":1,"method":"locked"}'
    desk.shared.names.method("(undecoded)", 0, 0)
    slot = desk.put("(undecoded)", b"[" + item + b"," + item + b"]", flags=states.UNDECODED)
    desk.set(slot, "charged", 0)
    desk.work()
    assert desk.collect()[slot][0] == Status.MESSAGE
    assert cost(desk) == 2 * (6 + 30 + 200)
    assert int(desk.shared.columns.call_totals()[desk.user]) == 1  # its reader counts the first


# -- settlement ----------------------------------------------------------------------------------


def test_a_reservation_is_replaced_by_the_cost_whether_more_or_less(make: Make) -> None:
    for reserved in (0, 1, 10 * MS):
        desk = make(CostRules("WeightedTimeCostProvider", LOCKS_ONLY))
        put(desk, "spend", b"[1]", reserved=reserved)
        desk.work()
        assert cost(desk) == MS


def test_a_failed_call_is_charged(make: Make) -> None:
    desk = make(CostRules("WeightedTimeCostProvider", LOCKS_ONLY))
    slot = put(desk, "fail_late", reserved=1000)
    desk.work()
    assert desk.collect()[slot][0] == Status.ERROR
    assert cost(desk) == 5


def test_charged_on_completion_a_call_costs_one_when_it_has_run(make: Make) -> None:
    desk = make(CostRules(charge="completion"))
    put(desk, "echo")
    assert cost(desk) == 0
    desk.work()
    assert cost(desk) == 1


def test_charged_on_completion_a_message_costs_one_for_each_of_its_calls(make: Make) -> None:
    desk = make(CostRules(charge="completion"))
    desk.shared.names.method("(undecoded)", 0, 0)
    item = b'{"jsonrpc":"2.0","id":1,"method":"locked"}'
    put(desk, "(undecoded)", b"[" + item + b"," + item + b"]", flags=states.UNDECODED)
    desk.work()
    assert cost(desk) == 2


def test_by_default_a_handler_charges_nothing(make: Make) -> None:
    desk = make(CostRules())
    slot = desk.put("echo")
    desk.set(slot, "charged", 77)
    desk.work()
    assert (cost(desk), desk.get(slot, "charged")) == (0, 77)


def test_a_call_whose_handler_dies_keeps_its_reservation_and_a_rerun_pays_the_difference(
    make: Make, methods: Methods
) -> None:
    desk = make(CostRules("WeightedTimeCostProvider", LOCKS_ONLY))
    died: list[int] = []

    @methods.service.method(idempotent=True)
    def die_once() -> None:
        desk.now_ns += 40
        if not died:
            died.append(1)
            raise SystemExit(3)

    desk.handlers = [desk.new_handler(number) for number in range(2)]
    put(desk, "die_once", reserved=100)
    with pytest.raises(SystemExit):
        desk.work()
    assert len(desk.reap()["requeued"]) == 1
    assert cost(desk) == 100
    desk.work()
    assert cost(desk) == 40


# -- providers -----------------------------------------------------------------------------------


def test_a_users_own_provider_sees_the_times_and_says_the_cost(make: Make) -> None:
    Whimsical.says, Whimsical.saw = 4711, []
    desk = make(CostRules(OWN))
    put(desk, "spend", b"[3]", reserved=5)
    desk.work()
    assert cost(desk) == 4711
    (times,) = Whimsical.saw
    assert times.get(Phase.PROCESSING, TimeUnit.MILLISECONDS) == 3


@pytest.mark.parametrize("says", [ValueError("no"), 1.5, None, 1 << 63])
def test_a_provider_that_fails_leaves_the_reservation_and_says_so_once(
    make: Make, says: object, caplog: pytest.LogCaptureFixture
) -> None:
    Whimsical.says = says
    desk = make(CostRules(OWN))
    for _ in range(2):
        put(desk, "echo", reserved=5)
        desk.work()
    assert cost(desk) == 10
    assert [r.getMessage() for r in caplog.records] == ["cost provider failed"]


def test_a_provider_may_take_back_more_than_was_reserved(make: Make) -> None:
    Whimsical.says = -20
    desk = make(CostRules(OWN))
    put(desk, "echo", reserved=5)
    desk.work()
    assert int(desk.shared.columns.cost_totals().view("int64")[desk.user]) == -20


@pytest.mark.parametrize(
    ("provider", "message"),
    [
        ("no_such_module:Class", "cost-provider.impl: no class"),
        ("collections:OrderedDict", "has no method cost"),
        (f"{__name__}:Fragile", "Fragile raised RuntimeError: no licence"),
    ],
)
def test_a_provider_that_cannot_be_made_stops_the_start(
    make: Make, provider: str, message: str
) -> None:
    with pytest.raises(ServiceError, match=message):
        make(CostRules(provider))


class Fragile:
    def __init__(self) -> None:
        raise RuntimeError("no licence")

    def cost(self, times: PhaseTimes) -> int:
        return 0


# -- slow calls ----------------------------------------------------------------------------------


def test_a_slow_call_is_one_line_and_is_counted(
    methods: Methods, caplog: pytest.LogCaptureFixture
) -> None:
    desk = Desk(methods.service, HandlerLimits(slow_rpc=True, slow_rpc_threshold_ms=2))
    methods.desk = desk
    row = desk.shared.names.methods.find("spend")
    for number in range(1025):
        desk.shared.columns.square(number % 2, row, 100)
        desk.shared.columns.ran(number % 2, row, 100, failed=False)
    with caplog.at_level(logging.WARNING):
        for ms in (b"[1]", b"[3]"):
            desk.put("spend", ms)
            desk.work()
    (record,) = caplog.records
    assert record.getMessage() == "slow call"
    assert record.args == {"method": "spend", "user": "anna", "took_ms": 3.0}
    assert desk.shared.columns.total(Counter.SLOW) == 1
    desk.close()

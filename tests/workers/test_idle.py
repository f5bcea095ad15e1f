"""When a handler watches for the next call, what ends that, and what a death in it leaves."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable, Iterator

import pytest

from faircall.shm.states import Status
from faircall.workers.handler import HandlerLimits
from faircall.workers.idle_watch import ENOUGH

from ..fault.kill import start, wait_for
from .handler_desk import MS, Desk, Methods

WATCH_NS = 10 * MS


class Bell:
    """Stands in for `poll`: who sleeps is woken at once, with `deed` done before."""

    def __init__(self, deed: Callable[[], object] = lambda: None) -> None:
        self.sleeps = 0
        self.deed = deed

    def poll(self, timeout_ms: float) -> list[tuple[int, int]]:
        assert timeout_ms
        self.sleeps += 1
        self.deed()
        return [(0, 0)]


@pytest.fixture
def desk(methods: Methods) -> Iterator[Desk]:
    made = methods.desk = Desk(methods.service, HandlerLimits(watch_ns=WATCH_NS))
    yield made
    made.close()


def sleeps_of(desk: Desk, number: int, deed: Callable[[], object] = lambda: None) -> int:
    """Handler `number` finds nothing and waits: how often it sleeps. `deed`: during the sleep."""
    assert desk.work(number) == 0
    idle, bell = desk.handlers[number].idle, Bell(deed)
    idle._poll = bell  # type: ignore[assignment]
    idle.wait()
    return bell.sleeps


def make_busy(desk: Desk, number: int = 0) -> None:
    """Calls have come to it one after the other, until it watches for them."""
    desk.during(lambda: None)
    for _ in range(ENOUGH):
        desk.q[desk.table.idle_word] &= ~((1 << number) - 1)  # those before it are busy
        assert sleeps_of(desk, number, lambda: desk.put("pause")) == 1
        assert desk.work(number) == 1
        desk.collect()


def while_it_looks(monkeypatch: pytest.MonkeyPatch, deed: Callable[[], object]) -> None:
    monkeypatch.setattr(os, "sched_yield", deed)


def test_who_watches_is_ready_for_a_call_without_the_bell(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_busy(desk)
    slots: list[int] = []
    while_it_looks(monkeypatch, lambda: slots.append(desk.put("pause")))
    assert sleeps_of(desk, 0) == 0
    assert desk.woken == 1, "it is rung nevertheless"
    assert desk.work() == 1
    assert list(desk.collect()) == slots


def test_who_watches_in_vain_goes_to_sleep_again(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_busy(desk)
    looks: list[int] = []

    def time_goes_on() -> None:
        looks.append(desk.now_ns)
        desk.now_ns += WATCH_NS // 4

    while_it_looks(monkeypatch, time_goes_on)
    assert [sleeps_of(desk, 0) for _ in range(3)] == [1, 1, 1]
    assert len(looks) == 4, "and the next times at once"


def test_who_was_rung_for_nothing_has_not_been_called(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    while_it_looks(monkeypatch, lambda: pytest.fail("it watches"))
    assert [sleeps_of(desk, 0) for _ in range(2 * ENOUGH)] == [1] * 2 * ENOUGH


def test_nobody_watches_where_calls_come_beside_each_other(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_busy(desk)
    while_it_looks(monkeypatch, lambda: pytest.fail("it watches"))
    desk.put("pause")  # one more than it has run
    assert desk.work(1) == 1
    assert sleeps_of(desk, 0) == 1


def test_nobody_watches_while_a_limiter_is_about_to_open(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_busy(desk)
    while_it_looks(monkeypatch, lambda: pytest.fail("it watches"))
    desk.q[desk.table.held.next_open_word] = desk.now_ns + 5 * MS
    assert sleeps_of(desk, 0) == 1


@pytest.mark.fault
@pytest.mark.parametrize("called", [False, True], ids=["in vain", "with a call there"])
def test_a_call_for_one_that_is_killed_while_it_watches_is_anothers(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, called: bool
) -> None:
    make_busy(desk)
    looked = os.eventfd(0)

    def is_killed() -> None:
        if called:
            desk.put("pause")
        os.eventfd_write(looked, 1)
        os.kill(os.getpid(), signal.SIGKILL)

    while_it_looks(monkeypatch, is_killed)
    status = wait_for(start(lambda: sleeps_of(desk, 0)))
    assert os.WTERMSIG(status) == signal.SIGKILL
    assert os.eventfd_read(looked) == 1
    os.close(looked)
    if not called:
        desk.put("pause")
        assert desk.woken == 1, "nobody knows yet that it is dead"
    assert desk.reap() == {"answered": [], "died": [], "requeued": []}
    desk.shared.doorbells.ring_all()
    assert select.select([desk.shared.doorbells.handlers[1]], [], [], 0)[0]
    assert desk.work(1) == 1
    assert [status for status, _ in desk.collect().values()] == [Status.RESULT]
    assert desk.shared.audit() == []

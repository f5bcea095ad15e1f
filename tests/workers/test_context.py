"""What a method learns about its call, in a time that the test sets."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from faircall.scheduling.cost import Phase
from faircall.workers.context import (
    Call,
    Worker,
    current_call,
    enter,
    leave,
    running,
    running_call,
)
from faircall.workers.errors import CANCELLED, DEADLINE_EXCEEDED, CallCancelled, DeadlineExceeded


class Clock:
    """Monotonic ns that move only when told."""

    def __init__(self) -> None:
        self.now_ns = 1_000

    def __call__(self) -> int:
        return self.now_ns

    @contextmanager
    def lock(self, wait_ns: int, release_ns: int = 0) -> Iterator[str]:
        """A lock that takes this long to get and to give back."""
        self.now_ns += wait_ns
        try:
            yield "the lock"
        finally:
            self.now_ns += release_ns


def test_the_current_call_is_the_one_entered_last_until_it_is_left() -> None:
    first, second = Call(method="a"), Call(method="b", worker=Worker(3))
    enter(first)
    assert current_call() is first
    with running(second):
        assert current_call().worker.index == 3
    assert current_call() is first
    leave()
    assert running_call() is None


def test_outside_a_call_there_is_a_clear_error() -> None:
    with pytest.raises(RuntimeError, match="current_call"):
        current_call()
    with pytest.raises(ZeroDivisionError), running(Call()):
        raise ZeroDivisionError
    assert running_call() is None


def test_threads_that_a_call_starts_see_it() -> None:
    seen = []
    with running(Call(user="ann")):
        thread = threading.Thread(target=lambda: seen.append(current_call().user))
        thread.start()
        thread.join()
    assert seen == ["ann"]


def test_remaining_counts_down_in_seconds_and_stops_at_zero() -> None:
    clock = Clock()
    call = Call(deadline_ns=clock.now_ns + 2_500_000_000, clock=clock)
    assert call.remaining() == 2.5
    clock.now_ns += 3_000_000_000
    assert call.remaining() == 0
    assert Call().remaining() == math.inf


def test_check_ends_the_call_from_its_deadline_on() -> None:
    clock = Clock()
    call = Call(deadline_ns=clock.now_ns + 10, clock=clock)
    clock.now_ns += 9
    call.check()
    clock.now_ns += 1
    with pytest.raises(DeadlineExceeded) as caught:
        call.check()
    assert caught.value.code == DEADLINE_EXCEEDED
    Call().check()


def test_check_ends_a_call_that_nobody_waits_for() -> None:
    gone: list[bool] = []
    call = Call(is_abandoned=lambda: bool(gone))
    call.check()
    gone.append(True)
    with pytest.raises(CallCancelled) as caught:
        call.check()
    assert caught.value.code == CANCELLED


def test_waits_and_holds_are_counted_apart_and_added_up() -> None:
    clock = Clock()
    call = Call(clock=clock)
    with call.lock_exclusive(clock.lock(5)) as lock:
        assert lock == "the lock"
        clock.now_ns += 7
    with call.lock_shared(clock.lock(11)):
        clock.now_ns += 13
    with call.lock_shared(clock.lock(17, release_ns=1000)):
        clock.now_ns += 19
    assert (call.wait_ns, call.exclusive_ns, call.shared_ns) == (5 + 11 + 17, 7, 13 + 19)


def test_a_hold_counts_and_the_lock_is_given_back_when_the_block_raises() -> None:
    clock = Clock()
    call = Call(clock=clock)
    lock = threading.Lock()

    def body() -> None:
        assert lock.locked()
        clock.now_ns += 3
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), call.lock_exclusive(lock):
        body()
    assert not lock.locked()
    assert call.exclusive_ns == 3


def test_the_wait_for_a_lock_that_cannot_be_taken_counts() -> None:
    clock = Clock()

    @contextmanager
    def refused() -> Iterator[None]:
        clock.now_ns += 29
        raise TimeoutError
        yield

    call = Call(clock=clock)
    with pytest.raises(TimeoutError), call.lock_shared(refused()):
        pass
    assert (call.wait_ns, call.shared_ns) == (29, 0)


def test_a_lock_that_is_no_context_manager_is_taken_and_given_back() -> None:
    clock = Clock()

    class Bare:
        held = False

        def acquire(self) -> None:
            clock.now_ns += 5
            self.held = True

        def release(self) -> None:
            self.held = False

    call, lock = Call(clock=clock), Bare()
    with call.lock_shared(lock) as taken:
        assert taken is lock
        assert lock.held
        clock.now_ns += 2
    assert not lock.held
    assert (call.wait_ns, call.shared_ns) == (5, 2)


def test_phases_are_reported_by_hand_and_add_up() -> None:
    call = Call(wait_ns=1)
    for phase, spent_ns in (("lockwait", 4), ("queue", 3), ("QUEUE", 2), ("lockexclusive", 9)):
        call.report(phase, spent_ns)
    assert (call.wait_ns, call.exclusive_ns) == (5, 9)
    assert call.reported_ns == {Phase.QUEUE: 5}
    whole = Call(reported_ns={Phase.QUEUE: 1})
    whole.add_phases_of(call)
    assert (whole.wait_ns, whole.reported_ns) == (5, {Phase.QUEUE: 6})


@pytest.mark.parametrize(("phase", "spent_ns"), [("lunch", 1), ("queue", -1)])
def test_what_is_no_phase_or_no_time_is_refused(phase: str, spent_ns: int) -> None:
    with pytest.raises(ValueError, match=r"no phase 'lunch': enqueue, queue|at least 0, not -1"):
        Call().report(phase, spent_ns)

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

from faircall.shm import mutex
from faircall.shm.mutex import BROKEN_SECTION, LockBroken, RobustMutex

from ..fault.kill import start, wait_for

TAKES = 3000


class Memory:
    """A page shared with forks: a mutex in its first line, and words behind it."""

    def __init__(self) -> None:
        self.map = mmap.mmap(-1, mmap.PAGESIZE)
        self.q = memoryview(self.map).cast("Q")
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.map))

    def lock(self, rebuild: Callable[[], None] = lambda: None, **kind: Any) -> RobustMutex:
        lock = RobustMutex(self.address, "test", rebuild, **kind)
        lock.initialise()
        return lock


@pytest.fixture
def memory() -> Memory:
    return Memory()


class Holder:
    """A process that takes `lock` and keeps it until it is told to let go, or is killed."""

    def __init__(self, lock: RobustMutex) -> None:
        self._release, told = os.pipe()[::-1]
        ready, has = os.pipe()
        self.pid = start(lambda: self._hold(lock, has, told))
        os.close(has)
        os.close(told)
        assert os.read(ready, 1) == b"!", "the holder did not get the lock"
        os.close(ready)

    def _hold(self, lock: RobustMutex, has: int, told: int) -> None:
        os.close(self._release)
        with lock:
            os.write(has, b"!")
            os.read(told, 1)

    def let_go(self) -> None:
        os.close(self._release)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        wait_for(self.pid)
        os.close(self._release)


def test_one_process_at_a_time_is_inside(memory: Memory) -> None:
    lock = memory.lock()

    def count() -> None:
        for _ in range(TAKES):
            with lock:
                memory.q[100] += 1

    pids = [start(count) for _ in range(3)]
    assert [wait_for(pid) for pid in pids] == [0, 0, 0]
    assert memory.q[100] == 3 * TAKES


def test_the_owner_is_known_while_it_holds(memory: Memory) -> None:
    lock = memory.lock()
    assert lock.owner() == 0
    with lock:
        assert lock.owner() == os.getpid()
    assert lock.owner() == 0
    holder = Holder(lock)
    assert lock.owner() == holder.pid
    holder.kill()


def test_after_an_owner_was_killed_the_next_one_rebuilds_once(memory: Memory) -> None:
    rebuilt: list[int] = []
    lock = memory.lock(lambda: rebuilt.append(lock.owner()))
    Holder(lock).kill()
    assert lock.touch()
    assert rebuilt == [os.getpid()]
    assert not lock.touch()
    assert lock.recoveries == 1


def test_the_rebuild_comes_before_the_lock_is_consistent(memory: Memory) -> None:
    """Within the rebuild it is not, yet: so that it can be made so there."""

    def rebuild() -> None:
        memory.q[100] = 1 + ctypes.CDLL(None).pthread_mutex_consistent(lock._pointer)

    lock = memory.lock(rebuild)
    Holder(lock).kill()

    def touch() -> None:
        with contextlib.suppress(LockBroken):
            lock.touch()

    assert wait_for(start(touch)) == 0
    assert memory.q[100] == 1


def test_who_dies_in_the_rebuild_leaves_it_to_the_next_one(memory: Memory) -> None:
    lock = memory.lock(lambda: os.kill(os.getpid(), signal.SIGKILL))
    Holder(lock).kill()
    for _ in range(3):
        assert os.WTERMSIG(wait_for(start(lock.touch))) == signal.SIGKILL
    rebuilt: list[int] = []
    lock.rebuild = lambda: rebuilt.append(1)
    assert lock.touch()
    assert rebuilt == [1]


def test_a_rebuild_that_raises_ends_the_process(memory: Memory) -> None:
    def fail() -> None:
        raise KeyError("cannot")

    lock = memory.lock(fail)
    Holder(lock).kill()
    assert os.waitstatus_to_exitcode(wait_for(start(lock.touch))) == BROKEN_SECTION
    lock.rebuild = lambda: None
    assert lock.touch()


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, MemoryError])
def test_an_exception_inside_a_section_ends_the_process(
    memory: Memory, error: type[BaseException], capfd: pytest.CaptureFixture[str]
) -> None:
    lock = memory.lock()

    def section() -> None:
        with lock:
            raise error("inside")

    pid = start(section)
    assert os.waitstatus_to_exitcode(wait_for(pid)) == BROKEN_SECTION
    said = capfd.readouterr().err
    assert said.startswith(f"section broken: where=test pid={pid} error={error.__name__}")
    assert lock.touch(), "the next owner has to rebuild"


def test_an_unlock_without_a_lock_ends_the_process(memory: Memory) -> None:
    lock = memory.lock()
    pid = start(lambda: lock.__exit__(None, None, None))
    assert os.waitstatus_to_exitcode(wait_for(pid)) == BROKEN_SECTION


@pytest.mark.parametrize("clocklock", [True, False])
def test_who_waits_is_told_the_owner_and_gets_the_lock(
    memory: Memory, clocklock: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not clocklock:
        monkeypatch.setattr(mutex, "_clocklock", None)
    lock = memory.lock()
    holder, told = Holder(lock), list[int]()

    def on_stuck(owner: int) -> None:
        if not told:
            holder.let_go()
        told.append(owner)

    lock.on_stuck = on_stuck
    with lock:
        assert lock.owner() == os.getpid()
    assert told[0] == holder.pid
    assert wait_for(holder.pid) == 0


def test_an_owner_that_never_lets_go_breaks_the_lock(memory: Memory) -> None:
    lock = memory.lock(patience_s=0.0)
    holder = Holder(lock)
    with pytest.raises(LockBroken, match=f"held by thread {holder.pid}"):
        lock.__enter__()
    holder.kill()
    assert lock.touch()


def test_waits_are_on_the_monotonic_clock(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step of the wall clock freezes nobody: the kernel is given monotonic time."""
    waits: list[tuple[int, float]] = []
    real = mutex._clocklock
    if real is None:
        pytest.skip("this libc has no pthread_mutex_clocklock")

    def clocklock(pointer: Any, clock: int, until: Any) -> int:
        spec = until._obj
        waits.append((clock, spec.seconds + spec.nanoseconds / 1e9 - time.monotonic()))
        return int(real(pointer, clock, until))

    monkeypatch.setattr(mutex, "_clocklock", clocklock)
    lock = memory.lock(patience_s=0.0)
    holder = Holder(lock)
    with pytest.raises(LockBroken):
        lock.__enter__()
    holder.kill()
    assert [clock for clock, _ in waits] == [time.CLOCK_MONOTONIC]
    assert waits[0][1] <= mutex.POLL_S


def test_a_killed_owner_is_noticed_by_who_already_waits(memory: Memory) -> None:
    """EOWNERDEAD comes out of the blocking wait as well."""
    rebuilt: list[int] = []
    lock = memory.lock(lambda: rebuilt.append(1))
    holder = Holder(lock)
    lock.on_stuck = lambda owner: os.kill(owner, signal.SIGKILL)
    assert lock.touch()
    assert rebuilt == [1]
    assert os.WTERMSIG(wait_for(holder.pid)) == signal.SIGKILL


def test_a_scribbled_mutex_is_reported_not_waited_for(memory: Memory) -> None:
    lock = memory.lock(patience_s=0.0)
    memory.q[0] = 0xFFFF_FFFF_0000_0007  # held by a thread that is not there
    with pytest.raises(LockBroken):
        lock.__enter__()
    memory.q[0] = 0


def test_a_mutex_keeps_to_its_line(memory: Memory) -> None:
    memory.q[8 : mmap.PAGESIZE // 8] = memoryview(b"\xa5" * (mmap.PAGESIZE - 64)).cast("Q")
    with memory.lock():
        assert set(memory.q[8 : mmap.PAGESIZE // 8]) == {0xA5A5_A5A5_A5A5_A5A5}


def test_a_libc_without_robust_mutexes_is_an_error(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mutex, "_ROBUST", 99)
    with pytest.raises(OSError, match="robust mutex test"):
        memory.lock()

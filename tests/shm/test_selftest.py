from __future__ import annotations

import os
import signal

import pytest

from faircall.shm import mutex, selftest
from faircall.shm.mutex import RobustMutex
from faircall.shm.selftest import NoRobustMutexes, check_robust_mutexes


def test_this_machine_passes() -> None:
    check_robust_mutexes()


def test_a_kernel_that_does_not_hand_the_mutex_on_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The owner lives on here, which is how a lost robust list looks to the next one."""
    owners: list[int] = []
    monkeypatch.setattr(selftest, "PATIENCE_S", 0.01)
    monkeypatch.setattr(selftest, "_die_holding", lambda mutex: owners.append(hold(mutex)))
    try:
        with pytest.raises(NoRobustMutexes, match="held by thread"):
            check_robust_mutexes()
    finally:
        os.kill(owners[0], signal.SIGKILL)
        os.waitpid(owners[0], 0)


def hold(mutex: RobustMutex) -> int:
    """A child that has taken `mutex` and keeps it."""
    told, tells = os.pipe()
    child = os.fork()
    if child == 0:
        mutex.__enter__()
        os.write(tells, b"!")
        while True:
            signal.pause()
    assert os.read(told, 1) == b"!"
    os.close(told)
    os.close(tells)
    return child


def test_a_death_that_is_not_reported_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selftest, "_die_holding", lambda mutex: None)
    with pytest.raises(NoRobustMutexes, match="a dead owner was not reported"):
        check_robust_mutexes()


def test_mutexes_that_are_not_robust_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner is dead, and nobody tells."""
    monkeypatch.setattr(mutex, "_ROBUST", 0)
    monkeypatch.setattr(selftest, "PATIENCE_S", 0.01)
    with pytest.raises(NoRobustMutexes, match="held by thread"):
        check_robust_mutexes()

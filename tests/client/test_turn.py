from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from faircall.client.turn import ReadingTurn

LONG_S = 60.0


class Follower:
    """A thread that takes the turn; it lies asleep, or has it, when the constructor returns."""

    def __init__(self, turn: ReadingTurn, timeout_s: float = LONG_S) -> None:
        self.answered = False
        self.took: bool | None = None
        self._looked = threading.Event()
        self._turn = turn
        self._thread = threading.Thread(target=self._run, args=[timeout_s])
        self._thread.start()
        assert self._looked.wait(LONG_S)
        turn.wake_done()  # takes the lock under which the follower looked before it lay down

    def join(self) -> bool | None:
        self._thread.join()
        return self.took

    def _run(self, timeout_s: float) -> None:
        self.took = self._turn.take(self._done, timeout_s)

    def _done(self) -> bool:
        self._looked.set()
        return self.answered


def test_only_one_has_the_turn() -> None:
    turn = ReadingTurn()
    assert turn.try_take()
    assert not turn.try_take()
    assert not turn.take(lambda: False, 0.0)
    turn.give()
    assert turn.take(lambda: False, 0.0)


def test_a_call_that_is_done_needs_no_turn() -> None:
    turn = ReadingTurn()
    assert not turn.take(lambda: True, LONG_S)
    assert turn.try_take()


def test_the_turn_goes_to_those_who_wait_in_their_order() -> None:
    turn = ReadingTurn()
    assert turn.try_take()
    first, second = Follower(turn), Follower(turn)
    turn.give()
    assert first.join() is True
    assert second.took is None
    assert not turn.try_take()
    turn.give()
    assert second.join() is True


def test_the_leader_wakes_those_whose_calls_are_done_and_no_others() -> None:
    turn = ReadingTurn()
    assert turn.try_take()
    sleeping, answered = Follower(turn), Follower(turn)
    answered.answered = True
    turn.wake_done()
    assert answered.join() is False
    turn.give()
    assert sleeping.join() is True


def test_a_follower_whose_time_is_over_is_not_handed_the_turn() -> None:
    turn = ReadingTurn()
    assert turn.try_take()
    assert Follower(turn, timeout_s=0.0).join() is False
    turn.give()
    assert turn.try_take()


def test_a_follower_that_is_interrupted_hands_the_turn_on(monkeypatch: pytest.MonkeyPatch) -> None:
    turn = ReadingTurn()
    assert turn.try_take()

    class InterruptedLock:
        """Is handed the turn and interrupted at the same moment."""

        def __init__(self) -> None:
            self._calls: list[Callable[[], None]] = [lambda: None, self._interrupt]

        def acquire(self, timeout: float = -1) -> None:
            self._calls.pop(0)()

        def release(self) -> None:
            pass

        def _interrupt(self) -> None:
            turn.give()
            raise KeyboardInterrupt

    monkeypatch.setattr(threading, "Lock", InterruptedLock)
    with pytest.raises(KeyboardInterrupt):
        turn.take(lambda: False, LONG_S)
    monkeypatch.undo()
    assert turn.try_take()

"""What a method can ask about the call it serves: `current_call()`.

A handler process runs one call at a time, so the current call is plain module state: methods, the
threads they start and `async def` methods all see it.  The handler sets it before user code and
clears it after.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Protocol

import msgspec
from msgspec import Struct

from ..scheduling.cost import Phase
from .errors import CallCancelled, DeadlineExceeded

_Phase = Literal["shared_ns", "exclusive_ns"]
_LOCK_PHASES = {"lockwait": "wait_ns", "lockshared": "shared_ns", "lockexclusive": "exclusive_ns"}


DEFAULT_GROUP = "default"  # of handlers: that of all methods which are of no other


@dataclass(frozen=True, slots=True)
class Worker:
    """This handler process: `index` counts from 0 within its `group` (`[handlers.<group>]`, or
    "default"); a replacement takes the dead one's index."""

    index: int = 0
    group: str = DEFAULT_GROUP


class Call(Struct, kw_only=True):
    """One running call.  Times are monotonic ns; `deadline_ns` 0 means that there is no deadline.
    `chain` are the servers that wait for it, where a function of theirs made it.

    `claimed_ns` is when a handler claimed it, by which limiters count it; 0 without a server.
    `wait_ns`, `shared_ns` and `exclusive_ns` add up what the method spent waiting for and holding
    locks that it took through `lock_shared` and `lock_exclusive`: the cost phases of Hadoop's
    ProcessingDetails (LOCKWAIT, LOCKSHARED, LOCKEXCLUSIVE). `reported_ns` are times of the other
    phases that it reported by hand; `processing_ns` is the time in the method, once it has ended.

    Of a method that serves many calls at once `calls` are these, and this one stands for them all:
    its deadline is the last of theirs, and it is abandoned when they all are.
    """

    method: str = ""
    user: str = ""
    context: str | None = None
    deadline_ns: int = 0
    claimed_ns: int = 0
    level: int = 0
    attempt: int = 0
    traceparent: str | None = None
    chain: tuple[str, ...] = ()
    worker: Worker = msgspec.field(default_factory=Worker)
    is_abandoned: Callable[[], bool] | None = None
    clock: Callable[[], int] = time.monotonic_ns
    wait_ns: int = 0
    shared_ns: int = 0
    exclusive_ns: int = 0
    reported_ns: dict[Phase, int] | None = None
    processing_ns: int = 0
    calls: tuple[Call, ...] = ()

    def remaining(self) -> float:
        """Seconds until the deadline, never below 0; infinite without one."""
        if not self.deadline_ns:
            return math.inf
        return max(0, self.deadline_ns - self.clock()) / 1e9

    def check(self) -> None:
        """Raises DeadlineExceeded or CallCancelled when nobody waits for the answer any more.

        A long computation calls it every few milliseconds; it costs less than a microsecond.
        """
        if self.deadline_ns and self.clock() >= self.deadline_ns:
            raise DeadlineExceeded()
        if self.is_abandoned is not None and self.is_abandoned():
            raise CallCancelled()

    def lock_shared(self, lock: Lock) -> AbstractContextManager[Any]:
        """`with call.lock_shared(lock):` is `with lock:`, its wait and its hold counted apart.

        `lock` is a context manager, or has `acquire` and `release`.
        """
        return _LockPhase(self, lock, "shared_ns")

    def lock_exclusive(self, lock: Lock) -> AbstractContextManager[Any]:
        """The same for a lock that keeps all others out."""
        return _LockPhase(self, lock, "exclusive_ns")

    def report(self, phase: str, spent_ns: int) -> None:
        """Add `spent_ns` to a cost phase that nobody else measures: "lockshared", "queue", ...

        Times of the three lock phases are part of the method's own time, others come on top of it.
        ValueError for a phase that there is not, or a time below 0.
        """
        known = Phase.__members__.get(phase.upper())
        if known is None:
            raise ValueError(f"no phase {phase!r}: {', '.join(Phase.__members__).lower()}")
        if spent_ns < 0:
            raise ValueError(f"a time is at least 0, not {spent_ns}")
        lock_phase = _LOCK_PHASES.get(phase.lower())
        if lock_phase is not None:
            setattr(self, lock_phase, getattr(self, lock_phase) + spent_ns)
            return
        if self.reported_ns is None:
            self.reported_ns = {}
        self.reported_ns[known] = self.reported_ns.get(known, 0) + spent_ns

    def share_phases(self) -> None:
        """Each of `calls` has had its part of the time; what does not divide goes to the first."""
        for name in ("wait_ns", "shared_ns", "exclusive_ns", "processing_ns"):
            for call, part in zip(
                self.calls, parts(getattr(self, name), len(self.calls)), strict=True
            ):
                setattr(call, name, part)
        for phase, spent_ns in (self.reported_ns or {}).items():
            for call, part in zip(self.calls, parts(spent_ns, len(self.calls)), strict=True):
                call.report(phase.name, part)

    def add_phases_of(self, other: Call) -> None:
        """`other` was a part of this call: an item of the same message."""
        self.wait_ns += other.wait_ns
        self.shared_ns += other.shared_ns
        self.exclusive_ns += other.exclusive_ns
        self.processing_ns += other.processing_ns
        for phase, spent_ns in (other.reported_ns or {}).items():
            self.report(phase.name, spent_ns)


def parts(whole: int, count: int) -> list[int]:
    """`whole` as the sum of `count` integers that are alike; the first has the remainder, too."""
    part, rest = divmod(whole, count)
    return [part + rest] + [part] * (count - 1)


class _Acquirable(Protocol):
    """A lock that is no context manager; what its methods return does not matter."""

    def acquire(self) -> Any: ...

    def release(self) -> Any: ...


Lock = AbstractContextManager[Any] | _Acquirable


class _LockPhase(AbstractContextManager[Any]):
    """Takes the lock it was given; the wait counts even if taking it fails."""

    __slots__ = ("_call", "_held_since_ns", "_lock", "_phase")

    def __init__(self, call: Call, lock: Lock, phase: _Phase) -> None:
        self._call, self._phase = call, phase
        self._lock = lock if isinstance(lock, AbstractContextManager) else _Held(lock)
        self._held_since_ns = 0

    def __enter__(self) -> Any:
        asked_ns = self._call.clock()
        try:
            return self._lock.__enter__()
        finally:
            self._held_since_ns = self._call.clock()
            self._call.wait_ns += self._held_since_ns - asked_ns

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        held_ns = self._call.clock() - self._held_since_ns
        setattr(self._call, self._phase, getattr(self._call, self._phase) + held_ns)
        return self._lock.__exit__(kind, error, traceback)


class _Held(AbstractContextManager[Any]):
    """`with` for a lock that only has `acquire` and `release`."""

    __slots__ = ("_lock",)

    def __init__(self, lock: _Acquirable) -> None:
        self._lock = lock

    def __enter__(self) -> Any:
        self._lock.acquire()
        return self._lock

    def __exit__(self, *error: object) -> None:
        self._lock.release()


_current: Call | None = None


def current_call() -> Call:
    """The call that this process is running; RuntimeError while it runs none."""
    if _current is None:
        raise RuntimeError(
            "current_call() is for code that a call runs: this process is running none"
        )
    return _current


def enter(call: Call) -> None:
    """From now on `call` is the current one."""
    global _current
    _current = call


def leave() -> None:
    """From now on no call is running."""
    global _current
    _current = None


def running_call() -> Call | None:
    """As `current_call`, but None while no call is running."""
    return _current


@contextmanager
def running(call: Call) -> Iterator[Call]:
    """`call` is current inside the block: for tests of methods, and for calls without a server."""
    before = _current
    enter(call)
    try:
        yield call
    finally:
        if before is None:
            leave()
        else:
            enter(before)

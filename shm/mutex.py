"""A robust, process-shared pthread mutex in a shared mapping, through ctypes (glibc and musl).

When an owner dies the kernel marks the mutex, and the next one to lock it gets EOWNERDEAD: it then
runs `rebuild` *before* pthread_mutex_consistent, so dying inside the rebuild just repeats it. What
`multiprocessing.Lock` or a bare semaphore would do instead is to stay locked for good.

The rules that make it safe:

* trylock and unlock go through PyDLL (the GIL is kept, about 0.2 us each); only the blocking path
  uses CDLL, which drops the GIL.
* Waits are bounded and on CLOCK_MONOTONIC (pthread_mutex_clocklock, glibc >= 2.30, else trylock and
  sleep), so that a step of the wall clock freezes nobody.
* The mapping is never closed while a lock is held: the kernel's walk would stop at the hole.
* A section works on integers: no user code, no I/O, no logging. **An exception inside a section
  ends the process**, for a half-made index that is unlocked is the one thing that nothing repairs;
  an index whose owner died is rebuilt by the next owner.
"""

from __future__ import annotations

import ctypes
import errno
import os
import time
from collections.abc import Callable
from types import TracebackType
from typing import NoReturn

MUTEX_BYTES = 40  # x86_64; 48 on aarch64; each has a cache line of its own
BROKEN_SECTION = 70  # exit status of a process whose section raised
POLL_S = 0.05  # how long one blocking wait lasts before the owner is looked at
SPINS = 20

_keeping_gil, _dropping_gil = ctypes.PyDLL(None), ctypes.CDLL(None)
_trylock = _keeping_gil.pthread_mutex_trylock
_unlock = _keeping_gil.pthread_mutex_unlock
_clocklock = getattr(_dropping_gil, "pthread_mutex_clocklock", None)
_GLIBC = hasattr(_dropping_gil, "gnu_get_libc_version")
_OWNER_OFFSET = 0 if _GLIBC else 4  # where the owner's thread id lies in a pthread_mutex_t
_PROCESS_SHARED = _ROBUST = 1
_CLOCK_MONOTONIC = 1


class LockBroken(RuntimeError):
    """Held for too long or not recoverable: only a new segment helps."""


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


def abi() -> str:
    """What a mapping's users must agree on: libc, machine, pointer size."""
    libc = "glibc" if _GLIBC else "musl"
    return f"{libc}-{os.uname().machine}-{ctypes.sizeof(ctypes.c_void_p)}"


def end_process(where: str, error: BaseException | None) -> NoReturn:
    """A critical section cannot be left half done: say why, end, and let the next owner rebuild."""
    said = f"section broken: where={where} pid={os.getpid()} error={error!r} at={_place_of(error)}"
    os.write(2, said.encode() + b"\n")
    os._exit(BROKEN_SECTION)


def _place_of(error: BaseException | None) -> str:
    """The file and line that raised `error`."""
    frame = error.__traceback__ if error else None
    while frame and frame.tb_next:
        frame = frame.tb_next
    if not frame:
        return "?"
    return f"{os.path.basename(frame.tb_frame.f_code.co_filename)}:{frame.tb_lineno}"


class RobustMutex:
    """The mutex at `address` of a mapping; `rebuild()` derives anew what it guards."""

    __slots__ = ("_pointer", "address", "name", "on_stuck", "patience_s", "rebuild", "recoveries")

    def __init__(
        self, address: int, name: str, rebuild: Callable[[], None], patience_s: float = 10.0
    ) -> None:
        self.address = address
        self.name = name
        self.rebuild = rebuild
        self.patience_s = patience_s
        self.recoveries = 0
        # Called with the owner's thread id every POLL_S of waiting: a stopped owner never lets go.
        self.on_stuck: Callable[[int], None] = lambda tid: None
        self._pointer = ctypes.c_void_p(address)

    def initialise(self) -> None:
        """Make it a mutex; once, by the segment's creator. OSError if this libc cannot."""
        attributes = ctypes.create_string_buffer(64)
        lib = _dropping_gil
        for code in (
            lib.pthread_mutexattr_init(attributes),
            lib.pthread_mutexattr_setpshared(attributes, _PROCESS_SHARED),
            lib.pthread_mutexattr_setrobust(attributes, _ROBUST),
            lib.pthread_mutex_init(self._pointer, attributes),
        ):
            if code:
                raise OSError(code, f"robust mutex {self.name}: {os.strerror(code)}")

    def owner(self) -> int:
        """Thread id of who holds it now; 0 = nobody."""
        word: int = ctypes.c_uint32.from_address(self.address + _OWNER_OFFSET).value
        return word & 0x1FFF_FFFF

    def __enter__(self) -> None:
        if code := _trylock(self._pointer):
            self._acquire_slowly(code)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is not None:
            end_process(self.name, error)
        if code := _unlock(self._pointer):
            end_process(self.name, LockBroken(f"unlock: {errno.errorcode.get(code, code)}"))

    def touch(self) -> bool:
        """Take it once, so that a dead owner's index is rebuilt now; True if one was."""
        before = self.recoveries
        with self:
            pass
        return self.recoveries != before

    def _acquire_slowly(self, code: int) -> None:
        for _ in range(SPINS):
            if code != errno.EBUSY:
                break
            os.sched_yield()
            code = _trylock(self._pointer)
        gives_up = time.monotonic() + self.patience_s
        while code == errno.EBUSY:
            code = self._wait()
            if code == errno.EBUSY:
                self._still_waiting(gives_up)
        if code == errno.EOWNERDEAD:
            self._recover()
        elif code:
            raise LockBroken(f"lock {self.name}: {errno.errorcode.get(code, code)}")

    def _wait(self) -> int:
        """Block for up to POLL_S; EBUSY if it is still held."""
        if _clocklock is None:
            time.sleep(0.0005)
            return int(_trylock(self._pointer))
        until = time.monotonic() + POLL_S
        spec = _Timespec(int(until), int(until % 1 * 1e9))
        code = int(_clocklock(self._pointer, _CLOCK_MONOTONIC, ctypes.byref(spec)))
        return errno.EBUSY if code == errno.ETIMEDOUT else code

    def _still_waiting(self, gives_up: float) -> None:
        owner = self.owner()
        self.on_stuck(owner)
        if time.monotonic() > gives_up:
            raise LockBroken(f"lock {self.name}: held by thread {owner} for {self.patience_s} s")

    def _recover(self) -> None:
        try:
            self.rebuild()
        except BaseException as error:
            end_process(f"rebuild of {self.name}", error)
        self.recoveries += 1
        if code := _keeping_gil.pthread_mutex_consistent(self._pointer):
            raise LockBroken(f"lock {self.name}: {errno.errorcode.get(code, code)}")

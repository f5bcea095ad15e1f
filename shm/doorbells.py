"""Wake-ups: one eventfd per reader and per handler, made before the first fork.

The protocol of every loop that sleeps, and why no wake-up is lost:

    a handler: clear its bell, claim (which, finding nothing, sets its idle bit under the queue
    lock), then wait. A reader that enqueues takes the idle bit under the same lock and rings
    afterwards: it either enqueued before the claim, which then found the call, or it sees the bit.
    (Who looks at its own bit before it waits may be back before the bell rings: `workers.idle`.)

    a reader: clear its bell, store `sleeping`, collect (under its answer lock), then wait. A
    handler that publishes takes the same lock and looks at `sleeping` afterwards. The word says up
    to which age of a call its answer is to be rung for: ANY_AGE, or less while the reader naps.

What may still be lost is a bell between the bit and the ring, when its ringer dies: so the janitor
rings every bell after a death, and every sleep has an upper bound of its own.
"""

from __future__ import annotations

import contextlib
import os

from .layout import Geometry

AWAKE = 0  # a reader looks anyway
ANY_AGE = 1 << 63


class Doorbells:
    """`handlers[i]` and `readers[i]` are descriptors to poll; ringing never blocks."""

    def __init__(self, geometry: Geometry) -> None:
        flags = os.EFD_NONBLOCK | os.EFD_CLOEXEC
        self.handlers = [os.eventfd(0, flags) for _ in range(geometry.handlers)]
        self.readers = [os.eventfd(0, flags) for _ in range(geometry.readers)]

    def ring_handlers(self, bitmap: int) -> None:
        """Wake the handlers whose bits are set."""
        while bitmap:
            bit = bitmap & -bitmap
            ring(self.handlers[bit.bit_length() - 1])
            bitmap ^= bit

    def ring_reader(self, reader: int) -> None:
        ring(self.readers[reader])

    def ring_all(self) -> None:
        """After a death: whatever wake-up died with it."""
        for fd in (*self.handlers, *self.readers):
            ring(fd)

    def descriptors(self) -> list[int]:
        return [*self.handlers, *self.readers]

    def close(self) -> None:
        for fd in self.descriptors():
            os.close(fd)


def ring(fd: int) -> None:
    """Wake who polls `fd`; a bell that is already ringing stays so."""
    with contextlib.suppress(BlockingIOError):
        os.eventfd_write(fd, 1)


def clear(fd: int) -> None:
    """Stop the bell, before looking for what it announced."""
    with contextlib.suppress(BlockingIOError):
        os.eventfd_read(fd)

"""Calls that one invocation of a method serves together, from their claim to their answers.

A handler that may wait for more of them does so before it begins: rung by the reader that has
enough, or has a call for which no handler is idle; at the latest when `within_ms` of the claim are
over, or of the time that one of them has left a quarter. Until it begins they are claimed and
nothing else: who dies here gives them all back.

Then all begin by one store (`shm.joint`); each is looked at once more, and answered by itself; the
time is divided evenly among those that ran.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ..shm import doorbells, states
from ..shm.joint import JointClaims, mark
from ..shm.layout import SLOT, word_of
from ..shm.processes import ProcessRow
from ..shm.rings import SLOT_WORDS
from ..shm.states import Phase
from .context import parts

if TYPE_CHECKING:
    from .handler import Handler

PAUSE_S: Final = 0.0001  # before more join: time for whoever waits for the lock
PATIENCE: Final = 4  # of the time that a call has left, a quarter may be spent waiting
_DEADLINE: Final = word_of(SLOT, "deadline_ns")
_MS: Final = 1_000_000


class JointRuns:
    """Those of one handler, whose record is `row`."""

    def __init__(self, handler: Handler, row: ProcessRow, clock: Callable[[], int]) -> None:
        self._handler, self._clock = handler, clock
        self._shared, self._q = handler.shared, handler.shared.segment.q
        self._beat, self._current = row.word("beat_ns"), row.word("current")
        self._current_deadline = row.word("current_deadline_ns")
        self._bell = self._shared.doorbells.handlers[handler.number]
        self._poll = select.poll()
        self._poll.register(self._bell, select.POLLIN)

    def serve(self, joint: JointClaims) -> None:
        """Wait for more if that is wanted, run the calls of `joint`, and hand their answers over.

        If the server is to stop, nothing more is waited for.
        """
        self._finish(joint, last=False)
        if joint.gathers:
            self._gather(joint)
        self._run(joint.slots, joint.tokens)

    def _own(self, slot: int) -> int:
        return self._shared.table.slot0 + slot * SLOT_WORDS

    # -- waiting for more ------------------------------------------------------------------------

    def _gather(self, joint: JointClaims) -> None:
        now_ns = self._clock()
        until_ns = now_ns + joint.methods[joint.method][1]
        while joint.gathers:
            until_ns = min(until_ns, self._patient_until(joint, now_ns))
            self._wait(until_ns - now_ns)
            now_ns = self._q[self._beat] = self._clock()
            last = now_ns >= until_ns or self._shared.phase.reached(Phase.DRAINING)
            self._join(joint, now_ns, last=last)
            self._finish(joint, last=last)

    def _finish(self, joint: JointClaims, *, last: bool) -> None:
        """All that wait and have room join, so many at a time."""
        while joint.unfinished:
            time.sleep(PAUSE_S)
            self._join(joint, self._clock(), last=last)

    def _join(self, joint: JointClaims, now_ns: int, *, last: bool) -> None:
        joint.join(self._handler.number, now_ns, last=last)
        if wake := self._shared.table.claims.wake:
            self._shared.doorbells.ring_handlers(wake)

    def _patient_until(self, joint: JointClaims, now_ns: int) -> int:
        first_ns = min(self._q[self._own(slot) + _DEADLINE] for slot in joint.slots)
        return now_ns + max(0, first_ns - now_ns) // PATIENCE

    def _wait(self, wait_ns: int) -> None:
        """Until the bell rings; the part of a millisecond, which `poll` cannot, in any case."""
        whole_ms, rest_ns = divmod(max(0, wait_ns), _MS)
        if not whole_ms or not self._poll.poll(whole_ms):
            time.sleep(rest_ns / 1e9)
        doorbells.clear(self._bell)

    # -- running them ----------------------------------------------------------------------------

    def _run(self, slots: list[int], tokens: list[int]) -> None:
        q, handler = self._q, self._handler
        owns = [self._own(slot) for slot in slots]
        current = tokens[0] >> states.GENERATION_SHIFT << 32 | slots[0] + 1
        mark(q, owns, current)
        q[self._current_deadline] = max(q[own + _DEADLINE] for own in owns)
        q[self._current] = current  # <- from here on they count as begun
        began_ns = self._clock()
        calls = list(zip(slots, owns, tokens, strict=True))
        running = [call for call in calls if not handler.is_late(call[1], call[2], began_ns)]
        for slot, own, token in calls:
            if (slot, own, token) not in running:
                handler.expire(own, token)
                handler.used(slot, own, 0)
        if running:
            self._answer(running, began_ns)
        q[self._current] = 0
        for slot, token in zip(slots, tokens, strict=True):
            handler.hand_over(slot, token)

    def _answer(self, running: list[tuple[int, int, int]], began_ns: int) -> None:
        q, handler = self._q, self._handler
        answers = handler.runner.run_together(
            [(own, token, q[own + _DEADLINE]) for _, own, token in running]
        )
        ended_ns = self._clock()
        self._shared.columns.ran_together(handler.number, self._shared.table.joint.method)
        members = handler.runner.call.calls
        spent = parts(ended_ns - began_ns, len(running))
        for (slot, own, token), call, part_ns, (status, body) in zip(
            running, members, spent, answers, strict=True
        ):
            handler.settle(own, call, began_ns, ended_ns, part_ns, status)
            handler.store(slot, own, token, status, body)
            handler.used(slot, own, part_ns)

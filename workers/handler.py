"""One handler process: claim calls, run the service's functions, publish the answers.

What makes its death harmless: before user code it stores `current` in its process record and looks
at the call's state again; an answer word is stored the moment its answer is complete. So whoever
reaps it can tell: a complete answer is published, the current call is answered "handler died" or
run again, and what was claimed but never began goes back to its place.
"""

from __future__ import annotations

import gc
import logging
import os
import select
import time
from collections.abc import Callable

from ..shm import doorbells, states
from ..shm.budgets import W_BUDGET
from ..shm.columns import Counter
from ..shm.expected import adjusted
from ..shm.held import W_LIMITERS
from ..shm.layout import METHOD, SLOT, SMALL_PAGE, WORD, word_of
from ..shm.pages import ANSWER
from ..shm.rings import SLOT_WORDS
from ..shm.shared import Shared
from ..shm.states import Phase, Status, answer_word
from .call_runner import CallRunner, HandlerLimits
from .context import Worker
from .costs import call_costs
from .log_level import LogLevel
from .service import Service
from .slow_calls import SlowCalls

__all__ = ["Handler", "HandlerLimits", "run_handler"]

log = logging.getLogger("faircall.handler")

BACKSTOP_MS = 200  # longest sleep: a wake-up that was lost with its ringer costs no more
CLAIM_AT_MOST = 32  # calls of one claim
BESIDE_ALIGNMENT = 64  # bytes: where an answer begins behind its request

_S = {name: word_of(SLOT, name) for name in SLOT.names or ()}
_CALL, _REQUEST, _DEADLINE = _S["call"], _S["request"], _S["deadline_ns"]
_ARRIVED = _S["arrived_ns"]
_ANSWER, _ANSWER_PAGE, _SPENT = _S["answer"], _S["answer_page"], _S["spent_ns"]
_ARRIVED = _S["arrived_ns"]
_METHOD_WORDS = METHOD.itemsize // WORD
_EXPECTED = word_of(METHOD, "expected_ns")
_TO_MEAN = word_of(METHOD, "mean_ns") - _EXPECTED
_RUN, _FAILED, _BUSY = int(Counter.RUN), int(Counter.FAILED), int(Counter.BUSY_NS)


class Handler:
    """`do_work` moves calls, `idle` waits for the bell; `run` repeats them until the end."""

    def __init__(
        self,
        shared: Shared,
        number: int,
        service: Service,
        limits: HandlerLimits,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.shared, self.number, self.service, self.limits = shared, number, service, limits
        self.worker, self._clock = Worker(index=number), clock
        self._table, self._q, self._pages = shared.table, shared.segment.q, shared.pages
        self._row = row = shared.row("handler", number)
        self._beat, self._current = row.word("beat_ns"), row.word("current")
        self._current_deadline = row.word("current_deadline_ns")
        self._counts = shared.columns.own(row.index)
        self._runner = CallRunner(shared, row.index, service, self.worker, limits, clock)
        self._costs = call_costs(shared, row.index, number, limits.costs)
        self._slow: SlowCalls | None = None
        if limits.slow_rpc:
            threshold_ms = limits.slow_rpc_threshold_ms
            self._slow = SlowCalls(shared, number, self._counts, threshold_ms)
        self._expected0 = shared.names.methods.first + _EXPECTED
        self._slots, self._tokens = [0] * CLAIM_AT_MOST, [0] * CLAIM_AT_MOST
        readers = range(shared.geometry.readers)
        self._done: list[tuple[list[int], list[int]]] = [([], []) for _ in readers]
        self._ended: list[int] = []  # slots that have something to be settled, and what they used
        self._used: list[tuple[int, int, bool]] = []
        self._sleeping = [shared.row("reader", reader).word("sleeping") for reader in readers]
        self._bell = shared.doorbells.handlers[number]
        self._log_level = LogLevel(shared)
        self._poll = select.poll()
        self._poll.register(self._bell, select.POLLIN)

    def start(self) -> None:
        """Run the start hooks and make the methods known to the readers."""
        self.service.start(self.worker)
        for method in self.service.methods.values():
            flags = states.IDEMPOTENT if method.idempotent else 0
            timeout_ns = int((method.timeout_s or 0) * 1e9)
            self.shared.names.method(method.name, flags, timeout_ns)
        gc.collect()
        gc.freeze()
        gc.disable()  # no finaliser may run inside a critical section: see `_invoke`
        self._row["status"] = states.Life.READY

    def run(self) -> None:
        """Until the supervisor says STOPPED."""
        phase = self.shared.phase
        while not phase.reached(Phase.STOPPED):
            if not self.do_work():
                self.idle()
            self._log_level.follow()
        for error in self.service.stop(self.worker):
            log.error("stop hook failed", {"index": self.number, "error": repr(error)})

    def do_work(self) -> int:
        """Claim, run and publish once; how many calls."""
        now_ns = self._clock()
        self._q[self._beat] = now_ns
        count = self._table.claim(self.number, now_ns, self._slots, self._tokens)
        if self._table.wake:
            self.shared.doorbells.ring_handlers(self._table.wake)
        published_ns = now_ns
        for index in range(count):
            ended_ns = self._serve(self._slots[index], self._tokens[index])
            if ended_ns - published_ns > self._table.policy.claim_ahead_ns:
                self._publish()
                published_ns = ended_ns
        self._publish()
        return count

    def idle(self) -> None:
        """Wait for the bell, or until a look without any lock finds something to do.

        The claim that found nothing has set the idle bit, which stays until the bell rings: so
        there is no need to claim again for every backstop, only for what nobody rang for.
        """
        while not self._poll.poll(self._sleep_ms()):
            self._q[self._beat] = self._clock()
            if self._something_waits() or self.shared.phase.reached(Phase.STOPPED):
                return
        doorbells.clear(self._bell)

    def _something_waits(self) -> bool:
        opens_ns = self._q[self._table.held.next_open_word]
        return bool(self._q[self._table.waiting_word]) or 0 < opens_ns <= self._clock()

    def _sleep_ms(self) -> float:
        opens_ns = self._q[self._table.held.next_open_word]
        if not opens_ns:
            return BACKSTOP_MS
        return min(BACKSTOP_MS, max(0.0, (opens_ns - self._clock()) / 1e6))

    # -- one call --------------------------------------------------------------------------------

    def _serve(self, slot: int, token: int) -> int:
        """Run one claimed call and store its answer; when it ended, in ns."""
        q, own = self._q, self._table.slot0 + slot * SLOT_WORDS
        generation, deadline_ns = token >> states.GENERATION_SHIFT, q[own + _DEADLINE]
        q[self._current_deadline] = deadline_ns
        q[self._current] = generation << 32 | slot + 1  # <- from here on it counts as begun
        began_ns = ended_ns = self._clock()
        if q[own] != token or began_ns >= deadline_ns:
            self._counts[Counter.LATE] += 1
            q[own + _ANSWER] = answer_word(Status.EXPIRED, 0, generation)
        else:
            status, body = self._runner.run(own, token, deadline_ns)
            ended_ns = self._clock()
            self._settle(own, began_ns, ended_ns, status)
            self._store(slot, own, generation, status, body)
        if q[own + W_LIMITERS] and q[own + W_BUDGET]:
            self._ended.append(slot)
            size = q[own + _ANSWER] >> 8 & 0xFFFF_FFFF
            self._used.append(((ended_ns - began_ns) // 1000, size, ended_ns > began_ns))
        q[self._current] = 0
        slots, tokens = self._done[slot // self._table.slots_per_reader]
        slots.append(slot)
        tokens.append(token)
        return ended_ns

    def _settle(self, own: int, began_ns: int, ended_ns: int, status: int) -> None:
        """What the call took goes into this handler's columns and the method's expected time."""
        q, counts, columns = self._q, self._counts, self.shared.columns
        spent_ns, word = ended_ns - began_ns, q[own + _CALL]
        method, failed = word & 0xFFFF_FFFF, status == Status.ERROR
        q[own + _SPENT] = spent_ns
        if self._costs:
            self._costs.settle(own, method, self._runner.call, began_ns, ended_ns)
        if self._slow:
            self._slow.look(method, self._runner.call, spent_ns)
        columns.ran(self.number, method, spent_ns, failed)
        level = word >> states.SCHEDULED_SHIFT & states.LEVEL_MASK
        columns.responded(self.number, level, max(0, ended_ns - q[own + _ARRIVED]))
        counts[_RUN] += 1
        counts[_BUSY] += spent_ns
        if failed:
            counts[_FAILED] += 1
        expected = self._expected0 + method * _METHOD_WORDS
        q[expected] = adjusted(q[expected], spent_ns, q[expected + _TO_MEAN])

    def _store(self, slot: int, own: int, generation: int, status: int, body: bytes) -> None:
        """Write the answer beside its request if it fits, else into pages of its own."""
        q, length, place = self._q, len(body), 0
        if length > self.limits.max_answer_bytes:
            status, length = Status.TOO_LARGE, 0
        elif length:
            place = self._beside(q[own + _REQUEST], length)
            place = place or self._pages.take(slot, ANSWER, length)
            if place:
                self._pages.write(place, body)
            else:
                status, length = Status.NO_ROOM, 0
        q[own + _ANSWER_PAGE] = place
        q[own + _ANSWER] = answer_word(status, length, generation)  # <- complete

    def _beside(self, request: int, length: int) -> int:
        """The place behind the request in its page; 0 if the answer does not fit there."""
        page, used = request & 0xFFFF_FFFF, request >> 32
        offset = -(-used // BESIDE_ALIGNMENT) * BESIDE_ALIGNMENT
        if offset + length > SMALL_PAGE or page > self.shared.geometry.small_pages:
            return 0
        return offset << 32 | page

    def _publish(self) -> None:
        """Hand over the answers that are complete, and ring the readers that sleep.

        What their calls used is charged before: a reader may use the slots anew at once.
        """
        if self._ended:
            self._table.settle(self._ended, self._used, self._clock())
            self._ended.clear()
            self._used.clear()
        for reader, (slots, tokens) in enumerate(self._done):
            if slots:
                self._table.publish(reader, slots, tokens, len(slots))
                if self._waits_for(slots, self._q[self._sleeping[reader]]):
                    self.shared.doorbells.ring_reader(reader)
                slots.clear()
                tokens.clear()

    def _waits_for(self, slots: list[int], sleeping: int) -> bool:
        """Whether a reader is to be woken: it sleeps, or it naps and one of the calls is young."""
        if sleeping in (doorbells.AWAKE, doorbells.ANY_AGE):
            return bool(sleeping)
        q, arrived, now_ns = self._q, self._table.slot0 + _ARRIVED, self._clock()
        return any(now_ns - q[arrived + slot * SLOT_WORDS] < sleeping for slot in slots)


def run_handler(
    shared: Shared,
    number: int,
    load: Callable[[], Service],
    limits: HandlerLimits,
    report: Callable[[str], None],
) -> int:
    """The life of a handler process, after the fork: its exit status.

    `load` imports the user's code, here for the first time; `report` tells the supervisor "ready".
    What user code raises to end the process (SystemExit) ends it: the reaper answers the call.
    """
    shared.row("handler", number).enter()
    handler = Handler(shared, number, load(), limits)
    handler.start()
    report("ready")
    log.info("handler ready", {"index": number, "pid": os.getpid()})
    before = shared.columns.own(shared.index("handler", number))[Counter.RUN]
    handler.run()
    calls = shared.columns.own(shared.index("handler", number))[Counter.RUN] - before
    log.debug("handler stopped", {"index": number, "calls": calls})
    return 0

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
import time
from collections.abc import Callable

from ..shm import doorbells, states
from ..shm.columns import Counter
from ..shm.figures import CallFigures
from ..shm.layout import SLOT, word_of
from ..shm.pages import ANSWER
from ..shm.rings import SLOT_WORDS
from ..shm.shared import Shared
from ..shm.slot_limiters import CLOSER, W_BUDGET, W_LIMITERS
from ..shm.states import GENERATION_SHIFT, GENERATIONS, Status, answer_word
from .call_runner import CallRunner, HandlerLimits
from .context import DEFAULT_GROUP, Call, Worker
from .costs import call_costs
from .idle import Idle
from .joint_runs import JointRuns
from .log_level import LogLevel
from .nested import Nested
from .service import Service
from .slow_calls import SlowCalls

__all__ = ["Handler", "HandlerLimits", "run_handler"]

log = logging.getLogger("faircall.handler")

CLAIM_AT_MOST = 32  # calls of one claim

_S = {name: word_of(SLOT, name) for name in SLOT.names or ()}
_CALL, _REQUEST, _DEADLINE = _S["call"], _S["request"], _S["deadline_ns"]
_ARRIVED = _S["arrived_ns"]
_ANSWER, _ANSWER_PAGE, _SPENT = _S["answer"], _S["answer_page"], _S["spent_ns"]
_RESERVED = _S["reserved"]
_ERROR = int(Status.ERROR)


class Handler:
    """`do_work` moves calls, `idle.wait` waits for some; `run` repeats them until the end."""

    def __init__(
        self,
        shared: Shared,
        number: int,
        service: Service,
        limits: HandlerLimits,
        clock: Callable[[], int] = time.monotonic_ns,
        generation: int = 0,
        seat: int | None = None,
        group: str = DEFAULT_GROUP,
    ) -> None:
        """The service is told that it has the index `seat`, by default `number`, in `group`."""
        self.shared, self.number, self.service, self.limits = shared, number, service, limits
        self.generation = generation
        self.worker = Worker(index=number if seat is None else seat, group=group)
        self._clock = clock
        self._table, self._q, self._pages = shared.table, shared.segment.q, shared.pages
        self._claims = shared.table.claims
        self._claims.serve(number)
        self._row = row = shared.row("handler", number)
        self._beat, self._current = row.word("beat_ns"), row.word("current")
        self._current_deadline = row.word("current_deadline_ns")
        self._figures = CallFigures(
            shared.segment, shared.columns, shared.histograms, number, row.index
        )
        self.runner = CallRunner(shared, row.index, service, self.worker, limits, clock)
        self._costs = call_costs(shared, row.index, number, limits.costs)
        self._slow: SlowCalls | None = None
        if limits.slow_rpc:
            threshold_ms = limits.slow_rpc_threshold_ms
            counts = shared.columns.own(row.index)
            self._slow = SlowCalls(shared, number, counts, threshold_ms)
        self._slot0, self._slots_per_reader = shared.table.slot0, shared.table.slots_per_reader
        self._slots, self._tokens = [0] * CLAIM_AT_MOST, [0] * CLAIM_AT_MOST
        readers = range(shared.geometry.readers)
        self._done: list[list[tuple[int, int]]] = [[] for _ in readers]  # (slot, state word)
        self._ended: list[int] = []  # slots that have something to be settled, and what they used
        self._used: list[tuple[int, int, bool]] = []
        self._sleeping = [shared.row("reader", reader).word("sleeping") for reader in readers]
        self.idle = Idle(shared, number, limits.watch_ns, clock)
        self._joint_runs = JointRuns(self, row, clock)
        self._log_level = LogLevel(shared)

    def start(self) -> None:
        """Run the start hooks and make the methods known to the readers."""
        self.service.start(self.worker)
        for method in (*self.service.methods.values(), self.service.discover):
            flags = states.IDEMPOTENT if method.idempotent else 0
            flags |= states.TOGETHER if method.batch else 0
            timeout_ns = int((method.timeout_s or 0) * 1e9)
            row = self.shared.names.method(method.name, flags, timeout_ns, self.generation)
            if method.batch:
                within_ns = int(method.within_ms * 1e6)
                self._table.joint.methods[row] = method.batch, within_ns
        gc.collect()
        gc.freeze()
        gc.disable()  # no finaliser may run inside a critical section: see `_invoke`
        self._row["status"] = states.Life.READY

    def run(self) -> None:
        """Until the supervisor says STOPPED, or has a successor for this process."""
        while not self.idle.is_to_end():
            if not self.do_work():
                self.idle.wait()
            self._log_level.follow()
        if wake := self._table.leave(self.number):
            self.shared.doorbells.ring_handlers(wake)
        for error in self.service.stop(self.worker):
            log.error("stop hook failed", {"index": self.number, "error": repr(error)})

    def do_work(self) -> int:
        """Claim, run and publish once; how many calls."""
        now_ns = self._clock()
        self._q[self._beat] = now_ns
        count = self._table.claim(self.number, now_ns, self._slots, self._tokens)
        if self._claims.wake:
            self.shared.doorbells.ring_handlers(self._claims.wake)
        published_ns = now_ns
        turned_away = self._turn_away() if self._table.turned_away else 0
        for index in range(count):
            if index and index == count - 1 and self._may_take_long(self._slots[index]):
                self._publish()  # those before it do not wait for it
            ended_ns = self._serve(self._slots[index], self._tokens[index])
            if ended_ns - published_ns > self._table.policy.claim_ahead_ns:
                self._publish()
                published_ns = ended_ns
        if count:
            self._publish()
        if joined := len(self._table.joint.slots):
            self._joint_runs.serve(self._table.joint)
            self._publish()
        return count + joined + turned_away

    def _may_take_long(self, slot: int) -> bool:
        """Whether the call in `slot` may take longer than what is claimed ahead: of one claim only
        the last call can."""
        expected_ns = self._q[self._table.slot0 + slot * SLOT_WORDS + _RESERVED]
        return not 0 < expected_ns <= self._table.policy.claim_ahead_ns

    def _turn_away(self) -> int:
        """Answer what the claim found no room to hold; how many calls."""
        q, away = self._q, self._table.turned_away
        for slot, token in away:
            own = self._table.slot0 + slot * SLOT_WORDS
            q[own + _ANSWER_PAGE] = 0
            q[own + _ANSWER] = answer_word(Status.THROTTLED, 0, token >> states.GENERATION_SHIFT)
            self.hand_over(slot, token)
        count = len(away)
        away.clear()
        self._publish()
        return count

    # -- one call --------------------------------------------------------------------------------

    def _serve(self, slot: int, token: int) -> int:
        """Run one claimed call and store its answer; when it ended, in ns."""
        q, own = self._q, self._slot0 + slot * SLOT_WORDS
        deadline_ns = q[own + _DEADLINE]
        q[self._current_deadline] = deadline_ns
        q[self._current] = token & GENERATIONS | slot + 1  # <- from here on it counts as begun
        began_ns = ended_ns = self._clock()
        if q[own] != token or began_ns >= deadline_ns:
            self.expire(own, token)
        else:
            status, body = self.runner.run(own, token, deadline_ns)
            ended_ns = self._clock()
            self.settle(own, self.runner.call, began_ns, ended_ns, ended_ns - began_ns, status)
            self.store(slot, own, token, status, body)
        if q[own + W_LIMITERS] >= CLOSER:
            self.used(slot, own, ended_ns - began_ns)
        q[self._current] = 0
        self._done[slot // self._slots_per_reader].append((slot, token))
        return ended_ns

    def is_late(self, own: int, token: int, now_ns: int) -> bool:
        """Whether a claimed call is not to begin any more: given up, or past its deadline."""
        return self._q[own] != token or now_ns >= self._q[own + _DEADLINE]

    def expire(self, own: int, token: int) -> None:
        self._figures.late(own)
        self._q[own + _ANSWER] = answer_word(Status.EXPIRED, 0, token >> GENERATION_SHIFT)

    def used(self, slot: int, own: int, spent_ns: int) -> None:
        """What a call whose answer is complete used of its limits is to be settled."""
        q = self._q
        if q[own + W_LIMITERS] >= CLOSER and q[own + W_BUDGET]:
            self._ended.append(slot)
            size = q[own + _ANSWER] >> 8 & 0xFFFF_FFFF
            self._used.append((spent_ns // 1000, size, spent_ns > 0))

    def hand_over(self, slot: int, token: int) -> None:
        """It is to be published."""
        self._done[slot // self._slots_per_reader].append((slot, token))

    def settle(
        self, own: int, call: Call, began_ns: int, ended_ns: int, spent_ns: int, status: int
    ) -> None:
        """What the call took goes into its slot and into this handler's figures.

        `spent_ns`: its part of the time, if it ran with others.
        """
        q = self._q
        q[own + _SPENT] = spent_ns
        if self._costs or self._slow:
            method = q[own + _CALL] & 0xFFFF_FFFF
            if self._costs:
                self._costs.settle(own, method, call, began_ns, began_ns + spent_ns)
            if self._slow:
                self._figures.store()  # it looks at all calls before this one
                self._slow.look(method, call, spent_ns)
        self._figures.ran(own, ended_ns, spent_ns, status == _ERROR)

    def store(self, slot: int, own: int, token: int, status: int, body: bytes) -> None:
        """Write the answer beside its request if it fits, else into pages of its own."""
        q, pages, length, place = self._q, self._pages, len(body), 0
        if length > self.limits.max_answer_bytes:
            status, length = Status.TOO_LARGE, 0
        elif length:
            place = pages.write_beside(q[own + _REQUEST], body)
            if not place:
                if place := pages.take(slot, ANSWER, length):
                    pages.write(place, body)
                else:
                    status, length = Status.NO_ROOM, 0
        q[own + _ANSWER_PAGE] = place
        q[own + _ANSWER] = answer_word(status, length, token >> GENERATION_SHIFT)  # <- complete

    def _publish(self) -> None:
        """Hand over the answers that are complete, and ring the readers that sleep.

        What their calls used is charged before: a reader may use the slots anew at once.
        """
        self._figures.store()
        if self._ended:
            self._table.settle(self._ended, self._used, self._clock())
            self._ended.clear()
            self._used.clear()
        for reader, calls in enumerate(self._done):
            if calls:
                self._table.publish(reader, calls)
                sleeping = self._q[self._sleeping[reader]]
                if sleeping and self._waits_for(calls, sleeping):
                    self.shared.doorbells.ring_reader(reader)
                calls.clear()

    def _waits_for(self, calls: list[tuple[int, int]], sleeping: int) -> bool:
        """Whether a reader is to be woken: it sleeps, or it naps and one of the calls is young."""
        if sleeping == doorbells.ANY_AGE:
            return True
        q, arrived, now_ns = self._q, self._slot0 + _ARRIVED, self._clock()
        return any(now_ns - q[arrived + slot * SLOT_WORDS] < sleeping for slot, _ in calls)


def run_handler(
    shared: Shared,
    number: int,
    load: Callable[[], Service],
    limits: HandlerLimits,
    report: Callable[[str], None],
    generation: int = 0,
    seat: int | None = None,
    group: str = DEFAULT_GROUP,
) -> int:
    """The life of a handler process, after the fork: its exit status.

    `load` imports the user's code, here for the first time; `report` tells the supervisor "ready".
    What user code raises to end the process (SystemExit) ends it: the reaper answers the call.
    """
    shared.row("handler", number).enter()
    service = load()
    handler = Handler(
        shared, number, service, limits, generation=generation, seat=seat, group=group
    )
    Nested(service, shared.name_of(shared.geometry.group_of(number))).install()
    handler.start()
    report("ready")
    log.info("handler ready", {"index": number, "pid": os.getpid()})
    before = shared.columns.own(shared.index("handler", number))[Counter.RUN]
    handler.run()
    calls = shared.columns.own(shared.index("handler", number))[Counter.RUN] - before
    log.debug("handler stopped", {"index": number, "calls": calls})
    return 0

"""One handler process: claim calls, run the service's functions, publish the answers.

What makes its death harmless: before user code it stores `current` in its process record and looks
at the call's state again; an answer word is stored the moment its answer is complete. So whoever
reaps it can tell: a complete answer is published, the current call is answered "handler died" or run
again, and what was claimed but never began goes back to its place.
"""

from __future__ import annotations

import gc
import logging
import os
import select
import time
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from ..shm import doorbells, states
from ..shm.columns import Counter
from ..shm.layout import METHOD, SLOT, SMALL_PAGE, WORD, word_of
from ..shm.pages import ANSWER
from ..shm.rings import SLOT_WORDS
from ..shm.shared import Shared
from ..shm.states import Phase, Status, answer_word
from . import context
from .context import Call, Worker
from .envelope import Meta, Request
from .invoke import Answer, invoke, run_message
from .service import Service

log = logging.getLogger("faircall.handler")

BACKSTOP_MS = 100  # longest sleep: a lost wake-up costs no more
CLAIM_AT_MOST = 32  # calls of one claim
BESIDE_ALIGNMENT = 64  # bytes: where an answer begins behind its request

_S = {name: word_of(SLOT, name) for name in SLOT.names or ()}
_METHOD_WORDS = METHOD.itemsize // WORD
_M_EXPECTED = word_of(METHOD, "expected_ns")
_decode_meta = msgspec.json.Decoder(Meta).decode


@dataclass(frozen=True, slots=True)
class HandlerLimits:
    """What a handler needs to know of the settings."""

    claim_ahead_ns: int = 200_000
    max_answer_bytes: int = 16 << 20
    max_batch: int = 1000
    max_depth: int = 128
    max_id_bytes: int = 256


class Handler:
    """`do_work` moves calls, `idle` waits for the bell; `run` repeats them until the server stops."""

    def __init__(
        self, shared: Shared, number: int, service: Service, limits: HandlerLimits
    ) -> None:
        self.shared, self.number, self.service, self.limits = shared, number, service, limits
        self.worker = Worker(index=number)
        self._table, self._q = shared.table, shared.segment.q
        self._row = shared.row("handler", number)
        self._beat = self._row.word("beat_ns")
        self._current = self._row.word("current")
        self._current_deadline = self._row.word("current_deadline_ns")
        self._slots, self._tokens = [0] * CLAIM_AT_MOST, [0] * CLAIM_AT_MOST
        self._ready: list[list[tuple[int, int]]] = [[] for _ in range(shared.geometry.readers)]
        self._method_names: dict[int, str] = {}
        self._user_names: dict[int, str] = {}
        self._sleeping = [
            shared.row("reader", reader).word("sleeping") for reader in range(len(self._ready))
        ]
        self._bell = shared.doorbells.handlers[number]
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
        while phase.get() != Phase.STOPPED:
            if not self.do_work():
                self.idle()
        for error in self.service.stop(self.worker):
            log.error("stop hook failed", {"index": self.number, "error": repr(error)})

    def do_work(self) -> int:
        """Claim, run and publish once; how many calls."""
        now_ns = time.monotonic_ns()
        self._q[self._beat] = now_ns
        count = self._table.claim(self.number, now_ns, self._slots, self._tokens)
        for index in range(count):
            self._serve(self._slots[index], self._tokens[index])
            if time.monotonic_ns() - now_ns > self.limits.claim_ahead_ns:
                self._publish()
        if count:
            self._publish()
        return count

    def idle(self) -> None:
        """Wait for the bell: the idle bit was set by the claim that found nothing."""
        if self._poll.poll(self._sleep_ms()):
            doorbells.clear(self._bell)

    def _sleep_ms(self) -> float:
        opens_ns = self._q[self._table.held.next_open_word]
        if not opens_ns:
            return BACKSTOP_MS
        return min(BACKSTOP_MS, max(0.0, (opens_ns - time.monotonic_ns()) / 1e6))

    # -- one call --------------------------------------------------------------------------------

    def _serve(self, slot: int, token: int) -> None:
        q = self._q
        own = self._table.slot0 + slot * SLOT_WORDS
        generation = token >> states.GENERATION_SHIFT
        deadline_ns = q[own + _S["deadline_ns"]]
        q[self._current_deadline] = deadline_ns
        q[self._current] = generation << 32 | slot + 1  # <- from here on it counts as begun
        began_ns = time.monotonic_ns()
        if q[own] != token or began_ns >= deadline_ns:
            self.shared.columns.add(self._row.index, Counter.LATE)
            q[own + _S["answer"]] = answer_word(Status.EXPIRED, 0, generation)
        else:
            status, body = self._run(slot, own, token, deadline_ns)
            self._settle(own, time.monotonic_ns() - began_ns, status)
            self._store(slot, own, generation, status, body)
        q[self._current] = 0
        self._ready[slot // self._table.slots_per_reader].append((slot, token))

    def _run(self, slot: int, own: int, token: int, deadline_ns: int) -> tuple[Status, bytes]:
        q = self._q
        word, request = q[own + _S["call"]], q[own + _S["request"]]
        body = self.shared.pages.read(request & 0xFFFF_FFFF, request >> 32)
        call = Call(
            method=self._method_name(word & 0xFFFF_FFFF),
            user=self._user_name(q[own + _S["identity"]]),
            deadline_ns=deadline_ns,
            level=token >> states.LEVEL_SHIFT & states.LEVEL_MASK,
            attempt=token >> states.ATTEMPT_SHIFT & states.ATTEMPT_MASK,
            worker=self.worker,
            is_abandoned=lambda: q[own] != token,
        )
        flags = word >> states.FLAGS_SHIFT & 0xFF
        if flags & states.WITH_META:
            body = _take_meta(call, body)
        if flags & states.UNDECODED:
            return Status.MESSAGE, self._run_undecoded(call, body)
        answer = self._invoke(call, body)
        return (Status.RESULT if answer.ok else Status.ERROR), answer.body

    def _invoke(self, call: Call, params: bytes) -> Answer:
        """User code: with garbage collection, and without any lock."""
        context.enter(call)
        gc.enable()
        try:
            return invoke(self.service, call.method, params, log_traceback=self._log_traceback)
        finally:
            gc.disable()
            context.leave()

    def _run_undecoded(self, call: Call, message: bytes) -> bytes:
        def run(request: Request) -> Answer:
            call.method = request.method
            if request.meta:
                _apply_meta(call, request.meta)
            return self._invoke(call, request.params)

        limits = self.limits
        answer = run_message(
            self.service,
            message,
            run=run,
            max_batch=limits.max_batch,
            max_depth=limits.max_depth,
            max_id_bytes=limits.max_id_bytes,
            max_answer_bytes=limits.max_answer_bytes,
        )
        return answer or b""

    def _settle(self, own: int, spent_ns: int, status: Status) -> None:
        """What the call took goes into this handler's columns and the method's expected time."""
        q, columns, index = self._q, self.shared.columns, self._row.index
        method = q[own + _S["call"]] & 0xFFFF_FFFF
        failed = status == Status.ERROR
        q[own + _S["spent_ns"]] = spent_ns
        columns.ran(self.number, method, spent_ns, failed)
        columns.add(index, Counter.RUN)
        columns.add(index, Counter.BUSY_NS, spent_ns)
        if failed:
            columns.add(index, Counter.FAILED)
        expected = self.shared.names.methods.first + method * _METHOD_WORDS + _M_EXPECTED
        if spent_ns > q[expected]:
            q[expected] = spent_ns

    def _store(self, slot: int, own: int, generation: int, status: Status, body: bytes) -> None:
        """Write the answer beside its request if it fits, else into pages of its own."""
        q, length = self._q, len(body)
        place = 0
        if length > self.limits.max_answer_bytes:
            status, length = Status.TOO_LARGE, 0
        elif length:
            place = self._beside(q[own + _S["request"]], length) or self.shared.pages.take(
                slot, ANSWER, length
            )
            if place:
                self.shared.pages.write(place, body)
            else:
                status, length = Status.NO_ROOM, 0
        q[own + _S["answer_page"]] = place
        q[own + _S["answer"]] = answer_word(status, length, generation)  # <- complete

    def _beside(self, request: int, length: int) -> int:
        """The place behind the request in its page; 0 if the answer does not fit there."""
        page, used = request & 0xFFFF_FFFF, request >> 32
        offset = -(-used // BESIDE_ALIGNMENT) * BESIDE_ALIGNMENT
        if offset + length > SMALL_PAGE or page > self.shared.geometry.small_pages:
            return 0
        return offset << 32 | page

    def _publish(self) -> None:
        """Hand over the answers that are complete, and ring the readers that sleep."""
        for reader, ready in enumerate(self._ready):
            if ready:
                slots, tokens = zip(*ready, strict=True)
                self._table.publish(reader, slots, tokens, len(ready))
                ready.clear()
                if self._q[self._sleeping[reader]]:
                    self.shared.doorbells.ring_reader(reader)

    # -- names -----------------------------------------------------------------------------------

    def _method_name(self, row: int) -> str:
        name = self._method_names.get(row)
        if name is None:
            name = self._method_names[row] = self.shared.names.methods.name(row)
        return name

    def _user_name(self, reference: int) -> str:
        name = self._user_names.get(reference)
        if name is None:
            if len(self._user_names) > 10_000:
                self._user_names.clear()
            row = reference & 0xFFFF_FFFF
            name = self._user_names[reference] = self.shared.names.identities.name(row)
        return name

    def _log_traceback(self, method: str, error: BaseException) -> None:
        fields = {"method": method, "error": type(error).__name__, "index": self.number}
        log.error("method raised", fields, exc_info=error)


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
    row = shared.row("handler", number)
    row.enter()
    handler = Handler(shared, number, load(), limits)
    handler.start()
    report("ready")
    log.info("handler ready", {"index": number, "pid": os.getpid()})
    handler.run()
    log.debug("handler stopped", {"index": number, "calls": shared.columns.total(Counter.RUN)})
    return 0


def _take_meta(call: Call, body: bytes) -> bytes:
    """Apply the meta in front of `body`; the params behind it."""
    end = states.META_LENGTH + int.from_bytes(body[: states.META_LENGTH], "big")
    _apply_meta(call, _decode_meta(body[states.META_LENGTH : end]))
    return body[end:]


def _apply_meta(call: Call, meta: Meta) -> None:
    call.context = meta.caller_context
    call.traceparent = meta.traceparent
    if meta.attempt:
        call.attempt = meta.attempt

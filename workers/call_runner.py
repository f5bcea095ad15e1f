"""From a claimed slot's words to what the service answers: (status, body).

The request is raw params with or without a meta in front; or, of a message that its reader has only
framed, the message itself: then everything is decoded, run in order and answered here.
"""

from __future__ import annotations

import functools
import gc
import itertools
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from ..scheduling.cost import CostRules
from ..shm import states
from ..shm.deadlines import method_timeout_ns
from ..shm.layout import SLOT, word_of
from ..shm.shared import Shared
from ..shm.states import ATTEMPT_MASK, ATTEMPT_SHIFT, LEVEL_MASK, LEVEL_SHIFT, Status
from . import context
from .batch_invoke import invoke_together
from .context import Call, Worker
from .envelope import Meta, Request, take_carried
from .errors import RpcError, deadline_exceeded, error_object
from .invoke import Answer, invoke, run_message
from .service import Service

log = logging.getLogger("faircall.handler")

_S = {name: word_of(SLOT, name) for name in SLOT.names or ()}
_CALL, _REQUEST, _ARRIVED = _S["call"], _S["request"], _S["arrived_ns"]
_CLAIMED = _S["claimed_ns"]
_IDENTITY, _PRINCIPAL = _S["identity"], _S["principal"]
_RESULT, _ERROR = int(Status.RESULT), int(Status.ERROR)
_UNDECODED = states.UNDECODED << states.FLAGS_SHIFT  # in a `call` word
_NOTIFICATION = states.NOTIFICATION << states.FLAGS_SHIFT
_WITH_META = states.WITH_META << states.FLAGS_SHIFT
_MAX_NAMES = 10_000  # of users that are remembered
_COUNTED = CostRules()
_Answers = TypeVar("_Answers")
_What = TypeVar("_What")
_Given = TypeVar("_Given")


@dataclass(frozen=True, slots=True)
class HandlerLimits:
    """What a handler needs to know of the settings."""

    max_answer_bytes: int = 16 << 20
    max_batch: int = 1000
    max_depth: int = 128
    max_id_bytes: int = 256
    costs: CostRules = _COUNTED
    slow_rpc: bool = False
    slow_rpc_threshold_ms: int = 0
    watch_ns: int = 0


class CallRunner:
    """One handler's; `index` is its process index. `call` is the call that was run last.

    `timed`: its times are needed for its cost. Where every call costs 1, those of a message are
    charged here, but for the first; else the message is charged for all of its time.
    """

    def __init__(
        self,
        shared: Shared,
        index: int,
        service: Service,
        worker: Worker,
        limits: HandlerLimits,
        clock: Callable[[], int],
    ) -> None:
        self._index, self._service, self._worker = index, service, worker
        self._own = 0
        self._limits, self._clock = limits, clock
        self._q, self._pages = shared.segment.q, shared.pages
        self._names, self._columns = shared.names, shared.columns
        self._levels = [shared.table.counts_as(level) for level in range(LEVEL_MASK + 1)]
        self._method_names: dict[int, str] = {}
        self._user_names: dict[int, str] = {}
        self.call = Call()
        self.timed = not limits.costs.counts_on_arrival
        self._item_cost = int(limits.costs.counts)

    def run(self, own: int, token: int, deadline_ns: int) -> tuple[int, bytes]:
        """Run the call whose slot's words begin at `own`, and whose state word is `token`."""
        self._own = own
        call, body = self._read(own, token, deadline_ns)
        self.call = call
        word = self._q[own + _CALL]
        if word & _UNDECODED:
            return Status.MESSAGE, self._run_message(own, call, body)
        answer = self._user_code(call, self._invoke, call.method, body)
        return _RESULT if answer.ok else _ERROR, b"" if word & _NOTIFICATION else answer.body

    def run_together(self, members: Sequence[tuple[int, int, int]]) -> list[tuple[int, bytes]]:
        """Run calls of one method at once: (own, token, deadline) each, as for `run`.

        `call` stands for all of them; its `calls` have their parts of its times.
        """
        self._own = members[0][0]
        read = [self._read(*member) for member in members]
        calls = tuple(call for call, _ in read)
        self.call = together = Call(
            method=calls[0].method,
            user=calls[0].user if len({call.user for call in calls}) == 1 else "",
            deadline_ns=max(call.deadline_ns for call in calls),
            level=min(call.level for call in calls),
            worker=self._worker,
            is_abandoned=lambda: all(call.is_abandoned() for call in calls if call.is_abandoned),
            clock=self._clock,
            claimed_ns=calls[0].claimed_ns,
            chain=tuple(dict.fromkeys(server for call in calls for server in call.chain)),
            calls=calls,
        )
        run = functools.partial(
            invoke_together,
            interceptors=self._service.interceptors,
            log_traceback=self._log_traceback,
            too_late=self._too_late,
        )
        answers = self._user_code(together, run, self._service.methods[together.method], read)
        together.share_phases()
        silent = [self._q[own + _CALL] & _NOTIFICATION for own, _, _ in members]
        return [
            (_RESULT if answer.ok else _ERROR, b"" if unasked else answer.body)
            for answer, unasked in zip(answers, silent, strict=True)
        ]

    def _read(self, own: int, token: int, deadline_ns: int) -> tuple[Call, bytes]:
        """A call, and its params or its message."""
        q = self._q
        word, request, principal = q[own + _CALL], q[own + _REQUEST], q[own + _PRINCIPAL]
        body = self._pages.read(request & 0xFFFF_FFFF, request >> 32)
        call = Call(
            method=self._method_names.get(word & 0xFFFF_FFFF) or self._name_method(word),
            user=self._user_names.get(principal) or self._name_user(principal),
            deadline_ns=deadline_ns,
            claimed_ns=q[own + _CLAIMED],
            level=self._levels[token >> LEVEL_SHIFT & LEVEL_MASK],
            attempt=token >> ATTEMPT_SHIFT & ATTEMPT_MASK,
            worker=self._worker,
            is_abandoned=lambda: q[own] != token,
            clock=self._clock,
        )
        if word & _WITH_META:
            body = _take_meta(call, body)
        return call, body

    def _invoke(self, method: str, params: bytes) -> Answer:
        return invoke(
            self._service,
            method,
            params,
            log_traceback=self._log_traceback,
            too_late=self._too_late,
        )

    def _user_code(
        self, call: Call, code: Callable[[_What, _Given], _Answers], what: _What, given: _Given
    ) -> _Answers:
        """With garbage collection, and without any lock."""
        context.enter(call)
        began_ns = self._clock() if self.timed else 0
        gc.enable()
        try:
            return code(what, given)
        finally:
            gc.disable()
            context.leave()
            if self.timed:
                call.processing_ns = self._clock() - began_ns

    def _run_message(self, own: int, call: Call, message: bytes) -> bytes:
        """A whole message: its reader charged one call for it, the others are charged here."""
        identity, calls = self._q[own + _IDENTITY] & 0xFFFF_FFFF, itertools.count()

        def run(request: Request) -> Answer:
            if next(calls):
                self._columns.charge(self._index, identity, self._item_cost)
            item = msgspec.structs.replace(
                call, method=request.method, wait_ns=0, shared_ns=0, exclusive_ns=0,
                processing_ns=0, reported_ns=None,
            )  # fmt: skip
            if request.meta:
                _apply_meta(item, request.meta)
                item.deadline_ns = self._sooner(own, item.deadline_ns, request.meta.timeout_ms)
            try:
                item.check()  # the items before it may have taken all the time
            except RpcError as error:
                return Answer(False, error_object(error.code))
            try:
                return self._user_code(item, self._invoke, item.method, request.params)
            finally:
                call.add_phases_of(item)

        limits = self._limits
        answer = run_message(
            self._service,
            message,
            run=run,
            max_batch=limits.max_batch,
            max_depth=limits.max_depth,
            max_id_bytes=limits.max_id_bytes,
            max_answer_bytes=limits.max_answer_bytes,
        )
        return answer or b""

    def _sooner(self, own: int, deadline_ns: int, timeout_ms: float | None) -> int:
        """The deadline of an item that asks for a time of its own, which no reader has seen."""
        if timeout_ms is None:
            return deadline_ns
        return min(deadline_ns, self._q[own + _ARRIVED] + int(timeout_ms * 1e6))

    def _name_method(self, word: int) -> str:
        """Rows of methods are never given to another."""
        row = word & 0xFFFF_FFFF
        name = self._method_names[row] = self._names.methods.name(row)
        return name

    def _name_user(self, reference: int) -> str:
        if len(self._user_names) >= _MAX_NAMES:
            self._user_names.clear()
        row = reference & 0xFFFF_FFFF
        name = self._user_names[reference] = self._names.identities.name(row)
        return name

    def _too_late(self) -> bytes:
        """The error object of a method that `check` or its event loop ended at its deadline."""
        return deadline_exceeded(method_timeout_ns(self._names, self._q, self._own))

    def _log_traceback(self, method: str, error: BaseException) -> None:
        fields = {"method": method, "error": type(error).__name__, "index": self._worker.index}
        log.error("method raised", fields, exc_info=error)


def _take_meta(call: Call, body: bytes) -> bytes:
    """Apply the meta in front of `body`; the params behind it."""
    meta, params = take_carried(body)
    _apply_meta(call, meta)
    call.user = meta.user or call.user
    return params


def _apply_meta(call: Call, meta: Meta) -> None:
    call.context = meta.caller_context or call.context
    call.traceparent = meta.traceparent or call.traceparent
    call.chain = meta.chain or call.chain
    if meta.attempt:
        call.attempt = meta.attempt

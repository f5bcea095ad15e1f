"""Calls that a function makes itself, through a `Client`: of this server, or of others.

A handler that waits for a call of its own server while all its handlers do waits for nobody. Such
a call bears the server in its `meta.chain`; its reader refuses it while no handler is idle, and it
runs here, inside the call that made it (`handlers.nested-calls`). At least the last handler that
would begin to wait finds none idle: so one always goes on.
"""

from __future__ import annotations

import logging
import threading

import msgspec

from ..client import within
from ..client.within import Surroundings
from . import context
from .context import Call, running_call
from .envelope import Request
from .invoke import Answer, invoke, run_message
from .service import Service

log = logging.getLogger("faircall.handler")


def _log_traceback(method: str, error: BaseException) -> None:
    fields = {"method": method, "error": type(error).__name__, "nested": True}
    log.error("method raised", fields, exc_info=error)


class Nested:
    """That of one handler of the server `name`; `install` makes its clients ask it."""

    def __init__(self, service: Service, name: str) -> None:
        self._service, self._name = service, name
        self._thread = threading.get_ident()

    def install(self) -> None:
        """From now on clients in this process know of the call that runs."""
        within.source, within.inline = self.surroundings, self.run

    def surroundings(self) -> Surroundings | None:
        """The call that runs; None outside of one."""
        call = running_call()
        if call is None:
            return None
        return Surroundings(
            remaining_s=call.remaining(),
            user=call.user,
            context=call.context,
            traceparent=call.traceparent,
            chain=(*call.chain, self._name),
        )

    def run(self, message: bytes) -> bytes | None:
        """The answer to a message of the function that runs; None if it cannot run here.

        Only the handler's own thread runs calls, one inside the other, never two side by side.
        """
        outer = running_call()
        if outer is None or threading.get_ident() != self._thread:
            return None

        def run(request: Request) -> Answer:
            return self._run(outer, request)

        return run_message(self._service, message, run=run)

    def _run(self, outer: Call, request: Request) -> Answer:
        call = msgspec.structs.replace(
            outer, method=request.method, chain=(*outer.chain, self._name), wait_ns=0, shared_ns=0,
            exclusive_ns=0, processing_ns=0, reported_ns=None, calls=(),
        )  # fmt: skip
        meta = request.meta
        if meta and meta.caller_context:
            call.context = meta.caller_context
        if meta and meta.timeout_ms is not None:
            deadline_ns = call.clock() + int(meta.timeout_ms * 1e6)
            call.deadline_ns = min(outer.deadline_ns or deadline_ns, deadline_ns)
        try:
            with context.running(call):
                return invoke(
                    self._service, call.method, request.params, log_traceback=_log_traceback
                )
        finally:
            outer.add_phases_of(call)

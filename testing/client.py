"""Calls of a service without a server: everything but the processes and the queue.

Parameters go through JSON and are checked, the envelope is decoded, hooks run, `current_call()`
works, and what the function raises becomes the error that a client gets. There are no levels, no
limits and no other process: nothing is refused, and a function that ends its process ends the test.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import orjson

from ..client.errors import remote_error
from ..client.request import build_request
from ..workers import eventloop
from ..workers.context import Call, Worker, running
from ..workers.envelope import Request
from ..workers.errors import deadline_exceeded
from ..workers.invoke import Answer, invoke, log_traceback, run_message
from ..workers.service import Service

PLACE = "the test client"


class TestClient:
    """Calls the methods of `service` in this process, for `user`.

    `with TestClient(service) as client:` runs the start hooks before and the stop hooks after, and
    `async def` methods have one event loop; without `with` no hook runs, and each message has a
    loop of its own. Errors are those of `faircall.Client`; the `__cause__` of one is what the
    function raised, if it was no RpcError.
    """

    __test__ = False  # nothing for pytest to collect

    def __init__(
        self, service: Service, *, user: str = "tester", context: str | None = None
    ) -> None:
        self.service, self.user, self.context = service, user, context
        self._entered = False

    def of(self, user: str) -> TestClient:
        """The same for another user; its hooks and event loop are those of this one."""
        other = TestClient(self.service, user=user, context=self.context)
        other._entered = self._entered
        return other

    def call(self, method: str, /, *args: Any, timeout: float | None = None, **kwargs: Any) -> Any:
        """The result of `method`, as it comes out of JSON; RemoteError.

        `timeout`: seconds, or those of the method. A function that runs longer is not stopped, but
        its call is answered DeadlineExceeded as a server would.
        """
        limit_s = math.inf if timeout is None else timeout
        raised: list[BaseException] = []
        message = build_request(method, args, kwargs, limit_s=limit_s, context=self.context)
        answer = self._send(message.encode(1), lambda _, error: raised.append(error))
        answered = orjson.loads(answer or b"{}")
        if "error" not in answered:
            return answered["result"]
        error = answered["error"]
        failure = remote_error(error["code"], error["message"], error["data"], method, PLACE)
        raise failure from (raised[0] if raised else None)

    def notify(self, method: str, /, *args: Any, **kwargs: Any) -> None:
        """Runs `method`, of which nobody hears; what it raises is logged."""
        request = build_request(method, args, kwargs, context=self.context, notification=True)
        self._send(request.encode(None), log_traceback)

    def send(self, message: bytes | str) -> bytes | None:
        """The answer to a whole JSON-RPC message, one request or a batch; None if there is none."""
        return self._send(message.encode() if isinstance(message, str) else message, log_traceback)

    def __enter__(self) -> Self:
        self.service.prepare()
        self.service.start(Worker())
        self._entered = True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._entered = False
        for failure in self.service.stop(Worker()):
            raise failure

    def _send(self, message: bytes, log: Callable[[str, BaseException], None]) -> bytes | None:
        def run(request: Request) -> Answer:
            return self._run(request, log)

        def answer() -> bytes | None:
            try:
                return run_message(self.service, message, run=run)
            finally:
                if not self._entered:
                    eventloop.close()

        return _outside_of_loops(answer)

    def _run(self, request: Request, log: Callable[[str, BaseException], None]) -> Answer:
        meta, method = request.meta, self.service.find(request.method)
        asked_ms = meta.timeout_ms if meta else None
        asked_s = math.inf if asked_ms is None else asked_ms / 1000
        limit_s = min(asked_s, (method and method.timeout_s) or math.inf)
        deadline_ns = time.monotonic_ns() + int(limit_s * 1e9) if math.isfinite(limit_s) else 0
        call = Call(
            method=request.method,
            user=self.user,
            context=(meta and meta.caller_context) or self.context,
            traceparent=meta.traceparent if meta else None,
            attempt=(meta and meta.attempt) or 0,
            deadline_ns=deadline_ns,
        )
        with running(call):
            answer = invoke(self.service, request.method, request.params, log_traceback=log)
        if deadline_ns and call.clock() >= deadline_ns:
            own_ns = int(((method and method.timeout_s) or 0) * 1e9)
            return Answer(False, deadline_exceeded(own_ns if limit_s * 1e9 == own_ns else 0))
        return answer


def _outside_of_loops(run: Callable[[], bytes | None]) -> bytes | None:
    """`run()`, in a thread where an event loop runs here: that cannot run `async def` methods."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return run()
    done: list[bytes | None] = []
    thread = threading.Thread(target=lambda: done.append(run()))
    thread.start()
    thread.join()
    return done[0]

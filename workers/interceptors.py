"""What a service does around each of its calls: `@service.before` and `@service.after`.

    before, in the order of declaration ──► the function ──► after, the last declared first

A `before` hook lets a call pass by returning, and refuses it by raising an RpcError. If it fails in
another way the call is refused, too: a check that cannot be made has not been passed. An `after`
hook is told of every call that reached the hooks, refused ones too, and changes nothing. Whatever
a hook raises is logged and does not end the handler.
"""

from __future__ import annotations

import inspect
import logging
import math
import time
from collections.abc import Callable
from typing import Any, Final

from . import eventloop
from .context import Call, running_call
from .errors import INTERNAL_ERROR, RpcError, ServiceError

_log: Final = logging.getLogger("faircall.workers")


class Interception:
    """One call, as hooks see it: `call` is what `current_call()` gives.

    `error` is what the function or a `before` hook raised, None if there is a `result`;
    `duration_s` is the time in the function, 0 if it did not run: both are for `after` hooks.
    """

    __slots__ = ("_args", "_function", "_kwargs", "call", "duration_s", "error", "method", "result")

    def __init__(
        self,
        call: Call,
        method: str,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        self.call, self.method = call, method
        self._function, self._args, self._kwargs = function, args, kwargs
        self.result: Any = None
        self.error: Exception | None = None
        self.duration_s = 0.0

    @property
    def user(self) -> str:
        """Who calls, as the server knows it."""
        return self.call.user

    @property
    def params(self) -> dict[str, Any]:
        """Parameter name to value, as the function gets it."""
        return dict(inspect.signature(self._function).bind(*self._args, **self._kwargs).arguments)


Interceptor = Callable[[Interception], Any]


class Interceptors:
    """Those of one service. ServiceError for what cannot be one."""

    def __init__(self) -> None:
        self._before: list[Interceptor] = []
        self._after: list[Interceptor] = []
        self.are_there = False  # any

    def add_before(self, hook: Interceptor) -> None:
        self._before.append(_checked(hook))
        self.are_there = True

    def add_after(self, hook: Interceptor) -> None:
        self._after.insert(0, _checked(hook))
        self.are_there = True

    def run(
        self,
        method: str,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        run: Callable[..., Any],
    ) -> Any:
        """What `run(*args, **kwargs)` returns, or what it or a hook raises."""
        call = running_call() or Call(method=method)
        seen = Interception(call, method, function, args, kwargs)
        began_s = math.inf
        try:
            self.ask(seen)
            began_s = time.monotonic()
            seen.result = run(*args, **kwargs)
            return seen.result
        except Exception as error:
            seen.error = error
            raise
        finally:
            seen.duration_s = max(0.0, time.monotonic() - began_s)
            self.tell(seen)

    def ask(self, seen: Interception) -> None:
        """Every `before` hook; RpcError if the call is not to run."""
        for hook in self._before:
            _ask(hook, seen)

    def tell(self, seen: Interception) -> None:
        """Every `after` hook."""
        for hook in self._after:
            _tell(hook, seen)


def _ask(hook: Interceptor, seen: Interception) -> None:
    """RpcError if the call is not to run."""
    try:
        _do(hook, seen)
    except RpcError:
        raise
    except Exception as error:
        _complain("before", hook, seen, error)
        text = f"Internal error: the check {_name(hook)}() of this service failed"
        raise RpcError(INTERNAL_ERROR, text, dict(reason="interceptor_failed")) from error


def _tell(hook: Interceptor, seen: Interception) -> None:
    try:
        _do(hook, seen)
    except Exception as error:
        _complain("after", hook, seen, error)


def _do(hook: Interceptor, seen: Interception) -> None:
    done = hook(seen)
    if inspect.iscoroutine(done):
        eventloop.run(done, seen.call.remaining() if seen.call.deadline_ns else math.inf)


def _complain(when: str, hook: Interceptor, seen: Interception, error: Exception) -> None:
    fields = {"hook": _name(hook), "when": when, "method": seen.method, "error": repr(error)}
    _log.error("hook failed", fields, exc_info=error)


def _checked(hook: Interceptor) -> Interceptor:
    if not callable(hook):
        raise ServiceError(f"a hook is a function, not {hook!r}")
    try:
        inspect.signature(hook).bind(None)
    except TypeError:
        raise ServiceError(f"hook {_name(hook)} takes one parameter, the call") from None
    return hook


def _name(hook: Interceptor) -> str:
    return str(getattr(hook, "__qualname__", repr(hook)))

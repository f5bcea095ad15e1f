"""Running many calls of one method at once: an answer for each.

A call whose params do not fit, or that a `before` hook refuses, is answered by itself, the others
go on without it. A result that is an exception answers its call with that error. What the function
raises, or a wrong number of results, answers all. `after` hooks are told of each call.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from .batch_signature import checked
from .context import Call
from .errors import RpcError, deadline_exceeded
from .interceptors import Interception, Interceptors
from .invoke import MAX_ERROR_CHARS, Answer, LogTraceback, failure_of, log_traceback, result_of
from .parameters import Arguments
from .service import Method


def invoke_together(
    method: Method,
    calls: Sequence[tuple[Call, bytes]],
    *,
    interceptors: Interceptors,
    log_traceback: LogTraceback = log_traceback,
    max_error_chars: int = MAX_ERROR_CHARS,
    too_late: Callable[[], bytes] = lambda: deadline_exceeded(0),
) -> list[Answer]:
    """The answers to `calls`, each with its raw params, in their order; the rest as `invoke`."""

    def answer(result: Any) -> Answer:
        if isinstance(result, Exception):
            return failure_of(method.name, result, log_traceback, max_error_chars, too_late)
        return result_of(method.name, result, log_traceback)

    found: list[Any] = []  # of each call its result, or what is in its way
    running: list[tuple[int, Arguments, Interception]] = []
    for call, params in calls:
        try:
            arguments = method.bind(params)
            seen = Interception(call, method.name, method.function, *arguments)
            if _is_refused(interceptors, seen):
                found.append(seen.error)
                continue
            running.append((len(found), arguments, seen))
            found.append(None)
        except RpcError as error:
            found.append(error)
    began_s = time.monotonic()
    results = _results(method, [arguments for _, arguments, _ in running])
    took_s = time.monotonic() - began_s
    for (place, _, seen), result in zip(running, results, strict=True):
        found[place] = result
        _tell(interceptors, seen, result, took_s)
    shared = {id(each): answer(each) for each in found if isinstance(each, Exception)}
    return [shared.get(id(each)) or answer(each) for each in found]


def _is_refused(interceptors: Interceptors, seen: Interception) -> bool:
    """Whether a `before` hook refuses a call; its error is in `seen`, and `after` hooks know."""
    try:
        interceptors.ask(seen)
    except RpcError as error:
        seen.error = error
        interceptors.tell(seen)
    return seen.error is not None


def _tell(interceptors: Interceptors, seen: Interception, result: Any, took_s: float) -> None:
    seen.duration_s = took_s
    if isinstance(result, Exception):
        seen.error = result
    else:
        seen.result = result
    interceptors.tell(seen)


def _results(method: Method, calls: list[Arguments]) -> Sequence[Any]:
    """A result or an exception for each."""
    if not calls:
        return []
    try:
        return checked(method.run_together(calls), len(calls))
    except Exception as error:
        return [error] * len(calls)

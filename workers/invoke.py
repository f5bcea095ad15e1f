"""Running one call, or one whole message, of a service: everything ends as JSON bytes.

What a method raises becomes an error answer; its traceback goes to the log and never to the caller.
Only what means "this process ends" (SystemExit, KeyboardInterrupt and other exceptions that are no
`Exception`) passes through.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import Any, Final

import orjson
from msgspec import Struct

from . import results
from .envelope import (
    MAX_BATCH,
    MAX_DEPTH,
    MAX_ID_BYTES,
    Invalid,
    Request,
    batch_answer,
    decode,
    error_answer,
    result_answer,
)
from .errors import (
    APPLICATION_ERROR,
    INTERNAL_ERROR,
    TOO_LARGE,
    DeadlineExceeded,
    RpcError,
    deadline_exceeded,
    error_object,
)
from .service import Service
from .suggestion import unknown_method

LogTraceback = Callable[[str, BaseException], None]

MAX_ERROR_CHARS: Final = 500
_log: Final = logging.getLogger("faircall.workers")


class Answer(Struct, frozen=True, gc=False):
    """`body` is the JSON of the result, or of the error object where `ok` is False."""

    ok: bool
    body: bytes


def log_traceback(method: str, error: BaseException) -> None:
    """The default: one record with the traceback to the logger `faircall.workers`."""
    _log.error("method raised: method=%r error=%s", method, type(error).__name__, exc_info=error)


def invoke(
    service: Service,
    method_name: str,
    params: bytes,
    *,
    log_traceback: LogTraceback = log_traceback,
    max_error_chars: int = MAX_ERROR_CHARS,
    too_late: Callable[[], bytes] = lambda: deadline_exceeded(0),
) -> Answer:
    """Runs one call.  `max_error_chars` cuts what an exception says; 0 shows only its type.

    `too_late` makes the error object of a DeadlineExceeded that says nothing itself.
    """
    method = service.methods.get(method_name) or service.find(method_name)
    if method is None:
        return Answer(False, unknown_method(method_name, lambda: service.methods))
    try:
        result = method.run(params, service.interceptors)
    except Exception as error:
        return failure_of(method_name, error, log_traceback, max_error_chars, too_late)
    return result_of(method_name, result, log_traceback)


def failure_of(
    method_name: str,
    error: Exception,
    log_traceback: LogTraceback,
    max_error_chars: int,
    too_late: Callable[[], bytes],
) -> Answer:
    """What the method raised; all but an RpcError goes to the log, too."""
    if isinstance(error, DeadlineExceeded) and error.args == (None,):
        return Answer(False, too_late())
    if isinstance(error, RpcError):
        return _chosen_error(method_name, error, log_traceback)
    log_traceback(method_name, error)
    return _unexpected_error(error, max_error_chars)


def result_of(method_name: str, result: Any, log_traceback: LogTraceback) -> Answer:
    """What the method returned, as JSON; an error if it cannot be written."""
    try:
        return Answer(True, results.encode(result))
    except Exception as error:
        log_traceback(method_name, error)
        text = f"the result of {method_name} cannot be written as JSON: {error}"
        return Answer(False, error_object(INTERNAL_ERROR, text, reason="unserialisable_result"))


def _chosen_error(method_name: str, error: RpcError, log_traceback: LogTraceback) -> Answer:
    try:
        data = orjson.Fragment(results.encode(error.wire_data))
        body = orjson.dumps({"code": error.code, "message": error.message, "data": data})
    except Exception as failure:
        log_traceback(method_name, failure)
        body = error_object(
            error.code, error.message, reason=error.reason, retriable=error.retriable
        )
    return Answer(False, body)


def _unexpected_error(error: Exception, max_chars: int) -> Answer:
    kind = type(error).__name__
    try:
        text = str(error)[:max_chars]
    except Exception:
        text = ""
    message = f"{kind}: {text}" if text else kind
    return Answer(False, error_object(APPLICATION_ERROR, message, type=kind))


def run_message(
    service: Service,
    message: bytes,
    *,
    run: Callable[[Request], Answer] | None = None,
    max_batch: int = MAX_BATCH,
    max_depth: int = MAX_DEPTH,
    max_id_bytes: int = MAX_ID_BYTES,
    max_answer_bytes: int = sys.maxsize,
) -> bytes | None:
    """The complete answer to an undecoded message, None if it asks for none; items run in order.

    `run` replaces the plain `invoke` of each request.  An answer that would make the sum of a
    message's answers larger than `max_answer_bytes` becomes a -32054 error.
    """
    run = run or (lambda request: invoke(service, request.method, request.params))
    decoded = decode(message, max_batch=max_batch, max_depth=max_depth, max_id_bytes=max_id_bytes)
    answers: list[bytes] = []
    left = max_answer_bytes
    for item in decoded.items:
        answer = _answer_item(item, run, left)
        if answer is not None:
            answers.append(answer)
            left -= len(answer)
    if not answers:
        return None
    return batch_answer(answers) if decoded.batch else answers[0]


def _answer_item(
    item: Request | Invalid, run: Callable[[Request], Answer], max_bytes: int
) -> bytes | None:
    if isinstance(item, Invalid):
        return error_answer(item.id, item.error)
    done = run(item)
    if item.id is None:
        return None
    if done.ok and len(done.body) > max_bytes:
        return error_answer(item.id, error_object(TOO_LARGE, "Too large: the answer"))
    return (result_answer if done.ok else error_answer)(item.id, done.body)

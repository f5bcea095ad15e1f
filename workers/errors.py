"""The error codes of the wire, and the exceptions that become them.

Every error object carries `data.reason` (a word for programs) and `data.retriable`; `ERRORS`
declares the defaults of each code once.  -32700 to -32603 are JSON-RPC 2.0's own, -32005 is
EIP-1474's "limit exceeded", the rest lies in the range that the specification leaves to
implementations.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import orjson

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
APPLICATION_ERROR: Final = -32000
LIMIT_EXCEEDED: Final = -32005
DEADLINE_EXCEEDED: Final = -32050
CANCELLED: Final = -32051
SHUTTING_DOWN: Final = -32052
HANDLER_DIED: Final = -32053
TOO_LARGE: Final = -32054
UNAUTHENTICATED: Final = -32055
FORBIDDEN: Final = -32056
STANDBY: Final = -32057


class ErrorKind(NamedTuple):
    """What an error of one code says unless its maker says otherwise."""

    message: str
    reason: str
    retriable: bool = False


ERRORS: Final[dict[int, ErrorKind]] = {
    PARSE_ERROR: ErrorKind("Parse error", "parse_error"),
    INVALID_REQUEST: ErrorKind("Invalid Request", "invalid_request"),
    METHOD_NOT_FOUND: ErrorKind("Method not found", "method_not_found"),
    INVALID_PARAMS: ErrorKind("Invalid params", "invalid_params"),
    INTERNAL_ERROR: ErrorKind("Internal error", "internal_error"),
    APPLICATION_ERROR: ErrorKind("Application error", "exception"),
    LIMIT_EXCEEDED: ErrorKind("Limit exceeded", "limit_exceeded", retriable=True),
    DEADLINE_EXCEEDED: ErrorKind("Deadline exceeded", "deadline_exceeded"),
    CANCELLED: ErrorKind("Cancelled", "cancelled"),
    SHUTTING_DOWN: ErrorKind("Shutting down", "shutting_down", retriable=True),
    HANDLER_DIED: ErrorKind("Handler died", "handler_died"),
    TOO_LARGE: ErrorKind("Too large", "too_large"),
    UNAUTHENTICATED: ErrorKind("Unauthenticated", "unauthenticated"),
    FORBIDDEN: ErrorKind("Forbidden", "forbidden"),
    STANDBY: ErrorKind("Standby", "standby", retriable=True),
}
_UNLISTED: Final = ErrorKind("Error", "error")


def error_object(
    code: int,
    message: str | None = None,
    *,
    reason: str | None = None,
    retriable: bool | None = None,
    **data: Any,
) -> bytes:
    """The JSON bytes of one error object; what is left out comes from `ERRORS`.

    `data` are further members of "data" (retry_after_ms, level, rule, ...) and must be plain JSON
    values.
    """
    kind = ERRORS.get(code, _UNLISTED)
    body = {
        "code": code,
        "message": kind.message if message is None else message,
        "data": {
            "reason": kind.reason if reason is None else reason,
            "retriable": kind.retriable if retriable is None else retriable,
            **data,
        },
    }
    try:
        return orjson.dumps(body)
    except TypeError:
        return orjson.dumps(_encodable(body))


def _encodable(value: Any) -> Any:
    """The same value with lone surrogates (undecodable file names in messages) replaced by `?`."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_encodable(key): _encodable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_encodable(item) for item in value]
    return value


def deadline_exceeded(method_timeout_ns: int) -> bytes:
    """-32050; `method_timeout_ns` above 0: what is over is the time that the method is given."""
    if not method_timeout_ns:
        return error_object(DEADLINE_EXCEEDED)
    seconds = method_timeout_ns / 1e9
    text = (
        f"Deadline exceeded: the call did not finish within the method's timeout of {seconds:g} s"
    )
    return error_object(DEADLINE_EXCEEDED, text, method_timeout_s=seconds)


class ServiceError(Exception):
    """A service that cannot be declared, loaded or started: one sentence for its author."""


class RpcError(Exception):
    """Raised by a method to choose the code, message and data of its error answer.

    Its caller gets it as `faircall.RemoteError`, which is no RpcError: a method that itself calls
    another server does not pass that one's errors on as its own.

    `data` None or an object gets `reason` and `retriable` beside its own members (its own ones
    win); any other value is sent as it is.  Codes from -32768 to -32000 are reserved by JSON-RPC
    2.0.
    """

    def __init__(
        self,
        code: int,
        message: str | None = None,
        data: Any = None,
        *,
        retriable: bool | None = None,
    ) -> None:
        if type(code) is not int or abs(code) >= 2**53:
            raise TypeError(f"an error code is an integer below 2**53, not {code!r}")
        kind = ERRORS.get(code, _UNLISTED)
        self.code = code
        self.message = kind.message if message is None else message
        self.data = data
        self.reason = kind.reason
        self.retriable = kind.retriable if retriable is None else retriable
        super().__init__(self.code, self.message, self.data)

    def __str__(self) -> str:
        return f"{self.message} ({self.code})"

    @property
    def wire_data(self) -> Any:
        """The "data" member as it goes to the client."""
        if self.data is None or isinstance(self.data, dict):
            return {"reason": self.reason, "retriable": self.retriable, **(self.data or {})}
        return self.data


class DeadlineExceeded(RpcError):
    """Raised inside a method by `current_call().check()` once the call's deadline is past."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(DEADLINE_EXCEEDED, message)
        self.args = (message,)


class CallCancelled(RpcError):
    """Raised inside a method by `current_call().check()` once nobody waits for the answer."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(CANCELLED, message)
        self.args = (message,)

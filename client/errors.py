"""What can become of a call, seen from its caller.

    RpcClientError
    ├── AddressError       the address cannot be read (also a ValueError)
    ├── ConnectionFailed   no connection, or it had ended before: the call was not sent
    ├── ConnectionLost     the connection ended before the answer: the call may have run
    ├── InvalidAnswer      what came back is not an answer of JSON-RPC 2.0
    └── RemoteError        the server answered with an error object
        ├── Busy               -32005, refused by a limit: try again later
        └── DeadlineExceeded   -32050, or no answer within the time the call was given

Each message says what failed, where, and what may be done about it.
"""

from __future__ import annotations

import errno
import os
import socket
from typing import Any

METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
LIMIT_EXCEEDED = -32005
DEADLINE_EXCEEDED = -32050
SHUTTING_DOWN = -32052
HANDLER_DIED = -32053
TOO_LARGE = -32054
UNAUTHENTICATED = -32055
STANDBY = -32057

_ADVICE = {
    METHOD_NOT_FOUND: "check its name: `faircall stats` lists the methods of the service",
    LIMIT_EXCEEDED: "try again later",
    DEADLINE_EXCEEDED: "give the call a longer timeout, or the server less work",
    SHUTTING_DOWN: "try another server",
    TOO_LARGE: "send or ask for less, or raise the limit of the server",
    STANDBY: "try another server",
}


class RpcClientError(Exception):
    """Every failure of a call: catch this to catch them all."""


class AddressError(RpcClientError, ValueError):
    """The address names no place that a client can connect to."""


class ConnectionFailed(RpcClientError, ConnectionError):
    """No connection could be made within the connect time-out, or the one there was had just ended;
    the call was not sent."""


class ConnectionLost(RpcClientError, ConnectionError):
    """The connection ended before the answer came; whether the call ran is not known."""


class InvalidAnswer(RpcClientError):
    """The other side does not speak JSON-RPC 2.0, or not in this framing."""


class RemoteError(RpcClientError):
    """The error object of an answer: `code`, `message` and `data` as they were sent."""

    def __init__(
        self, code: int, message: str, data: Any = None, method: str = "", address: str = ""
    ) -> None:
        self.code = code
        self.message = message
        self.data = data
        self.method = method
        self.address = address
        super().__init__(self._text())

    @property
    def reason(self) -> str | None:
        """The server's one word for the cause (`queue_full`, `throttled`, ...), if it gave one."""
        reason = self._member("reason")
        return reason if isinstance(reason, str) else None

    @property
    def retriable(self) -> bool:
        """Whether the server says that the same call may simply be made again."""
        return self._member("retriable") is True

    @property
    def retry_after_ms(self) -> float | None:
        """How long to wait before that, in milliseconds, where the server knows."""
        delay = self._member("retry_after_ms")
        return delay if type(delay) in (int, float) else None

    @property
    def denies_retry(self) -> bool:
        """Whether the server says that the same call may not be made again."""
        return self._member("retriable") is False

    def _member(self, name: str) -> Any:
        return self.data.get(name) if isinstance(self.data, dict) else None

    def _text(self) -> str:
        place = call_name(self.method, self.address)
        reason = f", {self.reason}" if self.reason else ""
        return f"{place}{self.message} ({self.code}{reason}){self._advice()}"

    def _advice(self) -> str:
        if self._member("method_timeout_s") is not None:
            return "; give the method a longer timeout, or the server less work"
        if self.retry_after_ms is not None:
            return f"; try again in {self.retry_after_ms:g} ms"
        return f"; {_ADVICE[self.code]}" if self.code in _ADVICE else ""

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.code, self.message, self.data, self.method, self.address)


class Busy(RemoteError):
    """A limit of the server refused the call before it ran: `reason` says which."""


class DeadlineExceeded(RemoteError, TimeoutError):
    """The time of the call was over, there (the server says so) or here (`reason` is `local`)."""


def remote_error(code: int, message: str, data: Any, method: str, address: str) -> RemoteError:
    """The error object of an answer as the exception of its code."""
    kinds: dict[int, type[RemoteError]] = {
        LIMIT_EXCEEDED: Busy,
        DEADLINE_EXCEEDED: DeadlineExceeded,
    }
    return kinds.get(code, RemoteError)(code, message, data, method, address)


def local_deadline(method: str, address: str, limit_s: float) -> DeadlineExceeded:
    """No answer came within `limit_s` seconds."""
    message = f"no answer within {_shown(limit_s)} s"
    data = {"reason": "local", "retriable": False}
    return DeadlineExceeded(DEADLINE_EXCEEDED, message, data, method, address)


def connection_failed(address: str, error: OSError, limit_s: float) -> ConnectionFailed:
    """Why no connection to `address` could be made, and what to look at."""
    if isinstance(error, TimeoutError):
        cause, advice = f"no connection within {_shown(limit_s)} s", "is the host up and reachable?"
    elif isinstance(error, socket.gaierror):
        cause, advice = error.strerror or str(error), "check the host name"
    elif error.errno == errno.ENOENT and (folder := _missing_folder(address)):
        cause, advice = f"the folder {folder} does not exist", "check the path"
    elif error.errno in (errno.EACCES, errno.EPERM):
        cause, advice = error.strerror or str(error), "may this user open the socket?"
    else:
        cause, advice = error.strerror or str(error), "is the server running, and is this where?"
    return ConnectionFailed(f"cannot connect to {address}: {cause}; {advice}")


def _missing_folder(address: str) -> str:
    """That of a Unix socket, if it does not exist."""
    folder = os.path.dirname(address.partition(":")[2])
    return folder if folder and not os.path.exists(folder) else ""


def hello_unanswered(address: str, error: RpcClientError) -> ConnectionFailed:
    """The connection was made, but the server did not say whether it accepts who is calling."""
    cause = str(error)
    if isinstance(error, RemoteError):
        cause = f"{error.message}; is this a faircall server, and alive?"
    return ConnectionFailed(
        f"cannot connect to {address}: faircall.hello was not answered: {cause}"
    )


def hello_refused(error: RemoteError) -> RemoteError:
    """The server does not believe who is calling: by which method we said so is of no interest."""
    if error.code != UNAUTHENTICATED:
        return error
    return type(error)(error.code, error.message, error.data, address=error.address)


def call_name(method: str, address: str) -> str:
    """`method at address: `, as messages begin; empty where neither is known."""
    place = " at ".join(part for part in (method, address) if part)
    return f"{place}: " if place else ""


def _shown(seconds: float) -> str:
    return f"{seconds:.3g}" if seconds < 1000 else f"{seconds:.0f}"

"""Requests as JSON text."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

CANCEL = "rpc.cancel"


@dataclass(frozen=True, slots=True)
class Request:
    """A request but for its id, which the connection gives it; a notification gets none.

    `limit_s`: how long its caller waits, in seconds, which may be infinite.
    """

    method: str
    members: bytes
    limit_s: float = math.inf
    notification: bool = False
    context: str | None = None
    meta: bytes = b""
    said: Mapping[str, Any] | None = None  # further members of its meta

    def encode(self, id: int | None) -> bytes:
        """The request object, on one line."""
        if id is None:
            return b'{"jsonrpc":"2.0",%b%b}' % (self.members, self.meta)
        return b'{"jsonrpc":"2.0","id":%d,%b%b}' % (id, self.members, self.meta)

    def again(self, left_s: float, attempt: int) -> Request:
        """The same call when it has been sent `attempt` times and `left_s` seconds are left."""
        return replace(self, meta=_meta(left_s, self.context, attempt, self.said))


def build_request(
    method: str,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    limit_s: float = math.inf,
    context: str | None = None,
    notification: bool = False,
    said: Mapping[str, Any] | None = None,
) -> Request:
    """Encodes the parameters, bytes as base64 and numpy arrays as lists, and what goes with them.

    TypeError if there are positional and named ones, or one that JSON cannot hold.
    """
    if args and kwargs:
        raise TypeError(f"{method}: JSON-RPC takes positional or named parameters, not both")
    members = [b'"method":' + orjson.dumps(method)]
    if args or kwargs:
        members.append(b'"params":' + _encode(args or kwargs))
    meta = _meta(limit_s, context, 0, said)
    return Request(method, b",".join(members), limit_s, notification, context, meta, said)


def cancel_request(id: int) -> Request:
    """Asks the server, which will not answer that, to drop the call with this id."""
    return build_request(CANCEL, kwargs={"id": id}, notification=True)


def _meta(
    limit_s: float, context: str | None, attempt: int, said: Mapping[str, Any] | None
) -> bytes:
    """The member `meta` and the comma before it, or nothing if there is nothing to say."""
    meta: dict[str, Any] = dict(said or {})
    if math.isfinite(limit_s):
        meta["timeout_ms"] = max(math.ceil(limit_s * 1000), 1)
    if context is not None:
        meta["caller_context"] = context
    if attempt:
        meta["attempt"] = attempt
    return b',"meta":' + orjson.dumps(meta) if meta else b""


def _encode(params: Any) -> bytes:
    try:
        return orjson.dumps(params, default=_as_base64, option=orjson.OPT_SERIALIZE_NUMPY)
    except orjson.JSONEncodeError as error:
        raise TypeError(f"a parameter cannot be sent as JSON: {error}") from error.__cause__


def _as_base64(value: Any) -> str:
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    raise TypeError(f"{type(value).__name__} is no JSON type")

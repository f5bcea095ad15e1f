"""What the protocols say to the reader.

    Message   one JSON-RPC message, single or batch, whole and undecoded: answer its exchange once
    Health    a probe (HTTP only): answer it with `health_answer`
    Send      bytes for the peer, now; empty while an older exchange holds them back
    Fault     a proxy's header is malformed: log it; the end, without a word
    Close     flush what was handed out, then close; always the last event

An exchange is one message and its answer, numbered from 1 within a connection.
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

HealthKind = Literal["livez", "readyz"]


class HttpMeta(Struct, frozen=True, gc=False):
    """What HTTP headers say about a call: None = header absent.  None of it is believed here.

    X-Faircall-User, X-Request-Timeout-Ms, X-Faircall-Context, traceparent, Authorization,
    X-Forwarded-For (all of them, with commas between). `names_somebody`: any of those that may say
    who calls is there.
    """

    user: str | None = None
    timeout_ms: int | None = None
    context: str | None = None
    traceparent: str | None = None
    authorization: str | None = None
    forwarded: str | None = None
    names_somebody: bool = False


class Message(Struct, frozen=True, gc=False):
    exchange: int
    body: bytes
    http: HttpMeta | None = None


class Health(Struct, frozen=True, gc=False):
    exchange: int
    kind: HealthKind


class Send(Struct, frozen=True, gc=False):
    data: bytes


class Fault(Struct, frozen=True, gc=False):
    detail: str


class Close(Struct, frozen=True, gc=False):
    pass


Event = Message | Health | Send | Fault | Close

NO_META: Final = HttpMeta()
CLOSE: Final = Close()

"""Where the deadline of a call comes from."""

from __future__ import annotations

from .layout import METHOD, SLOT, word_of
from .names import Names

_CALL, _ARRIVED, _DEADLINE = (word_of(SLOT, name) for name in ("call", "arrived_ns", "deadline_ns"))
_TIMEOUT = word_of(METHOD, "timeout_ns")


def method_timeout_ns(names: Names, q: memoryview, own: int) -> int:
    """The timeout of its method, if the deadline of the call whose slot's words begin at `own` is
    that; 0 if the caller asked for less, or the server's setting counts."""
    methods = names.methods
    row = q[own + _CALL] & 0xFFFF_FFFF
    timeout_ns: int = q[methods.first + row * methods.row_words + _TIMEOUT]
    return timeout_ns if q[own + _DEADLINE] - q[own + _ARRIVED] == timeout_ns else 0

"""Functions that serve many calls at once."""

from __future__ import annotations

import os
import signal

from faircall import Service, current_call

service = Service("batches")


@service.method(batch=20, within_ms=1000)
def how_many(x: list[int]) -> list[int]:
    """How many were served at once."""
    return [len(x)] * len(x)


@service.method(batch=4, within_ms=1000)
def whose(x: list[int]) -> list[list[str]]:
    """The users of the calls that were served at once."""
    return [sorted(call.user for call in current_call().calls)] * len(x)


@service.method(batch=4, within_ms=1000, idempotent=True)
def fragile(x: list[int]) -> list[int]:
    """A negative number kills the handler, and with it all calls of the batch."""
    if min(x) < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return x

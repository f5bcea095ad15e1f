"""Who died of what, and which call it ran: read without a lock, for the log.

The fields of one log line, such as

    handler died: index=0 pid=4711 signal=SIGSEGV method="resize" user="alice" age_ms=120 restarts=1
"""

from __future__ import annotations

import logging
import os
import signal
from typing import TYPE_CHECKING, Any

from ...shm.layout import SLOT, word_of
from ...shm.shared import Shared
from ..log import Lines, text_fields

if TYPE_CHECKING:
    from .children import Child, Process

log = logging.getLogger("faircall.supervisor")

_ARRIVED, _CALL, _IDENTITY = (word_of(SLOT, name) for name in ("arrived_ns", "call", "identity"))
_LOW = 0xFFFF_FFFF


def running_call(shared: Shared, handler: int, now_ns: int) -> dict[str, Any]:
    """Method, user and age since arrival of the call that `handler` runs; {} if it runs none."""
    slot = shared.running_slot(handler)
    if slot < 0:
        return {}
    words = shared.table.words[slot]
    method, identity = int(words[_CALL]) & _LOW, int(words[_IDENTITY]) & _LOW
    names, geometry = shared.names, shared.geometry
    return {
        "method": names.methods.name(method) if method < geometry.methods else "",
        "user": names.identities.name(identity) if identity < geometry.identities else "",
        "age_ms": (now_ns - int(words[_ARRIVED])) // 1_000_000,
    }


def cause_of_death(result: os.waitid_result) -> dict[str, Any]:
    """`signal` or exit `status`."""
    if result.si_code == os.CLD_EXITED:
        return {"status": result.si_status}
    try:
        return {"signal": signal.Signals(result.si_status)}
    except ValueError:  # a real-time signal
        return {"signal": result.si_status}


def log_death(child: Child, process: Process, facts: dict[str, Any], expected: bool) -> None:
    """Whose death was not `expected` is a warning, with its stack if it left one."""
    fields = {**child.fields, "pid": process.pid, **facts}
    if expected or process.failure:  # what it said is logged by who is told of it
        log.debug(f"{child.role} ended", fields)
        return
    fields["restarts"] = child.restarts.count
    if process.doom:
        fields["killed"] = process.doom
    if child.stacks and (stack := child.stacks.take()):
        fields["stack"] = Lines(stack)
    log.warning(f"{child.role} died", fields)


def why_not_ready(child: Child, process: Process, cause: dict[str, Any]) -> str:
    """Why a process ended before it was ready: what it said, or what is known of it."""
    if process.failure:
        return process.failure
    return f"{child.label} ended before it was ready: {process.doom or text_fields(cause)}"

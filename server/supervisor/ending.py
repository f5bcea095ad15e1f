"""How a daemon ends its children: the acceptors first, the rest when nothing is in flight.

Acceptors and janitors are told by the end of their channel, the others by the phase. A handler that
is in a call after the grace period is not waited for, and a child that is not ready has nothing to
finish.
"""

from __future__ import annotations

import logging
import time

from .autopsy import running_call
from .children import Child
from .lifecycle import ChildState
from .roster import Roster

log = logging.getLogger("faircall.supervisor")

END_NS = 2_000_000_000  # what children have for their stop hooks
ACCEPTOR_END_NS = 1_000_000_000  # what acceptors have for the backlog


def end_acceptors(roster: Roster) -> None:
    """They take what has connected, and end."""
    for _, process in roster.living("acceptor"):
        process.end()


def acceptors_ended(roster: Roster, passed_ns: int) -> bool:
    """Whether all have; those that take too long are killed."""
    acceptors = roster.living("acceptor")
    if passed_ns > ACCEPTOR_END_NS:
        for _, process in acceptors:
            process.kill("it did not end")
    return not acceptors


def is_quiet(roster: Roster) -> bool:
    """Whether no reader has anything in flight, unsent, or on its way to it."""
    return all(
        child.row["quiet"] and not child.port.handoffs[child.number].pending()
        for child, _ in roster.living("reader")
    )


def end_all(roster: Roster, at_once: bool) -> int:
    """Everybody is to end; who is in a call or not ready is killed, or all are `at_once`.

    How many calls that cuts off.
    """
    roster.stopping, cut_off = True, 0
    for child, process in roster.living():
        call = _call_of(child)
        if call:
            cut_off += 1
            log.warning("call cut off", child.fields | call)
        if at_once or call or child.state is not ChildState.READY:
            process.kill("the server stops")
        else:
            process.end()
    return cut_off


def _call_of(child: Child) -> dict[str, object]:
    if child.role != "handler":
        return {}
    return running_call(child.port.shared, child.number, time.monotonic_ns())

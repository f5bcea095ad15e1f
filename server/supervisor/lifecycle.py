"""The two life cycles of a daemon, as tables: its own, and that of each of its children.

    STARTING --READY--> RUNNING --TERM--> LEAVING --ACCEPTED_ENOUGH--> DRAINING
                           |                                             ^   |
                           +-------------------- INT --------------------+   | QUIET, GRACE_OVER
                                                                             v
    STARTING --FAILED----------------------------------------------------> STOPPED
    STARTING, LEAVING, DRAINING --TERM, INT------------------------------> STOPPED
    any phase --HOST_GONE------------------------------------------------> STOPPED

In LEAVING the server still accepts, but /readyz fails: whoever balances load looks elsewhere. In
DRAINING new calls are refused and those in flight are finished. In STOPPED the children end; the
daemon ends after the last. A second TERM or INT stops at once, and so does the end of the program
that embeds the server.

    WAITING --SPAWN--> STARTING --REPORT--> READY --DIE--> DEAD --REAPED--> WAITING
                           +-----------------DIE------------^

A child's index is its own again only after REAPED: the janitor has settled what its last process
left behind, and that process was waited for before (the fence).
"""

from __future__ import annotations

import enum

from ...shm.states import Phase


class Event(enum.Enum):
    """What can happen to the daemon."""

    READY = "every child is ready"
    FAILED = "a child cannot start"
    TERM = "SIGTERM"
    INT = "SIGINT"
    HUP = "SIGHUP"
    HOST_GONE = "the program that embeds the server lets it go, or is gone"
    ACCEPTED_ENOUGH = "shutdown.accept-ms are over"
    QUIET = "nothing is in flight"
    GRACE_OVER = "shutdown.grace-ms are over"


TRANSITIONS: dict[tuple[Phase, Event], Phase] = {
    (Phase.STARTING, Event.READY): Phase.RUNNING,
    (Phase.STARTING, Event.FAILED): Phase.STOPPED,
    (Phase.STARTING, Event.TERM): Phase.STOPPED,
    (Phase.STARTING, Event.INT): Phase.STOPPED,
    (Phase.RUNNING, Event.TERM): Phase.LEAVING,
    (Phase.RUNNING, Event.INT): Phase.DRAINING,
    (Phase.LEAVING, Event.ACCEPTED_ENOUGH): Phase.DRAINING,
    (Phase.LEAVING, Event.TERM): Phase.STOPPED,
    (Phase.LEAVING, Event.INT): Phase.STOPPED,
    (Phase.DRAINING, Event.QUIET): Phase.STOPPED,
    (Phase.DRAINING, Event.GRACE_OVER): Phase.STOPPED,
    (Phase.DRAINING, Event.TERM): Phase.STOPPED,
    (Phase.DRAINING, Event.INT): Phase.STOPPED,
    (Phase.STOPPED, Event.TERM): Phase.STOPPED,
    (Phase.STOPPED, Event.INT): Phase.STOPPED,
    **{(phase, Event.HOST_GONE): Phase.STOPPED for phase in Phase},
    # Settings are read again, the phase stays.
    **{(phase, Event.HUP): phase for phase in Phase},
}

# The roles of which a process is wanted, and replaced when it dies.
WANTED: dict[Phase, frozenset[str]] = {
    Phase.STARTING: frozenset({"janitor", "admin", "reader", "handler", "acceptor"}),
    Phase.RUNNING: frozenset({"janitor", "admin", "reader", "handler", "acceptor"}),
    Phase.LEAVING: frozenset({"janitor", "admin", "reader", "handler", "acceptor"}),
    # A dead reader's connections are gone and no new one may come: it need not be replaced.
    Phase.DRAINING: frozenset({"janitor", "admin", "handler"}),
    Phase.STOPPED: frozenset(),
}


class ChildState(enum.Enum):
    """Where a child is."""

    WAITING = "no process yet, or no more"
    STARTING = "forked, not ready"
    READY = "at work"
    DEAD = "waited for; the janitor has not answered yet"


class ChildEvent(enum.Enum):
    """What can happen to a child."""

    SPAWN = "forked"
    REPORT = "it said ready"
    DIE = "waited for"
    REAPED = "its calls are settled"


CHILD_TRANSITIONS: dict[tuple[ChildState, ChildEvent], ChildState] = {
    (ChildState.WAITING, ChildEvent.SPAWN): ChildState.STARTING,
    (ChildState.STARTING, ChildEvent.REPORT): ChildState.READY,
    (ChildState.STARTING, ChildEvent.DIE): ChildState.DEAD,
    (ChildState.READY, ChildEvent.DIE): ChildState.DEAD,
    (ChildState.DEAD, ChildEvent.REAPED): ChildState.WAITING,
}


class BadTransition(Exception):
    """An event that the table does not have: a mistake in this program."""


def following(phase: Phase, event: Event) -> Phase:
    """The phase after `event` in `phase`; BadTransition."""
    try:
        return TRANSITIONS[phase, event]
    except KeyError:
        raise BadTransition(f"{phase.name} has no {event.name}") from None


def child_following(state: ChildState, event: ChildEvent) -> ChildState:
    """The state after `event` in `state`; BadTransition."""
    try:
        return CHILD_TRANSITIONS[state, event]
    except KeyError:
        raise BadTransition(f"{state.name} has no {event.name}") from None

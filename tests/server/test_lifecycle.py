"""The state tables, as sets."""

from __future__ import annotations

import pytest

from faircall.server.supervisor.lifecycle import (
    CHILD_TRANSITIONS,
    TRANSITIONS,
    WANTED,
    BadTransition,
    ChildEvent,
    ChildState,
    Event,
    child_following,
    following,
)
from faircall.shm.processes import ROLES
from faircall.shm.states import Phase

SIGNALS = {Event.TERM, Event.INT, Event.HUP, Event.HOST_GONE}


def test_every_phase_knows_every_signal_and_the_end_of_the_host() -> None:
    assert {(phase, event) for phase, event in TRANSITIONS if event in SIGNALS} == {
        (phase, event) for phase in Phase for event in SIGNALS
    }


def test_a_phase_is_never_left_backwards() -> None:
    assert all(after >= phase for (phase, _), after in TRANSITIONS.items())


def test_only_signals_leave_the_phase_as_it_is() -> None:
    same = {(phase, event) for (phase, event), after in TRANSITIONS.items() if after == phase}
    assert same == {(phase, Event.HUP) for phase in Phase} | {
        (Phase.STOPPED, Event.TERM),
        (Phase.STOPPED, Event.INT),
        (Phase.STOPPED, Event.HOST_GONE),
    }


def test_the_first_sigterm_leaves_and_the_first_sigint_drains() -> None:
    assert following(Phase.RUNNING, Event.TERM) == Phase.LEAVING
    assert following(Phase.RUNNING, Event.INT) == Phase.DRAINING


def test_a_second_signal_stops_now() -> None:
    for phase in (Phase.LEAVING, Phase.DRAINING, Phase.STOPPED):
        assert {following(phase, event) for event in (Event.TERM, Event.INT)} == {Phase.STOPPED}


def test_the_end_of_the_host_stops_at_once() -> None:
    assert {following(phase, Event.HOST_GONE) for phase in Phase} == {Phase.STOPPED}


def test_every_phase_but_the_last_is_left_by_what_its_own_course_brings() -> None:
    own = {(phase, event): after for (phase, event), after in TRANSITIONS.items()}
    own = {key: after for key, after in own.items() if key[1] not in SIGNALS}
    assert own == {
        (Phase.STARTING, Event.READY): Phase.RUNNING,
        (Phase.STARTING, Event.FAILED): Phase.STOPPED,
        (Phase.LEAVING, Event.ACCEPTED_ENOUGH): Phase.DRAINING,
        (Phase.DRAINING, Event.QUIET): Phase.STOPPED,
        (Phase.DRAINING, Event.GRACE_OVER): Phase.STOPPED,
    }


def test_what_the_table_does_not_have_is_a_mistake() -> None:
    with pytest.raises(BadTransition, match="RUNNING has no QUIET"):
        following(Phase.RUNNING, Event.QUIET)
    with pytest.raises(BadTransition, match="WAITING has no DIE"):
        child_following(ChildState.WAITING, ChildEvent.DIE)


def test_every_role_is_wanted_until_the_server_drains() -> None:
    whole = set(ROLES)
    assert {phase: whole - WANTED[phase] for phase in Phase} == {
        Phase.STARTING: set(),
        Phase.RUNNING: set(),
        Phase.LEAVING: set(),
        Phase.DRAINING: {"acceptor", "reader"},
        Phase.STOPPED: whole,
    }


def test_a_place_is_given_again_only_after_the_janitor_has_settled_it() -> None:
    ways = {event: before for (before, event), after in CHILD_TRANSITIONS.items()
            if after is ChildState.WAITING}  # fmt: skip
    assert ways == {ChildEvent.REAPED: ChildState.DEAD}
    spawned = {before for before, event in CHILD_TRANSITIONS if event is ChildEvent.SPAWN}
    assert spawned == {ChildState.WAITING}


def test_who_has_a_process_can_die() -> None:
    dying = {before for before, event in CHILD_TRANSITIONS if event is ChildEvent.DIE}
    assert dying == {ChildState.STARTING, ChildState.READY}

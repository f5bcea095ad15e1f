"""Whom an alarm names, from who took how much of the handlers' time."""

from __future__ import annotations

import pytest

from faircall.scheduling.attribution import Attribution


def test_the_heaviest_user_is_named_with_what_it_calls() -> None:
    who = Attribution()
    who.add("ann", "nightly", "list", "192.0.2.1", 10, 900e6)
    who.add("ann", "nightly", "add", "192.0.2.1", 20, 1e6)
    who.add("ann", "adhoc", "add", "192.0.2.2", 5, 1e6)
    who.add("bob", "", "add", "", 40, 50e6)
    found = who.heaviest()
    assert found
    assert (found.user, found.job, found.method, found.address, found.calls) == (
        "ann",
        "nightly",
        "list",
        "192.0.2.1",
        35,
    )
    assert found.share == pytest.approx(903.75 / (903.75 + 52), abs=1e-6)


def test_masses_of_calls_that_take_no_time_count_too() -> None:
    who = Attribution()
    who.add("ann", "", "ping", "", 5000, 1e6)
    who.add("bob", "", "list", "", 2, 100e6)
    found = who.heaviest()
    assert found
    assert found.user == "ann"


def test_nobody_is_named_where_nobody_calls() -> None:
    who = Attribution()
    who.add("ann", "", "ping", "", -0.001, -5.0)  # an error of a subtraction
    assert (who.heaviest(), who.users) == (None, 0)

"""Rates that are set while the daemon runs: what is kept, who is told, and when it is answered."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from faircall.server.port import Port
from faircall.server.state_file import read_state
from faircall.server.supervisor.rate_orders import RateOrders
from faircall.server.throttle import follow_settings

from ..conftest import Load
from .small_port import small_port
from .test_reload import Bench

LINE = "method m: calls=5"


class Orders(Bench):
    def __init__(self, port: Port, load: Load) -> None:
        super().__init__(port, load)
        self.orders = RateOrders(self.reloads)

    def set(self, line: str, version: int | None = None) -> None:
        self.orders.set({"line": line, "version": version}, self.answers.append)

    def answer(self) -> dict[str, Any]:
        """The last one, once the janitor has answered."""
        self.reloads.answered(0, 1_000_000)
        return self.answers[-1]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state.json"


@pytest.fixture
def o(load: Load, state: Path) -> Iterator[Orders]:
    with small_port(load, f"[throttle]\nstate-file = '{state}'\n") as port:
        yield Orders(port, load)


def test_a_rate_is_answered_when_the_janitor_has_it_in_force(o: Orders, state: Path) -> None:
    o.set(LINE)
    ((number, version, settings),) = o.roster.orders
    assert (number, version, settings.set_rates.lines) == (0, 1, (LINE,))
    assert o.roster.told[0].set_rates == settings.set_rates == o.port.settings.set_rates
    assert o.answers == []
    assert read_state(str(state)) == settings.set_rates, "kept before it is in force"
    assert o.answer() == {"rate": LINE, "version": 1, "changed": True}


def test_the_same_rate_again_changes_nothing(o: Orders) -> None:
    o.set(LINE)
    o.set(LINE)
    assert o.answers == [{"rate": LINE, "version": 1, "changed": False}]
    assert len(o.roster.orders) == 1


def test_a_version_that_was_overtaken_is_refused(o: Orders) -> None:
    o.set(LINE, version=0)
    o.set("server: calls=9", version=0)
    assert o.answers == [{"error": "version 0 is not in force: it is 1 by now"}]
    o.set("server: calls=9", version=1)
    assert o.answer()["version"] == 2


def test_what_is_removed_was_set(o: Orders, state: Path) -> None:
    o.set(LINE)
    o.orders.remove({"subject": "method n"}, o.answers.append)
    assert o.answers == [{"error": "no rate is set for 'method n'; set is: method m"}]
    o.orders.remove({"subject": "method m"}, o.answers.append)
    assert o.answer() == {"rate": "method m", "version": 2, "changed": True}
    assert read_state(str(state)).lines == ()


def test_a_state_file_that_cannot_be_written_changes_nothing(o: Orders, state: Path) -> None:
    state.mkdir()
    o.set(LINE)
    assert "cannot be written" in o.answers[0]["error"]
    assert (o.roster.orders, o.port.settings.set_rates.lines) == ([], ())


def test_rates_together_must_be_right(o: Orders) -> None:
    for number in range(3):
        o.set(f"resource r{number} of m: running=1")
    o.set("resource r3 of m: running=1")
    assert "method 'm' shares 4 resources" in o.answers[0]["error"]
    assert len(o.port.settings.set_rates.lines) == 3


def test_there_must_be_room_for_who_is_named(o: Orders) -> None:
    methods = o.port.shared.geometry.methods
    room = o.port.shared.geometry.limiters - 1024 - 3 * methods
    o.begin(
        "[throttle]\nrates = [" + ",".join(f"'caller c{n}: calls=1'" for n in range(room)) + "]"
    )
    o.set("caller ann: calls=1")
    assert (
        f"name {room + 1} callers and resources, and there is room for {room}"
        in o.answers[0]["error"]
    )


def test_what_is_set_is_kept_over_a_reload(o: Orders) -> None:
    o.set(LINE)
    o.begin("[throttle]\ncalls = 7\n")
    assert o.port.settings.throttle.dispatch_throttling_rate_in_msg == 7
    assert o.port.settings.set_rates.lines == (LINE,)


def test_a_janitor_may_put_the_same_in_force_twice(o: Orders) -> None:
    shared, rates = o.port.shared, o.port.shared.rates
    follow_settings(shared, o.port.settings, 1)
    assert rates.read() == (0, ""), "no rate: nothing is looked up"
    o.set(LINE)
    follow_settings(shared, o.port.settings, 1)
    follow_settings(shared, o.port.settings, 2)
    assert rates.read()[0] == 1

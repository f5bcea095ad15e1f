"""The live view, driven by keys; what it shows comes from a daemon that is made up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

pytest.importorskip("textual")

from textual.widgets import DataTable, Static

from faircall.server.admin.top_screen import Explanation, TopScreen

Pilot = Any
Steps = Callable[[TopScreen, Pilot], Awaitable[None]]

FIGURES: dict[str, Any] = {
    "share": 0.5, "level": 3, "cost_per_s": 10.0, "calls_per_s": 10.0, "waiting": 4, "held": 0,
    "running": 1, "wait_p99_ms": None, "refused_per_s": 0.0, "calls": 100,
}  # fmt: skip


GROUP: dict[str, Any] = {
    "methods": ["vision.*"], "waiting": 7, "held": 0, "running": 1, "handlers": 2, "busy": 0.5,
    "refused_per_s": 0.0,
}  # fmt: skip


class Daemon:
    """Answers as the admin process does; `asked` is what it was asked for."""

    def __init__(self, *names: str, overloaded: bool = False, groups: int = 0) -> None:
        self.names, self.overloaded = list(names), overloaded
        self.groups = [{**GROUP, "group": f"group-{number}"} for number in range(groups)]
        self.asked: list[tuple[str, Mapping[str, Any]]] = []
        self.gone = False

    def __call__(self, method: str, params: Mapping[str, Any]) -> Any:
        self.asked.append((method, params))
        if self.gone:
            raise ConnectionRefusedError(111, "Connection refused")
        return self.users() if method == "faircall.users" else self.explained(params["user"])

    def users(self) -> dict[str, Any]:
        who = f"Overloaded by {self.names[0]}" if self.overloaded else "Nobody overloads it"
        port = {
            "port": 8020,
            "top": [{"user": name, **FIGURES} for name in self.names],
            "others": {"users": 7, **{k: v for k, v in FIGURES.items() if k != "level"}},
            "overload": {
                "sentence": who,
                "is_overloaded": self.overloaded,
                "groups": self.groups,
            },
        }
        return {"ports": [port]}

    def explained(self, user: str) -> dict[str, Any]:
        nothing = {"waiting": 0, "running": 0}
        return {
            "ports": [
                {
                    "port": 8020, "user": user, "standing": None, "note": "a newcomer",
                    "waits": nothing, "refused": [], "methods": [], "contexts": [],
                    "addresses": [], "exempt": [],
                }
            ]
        }  # fmt: skip


def drive(daemon: Daemon, steps: Steps) -> None:
    """Run the view with nobody's clock: it asks once, and then when `steps` says."""

    async def run() -> None:
        app = TopScreen("/nowhere", 3600.0, ask=daemon)
        async with app.run_test(size=(120, 30)) as pilot:
            await app.workers.wait_for_complete()
            await pilot.pause()
            await steps(app, pilot)

    asyncio.run(run())


def shown(app: TopScreen) -> list[str]:
    table = app.query_one(DataTable)
    return [str(table.get_row_at(row)[1]) for row in range(table.row_count)]


def state(app: TopScreen) -> str:
    return str(app.query_one("#state", Static).render())


async def press(app: TopScreen, pilot: Pilot, key: str) -> None:
    await pilot.press(key)
    await app.workers.wait_for_complete()
    await pilot.pause()


def test_users_and_the_others_are_shown_with_who_overloads_it() -> None:
    async def steps(app: TopScreen, pilot: Pilot) -> None:
        assert shown(app) == ["alice", "b\\u001bob", "(7 others)"]
        assert "Overloaded by alice" in state(app)
        assert app.query_one("#state").has_class("overloaded")

    drive(Daemon("alice", "b\x1bob", overloaded=True), steps)


def test_groups_of_handlers_are_shown_if_there_are_several() -> None:
    async def steps(app: TopScreen, pilot: Pilot) -> None:
        head, first, second = str(app.query_one("#groups", Static).render()).splitlines()
        assert head.split() == [
            "group", "waiting", "held", "running", "busy_share", "refused_per_s", "methods",
        ]  # fmt: skip
        assert first.split() == ["group-0", "7", "0", "1", "of", "2", "50.0%", "0.00", "vision.*"]
        assert second.split()[0] == "group-1"
        assert app.query_one("#groups").display

    drive(Daemon("alice", groups=2), steps)


def test_no_groups_are_shown_where_there_is_one() -> None:
    async def steps(app: TopScreen, pilot: Pilot) -> None:
        assert not app.query_one("#groups").display

    drive(Daemon("alice"), steps)


def test_s_goes_to_the_next_sort_key() -> None:
    daemon = Daemon("alice")

    async def steps(app: TopScreen, pilot: Pilot) -> None:
        await press(app, pilot, "s")
        assert daemon.asked[-1] == ("faircall.users", {"sort": "cost", "top": 200})
        assert "sorted by cost" in state(app)

    drive(daemon, steps)


def test_while_it_is_paused_nothing_is_asked() -> None:
    daemon = Daemon("alice")

    async def steps(app: TopScreen, pilot: Pilot) -> None:
        await press(app, pilot, "space")
        asked = len(daemon.asked)
        app.look()
        await app.workers.wait_for_complete()
        assert len(daemon.asked) == asked
        await press(app, pilot, "space")
        assert len(daemon.asked) == asked + 1

    drive(daemon, steps)


def test_enter_explains_the_user_under_the_cursor_and_goes_back() -> None:
    daemon = Daemon("alice", "bob")

    async def steps(app: TopScreen, pilot: Pilot) -> None:
        await press(app, pilot, "down")
        await press(app, pilot, "enter")
        assert daemon.asked[-1] == ("faircall.explain", {"user": "bob"})
        assert isinstance(app.screen, Explanation)
        assert "bob at port 8020: a newcomer" in app.screen.text
        await press(app, pilot, "enter")
        assert not isinstance(app.screen, Explanation)

    drive(daemon, steps)


def test_the_cursor_stays_with_its_user() -> None:
    daemon = Daemon("alice", "bob", "carol")

    async def steps(app: TopScreen, pilot: Pilot) -> None:
        await press(app, pilot, "down")
        daemon.names = ["carol", "alice", "bob"]
        app.look()
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert (shown(app)[0], app.selected()) == ("carol", "bob")

    drive(daemon, steps)


def test_the_others_are_nobody_to_explain() -> None:
    daemon = Daemon("alice")

    async def steps(app: TopScreen, pilot: Pilot) -> None:
        await press(app, pilot, "down")
        await press(app, pilot, "enter")
        assert daemon.asked[-1][0] == "faircall.users"

    drive(daemon, steps)


def test_a_daemon_that_does_not_answer_is_said_to_be_so() -> None:
    daemon = Daemon("alice")

    async def steps(app: TopScreen, pilot: Pilot) -> None:
        daemon.gone = True
        app.look()
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert "does not answer: Connection refused" in state(app)
        assert shown(app) == ["alice", "(7 others)"]

    drive(daemon, steps)


def test_q_ends_it() -> None:
    async def steps(app: TopScreen, pilot: Pilot) -> None:
        await pilot.press("q")
        await pilot.pause()
        assert app.return_code == 0

    drive(Daemon("alice"), steps)

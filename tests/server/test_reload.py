"""Settings that are read again: who is told what, and when it counts as done. Nobody is forked."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from faircall.server.config import Settings
from faircall.server.port import Port
from faircall.server.settings.declaration import ConfigError
from faircall.server.supervisor.reload import LONGEST_ANSWER, Reloads

from ..conftest import Load
from .small_port import SMALL, small_port

TWO = "scheduler.priority.levels = 2\n"


class Roster:
    """Keeps what it was told."""

    def __init__(self) -> None:
        self.stopping = False
        self.orders: list[tuple[int, int, Settings]] = []
        self.told: list[Settings] = []
        self.read: list[Settings] = []

    def refresh(self, port: Port, version: int, settings: bytes) -> None:
        self.orders.append((port.number, version, pickle.loads(settings)))

    def tell_readers(self, settings: bytes) -> None:
        self.read.append(pickle.loads(settings))

    def tell_admin(self, settings: bytes) -> None:
        self.told.append(pickle.loads(settings))


class Bench:
    """`again` is what the next reading gives, or raises."""

    def __init__(self, port: Port, load: Load) -> None:
        self.port, self.roster, self._load = port, Roster(), load
        self.again: Settings | Exception = port.settings
        self.adopted: list[Settings] = []
        self.answers: list[dict[str, Any]] = []
        roster: Any = self.roster
        self.reloads = Reloads(port.settings, [port], roster, self._read, self.adopted.append)

    def _read(self) -> Settings:
        if isinstance(self.again, Exception):
            raise self.again
        return self.again

    def begin(self, text: str = "") -> None:
        self.again = self._load(SMALL + text)
        self.reloads.begin(self.answers.append)


@pytest.fixture
def b(load: Load) -> Iterator[Bench]:
    with small_port(load) as port:
        yield Bench(port, load)


def test_a_reload_ends_when_the_janitor_has_answered(
    b: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    b.begin(TWO)
    ((number, version, settings),) = b.roster.orders
    assert (number, version) == (0, 1)
    assert settings.ports[0].scheduler.priority_levels == 2
    assert b.port.ipc == b.adopted[0].ports[0] == b.roster.told[0].ports[0] == settings.ports[0]
    assert b.answers == []
    b.reloads.answered(0, 1)
    (answer,) = b.answers
    assert {"key": "ipc.0.scheduler.priority.levels", "old": "4", "new": "2"} in answer["applied"]
    assert [record.message for record in caplog.records] == ["reloaded"]


def test_the_answer_to_a_later_one_answers_those_before(b: Bench) -> None:
    b.begin(TWO)
    b.begin("scheduler.priority.levels = 3\n")
    b.reloads.answered(0, 2)
    assert [answer["version"] for answer in b.answers] == [1, 2]
    b.reloads.answered(0, 2)
    assert len(b.answers) == 2


def test_the_answer_to_an_earlier_one_is_none_to_a_later(b: Bench) -> None:
    b.begin(TWO)
    b.begin("scheduler.priority.levels = 3\n")
    b.reloads.answered(0, 1)
    assert [answer["version"] for answer in b.answers] == [1]


def test_what_concerns_no_queue_needs_no_janitor(b: Bench) -> None:
    b.begin("[log]\nlevel = 'debug'\n")
    assert b.roster.orders == []
    assert b.adopted[0].log.level == "debug"
    assert [change["key"] for change in b.answers[0]["applied"]] == ["log.level"]


@pytest.mark.parametrize(
    ("error", "message"),
    [(ConfigError("x:1: wrong"), "x:1: wrong"), (RuntimeError("oh"), "RuntimeError: oh")],
)
def test_an_error_changes_nothing(b: Bench, error: Exception, message: str) -> None:
    before = b.port.settings
    b.again = error
    b.reloads.begin(b.answers.append)
    assert b.answers == [{"error": message}]
    assert b.port.settings is b.reloads.settings is before
    assert (b.roster.orders, b.roster.told, b.adopted) == ([], [], [])


def test_nothing_is_reloaded_while_the_server_stops(b: Bench) -> None:
    b.roster.stopping = True
    b.begin(TWO)
    assert "the server stops" in b.answers[0]["error"]


def test_an_answer_fits_into_a_message(b: Bench) -> None:
    users = ",".join(f"user{n:05}" for n in range(20_000))
    b.begin(f'decay-scheduler.service-users = "{users}"\n')
    b.reloads.answered(0, 1)
    assert len(str(b.answers[0])) < LONGEST_ANSWER
    assert len(b.roster.orders[0][2].ports[0].decay_scheduler.service_users) == 20_000

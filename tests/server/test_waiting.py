"""How a reader waits: when it naps, for whom it is woken from a nap, and when it watches."""

from __future__ import annotations

import select
from collections.abc import Callable

import pytest

from faircall.server.reader import waiting
from faircall.server.reader.drain_rate import SAMPLE_NS
from faircall.server.reader.waiting import PATIENCE, WaitLimits
from faircall.shm import doorbells

from .reader_client import Client, call, reasons
from .reader_world import MS, World

NAP_MS = 4
PATIENT_MS = PATIENCE * NAP_MS
Make = Callable[..., World]


class Naps:
    """Stands in for the sources' `nap`: what was asked, and what the word said meanwhile."""

    def __init__(self, world: World) -> None:
        self.lengths_ms: list[float] = []
        self.ages_ms: list[float] = []
        self._world = world

    def nap(self, timeout_s: float) -> list[tuple[int, int]]:
        self.lengths_ms.append(round(timeout_s * 1000, 3))
        self.ages_ms.append(self._world.row("sleeping") / MS)
        return []


@pytest.fixture
def world(make_world: Make) -> World:
    return make_world(waiting=WaitLimits(nap_ns=NAP_MS * MS))


@pytest.fixture
def naps(world: World, monkeypatch: pytest.MonkeyPatch) -> Naps:
    naps = Naps(world)
    monkeypatch.setattr(world.reader._sources, "nap", naps.nap)
    monkeypatch.setattr(world.reader, "_sleep_s", lambda: 0)
    return naps


def busy(world: World, waiting_calls: int, drained: int) -> Client:
    """Handlers that never idle, `drained` calls taken in the last sample, and some that wait."""
    client = world.connect()
    client.send(call("echo", id=0) * drained)
    world.read()
    for _ in range(drained):
        world.handle()
    world.pass_ms(SAMPLE_NS / MS)
    client.send(call("echo", id=1) * waiting_calls)
    world.read()
    return client


def bell_rings(world: World) -> bool:
    return bool(select.select([world.shared.doorbells.readers[0]], [], [], 0)[0])


def test_while_all_handlers_are_busy_it_naps_for_a_part_of_what_they_have_to_do(
    world: World, naps: Naps
) -> None:
    busy(world, waiting_calls=3, drained=12)  # 3 calls at 120 per second: 25 ms
    world.reader._wait()
    assert naps.lengths_ms == [round(25 / waiting.NAP_PART, 3)]
    assert naps.ages_ms == [pytest.approx(25 / waiting.NAP_PART * PATIENCE)]
    assert world.row("sleeping") == doorbells.AWAKE


def test_no_nap_is_longer_than_its_limit(world: World, naps: Naps) -> None:
    busy(world, waiting_calls=8, drained=8)
    world.reader._wait()
    assert naps.lengths_ms == [NAP_MS]


def test_it_does_not_nap_while_a_handler_idles(world: World, naps: Naps) -> None:
    busy(world, waiting_calls=8, drained=8)
    world.run()
    assert world.handle() == 0  # says that it idles
    busy_again = world.connect()
    busy_again.send(call("echo", id=1))
    world.read()
    assert world.shared.table.some_handler_idles  # one was woken, the other sleeps on
    world.reader._wait()
    assert naps.lengths_ms == []


def test_it_does_not_nap_when_the_handlers_have_little_to_do(world: World, naps: Naps) -> None:
    world.pass_ms(1)
    busy(world, waiting_calls=0, drained=8)
    world.reader._wait()
    assert naps.lengths_ms == []


def test_zero_turns_naps_off(make_world: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    world = make_world()
    naps = Naps(world)
    monkeypatch.setattr(world.reader._sources, "nap", naps.nap)
    monkeypatch.setattr(world.reader, "_sleep_s", lambda: 0)
    busy(world, waiting_calls=8, drained=8)
    world.reader._wait()
    assert naps.lengths_ms == []


@pytest.mark.parametrize(("waited_ms", "rings"), [(1, True), (10, False)])
def test_from_a_nap_it_is_woken_for_answers_to_young_calls_only(
    world: World, waited_ms: int, rings: bool
) -> None:
    client = world.connect()
    client.send(call("echo", id=1))
    world.read()
    world.shared.row("reader")["sleeping"] = 5 * MS
    world.pass_ms(waited_ms)
    world.handle()
    assert bell_rings(world) == rings
    world.read()
    assert reasons(client.answers()) == [(1, "ok")]


def answered_after(world: World, client: Client, ms: float) -> None:
    client.send(call("echo", id=1))
    world.read()
    world.pass_ms(ms)
    world.handle()
    world.read()
    assert reasons(client.answers())[-1:] == [(1, "ok")]


def test_a_connection_whose_call_waited_long_is_left_out_of_naps_until_one_was_quick(
    world: World,
) -> None:
    client = world.connect()
    sources = world.reader._sources
    for ms, patients in ((1, 0), (PATIENT_MS + 1, 1), (PATIENT_MS - 1, 1), (1, 0)):
        answered_after(world, client, ms)
        assert sources.patients == patients
    client.send(call("echo", id=2))
    assert [event for _, event in sources.prompt.poll(0)] == [select.EPOLLIN]


def test_what_a_patient_connection_sends_is_seen_after_a_nap_and_by_any_other_wait(
    world: World,
) -> None:
    client = world.connect()
    sources = world.reader._sources
    for wait in (sources.nap, sources.poll):
        answered_after(world, client, PATIENT_MS + 1)
        client.send(call("echo", id=2))
        assert sources.prompt.poll(0) == []
        assert [event for _, event in wait(0)] == [select.EPOLLIN]
        world.run()
        assert reasons(client.answers())[-1:] == [(2, "ok")]


def test_a_patient_connection_that_ends_is_forgotten(world: World) -> None:
    client = world.connect()
    answered_after(world, client, PATIENT_MS + 1)
    client.close()
    world.run()
    assert world.reader._sources.patients == 0
    assert world.reader.clients.by_fd == {}


def test_it_watches_for_the_answer_of_one_call_and_not_of_many(make_world: Make) -> None:
    world = make_world(waiting=WaitLimits(watch_ns=100))
    client = world.connect()
    looks: list[int] = []
    watched = world.reader._waiting

    def handle_meanwhile() -> bool:
        looks.append(world.handle())
        return True

    watched._has_answers = handle_meanwhile  # type: ignore[assignment]
    for calls, expected in ((waiting.WATCH_AT_MOST, [1]), (waiting.WATCH_AT_MOST + 1, [1])):
        client.send(call("echo", id=1) * calls)
        world.read()
        world.reader._pass(world.reader._wait())
        assert looks == expected
        world.run()
    assert len(client.answers()) == 2 * waiting.WATCH_AT_MOST + 1

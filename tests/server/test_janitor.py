"""The janitor, stepped by hand over a real segment."""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from faircall.server.janitor.janitor import COMPLAIN_EVERY_NS, Janitor, reap
from faircall.server.janitor.reaps import parse_answer
from faircall.server.port import Port
from faircall.shm import states
from faircall.shm.columns import Counter
from faircall.shm.layout import PROCESS, SLOT, word_of
from faircall.shm.pages import ANSWER
from faircall.shm.rings import SLOT_WORDS

from ..conftest import Load
from .supervised import SMALL

_CALL, _ANSWER = word_of(SLOT, "call"), word_of(SLOT, "answer")
assert word_of(PROCESS, "current")


class Bench:
    """A janitor, its supervisor's end of the channel, and calls in the table."""

    def __init__(self, port: Port, stack: ExitStack) -> None:
        self.port, self.shared, self.table = port, port.shared, port.shared.table
        self.supervisor, channel = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        stack.callback(port.close)
        stack.enter_context(self.supervisor)
        stack.enter_context(channel)
        self.janitor = Janitor(port, channel)

    def own(self, slot: int) -> int:
        return self.table.slot0 + slot * SLOT_WORDS

    def claim(self, count: int, *, flags: int = 0) -> list[int]:
        """That many calls, claimed by handler 0."""
        q, slots = self.table.q, list(range(count))
        for slot in slots:
            q[self.own(slot) + _CALL] = states.call_word(0, flags=flags)
        verdicts = [0] * count
        self.table.enqueue([(slot, 0) for slot in slots], verdicts)
        assert verdicts == [0] * count
        for slot in slots:
            out, tokens = [0], [0]
            assert self.table.claim(0, 1, out, tokens) == 1
            assert out == [slot]
        return slots

    def begin(self, slot: int) -> None:
        generation = self.table.q[self.own(slot)] >> states.GENERATION_SHIFT
        self.shared.row("handler", 0)["current"] = generation << 32 | slot + 1

    def status(self, slot: int) -> int:
        return self.table.q[self.own(slot) + _ANSWER] & 0xFF

    def order(self, text: bytes) -> tuple[tuple[str, int], dict[str, int]]:
        self.supervisor.send(text)
        assert self.janitor.do_work()
        return parse_answer(self.supervisor.recv(4096))

    def counted(self, counter: Counter) -> int:
        return self.shared.columns.total(counter)


@pytest.fixture
def bench(load: Load) -> Iterator[Bench]:
    settings = load(SMALL)
    with ExitStack() as stack:
        yield Bench(Port(settings, settings.ports[0]), stack)


def test_the_calls_of_a_dead_handler_are_settled(bench: Bench) -> None:
    running, waiting = bench.claim(2)
    bench.begin(running)
    place, outcome = bench.order(b"reap handler 0")
    assert place == ("handler", 0)
    assert outcome == {"answered": 0, "died": 1, "requeued": 1}
    assert bench.status(running) == states.Status.DIED
    out, tokens = [0], [0]
    assert bench.table.claim(1, 2, out, tokens) == 1
    assert out == [waiting]
    assert (bench.counted(Counter.REAPED), bench.counted(Counter.REQUEUED)) == (1, 1)


def test_an_order_can_be_carried_out_twice(bench: Bench) -> None:
    (slot,) = bench.claim(1)
    bench.begin(slot)
    bench.order(b"reap handler 0")
    assert bench.order(b"reap handler 0")[1] == {"answered": 0, "died": 0, "requeued": 0}
    assert bench.shared.audit() == []


def test_pages_of_an_answer_that_was_never_finished_come_back(bench: Bench) -> None:
    (slot,) = bench.claim(1)
    bench.begin(slot)
    before = bench.shared.pages.free_pages()
    bench.shared.pages.take(slot, ANSWER, 9000)
    bench.order(b"reap handler 0")
    assert bench.shared.pages.free_pages() == before


def test_the_calls_of_a_dead_reader_are_dropped_or_given_up(bench: Bench) -> None:
    bench.claim(2)
    bench.table.enqueue([(5, 0)], [0])
    assert bench.order(b"reap reader 0")[1] == {"running": 2, "queued": 1}
    assert bench.table.recovery.count_states()["ABANDONED"] == 2
    assert bench.shared.audit() == []


@pytest.mark.parametrize("role", ["handler", "reader", "acceptor", "admin"])
def test_after_every_death_all_doorbells_ring(bench: Bench, role: str) -> None:
    import select

    bells = bench.shared.doorbells.descriptors()
    reap(bench.shared, role, 0)
    assert select.select(bells, [], [], 0)[0] == bells


def test_orders_that_make_no_sense_are_not_answered_and_stop_nothing(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    for text in (b"reap handler", b"sow handler 1", b"\xff\xfe x"):
        bench.supervisor.send(text)
        assert bench.janitor.do_work()
    assert [record.msg for record in caplog.records] == ["order failed"] * 3
    assert bench.order(b"reap acceptor 0")[0] == ("acceptor", 0)


def test_it_ends_with_its_channel(bench: Bench) -> None:
    bench.supervisor.shutdown(socket.SHUT_WR)
    assert not bench.janitor.do_work()


def test_it_beats(bench: Bench) -> None:
    row = bench.shared.row("janitor")
    row["beat_ns"] = 0
    bench.janitor.do_work()
    assert row["beat_ns"] > 0


def test_a_chore_that_fails_stops_no_other_and_complains_once_a_minute(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    done: list[int] = []

    def fails(now_ns: int) -> None:
        raise ValueError("one bad row")

    bench.janitor._chores = [fails, done.append]
    for now_ns in (0, 1, COMPLAIN_EVERY_NS):
        for chore in bench.janitor._chores:
            bench.janitor._attempt(chore, now_ns)
    assert done == [0, 1, COMPLAIN_EVERY_NS]
    assert [record.msg for record in caplog.records] == ["chore failed"] * 2


def test_while_debugging_the_segment_is_audited(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    far = bench.janitor._audited_ns + 1_000_000_000_000
    bench.table.q[bench.table.waiting_word] = 7
    bench.janitor._audit(far)
    assert not caplog.records
    with caplog.at_level(logging.DEBUG, "faircall.janitor"):
        bench.janitor._audit(far)
    assert {record.msg for record in caplog.records} == {"audit failed"}
    assert json.dumps([record.args for record in caplog.records])

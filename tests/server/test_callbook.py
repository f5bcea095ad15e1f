"""The slots of a reader and the pages of its calls."""

from __future__ import annotations

import pytest

from faircall.server.reader.callbook import LEAVE_ONE_IN, MAX_WARM, NEVER_NS, CallBook
from faircall.server.reader.exchange import PendingCall
from faircall.shm import states
from faircall.shm.layout import SLOT, word_of
from faircall.shm.offers import ACCEPTED
from faircall.shm.pages import ANSWER
from faircall.shm.rings import SLOT_WORDS

from .reader_world import SMALL, World

SLOTS = SMALL.slots


class Desk:
    """A call book, and what the processes around it do to its slots."""

    def __init__(self, world: World) -> None:
        self.world, self.shared, self.table = world, world.shared, world.shared.table
        self.book = CallBook(world.shared, 0)
        self.reference = world.shared.names.reference(world.shared.names.identity("anna", 0))
        self.all_pages = world.shared.pages.free_pages()

    def stage(self, body: bytes = b"[]", flags: int = 0, deadline_ns: int = 9000) -> int:
        pending = PendingCall(None, 1, b"1", None, flags)
        pending.deadline_ns = deadline_ns
        word = states.call_word(2, flags=flags)
        return self.book.stage(pending, self.reference, self.reference, word, 5, 0, body)

    def enqueue(self, slot: int) -> None:
        verdicts = [-1]
        self.table.enqueue([(slot, 0)], verdicts)
        assert verdicts == [ACCEPTED]

    def answer(self, slot: int, body: bytes = b"", status: int = states.Status.RESULT) -> None:
        """What a handler does, until the reader has collected."""
        slots, tokens = [0], [0]
        assert self.table.claim(0, 6, slots, tokens) == 1
        assert slots == [slot]
        place = self.shared.pages.take(slot, ANSWER, len(body)) if body else 0
        if place:
            self.shared.pages.write(place, body)
        generation = tokens[0] >> states.GENERATION_SHIFT
        self.set(slot, "answer_page", place)
        self.set(slot, "answer", states.answer_word(status, len(body), generation))
        self.table.publish(0, [(slot, tokens[0])])
        assert self.table.collect(0, slots) == 1

    def done(self, slot: int) -> None:
        """Answered and looked at."""
        del self.book.calls[slot]
        self.book.release([slot])

    def whole(self, body: bytes, answer: bytes = b"1") -> int:
        """A call from the beginning to the end: its slot."""
        slot = self.stage(body)
        self.enqueue(slot)
        self.answer(slot, answer)
        self.done(slot)
        return slot

    def get(self, slot: int, field: str) -> int:
        return self.world.word(slot, field)

    def set(self, slot: int, field: str, value: int) -> None:
        at = self.table.slot0 + slot * SLOT_WORDS + word_of(SLOT, field)
        self.shared.segment.q[at] = value

    def free_pages(self) -> tuple[int, int]:
        """After everything was given back: those of the pool, but for the warm ones."""
        self.book.return_pages()
        assert self.shared.pages.audit() == []
        assert self.shared.pages.leaked() == 0
        return self.shared.pages.free_pages()


@pytest.fixture
def desk(world: World) -> Desk:
    return Desk(world)


@pytest.mark.parametrize("size", [0, 1, 4096, 4097, 16_384, 16_385, 65_537, 200_000])
def test_a_body_of_any_size_arrives(desk: Desk, size: int) -> None:
    body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    slot = desk.stage(body)
    request = desk.get(slot, "request")
    assert request >> 32 == size
    assert desk.shared.pages.read(request & 0xFFFF_FFFF, size) == body


def test_a_staged_call_is_written_and_nobody_else_sees_it(desk: Desk) -> None:
    slot = desk.stage(deadline_ns=9001)
    assert desk.book.is_staged(slot)
    assert desk.get(slot, "principal") == desk.get(slot, "identity") == desk.reference
    assert (desk.get(slot, "arrived_ns"), desk.get(slot, "deadline_ns")) == (5, 9001)
    assert desk.get(slot, "call") == states.call_word(2)
    assert desk.world.states() == {}
    desk.enqueue(slot)
    assert not desk.book.is_staged(slot)


def test_it_knows_when_the_first_call_expires(desk: Desk) -> None:
    assert desk.book.next_deadline_ns == NEVER_NS
    for deadline_ns in (9000, 8000, 8500):
        desk.stage(deadline_ns=deadline_ns)
    assert desk.book.next_deadline_ns == 8000


def test_there_are_as_many_calls_as_slots(desk: Desk) -> None:
    slots = {desk.stage() for _ in range(SLOTS)}
    assert slots == set(range(SLOTS))
    assert not desk.book.has_free
    desk.book.unstage(7)
    assert desk.book.has_free
    assert desk.stage() == 7


def test_a_call_that_was_refused_leaves_nothing(desk: Desk) -> None:
    pending = desk.book.calls[desk.stage(b"x" * 30_000)]
    slot = next(iter(desk.book.calls))
    assert desk.book.unstage(slot) is pending
    assert desk.book.calls == {}
    assert desk.free_pages() == desk.all_pages


def test_the_page_of_a_call_stays_with_its_slot(desk: Desk) -> None:
    first = desk.whole(b"[1]")
    small, _ = desk.free_pages()
    assert small == desk.all_pages[0] - 1
    assert desk.whole(b"[2]") == first
    assert desk.free_pages()[0] == small


def test_a_warm_page_stays_when_its_call_is_refused_by_the_queue(desk: Desk) -> None:
    desk.whole(b"[1]")
    page = desk.get(desk.stage(b"[2]"), "request") & 0xFFFF_FFFF
    desk.book.unstage(next(iter(desk.book.calls)))
    assert desk.get(desk.stage(b"[3]"), "request") & 0xFFFF_FFFF == page


def test_a_long_call_in_a_slot_with_a_warm_page_gives_everything_back(desk: Desk) -> None:
    desk.whole(b"[1]")
    desk.whole(b"x" * 10_000, b"y" * 70_000)
    assert desk.free_pages() == desk.all_pages


def test_the_pages_of_a_call_that_was_withdrawn_go_back(desk: Desk) -> None:
    for body in (b"[1]", b"x" * 30_000):
        slot = desk.stage(body)
        desk.enqueue(slot)
        outcomes = [-1]
        desk.table.withdraw(0, [slot], outcomes)
        del desk.book.calls[slot]
        desk.book.freed(slot)
    assert desk.free_pages() == desk.all_pages


def test_an_answer_beside_its_request_is_given_back_once(desk: Desk) -> None:
    slot = desk.stage(b"[1]")
    desk.enqueue(slot)
    place = desk.get(slot, "request") & 0xFFFF_FFFF | 64 << 32
    desk.answer(slot)
    desk.set(slot, "answer_page", place)
    desk.done(slot)
    assert desk.free_pages()[0] == desk.all_pages[0] - 1
    assert desk.whole(b"[2]", b"z" * 9000) == slot
    assert desk.free_pages()[0] == desk.all_pages[0] - 1


def test_without_a_page_nothing_is_staged(desk: Desk) -> None:
    """Requests leave one page in four to the answers."""
    slot = desk.stage(b"x" * 65_536 * (SMALL.large_pages - SMALL.large_pages // LEAVE_ONE_IN))
    assert slot >= 0
    assert desk.free_pages()[1] == SMALL.large_pages // LEAVE_ONE_IN
    assert desk.stage(b"x" * 20_000) == -1
    assert list(desk.book.calls) == [slot]
    desk.book.unstage(slot)
    assert desk.free_pages() == desk.all_pages


def test_pages_that_free_slots_keep_are_given_up_when_others_need_them(desk: Desk) -> None:
    slots = [desk.stage() for _ in range(8)]
    for slot in slots:
        desk.enqueue(slot)
        desk.answer(slot, b"1")
        desk.done(slot)
    room = SMALL.small_pages - SMALL.small_pages // LEAVE_ONE_IN
    taken = [desk.stage(b"x" * 16_384) for _ in range(room // 4)]
    assert min(taken) >= 0
    assert desk.stage(b"x" * 16_384) == -1
    for slot in taken:
        desk.book.unstage(slot)
    assert desk.free_pages() == desk.all_pages


def test_only_so_many_slots_keep_a_page(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_WARM > SLOTS
    monkeypatch.setattr("faircall.server.reader.callbook.MAX_WARM", 2)
    slots = [desk.stage() for _ in range(5)]
    for slot in slots:
        desk.enqueue(slot)
        desk.answer(slot, b"1")
        desk.done(slot)
    assert desk.free_pages()[0] == desk.all_pages[0] - 2


def test_an_answer_is_read_where_the_handler_wrote_it(desk: Desk) -> None:
    for body in (b"1", b"y" * 5000, b"y" * 100_000):
        slot = desk.stage()
        desk.enqueue(slot)
        desk.answer(slot, body, states.Status.ERROR)
        assert desk.book.answer(slot) == (states.Status.ERROR, body)
        desk.done(slot)


def test_an_answer_without_a_body_has_a_status(desk: Desk) -> None:
    slot = desk.stage()
    desk.enqueue(slot)
    desk.answer(slot, b"", states.Status.DIED)
    assert desk.book.answer(slot) == (states.Status.DIED, b"")


def test_an_undecoded_call_can_be_read_again(desk: Desk) -> None:
    message = b'{"id":1}' * 10_000
    assert desk.book.message(desk.stage(message, states.UNDECODED)) == message
    assert desk.book.message(desk.stage(b"[]")) == b""


def test_without_the_meta_that_was_put_in_front_of_it(desk: Desk) -> None:
    meta = b'{"caller_context":"c"}'
    body = len(meta).to_bytes(states.META_LENGTH, "big") + meta + b'{"id":1}'
    slot = desk.stage(body, states.UNDECODED | states.WITH_META)
    assert desk.book.message(slot) == b'{"id":1}'


def test_a_successor_has_the_slots_that_are_free_and_gets_the_others_later(desk: Desk) -> None:
    running = desk.stage(b"x" * 9000)
    desk.enqueue(running)
    slots, tokens = [0], [0]
    desk.table.claim(0, 6, slots, tokens)
    desk.table.recovery.reap_reader(0)
    successor = CallBook(desk.shared, 0)
    desk.book = successor
    for _ in range(SLOTS - 1):
        assert desk.stage() not in (-1, running)
    assert not successor.has_free
    generation = tokens[0] >> states.GENERATION_SHIFT
    desk.set(running, "answer", states.answer_word(states.Status.RESULT, 0, generation))
    desk.table.publish(0, [(running, tokens[0])])
    assert desk.table.collect(0, slots) == 1
    successor.release([running])
    assert desk.stage() == running
    for slot in list(successor.calls):
        successor.unstage(slot)
    successor.return_pages()
    assert desk.shared.pages.leaked() == 0

"""The slots of one reader: which are free, what each call in flight answers to, and their pages.

A free slot may keep one payload page for its next call ("warm"), so that in steady traffic a call
takes and returns pages without any lock.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...shm import states
from ...shm.deadlines import method_timeout_ns
from ...shm.layout import GROUP_SHIFT, SLOT, SMALL_PAGE, word_of
from ...shm.pages import REQUEST
from ...shm.rings import SLOT_WORDS
from ...shm.shared import Shared
from ...shm.slot_limiters import MORE
from ...workers.envelope import CarriedMeta, take_carried
from .exchange import PendingCall
from .throttle import Throttle

LEAVE_ONE_IN = 4  # pages that requests leave to answers: a call that ran must be answerable
MAX_WARM = 512  # pages of 4 KiB that one reader keeps with free slots
NEVER_NS = 1 << 63

_S = {name: word_of(SLOT, name) for name in SLOT.names or ()}
_IDENTITY, _PRINCIPAL, _CALL = _S["identity"], _S["principal"], _S["call"]
_ARRIVED, _DEADLINE, _RESERVED = _S["arrived_ns"], _S["deadline_ns"], _S["reserved"]
_REQUEST, _ANSWER, _ANSWER_PAGE = _S["request"], _S["answer"], _S["answer_page"]
_LIMITERS = _S["limiters"]
_PAGE = 0xFFFF_FFFF  # the page's part of a place


class CallBook:
    """Everything about a reader's slots that only the reader knows.

    `calls` are those that are staged or accepted, by slot. None of them expires before
    `next_deadline_ns`.
    """

    def __init__(self, shared: Shared, reader: int) -> None:
        self.table, self._q, self.pages = shared.table, shared.segment.q, shared.pages
        self._slot0, self._names = self.table.slot0, shared.names
        first = reader * self.table.slots_per_reader
        slots = range(first, first + self.table.slots_per_reader)
        self.calls: dict[int, PendingCall] = {}
        self.next_deadline_ns = NEVER_NS
        self._warm: dict[int, int] = {}  # slot -> first page + 1
        self._returned: list[tuple[int, int, int]] = []
        self._free = [slot for slot in reversed(slots) if not self._state(slot)]
        self.throttle = Throttle(shared, reader)
        for slot in self._free:
            self.throttle.begin(slot)

    @property
    def has_free(self) -> bool:
        return bool(self._free)

    @property
    def free(self) -> int:
        """Slots for further calls."""
        return len(self._free)

    def stage(
        self,
        pending: PendingCall,
        identity: int,
        principal: int,
        call: int,
        now_ns: int,
        expected_ns: int,
        body: bytes,
    ) -> int:
        """Write a call into a free slot, which nobody else sees yet; -1 if none or no page is left.

        `identity` (whose level it has) and `principal` (who takes turns) are references of rows.
        """
        if not self._free:
            return -1
        slot, length = self._free.pop(), len(body)
        place = self._warm.get(slot)
        if not place or length > SMALL_PAGE:
            place = self._take_pages(slot, length)
            if not place:
                self._free.append(slot)
                return -1
        if length <= SMALL_PAGE:
            self.pages.write_small(place, body)
        else:
            self.pages.write(place, body)
        q, own, deadline_ns = self._q, self._slot0 + slot * SLOT_WORDS, pending.deadline_ns
        q[own + _IDENTITY] = identity
        q[own + _PRINCIPAL] = principal
        q[own + _CALL] = call
        q[own + _ARRIVED] = now_ns
        q[own + _DEADLINE] = deadline_ns
        q[own + _RESERVED] = expected_ns
        q[own + _REQUEST] = length << 32 | place
        q[own + _ANSWER_PAGE] = 0
        if deadline_ns < self.next_deadline_ns:
            self.next_deadline_ns = deadline_ns
        self.calls[slot] = pending
        return slot

    def unstage(self, slot: int) -> PendingCall:
        """The queue refused a staged call: its slot is free again, its request's pages go back."""
        own = self._slot0 + slot * SLOT_WORDS
        page = self._q[own + _REQUEST] & _PAGE
        if self._warm.get(slot) != page:
            self._returned.append((page, slot, self._generation(slot)))
        if self._q[own + _LIMITERS]:
            self.throttle.clear(slot)
        self._free.append(slot)
        return self.calls.pop(slot)

    def use_rows(self, slot: int, now_ns: int) -> None:
        """The call in `slot` is staged still: the rows that it names are not to be given away."""
        q, own, names = self._q, self._slot0 + slot * SLOT_WORDS, self._names
        for field in (_IDENTITY, _PRINCIPAL):
            q[names.word(q[own + field] & 0xFFFF_FFFF, "used_ns")] = now_ns

    def is_staged(self, slot: int) -> bool:
        """Whether the call in `slot` was not accepted yet: to the others the slot is free."""
        return self._state(slot) == states.FREE

    def has_begun(self, slot: int) -> bool:
        """Whether a handler has claimed the call in `slot`, at this moment."""
        return self._state(slot) not in (states.FREE, states.QUEUED, states.HELD)

    def waiting_row(self, slot: int) -> int:
        """The row of the method of the call in `slot`; -1 if it does not wait in the queue."""
        if self._state(slot) not in (states.QUEUED, states.HELD):
            return -1
        return self._method_row(slot)

    def method(self, slot: int) -> str:
        """The name of the method of the call in `slot`."""
        return self._names.methods.name(self._method_row(slot))

    def answer(self, slot: int) -> tuple[int, bytes]:
        """(status, body) of a TAKEN slot."""
        q, own = self._q, self._slot0 + slot * SLOT_WORDS
        word = q[own + _ANSWER]
        length = word >> 8 & 0xFFFF_FFFF
        return word & 0xFF, self.pages.read(q[own + _ANSWER_PAGE], length) if length else b""

    def method_timeout_ns(self, slot: int) -> int:
        """That of its method, if the deadline of the call in `slot` comes from there; else 0."""
        return method_timeout_ns(self._names, self._q, self._slot0 + slot * SLOT_WORDS)

    def scheduled_ring(self, slot: int) -> int:
        """The ring of the level that the scheduler gave the call in `slot`, in the call's group."""
        own = self._slot0 + slot * SLOT_WORDS
        level = self._q[own + _CALL] >> states.SCHEDULED_SHIFT & states.LEVEL_MASK
        waited = self._q[own] >> states.LEVEL_SHIFT & states.LEVEL_MASK
        return waited >> GROUP_SHIFT << GROUP_SHIFT | level

    def message(self, slot: int) -> bytes:
        """The whole message of an undecoded call, for an error answer; b"" of any other."""
        if not self.calls[slot].flags & states.UNDECODED:
            return b""
        return self._request(slot)[1]

    def context(self, slot: int) -> str | None:
        """The caller context that the call in `slot` came with."""
        meta, _ = self._request(slot)
        return meta.caller_context if meta else None

    def release(self, slots: Iterable[int]) -> None:
        """TAKEN slots become free for the next calls; their pages go back, or stay with them."""
        q, slot0, warm, free = self._q, self._slot0, self._warm, self._free
        restamp, release = self.pages.restamp, self.table.release
        for slot in slots:
            own, page = slot0 + slot * SLOT_WORDS, warm.get(slot, 0)
            if page:
                restamp(page, slot, (q[own] >> states.GENERATION_SHIFT) + 1)
            release(slot)
            if page and page == q[own + _ANSWER_PAGE] & _PAGE and not q[own + _LIMITERS]:
                free.append(slot)
            else:
                self.freed(slot, page)

    def freed(self, slot: int, warm: int = 0) -> None:
        """`slot` was released (by `withdraw`, or just now): its pages go back, but for `warm`."""
        q, own, request = self._q, self._slot0 + slot * SLOT_WORDS, warm
        if not warm:
            self._warm.pop(slot, None)
            request = q[own + _REQUEST] & _PAGE
            self._return_old(request, slot)
        answer = q[own + _ANSWER_PAGE] & _PAGE
        if answer != request and answer:
            self._return_old(answer, slot)
        limiters = q[own + _LIMITERS]
        if limiters:
            if limiters >= MORE:
                self.throttle.clear(slot)
            else:
                q[own + _LIMITERS] = 0
        self._free.append(slot)

    def return_pages(self) -> None:
        """Give back what was released since the last time, under one lock."""
        if self._returned:
            self.pages.give_back(self._returned)
            self._returned.clear()

    def _take_pages(self, slot: int, length: int) -> int:
        """Room for a request of `slot` from the pool; 0 if there is none.

        A small page that is taken stays with the slot from now on.
        """
        place = self.pages.take(slot, REQUEST, length, LEAVE_ONE_IN)
        if not place:
            self._cool_down()
            place = self.pages.take(slot, REQUEST, length, LEAVE_ONE_IN)
        if length > SMALL_PAGE:
            self._cool(slot)
        elif place and len(self._warm) < MAX_WARM:
            self._warm[slot] = place
        return place

    def _cool_down(self) -> None:
        """Pages are short: give back those that free slots keep."""
        for slot in [slot for slot in self._warm if slot not in self.calls]:
            self._cool(slot)
        self.return_pages()

    def _cool(self, slot: int) -> None:
        """The page that the free `slot` keeps goes back."""
        warm = self._warm.pop(slot, 0)
        if warm:
            self._returned.append((warm, slot, self._generation(slot)))

    def _return_old(self, page: int, slot: int) -> None:
        """Pages of the call that had `slot` before it was released."""
        self._returned.append((page, slot, self._generation(slot) - 1 & 0xFFFF_FFFF))

    def _request(self, slot: int) -> tuple[CarriedMeta | None, bytes]:
        """What was put in front of the request in `slot`, and the request."""
        word = self._q[self._slot0 + slot * SLOT_WORDS + _REQUEST]
        body = self.pages.read(word & _PAGE, word >> 32)
        if not self.calls[slot].flags & states.WITH_META:
            return None, body
        return take_carried(body)

    def _method_row(self, slot: int) -> int:
        return self._q[self._slot0 + slot * SLOT_WORDS + _CALL] & 0xFFFF_FFFF

    def _state(self, slot: int) -> int:
        return self._q[self._slot0 + slot * SLOT_WORDS] & states.STATE_MASK

    def _generation(self, slot: int) -> int:
        return self._q[self._slot0 + slot * SLOT_WORDS] >> states.GENERATION_SHIFT

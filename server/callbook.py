"""The slots of one reader: which are free, what each call in flight answers to, and their pages.

A free slot may keep one payload page for its next call ("warm"), so that in steady traffic a call
takes and returns pages without any lock.
"""

from __future__ import annotations

from ..shm import states
from ..shm.layout import SLOT, SMALL_PAGE, word_of
from ..shm.pages import REQUEST
from ..shm.rings import SLOT_WORDS
from ..shm.shared import Shared
from .exchange import PendingCall

MAX_WARM = 512  # pages of 4 KiB that one reader keeps with free slots

_S = {name: word_of(SLOT, name) for name in SLOT.names or ()}
_IDENTITY, _PRINCIPAL, _CALL = _S["identity"], _S["principal"], _S["call"]
_ARRIVED, _DEADLINE, _RESERVED = _S["arrived_ns"], _S["deadline_ns"], _S["reserved"]
_REQUEST, _ANSWER, _ANSWER_PAGE = _S["request"], _S["answer"], _S["answer_page"]


class CallBook:
    """Everything about a reader's slots that only the reader knows."""

    def __init__(self, shared: Shared, reader: int) -> None:
        self.shared = shared
        self.table, self._q, self.pages = shared.table, shared.segment.q, shared.pages
        first = reader * self.table.slots_per_reader
        self._all = range(first, first + self.table.slots_per_reader)
        self.calls: dict[int, PendingCall] = {}
        self._warm: dict[int, int] = {}  # slot -> first page + 1
        self._returned: list[tuple[int, int, int]] = []
        self._free = [slot for slot in reversed(self._all) if self._is_free(slot)]

    def __len__(self) -> int:
        """Slots that are not free: calls in flight."""
        return len(self._all) - len(self._free)

    @property
    def has_free(self) -> bool:
        return bool(self._free)

    def stage(
        self,
        pending: PendingCall,
        reference: int,
        call: int,
        now_ns: int,
        expected_ns: int,
        body: bytes,
    ) -> int:
        """Write a call into a free slot, which nobody else sees yet; -1 if no page was left."""
        slot = self._free[-1]
        place = self._place(slot, len(body))
        if not place:
            return -1
        self._free.pop()
        q, own = self._q, self.table.slot0 + slot * SLOT_WORDS
        self.pages.write(place, body)
        q[own + _IDENTITY] = q[own + _PRINCIPAL] = reference
        q[own + _CALL] = call
        q[own + _ARRIVED], q[own + _DEADLINE] = now_ns, pending.deadline_ns
        q[own + _RESERVED] = expected_ns
        q[own + _REQUEST] = len(body) << 32 | place
        q[own + _ANSWER_PAGE] = 0
        self.calls[slot] = pending
        return slot

    def unstage(self, slot: int) -> PendingCall:
        """The queue refused a staged call: its slot is free again, its request's pages go back."""
        own = self.table.slot0 + slot * SLOT_WORDS
        page = self._q[own + _REQUEST] & 0xFFFF_FFFF
        if self._warm.get(slot) != page:
            self._return(page, slot)
        self._free.append(slot)
        return self.calls.pop(slot)

    def answer(self, slot: int) -> tuple[int, bytes]:
        """(status, body) of a TAKEN slot."""
        own = self.table.slot0 + slot * SLOT_WORDS
        word = self._q[own + _ANSWER]
        length = word >> 8 & 0xFFFF_FFFF
        if not length:
            return word & 0xFF, b""
        return word & 0xFF, self.pages.read(self._q[own + _ANSWER_PAGE], length)

    def message(self, slot: int) -> bytes:
        """The whole message of an undecoded call, for an error answer; b"" of any other."""
        flags = self.calls[slot].flags
        if not flags & states.UNDECODED:
            return b""
        word = self._q[self.table.slot0 + slot * SLOT_WORDS + _REQUEST]
        body = self.pages.read(word & 0xFFFF_FFFF, word >> 32)
        if flags & states.WITH_META:
            length = int.from_bytes(body[: states.META_LENGTH], "big")
            return body[states.META_LENGTH + length :]
        return body

    def release(self, slot: int) -> None:
        """A TAKEN slot becomes free for the next call; its pages go back, or stay with it."""
        warm = self._keep_page(slot)
        self.table.release(slot)
        self.freed(slot, warm)

    def freed(self, slot: int, warm: int = 0) -> None:
        """`slot` was released (by `withdraw`, or just now): its pages go back, but for `warm`."""
        own = self.table.slot0 + slot * SLOT_WORDS
        request = self._q[own + _REQUEST] & 0xFFFF_FFFF
        answer = self._q[own + _ANSWER_PAGE] & 0xFFFF_FFFF
        if request != warm:
            self._return(request, slot, released=True)
        if answer and answer != request:
            self._return(answer, slot, released=True)
        if warm:
            self._warm[slot] = warm
        else:
            self._warm.pop(slot, None)
        self._free.append(slot)

    def return_pages(self) -> None:
        """Give back what was released since the last time, under one lock."""
        if self._returned:
            self.pages.give_back(self._returned)
            self._returned.clear()

    def adopt_unknown(self, slot: int) -> None:
        """A TAKEN slot of this reader's predecessor: nobody waits for it."""
        self._warm.pop(slot, None)
        self.release(slot)

    def _is_free(self, slot: int) -> bool:
        state = self._q[self.table.slot0 + slot * SLOT_WORDS] & states.STATE_MASK
        return state == states.FREE

    def _place(self, slot: int, length: int) -> int:
        warm = self._warm.get(slot, 0)
        if warm and length <= SMALL_PAGE:
            return warm
        place = self.pages.take(slot, REQUEST, length)
        if not place and (self._returned or self._warm):
            self._cool_down()
            warm, place = 0, self.pages.take(slot, REQUEST, length)
        if warm and place:
            del self._warm[slot]
            self._returned.append((warm, slot, self._generation(slot)))
        elif place and length <= SMALL_PAGE and len(self._warm) < MAX_WARM:
            self._warm[slot] = place
        return place

    def _keep_page(self, slot: int) -> int:
        """Stamp the slot's warm page for its next call, before the slot is released."""
        warm = self._warm.get(slot, 0)
        if warm:
            self.pages.restamp(warm, slot, self._generation(slot) + 1)
        return warm

    def _cool_down(self) -> None:
        """Pages are short: give back those that free slots keep."""
        for slot in [slot for slot in self._warm if slot not in self.calls]:
            self._returned.append((self._warm.pop(slot), slot, self._generation(slot)))
        self.return_pages()

    def _generation(self, slot: int) -> int:
        return self._q[self.table.slot0 + slot * SLOT_WORDS] >> states.GENERATION_SHIFT

    def _return(self, page: int, slot: int, released: bool = False) -> None:
        generation = self._generation(slot) - released
        self._returned.append((page, slot, generation & 0xFFFF_FFFF))

"""Readers and handlers in miniature: what the real ones do with the table, its words and its pages.

Their bytecodes are kill points as well. What they know and would lose when they die (free slots,
calls in flight, warm pages) is theirs; what happened to a call is in the shared ledger.
"""

from __future__ import annotations

from faircall.shm import slot_limiters, states
from faircall.shm.answers import WITHDRAWN
from faircall.shm.budgets import COUNTED
from faircall.shm.joint import mark
from faircall.shm.layout import SLOT, SMALL_PAGE, word_of
from faircall.shm.offers import ACCEPTED
from faircall.shm.pages import ANSWER, REQUEST
from faircall.shm.recovery import is_complete
from faircall.shm.rings import SLOT_WORDS
from faircall.shm.shared import Shared
from faircall.shm.slot_limiters import limiter_words
from faircall.shm.states import Status

from .calls import Call, Ledger

NEVER_NS = 1 << 62
SPENT_US, ANSWER_BYTES = 700, 16  # of every call
NO_ROOM = -1  # verdict of `offer` when no page was left
_S = {name: word_of(SLOT, name) for name in SLOT.names or ()}


class Reader:
    """One reader's side. `calls` are in flight, by slot; `warm` pages stay with free slots."""

    def __init__(self, shared: Shared, ledger: Ledger, number: int) -> None:
        self.shared, self.ledger, self.number = shared, ledger, number
        self.table, self.q = shared.table, shared.segment.q
        self.calls: dict[int, Call] = {}
        self.warm: dict[int, int] = {}
        self.begin()

    def begin(self) -> None:
        """As a new process: only the slots' words tell what is free."""
        first = self.number * self.table.slots_per_reader
        slots = range(first, first + self.table.slots_per_reader)
        self.calls, self.warm = {}, {}
        self.free = [slot for slot in reversed(slots) if self.state(slot) == states.FREE]

    def state(self, slot: int) -> int:
        return self.q[self.own(slot)] & states.STATE_MASK

    def own(self, slot: int) -> int:
        return self.table.slot0 + slot * SLOT_WORDS

    def stage(self, call: Call) -> int:
        """Write `call` into a free slot; NO_ROOM if its request found no pages."""
        slot, q = self.free[-1], self.q
        place = self.warm.pop(slot, 0)
        if not place or call.asks > SMALL_PAGE:
            self.give_back([(place, slot, self.generation(slot))])
            place = self.shared.pages.take(slot, REQUEST, call.asks)
        if not place:
            return NO_ROOM
        self.free.pop()
        self.shared.pages.write(place, call.request)
        own, flags = self.own(slot), states.IDEMPOTENT if call.idempotent else 0
        q[own + _S["principal"]] = q[own + _S["identity"]] = call.who
        q[own + _S["call"]] = states.call_word(
            call.tag, cls=call.cls, flags=flags, level=call.level
        )
        slot_limiters.clear(q, own)
        slot_limiters.name(q, own, limiter_words(list(call.limiters)))
        if call.counted:
            slot_limiters.look_closer(q, own)
            q[own + _S["budget"]] = COUNTED
        q[own + _S["deadline_ns"]] = NEVER_NS
        q[own + _S["reserved"]] = call.expected_ns
        q[own + _S["request"]] = call.asks << 32 | place
        q[own + _S["answer_page"]] = 0
        self.calls[slot] = call
        return slot

    def offer(self, calls: list[Call]) -> list[int]:
        """Stage and enqueue `calls`; a verdict for each."""
        slots = [self.stage(call) for call in calls]
        return self.enqueue([slot for slot in slots if slot != NO_ROOM])

    def enqueue(self, slots: list[int]) -> list[int]:
        """Offer the staged `slots` to the queue; those refused are free again."""
        verdicts = [NO_ROOM] * len(slots)
        self.table.enqueue([(slot, self.calls[slot].level) for slot in slots], verdicts)
        for slot, verdict in zip(slots, verdicts, strict=True):
            if verdict != ACCEPTED:
                del self.calls[slot]
                self.give_back(self.chains(slot, self.generation(slot)))
                self.free.append(slot)
        return verdicts

    def gather(self, most: int = 64) -> list[int]:
        """Collect what is answered, note it, free the slots and their pages; the tags."""
        out = [0] * most
        taken = out[: self.table.collect(self.number, out)]
        tags, chains = [], []
        for slot in taken:
            call = self.calls.pop(slot, None)
            if call is not None:
                self.note(slot, call)
                tags.append(call.tag)
            chains += self.release(slot)
        self.give_back(chains)
        return tags

    def note(self, slot: int, call: Call) -> None:
        """The answer goes to the client, once and for all."""
        own = self.own(slot)
        word = self.q[own + _S["answer"]]
        assert is_complete(word, self.generation(slot)), "answered without an answer"
        if word & 0xFF == Status.RESULT:
            body = self.shared.pages.read(self.q[own + _S["answer_page"]], word >> 8 & 0xFFFF_FFFF)
            assert body == call.answer, f"answer of {call}: {body[:40]!r}"
        self.ledger.answered(call.tag, word & 0xFF)

    def release(self, slot: int) -> list[tuple[int, int, int]]:
        """A TAKEN slot becomes FREE, keeping one request page; the chains to give back."""
        generation = self.generation(slot)
        request = self.q[self.own(slot) + _S["request"]]
        chains = self.chains(slot, generation)
        if request >> 32 <= SMALL_PAGE and len(self.warm) < 2:
            warm = request & 0xFFFF_FFFF
            self.shared.pages.restamp(warm, slot, generation + 1)
            self.warm[slot] = warm
            chains = [chain for chain in chains if chain[0] != warm]
        self.table.release(slot)
        self.free.append(slot)
        return chains

    def chains(self, slot: int, generation: int) -> list[tuple[int, int, int]]:
        """The page chains of a slot's call, for `give_back`."""
        own = self.own(slot)
        pages = {self.q[own + _S[name]] & 0xFFFF_FFFF for name in ("request", "answer_page")}
        return [(page, slot, generation) for page in sorted(pages)]

    def give_back(self, chains: list[tuple[int, int, int]]) -> None:
        if chains := [chain for chain in chains if chain[0]]:
            self.shared.pages.give_back(chains)

    def withdraw(self, slots: list[int], charged_ns: int | None = None) -> list[int]:
        """Give up `slots`: nobody waits for their calls any more; an outcome for each."""
        outcomes, generations = [0] * len(slots), [self.generation(slot) for slot in slots]
        self.table.withdraw(self.number, slots, outcomes, charged_ns=charged_ns)
        for slot, outcome, generation in zip(slots, outcomes, generations, strict=True):
            del self.calls[slot]
            if outcome == WITHDRAWN:
                self.give_back(self.chains(slot, generation))
                self.free.append(slot)
        return outcomes

    def generation(self, slot: int) -> int:
        return self.q[self.own(slot)] >> states.GENERATION_SHIFT


class Handler:
    """One handler's side: claim, run what is still wanted, publish."""

    def __init__(self, shared: Shared, ledger: Ledger, number: int, calls: dict[int, Call]) -> None:
        self.shared, self.ledger, self.number = shared, ledger, number
        self.table, self.q = shared.table, shared.segment.q
        self.current = shared.row("handler", number).word("current")
        self.known = calls  # every call there ever was, by tag
        self.begin()

    def begin(self) -> None:
        """As a new process."""
        self.now_ns = 0
        self.claimed: list[tuple[int, int]] = []  # (slot, token)
        self.joined: list[tuple[int, int]] = []  # to be run together, after these
        self.ready: list[tuple[int, int]] = []

    def claim(self, now_ns: int = 0, most: int = 4) -> list[int]:
        """Claim the next calls; their tags."""
        self.now_ns = now_ns
        out, tokens = [0] * most, [0] * most
        count = self.table.claim(self.number, now_ns, out, tokens)
        fresh = list(zip(out[:count], tokens[:count], strict=True))
        self.claimed += fresh
        self.turn_away()
        joint = self.table.joint
        self.joined = list(zip(joint.slots, joint.tokens, strict=True))
        return [self.tag(slot) for slot, _ in (*fresh, *self.joined)]

    def turn_away(self) -> None:
        """Answer what the claim found no room to hold."""
        for slot, token in self.table.turned_away:
            own, generation = self.table.slot0 + slot * SLOT_WORDS, token >> 32
            self.q[own + _S["answer"]] = states.answer_word(Status.THROTTLED, 0, generation)
            self.ready.append((slot, token))
        self.table.turned_away.clear()

    def run(self) -> None:
        """Run the oldest claimed call, if it is still wanted."""
        q, (slot, token) = self.q, self.claimed.pop(0)
        own = self.table.slot0 + slot * SLOT_WORDS
        generation = token >> states.GENERATION_SHIFT
        q[self.current] = generation << 32 | slot + 1
        if q[own] == token:
            level = token >> states.LEVEL_SHIFT & states.LEVEL_MASK
            self.ledger.ran(self.tag(slot), level)
            self.answer(slot, own, generation)
        else:
            q[own + _S["answer"]] = states.answer_word(Status.EXPIRED, 0, generation)
        q[self.current] = 0
        self.ready.append((slot, token))

    def run_together(self) -> None:
        """Begin all that are to be run together, run those still wanted, answer one by one."""
        q, joined, self.joined = self.q, self.joined, []
        owns = [self.table.slot0 + slot * SLOT_WORDS for slot, _ in joined]
        current = joined[0][1] >> states.GENERATION_SHIFT << 32 | joined[0][0] + 1
        mark(q, owns, current)
        q[self.current] = current
        wanted = [q[own] == token for own, (_, token) in zip(owns, joined, strict=True)]
        for (slot, token), is_wanted in zip(joined, wanted, strict=True):
            if is_wanted:
                self.ledger.ran(self.tag(slot), token >> states.LEVEL_SHIFT & states.LEVEL_MASK)
        for (slot, token), own, is_wanted in zip(joined, owns, wanted, strict=True):
            generation = token >> states.GENERATION_SHIFT
            if is_wanted:
                self.answer(slot, own, generation)
            else:
                q[own + _S["answer"]] = states.answer_word(Status.EXPIRED, 0, generation)
        q[self.current] = 0
        self.ready += joined

    def answer(self, slot: int, own: int, generation: int) -> None:
        q, pages, call = self.q, self.shared.pages, self.known[self.tag(slot)]
        request, place = q[own + _S["request"]], 0
        assert pages.read(request & 0xFFFF_FFFF, request >> 32) == call.request
        if call.asks + call.answers <= SMALL_PAGE:
            place = (request >> 32) << 32 | request & 0xFFFF_FFFF
        else:
            place = pages.take(slot, ANSWER, call.answers)
        if place:
            pages.write(place, call.answer)
        q[own + _S["answer_page"]] = place
        q[own + _S["spent_ns"]] = SPENT_US * 1000
        status, length = (Status.RESULT, call.answers) if place else (Status.NO_ROOM, 0)
        q[own + _S["answer"]] = states.answer_word(status, length, generation)

    def publish(self) -> None:
        """Hand over what is answered; what it used is charged before."""
        q, slot0 = self.q, self.table.slot0
        ended = [slot for slot, _ in self.ready if q[slot0 + slot * SLOT_WORDS + _S["budget"]]]
        if ended:
            self.table.settle(ended, [(SPENT_US, ANSWER_BYTES, True)] * len(ended), self.now_ns)
        for reader in range(self.shared.geometry.readers):
            mine = [pair for pair in self.ready if pair[0] // self.table.slots_per_reader == reader]
            if mine:
                self.table.publish(reader, mine)
        self.ready = []

    def work(self, now_ns: int = 0) -> list[int]:
        """One whole turn: claim, run all, publish; the tags."""
        tags = self.claim(now_ns)
        while self.claimed:
            self.run()
        if self.joined:
            self.run_together()
        self.publish()
        return tags

    def tag(self, slot: int) -> int:
        return self.q[self.table.slot0 + slot * SLOT_WORDS + _S["call"]] & 0xFFFF_FFFF

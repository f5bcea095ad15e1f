"""A small server's shared memory, its processes in miniature, and the promises that they keep.

    w = World(); w.reader(0).offer([w.call(level=1)]); w.handler(1).work(); w.finish(); w.verify()

A world is put back to a snapshot by copying its bytes, so that thousands of deaths start alike.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
from typing import Any

from faircall.shm import states
from faircall.shm.layout import CACHE_LINE, GROUP_SHIFT, WORD, Geometry
from faircall.shm.limiter_counters import L_OPENS, L_USED, L_VERSION
from faircall.shm.pages import PagePool
from faircall.shm.policy import QueuePolicy
from faircall.shm.segment import Segment
from faircall.shm.shared import Shared
from faircall.shm.states import Status
from faircall.shm.terms import Kind, Terms, key_of

from .calls import Call, Ledger
from .kill import Watched
from .roles import Handler, Reader

SMALL = Geometry(
    readers=2,
    handlers=2,
    slots=8,
    levels=4,
    turns=64,
    identities=8,
    methods=4,
    limiters=2,
    small_pages=24,
    large_pages=4,
)
GROUPED = dataclasses.replace(SMALL, handlers=4, group_handlers=(2, 2))
OTHER_GROUP = 1 << GROUP_SHIFT  # the number of its level 0
POLICY = QueuePolicy(capacities=(8, 8, 8, 8), max_principal=16)
OWNER_DIED = 0x4000_0000  # the kernel's mark in the word of a futex (FUTEX_OWNER_DIED)
USERS = 5  # rows 1 to 5 have names from the start
MANY = 1000  # calls per period of the limiters of these tests
LATER = 1 << 30  # ns: every limiter of these tests is open by then


def set_to_work(shared: Shared) -> None:
    """Every handler is there, and sleeps."""
    for number in range(shared.geometry.handlers):
        shared.row("handler", number)["status"] = states.Life.READY
    with shared.table.queue_lock:
        shared.table.recovery.rebuild_queue()


class World:
    """Everything shared, two readers, two handlers, and a ledger of what happened to each call."""

    def __init__(self, policy: QueuePolicy = POLICY, geometry: Geometry = SMALL) -> None:
        self.shared = Shared(geometry, policy)
        self.table, self.names = self.shared.table, self.shared.names
        self.pages: PagePool = self.shared.pages
        self.q = self.shared.segment.q
        for row in range(1, USERS + 1):
            self.names.identity(f"user-{row}", 0)
        self.ledger = Ledger()
        self.calls: dict[int, Call] = {}
        self.readers = [Reader(self.shared, self.ledger, r) for r in range(geometry.readers)]
        self.handlers = [
            Handler(self.shared, self.ledger, h, self.calls) for h in range(geometry.handlers)
        ]
        set_to_work(self.shared)
        self.dead_readers: set[int] = set()
        self.dead_handlers: set[int] = set()

    def reader(self, number: int) -> Reader:
        return self.readers[number]

    def handler(self, number: int) -> Handler:
        return self.handlers[number]

    def call(self, **kind: Any) -> Call:
        """A new call; see `roles.Call` for its kinds."""
        tag = len(self.calls) + 1
        self.calls[tag] = Call(tag, **kind)
        return self.calls[tag]

    def run_together(self, most: int, within_ns: int = 0) -> None:
        """Calls that are made `together` are of one method from now on, up to so many of which are
        run at once. (All others are of methods of their own: their tags.)"""
        joint = self.table.joint
        tag_at = joint.method_at

        def method_at(own: int) -> int:
            tag = tag_at(own)
            return 0 if tag >= 0 and self.calls[tag].together else -1

        joint.methods[0] = most, within_ns
        joint.method_at = method_at  # type: ignore[method-assign]

    def limit(self, row: int, calls: int = -1, period_ns: int = 1000, **terms: Any) -> int:
        """Limiter `row` has these terms from now on; those before it are made with none."""
        limiters = self.table.limiters
        new = Terms(limits=(calls, -1, -1), period_ns=period_ns)
        with self.table.queue_lock:
            while (number := len(limiters.used_rows())) <= row:
                limiters.make(key_of(Kind.RESOURCE, number + 1), 0, Terms(), 1, 0, 0)
            version = self.q[limiters.at(row) + L_VERSION] + 1
            limiters.apply(row, dataclasses.replace(new, **terms), version, 0)
        return row

    def close_limiter(self, row: int, opens_ns: int) -> None:
        """Limiter `row` lets nobody through until `opens_ns`, and many then."""
        limiters, at = self.table.limiters, self.table.limiters.at(row)
        self.limit(row, MANY, opens_ns)
        self.q[at + L_USED] = MANY
        self.q[at + L_OPENS] = limiters.opens_ns(at)

    def state(self, slot: int) -> int:
        return self.q[self.table.slot0 + slot * self.table.words.shape[1]] & states.STATE_MASK

    def close(self) -> None:
        """Its descriptors; the memory goes with the last reference."""
        self.shared.doorbells.close()
        os.close(self.shared.segment.fd)

    # -- deaths ----------------------------------------------------------------------------------

    def bury_reader(self, number: int) -> None:
        """What the janitor does after reader `number` died; then another takes its place."""
        self.table.recovery.reap_reader(number)
        self.shared.locks_touched()
        self.dead_readers.add(number)
        self.readers[number].begin()

    def bury_handler(self, number: int) -> None:
        """The same for a handler."""
        self.table.recovery.reap_handler(number)
        self.shared.locks_touched()
        self.shared.row("handler", number).prepare(0)
        self.dead_handlers.add(number)
        self.handlers[number].begin()

    # -- snapshots -------------------------------------------------------------------------------

    def watched(self) -> Watched:
        """The shared words, and the ledger."""
        shared = watched_words(self.shared.segment)
        return Watched(shared.always, [*shared.lasting, self.ledger.words])

    def digest(self) -> bytes:
        """What tells this world from others, but for who it was that died holding a lock."""
        layout, words = self.shared.segment.layout, self.shared.segment.bytes
        orphaned = [
            self.q[at // WORD] & OWNER_DIED for at in range(layout.locks, layout.shard, CACHE_LINE)
        ]
        state = hashlib.sha256(words[layout.shard : layout.small_pages])
        state.update(repr(orphaned).encode())
        state.update(self.ledger.bytes)
        return state.digest()

    def snapshot(self) -> tuple[bytes, bytes, list[Any]]:
        """The shared words and what each process knows."""
        local = [self._local(), self.dead_readers, self.dead_handlers]
        return bytes(self.shared.segment.bytes), self.ledger.words.tobytes(), _copied(local)

    def restore(self, snapshot: tuple[bytes, bytes, list[Any]]) -> None:
        """As it was, with every lock as it was; no other process may hold one."""
        segment, ledger, local = snapshot
        self.shared.segment.bytes[:] = segment
        self.ledger.bytes[:] = ledger
        self.table.policy_version = -1
        self.table.turned_away.clear()
        self.table.openings.unfinished.clear()
        self.table.plain_charges.forget()
        roles, dead_readers, dead_handlers = _copied(local)
        self.dead_readers, self.dead_handlers = dead_readers, dead_handlers
        for role, values in zip([*self.readers, *self.handlers], roles, strict=True):
            for name, value in values.items():
                setattr(role, name, value)

    def _local(self) -> list[dict[str, Any]]:
        readers = [{"free": r.free, "calls": r.calls, "warm": r.warm} for r in self.readers]
        handlers = [
            {"claimed": h.claimed, "joined": h.joined, "ready": h.ready} for h in self.handlers
        ]
        return [*readers, *handlers]

    # -- promises --------------------------------------------------------------------------------

    def audit(self) -> list[str]:
        return self.shared.audit()

    def finish(self) -> None:
        """Everything that waits is run by the `others`, and every answer is collected."""
        for handler in self.handlers:
            while handler.claimed:
                handler.run()
            if handler.joined:
                handler.run_together()
            handler.publish()
        self.others_work(LATER)
        for reader in self.readers:
            reader.gather()

    def finish_claimed(self, number: int) -> None:
        """Handler `number` runs and publishes what it has claimed."""
        handler = self.handler(number)
        while handler.claimed:
            handler.run()
        handler.publish()

    def others_work(self, now_ns: int = 0) -> None:
        """Handler 1, or the second of each group, does what there is."""
        geometry = self.shared.geometry
        places = [geometry.handlers_of(group) for group in range(geometry.groups)]
        others = [self.handler(min(own.start + 1, own.stop - 1)) for own in places]
        while sum(len(handler.work(now_ns)) for handler in others):
            pass

    def run_order(self) -> list[list[int]]:
        """Per level of each group, the tags in the order of their first runs."""
        geometry = self.shared.geometry
        bases = (group << GROUP_SHIFT for group in range(geometry.groups))
        levels = range(geometry.levels)
        return [self.ledger.run_order(base + level) for base in bases for level in levels]

    def verify(self) -> None:
        """After `finish`: nothing was lost, doubled or leaked."""
        assert self.audit() == []
        self._verify_calls()
        self._verify_slots()
        for table in (self.names.identities, self.names.methods):
            rows = table.used_rows()
            assert [table.find(table.name(row)) for row in rows] == rows, "a name is not found"

    def _verify_calls(self) -> None:
        ledger = self.ledger
        for tag, call in self.calls.items():
            runs, answers, status = ledger.runs[tag], ledger.answers[tag], ledger.status[tag]
            assert runs <= (states.MAX_ATTEMPTS if call.idempotent else 1), f"{call} ran {runs}x"
            assert answers <= 1, f"{call} was answered {answers}x"
            if answers:
                known = (Status.RESULT, Status.DIED, Status.THROTTLED)
                assert status in known, f"{call}: status {status}"
                assert runs or status != Status.RESULT, f"{call} was answered without a run"
                assert status != Status.DIED or self.dead_handlers, f"{call} died of nothing"
                assert not runs or status != Status.THROTTLED, f"{call} ran and was refused"

    def _verify_slots(self) -> None:
        assert [reader.calls for reader in self.readers] == [{}] * len(self.readers), "lost"
        assert self.table.recovery.count_states() == {"FREE": self.shared.geometry.calls}
        assert self.pages.leaked() == 0
        warm = sum(len(reader.warm) for reader in self.readers)
        geometry = self.shared.geometry
        free = sum(self.pages.free_pages())
        assert free == geometry.small_pages + geometry.large_pages - warm, "pages are still used"


def watched_words(segment: Segment) -> Watched:
    """All of a segment but the payload. What is lasting are counts, and lists of them."""
    layout, words = segment.layout, segment.words
    lists, pages, payload = layout.top_callers, layout.small_words, layout.small_pages
    return Watched(
        always=[words(0, lists // WORD), words(pages, (payload - pages) // WORD)],
        lasting=[words(lists, (pages - lists) // WORD)],
    )


def _copied(value: Any) -> Any:
    """Containers anew, with the same numbers and calls in them."""
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copied(item) for item in value]
    return set(value) if isinstance(value, set) else value

"""The invariants of the call table, which hold whenever its locks are free.

    the rings hold exactly the QUEUED slots, each once, in (turn, seq) order within its turn,
        and no turn is before its level's or a ring's length after it
    the limiters' heaps hold exactly the HELD slots, each in that of the limiter it names, and none
        behind a later one
    opened of a limiter and of a level = |QUEUED that were held before|, running of a limiter =
        |RUNNING and ABANDONED that name it and are to be settled|, opens_ns = what its words say
    waiting of a group = |QUEUED of its levels|, held = |HELD|,
        level_waiting[l][c] = |QUEUED of level l, class c|,
        level_held[l] = |HELD of level l|, held of a limiter = the size of its heaps
    waiting of a limiter = |QUEUED and HELD that are COUNTED and name it last|; more than BACKLOG
        are a backlog, and there is none without any
    waiting of a principal = |its QUEUED and HELD slots|, and the same in each group
    an answer ring holds exactly the DONE slots of its reader

Words that somebody scribbled over, so that they cannot even be followed, are a finding as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from . import states
from .backlogs import BACKLOG
from .budgets import COUNTED, RESERVED
from .layout import GROUP_SHIFT, SLOT, word_of
from .limiter_counters import L_BACKLOG, L_HELD, L_OPENED, L_OPENS, L_RUNNING, L_WAITING
from .rings import SLOT_WORDS, W_CALL, W_SEQ, W_TURN
from .slot_limiters import CLOSER, W_BATCH, W_BUDGET, W_HELD_BY, W_LIMITERS
from .states import DONE, HELD, QUEUED

if TYPE_CHECKING:
    from .table import CallTable

W_PRINCIPAL = word_of(SLOT, "principal")


def audit(table: CallTable) -> list[str]:
    """Every invariant of the module docstring; [] when sound."""
    with table.queue_lock:
        bad = _findings(_rings, table) + _findings(_held, table)
        bad += _findings(_limiters, table) + _findings(_backlogs, table)
        bad += _findings(_principals, table) + _findings(_marks, table)
    for reader, lock in enumerate(table.answer_locks):
        with lock:
            bad += _findings(lambda t, r=reader: _answers(t, r), table)  # type: ignore[misc]
    return bad


def _findings(part: Callable[[CallTable], list[str]], table: CallTable) -> list[str]:
    try:
        return part(table)
    except (IndexError, OverflowError, ValueError) as error:
        return [f"words cannot be followed: {error!r}"]


def _rings(table: CallTable) -> list[str]:
    bad, seen, groups = [], Counter[int](), Counter[int]()
    for level in range(table.geometry.rings):
        for cls in (states.SHORT, states.LONG):
            total, places = 0, table.rings.places(level, cls)
            if places != table.rings.occupied(level, cls):
                bad.append(f"level {level} class {cls}: the bitmap differs from its ring")
            for place in places:
                chain = table.rings.chain(level, cls, place)
                bad += _chain(table, (level, cls, place), chain)
                seen.update(chain)
                total += len(chain)
            groups[level >> GROUP_SHIFT] += total
            if total != (count := table.q[table.rings.waiting_word + level * 2 + cls]):
                bad.append(f"level {level} class {cls}: {total} in the ring, counted {count}")
    for group, word in enumerate(table.waiting_words):
        if table.q[word] != groups[group]:
            bad.append(f"group {group}: {groups[group]} wait, counted {table.q[word]}")
    return bad + _differs(table, "rings", seen, QUEUED)


def _chain(table: CallTable, where: tuple[int, int, int], chain: list[int]) -> list[str]:
    """What is wrong with the `chain` at (level, class, place)."""
    keys = [_key(table, slot) for slot in chain]
    first = table.q[table.rings.turn_word + where[0]] + table.rings.lead_of(*where[:2])
    placed = all(key[:3] == where and 0 <= key[3] - first < table.rings.turns for key in keys)
    if chain and placed and keys == sorted(keys, key=lambda key: key[3:]):
        return []
    return [f"level, class, place {where}, level at turn {first}: {keys}"]


def _key(table: CallTable, slot: int) -> tuple[int, int, int, int, int]:
    """(level, class, place, turn, seq) of a slot."""
    q, own = table.q, table.slot0 + slot * SLOT_WORDS
    level = q[own] >> states.LEVEL_SHIFT & states.LEVEL_MASK
    cls = q[own + W_CALL] >> states.CLASS_SHIFT & 1
    return level, cls, q[own + W_TURN] % table.rings.turns, q[own + W_TURN], q[own + W_SEQ]


def _held(table: CallTable) -> list[str]:
    q, bad, seen = table.q, [], Counter[int]()
    for row in table.held.holding():
        chain = table.held.chain(row)
        seen.update(chain)
        names = {q[table.slot0 + slot * SLOT_WORDS + W_HELD_BY] - 1 for slot in chain}
        count = q[table.limiters.at(row) + L_HELD]
        if names - {row} or count != len(chain):
            bad.append(f"limiter {row}: {len(chain)} in the chain, counted {count}, name {names}")
    levels = Counter(_key(table, slot)[0] for slot in seen)
    for level in range(table.geometry.rings):
        if levels[level] != (count := q[table.held.level_held_word + level]):
            bad.append(f"level {level}: {levels[level]} held, counted {count}")
    if q[table.held.held_word] != seen.total():
        bad.append(f"{seen.total()} held, counted {q[table.held.held_word]}")
    return bad + _differs(table, "held chains", seen, HELD)


def _marks(table: CallTable) -> list[str]:
    """Calls that wait, and would not be looked at though they should be: their slots."""
    waiting = np.concatenate((table.recovery.slots_in(QUEUED), table.recovery.slots_in(HELD)))
    looks = table.words[waiting][:, [W_HELD_BY, W_BATCH, W_BUDGET]].any(axis=1)
    marked = table.words[waiting, W_LIMITERS] & np.uint64(CLOSER) != 0
    return [f"slot {slot}: not marked CLOSER" for slot in waiting[looks & ~marked].tolist()]


def _limiters(table: CallTable) -> list[str]:
    limiters, words, rows = table.limiters, table.words, table.recovery
    queued = rows.slots_in(QUEUED)
    queued = queued[words[queued, W_LIMITERS] != 0]
    opened = Counter(int(row) - 1 for row in words[queued, W_HELD_BY] if row)
    levels = table.rings.levels_of(queued[words[queued, W_HELD_BY] != 0])
    running = rows.claimed()
    running = running[words[running, W_BUDGET] & np.uint64(RESERVED | COUNTED) != 0]
    settles = Counter(table.budgets.named_by(running).tolist())
    bad = []
    for level, count in enumerate(
        np.bincount(levels, minlength=table.geometry.ring_numbers).tolist()
    ):
        if count != (counted_at := table.q[table.held.level_opened_word + level]):
            bad.append(f"level {level}: {count} were let go, counted {counted_at}")
    for row in limiters.used_rows():
        at = limiters.at(row)
        counted = tuple(table.q[at + word] for word in (L_OPENED, L_RUNNING, L_OPENS))
        if counted != (truth := (opened[row], settles[row], limiters.opens_ns(at))):
            bad.append(f"limiter {row}: opened, running, opens_ns {counted}, should be {truth}")
    return bad


def _backlogs(table: CallTable) -> list[str]:
    waiting = np.concatenate((table.recovery.slots_in(QUEUED), table.recovery.slots_in(HELD)))
    truth, bad = table.backlogs.counts_of(waiting), []
    for row in table.limiters.used_rows():
        at = table.limiters.at(row)
        counted, backlog, count = table.q[at + L_WAITING], table.q[at + L_BACKLOG], int(truth[row])
        if counted != count or (backlog and not count) or (count > BACKLOG and not backlog):
            bad.append(f"limiter {row}: {counted} wait, backlog {backlog}, should be {count}")
    return bad


def _principals(table: CallTable) -> list[str]:
    both = np.concatenate((table.recovery.slots_in(QUEUED), table.recovery.slots_in(HELD)))
    rows = (table.words[both, W_PRINCIPAL] & np.uint64(0xFFFF_FFFF)).astype(np.intp)
    counted = table.recovery.principal_waiting
    if len(rows) and rows.max() >= len(counted):
        return [f"principal {rows.max()} of a call is no row"]
    counts = np.bincount(rows, minlength=len(counted))
    wrong = np.flatnonzero(counts != counted).tolist()
    by_groups = table.recovery.group_waiting
    for group, by_group in enumerate(by_groups.T if len(by_groups) else ()):
        mine = rows[table.rings.levels_of(both) >> GROUP_SHIFT == group]
        wrong += np.flatnonzero(np.bincount(mine, minlength=len(counted)) != by_group).tolist()
    return [f"principals {wrong[:5]}: another number waits"] if wrong else []


def _answers(table: CallTable, reader: int) -> list[str]:
    q = table.q
    ring = table.answers0 + reader * table.answer_stride
    entries = ring + table.answer_stride - table.slots_per_reader
    head, tail = q[ring], q[ring + 1]
    if not 0 <= tail - head <= table.slots_per_reader:
        return [f"answers of reader {reader}: head {head} tail {tail}"]
    mask = table.slots_per_reader - 1
    seen = Counter(q[entries + (at & mask)] for at in range(head, tail))
    done = Counter(table.recovery.slots_of(reader, DONE))
    return [] if seen == done else [f"answers of reader {reader}: {seen} for {done}"]


def _differs(table: CallTable, what: str, seen: Counter[int], state: int) -> list[str]:
    truth = Counter(table.recovery.slots_in(state).tolist())
    if seen == truth:
        return []
    more, missing = sorted((seen - truth).elements()), sorted((truth - seen).elements())
    return [f"{what}: {more[:5]} too many, {missing[:5]} missing"]

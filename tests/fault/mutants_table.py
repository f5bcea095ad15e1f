"""Mutants of the locks, of the call table and of its rings."""

from __future__ import annotations

from .mutant import mutant

MUTANTS = [
    # -- locks
    mutant(
        "who inherits a lock rebuilds",
        "mutex.py",
        "            self.rebuild()\n",
        "            pass\n",
    ),
    mutant(
        "a lock is consistent after the rebuild, not before",
        "mutex.py",
        "        try:\n            self.rebuild()\n",
        "        _keeping_gil.pthread_mutex_consistent(self._pointer)\n"
        "        try:\n            self.rebuild()\n",
    ),
    mutant(
        "a rebuild that raises ends the process",
        "mutex.py",
        '            end_process(f"rebuild of {self.name}", error)\n',
        "            print(error)\n",
    ),
    mutant(
        "an exception inside a section ends the process",
        "mutex.py",
        "        if kind is not None:\n",
        "        if kind is None:\n            pass\n        elif not os:\n",
    ),
    mutant(
        "waits are on the monotonic clock",
        "mutex.py",
        "_CLOCK_MONOTONIC = 1",
        "_CLOCK_MONOTONIC = 0",
    ),
    mutant(
        "mutexes are robust",
        "mutex.py",
        "_PROCESS_SHARED = _ROBUST = 1",
        "_PROCESS_SHARED, _ROBUST = 1, 0",
    ),
    # -- the table
    mutant(
        "what a state relies on is stored before the state",
        "table.py",
        "        q[own + W_SEQ], q[own + W_TURN] = seq, turn\n",
        "",
        "        )  # <- accepted here\n",
        "        )  # <- accepted here\n        q[own + W_SEQ], q[own + W_TURN] = seq, turn\n",
    ),
    mutant(
        "the limiter is stored before HELD",
        "table.py",
        "        q[own + W_HELD_BY], q[own + W_SINCE] = row + 1, now_ns\n",
        "",
        "HELD  # <- held here\n",
        "HELD  # <- held here\n        q[own + W_HELD_BY] = row + 1\n",
    ),
    mutant(
        "a collected answer is not given again",
        "table.py",
        "q[own] = q[own] & ~states.STATE_MASK | TAKEN  #",
        "pass  #",
    ),
    mutant(
        "only the claimer of this generation answers",
        "table.py",
        "if word in (token, token & ~states.STATE_MASK | ABANDONED):",
        "if word & states.STATE_MASK in (RUNNING, ABANDONED):",
    ),
    mutant(
        "a call given up comes back to its reader",
        "table.py",
        "if word in (token, token & ~states.STATE_MASK | ABANDONED):",
        "if word == token:",
    ),
    mutant(
        "a withdrawn call leaves its chain",
        "table.py",
        "            self._unlink(slot, own, word)\n            self.release(slot)\n",
        "            self.release(slot)\n",
    ),
    mutant(
        "a released slot is of the next generation", "table.py", "step: int = 1", "step: int = 0"
    ),
    mutant(
        "held calls count towards the capacity",
        "table.py",
        "q[both] + q[both + 1] + q[self.held.level_held_word + level]",
        "q[both] + q[both + 1]",
    ),
    mutant(
        "who finds nothing is idle",
        "table.py",
        "                q[idle] |= own_bit\n",
        "                pass\n",
    ),
    mutant(
        "one call at a time while somebody is idle",
        "table.py",
        "ahead_ns >= policy.claim_ahead_ns or self.some_handler_idles",
        "ahead_ns >= policy.claim_ahead_ns",
    ),
    mutant("weights are exact", "draws.py", "        if credit > 1:", "        if credit > 0:"),
    mutant(
        "a lane takes no more than its share",
        "draws.py",
        "if free or q[self.lane_debt_word + lane] < share:",
        "if True:",
    ),
    mutant(
        "a lane goes before the levels",
        "draws.py",
        "            if slot >= 0:\n                return slot\n        return self._first_from",
        "        return self._first_from",
    ),
    mutant(
        "a lane that is off takes no calls",
        "table.py",
        "if policy.lane_shares[level - self.geometry.levels]:",
        "if True:",
    ),
    mutant(
        "a rebuild leaves the lanes where they are",
        "recovery.py",
        "if levels <= level < self.table.geometry.levels:",
        "if levels <= level:",
    ),
    mutant(
        "a call that is held up is no draw",
        "table.py",
        "                    self._hold(slot, row, now_ns)\n",
        "                    self._hold(slot, row, now_ns)\n"
        "                    self.draws.drawn(policy, slot)\n",
    ),
    mutant("identities take turns", "table.py", "max(turn, q[last] + 1)", "max(turn, q[last])"),
    mutant(
        "turns keep within the ring",
        "table.py",
        "turn = min(max(turn, q[last] + 1), turn + self.rings.turns - 1)",
        "turn = max(turn, q[last] + 1)",
    ),
    mutant(
        "opened calls take turns",
        "openings.py",
        "self._opened.get(last, -1) + 1)",
        "0)",
    ),
    mutant(
        "a changed policy is in force for what waits",
        "table.py",
        "        return self.change.put_in_force(policy)\n",
        "        return False\n",
    ),
    # -- the rings and chains
    mutant(
        "a rebuild keeps the order",
        "rings.py",
        "np.lexsort((words[queued, W_SEQ], turn, ring))",
        "np.lexsort((turn, ring))",
    ),
    mutant(
        "chains are linked both ways",
        "rings.py",
        "        words[slots, W_PREV] = np.where(first, 0, np.roll(number, 1))\n",
        "",
    ),
    mutant(
        "a call that returns gets its old place",
        "rings.py",
        "            self._move_back(level, turn)\n",
        "            pass\n",
    ),
    mutant(
        "turns go back by MOST_BACK at most",
        "rings.py",
        "now - np.minimum(now, MOST_BACK)",
        "now - now",
    ),
    mutant(
        "a rebuild leaves every call its turn",
        "rings.py",
        "turn = np.clip(turn, base, base + np.uint64(self.turns - 1))",
        "turn = base",
    ),
    mutant(
        "the ring is searched from the level's turn on",
        "rings.py",
        "bits = q[ring + at] >> low << low",
        "bits = q[ring + at]",
    ),
    mutant(
        "both classes are one queue",
        "rings.py",
        "return short if (q[a + W_TURN], q[a + W_SEQ]) < (q[b + W_TURN], q[b + W_SEQ]) else long",
        "return short",
    ),
    mutant(
        "an emptied turn loses its bit",
        "rings.py",
        "            q[ring + (place >> 6)] &= ~(1 << (place & 63))\n",
        "            pass\n",
    ),
    mutant(
        "a rebuild knows when the next limiter opens",
        "held.py",
        "        if not earliest or opens < earliest:\n",
        "        if earliest and opens < earliest:\n",
    ),
    mutant(
        "what a call of a dead handler used is charged",
        "budgets.py",
        "max(us, word >> US_SHIFT), max(answer, reserved)",
        "0, 0",
    ),
    mutant(
        "no more are let go than there is room for",
        "openings.py",
        "        while calls > 0 and size > 0",
        "        while size > 0",
    ),
    mutant(
        "what finds no room after all is held at its old turn",
        "table.py",
        "            q[own + W_TURN] = q[own + W_CHILD]",
        "            pass",
    ),
    mutant(
        "held calls of a batch go with their head",
        "table.py",
        "                if paid:\n",
        "                if False:\n",
    ),
    mutant(
        "a new call does not overtake held ones of its key",
        "budgets.py",
        "        at = full or found or joins\n",
        "        at = full or found\n",
    ),
]

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
        "offers.py",
        "        q[own + W_SEQ], q[own + W_TURN] = seq, turn\n",
        "",
        "GENERATIONS  # <- accepted here\n",
        "GENERATIONS  # <- accepted here\n        q[own + W_SEQ], q[own + W_TURN] = seq, turn\n",
    ),
    mutant(
        "the limiter is stored before HELD",
        "claims.py",
        "        q[own + W_HELD_BY], q[own + W_SINCE] = row + 1, now_ns\n",
        "",
        "HELD  # <- held here\n",
        "HELD  # <- held here\n        q[own + W_HELD_BY] = row + 1\n",
    ),
    mutant(
        "a collected answer is not given again",
        "answers.py",
        "q[own] = q[own] & _NO_STATE | TAKEN  #",
        "pass  #",
    ),
    mutant(
        "only the claimer of this generation answers",
        "answers.py",
        "if word == token or word == token & _NO_STATE | ABANDONED:",
        "if word & states.STATE_MASK in (RUNNING, ABANDONED):",
    ),
    mutant(
        "a call given up comes back to its reader",
        "answers.py",
        "if word == token or word == token & _NO_STATE | ABANDONED:",
        "if word == token:",
    ),
    mutant(
        "a withdrawn call leaves its chain",
        "answers.py",
        "            self._unlink(slot, own, word, charged_ns)\n            self.release(slot)\n",
        "            self.release(slot)\n",
    ),
    mutant(
        "a released slot is of the next generation", "answers.py", "step: int = 1", "step: int = 0"
    ),
    mutant(
        "held calls count towards the capacity",
        "offers.py",
        "q[both] + q[both + 1] + q[self._level_held + level]",
        "q[both] + q[both + 1]",
    ),
    mutant(
        "who finds nothing is idle",
        "claims.py",
        "                q[idle] |= own_bit\n",
        "                pass\n",
    ),
    mutant(
        "one call at a time while somebody is idle",
        "claims.py",
        "most = 1 if self._some_idles(self._group) else len(out)",
        "most = len(out)",
    ),
    mutant(
        "weights are exact",
        "draws.py",
        "            if credit > 1:\n                q[",
        "            if credit > 0:\n                q[",
    ),
    mutant(
        "a lane takes no more than its share",
        "draws.py",
        "if free or q[self.lane_debt_word + lane] < share:",
        "if True:",
    ),
    mutant(
        "a lane goes before the levels",
        "draws.py",
        "            if slot >= 0:\n                return slot\n        level = self._q",
        "        level = self._q",
    ),
    mutant(
        "a lane that is off takes no calls",
        "offers.py",
        "if policy.lane_shares[lane]:",
        "if True:",
    ),
    mutant(
        "a rebuild leaves the lanes where they are",
        "recovery.py",
        "if levels <= level - base < self.table.geometry.levels:",
        "if levels <= level - base:",
    ),
    mutant(
        "a call that is held up is no draw",
        "claims.py",
        "                self._hold(slot, row, now_ns)\n",
        "                self._hold(slot, row, now_ns)\n"
        "                self._draws.drawn(policy, slot)\n",
    ),
    mutant(
        "who is passed over by a joint run keeps its place",
        "joint.py",
        "                self._q[self._draws.drawn_word] += 1\n",
        "                self._draws.drawn(policy, slot)\n",
    ),
    mutant(
        "draws to come are played through by their weights",
        "joint.py",
        "            level, credit = draws.following(policy, level, credit)\n",
        "            pass\n",
    ),
    mutant(
        "what ran before runs alone",
        "joint.py",
        "self._q[own] & _ATTEMPTS or",
        "False or",
    ),
    mutant(
        "a handler that waits is forgotten with its death",
        "recovery.py",
        "            q[draws.gathering_word] = 0\n",
        "",
    ),
    mutant(
        "a lane of a group that is off is its level 0",
        "offers.py",
        "                level = base\n",
        "                level = 0\n",
    ),
    mutant(
        "calls of another group wake its handlers",
        "offers.py",
        "wake |= self._idle_to_wake(len(accepted), expected_ns[group], group)",
        "wake |= self._idle_to_wake(len(accepted), expected_ns[group])",
    ),
    mutant(
        "what was let go wakes the handlers of its group",
        "claims.py",
        "self.wake |= self._idle_to_wake(wanted, expected_ns, group)",
        "self.wake |= self._idle_to_wake(wanted, expected_ns)",
    ),
    mutant(
        "a withdrawn call is counted in its group",
        "answers.py",
        "q[self._waiting_words[level >> GROUP_SHIFT]] -= 1",
        "q[self._waiting_words[0]] -= 1",
    ),
    mutant("identities take turns", "offers.py", "turn = q[last] + 1", "turn = q[last]"),
    mutant(
        "turns keep within the ring",
        "offers.py",
        "elif turn - now >= self._most_turns:",
        "elif False:",
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
        "ring_index.py",
        "np.lexsort((words[queued, W_SEQ], turn, ring))",
        "np.lexsort((turn, ring))",
    ),
    mutant(
        "chains are linked both ways",
        "ring_index.py",
        "        words[slots, W_PREV] = np.where(first, 0, np.roll(number, 1))\n",
        "",
    ),
    mutant(
        "a call that returns gets its old place",
        "ring_index.py",
        "            self._move_back(level, turn)\n",
        "            pass\n",
    ),
    mutant(
        "turns go back by MOST_BACK at most",
        "ring_index.py",
        "now - np.minimum(now, MOST_BACK)",
        "now - now",
    ),
    mutant(
        "a rebuild leaves every call its turn",
        "ring_index.py",
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
        "return short if (turn, q[a + W_SEQ]) < (q[b + W_TURN], q[b + W_SEQ]) else long",
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
        "settling.py",
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
        "claims.py",
        "            q[own + W_TURN] = q[own + W_CHILD]",
        "            pass",
    ),
    mutant(
        "held calls of a batch go with their head",
        "claims.py",
        "        if paid:\n",
        "        if False:\n",
    ),
    mutant(
        "a new call does not overtake held ones of its key",
        "blockers.py",
        "        at = full or found or joins\n",
        "        at = full or found\n",
    ),
    # -- calls without a backlog, and dropped ones
    mutant(
        "a backlog lasts until none waits",
        "backlogs.py",
        "= has_backlog(bool(q[at + L_BACKLOG]), waiting, BACKLOG)",
        "= waiting > BACKLOG",
    ),
    mutant(
        "a rebuild counts who waits",
        "recovery.py",
        "        table.backlogs.rebuild(waiting)\n",
        "",
    ),
    mutant(
        "who goes free counts among those that run",
        "budgets.py",
        "np.uint64(RESERVED | COUNTED)",
        "np.uint64(RESERVED)",
    ),
    mutant(
        "who is refused by a claim counts no more",
        "claims.py",
        "                    self._backlogs.unmark(own)\n",
        "                    pass\n",
    ),
    mutant(
        "a dropped call is charged before its slot is free",
        "answers.py",
        "            self._unlink(slot, own, word, charged_ns)\n            self.release(slot)\n",
        "            self.release(slot)\n            self._unlink(slot, own, word, charged_ns)\n",
    ),
    mutant(
        "a batch is dropped for one call",
        "budgets.py",
        "            q[at + L_OPENS] = limiters.opens_ns(at)\n        self._pay_batch(own)\n",
        "            q[at + L_OPENS] = limiters.opens_ns(at)\n",
    ),
]

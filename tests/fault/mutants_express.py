"""Mutants of what express handlers claim, and when."""

from __future__ import annotations

from .mutant import mutant

MUTANTS = [
    mutant(
        "express handlers claim short calls",
        "express.py",
        "        self._first_of = table.rings.first_short\n",
        "",
    ),
    mutant(
        "express handlers sleep while an ordinary one has time",
        "express.py",
        "super().next(policy) if self._express.are_wanted() else -1",
        "super().next(policy)",
    ),
    mutant(
        "short calls that come while all run long ones ring an express handler",
        "offers.py",
        "            return wake | self._express_to_wake(0) if self._leads else wake\n",
        "            return wake\n",
    ),
    mutant(
        "who claims the last long call rings for the short ones",
        "express.py",
        "        return self.leaves(handler) if is_long else 0\n",
        "        return self.leaves(handler) and 0 if is_long else 0\n",
    ),
    mutant(
        "who leaves rings for the short ones",
        "claims.py",
        "                wake |= self._express.leaves(handler)\n",
        "                self._express.leaves(handler)\n",
    ),
    mutant(
        "the short ring moves with what is drawn from it",
        "express.py",
        "            q[rings.lead_word + level] = lead\n",
        "            pass\n",
    ),
    mutant(
        "short calls that were served do not set their caller's long ones back",
        "turns.py",
        "            q[self._short0 + at] = turn + lead\n",
        "            q[self._last0 + at] = turn\n",
    ),
    mutant(
        "a call that is held has a turn by its level's count",
        "claims.py",
        "            q[own + W_TURN] -= self._rings.lead_of(level, cls)\n",
        "            pass\n",
    ),
    mutant(
        "a call that is let go has a turn by its ring's",
        "openings.py",
        "        turn += table.rings.lead_of(level, cls)\n",
        "",
    ),
    mutant(
        "a rebuild knows who runs a long call",
        "handler_bits.py",
        " or handler in long\n",
        "\n",
    ),
    mutant(
        "a rebuild wakes nobody who is not there yet",
        "handler_bits.py",
        "is_awake = is_absent or handler in busy",
        "is_awake = q[row + _LEAVING] or handler in busy",
    ),
    mutant(
        "a handler that died has no time",
        "recovery.py",
        "            table.q[table.taken_word + (handler >> 6)] |= 1 << (handler & 63)\n",
        "",
    ),
]

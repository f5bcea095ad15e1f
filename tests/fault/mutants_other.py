"""Mutants of the recovery, of pages, names, policy, columns and segment."""

from __future__ import annotations

from .mutant import mutant

MUTANTS = [
    # -- recovery
    mutant(
        "what a dead handler had given up is settled",
        "recovery.py",
        "both = self.claimed()",
        "both = self.slots_in(RUNNING)",
    ),
    mutant(
        "what may not be repeated is not",
        "recovery.py",
        "again = q[own + W_CALL] >> states.FLAGS_SHIFT & states.IDEMPOTENT",
        "again = 1",
    ),
    mutant(
        "a call that began is known",
        "recovery.py",
        "        began = self._began(current, slot)\n",
        "        began = False\n",
    ),
    mutant(
        "all calls that are run together begin with the first",
        "recovery.py",
        "return alone or began_with(q, own, current)",
        "return alone",
    ),
    mutant(
        "a complete answer is published",
        "recovery.py",
        "        if is_complete(q[own + W_ANSWER], generation):\n            table.answer",
        "        if False:\n            table.answer",
    ),
    mutant(
        "an answer is complete for its generation only",
        "recovery.py",
        "return bool(answer & 0xFF) and answer >> 40 == generation & 0xFF_FFFF",
        "return bool(answer & 0xFF)",
    ),
    mutant(
        "attempts are counted",
        "recovery.py",
        "attempts << states.ATTEMPT_SHIFT\n",
        "0\n",
    ),
    mutant(
        "pages of an unfinished answer are freed",
        "recovery.py",
        "        self._free_answer_pages(claimed)\n",
        "",
    ),
    mutant(
        "pages of a dead reader are freed",
        "recovery.py",
        "        with table.pages.lock:\n            table.pages.rebuild()\n",
        "",
    ),
    mutant(
        "a dead reader's warm pages are freed",
        "recovery.py",
        "table.release(slot, step=2)",
        "table.release(slot)",
    ),
    mutant(
        "what a dead reader had collected is free",
        "recovery.py",
        "elif state != ABANDONED:",
        "elif state in (0, QUEUED, HELD, DONE):",
    ),
    mutant(
        "a rebuilt answer ring has what was answered",
        "recovery.py",
        "        q[ring + 1] = len(done)\n",
        "",
    ),
    mutant(
        "a lost wake-up is made good",
        "recovery.py",
        "|= 1 << (handler & 63)",
        "|= 0",
    ),
    # -- pages, names, policy, columns
    mutant(
        "only one's own pages are given back",
        "pages.py",
        "if q[record] & ~(1 << _KIND_SHIFT) != owner:",
        "if not q[record]:",
    ),
    mutant(
        "a page stamped for the next call is in use",
        "pages.py",
        "(ahead < np.uint64(_BEHIND))",
        "(ahead == np.uint64(0))",
    ),
    mutant(
        "a page of a past generation is free",
        "pages.py",
        "((owner & np.uint64(USED)) != 0) & (ahead < np.uint64(_BEHIND))",
        "((owner & np.uint64(USED)) != 0)",
    ),
    mutant(
        "a name is there before its row exists",
        "names.py",
        "        self._bytes[at : at + len(encoded)] = encoded\n",
        "        self.q[self.first + row * self.row_words] = hashed\n"
        "        self._bytes[at : at + len(encoded)] = encoded\n",
    ),
    mutant(
        "a freed row is of another generation",
        "names.py",
        '                self.identities.q[self.word(row, "word")] += 1 << 32\n',
        "",
        "= 0  # <- free\n",
        '= 0  # <- free\n                self.identities.q[self.word(row, "word")] += 1 << 32\n',
    ),
    mutant(
        "the name index is never empty",
        "names.py",
        "        index = np.zeros_like(self._index_words)\n",
        "        index = self._index_words\n        index[:] = 0\n",
    ),
    mutant(
        "nothing is raised inside a section",
        "names.py",
        "and (free := self.methods.free_row()) >= 0:",
        "and [0][-(free := self.methods.free_row())] == 0:",
    ),
    mutant(
        "a policy is in force with its last store",
        "policy.py",
        '        self._put(version, "levels", [policy.levels])\n',
        "        self._q[self.version_word] = version\n"
        '        self._put(version, "levels", [policy.levels])\n',
    ),
    mutant(
        "a column has one writer",
        "columns.py",
        "at = process * self._identities + identity",
        "at = identity",
    ),
    mutant(
        "the segment has real pages",
        "segment.py",
        "        os.posix_fallocate(fd, 0, size)  # ENOSPC here, not SIGBUS later\n",
        "        os.ftruncate(fd, size)\n",
    ),
]

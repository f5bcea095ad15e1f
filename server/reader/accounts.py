"""A row of the identity table, as one reader knows it."""

from __future__ import annotations

from ...shm.names import OTHERS, Names

RETRY_NS = 1_000_000_000  # how often a name without a row of its own asks for one


class Account:
    """What is charged under one name, and the level that the name has.

    `reference` is `generation << 32 | row`; `level_word` is where in the segment the janitor
    publishes the level: that of strangers, until it has looked at this one, and for good where
    `newcomers` share the account.
    """

    __slots__ = (
        "_looked",
        "_own_level",
        "_used",
        "_word",
        "asked_ns",
        "level_word",
        "name",
        "newcomers",
        "reference",
        "refreshed_ns",
        "row",
        "uncharged",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.row = OTHERS
        self.reference = 0
        self.level_word = 0
        self.asked_ns = 0
        self.refreshed_ns = 0
        self.newcomers = False
        self.uncharged = 0  # calls of this pass (`Admission.charge`)
        self._word = self._used = self._looked = self._own_level = 0

    def find(self, names: Names, now_ns: int, level: int = 0) -> None:
        """Look the row up, or make one at `level`."""
        self.row = row = names.identity(self.name, now_ns, level)
        self.reference = names.reference(row)
        self.asked_ns = now_ns
        self._word, self._used = names.word(row, "word"), names.word(row, "used_ns")
        self._looked, self._own_level = names.word(row, "looked"), names.word(row, "level")
        self._find_level(names)

    def refresh(self, names: Names, now_ns: int) -> None:
        """Once per pass with calls: note that the row is used, and that it is still this name's."""
        self.refreshed_ns = now_ns
        q = names.identities.q
        q[self._used] = now_ns
        if self.level_word != self._own_level:
            self._find_level(names)
        gone = q[self._word] >> 32 != self.reference >> 32
        if gone or (self.row == OTHERS and now_ns - self.asked_ns > RETRY_NS):
            self.find(names, now_ns)

    def _find_level(self, names: Names) -> None:
        known = names.identities.q[self._looked] or self.name in names.no_strangers
        shared = self.newcomers or not known
        self.level_word = names.strangers_level_word if shared else self._own_level

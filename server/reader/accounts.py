"""A row of the identity table, as one reader knows it."""

from __future__ import annotations

from ...shm.names import OTHERS, Names

RETRY_NS = 1_000_000_000  # how often a name without a row of its own asks for one


class Account:
    """What is charged under one name, and the level that the name has.

    `reference` is `generation << 32 | row`; `level_word` is where in the segment the janitor
    publishes the level.
    """

    __slots__ = (
        "_used",
        "_word",
        "asked_ns",
        "level_word",
        "name",
        "reference",
        "refreshed_ns",
        "row",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.row = OTHERS
        self.reference = 0
        self.level_word = 0
        self.asked_ns = 0
        self.refreshed_ns = 0
        self._word = self._used = 0

    def find(self, names: Names, now_ns: int, level: int = 0) -> None:
        """Look the row up, or make one at `level`."""
        self.row = row = names.identity(self.name, now_ns, level)
        self.reference = names.reference(row)
        self.asked_ns = now_ns
        self._word, self._used = names.word(row, "word"), names.word(row, "used_ns")
        self.level_word = names.word(row, "level")

    def refresh(self, names: Names, now_ns: int) -> None:
        """Once per pass with calls: note that the row is used, and that it is still this name's."""
        self.refreshed_ns = now_ns
        q = names.identities.q
        q[self._used] = now_ns
        gone = q[self._word] >> 32 != self.reference >> 32
        if gone or (self.row == OTHERS and now_ns - self.asked_ns > RETRY_NS):
            self.find(names, now_ns)

"""One rule of shm/, broken by replacing text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mutant:
    """In shm/`file`, each of `changes` replaces one text by another."""

    rule: str  # the one that it breaks
    file: str
    changes: tuple[tuple[str, str], ...]

    def applied(self, source: str) -> str:
        """`source`, with the rule broken; AssertionError if a text is not there exactly once."""
        for old, new in self.changes:
            count = source.count(old)
            assert count == 1, f"{self.rule}: {old!r} is there {count} times"
            source = source.replace(old, new)
        return source


def mutant(rule: str, file: str, *texts: str) -> Mutant:
    """`texts` are old and new in turn."""
    return Mutant(rule, file, tuple(zip(texts[::2], texts[1::2], strict=True)))

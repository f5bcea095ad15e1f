"""The rates that an administrator has set while the server runs: they go before those of the file.

A line of each subject, in the order in which they were set; a line replaces the one about the same
subject as a whole. `version` rises with each change, over restarts too where there is a state file.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..scheduling.dispatch_lines import normal, subject_of


@dataclass(frozen=True, slots=True)
class SetRates:
    """Part of the settings that a daemon goes by, but of none that are read."""

    version: int = 0
    lines: tuple[str, ...] = ()

    def with_line(self, line: str) -> SetRates:
        """The same, if that line is set already."""
        line = normal(line)
        if line in self.lines:
            return self
        rest = self._without(subject_of(line))
        return SetRates(self.version + 1, (*rest, line))

    def without(self, subject: str) -> SetRates:
        """The same, if nothing is set for that subject."""
        rest = self._without(subject_of(subject))
        return self if rest == self.lines else SetRates(self.version + 1, rest)

    def _without(self, subject: str) -> tuple[str, ...]:
        return tuple(line for line in self.lines if subject_of(line) != subject)

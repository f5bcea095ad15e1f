"""Rates that an administrator sets and removes while the daemon runs: kept, then put in force.

They are checked together with those of the file, stored in the state file if there is one, adopted
as a part of the settings, and put in force by the janitors as any reload (`reload`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...scheduling.dispatch_lines import subject_of
from ..set_rates import SetRates
from ..settings.declaration import ConfigError
from ..state_file import write_state
from .reload import Reloads

if TYPE_CHECKING:
    from .roster import Reply


class RateOrders:
    """`set` and `remove` take what `admin.rates` sends; `reply` is told how it ended."""

    def __init__(self, reloads: Reloads) -> None:
        self._reloads = reloads

    def set(self, asked: Mapping[str, Any], reply: Reply) -> None:
        """Put `line` in force, in the place of another about the same."""
        line = asked["line"]
        self._change(self._before.with_line(line), line, asked.get("version"), reply)

    def remove(self, asked: Mapping[str, Any], reply: Reply) -> None:
        """What is set for `subject` is set no more: the file's rates count again."""
        subject, before = asked["subject"], self._before
        after = before.without(subject)
        if after == before:
            there = ", ".join(subject_of(line) for line in before.lines) or "nothing"
            reply({"error": f"no rate is set for {subject!r}; set is: {there}"})
            return
        self._change(after, subject, asked.get("version"), reply)

    @property
    def _before(self) -> SetRates:
        return self._reloads.settings.set_rates

    def _change(self, after: SetRates, about: str, version: int | None, reply: Reply) -> None:
        before = self._before
        if version is not None and version != before.version:
            reply({"error": f"version {version} is not in force: it is {before.version} by now"})
            return
        answer = {"rate": about, "version": after.version, "changed": after != before}
        if after == before:
            reply(answer)
            return
        try:
            self._reloads.change_rates(after, lambda: self._keep(after), answer, reply)
        except ConfigError as error:
            reply({"error": str(error)})

    def _keep(self, rates: SetRates) -> None:
        """ConfigError if the state file cannot be written."""
        path = self._reloads.settings.throttle.state_file
        try:
            if path:
                write_state(path, rates)
        except OSError as error:
            text = f"throttle.state-file = {path!r} cannot be written: {error.strerror}"
            raise ConfigError(text) from None

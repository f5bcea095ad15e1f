"""Settings are read again while the daemon runs: SIGHUP, `faircall reload`, and the administrators'
method `faircall.refresh_call_queue` (Hadoop: `dfsadmin -refreshCallQueue`, for all live settings).

    read      from what the start read, with the same precedence; checked as a whole
    adopt     the supervisor goes by it, and so does every child that is forked from now on
    order     each port's janitor puts its policy in force and publishes levels; a version in the
              order and its answer; asked again of a successor, for which doing it twice is harmless
    tell      the admin process, which shows settings, and the readers, which have limits
    answer    when all janitors have answered: one line of the log, and whoever asked

Nothing changes before everything was read and checked, so an error leaves every value as it was.
Readers and handlers take what concerns them from the policy's block at their next operation.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..log import MAX_TEXT_CHARS, Long
from ..port import Port, policy_of
from ..rates_in_force import check as check_rates
from ..settings.changes import Change, Changes, merge
from ..settings.declaration import ConfigError
from ..throttle import lines_of, switches_of
from .failures import one_line

if TYPE_CHECKING:
    from ..config import Settings
    from ..set_rates import SetRates
    from .roster import Reply, Roster

log = logging.getLogger("faircall.supervisor")

LONGEST_ANSWER = 100_000  # bytes, of one message of a channel; without the unchanged keys if longer


@dataclass(slots=True)
class Reload:
    """One that was adopted; `ports` are those whose janitors have yet to answer."""

    version: int
    changes: Changes
    ports: set[int]
    reply: Reply
    answer: dict[str, Any] | None = None  # of rates that were set; None: what the changes are


class Reloads:
    """`settings` are those that the daemon goes by; `adopt` is told of others.

    `read` makes them anew from where they came from (ConfigError); None: they cannot be read again.
    """

    def __init__(
        self,
        settings: Settings,
        ports: list[Port],
        roster: Roster,
        read: Callable[[], Settings] | None,
        adopt: Callable[[Settings], None],
    ) -> None:
        self.settings = settings
        self._ports, self._roster, self._read, self._adopt = ports, roster, read, adopt
        self._version = 0
        self._unanswered: list[Reload] = []

    def begin(self, reply: Reply = lambda answer: None) -> None:
        """Read and check, then all or nothing; `reply` is told how it ended, now or later."""
        try:
            settings, changes = self._checked()
        except ConfigError as error:
            self._refuse(str(error), reply)
        except Exception as error:
            log.error("reload failed", {"error": one_line(error)}, exc_info=error)
            self._refuse(one_line(error), reply)
        else:
            self._version += 1
            self._put_in_force(settings, changes)
            touched = {port.number for port in self._ports if changes.touches(port.number)}
            self._unanswered.append(Reload(self._version, changes, touched, reply))
            self._order(touched)
            self._finish()

    def change_rates(
        self,
        rates: SetRates,
        keep: Callable[[], None],
        answer: dict[str, Any],
        reply: Reply,
    ) -> None:
        """Go by other rates of an administrator, once `keep` has kept them; `reply` gets `answer`
        when they are in force. ConfigError: nothing is changed."""
        if self._roster.stopping:
            raise ConfigError("rates cannot be changed: the server stops")
        settings = dataclasses.replace(self.settings, set_rates=rates)
        self._check_rates(settings)
        keep()
        self._version += 1
        self._put_in_force(settings, Changes())
        touched = {port.number for port in self._ports}
        self._unanswered.append(Reload(self._version, Changes(), set(touched), reply, answer))
        self._order(touched)

    def answered(self, port: int, version: int) -> None:
        """That port's janitor has put the settings of `version` in force."""
        for reload in self._unanswered:
            if reload.version <= version:
                reload.ports.discard(port)
        self._finish()

    def _checked(self) -> tuple[Settings, Changes]:
        if self._read is None or self._roster.stopping:
            why = "the server stops" if self._roster.stopping else "they were not read from a file"
            raise ConfigError(f"settings cannot be read again: {why}")
        read = self._read()
        rooms = {port.number: port.room() for port in self._ports}
        settings, changes = merge(self.settings, read, rooms)
        for ipc in settings.ports.values():
            policy_of(settings, ipc)  # ValueError
        self._check_rates(settings)
        for note in read.notes:
            log.warning("configuration", {"note": note})
        return settings, changes

    def _check_rates(self, settings: Settings) -> None:
        """ConfigError if a running segment cannot take the rates of `settings`."""
        throttle = settings.throttle
        lines = lines_of(throttle, settings.set_rates.lines)
        try:
            for port in self._ports:
                geometry = port.shared.geometry
                check_rates(geometry, throttle.max_callers, switches_of(throttle), lines)
        except ValueError as error:
            raise ConfigError(f"throttle.rates: {error}") from None

    def _put_in_force(self, settings: Settings, changes: Changes) -> None:
        self.settings = settings
        for port in self._ports:
            port.refresh(settings)
        self._adopt(settings)

    def _order(self, touched: set[int]) -> None:
        """Origins and notes are the supervisor's alone."""
        bare = dataclasses.replace(self.settings, origins={}, notes=())
        packed = pickle.dumps(bare)
        self._roster.tell_readers(packed)
        self._roster.tell_admin(packed)
        for port in self._ports:
            if port.number in touched:
                self._roster.refresh(port, self._version, packed)

    def _finish(self) -> None:
        for reload in [reload for reload in self._unanswered if not reload.ports]:
            self._unanswered.remove(reload)
            changes = reload.changes
            if reload.answer is not None:
                log.info("rates changed", reload.answer)
                reload.reply(reload.answer)
                continue
            fields = {
                "applied": [str(change) for change in changes.applied],
                "unchanged": len(changes.unchanged),
                "needs_restart": [pending_text(change) for change in changes.needs_restart],
            }
            log.info("reloaded", fields)
            reload.reply(answer_of(reload))

    def _refuse(self, reason: str, reply: Reply) -> None:
        log.error("reload refused", {"reason": Long(reason)})
        reply({"error": reason})


def pending_text(change: Change) -> str:
    return f"{change.key}: {change.old} runs, {change.new} is configured"


def answer_of(reload: Reload) -> dict[str, Any]:
    """What the administrator is told, as plain JSON values."""
    changes = reload.changes
    answer: dict[str, Any] = {
        "version": reload.version,
        "applied": [_members(change, "old", "new") for change in changes.applied],
        "unchanged": {"count": len(changes.unchanged), "keys": changes.unchanged},
        "needs_restart": [
            _members(change, "running", "configured") for change in changes.needs_restart
        ],
    }
    if len(json.dumps(answer)) > LONGEST_ANSWER:
        answer["unchanged"]["keys"] = []
    return answer


def _members(change: Change, old: str, new: str) -> dict[str, str]:
    return {
        "key": change.key,
        old: change.old[:MAX_TEXT_CHARS],
        new: change.new[:MAX_TEXT_CHARS],
    }

"""Levels by an operator's class, `scheduler.impl = "module:Class"` (`scheduling.own_scheduler`).

One that cannot be loaded stops the start of the server. Later, in a reload or in a janitor that
follows a dead one, that is logged, and so is what `levels` raises, once for each kind of error: the
levels that were published stay. It runs in the janitor, which has nothing else to do meanwhile but
to settle what the dead left: one that waits for long is killed with it.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ...scheduling.conf import Conf
from ...scheduling.errors import NotBuilt
from ...scheduling.own_scheduler import LevelScheduler, level_scheduler, within
from ...scheduling.saturation import Int64s
from ...shm.shared import Shared
from ...shm.states import Phase
from ..settings.declaration import settings_of
from ..supervisor.failures import CannotStart, one_line, place_of

if TYPE_CHECKING:
    from ..config_ipc import PortSettings

log = logging.getLogger("faircall.janitor")

KEY = "scheduler.impl"


class OwnLevels:
    """Arrays have one element per identity row, shape (rows,)."""

    def __init__(self, shared: Shared) -> None:
        self._shared, self._columns = shared, shared.columns
        self._identities = shared.names.identities
        self._rows = self._identities.rows
        self._scheduler: LevelScheduler | None = None
        self._made_from: tuple[str, Conf] | None = None
        self._called = self._columns.call_totals()  # as of the last sweep
        self._names: dict[int, tuple[int, str]] = {}  # row: hash, name
        self._complained: set[str] = set()

    def configure(self, ipc: PortSettings) -> bool:
        """Whether an own class decides from now on; CannotStart while the server starts."""
        name = ipc.scheduler.impl
        self._levels = ipc.scheduler.priority_levels
        if ":" not in name:
            self._scheduler, self._made_from = None, None
            return False
        conf = conf_of(ipc)
        if self._made_from != (name, conf):
            self._made_from = (name, conf)
            self._complained.clear()
            self._load(name, conf)
        return True

    def _load(self, name: str, conf: Conf) -> None:
        if str(Path.cwd()) not in sys.path:
            sys.path.insert(0, str(Path.cwd()))
        try:
            self._scheduler = level_scheduler(name, self._levels, conf)
        except BaseException as error:
            self._scheduler = None
            reason = f"{KEY} = {name}: {why(error)}"
            if self._shared.phase.get() == Phase.STARTING:
                raise CannotStart(reason) from error
            log.error("scheduler cannot be loaded", {"reason": reason}, exc_info=error)

    def count(self, *, swept: bool) -> Int64s:
        """Calls since the last sweep; `swept`: this is the next one."""
        called = self._columns.call_totals()
        before = np.maximum(self._called, self._rows["calls_seen"])  # not of who had the row before
        if swept:
            self._called = called
        calls: Int64s = np.maximum((called - before).astype(np.int64), 0)
        return calls

    def publish(self, costs: Int64s, calls: Int64s, service: Sequence[int]) -> None:
        """One store per identity: its level from now on. `service` are rows of service users."""
        used = np.flatnonzero(self._rows["hash"])
        levels = self._ask(costs[used], calls[used], self._names_of(used))
        if levels is not None:
            levels[np.isin(used, list(service))] = 0
            self._rows["level"][used] = levels

    def _ask(self, costs: Int64s, calls: Int64s, names: list[str]) -> Int64s | None:
        """None, if it has no answer."""
        if self._scheduler is None:
            return None
        try:
            return within(self._scheduler.levels(costs, calls, names), len(names), self._levels)
        except Exception as error:
            if (kind := type(error).__name__) not in self._complained:
                self._complained.add(kind)
                scheduler = type(self._scheduler).__name__
                log.error("scheduler failed", {"scheduler": scheduler}, exc_info=error)
            return None

    def _names_of(self, used: npt.NDArray[np.intp]) -> list[str]:
        """The names of the rows `used`; those that were known are not read again."""
        known, self._names = self._names, {}
        for row, hashed in zip(used.tolist(), self._rows["hash"][used].tolist(), strict=True):
            found = known.get(row)
            if found is None or found[0] != hashed:
                found = (hashed, self._identities.name(row))
            self._names[row] = found
        return [name for _, name in self._names.values()]


def conf_of(ipc: PortSettings) -> Conf:
    """The keys of a port's schedulers as text, by Hadoop's grammar."""
    namespace = f"ipc.{ipc.port}"
    values = {
        f"{namespace}.{declared.key}": _text(getattr(group, field))
        for group in (ipc.scheduler, ipc.decay_scheduler, ipc.history_scheduler)
        for field, declared in settings_of(type(group)).items()
    }
    return Conf(values, namespace)


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def why(error: BaseException) -> str:
    """What is wrong with a class, in one line; for what it raised itself, where."""
    if isinstance(error, NotBuilt) and error.__cause__ is None:
        return str(error)
    cause = error.__cause__ if isinstance(error, NotBuilt) and error.__cause__ else error
    return f"{one_line(cause)} ({place_of(cause)})"

"""What a reload changes: settings that were read again, beside those that a daemon runs by.

Every key falls into one of three lists. A *live* one (its declaration says so) takes the value that
was read; any other keeps the one that runs, and is reported as in need of a restart.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..config import SECTIONS, Settings
from ..config_ipc import GROUPS, PortSettings
from .declaration import ConfigError, Setting, settings_of

CAPACITY = "callqueue.total-capacity"
NO_GROUP = "no such group"


@dataclass(frozen=True, slots=True)
class Change:
    """A key with the values that it has and is to have, both as TOML literals."""

    key: str
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.key}: {self.old} -> {self.new}"


@dataclass(slots=True)
class Changes:
    """Absolute keys, in the order of their declarations."""

    applied: list[Change] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    needs_restart: list[Change] = field(default_factory=list)

    def touches(self, port: int) -> bool:
        """Whether a value of that port changes, or one that all queues go by."""
        mine = (f"ipc.{port}.", "handlers.", "throttle.")
        return any(change.key.startswith(mine) for change in self.applied)


def merge(running: Settings, read: Settings, room: Mapping[int, int]) -> tuple[Settings, Changes]:
    """The settings to run by from now on, and what that changes; ConfigError.

    `room` is the most that each running port's total capacity can be without a restart. A port that
    `read` does not have goes on as it is: `server.bind` needs a restart.
    """
    changes = Changes()
    sections = {
        name: _group(getattr(running, name), getattr(read, name), name, changes, set())
        for name in SECTIONS
    }
    ports = dict(running.ports)
    for number in running.ports:
        if number in read.ports:
            ports[number] = _port(running.ports[number], read.ports[number], room[number], changes)
    _groups(running, read, changes)
    origins = {**running.origins, **{c.key: read.origins[c.key] for c in changes.applied}}
    settings = dataclasses.replace(running, **sections, ports=ports, origins=origins)
    return settings, changes


def _groups(running: Settings, read: Settings, changes: Changes) -> None:
    """Those of handlers stay as they are."""
    for name in dict.fromkeys([*running.groups, *read.groups]):
        old, new = running.groups.get(name), read.groups.get(name)
        if old and new:
            _group(old, new, f"handlers.{name}", changes, set())
        else:
            told = (
                NO_GROUP if group is None else f"{group.count} handlers" for group in (old, new)
            )
            changes.needs_restart.append(Change(f"handlers.{name}", *told))


def _port(running: PortSettings, read: PortSettings, room: int, changes: Changes) -> PortSettings:
    prefix = f"ipc.{running.port}"
    frozen = {CAPACITY} if read.callqueue.total_capacity > room else set()
    groups = {
        name: _group(getattr(running, name), getattr(read, name), prefix, changes, frozen)
        for name in GROUPS
    }
    port = dataclasses.replace(running, hadoop_rules=read.hadoop_rules, **groups)
    _check_capacity(port, prefix, read.callqueue.total_capacity, room)
    return port


def _check_capacity(port: PortSettings, prefix: str, wanted: int, room: int) -> None:
    """ConfigError if the capacity that has to stay is too small for the weights that were read."""
    queue = port.callqueue
    least, fair = sum(queue.capacity_weights), queue.impl == "FairCallQueue"
    if fair and queue.total_capacity < least:
        raise ConfigError(
            f"{prefix}.{CAPACITY} = {wanted}: cannot be above {room} before a restart, and what is"
            f" in force, {queue.total_capacity}, leaves a level without room: at least {least},"
            " the sum of the capacity weights"
        )


def _group(running: Any, read: Any, prefix: str, changes: Changes, frozen: set[str]) -> Any:
    """The dataclass `running` with the live values of `read`, but for the `frozen` keys."""
    values: dict[str, object] = {}
    for name, declared in settings_of(type(running)).items():
        old, new, key = getattr(running, name), getattr(read, name), f"{prefix}.{declared.key}"
        if old == new:
            changes.unchanged.append(key)
            continue
        change = Change(key, _show(declared, old), _show(declared, new))
        if declared.live and declared.key not in frozen:
            changes.applied.append(change)
            values[name] = new
        else:
            changes.needs_restart.append(change)
    return dataclasses.replace(running, **values)


def _show(declared: Setting, value: object) -> str:
    return declared.kind.show(value)

"""Which group of handlers runs a method: `[handlers.<group>]`.

A group's number follows from the settings alone, so each process works it out for itself. The first
is that of all methods that no other group names: `[handlers]`, or the group that has "*".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from ..workers.context import DEFAULT_GROUP

if TYPE_CHECKING:
    from .config import Settings

REST = "*"  # the pattern of the first group
MOST_NAMES = 10  # of methods, in a message


@dataclass(frozen=True, slots=True)
class Group:
    """`patterns` are of methods; `capacity` 0: that of the port's queue; `key` is its section.
    `express` handlers are beside the `count`."""

    name: str
    key: str
    count: int
    patterns: tuple[str, ...]
    env: Mapping[str, str]
    capacity: int = 0
    express: int = 0

    def has(self, method: str) -> bool:
        """Whether a pattern of its own names `method`."""
        return any(fnmatchcase(method, pattern) for pattern in self.patterns if pattern != REST)


def groups_of(settings: Settings) -> tuple[Group, ...]:
    """All groups, each at its number."""
    named = [
        Group(name, f"handlers.{name}", g.count, g.methods, g.env, g.capacity, g.express)
        for name, g in settings.groups.items()
    ]
    first = [group for group in named if REST in group.patterns]
    if not first:
        own = settings.handlers
        first = [Group(DEFAULT_GROUP, "handlers", own.count, (REST,), {}, express=own.express)]
    return (*first, *(group for group in named if group not in first))


def handlers_of(settings: Settings) -> int:
    """Ordinary handler processes of a port, in all groups."""
    return sum(group.count for group in groups_of(settings))


def number_of(groups: Sequence[Group], method: str) -> int:
    """The number of the group that runs `method`."""
    return next((number for number, group in enumerate(groups) if group.has(method)), 0)


def problem_with(groups: Sequence[Group], methods: Iterable[str]) -> str:
    """What is wrong with the groups for a service that has these methods; "" if nothing is."""
    methods = sorted(methods)
    for group in groups:
        for pattern in group.patterns:
            if pattern != REST and not any(fnmatchcase(method, pattern) for method in methods):
                listed = ", ".join(methods[:MOST_NAMES]) or "none"
                more = f" and {len(methods) - MOST_NAMES} more" * (len(methods) > MOST_NAMES)
                return (
                    f'{group.key}.methods: "{pattern}" matches no method of the service, which has'
                    f" {listed}{more}"
                )
    for method in methods:
        of = [group.key for group in groups if group.has(method)]
        if len(of) > 1:
            return f"{of[0]}.methods and {of[1]}.methods both match {method}: it can have one group"
    return ""

"""Where calls wait: the rings of the group whose handlers run their method.

A long message that only a handler decodes goes to the group of all its calls: its methods are
looked for, and nothing else in it. If they are of several groups, the reader takes it apart.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ...shm.layout import GROUP_SHIFT
from ...shm.shared import Shared
from ..groups import Group, number_of


class _Head(msgspec.Struct):
    method: str = ""


_decode = msgspec.json.Decoder(_Head | list[_Head]).decode


class Places:
    """`are_several`: there is more than one group. `bases` are the ring numbers of level 0, by the
    row of a method that was called."""

    def __init__(self, shared: Shared, groups: Sequence[Group]) -> None:
        self.are_several = len(groups) > 1
        self.bases: dict[int, int] = {}
        self._groups, self._geometry = groups, shared.geometry
        self._names = [shared.name_of(group) for group in range(len(groups) or 1)]

    def know(self, method: str, row: int) -> None:
        """`method` is called for the first time."""
        self.bases[row] = self.group_of(method) << GROUP_SHIFT

    def group_of(self, method: str) -> int:
        return number_of(self._groups, method)

    def name_of(self, method: str) -> str:
        """By which the handlers that run `method` know their server."""
        return self._names[self.group_of(method)]

    def group_of_message(self, message: bytes) -> int:
        """The group of all its calls; -1: they are of several. What is no message of calls is the
        first group's: whichever handler decodes it says so."""
        try:
            found = _decode(message)
        except msgspec.ValidationError:  # JSON, but not that of calls alone
            return -1
        except (msgspec.DecodeError, RecursionError):
            return 0
        heads = found if isinstance(found, list) else [found]
        groups = {self.group_of(head.method) for head in heads} or {0}
        return groups.pop() if len(groups) == 1 else -1

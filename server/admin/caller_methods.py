"""The admin methods about who does what: users, explain, dump and overload."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ...workers.errors import INVALID_PARAMS, RpcError
from .dump import DEFAULT_MOST, DUMPS, MOST, dump
from .explain_user import NoSuchUser, explain_user
from .rates import check_members, invalid, members
from .recent import Recent
from .suspects import Overload, Suspects
from .user_list import MOST_TOP, SORTS, TOP, UserList

if TYPE_CHECKING:
    from ..port import Port

LONGEST_CHARS = 1000


class CallerMethods:
    """Of all ports; `recents` are the rates of each. `tick` about every second."""

    def __init__(self, ports: Sequence[Port], recents: Sequence[Recent], now_ns: int) -> None:
        self._ports = ports
        self._users = [UserList(port, now_ns) for port in ports]
        self._suspects = [
            Suspects(*of_port) for of_port in zip(ports, self._users, recents, strict=True)
        ]

    def tick(self, now_ns: int) -> None:
        for users, suspects in zip(self._users, self._suspects, strict=True):
            if users.tick(now_ns):
                suspects.tick(now_ns)

    def overloads(self, now_ns: int) -> list[Overload]:
        """How each port is."""
        return [suspects.overload(now_ns) for suspects in self._suspects]

    def users(self, params: object) -> dict[str, Any]:
        """Who does how much: `top` users by `sort`, and who overloads each port."""
        asked = members(params)
        check_members(asked, ("sort", "top"))
        sort, top = asked.get("sort", "share"), _number(asked, "top", TOP, MOST_TOP)
        if sort not in SORTS:
            raise invalid(f"sort = {sort!r}: must be one of {', '.join(SORTS)}")
        now_ns = time.monotonic_ns()
        return {
            "sort": sort,
            "ports": [
                {**users.snapshot(now_ns, sort, top), "overload": asdict(suspects.overload(now_ns))}
                for users, suspects in zip(self._users, self._suspects, strict=True)
            ],
        }

    def explain(self, params: object) -> dict[str, Any]:
        """Why `user` has its level, and what it does."""
        asked = members(params)
        check_members(asked, ("user",))
        name = asked.get("user")
        if not isinstance(name, str) or not 0 < len(name) <= LONGEST_CHARS:
            raise invalid(f"user is a name of 1 to {LONGEST_CHARS} characters: say whose level")
        now_ns, found, missed = time.monotonic_ns(), [], []
        for port, users in zip(self._ports, self._users, strict=True):
            try:
                found.append(explain_user(port, users, name, now_ns))
            except NoSuchUser as error:
                missed.append(str(error))
        if not found:
            raise RpcError(INVALID_PARAMS, "; ".join(missed))
        return {"user": name, "ports": found}

    def dump(self, params: object) -> dict[str, Any]:
        """Row by row: `what` is one of DUMPS."""
        asked = members(params)
        check_members(asked, ("what", "most"))
        what, most = asked.get("what"), _number(asked, "most", DEFAULT_MOST, MOST)
        if what not in DUMPS:
            raise invalid(f"what = {what!r}: must be one of {', '.join(DUMPS)}")
        now_ns = time.monotonic_ns()
        return {"what": what, "ports": [dump(port, what, most, now_ns) for port in self._ports]}


def _number(asked: Mapping[str, Any], name: str, default: int, most: int) -> int:
    value = asked.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise invalid(f"{name} = {value!r}: must be a whole number from 1 to {most}")
    return value

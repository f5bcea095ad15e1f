"""The admin method that cancels the calls of one user."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from .rates import Order, check_members, invalid, members

MEMBERS = ("user", "context", "method")
LONGEST_CHARS = 1000  # of each: an order is one message of a channel


class CancelMethod:
    """`order` has the supervisor carry it out."""

    def __init__(self, order: Order) -> None:
        self._order = order

    def __call__(self, params: object) -> Awaitable[dict[str, Any]]:
        """Calls of `user`, of one `context` and `method` if they are given; how many there were."""
        asked = members(params)
        check_members(asked, MEMBERS)
        for name, value in asked.items():
            if value is not None and not isinstance(value, str):
                raise invalid(f"{name} = {value!r}: must be a text")
            if value is not None and len(value) > LONGEST_CHARS:
                raise invalid(f"{name} has {len(value)} characters: at most {LONGEST_CHARS}")
        if not asked.get("user"):
            raise invalid("user is missing: say whose calls")
        return self._order("cancel", {name: asked.get(name) for name in MEMBERS})

"""The admin method that has every handler replaced by one with the service's code as it is now."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from .rates import Order, check_members, members


class WorkersMethod:
    """`order` has the supervisor carry it out."""

    def __init__(self, order: Order) -> None:
        self._order = order

    def __call__(self, params: object) -> Awaitable[dict[str, Any]]:
        """How many handlers were replaced, and the generation of the code that all have now."""
        check_members(members(params), ())
        return self._order("reload_workers", {})

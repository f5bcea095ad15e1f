"""What a client was told once, and what follows from it for its connections and calls."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import within
from .address import Address
from .framing import Framing, HttpFraming, LineFraming
from .protocol import ClientProtocol
from .request import Request, build_request
from .retry import Retry

HELLO = "faircall.hello"
LEAST_S = 0.001  # the shortest time that a request can name


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a client was told once, for all its calls. Times are in seconds, None is no limit."""

    addresses: tuple[Address, ...]
    timeout_s: float | None = None
    user: str | None = None
    context: str | None = None
    token: str | None = None
    connect_timeout_s: float = 5.0
    connections: int = 1
    retry: Retry | None = None

    def __post_init__(self) -> None:
        for name in ("user", "token"):
            value = getattr(self, name)
            if value is not None and not (value and value.isprintable()):
                raise ValueError(f"{name} must be printable text, not {value!r}")
        if not self.connect_timeout_s > 0:
            raise ValueError(f"connect_timeout must be more than 0 s, not {self.connect_timeout_s}")
        if self.connections < 1:
            raise ValueError(f"connections must be 1 or more, not {self.connections}")
        self.limit_s(None)

    def limit_s(self, timeout_s: float | None) -> float:
        """How long a call may take: its own time-out, else the client's, else for ever (inf)."""
        limit_s = self.timeout_s if timeout_s is None else timeout_s
        if limit_s is None:
            return math.inf
        if not limit_s > 0:
            raise ValueError(f"timeout must be more than 0 s, not {limit_s}")
        return limit_s

    def request(
        self,
        method: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        limit_s: float,
        *,
        notification: bool = False,
    ) -> Request:
        """A request that carries the limit (s) and the caller's context; within a call of a
        server, no more than what is left of its time, and what there is to say of it."""
        context, said, around = self.context, None, within.source()
        if around is not None:
            limit_s = min(limit_s, max(around.remaining_s, LEAST_S))
            context = around.context if context is None else context
            said = around.said(names_user=self.user is None and self.token is None)
        return build_request(
            method,
            args,
            kwargs,
            limit_s=limit_s,
            context=context,
            notification=notification,
            said=said,
        )

    def protocol(self, address: Address) -> ClientProtocol:
        """The protocol of one new connection."""
        return ClientProtocol(self._framing(address), str(address))

    def hello(self, address: Address, limit_s: float) -> Request | None:
        """The first request of a stream, if it must say who is calling; HTTP does it in headers."""
        claims = {"user": self.user, "token": self.token}
        said = {name: value for name, value in claims.items() if value is not None}
        if not said or address.target:
            return None
        return build_request(HELLO, kwargs=said, limit_s=limit_s)

    def _framing(self, address: Address) -> Framing:
        if not address.target:
            return LineFraming()
        headers = {}
        if self.user is not None:
            headers["X-Faircall-User"] = self.user
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        return HttpFraming(address.authority, address.target, headers)

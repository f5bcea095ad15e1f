"""What a client knows of the call in whose function it is used.

In a handler the server sets `source` and `inline`; anywhere else a client is used by itself. A
call that a function makes passes on what is left of its own call's time, for whom that is, and
which servers wait for it (its *chain*).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .errors import RemoteError

NESTED = "nested"  # the reason of a server that refuses a call for which all its handlers wait


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The call that runs: `remaining_s` may be infinite; `chain` are the servers that wait, the
    outermost first, its own the last."""

    remaining_s: float
    user: str
    context: str | None
    traceparent: str | None
    chain: tuple[str, ...]

    def said(self, *, names_user: bool) -> dict[str, Any]:
        """What a request tells of it; `names_user`: for whom, which counts where we are trusted."""
        said: dict[str, Any] = {"chain": list(self.chain)}
        if names_user and self.user:
            said["for_user"] = self.user
        if self.traceparent is not None:
            said["traceparent"] = self.traceparent
        return said


def _nobody() -> Surroundings | None:
    return None


def _not_here(message: bytes) -> bytes | None:
    return None


source: Callable[[], Surroundings | None] = _nobody
inline: Callable[[bytes], bytes | None] = _not_here  # a message -> its answer; None: not here


def run_here(error: RemoteError, message: bytes) -> bytes | None:
    """The answer of this process to a call that its own server refused to queue, if it may."""
    if error.reason != NESTED or not isinstance(error.data, dict):
        return None
    around = source()
    if around is None or error.data.get("inline") != around.chain[-1]:
        return None
    return inline(message)

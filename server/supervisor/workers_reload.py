"""`faircall reload --workers`: every handler is followed by one that imports the service anew.

The supervisor has never imported it, so a process that is forked from it now has the code as it is
now. The first successor is the proof: if its import or its start hooks fail, nothing else is begun.
Then one handler after another is replaced, as in `succession`.

While code of two generations serves, a method that only the new one has is not found, as before,
for an old handler might claim its call; when the last old handler is gone, the new generation is
published (`shm.names`): from then on readers find what is new, and do not find what is gone.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from ..log import Long
from ..port import Port
from .children import Process
from .lifecycle import ChildState
from .succession import Succession

if TYPE_CHECKING:
    from .roster import Reply, Roster

log = logging.getLogger("faircall.supervisor")

NO_MORE = "the server stops"


@dataclass(slots=True)
class Rolling:
    """`left` are the processes that have the old code."""

    generation: int
    left: list[Process]
    reply: Reply
    begun_ns: int
    replaced: int = 0


class WorkersReload:
    """`begin` an order of an administrator; `step` goes on at each turn of the supervisor."""

    def __init__(self, ports: list[Port], roster: Roster, succession: Succession) -> None:
        self._ports, self._roster, self._succession = ports, roster, succession
        self._newest = 0  # generation that any handler may have
        self._rolling: Rolling | None = None
        self.is_possible = False  # the server runs

    @property
    def is_busy(self) -> bool:
        return self._rolling is not None

    def begin(self, params: Mapping[str, Any], reply: Reply) -> None:
        """Replace every handler; `reply` is told how many that were, or why it was given up."""
        if self._rolling or not self.is_possible:
            why = "a reload of the workers is under way" if self._rolling else "the server does not"
            reply({"error": why + ("" if self._rolling else " run"), "replaced": 0})
            return
        self._newest += 1
        old = [process for _, process in self._roster.living("handler")]
        self._roster.generation = self._newest
        self._rolling = Rolling(self._newest, old, reply, time.monotonic_ns())
        log.info("reloading workers", {"generation": self._newest, "handlers": len(old)})

    def step(self) -> None:
        """Begin with the next one, if none is being replaced."""
        rolling = self._rolling
        if rolling is None or not self._succession.is_free:
            return
        living = {process: child for child, process in self._roster.living("handler")}
        rolling.left = [process for process in rolling.left if process in living]
        ready = [p for p in rolling.left if living[p].state is ChildState.READY]
        if ready:
            done = partial(self._replaced, rolling)
            self._succession.begin(living[ready[0]], done)
        elif not rolling.left:  # (one that is starting has old code, and is waited for)
            self._publish(rolling)

    def give_up(self) -> None:
        """The server stops."""
        self.is_possible = False
        if self._rolling:
            self._end(self._rolling, NO_MORE)

    def _replaced(self, rolling: Rolling, why_not: str) -> None:
        if self._rolling is not rolling:
            return
        if why_not:
            self._end(rolling, why_not)
        else:
            rolling.replaced += 1

    def _publish(self, rolling: Rolling) -> None:
        for port in self._ports:
            port.shared.generation.set(rolling.generation)
        self._end(rolling, "")

    def _end(self, rolling: Rolling, error: str) -> None:
        self._rolling = None
        answer: dict[str, Any] = {
            "generation": rolling.generation,
            "replaced": rolling.replaced,
            "took_ms": (time.monotonic_ns() - rolling.begun_ns) // 1_000_000,
        }
        if error:
            self._roster.generation = self._ports[0].shared.generation.get()
            log.error("reload of workers failed", {**answer, "reason": Long(error)})
            some = f"{rolling.replaced} handlers have the new code, the others keep theirs: "
            answer["error"] = (some if rolling.replaced else "") + error
        else:
            log.info("workers reloaded", answer)
        rolling.reply(answer)

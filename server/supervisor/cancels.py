"""An administrator has calls cancelled: each reader cancels its own, and says how many they were.

No reader is waited for longer than PATIENCE_NS; who died or did not answer is named in the answer.
(The calls of a dead reader are cut off with its connections.)
"""

from __future__ import annotations

import logging
import pickle
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..reader.cancel_order import CancelOrder, parse_answer
from .children import Child, Process

if TYPE_CHECKING:
    from .roster import Reply, Roster

log = logging.getLogger("faircall.supervisor")

PATIENCE_NS = 5_000_000_000


@dataclass(slots=True)
class Asked:
    """An order on its way; `readers` have yet to answer."""

    order: CancelOrder
    reply: Reply
    sent_ns: int
    readers: dict[Process, Child]
    unanswered: list[str]
    waiting: int = 0
    running: int = 0


class Cancels:
    """`begin` sends an order; `answered` and `tick` end it."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self._number = 0
        self._asked: dict[int, Asked] = {}

    def begin(self, params: Mapping[str, Any], reply: Reply) -> None:
        """Have the calls of `user` (`context`, `method`) cancelled; `reply` is told how many."""
        self._number += 1
        order = CancelOrder(self._number, params["user"], params["context"], params["method"])
        packed, readers, unreached = pickle.dumps(order), {}, []
        for child, process in self._roster.living("reader"):
            if process.send(packed):
                readers[process] = child
            else:
                unreached.append(child.label)
        now_ns = time.monotonic_ns()
        self._asked[order.number] = Asked(order, reply, now_ns, readers, unreached)
        self._finish()

    def answered(self, process: Process, message: bytes) -> None:
        """A reader has carried an order out."""
        number, found = parse_answer(message)
        asked = self._asked.get(number)
        if asked and asked.readers.pop(process, None):
            asked.waiting += found.waiting
            asked.running += found.running
            self._finish()

    def tick(self, now_ns: int) -> None:
        """Give up on readers that are dead, or silent for too long."""
        for asked in self._asked.values():
            late = now_ns - asked.sent_ns > PATIENCE_NS
            for process, child in list(asked.readers.items()):
                if late or child.process is not process:
                    del asked.readers[process]
                    asked.unanswered.append(child.label)
        self._finish()

    def _finish(self) -> None:
        for asked in [asked for asked in self._asked.values() if not asked.readers]:
            del self._asked[asked.order.number]
            order = asked.order
            counts = {"waiting": asked.waiting, "running": asked.running}
            fields = {"user": order.user, "context": order.context, "method": order.method}
            log.warning("calls cancelled", {**fields, **counts, "unanswered": asked.unanswered})
            asked.reply({**counts, "unanswered": asked.unanswered})

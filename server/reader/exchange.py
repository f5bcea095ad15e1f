"""What a call in flight answers to: a connection's exchange, alone or as one item of a batch."""

from __future__ import annotations

from msgspec import Struct

from ...scheduling.top_list import Tally
from ...workers.envelope import batch_answer, error_answer
from .connection import Connection
from .refusals import ANSWER_TOO_LARGE


class Batch:
    """Collects the answers of one JSON-RPC batch; the sum of them is bounded."""

    __slots__ = ("_answers", "_bytes_left", "_open", "connection", "exchange")

    def __init__(
        self, connection: Connection, exchange: int, items: int, max_answer_bytes: int
    ) -> None:
        self.connection = connection
        self.exchange = exchange
        self._open = items
        self._answers: list[bytes] = []
        self._bytes_left = max_answer_bytes

    def settle(self, id_: bytes | None, answer: bytes) -> None:
        """One item is done; a notification (`id_` None) adds no answer. The last one sends all."""
        if id_ is not None:
            if len(answer) > self._bytes_left:
                answer = error_answer(id_, ANSWER_TOO_LARGE)
            self._bytes_left -= len(answer)
            self._answers.append(answer)
        self._open -= 1
        if not self._open:
            body = batch_answer(self._answers) if self._answers else None
            self.connection.answer(self.exchange, body)


class PendingCall(Struct):
    """What the reader must know of a staged or queued call to answer it.

    `connection` None: nobody waits (a notification that was accepted, or the answer was given
    already). `flags` are those of the `call` word; `blocked`: it waits for room in the queue, its
    connection paused. `caller` is for whom it is, once it is staged; `tally` counts what it costs
    (`caller_counts`).
    """

    connection: Connection | None
    exchange: int
    id: bytes | None
    batch: Batch | None = None
    flags: int = 0
    deadline_ns: int = 0
    blocked: bool = False
    caller: str = ""
    tally: Tally | None = None

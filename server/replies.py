"""The way out: complete answers to exchanges, whoever made them."""

from __future__ import annotations

from ..shm import states
from ..shm.columns import Columns, Counter
from ..shm.states import Status
from ..workers.envelope import Invalid, batch_answer, decode, error_answer, result_answer
from . import refusals
from .exchange import PendingCall


class Replies:
    """One reader's; `index` is its process index, for the counters."""

    def __init__(self, columns: Columns, index: int, busy_http_status: int) -> None:
        self._columns = columns
        self._index = index
        self._busy_http_status = busy_http_status

    def settle(self, pending: PendingCall, answer: bytes, status: int = 200) -> None:
        """`answer`, a complete response, goes to its exchange; a notification gets none."""
        connection = pending.connection
        if connection is None:
            return
        if pending.batch is not None:
            pending.batch.settle(pending.id, answer)
        elif pending.id is None:
            connection.answer(pending.exchange, None)
        else:
            connection.answer(pending.exchange, answer or None, status)
        self._columns.add(self._index, Counter.ANSWERED)

    def refuse(
        self, pending: PendingCall, error: bytes, message: bytes = b"", busy: bool = False
    ) -> None:
        """An error object for `pending`; of an undecoded one, `message` tells the ids.

        `busy`: over HTTP, with the status of overload.
        """
        status = self._busy_http_status if busy else 200
        if pending.flags & states.UNDECODED:
            self.settle(pending, error_for_all(message, error), status)
        else:
            self.settle(pending, error_answer(pending.id or b"null", error), status)

    def deliver(self, pending: PendingCall, status: int, body: bytes, message: bytes = b"") -> None:
        """The answer of a handler, or of the janitor for a handler that died."""
        if status == Status.RESULT:
            self.settle(pending, result_answer(pending.id or b"null", body))
        elif status == Status.ERROR:
            self.settle(pending, error_answer(pending.id or b"null", body))
        elif status == Status.MESSAGE:
            self.settle(pending, body)
        else:
            idempotent = bool(pending.flags & states.IDEMPOTENT)
            self.refuse(pending, refusals.without_body(status, idempotent), message)


def error_for_all(message: bytes, error: bytes) -> bytes:
    """The answer that refuses every call of `message` with `error`; b"" if none wants one."""
    decoded = decode(message)
    answers = []
    for item in decoded.items:
        if isinstance(item, Invalid):
            answers.append(error_answer(item.id, item.error))
        elif item.id is not None:
            answers.append(error_answer(item.id, error))
    if not answers:
        return b""
    return batch_answer(answers) if decoded.batch else answers[0]

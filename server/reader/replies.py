"""The way out: complete answers to exchanges, whoever made them."""

from __future__ import annotations

from collections.abc import Callable

from ...shm import states
from ...shm.columns import Counter
from ...shm.states import Status
from ...workers.envelope import Decoded, Invalid, batch_answer, error_answer, result_answer
from . import refusals
from .exchange import PendingCall

_ANSWERED = int(Counter.ANSWERED)
_RESULT, _ERROR, _MESSAGE = int(Status.RESULT), int(Status.ERROR), int(Status.MESSAGE)


class Replies:
    """One reader's. `counts` is its own column; `decode` takes an undecoded message apart."""

    def __init__(
        self, counts: memoryview, busy_http_status: int, decode: Callable[[bytes], Decoded]
    ) -> None:
        self._counts = counts
        self._busy_http_status = busy_http_status
        self._decode = decode

    def settle(self, pending: PendingCall, answer: bytes, status: int = 200) -> None:
        """`answer`, a complete response, goes to its exchange; a notification gets none."""
        connection = pending.connection
        if connection is None:
            return
        self._counts[_ANSWERED] += 1
        if pending.batch is not None:
            pending.batch.settle(pending.id, answer)
        elif pending.id is None:
            connection.answer(pending.exchange, None)
        else:
            connection.answer(pending.exchange, answer or None, status)

    def refuse(
        self, pending: PendingCall, error: bytes, message: bytes = b"", busy: bool = False
    ) -> None:
        """An error object for `pending`; of an undecoded one, `message` tells the ids.

        `busy`: over HTTP, with the status of overload.
        """
        if pending.connection is None:
            return
        status = self._busy_http_status if busy else 200
        if pending.flags & states.UNDECODED:
            self.settle(pending, self.error_for_all(message, error), status)
        else:
            self.settle(pending, error_answer(pending.id or b"null", error), status)

    def deliver(self, pending: PendingCall, status: int, body: bytes, message: bytes = b"") -> None:
        """The answer of a handler, or of the janitor for a handler that died."""
        if status == _RESULT:
            self.settle(pending, result_answer(pending.id or b"null", body))
        elif status == _ERROR:
            self.settle(pending, error_answer(pending.id or b"null", body))
        elif status == _MESSAGE:
            self.settle(pending, body)
        else:
            idempotent = bool(pending.flags & states.IDEMPOTENT)
            self.refuse(pending, refusals.without_body(status, idempotent), message)

    def error_for_all(self, message: bytes, error: bytes) -> bytes:
        """The answer that refuses every call of `message` with `error`; b"" if none wants one."""
        decoded = self._decode(message)
        answers = []
        for item in decoded.items:
            if isinstance(item, Invalid):
                answers.append(error_answer(item.id, item.error))
            elif item.id is not None:
                answers.append(error_answer(item.id, error))
        if not answers:
            return b""
        return batch_answer(answers) if decoded.batch else answers[0]

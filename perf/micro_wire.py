"""What bells, framings and the codec cost for one call: operations for `micro`'s table.

Nothing waits here: a bell is rung and cleared by the same process, so the figure is that of the two
system calls and of what stands around them, not that of waking somebody.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from ..server.wire.connection import Wire
from ..server.wire.events import Message
from ..server.wire.limits import WireLimits
from ..shm.doorbells import Doorbells, clear, ring
from ..workers.envelope import batch_answer, decode, error_answer, result_answer
from ..workers.errors import error_object
from .measurement import Measurement

MANY: Final = 16
CALL: Final = b'{"jsonrpc":"2.0","method":"echo","params":[{"text":"0123456789"}],"id":7}'
RESULT: Final = b'{"text":"0123456789"}'
BATCH: Final = b"[" + b",".join([CALL] * MANY) + b"]"
ANSWER: Final = result_answer(b"7", RESULT)
FRAMED: Final = {
    "a line": CALL + b"\n",
    "Content-Length": b"Content-Length: %d\r\n\r\n" % len(CALL) + CALL,
    "HTTP": b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n\r\n" % len(CALL) + CALL,
}


class Exchanger:
    """A connection in one framing, through which the same bytes come again and again."""

    def __init__(self, sent: bytes) -> None:
        self._sent, self._wire = sent, Wire(WireLimits())

    def exchange(self, calls: int = 1) -> None:
        """So many calls come in one read, and each is answered."""
        wire = self._wire
        wire.receive(self._sent * calls)
        for _ in range(calls):
            event = wire.next_event()
            if not isinstance(event, Message):
                raise TypeError(f"not a call: {event}")
            wire.answer(event.exchange, ANSWER)
        wire.next_event()


def measurements(bells: Doorbells) -> Iterator[Measurement]:
    """In the order of the table; the bell of the first handler is silent before and after."""
    bell = bells.handlers[0]

    def ring_and_clear() -> None:
        ring(bell)
        clear(bell)

    yield Measurement("doorbell: ring and clear", 1, ring_and_clear)
    yield Measurement("doorbell: clear a silent one", 1, lambda: clear(bell))
    for name, sent in FRAMED.items():
        one, many = Exchanger(sent), Exchanger(sent)
        yield Measurement(f"wire: {name}, in and out", 1, one.exchange)
        yield Measurement(f"wire: {name}, {MANY} a read", MANY, partial(many.exchange, MANY))
    yield Measurement("codec: decode a call", 1, lambda: decode(CALL))
    yield Measurement(f"codec: decode a batch of {MANY}", MANY, lambda: decode(BATCH))
    yield Measurement("codec: a result's answer", 1, lambda: result_answer(b"7", RESULT))
    yield Measurement(
        "codec: an error's answer", 1, lambda: error_answer(b"7", error_object(-32000, "busy"))
    )
    yield Measurement(
        f"codec: the answer of a batch of {MANY}", MANY, lambda: batch_answer([ANSWER] * MANY)
    )

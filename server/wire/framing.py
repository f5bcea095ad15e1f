"""What every framing has in common: an end, and exchanges that must be answered before it.

    receive ──► next_event ──► answer          in_flight: exchanges handed out and not yet answered
       │            │
    receive_eof     └─ stop: `closing`, input is ignored from here on
                            └─ in_flight == 0: `wants_close`; next_event gives Close, once

A framing that stops reading still takes the answers of what it has handed out.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from .events import CLOSE, Close, Event

FramingName = Literal["unknown", "lines", "lsp", "http"]


class Framing:
    """Bytes in, events out.  `mid_message` is up to date once `next_event` has returned None, or
    once `more` is False: then it would."""

    __slots__ = ("_close_given", "closing", "eof", "exchanges", "in_flight", "mid_message", "more")

    name: ClassVar[FramingName] = "unknown"

    def __init__(self) -> None:
        self.exchanges = 0
        self.in_flight = 0
        self.eof = False
        self.closing = False
        self.mid_message = False
        self.more = True
        self._close_given = False

    @property
    def buffered(self) -> int:
        """Bytes received and not yet given out."""
        raise NotImplementedError

    @property
    def held(self) -> int:
        """Bytes of answers that wait for the answer of an older exchange."""
        return 0

    def receive(self, data: bytes) -> None:
        raise NotImplementedError

    def receive_eof(self) -> None:
        self.eof = self.more = True

    def next_event(self) -> Event | None:
        raise NotImplementedError

    def answer(self, exchange: int, body: bytes | None, status: int = 200) -> bytes:
        raise NotImplementedError

    def health_answer(self, exchange: int, ok: bool, text: str) -> bytes:
        raise ValueError(f"exchange {exchange} is no health probe")

    def timed_out(self) -> list[Event]:
        self.stop()
        close = self.close_event()
        return [] if close is None else [close]

    def stop(self) -> None:
        """No input counts any more; what is in flight is still answered."""
        self.closing = self.more = True
        self.mid_message = False
        self._forget_input()

    def close_event(self) -> Close | None:
        if self.in_flight or self._close_given:
            return None
        self._close_given = True
        return CLOSE

    def _forget_input(self) -> None:
        raise NotImplementedError

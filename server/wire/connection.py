"""One connection's protocol, without its socket: bytes in, events out, answers framed.

    wire = Wire(limits)
    wire.receive(data)                                   # what the socket gave
    while (event := wire.next_event()) is not None:      # Message | Health | Send | Close
        ...
    socket.send(wire.answer(message.exchange, body))     # any time later, in any order

The loop may stop early (a reader's share per pass, its limit in flight) and go on later; bytes
wait here meanwhile, so a reader that stops the loop stops reading too.  Nothing here reads a
clock: while `mid_message`, the reader counts, and calls `timed_out` when a message took too long
to arrive.
"""

from __future__ import annotations

from typing import Final

from .events import Event
from .framing import Framing, FramingName
from .http import HttpFraming
from .limits import WireLimits
from .lines import LineFraming
from .lsp import ContentLengthFraming
from .proxy_header import ProxyHeader
from .sniff import Sniffer

_FRAMINGS: Final[dict[str, type[LineFraming | ContentLengthFraming | HttpFraming]]] = {
    "lines": LineFraming,
    "lsp": ContentLengthFraming,
    "http": HttpFraming,
}


class Wire:
    """Sniffs the framing, then hands everything to it: it never changes again.

    receive(data) -> None
        Bytes from the socket; ignored once the input is over.
    next_event() -> Event | None
        None = nothing to do until more bytes come or, with exchanges in flight, an answer.
    source: str | None
        Set once, when a PROXY header has arrived: the client's address, "" if it is the proxy's.
    answer(exchange, body, status=200) -> bytes
        The bytes that may be sent now: b"" while HTTP holds them back, or several answers. `body`
        None answers a message of notifications only; `status` counts for HTTP alone.
    current: Framing
        The framing in use, called `framing`: for who asks it for several things.
    """

    __slots__ = ("_limits", "answer", "current", "framing", "next_event", "receive", "source")

    def __init__(self, limits: WireLimits, introduced: bool = False) -> None:
        """`introduced`: a PROXY header comes first."""
        self._limits = limits
        self.source: str | None = None
        self._use(ProxyHeader() if introduced else Sniffer())

    def receive_eof(self) -> None:
        """The peer will send nothing more; it may still read."""
        self.current.receive_eof()

    def stop(self) -> None:
        """No input counts any more; what is in flight is still answered."""
        self.current.stop()

    def health_answer(self, exchange: int, ok: bool, text: str) -> bytes:
        """As `answer`, for a `Health` event: 200 or 503 with one line of text."""
        return self.current.health_answer(exchange, ok, text)

    def timed_out(self) -> list[Event]:
        """Ends the input: 408 if an HTTP request was under way, Close if nothing is in flight."""
        return self.current.timed_out()

    @property
    def in_flight(self) -> int:
        """Exchanges that the peer has no answer for yet; over HTTP, held answers are among them."""
        return self.current.in_flight

    @property
    def buffered(self) -> int:
        """Bytes of input received and not yet given out."""
        return self.current.buffered

    @property
    def held(self) -> int:
        """Bytes of HTTP answers waiting for the answer of an older request."""
        return self.current.held

    @property
    def mid_message(self) -> bool:
        """Whether `next_event` last returned None with part of a message in hand."""
        return self.current.mid_message

    @property
    def input_over(self) -> bool:
        """Whether further bytes would be ignored: stop reading."""
        return self.current.eof or self.current.closing

    @property
    def wants_close(self) -> bool:
        """Nothing more will come or be answered: flush, then close."""
        return self.current.closing and not self.current.in_flight

    def _sniff(self, data: bytes) -> None:
        """`receive`, until the framing is known."""
        framing = self.current
        framing.receive(data)
        self._settle(framing)

    def _settle(self, sniffer: Framing) -> None:
        """Puts the framing that the first bytes show in the sniffer's place."""
        if isinstance(sniffer, ProxyHeader) and sniffer.source is not None:
            self.source = sniffer.source
            self._use(Sniffer())
            self.receive(sniffer.rest)
        if isinstance(sniffer, Sniffer) and sniffer.verdict in _FRAMINGS:
            self._use(_FRAMINGS[sniffer.verdict](self._limits))
            self.current.receive(sniffer.start)

    def _use(self, framing: Framing) -> None:
        self.current = framing
        self.framing: FramingName = framing.name
        self.next_event, self.answer = framing.next_event, framing.answer
        self.receive = self._sniff if framing.name == "unknown" else framing.receive

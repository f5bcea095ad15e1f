"""One client connection: its socket, its protocol, who calls, and what is still to be sent."""

from __future__ import annotations

import socket

from .callers import Caller, Peer
from .wire.connection import Wire


class Connection:
    """Owned by one reader for life. `answer` frames and queues, `flush` sends.

    `calls` are the slots of its calls in flight; `claimed` is set when a trusted peer named a user
    (a proxy's connection carries many callers). `touched` is the reader's set of connections to be
    settled at the end of the pass. Times are monotonic ns: `began_ns` is when the message that is
    arriving began (or the connection, before its first byte), `read_ns` and `sent_ns` are when
    bytes last came and went.
    """

    __slots__ = (
        "_chunks",
        "_touched",
        "_view",
        "began_ns",
        "buffered",
        "caller",
        "calls",
        "claimed",
        "closed",
        "eof",
        "fd",
        "interest",
        "paused",
        "peer",
        "queued",
        "read_ns",
        "sent_ns",
        "sock",
        "stalled",
        "unsent",
        "wire",
    )

    def __init__(
        self,
        sock: socket.socket,
        wire: Wire,
        peer: Peer,
        caller: Caller,
        touched: set[Connection],
        now_ns: int,
    ) -> None:
        self.sock = sock
        self.fd = sock.fileno()
        self.wire = wire
        self.peer = peer
        self.caller = caller
        self.claimed = False
        self.calls: set[int] = set()
        self.queued = False  # it has a place in the ready list
        self.paused = 0  # calls that wait for room in the queue: nothing more is read meanwhile
        self.eof = False
        self.closed = False
        self.interest = 0
        self.buffered = 0  # bytes of input not taken yet, as last accounted for
        self.unsent = 0  # bytes
        self.stalled = False  # the socket did not take all of it
        self.began_ns, self.read_ns, self.sent_ns = now_ns, 0, now_ns
        self._touched = touched
        self._chunks: list[bytes] = []
        self._view = memoryview(b"")

    def become(self, caller: Caller) -> None:
        """A trusted peer said for whom it calls; what it holds counts for that caller now."""
        self.caller.unfinished -= self.buffered
        caller.unfinished += self.buffered
        self.caller = caller
        self.claimed = True

    def answer(self, exchange: int, body: bytes | None, status: int = 200) -> None:
        """Frame the answer to `exchange` and put it among what is to be sent."""
        self.put(self.wire.answer(exchange, body, status))

    def put(self, data: bytes) -> None:
        """Bytes for the client, framed already."""
        self._touched.add(self)
        if data:
            self._chunks.append(data)
            self.unsent += len(data)

    def touch(self) -> None:
        """Something about this connection has changed that the end of the pass must look at."""
        self._touched.add(self)

    def flush(self) -> int:
        """Send what the socket takes; bytes sent. OSError if the client is gone."""
        sent = 0
        while self.unsent:
            if not self._view:
                chunks = self._chunks
                self._view = memoryview(chunks[0] if len(chunks) == 1 else b"".join(chunks))
                self._chunks = []
            try:
                count = self.sock.send(self._view)
            except BlockingIOError:
                break
            self._view = self._view[count:]
            self.unsent -= count
            sent += count
        return sent

    @property
    def is_over(self) -> bool:
        """Nothing more will come, and everything was answered and sent."""
        if self.unsent or self.calls or self.queued or self.paused:
            return False
        wire = self.wire
        return wire.wants_close or (self.eof and not wire.in_flight and not wire.buffered)

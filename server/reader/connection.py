"""One client connection: its socket, its protocol, who calls, and what is still to be sent."""

from __future__ import annotations

import socket

from ..wire.connection import Wire
from .callers import Caller
from .peers import Peer


class Who:
    """Who a message is from. `caller` is the principal; `user` its name where `caller` is the
    account of newcomers; `address` is None on a Unix socket. `name` is the user's, too. `refusal`:
    why its calls are refused.
    """

    __slots__ = ("address", "caller", "name", "refusal", "user")

    def __init__(
        self, caller: Caller, user: str = "", address: str | None = None, refusal: str = ""
    ) -> None:
        self.caller = caller
        self.user = user
        self.name = user or caller.name
        self.address = address
        self.refusal = refusal


class Connection:
    """Owned by one reader for life. `answer` frames and queues, `flush` sends.

    `calls` are the slots of its calls in flight; `claimed` is set when a trusted peer named a user
    (a proxy's connection carries many callers). `who` sends its messages, and is the whole truth if
    `plain`, unless an HTTP request says more. `touched` is the reader's set of connections to be
    settled at the end of the pass. Times are monotonic ns: `began_ns` is when the message that is
    arriving began (or the connection, before its first byte), `read_ns` and `sent_ns` are when
    bytes last came and went.
    """

    __slots__ = (
        "_chunks",
        "_rest",
        "_send",
        "_touched",
        "among_patients",
        "authenticated",
        "began_ns",
        "buffered",
        "caller",
        "calls",
        "claimed",
        "closed",
        "fd",
        "in_kernel",
        "input_over",
        "interest",
        "lingering",
        "patient",
        "paused",
        "peer",
        "peer_ended",
        "plain",
        "queued",
        "read_ns",
        "recv",
        "sent_ns",
        "sock",
        "stalled",
        "stopped",
        "unsent",
        "who",
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
        self.sock, self.recv, self._send = sock, sock.recv, sock.send
        self.fd = sock.fileno()
        self.wire = wire
        self.peer = peer
        self.caller = caller
        self.who = Who(caller, address=peer.address)
        self.authenticated = peer.address is None  # by more than an address
        self.plain = True
        self.claimed = False
        self.calls: set[int] = set()
        self.queued = False  # it has a place in the ready list
        self.stopped = False  # it lost it, for it may not take more until something is answered
        self.paused = 0  # calls that wait for room in the queue: nothing more is taken meanwhile
        self.peer_ended = False  # the client said that it will send no more
        self.input_over = False  # nothing more is read: the client or the protocol has ended
        self.lingering = False  # we have ended as well, and wait for the client's end
        self.closed = False
        self.patient = False  # its last answer took many times as long as a nap
        self.among_patients = False  # it is registered as such
        self.interest = 0  # what epoll is asked for; 0: not registered
        self.buffered = 0  # bytes of input not taken yet, as last accounted for
        self.unsent = 0  # bytes
        self.stalled = False  # the socket did not take all of it
        self.in_kernel = 0  # bytes that it had taken and the client had not, at the last look
        self.began_ns, self.read_ns, self.sent_ns = now_ns, 0, now_ns
        self._touched = touched
        self._chunks: list[bytes] = []
        self._rest: bytes | memoryview = b""

    def become(self, caller: Caller, user: str = "", claimed: bool = True) -> None:
        """It is known who calls, `claimed` by a trusted peer; what it holds counts for that caller.

        `user` is the name of one who has no account of its own yet: `caller` is that of newcomers.
        """
        self._count_for(caller)
        self.who = Who(caller, user, self.peer.address)
        self.claimed = self.claimed or claimed
        self.authenticated = True
        self.plain = not user

    def introduce(self, peer: Peer, caller: Caller) -> None:
        """A trusted proxy said who its other end is."""
        self._count_for(caller)
        self.peer = peer
        self.who = Who(caller, address=peer.address)
        self.authenticated = False

    def _count_for(self, caller: Caller) -> None:
        self.caller.unfinished -= self.buffered
        caller.unfinished += self.buffered
        self.caller = caller

    def answer(self, exchange: int, body: bytes | None, status: int = 200) -> None:
        """Frame the answer to `exchange` and put it among what is to be sent."""
        data = self.wire.answer(exchange, body, status)
        self._touched.add(self)
        if data:
            self._chunks.append(data)
            self.unsent += len(data)

    def put(self, data: bytes) -> None:
        """Bytes for the client, framed already."""
        self._touched.add(self)
        if data:
            self._chunks.append(data)
            self.unsent += len(data)

    def finish(self) -> None:
        """Nothing more is taken from it; it is closed when what is in flight is answered."""
        self.wire.stop()
        self.input_over = True
        self._touched.add(self)

    def touch(self) -> None:
        """Something about this connection has changed that the end of the pass must look at."""
        self._touched.add(self)

    def flush(self) -> int:
        """Send what the socket takes; bytes sent. OSError if the client is gone."""
        before, chunks = self.unsent, self._chunks
        try:
            while self.unsent:
                data = self._rest  # what the last `send` left; else everything that was put since
                if not data:
                    self._rest = data = b"".join(chunks)
                    chunks.clear()
                count = self._send(data)
                self._rest = memoryview(data)[count:] if count < len(data) else b""
                self.unsent -= count
        except BlockingIOError:
            pass
        return before - self.unsent

    @property
    def is_over(self) -> bool:
        """Nothing more will come, and everything was answered and sent."""
        return not self.unsent and self.wire.wants_close

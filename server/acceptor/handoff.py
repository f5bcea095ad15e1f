"""How a connection gets from the acceptor to a reader: one message with its descriptor.

Each reader has a SOCK_SEQPACKET pair. The supervisor made it and keeps both ends open, so what was
sent and not yet adopted outlives acceptor *and* reader: their successors go on where they stopped.
For the same reason nobody counts it in shared memory, where a death between the sending and the
counting would leave the figure wrong for good: the kernel knows how much waits in the pair
(SIOCOUTQ, bytes charged to the sending end), and every message is of one size.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import socket
import termios

TCP, UNIX = b"t", b"u"  # the message: where the connection came from


class Handoff:
    """The pair of one reader: `near` is the acceptor's end, `far` the reader's."""

    def __init__(self) -> None:
        self.near, self.far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (self.near, self.far):  # `socket.send_fds` of Python 3.11 ignores its flags
            end.setblocking(False)
        self._message_bytes = _measure()

    def send(self, connection: socket.socket) -> bool:
        """Send `connection`, which stays open here; False if the pair is full; OSError."""
        kind = UNIX if connection.family == socket.AF_UNIX else TCP
        try:
            socket.send_fds(self.near, [kind], [connection.fileno()])
        except BlockingIOError:
            return False
        return True

    def pending(self) -> int:
        """How many connections were sent and not yet adopted."""
        return unread_bytes(self.near) // self._message_bytes

    def close(self) -> None:
        self.near.close()
        self.far.close()


def unread_bytes(sock: socket.socket) -> int:
    """Bytes of kernel memory that what `sock` sent, and nobody has read, takes; 0 if untold."""
    answer = array.array("i", [0])
    with contextlib.suppress(OSError):
        fcntl.ioctl(sock, termios.TIOCOUTQ, answer)
    return answer[0]


def _measure() -> int:
    """What one message takes."""
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with near, far:
        near.send(TCP)
        return max(1, unread_bytes(near))

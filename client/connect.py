"""How the synchronous client gets a connection."""

from __future__ import annotations

import math
import socket
import struct
import time

from .address import Address
from .attempt import Attempt
from .connection import Connection
from .errors import (
    ConnectionLost,
    DeadlineExceeded,
    RemoteError,
    connection_failed,
    hello_refused,
    hello_unanswered,
)
from .options import Options
from .request import Request


def open_connection(options: Options, place: Address, limit_s: float) -> Connection:
    """Connects, within `limit_s` seconds and the connect time-out, and says who is calling.

    ConnectionFailed; or the RemoteError by which the server refuses the name.
    """
    limit_s = min(limit_s, options.connect_timeout_s)
    until = time.monotonic() + limit_s
    address = str(place)
    try:
        sock = _connect(place, limit_s)
    except OSError as error:
        raise connection_failed(address, error, limit_s) from error
    sock.setblocking(False)
    connection = Connection(sock, options.protocol(place), address)
    hello = options.hello(place, limit_s)
    if hello is not None:
        _say_hello(connection, hello, until)
    return connection


def _say_hello(connection: Connection, hello: Request, until: float) -> None:
    attempt = Attempt(hello)
    try:
        connection.send([hello], [attempt], until)
        answer = attempt.wait(math.inf)
        if answer is not None and answer.error is not None:
            raise answer.error
    except BaseException as error:
        connection.close("the server did not accept who is calling")
        if isinstance(error, ConnectionLost | DeadlineExceeded):
            raise hello_unanswered(connection.address, error) from error
        if isinstance(error, RemoteError):
            raise hello_refused(error) from None
        raise


def _connect(address: Address, limit_s: float) -> socket.socket:
    if address.dial:
        return address.dial()
    if address.path:
        return _connect_unix(address.path, limit_s)
    sock = socket.create_connection((address.host, address.port), limit_s)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def _connect_unix(path: str, limit_s: float) -> socket.socket:
    """Waits while the server's queue is full, which only a blocking connect does (unix(7))."""
    sock = socket.socket(socket.AF_UNIX)
    try:
        seconds, part = divmod(limit_s, 1)
        limit = struct.pack("@ll", int(seconds), max(int(part * 1e6), 1))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        sock.connect(path)
    except BlockingIOError:
        sock.close()
        raise TimeoutError from None
    except BaseException:
        sock.close()
        raise
    return sock

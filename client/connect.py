"""How the synchronous client gets a connection."""

from __future__ import annotations

import socket
import struct
import time

from .connection import Connection
from .errors import connection_failed
from .future import Future
from .options import Options


def open_connection(options: Options, limit_s: float) -> Connection:
    """Connects, within `limit_s` seconds and the connect time-out, and says who is calling.

    ConnectionFailed; or the RemoteError by which the server refuses the name.
    """
    limit_s = min(limit_s, options.connect_timeout_s)
    until = time.monotonic() + limit_s
    address = str(options.address)
    try:
        sock = _connect(options, limit_s)
    except OSError as error:
        raise connection_failed(address, error, limit_s) from error
    sock.setblocking(False)
    connection = Connection(sock, options.protocol(), address)
    hello = options.hello(limit_s)
    if hello is not None:
        try:
            future = Future(hello)
            connection.send([hello], [future], until)
            future.result()
        except BaseException:
            connection.close("the server did not accept who is calling")
            raise
    return connection


def _connect(options: Options, limit_s: float) -> socket.socket:
    address = options.address
    if not address.path:
        sock = socket.create_connection((address.host, address.port), limit_s)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock
    return _connect_unix(address.path, limit_s)


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

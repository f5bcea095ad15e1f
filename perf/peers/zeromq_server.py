"""ZeroMQ: a ROUTER in front, which hands over to two worker processes by a DEALER (`zmq.proxy`).

It is what runs: `python -m faircall.perf.peers.zeromq_server PORT FOLDER`. The load generator
calls it in its own protocol, ZMTP 3.0 (RFC 23): a request is the one frame of a DEALER's message,
and an answer, too, with a newline as its last byte.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Sequence

from ..bench.plan import Frames
from .functions import answer, tell_ready
from .peer import HOST, WORKERS, Peer, Place

UNLIMITED = 0  # messages that may wait (high-water mark)
SHORT = 255  # longest frame whose length is one byte


def frame_head(length: int) -> bytes:
    """What stands before the bytes of a message's only frame."""
    return bytes([0, length]) if length <= SHORT else b"\x02" + length.to_bytes(8, "big")


def _opening() -> bytes:
    """Greeting, and READY of a DEALER. The ROUTER's own READY ends with its routing id, and that
    with the newline that the generator waits for."""
    greeting = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
    ready = b"\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER"
    return greeting + bytes([4, len(ready)]) + ready


FRAMES = Frames(_opening(), frame_head)


def work(back: str) -> None:
    import zmq

    socket = zmq.Context().socket(zmq.DEALER)
    socket.set_hwm(UNLIMITED)
    socket.connect(back)
    tell_ready()
    while True:
        caller, body = socket.recv_multipart()
        socket.send_multipart((caller, answer(body) + b"\n"))


def serve(port: int, folder: str) -> None:
    import zmq

    back_address = f"ipc://{os.path.join(folder, 'back')}"
    fork = multiprocessing.get_context("fork")
    for _ in range(WORKERS):
        fork.Process(target=work, args=(back_address,), daemon=True).start()
    context = zmq.Context()
    front, back = context.socket(zmq.ROUTER), context.socket(zmq.DEALER)
    for socket in (front, back):
        socket.set_hwm(UNLIMITED)
    front.setsockopt(zmq.ROUTING_ID, b"front\n")
    front.bind(f"tcp://{HOST}:{port}")
    back.bind(back_address)
    zmq.proxy(front, back)


def command(place: Place) -> Sequence[str]:
    return [sys.executable, "-m", __name__, str(place.port), str(place.folder)]


PEERS = (
    Peer(
        name="zeromq",
        about="ROUTER, zmq.proxy in C, DEALER to 2 processes (pyzmq); called in ZMTP",
        loaded="zmtp",
        command=command,
        modules={"zmq": "pyzmq"},
        programs={"cc": "gcc"},
    ),
)

if __name__ == "__main__":
    serve(int(sys.argv[1]), sys.argv[2])

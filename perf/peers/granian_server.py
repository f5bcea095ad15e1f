"""granian: raw RSGI and ASGI applications, which run the function in the event loop."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from .functions import answer, tell_ready
from .peer import WORKERS, Peer, Place, http
from .uvicorn_server import app as asgi

__all__ = ["PEERS", "asgi", "rsgi"]

OPTIONS = (
    "--http=1 --http1-pipeline-flush --loop=uvloop --runtime-mode=st --runtime-threads=1"
    " --no-ws --backlog=2048 --log-level=warning"
)
HEADERS = [("content-type", "application/json")]


class Rsgi:
    """The RSGI application: granian calls `__rsgi_init__` in each worker, then `__rsgi__`."""

    def __rsgi_init__(self, loop: object) -> None:
        tell_ready()

    async def __rsgi__(self, scope: Any, protocol: Any) -> None:
        protocol.response_bytes(200, HEADERS, answer(await protocol()))


rsgi = Rsgi()


def _rsgi(place: Place) -> Sequence[str]:
    return _words(place, "rsgi")


def _asgi(place: Place) -> Sequence[str]:
    return _words(place, "asgi")


def _words(place: Place, interface: str) -> Sequence[str]:
    words = ["-m", "granian", f"--interface={interface}", f"--port={place.port}"]
    return [sys.executable, *words, f"--workers={WORKERS}", *OPTIONS.split(), _NAME + interface]


_NAME = f"{__name__}:"
_MODULES = {"granian": "granian", "uvloop": "uvloop"}

PEERS = (
    Peer(
        name="granian-rsgi",
        about="raw RSGI, 2 workers, uvloop",
        loaded="http",
        command=_rsgi,
        address=http,
        modules=_MODULES,
    ),
    Peer(
        name="granian-asgi",
        about="raw ASGI, 2 workers, uvloop",
        loaded="http",
        command=_asgi,
        address=http,
        modules=_MODULES,
    ),
)

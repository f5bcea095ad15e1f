"""uvicorn: a raw ASGI application, which runs the function in the event loop."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from .functions import answer, tell_ready
from .peer import WORKERS, Peer, Place, http

OPTIONS = (
    "--loop=uvloop --http=httptools --ws=none --lifespan=on --backlog=2048"
    " --no-access-log --no-server-header --no-date-header --log-level=warning"
)


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """The ASGI application, raw: no framework, no routes."""
    if scope["type"] == "lifespan":
        await receive()
        tell_ready()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        return
    message = await receive()
    body = message["body"]
    while message.get("more_body"):
        message = await receive()
        body += message["body"]
    content = answer(body)
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(content)),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": content})


def command(place: Place) -> Sequence[str]:
    words = [sys.executable, "-m", "uvicorn", f"{__name__}:app", f"--port={place.port}"]
    return [*words, f"--workers={WORKERS}", *OPTIONS.split()]


PEERS = (
    Peer(
        name="uvicorn",
        about="raw ASGI, 2 workers, uvloop and httptools",
        loaded="http",
        command=command,
        address=http,
        modules={"uvicorn": "uvicorn", "uvloop": "uvloop", "httptools": "httptools"},
    ),
)

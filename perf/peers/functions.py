"""What every peer serves: functions of perf/services.py, answered as JSON-RPC 2.0."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import orjson

from ..services import echo, turns

FOLDER_VARIABLE = "FAIRCALL_PEER_FOLDER"
READY = "ready-"
NOT_FOUND = -32601

FUNCTIONS: Mapping[str, Callable[..., Any]] = {"echo": echo, "turns": turns}


def answer(body: bytes) -> bytes:
    """The answer to one request with positional parameters; no newline at its end."""
    request = orjson.loads(body)
    function = FUNCTIONS.get(request["method"])
    if function is None:
        error = {"code": NOT_FOUND, "message": f"no method {request['method']}"}
        return orjson.dumps({"jsonrpc": "2.0", "error": error, "id": request["id"]})
    result = function(*request["params"])
    return orjson.dumps({"jsonrpc": "2.0", "result": result, "id": request["id"]})


def tell_ready() -> None:
    """A worker process says that it can take calls: a file in the folder of its server."""
    Path(os.environ[FOLDER_VARIABLE], f"{READY}{os.getpid()}").touch()

"""One connection to the admin socket: newline-delimited JSON-RPC 2.0, answered in order.

Who connects must be the daemon's own user or root, by the kernel's word: the socket's mode and its
folder's keep others out already, and this still holds when somebody changed them.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import struct
from collections.abc import Awaitable, Mapping

import orjson

from ...workers import errors
from ...workers.envelope import (
    Invalid,
    Request,
    batch_answer,
    decode,
    error_answer,
    result_answer,
)
from ...workers.errors import RpcError, error_object
from .methods import AdminMethod, Params

log = logging.getLogger("faircall.admin")

MAX_MESSAGE_BYTES = 64 << 10
MAX_BATCH = 100
ROOT = 0

_PEER_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid
_NULL = b"null"


async def serve_session(
    methods: Mapping[str, AdminMethod],
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    """Until the client has said all, says too much, or is gone."""
    try:
        await _refuse_strangers(writer)
        while line := await reader.readline():
            if line.strip() and (answer := await answer_message(methods, line)):
                await _send(writer, answer)
    except ValueError:  # longer than the reader's limit
        await _send(writer, error_answer(_NULL, _too_long()))
    except (ConnectionError, PermissionError):
        pass
    finally:
        writer.close()


async def answer_message(methods: Mapping[str, AdminMethod], message: bytes) -> bytes:
    """The answer to one message; b"" where there is nothing to answer."""
    decoded = decode(message, max_batch=MAX_BATCH)
    answers = [answer for item in decoded.items if (answer := await _answer(methods, item))]
    if decoded.batch and answers:
        return batch_answer(answers)
    return b"".join(answers)


async def _answer(methods: Mapping[str, AdminMethod], item: Request | Invalid) -> bytes:
    if isinstance(item, Invalid):
        return error_answer(item.id, item.error)
    try:
        result = _call(methods, item)
        body = orjson.dumps(await result if isinstance(result, Awaitable) else result)
    except RpcError as error:
        return _unless_notification(item, error_object(error.code, error.message))
    except Exception as error:
        log.error("admin method failed", {"method": item.method}, exc_info=error)
        return _unless_notification(item, error_object(errors.INTERNAL_ERROR))
    return b"" if item.id is None else result_answer(item.id, body)


def _call(methods: Mapping[str, AdminMethod], request: Request) -> object:
    method = methods.get(request.method)
    if method is None:
        text = f"Method not found: {request.method[:100]}"
        raise RpcError(errors.METHOD_NOT_FOUND, text)
    return method(_params(request.params))


def _params(raw: bytes) -> Params:
    if not raw:
        return None
    try:
        params: Params = orjson.loads(raw)
    except orjson.JSONDecodeError as error:  # 1e999, which the envelope lets pass
        raise RpcError(errors.INVALID_PARAMS, f"Invalid params: {error}") from None
    return params


def _unless_notification(request: Request, error: bytes) -> bytes:
    return b"" if request.id is None else error_answer(request.id, error)


async def _refuse_strangers(writer: asyncio.StreamWriter) -> None:
    """PermissionError, and an answer that says so, for everybody but our own user and root."""
    uid = peer_uid(writer.get_extra_info("socket"))
    if uid in (os.geteuid(), ROOT):
        return
    log.warning("admin client refused", {"uid": uid})
    error = error_object(errors.FORBIDDEN, "Forbidden: for the daemon's own user and root")
    await _send(writer, error_answer(_NULL, error))
    raise PermissionError(uid)


def peer_uid(sock: socket.socket) -> int:
    """The user of the process at the other end of a Unix socket, when it connected."""
    packed = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER_CREDENTIALS.size)
    uid: int = _PEER_CREDENTIALS.unpack(packed)[1]
    return uid


async def _send(writer: asyncio.StreamWriter, answer: bytes) -> None:
    writer.write(answer + b"\n")
    await writer.drain()


def _too_long() -> bytes:
    text = f"Too large: a message to this socket has at most {MAX_MESSAGE_BYTES} bytes"
    return error_object(errors.TOO_LARGE, text)

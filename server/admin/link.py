"""The admin process's line to the supervisor, over its channel.

to the supervisor     "refresh ID"           read the settings again
                      "order ID VERB JSON"   an order of an administrator, with its parameters
from it               "refreshed ID JSON"    how either ended
                      "settings PICKLE"      what the daemon goes by from now on
"""

from __future__ import annotations

import asyncio
import itertools
import pickle
import socket
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import orjson

from ...workers.errors import APPLICATION_ERROR, INTERNAL_ERROR, RpcError

if TYPE_CHECKING:
    from ..config import Settings

REFRESH, ORDER, REFRESHED, SETTINGS = b"refresh ", b"order ", b"refreshed ", b"settings "
LONGEST_MESSAGE = 1 << 20  # bytes
PATIENCE_S = 60.0  # a janitor that has to be replaced takes some seconds
LONG_ORDERS = {"reload_workers": 86_400.0}  # each handler may take handlers.startup-timeout-s


class SupervisorLink:
    """`adopt` is told of other settings; `ended`: the supervisor has said the last word."""

    def __init__(self, channel: socket.socket, adopt: Callable[[Settings], None]) -> None:
        self.ended = asyncio.Event()
        self._channel, self._adopt = channel, adopt
        self._ids = itertools.count(1)
        self._asked: dict[int, asyncio.Future[dict[str, Any]]] = {}

    def listen(self) -> None:
        """From now on, in the loop that runs."""
        self._channel.setblocking(False)
        asyncio.get_running_loop().add_reader(self._channel, self._hear)

    async def refresh(self) -> dict[str, Any]:
        """Have the settings read again; what that changed. RpcError with why it changed nothing."""
        return await self._ask(next(self._ids), REFRESH, b"", PATIENCE_S)

    async def order(self, verb: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Have an order carried out; what came of it. RpcError with why it was not."""
        rest = f" {verb} ".encode() + orjson.dumps(params)
        patience_s = LONG_ORDERS.get(verb, PATIENCE_S)
        return await self._ask(next(self._ids), ORDER, rest, patience_s)

    async def _ask(
        self, number: int, kind: bytes, rest: bytes, patience_s: float
    ) -> dict[str, Any]:
        answer = self._asked[number] = asyncio.get_running_loop().create_future()
        try:
            self._channel.send(kind + str(number).encode() + rest)
            async with asyncio.timeout(patience_s):
                found: dict[str, Any] = await answer
        except (OSError, TimeoutError):
            text = f"the supervisor has not answered for {patience_s:.0f} s: look into its log"
            raise RpcError(INTERNAL_ERROR, text) from None
        finally:
            del self._asked[number]
        if "error" in found:
            raise RpcError(APPLICATION_ERROR, found["error"])
        return found

    def _hear(self) -> None:
        try:
            message = self._channel.recv(LONGEST_MESSAGE)
        except BlockingIOError:
            return
        except OSError:
            message = b""
        if not message:
            self.ended.set()
            asyncio.get_running_loop().remove_reader(self._channel)
        elif message.startswith(SETTINGS):
            self._adopt(pickle.loads(message.removeprefix(SETTINGS)))  # the supervisor's own
        elif message.startswith(REFRESHED):
            number, answer = message.removeprefix(REFRESHED).split(b" ", 1)
            if (asked := self._asked.get(int(number))) and not asked.done():
                asked.set_result(orjson.loads(answer))

"""Servers that give each call the outcome a test wrote down, and the clients that make them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from faircall.client import AsyncClient, Client, Retry

if TYPE_CHECKING:
    from .conftest import Peer

LOST = object()  # the connection ends without an answer
AT_ONCE = Retry(random=lambda: 0.0)
LONG_S = 60.0


def error(code: int, **data: Any) -> dict[str, Any]:
    """What makes a call fail; without `data` the error object has none either."""
    return {"error": {"code": code, "message": "no", **({"data": data} if data else {})}}


def result(value: Any) -> dict[str, Any]:
    return {"result": value}


BUSY = error(-32005, reason="queue_full", retriable=True)
SHUTTING_DOWN = error(-32052, reason="shutting_down", retriable=True)
STANDBY = error(-32057, reason="standby", retriable=True)


class Scripted:
    """Gives the messages of all connections these outcomes in turn, and the last one for ever.

    The outcome of a batch is a list. `seen`: the number of the connection, and the message.
    """

    def __init__(self, *outcomes: Any) -> None:
        self.seen: list[tuple[int, Any]] = []
        self._outcomes = list(outcomes)
        self._lock = threading.Lock()

    def __call__(self, peer: Peer) -> None:
        while True:
            message = peer.receive()
            with self._lock:
                self.seen.append((peer.number, message))
                last = len(self._outcomes) == 1
                outcome = self._outcomes[0] if last else self._outcomes.pop(0)
            if outcome is LOST:
                return
            peer.send(answer(message, outcome))

    @property
    def messages(self) -> list[Any]:
        return [message for _, message in self.seen]

    @property
    def attempts(self) -> list[int | None]:
        """`meta.attempt` of each message, a batch left out."""
        return [m.get("meta", {}).get("attempt") for m in self.messages if isinstance(m, dict)]


def answer(message: Any, outcome: Any) -> Any:
    """The answer that gives `message` this outcome; None to a notification."""
    if isinstance(message, list):
        asked = [request for request in message if "id" in request]
        if not asked:
            return None
        return [answer(request, one) for request, one in zip(asked, outcome, strict=True)]
    return {"jsonrpc": "2.0", "id": message["id"], **outcome} if "id" in message else None


class SyncCaller:
    """The synchronous client; nothing is waited for between repeats unless a test says so."""

    def __init__(self, addresses: Any, **options: Any) -> None:
        self._client = Client(addresses, **{"retry": AT_ONCE, "timeout": LONG_S, **options})

    def call(self, method: str = "m", *args: Any, **options: Any) -> Any:
        return self._client.call(method, *args, **options)

    def calls(self, count: int) -> list[Any]:
        """The results of this many calls, which are all sent before the last is waited for."""
        futures = [self._client.submit("m", i) for i in range(count)]
        return [future.result() for future in reversed(futures)][::-1]

    def batch(self, count: int, notify: bool = False, **options: Any) -> list[Any]:
        with self._client.batch(**options) as batch:
            for i in range(count):
                (batch.notify if notify else batch.add)("m", i)
        return batch.results()

    def notify(self) -> None:
        self._client.notify("note")

    def close(self) -> None:
        self._client.close()


class AsyncCaller:
    """The same with the asynchronous client, whose loop runs while a method of this one does."""

    def __init__(self, addresses: Any, **options: Any) -> None:
        self._runner = asyncio.Runner()
        self._client = AsyncClient(addresses, **{"retry": AT_ONCE, "timeout": LONG_S, **options})

    def run(self, work: Callable[[AsyncClient], Coroutine[Any, Any, Any]]) -> Any:
        return self._runner.run(work(self._client))

    def call(self, method: str = "m", *args: Any, **options: Any) -> Any:
        return self.run(lambda client: client.call(method, *args, **options))

    def calls(self, count: int) -> list[Any]:
        async def work(client: AsyncClient) -> list[Any]:
            return await asyncio.gather(*(client.call("m", i) for i in range(count)))

        results: list[Any] = self.run(work)
        return results

    def batch(self, count: int, notify: bool = False, **options: Any) -> list[Any]:
        async def work(client: AsyncClient) -> list[Any]:
            async with client.batch(**options) as batch:
                for i in range(count):
                    (batch.notify if notify else batch.add)("m", i)
            return await batch.results()

        results: list[Any] = self.run(work)
        return results

    def notify(self) -> None:
        self.run(lambda client: client.notify("note"))

    def close(self) -> None:
        self.run(lambda client: client.close())
        self._runner.close()


Caller = SyncCaller | AsyncCaller

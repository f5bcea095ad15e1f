"""The client's side of JSON-RPC 2.0 on one connection: requests and bytes in, answers out.

An *exchange* is what was sent as one message, a call or a batch. An answer belongs to the call
whose id it bears. An error without one (a message that the server could not read) belongs to the
exchange whose place it has: the next one over HTTP, the only open one on a stream. Where a stream
has several, it is kept to explain the end of the connection.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from .errors import (
    ConnectionFailed,
    ConnectionLost,
    InvalidAnswer,
    RpcClientError,
    call_name,
    remote_error,
)
from .framing import Framing, FramingError, Payload, excerpt
from .request import Request


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of the call `id`: its result, unless there is an error."""

    id: int
    result: Any = None
    error: RpcClientError | None = None


@dataclass(slots=True)
class _Asked:
    method: str
    exchange: set[int]


class ClientProtocol:
    """Feed it what the socket gave; it says which calls that answers. `ended`: close the socket."""

    def __init__(self, framing: Framing, address: str) -> None:
        self.end = ""  # why it ended
        self._framing = framing
        self._address = address
        self._last_id = 0
        self._asked: dict[int, _Asked] = {}
        self._exchanges: deque[set[int]] = deque()
        self._complaint = ""

    @property
    def ended(self) -> bool:
        """Whether nothing more can be sent or answered."""
        return bool(self.end)

    def not_sent(self, requests: Sequence[Request]) -> ConnectionFailed:
        """What a caller gets who comes too late."""
        why = self.end or "the connection broke"
        return ConnectionFailed(f"{self._name(requests)}not sent: {why}; call again")

    def lost(self, requests: Sequence[Request]) -> ConnectionLost:
        """What a caller gets who is not answered anyway, when the connection ended meanwhile."""
        return ConnectionLost(f"{self._name(requests)}{self.end}; the call may have run or not")

    def send(self, requests: Sequence[Request], *, batch: bool = False) -> tuple[list[int], bytes]:
        """The ids of those that will be answered, in their order, and the bytes to write now."""
        exchange: set[int] = set()
        parts = [request.encode(self._ask(request, exchange)) for request in requests]
        if self._framing.in_order:
            self._exchanges.append(exchange)
        message = b"[%b]" % b",".join(parts) if batch else parts[0]
        return sorted(exchange), self._framing.frame(message)

    def receive(self, data: bytes) -> list[Answer]:
        """What these bytes answer; after an answer that cannot be one, every open call fails."""
        answers: list[Answer] = []
        try:
            self._framing.receive(data)
            while not self.ended and (payload := self._framing.next_payload()) is not None:
                for answer in self._take(payload):  # those before a FramingError count
                    answers.append(answer)
        except FramingError as error:
            answers.extend(self._end(InvalidAnswer, f"{error}; does a faircall server listen?"))
        return answers

    def receive_eof(self) -> list[Answer]:
        """The server closed: every open call fails."""
        middle = " in the middle of an answer" if self._framing.mid_payload else ""
        return self.lose(f"the server closed the connection{middle}")

    def lose(self, why: str) -> list[Answer]:
        """The connection is given up: every open call fails with ConnectionLost."""
        said = f" after saying {self._complaint}" if self._complaint else ""
        return self._end(ConnectionLost, f"{why}{said}; the call may have run or not")

    def _name(self, requests: Sequence[Request]) -> str:
        return call_name(", ".join(request.method for request in requests[:3]), self._address)

    def _ask(self, request: Request, exchange: set[int]) -> int | None:
        if request.notification:
            return None
        self._last_id += 1
        self._asked[self._last_id] = _Asked(request.method, exchange)
        exchange.add(self._last_id)
        return self._last_id

    def _take(self, payload: Payload) -> Iterator[Answer]:
        value = self._decode(payload)
        exchange = self._exchange_of(value)
        for item in value if isinstance(value, list) else [value]:
            yield from self._take_item(item, exchange)
        if exchange:
            status = f"HTTP {payload.status}: " if payload.status else ""
            why = f"{status}no answer to this call in {excerpt(payload.body)}"
            yield from self._fail(InvalidAnswer, why, sorted(exchange))
        if payload.last:
            yield from self.lose("the server closed the connection")

    def _decode(self, payload: Payload) -> Any:
        """The JSON value; None for no JSON over HTTP, where it costs one exchange, not them all."""
        try:
            return orjson.loads(payload.body)
        except orjson.JSONDecodeError as error:
            if self._framing.in_order:
                return None
            raise FramingError(f"not JSON ({error}): {excerpt(payload.body)}") from None

    def _exchange_of(self, value: Any) -> set[int]:
        """The calls that `value` must leave answered."""
        if self._framing.in_order:
            if not self._exchanges:
                raise FramingError("an answer to nothing that was sent")
            return self._exchanges.popleft()
        if isinstance(value, list):
            ids = (_id_of(item) for item in value)
            return next((self._asked[id].exchange for id in ids if id in self._asked), set())
        if isinstance(value, dict) and value.get("id") is None:
            return self._only_exchange()
        return set()

    def _only_exchange(self) -> set[int]:
        first = next(iter(self._asked.values()), None)
        alone = first is not None and len(first.exchange) == len(self._asked)
        return first.exchange if first and alone else set()

    def _take_item(self, item: Any, exchange: set[int]) -> Iterator[Answer]:
        id = _id_of(item)
        if id in self._asked:
            yield from self._answer(id, item)
        elif isinstance(item, dict) and item.get("id") is None and "error" in item:
            yield from self._take_complaint(item["error"], exchange)
        elif not self._framing.in_order:
            shown = excerpt(orjson.dumps(item))
            raise FramingError(f"an answer to nothing that was asked: {shown}")

    def _take_complaint(self, error: Any, exchange: set[int]) -> Iterator[Answer]:
        if not exchange:
            self._complaint = str(self._error(error, ""))
        for id in sorted(exchange):
            yield from self._answer(id, {"error": error})

    def _answer(self, id: int, item: dict[str, Any]) -> Iterator[Answer]:
        asked = self._asked.pop(id)
        asked.exchange.discard(id)
        if item.get("error") is not None:
            yield Answer(id, error=self._error(item["error"], asked.method))
        elif "result" in item:
            yield Answer(id, item["result"])
        else:
            yield Answer(id, error=self._failure(InvalidAnswer, "no result, no error", asked))

    def _error(self, error: Any, method: str) -> RpcClientError:
        match error:
            case {"code": int(code), "message": str(message)}:
                return remote_error(code, message, error.get("data"), method, self._address)
        name = call_name(method, self._address)
        return InvalidAnswer(f"{name}not an error object: {excerpt(orjson.dumps(error))}")

    def _end(self, kind: type[RpcClientError], why: str) -> list[Answer]:
        self.end = self.end or why
        return list(self._fail(kind, why, list(self._asked)))

    def _fail(self, kind: type[RpcClientError], why: str, ids: Iterable[int]) -> Iterator[Answer]:
        for id in ids:
            asked = self._asked.pop(id)
            asked.exchange.discard(id)
            yield Answer(id, error=self._failure(kind, why, asked))

    def _failure(self, kind: type[RpcClientError], why: str, asked: _Asked) -> RpcClientError:
        return kind(call_name(asked.method, self._address) + why)


def answer_of(message: bytes, method: str, address: str) -> Answer:
    """The answer to the call 1, which came over no connection."""
    item = orjson.loads(message)
    if "error" not in item:
        return Answer(1, item["result"])
    code, text, data = (item["error"].get(name) for name in ("code", "message", "data"))
    return Answer(1, error=remote_error(code, text, data, method, address))


def _id_of(item: Any) -> int:
    """The id if it is one of ours: whole numbers from 1; 0 for any other."""
    id = item.get("id") if isinstance(item, dict) else None
    return id if type(id) is int else 0

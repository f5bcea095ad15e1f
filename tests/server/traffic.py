"""Clients that do anything at any moment, and the promises that hold whatever they do.

Each request has an id of its own over the whole run. An id is answered once at most, and only on
its connection; one that is never answered was a notification, or its connection has ended.
"""

from __future__ import annotations

import json
import random
from collections import Counter, deque
from typing import Any

from .reader_client import Client, frame, post, rounds
from .reader_world import World

FRAMINGS = ("lines", "lsp", "http")
TIMEOUTS_MS = (0, 1, 30, 1000, 1e12)
MANY = 60  # calls that a client may have unanswered before it stops to send


class Actor:
    """One client: what it has still to send, what it asked, and what it was told."""

    def __init__(self, client: Client, framing: str, dice: random.Random, ids: Any) -> None:
        self.client, self.framing, self.dice, self.ids = client, framing, dice, ids
        self.outbox = b""
        self.asked: set[int] = set()
        self.exchanges: deque[list[int]] = deque()  # over HTTP: the ids of each request, in order
        self.left = False  # it closed
        self.done = False  # it will send no more

    # -- what it does ------------------------------------------------------------------------------

    def ask(self) -> None:
        """Put one message, single or batch, into the outbox."""
        if self.done or len(self.asked) > MANY + len(self.told()):
            return
        items = [self._item() for _ in range(self.dice.choice((1, 1, 1, 1, 2, 5)))]
        message: Any = items if len(items) > 1 or self.dice.random() < 0.1 else items[0]
        ids = [item["id"] for item in items if "id" in item]
        self.asked.update(ids)
        self.exchanges.append(ids)
        text = json.dumps(message).encode()
        if self.dice.random() < 0.1:
            text += b" " * self.dice.randrange(2000)  # long enough to be left undecoded
        self.outbox += self._framed(text)

    def spoil(self) -> None:
        """Put something into the outbox after which the connection has to end."""
        if not self.done and self.dice.random() < 0.2:
            self.outbox += self._framed(b" " * 60_000)
            self.done = True

    def send(self) -> None:
        """Some of the outbox."""
        count = self.dice.choice((1, 7, 100, len(self.outbox)))
        if self.outbox and not self.client.ended:
            sent = self.client.try_send(self.outbox[:count])
            self.outbox = self.outbox[sent:]

    def send_all(self, world: World) -> None:
        """The rest of it, however long the server takes to read."""
        for _ in rounds("it does not read"):
            if not self.outbox or self.client.ended:
                break
            self.send()
            self.client.read()
            world.run()

    def half_close(self) -> None:
        if not self.done and not self.outbox and not self.client.ended:
            self.done = True
            self.client.half_close()

    def close(self) -> None:
        self.client.read()
        self.left = self.done = True
        self.outbox = b""
        self.client.close()

    def look(self) -> None:
        if not self.left:
            self.client.read()

    # -- what is checked ---------------------------------------------------------------------------

    def told(self) -> Counter[int]:
        """How often each id was answered."""
        if not self.left:
            self.client.read()
        return Counter(self._ids())

    def check(self, at_the_end: bool = False) -> None:
        told = self.told()
        assert set(told) <= self.asked, "an answer to what was not asked here"
        assert not [id_ for id_, times in told.items() if times > 1], "answered twice"
        if at_the_end and not self.left and not self.client.ended:
            assert set(told) == self.asked, "an answer is missing"

    def _ids(self) -> list[int]:
        if self.framing == "http":
            return self._ids_in_order()
        bodies = self._lines() if self.framing == "lines" else self._frames()
        return [id_ for body in bodies for id_ in _ids_of(body) if id_ is not None]

    def _ids_in_order(self) -> list[int]:
        found = []
        for body, asked in zip(self.client.bodies(), self.exchanges, strict=False):
            answered = _ids_of(body) if body.startswith((b"{", b"[")) else []
            assert sorted(answered) == sorted(asked), "an answer out of its order"
            found += answered
        return found

    def _lines(self) -> list[bytes]:
        return self.client.received.split(b"\n")[:-1]

    def _frames(self) -> list[bytes]:
        bodies, rest = [], self.client.received
        while b"\r\n\r\n" in rest:
            head, _, rest = rest.partition(b"\r\n\r\n")
            length = int(head.partition(b": ")[2])
            if len(rest) >= length:
                bodies.append(rest[:length])
            rest = rest[length:]
        return bodies

    def _framed(self, text: bytes) -> bytes:
        if self.framing == "lines":
            return text + b"\n"
        if self.framing == "lsp":
            return frame(text)
        user = {"X_Faircall_User": self.dice.choice("abcd")}
        return post(text, **(user if self.dice.random() < 0.5 else {}))

    def _item(self) -> dict[str, Any]:
        dice = self.dice
        method, params = dice.choice(
            (
                ("echo", ["x"]),
                ("echo", ["y" * dice.choice((10, 500, 3000, 9000))]),
                ("big", [dice.choice((10, 5000, 40_000))]),
                ("fail", []),
                ("spend", [dice.choice((0, 1, 40))]),
                ("brief", []),
                ("unknown", []),
                ("end", []),
                ("faircall.hello", [dice.choice("abc")]),
                ("rpc.ping", []),
                ("rpc.cancel", [dice.choice([0, *self.asked])]),
                ("rpc.cancel", []),
            )
        )
        item: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
        if dice.random() < 0.05:
            item["jsonrpc"] = "1.0"
            item["id"] = next(self.ids)
        elif dice.random() < 0.8:
            item["id"] = next(self.ids)
        if dice.random() < 0.2:
            item["meta"] = {"timeout_ms": dice.choice(TIMEOUTS_MS), "caller_context": "c"}
        return item


def _ids_of(body: bytes) -> list[int]:
    """The ids that a message answers."""
    answer = json.loads(body)
    return [each["id"] for each in (answer if isinstance(answer, list) else [answer])]

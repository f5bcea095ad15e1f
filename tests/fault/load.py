"""Clients that call a ledger service in every way there is, and write down what they saw.

Each is a process of its own and makes one connection after the other, over TCP and Unix sockets, in
every framing; calls are pipelined, in batches, notifications, some with deadlines that are too
short, some that raise. Now and then a client leaves with calls in flight.
"""

from __future__ import annotations

import itertools
import mmap
import os
import random
import traceback
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..raw import FRAMINGS, Raw
from .history import OUTCOMES, RESULT, Connection

HANGS_S = 30.0  # without an answer, and without the end of the connection
ROUNDS, GROUP = 20, 24  # at most: rounds of a connection, calls of a round


class Load:
    """`clients` processes that call until `stop`; `files` is what they have written then."""

    def __init__(self, addresses: Sequence[str], clients: int, seed: int, folder: Path) -> None:
        self._stopped = mmap.mmap(-1, 1)
        self.files = [folder / f"client-{number}" for number in range(clients)]
        self._pids = [
            self._fork(Client(addresses, number, seed * 1000 + number, path))
            for number, path in enumerate(self.files)
        ]

    def stop(self) -> None:
        """Until every client has ended; AssertionError if one has failed."""
        self._stopped[0] = 1
        pids, self._pids = self._pids, []
        assert [os.waitpid(pid, 0)[1] for pid in pids] == [0] * len(pids)

    def _fork(self, client: Client) -> int:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # threads of the test runner
            pid = os.fork()
        if pid:
            return pid
        status = 1
        try:
            with client.path.open("w") as file:
                while not self._stopped[0]:
                    file.write(client.connection().line())
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)


class Client:
    """`connection` makes one and says what became of it."""

    def __init__(self, addresses: Sequence[str], number: int, seed: int, path: Path) -> None:
        self.path = path
        self._addresses, self._random = addresses, random.Random(seed)
        self._keys = (f"{number}-{count}" for count in itertools.count())
        self._paddings: dict[str, str] = {}

    def connection(self) -> Connection:
        seen = Connection()
        address, framing = self._random.choice(self._addresses), self._random.choice(FRAMINGS)
        try:
            raw = Raw(address, framing, HANGS_S)
        except OSError:  # nobody has room for it at the moment
            seen.closed = True
            return seen
        with raw:
            try:
                self._talk(raw, seen)
            except TimeoutError:
                seen.hung = True
            except (OSError, EOFError):
                seen.closed = True
        return seen

    def _talk(self, raw: Raw, seen: Connection) -> None:
        self._paddings.clear()
        for _ in range(self._random.randrange(1, ROUNDS)):
            raw.send(*self._messages(seen))
            if self._random.random() < 0.01:
                seen.left = True
                return
            while len(seen.answers) < len(seen.asked):
                self._note(raw.receive(), seen)
        raw.end_input()
        for message in raw.rest():  # nothing more may come
            self._note(message, seen)

    def _messages(self, seen: Connection) -> list[Any]:
        """Some calls, one by one or as one batch; of a batch at least one wants an answer."""
        calls = [self._call(seen) for _ in range(self._random.randrange(1, GROUP))]
        if self._random.random() < 0.2:
            return [[*calls, self._call(seen, noted=False)]]
        return calls

    def _call(self, seen: Connection, noted: bool | None = None) -> dict[str, Any]:
        chance, key = self._random.random, next(self._keys)
        idempotent, padding = chance() < 0.3, "y" * self._random.randrange(300)
        if chance() < 0.02:
            padding = "z" * self._random.randrange(100_000)
        params = {
            "key": key,
            "ms": self._random.choice((0, 0, 0, 0, 0, 1, 3)),
            "fails": chance() < 0.02,
            "padding": padding,
        }
        method = "again" if idempotent else "once"
        if chance() < 0.3:
            method = f"{method}_together"
        call = {"jsonrpc": "2.0", "method": method, "params": params}
        if chance() < 0.1:
            call["meta"] = {"timeout_ms": 10}
        if noted if noted is not None else chance() < 0.05:
            seen.noted[key] = idempotent
            return call
        seen.asked[key], self._paddings[key] = idempotent, padding
        return call | {"id": key}

    def _note(self, message: Any, seen: Connection) -> None:
        """Nothing, if it answers nothing: over HTTP notifications are acknowledged."""
        for answer in _answers(message):
            id = answer.get("id")
            right = answer.get("result") == f"{id}{self._paddings.pop(str(id), None)}"
            seen.answers.append((id, outcome_of(answer), right))


def _answers(message: Any) -> Iterator[dict[str, Any]]:
    if isinstance(message, list):
        yield from message
    elif message is not None:
        yield message


def outcome_of(answer: dict[str, Any]) -> str:
    """The word for it in a history."""
    if "error" not in answer:
        return RESULT
    code = answer["error"]["code"]
    return OUTCOMES.get(code, str(code))

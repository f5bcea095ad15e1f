"""The load of the demonstration: a heavy and a light user, in one process, by epoll.

    heavy   256 connections, each with a call in flight at every moment (closed loop)
    light   50 calls a second on 2 connections, whatever becomes of them (open loop)

A light call's latency counts from the moment at which it was due, not from that at which it was
sent: a server that is slow, or a generator that is late, cannot hide a wait by delaying the next
call (coordinated omission). What comes at the same time is taken light first: a light user of his
own would not wait behind 256 answers of somebody else either.
"""

from __future__ import annotations

import json
import select
import socket
import time
from dataclasses import dataclass, field
from typing import Any

HEAVY_CONNECTIONS = 256
LIGHT_CONNECTIONS = 2
LIGHT_EVERY_NS = 20_000_000  # 50 a second
CALL_MS = 1  # of processor time
CONNECT_TIMEOUT_S = 10.0
LAST_ANSWERS_NS = 10_000_000_000  # how long the last light calls may take
TURN_NS = 2 * LIGHT_EVERY_NS  # a turn of the loop that took longer was stopped, and no server slow
CHUNK_BYTES = 64 << 10
SECOND_NS = 1_000_000_000


class LoadFailed(Exception):
    """The server refused a call, closed a connection or fell silent; the message says which."""


@dataclass(slots=True)
class Measured:
    """Latencies of the light user's calls in ns, and how many calls of the heavy one ended."""

    seconds: float
    light_ns: list[int] = field(default_factory=list)
    heavy_calls: int = 0


class Client:
    """One connection of `user`; what is not a whole line yet waits in `part`."""

    def __init__(self, host: str, port: int, user: str) -> None:
        self.user = user
        self.sock = socket.create_connection((host, port), CONNECT_TIMEOUT_S)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._part = b""
        self.send("faircall.hello", {"user": user}, 0)
        while not (answers := self.receive()):
            pass
        _check(answers[0], user)
        self.sock.setblocking(False)

    def send(self, method: str, params: object, id: int) -> None:
        request = {"jsonrpc": "2.0", "method": method, "params": params, "id": id}
        self.sock.sendall(json.dumps(request).encode() + b"\n")

    def receive(self) -> list[bytes]:
        """The answers that have come."""
        data = self.sock.recv(CHUNK_BYTES)
        if not data:
            raise LoadFailed(f"the server closed a connection of the {self.user} user")
        *lines, self._part = (self._part + data).split(b"\n")
        return lines


class Load:
    """`run` measures for a while; `warm_up_s` seconds before that are not counted."""

    def __init__(self, host: str, port: int) -> None:
        self._light = [Client(host, port, "light") for _ in range(LIGHT_CONNECTIONS)]
        heavy = [Client(host, port, "heavy") for _ in range(HEAVY_CONNECTIONS)]
        self._heavy = {client.sock.fileno(): client for client in heavy}
        self._light_by_fd = {client.sock.fileno(): client for client in self._light}
        self._epoll = select.epoll()
        for fd in (*self._heavy, *self._light_by_fd):
            self._epoll.register(fd, select.EPOLLIN)
        self._due: dict[int, int] = {}  # id of each light call in flight to when it was due
        self._sent = 0

    def run(self, seconds: float, warm_up_s: float) -> Measured:
        """LoadFailed, also when light calls are not answered long after the end."""
        start_ns = time.monotonic_ns() + int(warm_up_s * SECOND_NS)
        end_ns = start_ns + int(seconds * SECOND_NS)
        measured = Measured(seconds)
        for client in self._heavy.values():
            self._call_again(client)
        due_ns = before_ns = time.monotonic_ns()
        patience_ns = LAST_ANSWERS_NS
        while (now_ns := time.monotonic_ns()) < end_ns or due_ns < end_ns or self._due:
            if before_ns >= end_ns:
                patience_ns -= min(now_ns - before_ns, TURN_NS)
            before_ns = now_ns
            if patience_ns < 0:
                raise LoadFailed(f"{len(self._due)} calls of the light user were not answered")
            if now_ns >= due_ns and due_ns < end_ns:
                self._call_light(due_ns)
                due_ns += LIGHT_EVERY_NS
                continue
            wait_ns = due_ns - now_ns if due_ns < end_ns else LIGHT_EVERY_NS
            self._take(self._wait(wait_ns), measured, start_ns, end_ns)
        return measured

    def close(self) -> None:
        self._epoll.close()
        for client in (*self._light, *self._heavy.values()):
            client.sock.close()

    def _wait(self, most_ns: int) -> list[int]:
        """Readable descriptors. select waits to the microsecond, where epoll rounds up to 1 ms."""
        if not select.select([self._epoll], [], [], max(0, most_ns) / 1e9)[0]:
            return []
        return [fd for fd, _ in self._epoll.poll(0)]

    def _take(self, ready: list[int], measured: Measured, start_ns: int, end_ns: int) -> None:
        for fd in ready:
            if fd in self._light_by_fd:
                self._take_light(self._light_by_fd[fd], measured, start_ns)
        now_ns = time.monotonic_ns()
        for fd in ready:
            if fd in self._heavy:
                for answer in self._heavy[fd].receive():
                    _check(answer, "heavy")
                    measured.heavy_calls += start_ns <= now_ns < end_ns
                    self._call_again(self._heavy[fd])

    def _take_light(self, client: Client, measured: Measured, start_ns: int) -> None:
        answers, now_ns = client.receive(), time.monotonic_ns()
        for answer in answers:
            due_ns = self._due.pop(_check(answer, "light")["id"])
            if due_ns >= start_ns:
                measured.light_ns.append(now_ns - due_ns)

    def _call_light(self, due_ns: int) -> None:
        self._sent += 1
        self._due[self._sent] = due_ns
        self._light[self._sent % LIGHT_CONNECTIONS].send("spin", [CALL_MS], self._sent)

    def _call_again(self, client: Client) -> None:
        client.send("spin", [CALL_MS], 1)


def _check(answer: bytes, user: str) -> dict[str, Any]:
    """The answer, which has a result."""
    parsed: dict[str, Any] = json.loads(answer)
    if "error" in parsed:
        raise LoadFailed(f"a call of the {user} user failed: {parsed['error'].get('message')}")
    return parsed

"""The load of an incident: a light user, some others, and from some moment on the one who does it.

    light      50 calls a second, on 2 connections, whatever becomes of them (open loop)
    others     three users, 10 calls a second each, of three methods; one has a job
    culprit    so many connections with calls in flight at every moment (closed loop), and 5 calls
               a second by another job of the same user, so that a job has to be told from a job

A light call's latency counts from the moment at which it was due.
"""

from __future__ import annotations

import json
import select
import time
from collections.abc import Callable
from dataclasses import dataclass

from .incidents import Cast, Incident
from .load import Client

SECOND_NS = 1_000_000_000
LIGHT_PER_S, OTHERS_PER_S, DECOYS_PER_S = 50, 10, 5
LIGHT = "light"
OTHERS = (("olga", "", "status", ("/a",)), ("otto", "reports-7", "report", ("/b",)))
MORE = (("oona", "", "heartbeat", (3,)),)
DECOY_JOB = "interactive"


@dataclass(frozen=True, slots=True)
class LightCall:
    """When it was due, and how long it took from then, in ns; whether it got an error at last."""

    due_ns: int
    took_ns: int
    failed: bool = False


class _Paced:
    """A user whose calls are due every so often, on connections of its own."""

    def __init__(
        self,
        clients: list[Client],
        per_s: int,
        body: Callable[[int], bytes],
        now_ns: int,
    ) -> None:
        self.clients, self._body = clients, body
        self._every_ns = SECOND_NS // per_s
        self.due_ns = now_ns
        self.sent: dict[int, int] = {}  # id: when it was due
        self._id = 0

    def call(self) -> None:
        self._id += 1
        self.sent[self._id] = self.due_ns
        self.clients[self._id % len(self.clients)].sock.sendall(self._body(self._id))
        self.due_ns += self._every_ns


class IncidentLoad:
    """`run_until` goes on with everybody; `begin` and `end` are the incident's."""

    def __init__(self, address: tuple[str, int], incident: Incident) -> None:
        self._address, self._incident = address, incident
        self._epoll = select.epoll()
        self._by_fd: dict[int, tuple[Client, _Paced | None]] = {}
        self._flood: dict[int, tuple[Client, bytes]] = {}
        self._decoy: _Paced | None = None
        self.light_calls: list[LightCall] = []
        self.flood_answers = 0
        light = incident.light_method, incident.light_params
        self._light = self._paced(LIGHT, 2, LIGHT_PER_S, "", *light)
        self._others = [
            self._paced(user, 1, OTHERS_PER_S, job, method, params)
            for user, job, method, params in (*OTHERS, *MORE)
        ]

    def begin(self, cast: Cast) -> None:
        """From now on the culprit calls."""
        self._decoy = self._paced(cast.user, 1, DECOYS_PER_S, DECOY_JOB, "status", ("/c",))
        body = request_of(self._incident.method, self._incident.params, cast.job)(1)
        clients = [self._client(cast.user) for _ in range(cast.connections)]
        for client in clients:
            self._flood[client.sock.fileno()] = client, body
            self._register(client, None)

    def flood(self) -> int:
        """Send its first calls; the time at which that began, in ns since the epoch."""
        began_ns = time.time_ns()
        for client, body in self._flood.values():
            client.sock.sendall(body * self._incident.in_flight)
        return began_ns

    def end(self) -> None:
        """The culprit is gone."""
        for client, _ in self._flood.values():
            self._forget(client)
        self._flood.clear()
        if self._decoy:
            for client in self._decoy.clients:
                self._forget(client)
            self._decoy = None

    def run_until(self, is_over: Callable[[], bool]) -> None:
        """LoadFailed if the server closes a connection of the light user."""
        while not is_over():
            now_ns = time.monotonic_ns()
            paced = [self._light, *self._others, *([self._decoy] if self._decoy else [])]
            due = [each for each in paced if each.due_ns <= now_ns]
            for each in due:
                each.call()
            if not due:
                wait_ns = min(each.due_ns for each in paced) - now_ns
                self._take(wait_ns)

    def run(self, seconds: float) -> None:
        end_ns = time.monotonic_ns() + int(seconds * SECOND_NS)
        self.run_until(lambda: time.monotonic_ns() >= end_ns)

    @property
    def oldest_light_ns(self) -> int | None:
        """When the oldest light call without an answer was due."""
        return min(self._light.sent.values(), default=None)

    def close(self) -> None:
        self._epoll.close()
        for client, _ in self._by_fd.values():
            client.sock.close()

    # -- connections ------------------------------------------------------------------------------

    def _client(self, user: str) -> Client:
        return Client(*self._address, user)

    def _paced(
        self, user: str, connections: int, per_s: int, job: str, method: str, params: object
    ) -> _Paced:
        clients = [self._client(user) for _ in range(connections)]
        made = _Paced(clients, per_s, request_of(method, params, job), time.monotonic_ns())
        for client in clients:
            self._register(client, made)
        return made

    def _register(self, client: Client, paced: _Paced | None) -> None:
        client.sock.setblocking(True)  # small requests: a server that takes none of them is stuck
        self._by_fd[client.sock.fileno()] = client, paced
        self._epoll.register(client.sock.fileno(), select.EPOLLIN)

    def _forget(self, client: Client) -> None:
        fd = client.sock.fileno()
        self._epoll.unregister(fd)
        del self._by_fd[fd]
        client.sock.close()

    # -- answers ----------------------------------------------------------------------------------

    def _take(self, most_ns: int) -> None:
        """What has come: the light user's first."""
        if not select.select([self._epoll], [], [], min(0.01, max(0, most_ns) / 1e9))[0]:
            return
        ready = [fd for fd, _ in self._epoll.poll(0)]
        for fd in sorted(ready, key=lambda fd: fd in self._flood):
            if fd in self._flood:
                self._answer_flood(fd)
            else:
                self._answer_paced(*self._by_fd[fd])

    def _answer_flood(self, fd: int) -> None:
        """Whatever the answer was, it calls again."""
        client, body = self._flood[fd]
        answers = len(client.receive())
        self.flood_answers += answers
        if answers:
            client.sock.sendall(body * answers)

    def _answer_paced(self, client: Client, paced: _Paced | None) -> None:
        answers, now_ns = client.receive(), time.monotonic_ns()
        for answer in answers:
            parsed = json.loads(answer)
            due_ns = paced.sent.pop(parsed["id"]) if paced else 0
            if paced is self._light:
                self.light_calls.append(LightCall(due_ns, now_ns - due_ns, "error" in parsed))


def request_of(method: str, params: object, job: str) -> Callable[[int], bytes]:
    request: dict[str, object] = {"jsonrpc": "2.0", "method": method, "params": params, "id": 0}
    if job:
        request["meta"] = {"caller_context": job}
    before, _, after = json.dumps(request).partition('"id": 0')
    return lambda number: f'{before}"id": {number}{after}\n'.encode()

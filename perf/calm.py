"""Whether mixed normal load raises an alarm: `python -m faircall.perf.calm SECONDS FACTOR SEED`.

Six users call as they do on an ordinary day, at random moments (Poisson), one of them in bursts of
20 and, every ten seconds, of 100; FACTOR times as often. It prints how busy the handlers were, what
the calls waited, and each alarm. The exit status is the number of alarms.

Source: what is served and called is `server/demo/incident_service.py`.
"""

from __future__ import annotations

import heapq
import random
import select
import sys
import time
from dataclasses import dataclass

from ..server.demo.demo import FAIR
from ..server.demo.incident import SERVICE
from ..server.demo.incident_load import request_of
from ..server.demo.load import Client
from ..server.demo.server import events_of, running_server

HANDLERS = 2
STOPPED_S = 0.2  # who is that late was stopped, and was not slow: what was due then is left out
SECONDS, FACTOR = 60.0, 1.0


@dataclass(frozen=True, slots=True)
class User:
    """`calls` are made at each of `per_s` moments a second."""

    name: str
    job: str
    method: str
    params: tuple[object, ...]
    per_s: float
    calls: int = 1


USERS = (
    User("web", "", "status", ("/a",), 150),
    User("mobile", "", "status", ("/b",), 80),
    User("nodes", "", "heartbeat", (1,), 60),
    User("batch", "nightly-12", "report", ("/c",), 2, 20),
    User("batch", "weekly-3", "report", ("/d",), 0.1, 100),
    User("analytics", "dashboard-5", "listing", ("/logs", 1000), 15),
    User("flaky", "", "rename", ("/gone",), 20),
)


class Mixture:
    """All users, one connection each, in one process."""

    def __init__(self, address: tuple[str, int], factor: float, seed: int) -> None:
        self._draw, self._factor = random.Random(seed), factor
        self._clients = [Client(*address, user.name) for user in USERS]
        self._epoll = select.epoll()
        for client in self._clients:
            client.sock.setblocking(True)
            self._epoll.register(client.sock.fileno(), select.EPOLLIN)
        self._by_fd = {client.sock.fileno(): client for client in self._clients}
        self.sent = self.answered = 0

    def run(self, seconds: float) -> None:
        now = time.monotonic()
        end, due = now + seconds, [(now + self._pause(n), n) for n in range(len(USERS))]
        heapq.heapify(due)
        while (now := time.monotonic()) < end:
            if due[0][0] < now - STOPPED_S:
                due = [(at if at > now else now + self._pause(n), n) for at, n in due]
                heapq.heapify(due)
            elif due[0][0] <= now:
                at, number = heapq.heappop(due)
                self._call(number)
                heapq.heappush(due, (at + self._pause(number), number))
            else:
                for fd, _ in self._epoll.poll(min(0.01, due[0][0] - now)):
                    self.answered += len(self._by_fd[fd].receive())

    def close(self) -> None:
        self._epoll.close()
        for client in self._clients:
            client.sock.close()

    def _pause(self, number: int) -> float:
        return self._draw.expovariate(USERS[number].per_s * self._factor)

    def _call(self, number: int) -> None:
        user = USERS[number]
        body = request_of(user.method, user.params, user.job)
        self._clients[number].sock.sendall(b"".join(map(body, range(user.calls))))
        self.sent += user.calls


def run(seconds: float, factor: float, seed: int) -> int:
    """How many alarms there were."""
    with running_server(HANDLERS, FAIR, SERVICE) as server:
        load = Mixture(server.address, factor, seed)
        load.run(seconds)
        stats = server.stats()
        raised = [e for e in events_of(server.log.read_text()) if e.get("event") == "alarm raised"]
        load.close()
    busy = sum(handler["busy_share"] for handler in stats["handlers"]) / HANDLERS
    waits = {level["level"]: level["wait_p99_ms"] for level in stats["queue"]["levels"]}
    print(f"{seconds:.0f} s: {load.sent / seconds:.0f} calls/s, {load.answered} answered")
    print(f"handlers {busy:.0%} busy in methods, wait p99 by level {waits} ms")
    for alarm in raised:
        print({name: alarm[name] for name in ("time", "rule", "user", "share", "method")})
    print(f"alarms: {len(raised)}")
    return len(raised)


if __name__ == "__main__":
    given = list(map(float, sys.argv[1:]))
    seconds, factor, seed = given + [SECONDS, FACTOR, 1.0][len(given) :]
    sys.exit(min(100, run(seconds, factor, int(seed))))

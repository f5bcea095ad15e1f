"""What the generator in Python loads with: connections, and what became of their calls."""

from __future__ import annotations

import contextlib
import math
import random
import socket
from collections import deque
from dataclasses import dataclass
from typing import Any, Protocol

from .histogram import Histogram
from .native import LoadFailed
from .plan import FIRST_ID, Group, Plan, prologue_bytes, request_bytes, resolved
from .result import OUTCOMES

SECOND_NS = 1_000_000_000
CHUNK_BYTES = 256 << 10


@dataclass(slots=True)
class Call:
    request: int
    due: int
    sent: int


class Counts:
    """What became of the calls of one request."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.total, self.measured = dict.fromkeys(OUTCOMES, 0), dict.fromkeys(OUTCOMES, 0)
        self.latency, self.service = Histogram(), Histogram()

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "total": self.total,
            "measured": self.measured,
            "latency": self.latency.as_json(),
            "service": self.service.as_json(),
        }


class Page:
    """The one that is being loaded; `next` is the place of the first part that was not sent."""

    def __init__(self, group: Group) -> None:
        self.parts = [n for n, part in enumerate(group.requests) for _ in range(int(part.weight))]
        self.next = self.missing = self.at = self.ok = self.failed = 0
        self.broken, self.latency = False, Histogram()

    def begin(self, now: int) -> None:
        self.next, self.missing, self.at, self.broken = 0, len(self.parts), now, False

    def came(self, outcome: str, now: int, counts: bool) -> None:
        """A part was answered, or is given up; after the last one the next page begins."""
        self.broken |= outcome != "ok"
        self.missing -= 1
        if self.missing:
            return
        if counts:
            self.failed += self.broken
            self.ok += not self.broken
        if counts and not self.broken:
            self.latency.note(now - self.at)
        self.begin(now)

    def as_json(self) -> dict[str, Any]:
        return {"ok": self.ok, "failed": self.failed, "latency": self.latency.as_json()}


class Flow:
    """A group (of one user) that runs."""

    def __init__(self, plan: Plan, group: Group, number: int) -> None:
        self.group, self.random = group, random.Random(plan.seed * 1000 + number)
        self.wires = [request_bytes(plan.address, group, request) for request in group.requests]
        self.weights = [request.weight for request in group.requests]
        self.counts = [Counts(request.label) for request in group.requests]
        seconds = math.ceil(plan.warm_up_s + plan.seconds)
        self.failed, self.latencies = [0] * seconds, [Histogram() for _ in range(seconds)]
        self.backlog: deque[int] = deque()
        self.sent = self.refused = self.lost = self.stray = 0
        self.answered = self.bytes_in = self.bytes_out = 0
        self.due = math.inf
        self.page = Page(group)
        self.connections: list[Connection] = []

    @property
    def may_send(self) -> bool:
        if self.group.page and self.page.next == len(self.page.parts):
            return False
        return not self.group.calls or self.sent + len(self.backlog) < self.group.calls

    def next_due(self) -> None:
        self.due += int(self.random.expovariate(self.group.rate) * SECOND_NS) + 1

    def chosen(self) -> int:
        """Which request is the next."""
        if self.group.page:
            self.page.next += 1
            return self.page.parts[self.page.next - 1]
        if len(self.wires) == 1:
            return 0
        return self.random.choices(range(len(self.wires)), self.weights)[0]

    def as_json(self) -> dict[str, Any]:
        seconds = zip(self.failed, self.latencies, strict=True)
        counted = ("sent", "refused", "lost", "stray", "answered", "bytes_in", "bytes_out")
        return {
            "name": self.group.name,
            "unsent": len(self.backlog),
            **{name: getattr(self, name) for name in counted},
            "pages": self.page.as_json(),
            "methods": [counts.as_json() for counts in self.counts],
            "seconds": [
                {"failed": failed, "latency": latency.as_json()} for failed, latency in seconds
            ],
        }


class Connection:
    """One that is not dialled again when it is lost."""

    def __init__(self, plan: Plan, flow: Flow) -> None:
        self.flow, self.http = flow, bool(plan.address.target)
        self.calls: dict[int, Call] = {}  # by id, in the order in which they were sent
        self.unsent, self.part, self.open = bytearray(), bytearray(), True
        family, where = resolved(plan.address)
        self.sock = socket.socket(family, socket.SOCK_STREAM)
        self.sock.settimeout(plan.patience_s)
        try:
            self.sock.connect(where)
        except OSError:
            self.sock.close()
            raise
        if family is not socket.AF_UNIX:
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if hello := prologue_bytes(plan.address, flow.group):
            self.sock.sendall(hello)
            answer = self.sock.makefile("rb").readline()
            if b'"error"' in answer:
                raise LoadFailed(f"the server refused the first line: {answer.decode().strip()}")
        self.sock.setblocking(False)

    @property
    def free(self) -> bool:
        return self.open and len(self.calls) < self.flow.group.depth

    def issue(self, due: int, now: int) -> int:
        """Send a call; the bytes that went out."""
        flow, which = self.flow, self.flow.chosen()
        wire, place = flow.wires[which]
        flow.sent += 1
        self.calls[FIRST_ID + flow.sent] = Call(which, due, now)
        self.unsent += wire[:place] + b"%d" % (FIRST_ID + flow.sent) + wire[place + 10 :]
        return self.flush()

    def flush(self) -> int:
        """Send what the socket takes; how many bytes."""
        before = len(self.unsent)
        with contextlib.suppress(OSError):  # an error is seen where it is read
            while self.unsent:
                del self.unsent[: self.sock.send(self.unsent)]
        return before - len(self.unsent)

    def answers(self, data: bytes) -> list[tuple[int, bytes]]:
        """(HTTP status, answer) of those that `data` makes whole."""
        looked = len(self.part)
        self.part += data
        if self.http:
            return self._http_answers()
        end = self.part.rfind(b"\n", looked)
        whole = bytes(self.part[: max(0, end)])
        del self.part[: end + 1]
        return [(200, line) for line in whole.split(b"\n")] if end >= 0 else []

    def _http_answers(self) -> list[tuple[int, bytes]]:
        found = []
        while (end := self.part.find(b"\r\n\r\n")) >= 0:
            head = bytes(self.part[:end]).lower()
            length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
            end += 4 + length
            if len(self.part) < end:
                break
            found.append((int(head[9:12]), bytes(self.part[end - length : end])))
            del self.part[:end]
        return found


class Loader(Protocol):
    """What has loaded a server from this process."""

    plan: Plan
    first_error: str
    lag: Histogram
    flows: list[Flow]


def found_by(generator: str, loader: Loader, share: float) -> dict[str, Any]:
    """What a generator that used `share` of a core says at its end, as the one in C does."""
    return {
        "generator": generator,
        "length_ns": int(loader.plan.seconds * SECOND_NS),
        "cores": share,
        "busiest_core": share,
        "priority": "ordinary",
        "first_error": loader.first_error,
        "lag": loader.lag.as_json(),
        "groups": [flow.as_json() for flow in loader.flows],
    }

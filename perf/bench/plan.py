"""What the generator is to send: a plan, and how it is written for the generator in C.

A plan is text, a word and its values a line; after `prologue` and `request` follow as many bytes as
the line says, and a newline. Times are in ms. The words before the first `group` hold for all. A
group of several users is as many groups of one name:

    connect tcp|tcp6|unix HOST|PATH PORT
    framing lines|http
    threads, seed, warm-up-ms, length-ms, drain-ms, timeout-ms (0: none), patience-ms,
    shed-code (several)
    group NAME            then, for this group:
    connections, depth, rate (calls a second; 0: closed loop), calls (0: no end), starts-ms,
    page (1: the requests are the parts of a page)
    prologue LENGTH       sent first on each connection; one line is awaited
    request NAME WEIGHT PLACE LENGTH    the ten digits of the id are at byte PLACE
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...client.address import Address

FIRST_ID = 1_000_000_000  # ids have ten digits
SHED_CODES = (-32005, -32052, -32057)  # it did not run, and may be tried again
USER_HEADER = "X-Faircall-User"
MAX_DEPTH = 4096


@dataclass(frozen=True, slots=True)
class Request:
    """A method that a group calls, `weight` times as often as one of weight 1; params as JSON."""

    method: str
    params: str = "[]"
    weight: float = 1.0
    name: str = ""

    @property
    def label(self) -> str:
        """What it is called in results: no spaces, at most 63 characters."""
        return "".join((self.name or self.method).split())[:63]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The calls of one user (or of the connection's own, if `user` is empty).

    `rate` calls a second over `connections`, of which each may have `depth` in flight; or closed
    loops of `connections` times `depth` calls if it is 0. The group ends after `calls` if not 0.

    A `page` is made of the requests, each as often as its weight says. They go out on whatever
    connection is free, and the next page begins when all have been answered.

    All of it is what each of `users` does, whose names are `user`-1, `user`-2, ...
    """

    name: str
    requests: Sequence[Request]
    user: str = ""
    connections: int = 1
    depth: int = 1
    rate: float = 0.0
    calls: int = 0
    starts_s: float = 0.0
    page: bool = False
    users: int = 1

    def each(self) -> Sequence[Group]:
        """A group for each user."""
        if self.users == 1:
            return [self]
        named = [f"{self.user}-{number}" for number in range(1, self.users + 1)]
        return [replace(self, user=user if self.user else "", users=1) for user in named]


@dataclass(frozen=True, slots=True)
class Frames:
    """A protocol in which something stands before each line: `first` opens a connection (the
    answer to it ends with a newline), `head` makes what stands before a line of that length."""

    first: bytes
    head: Callable[[int], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A run: `warm_up_s` during which nothing counts, then `seconds`, then at most `drain_s`.

    Before it, all connections have to stand within `patience_s`. Only the generator in C knows
    `frames`.
    """

    address: Address
    groups: Sequence[Group]
    seconds: float
    warm_up_s: float = 0.0
    drain_s: float = 5.0
    timeout_s: float = 0.0
    patience_s: float = 10.0
    threads: int = 1
    seed: int = 1
    frames: Frames | None = None

    def framed(self, frames: Frames) -> Plan:
        """The same calls in another protocol."""
        return replace(self, frames=frames)


def request_bytes(address: Address, group: Group, request: Request) -> tuple[bytes, int]:
    """A request as it travels, with `FIRST_ID`, and where its id is."""
    method = json.dumps(request.method)
    body = f'{{"jsonrpc":"2.0","method":{method},"params":{request.params},"id":{FIRST_ID}}}'
    if not address.target:
        wire = body.encode() + b"\n"
        return wire, len(wire) - len(b"0000000000}\n")
    user = f"{USER_HEADER}: {group.user}\r\n" if group.user else ""
    head = (
        f"POST {address.target} HTTP/1.1\r\nHost: {address.authority}\r\n{user}"
        f"Content-Type: application/json\r\nContent-Length: {len(body.encode())}\r\n\r\n"
    )
    wire = (head + body).encode()
    return wire, len(wire) - len(b"0000000000}")


def prologue_bytes(address: Address, group: Group) -> bytes:
    """What a connection sends first: who calls, where requests cannot say so themselves."""
    if address.target or not group.user:
        return b""
    hello = {"jsonrpc": "2.0", "method": "faircall.hello", "params": {"user": group.user}, "id": 0}
    return json.dumps(hello, separators=(",", ":")).encode() + b"\n"


def resolved(address: Address) -> tuple[socket.AddressFamily, Any]:
    """Family and address as sockets take them; the name is looked up once. OSError."""
    if address.path:
        return socket.AF_UNIX, address.path
    found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    family, _, _, _, where = found[0]
    return family, where


def text_of(plan: Plan) -> bytes:
    """The plan as the generator in C reads it."""
    return b"".join(_parts(plan))


def _parts(plan: Plan) -> Iterator[bytes]:
    family, where = resolved(plan.address)
    if family is socket.AF_UNIX:
        yield f"connect unix {where} 0\n".encode()
    else:
        kind = "tcp6" if family is socket.AF_INET6 else "tcp"
        yield f"connect {kind} {where[0]} {where[1]}\n".encode()
    yield b"framing http\n" if plan.address.target else b"framing lines\n"
    yield f"threads {plan.threads}\nseed {plan.seed}\nwarm-up-ms {plan.warm_up_s * 1e3}\n".encode()
    yield f"length-ms {plan.seconds * 1e3}\ndrain-ms {plan.drain_s * 1e3}\n".encode()
    yield f"timeout-ms {plan.timeout_s * 1e3}\npatience-ms {plan.patience_s * 1e3}\n".encode()
    for code in SHED_CODES:
        yield f"shed-code {code}\n".encode()
    for group in plan.groups:
        for user in group.each():
            yield from _group(plan.address, user, plan.frames)


def _group(address: Address, group: Group, frames: Frames | None) -> Iterator[bytes]:
    yield f"group {''.join(group.name.split())}\nconnections {group.connections}\n".encode()
    yield f"depth {group.depth}\nrate {group.rate}\ncalls {group.calls}\n".encode()
    yield f"starts-ms {group.starts_s * 1e3}\npage {group.page:d}\n".encode()
    if prologue := frames.first if frames else prologue_bytes(address, group):
        yield f"prologue {len(prologue)}\n".encode() + prologue + b"\n"
    for request in group.requests:
        wire, place = request_bytes(address, group, request)
        if frames:
            head = frames.head(len(wire))
            wire, place = head + wire, len(head) + place
        yield f"request {request.label} {request.weight} {place} {len(wire)}\n".encode()
        yield wire + b"\n"

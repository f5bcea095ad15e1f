"""What stands in a scenario, as types: perf/bench/scenario.py explains them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from ...client.address import Address
from .plan import Group, Plan, Request

PERF_SERVICE = "faircall.perf.services:service"


class _Strict(msgspec.Struct, forbid_unknown_fields=True, rename="kebab", frozen=True):
    pass


class CallSpec(_Strict, frozen=True):
    """A method with params, or with one text of `payload_bytes` characters."""

    method: str
    params: Any = ()
    payload_bytes: int | None = None
    weight: float = 1.0
    name: str = ""

    def request(self) -> Request:
        params = self.params if self.payload_bytes is None else ["x" * self.payload_bytes]
        text = json.dumps(params, separators=(",", ":"))
        return Request(self.method, text, self.weight, self.name)


class GroupSpec(_Strict, frozen=True):
    """A group of a plan. `rate_of_capacity` times the measured capacity is its rate, and 0 leaves
    the group out. Of windows of `window_s` seconds the worst p99 is told."""

    calls: list[CallSpec]
    name: str = "main"
    user: str = ""
    connections: int = 1
    depth: int = 1
    rate: float = 0.0
    rate_of_capacity: float | None = None
    starts_s: float = 0.0
    page: bool = False
    users: int = 1
    window_s: int = 0

    def group(self, capacity: float) -> Group:
        return Group(
            name=self.name,
            user=self.user,
            requests=[call.request() for call in self.calls],
            connections=self.connections,
            depth=self.depth,
            rate=self.rate if self.rate_of_capacity is None else self.rate_of_capacity * capacity,
            starts_s=self.starts_s,
            page=self.page,
            users=self.users,
        )


class ServerSpec(_Strict, frozen=True):
    """The server that is started where no URL is given."""

    handlers: int = 2
    service: str = PERF_SERVICE
    settings: dict[str, str | int | float | bool] = {}

    def as_text(self) -> dict[str, str]:
        """Settings as the command line takes them."""
        plain = {True: "true", False: "false"}
        return {
            key: plain[value] if isinstance(value, bool) else str(value)
            for key, value in self.settings.items()
        }


class BareSpec(_Strict, frozen=True):
    """`turns` of `spin` again and again in each of `processes`, without a server: before the load
    and after it, each time for half of its seconds."""

    turns: int
    processes: int


class KneeSpec(_Strict, frozen=True):
    """The knee of a sweep over the variable `over`: the last of its values up to which `figure` is
    at most `times` that of the first, and a part of at least `achieved` of the calls that were
    offered is answered."""

    over: str
    figure: str = "p99 ms"
    times: float = 10.0
    achieved: float = 0.99


class GridSpec(_Strict, frozen=True):
    """The suite is shown as one matrix for each figure."""

    rows: str
    columns: str
    figures: list[str]


class CaseSpec(_Strict, frozen=True):
    """One case, all of whose variables have their values."""

    about: str = ""
    kind: Literal["load", "micro"] = "load"
    seconds: float = 5.0
    warm_up_s: float = 1.0
    timeout_s: float = 0.0
    framing: Literal["lines", "http"] = "lines"
    require: list[str] = []
    repeats: int = 1
    knee: KneeSpec | None = None
    grid: GridSpec | None = None
    server: ServerSpec = ServerSpec()
    groups: list[GroupSpec] = []
    capacity: GroupSpec | None = None
    bare: BareSpec | None = None

    def plan(self, address: Address, threads: int, seed: int, capacity: float = 0.0) -> Plan:
        groups = [g.group(capacity) for g in self.groups if g.rate_of_capacity != 0]
        return self._plan(address, threads, seed, groups)

    def capacity_plan(self, address: Address, threads: int) -> Plan:
        """The closed loop whose rate the capacity is."""
        assert self.capacity is not None
        return self._plan(address, threads, 1, [self.capacity.group(0.0)])

    def _plan(self, address: Address, threads: int, seed: int, groups: Sequence[Group]) -> Plan:
        return Plan(
            address=address,
            groups=groups,
            seconds=self.seconds,
            warm_up_s=self.warm_up_s,
            timeout_s=self.timeout_s,
            threads=threads,
            seed=seed,
        )

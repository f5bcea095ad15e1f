"""What the admin socket says about rates, and what it has the supervisor do."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Mapping
from typing import Any

import pytest

from faircall.server.admin.rates import RateMethods
from faircall.server.limits import Key, Limits
from faircall.server.port import Port
from faircall.shm.limiter_counters import L_OPENS
from faircall.shm.terms import CALLS, Kind, key_of
from faircall.workers.errors import RpcError

from ..conftest import Load
from .small_port import small_port

RATES = """
[throttle]
calls = 50
rates = ["methods of img: calls=3", "callers of img.blur: block", "each caller: calls=0"]
exempt = ["ping"]
"""


class _Nothing:
    """An answer that nobody waits for."""

    def __await__(self) -> Any:
        raise AssertionError("nobody waits here")


class Asked:
    """The methods of one port; `orders` are those for the supervisor."""

    def __init__(self, port: Port) -> None:
        self.port, self.orders = port, list[tuple[str, Mapping[str, Any]]]()
        self.methods = RateMethods([port], self._order)
        for name in ("img.blur", "img.cut", "ping"):
            port.shared.names.method(name, 0, 0)

    def _order(self, verb: str, params: Mapping[str, Any]) -> Awaitable[dict[str, Any]]:
        self.orders.append((verb, params))
        return _Nothing()

    def explain(self, method: str, caller: str) -> dict[str, Any]:
        found: dict[str, Any] = self.methods.explain({"method": method, "caller": caller})
        (port,) = found["ports"]
        assert isinstance(port, dict)
        return port


@pytest.fixture
def a(load: Load) -> Iterator[Asked]:
    with small_port(load, RATES) as port:
        yield Asked(port)


def test_every_limit_has_its_source(a: Asked) -> None:
    found = a.explain("img.cut", "ann")
    assert [(limit["source"], limit["rate"]) for limit in found["limits"]] == [
        ("throttle.calls", "server: calls=50"),
        ("throttle.rates", "methods of img: calls=3"),
    ]
    assert (found["exempt"], found["blocked"], found["opens_in_s"]) == (False, False, 0.0)


def test_a_block_opens_never(a: Asked) -> None:
    found = a.explain("img.blur", "ann")
    assert (found["blocked"], found["opens_in_s"]) == (True, None)
    assert found["limits"][-1]["rate"] == "callers of img.blur: block"


def test_an_exempt_method_has_no_limit(a: Asked) -> None:
    found = a.explain("ping", "ann")
    assert (found["exempt"], found["limits"]) == (True, [])


def test_what_is_used_is_shown(a: Asked) -> None:
    shared, key = a.port.shared, key_of(Kind.SERVER)
    in_force = Limits(shared.names, *shared.rates.read())
    limiters = shared.table.limiters
    with shared.table.queue_lock:
        row = limiters.make(key, 0, in_force.terms_of(Key(key)), in_force.version, 0, 0)
        at = limiters.at(row)
        limiters.renew(at, a.port.created_ns)
        limiters.charge(at, CALLS, 50 * 3600)
        shared.segment.q[at + L_OPENS] = limiters.opens_ns(at)
    found = a.explain("img.cut", "ann")
    (server, _) = found["limits"]
    assert server["debt"] > 0
    assert found["opens_in_s"] == server["opens_in_s"] > 3000


def test_orders_are_checked_before_they_are_sent(a: Asked) -> None:
    a.methods.set({"level": "method", "method": "ping", "calls": 5, "version": 3})
    a.methods.remove({"rate": "server"})
    assert a.orders == [
        ("set_rate", {"line": "method ping: calls=5", "version": 3}),
        ("remove_rate", {"subject": "server", "version": None}),
    ]


@pytest.mark.parametrize(
    ("asked", "what"),
    [
        ({"level": "method", "method": "pin", "calls": 1}, "'pin' is not served; known is ping"),
        ({"level": "resource", "resource": "r", "methods": ["x"], "calls": 1}, "'x' is not served"),
        ({"level": "server", "calls": 1, "version": "1"}, "version = '1': must be a whole number"),
        (["server: calls=1"], "parameters are given by name"),
        (None, "level = None"),
    ],
)
def test_what_is_wrong_is_named(a: Asked, asked: object, what: str) -> None:
    with pytest.raises(RpcError, match=what):
        a.methods.set(asked)
    assert a.orders == []


def test_who_is_to_be_explained_must_be_said(a: Asked) -> None:
    with pytest.raises(RpcError, match="caller is missing"):
        a.methods.explain({"method": "ping"})
    with pytest.raises(RpcError, match="'pong' is not served"):
        a.methods.explain({"method": "pong", "caller": "ann"})
    with pytest.raises(RpcError, match="unknown member 'all'"):
        a.methods.get({"all": True})

"""Declaring methods and hooks."""

from __future__ import annotations

import asyncio
import functools
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from faircall.workers import eventloop
from faircall.workers.context import Call, Worker, running
from faircall.workers.errors import DeadlineExceeded, ServiceError
from faircall.workers.service import Service


@pytest.fixture
def service() -> Iterator[Service]:
    yield Service("test")
    eventloop.close()


def test_a_decorated_function_is_registered_and_stays_as_it_was(service: Service) -> None:
    @service.method
    def plain(x: int) -> int:
        return x + 1

    @service.method(name="other.name", idempotent=True, timeout=2.5)
    def fancy() -> None: ...

    assert plain(1) == 2
    assert list(service.methods) == ["plain", "other.name"]
    found = service.methods["plain"]
    assert (found.function, found.idempotent, found.timeout_s) == (plain, False, None)
    found = service.methods["other.name"]
    assert (found.function, found.idempotent, found.timeout_s) == (fancy, True, 2.5)
    assert service.methods["plain"].run(b"[41]") == 42


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"name": "taken"}, "twice"),
        ({"name": "rpc.x"}, "reserved"),
        ({"name": "faircall.x"}, "reserved"),
        ({"name": ""}, "no name"),
        ({"name": "a\nb"}, "printable"),
        ({"name": "m" * 201}, "200"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": -1.0}, "timeout"),
        ({"timeout": float("inf")}, "timeout"),
        ({"timeout": float("nan")}, "timeout"),
    ],
)
def test_a_declaration_that_cannot_hold_is_refused(
    service: Service, arguments: dict[str, Any], text: str
) -> None:
    service.method(name="taken")(lambda: None)
    with pytest.raises(ServiceError, match=text):
        service.method(**arguments)(lambda: None)
    assert list(service.methods) == ["taken"]


def test_only_functions_with_one_result_and_a_name_are_methods(service: Service) -> None:
    def generator() -> Iterator[int]:
        yield 1

    async def async_generator() -> AsyncIterator[int]:
        yield 1

    for function in (generator, async_generator):
        with pytest.raises(ServiceError, match="generator"):
            service.method(function)
    with pytest.raises(ServiceError, match="no name"):
        service.method(functools.partial(int))
    with pytest.raises(ServiceError, match="not a function"):
        service.method(name="x")(7)  # type: ignore[type-var]
    assert not service.methods


def test_annotations_may_name_what_is_defined_later(service: Service) -> None:
    namespace: dict[str, Any] = {"service": service}
    exec("@service.method\ndef late(x: 'Later') -> None: ...", namespace)
    with pytest.raises(ServiceError, match="Later"):
        service.prepare()
    namespace["Later"] = int
    service.prepare()
    assert service.methods["late"].run(b"[1]") is None


def test_async_methods_run_to_their_end_and_within_the_calls_time(service: Service) -> None:
    @service.method
    async def wait(seconds: float) -> str:
        await asyncio.sleep(seconds)
        return "waited"

    run = service.methods["wait"].run
    assert run(b"[0]") == "waited"
    with running(Call(deadline_ns=time.monotonic_ns() + 3_600_000_000_000)):
        assert run(b"[0]") == "waited"
    with running(Call(deadline_ns=time.monotonic_ns())), pytest.raises(DeadlineExceeded):
        run(b"[3600]")


# -- hooks -----------------------------------------------------------------------------------------


def test_start_hooks_run_in_order_stop_hooks_in_reverse(service: Service) -> None:
    seen: list[Any] = []

    @service.on_start
    def without() -> None:
        seen.append("without")

    @service.on_start
    def with_worker(worker: Worker) -> None:
        seen.append(worker.index)

    @service.on_start
    async def asynchronous(worker: Worker) -> None:
        await asyncio.sleep(0)
        seen.append(("async", worker.index))

    service.on_stop(lambda: seen.append("first declared"))
    service.on_stop(lambda worker=None: seen.append(("last declared", worker.index)))

    service.start(Worker(5))
    assert seen == ["without", 5, ("async", 5)]
    seen.clear()
    assert service.stop(Worker(5)) == []
    assert seen == [("last declared", 5), "first declared"]


def test_a_failing_start_hook_stops_the_start(service: Service) -> None:
    seen: list[str] = []

    @service.on_start
    def broken() -> None:
        raise LookupError("no model")

    service.on_start(lambda: seen.append("never"))
    place = rf"\({re.escape(__file__)}:\d+\)"
    text = rf"^the start hook .*broken\(\) raised LookupError: no model {place}$"
    with pytest.raises(ServiceError, match=text):
        service.start(Worker())
    assert not seen


def test_every_stop_hook_runs_whatever_the_others_do(service: Service) -> None:
    seen: list[str] = []
    service.on_stop(lambda: seen.append("ran"))

    @service.on_stop
    def broken() -> None:
        raise LookupError("gone")

    errors = service.stop(Worker())
    assert [repr(error) for error in errors] == ["LookupError('gone')"]
    assert seen == ["ran"]


def test_stopping_closes_the_event_loop(service: Service) -> None:
    loops = []

    @service.on_start
    async def start() -> None:
        loops.append(asyncio.get_running_loop())

    service.start(Worker())
    service.stop(Worker())
    assert loops[0].is_closed()


@pytest.mark.parametrize("hook", [lambda a, b: None, lambda *, worker: None])
def test_a_hook_with_other_parameters_is_refused(
    service: Service, hook: Callable[..., None]
) -> None:
    with pytest.raises(ServiceError, match="worker, or none"):
        service.on_start(hook)

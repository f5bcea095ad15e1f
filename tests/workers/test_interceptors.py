"""What runs around each call: in which order, what it sees, and what its own failures do."""

from __future__ import annotations

import logging
from typing import Any

import orjson
import pytest

from faircall.workers.context import Call, running
from faircall.workers.errors import FORBIDDEN, RpcError, ServiceError
from faircall.workers.interceptors import Interception
from faircall.workers.invoke import invoke
from faircall.workers.service import Service


@pytest.fixture
def service() -> Service:
    service = Service()

    @service.method
    def half(number: int, by: int = 2) -> float:
        return number / by

    return service


def run(service: Service, params: bytes = b"[6]", user: str = "alice") -> dict[str, Any]:
    with running(Call(method="half", user=user)):
        answer = invoke(service, "half", params)
    body = orjson.loads(answer.body)
    return {"result": body} if answer.ok else {"error": body}


def test_hooks_surround_the_function_like_shells(service: Service) -> None:
    order: list[str] = []
    for name in ("a", "b"):
        service.before(lambda seen, name=name: order.append(f"before {name}"))
        service.after(lambda seen, name=name: order.append(f"after {name}"))
    assert run(service) == {"result": 3.0}
    assert order == ["before a", "before b", "after b", "after a"]


def test_they_see_who_calls_what_with_which_parameters_and_what_came_of_it(
    service: Service,
) -> None:
    told: list[tuple[Any, ...]] = []

    @service.after
    def note(seen: Interception) -> None:
        told.append((seen.method, seen.user, seen.params, seen.result, seen.error))
        assert seen.duration_s >= 0

    run(service, b'{"number": 8, "by": 4}')
    run(service, b"[1, 0]")
    assert told[0] == ("half", "alice", {"number": 8, "by": 4}, 2.0, None)
    assert told[1][3] is None
    assert isinstance(told[1][4], ZeroDivisionError)


def test_one_before_may_refuse_and_those_after_are_told(service: Service) -> None:
    told: list[Exception | None] = []
    service.after(lambda seen: told.append(seen.error))

    @service.before
    async def only_alice(seen: Interception) -> None:
        if seen.user != "alice":
            raise RpcError(FORBIDDEN, f"{seen.user} may not")

    assert run(service) == {"result": 3.0}
    refused = run(service, user="bob")["error"]
    assert (refused["code"], refused["message"]) == (FORBIDDEN, "bob may not")
    assert [type(error) for error in told] == [type(None), RpcError]


def test_a_check_that_fails_has_not_been_passed(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    service.before(lambda seen: seen.call.nonsense)
    error = run(service)["error"]
    assert (error["code"], error["data"]["reason"]) == (-32603, "interceptor_failed")
    assert "nonsense" not in error["message"]
    assert caplog.records[0].levelno == logging.ERROR
    assert caplog.records[0].message.startswith("hook failed")


def test_one_after_that_fails_changes_nothing(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[str] = []
    service.after(lambda seen: told.append(seen.method))
    service.after(lambda seen: seen.call.nonsense)
    assert run(service) == {"result": 3.0}
    assert told == ["half"]
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


def test_what_takes_no_call_is_no_hook(service: Service) -> None:
    with pytest.raises(ServiceError, match="takes one parameter, the call"):
        service.before(lambda: None)

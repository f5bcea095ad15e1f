"""Calls and whole messages of a service, from bytes to bytes."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from faircall.workers.context import Call, current_call, running
from faircall.workers.envelope import Request
from faircall.workers.errors import RpcError
from faircall.workers.invoke import Answer, invoke, run_message
from faircall.workers.service import Service

service = Service("test")
RAN: list[Any] = []


class Unprintable(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


def _raise(error: BaseException) -> Callable[[], None]:
    def function() -> None:
        raise error

    return function


service.method(name="echo")(lambda x: x)
service.method(name="nothing")(lambda: None)
service.method(name="log")(lambda x: RAN.append(x))
service.method(name="opaque")(lambda: object())
service.method(name="boom")(_raise(RuntimeError("boom")))
service.method(name="long")(_raise(RuntimeError("x" * 9000)))
service.method(name="silent")(_raise(RuntimeError()))
service.method(name="unprintable")(_raise(Unprintable()))
service.method(name="undecodable")(_raise(OSError("no file \udcff")))
service.method(name="too_deep")(_raise(RecursionError("deep")))
service.method(name="chosen")(_raise(RpcError(17, "mine", {"row": 3, "key": b"hi"})))
service.method(name="badly_chosen")(_raise(RpcError(17, "mine", object())))
service.method(name="exit")(_raise(SystemExit(3)))
service.method(name="interrupt")(_raise(KeyboardInterrupt()))
service.method(name="late")(lambda: current_call().check())


def run(method: str, params: bytes = b"", **options: Any) -> tuple[bool, Any]:
    answer = invoke(service, method, params, **options)
    return answer.ok, json.loads(answer.body)


def failure(method: str, params: bytes = b"", **options: Any) -> tuple[int, str]:
    """Code and message of the error; `data` are checked to say why and whether to try again."""
    ok, error = run(method, params, **options)
    assert not ok
    assert {"reason", "retriable"} <= set(error["data"])
    return error["code"], error["message"]


class Log(list[tuple[str, str]]):
    """A `log_traceback` that remembers."""

    def __call__(self, method: str, error: BaseException) -> None:
        assert error.__traceback__ is not None
        self.append((method, type(error).__name__))


def test_a_result_is_its_json() -> None:
    assert run("echo", b'[{"a":1}]') == (True, {"a": 1})
    assert run("nothing") == (True, None)


@pytest.mark.parametrize("name", ["missing", "Echo", "", "__class__", "echo.__globals__"])
def test_only_registered_names_are_methods(name: str) -> None:
    code, message = failure(name)
    assert (code, message.partition(";")[0]) == (-32601, f"Method not found: {name}")


def test_a_long_name_is_not_repeated_as_a_whole() -> None:
    assert len(failure("m" * 10_000)[1]) < 200


def test_params_that_do_not_fit_are_told_and_not_logged() -> None:
    log = Log()
    missing = (-32602, "Invalid params: missing parameter `x`")
    assert failure("echo", log_traceback=log) == missing
    assert not log


@pytest.mark.parametrize(
    ("method", "message", "kind"),
    [
        ("boom", "RuntimeError: boom", "RuntimeError"),
        ("long", "RuntimeError: " + "x" * 500, "RuntimeError"),
        ("silent", "RuntimeError", "RuntimeError"),
        ("unprintable", "Unprintable", "Unprintable"),
        ("undecodable", "OSError: no file ?", "OSError"),
        ("too_deep", "RecursionError: deep", "RecursionError"),
    ],
)
def test_an_exception_is_type_and_message_and_its_traceback_is_logged(
    method: str, message: str, kind: str
) -> None:
    log = Log()
    assert failure(method, log_traceback=log) == (-32000, message)
    assert log == [(method, kind)]
    assert run(method, log_traceback=log)[1]["data"]["type"] == kind


def test_the_text_of_exceptions_can_be_cut_and_hidden() -> None:
    log = Log()
    assert failure("boom", max_error_chars=2, log_traceback=log)[1] == "RuntimeError: bo"
    assert failure("boom", max_error_chars=0, log_traceback=log)[1] == "RuntimeError"


def test_without_a_callback_the_traceback_goes_to_the_logger(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.ERROR, "faircall.workers"):
        failure("boom")
    assert "method='boom'" in caplog.text
    assert "Traceback" in caplog.text


def test_an_rpc_error_chooses_its_code_and_data() -> None:
    log = Log()
    ok, error = run("chosen", log_traceback=log)
    assert not ok
    assert error == {
        "code": 17,
        "message": "mine",
        "data": {"reason": "error", "retriable": False, "row": 3, "key": "aGk="},
    }
    assert not log


def test_data_that_cannot_be_sent_leave_code_and_message() -> None:
    log = Log()
    assert failure("badly_chosen", log_traceback=log) == (17, "mine")
    assert log == [("badly_chosen", "TypeError")]


def test_a_result_that_cannot_be_sent_names_its_type() -> None:
    log = Log()
    code, message = failure("opaque", log_traceback=log)
    assert code == -32603
    assert "an object of type object" in message
    assert log == [("opaque", "TypeError")]


def test_a_call_that_checks_ends_at_its_deadline() -> None:
    with running(Call(deadline_ns=1)):
        assert failure("late")[0] == -32050
    with running(Call(is_abandoned=lambda: True)):
        assert failure("late")[0] == -32051


def test_what_ends_a_process_passes_through() -> None:
    with pytest.raises(SystemExit):
        run("exit")
    with pytest.raises(KeyboardInterrupt):
        run("interrupt")


# -- whole messages --------------------------------------------------------------------------------


def call(method: str, params: str = "[]", id: str | None = "1") -> str:
    tail = "" if id is None else f',"id":{id}'
    return f'{{"jsonrpc":"2.0","method":"{method}","params":{params}{tail}}}'


def reply(*calls: str, **options: Any) -> Any:
    """The decoded answer to one message: a batch if there are several calls."""
    text = calls[0] if len(calls) == 1 else f"[{','.join(calls)}]"
    answer = run_message(service, text.encode(), **options)
    return None if answer is None else json.loads(answer)


def test_a_message_is_answered_as_a_whole() -> None:
    assert run_message(service, call("echo", "[null]", '"é"').encode()) == (
        '{"jsonrpc":"2.0","id":"é","result":null}'.encode()
    )
    assert reply(call("missing"))["error"]["code"] == -32601
    assert reply("{]")["error"]["code"] == -32700


def test_notifications_run_and_are_not_answered() -> None:
    RAN.clear()
    assert reply(call("log", "[1]", None)) is None
    assert reply(call("log", "[2]", None), call("missing", id=None)) is None
    assert RAN == [1, 2]


def test_a_batch_runs_in_order_and_answers_what_asks_for_it() -> None:
    RAN.clear()
    found = reply(
        call("log", "[1]", '"a"'), call("log", "[2]", None), "7", call("log", "[3]", "1.0")
    )
    assert RAN == [1, 2, 3]
    assert [(answer["id"], "error" in answer) for answer in found] == [
        ("a", False),
        (None, True),
        (1.0, False),
    ]
    assert reply("[" + call("echo", "[5]") + "]")[0]["result"] == 5


def test_limits_reach_the_decoder() -> None:
    assert reply(call("echo", "[[[]]]"), max_depth=3)["error"]["data"]["reason"] == "too_deep"
    assert reply(call("nothing", id="1234"), max_id_bytes=3)["id"] is None
    assert reply("1", "1", "1", max_batch=2)["error"]["data"]["reason"] == "batch_too_large"


def test_answers_beyond_the_limit_are_errors_and_the_rest_stand() -> None:
    big = call("echo", '["' + "x" * 50 + '"]')
    found = reply(big, big, call("nothing", id="2"), max_answer_bytes=130)
    assert [answer.get("error", {}).get("code") for answer in found] == [None, -32054, -32054]
    assert reply(call("nothing"), max_answer_bytes=3)["error"]["code"] == -32054
    assert reply(call("nothing"), max_answer_bytes=4)["result"] is None


def test_the_way_a_request_runs_can_be_replaced() -> None:
    seen: list[Request] = []

    def run_one(request: Request) -> Answer:
        seen.append(request)
        return Answer(True, b"7")

    assert reply(call("missing", id="9"), run=run_one)["result"] == 7
    assert seen == [Request("missing", b"[]", b"9")]

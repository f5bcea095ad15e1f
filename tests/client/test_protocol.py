from __future__ import annotations

import json
from typing import Any

import pytest

from faircall.client.errors import (
    Busy,
    ConnectionLost,
    InvalidAnswer,
    RemoteError,
    RpcClientError,
)
from faircall.client.framing import HttpFraming, LineFraming
from faircall.client.protocol import Answer, ClientProtocol
from faircall.client.request import Request, build_request

WHERE = "tcp://h:1"


def lines(calls: int = 0) -> ClientProtocol:
    protocol = ClientProtocol(LineFraming(), WHERE)
    for _ in range(calls):
        protocol.send([build_request("m")])
    return protocol


def http(calls: int = 0) -> ClientProtocol:
    protocol = ClientProtocol(HttpFraming("h:1", "/rpc", {}), WHERE)
    for _ in range(calls):
        protocol.send([build_request("m")])
    return protocol


def line(value: Any) -> bytes:
    return json.dumps(value).encode() + b"\n"


def post(value: Any, status: str = "200 OK", headers: str = "") -> bytes:
    body = b"" if value is None else json.dumps(value).encode()
    head = f"HTTP/1.1 {status}\r\n{headers}Content-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def result(id: Any, value: Any = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "result": value}


def error(id: Any, code: int = -32700, message: str = "Parse error") -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}


def kinds(answers: list[Answer]) -> dict[int, type[RpcClientError]]:
    return {answer.id: type(answer.error) for answer in answers if answer.error is not None}


def test_ids_are_given_in_order_and_notifications_get_none() -> None:
    protocol = lines()
    note = build_request("log", notification=True)
    ids, message = protocol.send([build_request("a"), note, build_request("b")], batch=True)
    assert ids == [1, 2]
    assert [item.get("id") for item in json.loads(message)] == [1, None, 2]
    assert protocol.send([note])[0] == []
    assert protocol.send([build_request("c")])[0] == [3]


def test_a_batch_of_one_is_still_an_array() -> None:
    assert lines().send([build_request("a")], batch=True)[1].startswith(b"[{")


@pytest.mark.parametrize("framing", ["lines", "http"])
def test_answers_are_the_same_wherever_the_bytes_are_cut(framing: str) -> None:
    values = [result(2, "ä"), [result(3), error(4, 7, "no")], result(1, None)]
    if framing == "lines":
        wire = b"".join(map(line, values))
    else:
        values = [values[2], values[0], values[1]]
        wire = b"HTTP/1.1 100 Continue\r\n\r\n" + b"".join(map(post, values))
    for cut in range(len(wire) + 1):
        protocol = lines(2) if framing == "lines" else http(2)
        protocol.send([build_request("m"), build_request("m")], batch=True)
        answers = protocol.receive(wire[:cut]) + protocol.receive(wire[cut:])
        results = {answer.id: answer.result for answer in answers if answer.error is None}
        assert results == {1: None, 2: "ä", 3: None}
        assert kinds(answers) == {4: RemoteError}
        assert not protocol.ended


def test_an_error_object_is_the_answer_of_one_call() -> None:
    (answer,) = lines(2).receive(line(error(2, -32005, "full")))
    assert (answer.id, type(answer.error)) == (2, Busy)
    assert "m at tcp://h:1: full (-32005)" in str(answer.error)


@pytest.mark.parametrize(
    "value",
    [result(3), result(True), result(1.0), result("1"), result(None), error(9), 7, None, {}, [7]],
)
def test_an_answer_to_nothing_that_was_asked_ends_a_stream(value: Any) -> None:
    protocol = lines(2)
    protocol.receive(line(result(2)))
    answers = protocol.receive(line(value))
    assert kinds(answers) == {1: InvalidAnswer}
    assert "does a faircall server listen?" in str(answers[0].error)
    assert protocol.ended


def test_the_second_answer_to_a_call_ends_a_stream() -> None:
    protocol = lines(2)
    answers = protocol.receive(line(result(1)) * 2)
    assert answers[0] == Answer(1)
    assert kinds(answers) == {2: InvalidAnswer}


@pytest.mark.parametrize("garbage", [b"{\n", b'{"id":1,"result":NaN}\n', b"[" * 2000 + b"\n"])
def test_garbage_ends_a_stream(garbage: bytes) -> None:
    protocol = lines(2)
    answers = protocol.receive(line(result(1)) + garbage + line(result(2)))
    assert answers[0] == Answer(1)
    assert kinds(answers) == {2: InvalidAnswer}
    assert protocol.ended


@pytest.mark.parametrize(
    "item",
    [
        {"id": 1},
        {"id": 1, "error": None},
        {"id": 1, "error": "text"},
        {"id": 1, "error": {"code": "x", "message": "m"}},
        {"id": 1, "error": {"code": 1}},
    ],
)
def test_an_answer_without_result_or_error_object_costs_only_its_own_call(item: Any) -> None:
    protocol = lines(2)
    answers = protocol.receive(line(item) + line(result(2)))
    assert kinds(answers) == {1: InvalidAnswer}
    assert answers[1] == Answer(2)


def test_a_null_error_beside_a_result_is_no_error() -> None:
    assert lines(1).receive(line({**result(1, 5), "error": None})) == [Answer(1, 5)]


def batch(protocol: ClientProtocol, calls: int = 2) -> ClientProtocol:
    requests: list[Request] = [build_request("m") for _ in range(calls)]
    protocol.send(requests, batch=True)
    return protocol


def test_calls_missing_in_the_answer_to_their_batch_fail() -> None:
    assert kinds(batch(lines()).receive(line([result(2)]))) == {1: InvalidAnswer}
    assert kinds(batch(http()).receive(post([result(2)]))) == {1: InvalidAnswer}


def test_the_answers_to_a_batch_may_come_one_by_one() -> None:
    assert batch(lines()).receive(line(result(2)) + line(result(1))) == [Answer(2), Answer(1)]


def test_an_error_without_id_is_that_of_the_only_open_exchange() -> None:
    assert kinds(lines(1).receive(line(error(None)))) == {1: RemoteError}
    assert kinds(batch(lines()).receive(line(error(None)))) == {1: RemoteError, 2: RemoteError}


def test_an_error_without_id_inside_a_batch_answers_what_has_no_other_answer() -> None:
    answers = batch(lines(), 3).receive(line([result(1), error(None)]))
    assert kinds(answers) == {2: RemoteError, 3: RemoteError}


def test_an_error_without_id_that_could_be_anyone_s_explains_the_end() -> None:
    protocol = lines(2)
    assert protocol.receive(line(error(None, -32054, "too large"))) == []
    answers = protocol.receive_eof()
    assert kinds(answers) == {1: ConnectionLost, 2: ConnectionLost}
    assert "closed the connection after saying tcp://h:1: too large (-32054)" in str(
        answers[0].error
    )


def test_http_errors_and_empty_answers_cost_only_their_own_exchange() -> None:
    protocol = http(4)
    wire = post(None) + b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\noops"
    answers = protocol.receive(wire + post(result(9)) + post(result(4)))
    assert kinds(answers) == {1: InvalidAnswer, 2: InvalidAnswer, 3: InvalidAnswer}
    assert "HTTP 404 Not Found: no answer to this call in b'oops'" in str(answers[1].error)
    assert answers[3] == Answer(4)


def test_an_http_status_does_not_hide_an_error_object() -> None:
    assert kinds(http(1).receive(post(error(1, -32005), "429 Too Many Requests"))) == {1: Busy}


def test_a_notification_takes_its_place_over_http() -> None:
    protocol = http()
    protocol.send([build_request("log", notification=True)])
    protocol.send([build_request("m")])
    assert protocol.receive(post(None) + post(result(1))) == [Answer(1)]


def test_an_http_answer_that_was_not_asked_for_ends_the_connection() -> None:
    protocol = http()
    assert protocol.receive(post(None)) == []
    assert protocol.ended


def test_after_connection_close_the_later_calls_are_lost() -> None:
    protocol = http(2)
    answers = protocol.receive(post(result(1), headers="Connection: close\r\n") + post(result(2)))
    assert answers[0] == Answer(1)
    assert kinds(answers) == {2: ConnectionLost}
    assert protocol.ended


def test_the_end_of_the_connection_fails_every_open_call_once() -> None:
    protocol = lines(3)
    protocol.receive(line(result(2)) + b'{"id":1,"res')
    answers = protocol.receive_eof()
    assert kinds(answers) == {1: ConnectionLost, 3: ConnectionLost}
    assert "m at tcp://h:1: the server closed the connection in the middle of an answer" in str(
        answers[0].error
    )
    assert protocol.receive_eof() == []
    assert protocol.ended


def test_a_call_that_comes_too_late_is_told_why_the_connection_ended() -> None:
    protocol = lines()
    protocol.receive(b"SSH-2.0\r\n")
    protocol.receive_eof()
    message = str(protocol.not_sent([build_request("m")]))
    assert message.startswith("m at tcp://h:1: not sent: not JSON-RPC: b'SSH-2.0")

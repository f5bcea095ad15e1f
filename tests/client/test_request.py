from __future__ import annotations

import json
import math

import numpy as np
import pytest

from faircall.client.address import parse_address, parse_addresses
from faircall.client.options import Options
from faircall.client.request import build_request, cancel_request


def options(**more: object) -> Options:
    return Options(addresses=parse_addresses("tcp://h:1"), **more)  # type: ignore[arg-type]


def test_a_request_has_the_members_it_needs_and_no_others() -> None:
    assert json.loads(build_request("m").encode(7)) == {"jsonrpc": "2.0", "id": 7, "method": "m"}


def test_a_notification_has_no_id() -> None:
    request = build_request("m", [1], notification=True)
    assert json.loads(request.encode(None)) == {"jsonrpc": "2.0", "method": "m", "params": [1]}


def test_named_parameters_are_an_object() -> None:
    assert json.loads(build_request("m", kwargs={"a": None}).encode(1))["params"] == {"a": None}


def test_positional_and_named_parameters_exclude_each_other() -> None:
    with pytest.raises(TypeError, match="positional or named"):
        build_request("m", [1], {"a": 2})


@pytest.mark.parametrize("value", [b"\x00\xff", bytearray(b"\x00\xff"), memoryview(b"\x00\xff")])
def test_bytes_are_sent_as_base64(value: object) -> None:
    assert json.loads(build_request("m", [[value]]).encode(1))["params"] == [["AP8="]]


def test_a_numpy_array_is_sent_as_a_list() -> None:
    assert json.loads(build_request("m", [np.arange(3)]).encode(1))["params"] == [[0, 1, 2]]


@pytest.mark.parametrize("value", [object(), {1, 2}, 1 << 65, {1: 2}, "\ud800"])
def test_what_json_cannot_hold_is_refused_by_the_caller_s_side(value: object) -> None:
    with pytest.raises(TypeError, match="cannot be sent as JSON"):
        build_request("m", [value])


def test_a_request_is_one_line() -> None:
    assert b"\n" not in build_request("m\n", ["a\nb"], context="c\n").encode(1)


def test_the_limit_travels_in_milliseconds_not_rounded_down_beside_the_context() -> None:
    request = options(context="job 7").request("m", [], {}, 0.0101)
    assert json.loads(request.encode(1))["meta"] == {"timeout_ms": 11, "caller_context": "job 7"}


def test_without_limit_and_context_there_is_no_meta() -> None:
    request = options().request("m", [], {}, options().limit_s(None))
    assert b"meta" not in request.encode(1)


def test_a_call_s_own_limit_comes_before_the_client_s() -> None:
    assert options(timeout_s=60.0).limit_s(2.0) == 2.0
    assert options(timeout_s=60.0).limit_s(None) == 60.0


@pytest.mark.parametrize("limit_s", [0, -1, float("nan")])
def test_a_limit_must_be_more_than_nothing(limit_s: float) -> None:
    with pytest.raises(ValueError, match="timeout must be more than 0"):
        options().limit_s(limit_s)
    with pytest.raises(ValueError, match="connect_timeout must be more than 0"):
        options(connect_timeout_s=limit_s)


def test_a_stream_says_who_is_calling_in_a_hello_and_http_in_its_headers() -> None:
    claims = {"user": "ann", "token": "t0"}
    stream, http = parse_address("unix:/s"), parse_address("http://h")
    hello = options(**claims).hello(stream, 1.0)
    assert hello is not None
    assert json.loads(hello.encode(1))["params"] == claims
    assert options(**claims).hello(http, 1.0) is None
    wire = options(**claims).protocol(http).send([build_request("m")])[1]
    assert b"\r\nX-Faircall-User: ann\r\nAuthorization: Bearer t0\r\n" in wire


def test_who_says_nothing_sends_no_hello() -> None:
    assert options().hello(parse_address("unix:/s"), 1.0) is None


@pytest.mark.parametrize("name", ["", "ann\r\nX-Evil: 1", "a\0"])
def test_a_name_cannot_carry_a_header_of_its_own(name: str) -> None:
    with pytest.raises(ValueError, match="user must be printable"):
        options(user=name)
    with pytest.raises(ValueError, match="token must be printable"):
        options(token=name)


def test_a_repeat_says_what_is_left_and_how_often_it_was_sent() -> None:
    request = options(context="job 7").request("m", [b"x"], {}, 2.0)
    again = request.again(0.5, 3)
    meta = {"timeout_ms": 500, "caller_context": "job 7", "attempt": 3}
    first, second = json.loads(request.encode(1)), json.loads(again.encode(2))
    assert second == {**first, "id": 2, "meta": meta}
    assert again.limit_s == 2.0
    assert json.loads(request.again(-1.0, 0).encode(1))["meta"]["timeout_ms"] == 1
    assert json.loads(build_request("m").again(math.inf, 1).encode(1))["meta"] == {"attempt": 1}


@pytest.mark.parametrize("connections", [0, -1])
def test_a_client_has_at_least_one_connection(connections: int) -> None:
    with pytest.raises(ValueError, match="connections must be 1 or more"):
        options(connections=connections)


def test_a_call_is_taken_back_by_its_id() -> None:
    message = json.loads(cancel_request(7).encode(None))
    assert message == {"jsonrpc": "2.0", "method": "rpc.cancel", "params": {"id": 7}}

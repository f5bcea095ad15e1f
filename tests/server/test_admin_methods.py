"""What the admin socket answers to a message, and what each of its methods returns."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from faircall.server.admin.methods import AdminMethod, AdminMethods
from faircall.server.admin.session import answer_message
from faircall.server.port import Port
from faircall.shm.states import Phase
from faircall.workers.errors import RpcError

from ..conftest import Load
from .small_port import small_port

ADMIN = "[admin]\nsocket = 'run/admin.sock'\n"


@pytest.fixture
def port(load: Load) -> Iterator[Port]:
    with small_port(load, ADMIN) as made:
        yield made


def fail(params: object) -> object:
    raise RuntimeError("a secret")


def refuse(params: object) -> object:
    raise RpcError(-32602, "Invalid params: not so")


METHODS: Mapping[str, AdminMethod] = {"echo": lambda params: params, "fail": fail, "no": refuse}


def ask(message: object) -> Any:
    raw = message if isinstance(message, bytes) else json.dumps(message).encode()
    answer = asyncio.run(answer_message(METHODS, raw))
    return json.loads(answer) if answer else None


def request(method: str, id: object = 1, **members: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "id": id, **members}


def test_a_result_comes_with_the_id_of_its_request() -> None:
    answer = ask(request("echo", "x", params=[1, "é"]))
    assert answer == {"jsonrpc": "2.0", "id": "x", "result": [1, "é"]}
    assert ask(request("echo"))["result"] is None


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (request("faircall.nothing"), -32601),
        (request("no"), -32602),
        (b'{"jsonrpc":"2.0","method":"echo","params":[1e999],"id":1}', -32602),
        (b"nonsense", -32700),
        ([], -32600),
        ({"method": "echo", "id": 1}, -32600),
    ],
)
def test_what_is_wrong_is_answered_with_its_code(message: object, code: int) -> None:
    assert ask(message)["error"]["code"] == code


def test_a_method_that_fails_is_logged_and_tells_the_client_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert ask(request("fail"))["error"]["message"] == "Internal error"
    assert "a secret" in caplog.text


def test_a_notification_is_not_answered() -> None:
    assert ask({"jsonrpc": "2.0", "method": "no"}) is None
    assert ask([{"jsonrpc": "2.0", "method": "echo"}]) is None


def test_a_batch_is_answered_in_one_array() -> None:
    answers = ask([request("echo", 1), {"jsonrpc": "2.0", "method": "echo"}, request("no", 2)])
    assert [answer["id"] for answer in answers] == [1, 2]


def test_every_method_refuses_parameters_that_it_does_not_have(port: Port) -> None:
    methods = AdminMethods([port]).methods
    assert set(methods) == {
        "faircall.ping",
        "faircall.phase",
        "faircall.stats",
        "faircall.users",
        "faircall.explain",
        "faircall.dump",
    }
    for name in ("faircall.ping", "faircall.phase", "faircall.stats"):
        method = methods[name]
        for nothing in (dict[str, Any](), list[Any](), None):
            assert method(nothing)
        with pytest.raises(RpcError, match="takes none"):
            method({"port": name})


def test_settings_are_read_again_where_that_is_possible(port: Port) -> None:
    async def refresh() -> dict[str, Any]:
        return {"version": 1}

    async def fails() -> dict[str, Any]:
        raise RpcError(-32000, "faircall.toml:3: wrong")

    name = "faircall.refresh_call_queue"
    message = json.dumps(request(name)).encode()
    answers = [
        json.loads(asyncio.run(answer_message(AdminMethods([port], each).methods, message)))
        for each in (refresh, fails)
    ]
    assert answers[0]["result"] == {"version": 1}
    assert answers[1]["error"]["message"] == "faircall.toml:3: wrong"
    with pytest.raises(RpcError, match="takes none"):
        AdminMethods([port], refresh).methods[name]([1])


def test_the_phase_says_since_when(port: Port) -> None:
    methods = AdminMethods([port]).methods
    assert methods["faircall.phase"](None) == {"phase": "STARTING", "since_s": None}
    port.shared.phase.set(Phase.LEAVING, port.created_ns)
    found: Any = methods["faircall.phase"](None)
    assert found["phase"] == "LEAVING"
    assert found["since_s"] >= 0


def test_statistics_are_those_of_every_port_and_plain_json(load: Load) -> None:
    with small_port(load) as first, small_port(load) as second:
        found: Any = AdminMethods([first, second]).methods["faircall.stats"](None)
    assert [port["port"] for port in found["ports"]] == [0, 0]
    assert (found["pid"], found["phase"]) == (os.getpid(), "STARTING")
    assert json.loads(json.dumps(found)) == found

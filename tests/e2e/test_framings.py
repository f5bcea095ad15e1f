"""Every framing, over TCP and over Unix sockets, against the real server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ..daemon import Daemon, until
from ..raw import FRAMINGS, Raw, request
from .gates import Gate, gates, wait_for_calls

pytestmark = pytest.mark.slow

MIB = 1 << 20


@pytest.fixture(params=FRAMINGS)
def framing(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def test_a_call_is_answered(address: str, framing: str) -> None:
    with Raw(address, framing) as raw:
        assert raw.ask("echo", "é") == {"jsonrpc": "2.0", "id": 1, "result": "é"}
        assert raw.call("echo", None) is None
        assert raw.code("echo") == -32602
        assert raw.code("no_such_method") == -32601
        assert raw.ask("refuse", -7, "no")["error"] == {
            "code": -7,
            "message": "no",
            "data": {"reason": "because", "retriable": False},
        }


def test_calls_need_not_wait_for_answers(address: str, framing: str) -> None:
    """Over HTTP they are answered in the order of the calls."""
    with Raw(address, framing) as raw:
        raw.send(*[request("echo", number, id=number) for number in range(1, 301)])
        answers = [raw.receive() for _ in range(300)]
    found = [(answer["id"], answer["result"]) for answer in answers]
    expected = [(number, number) for number in range(1, 301)]
    assert (found if framing == "http" else sorted(found)) == expected


def test_a_batch_has_one_answer(address: str, framing: str) -> None:
    batch = [
        request("echo", "a", id="a"),
        request("echo", "nobody waits"),
        request("fail", "b", id="b"),
        17,
    ]
    with Raw(address, framing) as raw:
        raw.send(batch)
        answers = {answer["id"]: answer for answer in raw.receive()}
        assert raw.call("echo", "next") == "next"
    assert answers.keys() == {"a", "b", None}
    assert answers["a"]["result"] == "a"
    assert answers["b"]["error"]["code"] == -32000
    assert answers[None]["error"]["code"] == -32600


def test_calls_of_a_batch_run_beside_each_other(address: str, framing: str, tmp_path: Path) -> None:
    held = gates(tmp_path, 3)
    with Raw(address, framing) as raw:
        raw.send([request("hold", gate.path, id=number) for number, gate in enumerate(held)])
        wait_for_calls(held)
        for number, gate in enumerate(held):
            gate.open(f"{number}")
        assert {answer["id"]: answer["result"] for answer in raw.receive()} == {
            number: f"{number}" for number in range(len(held))
        }


def test_a_notification_runs_and_is_not_answered(
    address: str, framing: str, tmp_path: Path
) -> None:
    trace = tmp_path / "trace"
    with Raw(address, framing) as raw:
        raw.send(request("append", str(trace), "noted"))
        if framing == "http":
            assert raw.receive() is None
            assert raw.status == 200
        raw.end_input()
        assert raw.rest() == []
    until(lambda: trace.exists() and trace.read_text() == "noted")


@pytest.mark.parametrize("framing", ["lines", "lsp"])
def test_answers_overtake_each_other(address: str, framing: str, tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    with Raw(address, framing) as raw:
        raw.send(request("hold", gate.path, id="slow"))
        gate.wait_for_call()
        raw.send(request("echo", 1, id="fast"))
        assert raw.receive()["id"] == "fast"
        gate.open("done")
        assert raw.receive() == {"jsonrpc": "2.0", "id": "slow", "result": "done"}


def test_a_request_and_an_answer_of_16_mib(address: str, framing: str) -> None:
    room = len(json.dumps(request("echo", "", id=1)))
    text = "y" * (16 * MIB - room)
    with Raw(address, framing) as raw:
        assert raw.call("echo", text) == text


def test_one_byte_more_than_16_mib_is_too_large(shared: Daemon) -> None:
    with Raw(shared.tcp) as raw:
        assert raw.code("text", 16 * MIB - 1) == -32054
        assert raw.call("echo", "after") == "after"

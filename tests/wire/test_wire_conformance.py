"""The cases of jsonrpc_conformance.json that are about framing, without a socket.

A small server stands on the wire: calls are answered at once, those that sleep when everything
else is done.  What needs a clock, or a client that does not read, is left to run_conformance.py.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from faircall.server.wire.connection import Wire
from faircall.server.wire.events import Close, Event, Message, Send
from faircall.server.wire.limits import WireLimits
from faircall.workers.envelope import (
    Invalid,
    Request,
    batch_answer,
    decode,
    error_answer,
    result_answer,
)

Drain = Callable[[Wire], list[Event]]
Case = dict[str, Any]
LIST = Path(__file__).with_name("jsonrpc_conformance.json")
CASES: list[Case] = json.loads(LIST.read_text())["cases"]
GROUPS = {"ndjson", "content-length", "http", "http-smuggling", "sniff", "slow"}
NEEDS_MORE = {"slow.idle", "slow.reader"}  # a clock; a client that does not read
PIECE_BYTES = 65536


class Server:
    """Answers what the wire hands out; `sent` is what the client reads, then `closed`."""

    def __init__(self, drain: Drain) -> None:
        self.wire = Wire(WireLimits())
        self.sent = b""
        self.closed = False
        self._drain = drain
        self._asleep: list[tuple[int, bytes]] = []

    def receive(self, data: bytes) -> None:
        self.wire.receive(data)
        self.look()

    def look(self) -> None:
        for event in self._drain(self.wire):
            self.take(event)

    def take(self, event: Event) -> None:
        self.closed = self.closed or isinstance(event, Close)
        if isinstance(event, Send):
            self.sent += event.data
        elif isinstance(event, Message):
            answer = answer_to(event.body)
            if b'"sleep"' in event.body and answer is not None:
                self._asleep.append((event.exchange, answer))
            else:
                self.sent += self.wire.answer(event.exchange, answer)

    def wake(self) -> None:
        for exchange, answer in self._asleep:
            self.sent += self.wire.answer(exchange, answer)
        self.look()


def answer_to(message: bytes) -> bytes | None:
    decoded = decode(message)
    answers = [answer for item in decoded.items if (answer := answer_of(item)) is not None]
    if not decoded.batch:
        return answers[0] if answers else None
    return batch_answer(answers) if answers else None


def answer_of(item: Request | Invalid) -> bytes | None:
    if isinstance(item, Invalid):
        return error_answer(item.id, item.error)
    if item.id is None:
        return None
    params = json.loads(item.params)
    values = list(params.values()) if isinstance(params, dict) else params
    result = sum(values) if item.method == "add" else values[0]
    return result_answer(item.id, json.dumps(result).encode())


def stream_of(case: Case) -> Iterator[bytes]:
    if "gen" in case:
        made = case["gen"]
        yield made["prefix"].encode()
        unit = made["unit"].encode() * PIECE_BYTES
        for _ in range(made["count"] // PIECE_BYTES):
            yield unit
        return
    stream = case.get("raw", "").encode()
    stream = base64.b64decode(case["raw_b64"]) if "raw_b64" in case else stream
    stream = (
        gzip.decompress(base64.b64decode(case["raw_gz_b64"])) if "raw_gz_b64" in case else stream
    )
    size = 1 if case.get("pace") == "bytewise" else PIECE_BYTES
    for at in range(0, len(stream), size):
        yield stream[at : at + size]


def run(case: Case, drain: Drain) -> Server:
    server = Server(drain)
    for piece in stream_of(case):
        if not server.closed:
            server.receive(piece)
    if case.get("half_close"):
        server.wire.receive_eof()
        server.look()
    server.wake()
    if case["group"] == "slow":
        for event in server.wire.timed_out():
            server.take(event)
    return server


def fits(expected: Case, answer: Any) -> bool:
    """Whether one answer object is the one expected."""
    if "any_of" in expected:
        return any(fits(one, answer) for one in expected["any_of"])
    if not isinstance(answer, dict) or answer["jsonrpc"] != "2.0" or answer["id"] != expected["id"]:
        return False
    if "result" in expected:
        return bool(answer.get("result", answer) == expected["result"])
    return bool(answer["error"]["code"] == expected["error"])


def fit_as_a_set(expected: list[Case], answers: list[Any]) -> bool:
    left = list(answers)
    for one in expected:
        found = next((answer for answer in left if fits(one, answer)), None)
        if found is None:
            return False
        left.remove(found)
    return not left


def stream_answers(server: Server) -> list[Any]:
    if server.wire.framing == "lsp":
        frames = re.split(rb"Content-Length: \d+\r\n\r\n", server.sent)[1:]
        return [json.loads(frame) for frame in frames]
    return [json.loads(line) for line in server.sent.splitlines()]


def http_answers(sent: bytes, bodiless: bool) -> Iterator[tuple[int, bytes, bytes]]:
    """Status, head in lower case and body of each answer."""
    while sent:
        head, _, sent = sent.partition(b"\r\n\r\n")
        length = re.search(rb"(?m)^content-length: (\d+)", head.lower())
        count = int(length[1]) if length and not bodiless else 0
        yield int(head.split(b" ")[1]), head.lower(), sent[:count]
        sent = sent[count:]


def judge_stream(case: Case, server: Server) -> None:
    expect, answers = case["expect"], stream_answers(server)
    if "stream_set" in expect:
        assert fit_as_a_set(expect["stream_set"], answers)
    elif "batch_line" in expect:
        assert fit_as_a_set(expect["batch_line"], answers[0])
    elif "stream_order" in expect:
        assert [answer["id"] for answer in answers] == expect["stream_order"]
    else:
        lists = [one for one in expect["stream_any"] if one != "errors"]
        only_errors = all("error" in answer for answer in answers)
        assert any(fit_as_a_set(one, answers) for one in lists) or only_errors


def judge_http(case: Case, server: Server) -> None:
    if server.wire.framing != "http":  # no HTTP answer, but the end
        assert case.get("or_close")
        assert server.closed
        return
    answers = list(http_answers(server.sent, case.get("head", False)))
    for expected, (status, head, body) in zip(case["expect"]["http"], answers, strict=False):
        assert status in expected["status"]
        assert not expected.get("rpc") or fits(expected["rpc"], json.loads(body))
        assert not expected.get("no_header") or expected["no_header"].encode() not in head
    assert len(answers) >= len(case["expect"]["http"])
    if case.get("closes"):
        assert server.closed
        assert len(answers) == len(case["expect"]["http"])


JUDGED = [case for case in CASES if case["group"] in GROUPS and case["id"] not in NEEDS_MORE]


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in JUDGED])
def test_case_of_the_list(drain: Drain, case: Case) -> None:
    server = run(case, drain)
    if "http" in case["expect"]:
        judge_http(case, server)
    elif "closed_or_error" in case["expect"]:
        assert server.closed
    else:
        judge_stream(case, server)


def test_the_list_is_whole() -> None:
    assert len(JUDGED) == 111

"""From messages to staged calls: what is refused, and who pays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from faircall.server.reader.staging import UNDECODED_METHOD, AdmissionLimits
from faircall.shm.columns import Counter
from faircall.shm.states import Phase
from faircall.workers import suggestion

from .reader_client import batch, call, post, reasons
from .reader_world import NOBODY_TRUSTED, World

Make = Callable[..., World]


# -- answers without a queue -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "meant"), [("sen", "seen"), ("rpc.pong", "rpc.ping"), (UNDECODED_METHOD[1:], "")]
)
def test_a_method_that_was_probably_meant_is_named(
    world: World, monkeypatch: pytest.MonkeyPatch, wanted: str, meant: str
) -> None:
    monkeypatch.setattr(suggestion, "_rests_until_ns", 0)
    client = world.connect()
    client.send(call(wanted, id=1))
    world.read()
    (answer,) = client.answers()
    hint = f"; did you mean {meant}?" if meant else ""
    assert answer["error"]["message"] == f"Method not found: {wanted}{hint}"


@pytest.mark.parametrize(
    ("line", "id_", "code"),
    [
        (b"{]\n", None, -32700),
        (b"[]\n", None, -32600),
        (b'{"id":7}\n', 7, -32600),
        (call("no_such", id=8), 8, -32601),
        (call("rpc.no_such", id=9), 9, -32601),
        (call(UNDECODED_METHOD, id=10), 10, -32601),
        (call("", id=11), 11, -32601),
    ],
)
def test_what_is_no_call_of_ours_is_answered_at_once(
    world: World, line: bytes, id_: Any, code: int
) -> None:
    client = world.connect()
    client.send(line)
    world.read()
    answer = client.answers()[0]
    assert (answer["id"], answer["error"]["code"]) == (id_, code)
    assert world.count(Counter.REFUSED_INVALID) == 1
    world.verify()


def test_what_is_wrong_with_a_notification_is_not_said(world: World) -> None:
    client = world.connect()
    client.send(call("no_such") + call("rpc.no_such"))
    world.read()
    assert client.read() == b""
    world.verify()


def test_a_bad_item_does_not_spoil_its_batch(world: World) -> None:
    client = world.connect()
    client.send(batch(call("echo", [1], 1), b"1", call("no_such", id=3), call("echo"), b"[]"))
    world.run()
    assert [(each["id"], "result" in each) for each in client.answers()[0]] == [
        (None, False),
        (3, False),
        (None, False),
        (1, True),
    ]


def test_ids_come_back_as_they_were_written(world: World) -> None:
    client = world.connect()
    ids = [b"0", b'""', b"1.0", b"1" + b"0" * 30, b"null", b'"\\u00e9"', b"-1e5"]
    for id_ in ids:
        client.send(b'{"jsonrpc":"2.0","method":"echo","id":' + id_ + b"}\n")
    world.run()
    found = client.read().splitlines()
    assert found == [b'{"jsonrpc":"2.0","id":' + id_ + b',"result":null}' for id_ in ids]


# -- who pays --------------------------------------------------------------------------------------


def test_a_caller_is_charged_for_what_is_refused_too(world: World) -> None:
    client = world.connect()
    client.send(call("faircall.hello", ["anna"], 0))
    client.send(batch(call("echo", id=1), call("no_such", id=2), call("echo")))
    client.send(call("no_such") + call("rpc.ping", id=3) + b"{}\n")
    world.run()
    assert world.charged("anna") == (4, 4)
    assert world.count(Counter.CALLS) == 7
    assert world.count(Counter.ANSWERED) == 7


def test_a_caller_that_was_evicted_is_charged_under_its_own_name(world: World) -> None:
    client, names = world.connect(), world.shared.names
    client.send(call("faircall.hello", ["anna"], 0))
    world.read()
    names.evict([names.identities.find("anna")])
    names.identity("bert", 0)
    world.pass_ms(1)
    client.send(call("seen", id=1))
    world.run()
    assert world.charged("anna") == (1, 1)
    assert world.seen[0].user == "anna"


def test_http_requests_of_one_connection_pay_each_for_itself(world: World) -> None:
    client = world.connect()
    for user, times in (("anna", 2), ("bert", 1)):
        client.send(post(call("seen", id=1), X_Faircall_User=user) * times)
    world.run()
    assert [each.user for each in world.seen] == ["anna", "bert", "anna"]  # in turn
    assert world.charged("anna") == (2, 2)
    assert world.charged("bert") == (1, 1)


def test_a_claim_that_is_not_believed_is_refused_and_charged_to_the_peer(make_world: Make) -> None:
    world = make_world(trusted=NOBODY_TRUSTED)
    client = world.connect(tcp=True)
    message = batch(call("echo", id=1), call("echo"), call("echo", id=2))
    client.send(post(message, X_Faircall_User="root"))
    client.send(post(call("echo"), X_Faircall_User="root"))
    world.run()
    assert reasons(client.http_answers()[0]) == [(1, "unauthenticated"), (2, "unauthenticated")]
    assert client.bodies()[1] == b""
    assert world.shared.names.identities.find("root") < 0
    assert world.charged("127.0.0.1") == (2, 2)
    assert world.count(Counter.CLAIMS_REFUSED) == 2


# -- limits of the house ---------------------------------------------------------------------------


def test_without_a_page_for_its_payload_a_call_is_refused(world: World) -> None:
    client = world.connect()
    world.send(client, call("echo", ["x" * 600_000], 1))
    world.run()
    data = client.answers()[0]["error"]["data"]
    assert (data["reason"], data["rule"]) == ("queue_full", "limits.segment-payload-bytes")
    assert world.count(Counter.REFUSED_QUEUE_FULL) == 1
    world.verify()


def test_without_a_slot_a_call_is_refused(world: World) -> None:
    slots = world.shared.geometry.slots
    client = world.connect()
    client.send(batch(*[call("echo", id=id_) for id_ in range(slots + 3)]))
    world.read()
    world.run()
    (answers,) = client.answers()
    rules = [each["error"]["data"].get("rule") for each in answers if "error" in each]
    assert rules.count("callqueue.total-capacity") == 3
    world.verify()


def test_a_reader_keeps_to_the_limits_of_a_request_when_it_refuses(make_world: Make) -> None:
    """An undecoded message is taken apart by the same rules, whoever does it."""
    limits = AdmissionLimits(frame_only_above_bytes=100, max_batch=1500)
    world = make_world(admission=limits)
    world.shared.phase.set(Phase.DRAINING, 0)
    client = world.connect()
    client.send(batch(*[call("echo", id=id_) for id_ in range(1200)]))
    world.run()
    (answers,) = client.answers()
    assert {each["error"]["data"]["reason"] for each in answers} == {"shutting_down"}
    assert [each["id"] for each in answers] == list(range(1200))


def test_a_server_that_stops_takes_no_new_call_and_answers_pings(world: World) -> None:
    client = world.connect()
    client.send(call("echo", id=1))
    world.read()
    world.shared.phase.set(Phase.DRAINING, 0)
    client.send(call("echo", id=2) + call("rpc.ping", id=3) + call("echo"))
    world.run()
    assert sorted(reasons(client.answers())) == [(1, "ok"), (2, "shutting_down"), (3, "ok")]
    assert world.count(Counter.SHUTTING_DOWN) == 2

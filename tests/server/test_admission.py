"""From messages to staged calls: who is charged, which deadline, which flags, which refusals."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from faircall.server.admission import UNDECODED_METHOD, AdmissionLimits
from faircall.shm import states
from faircall.shm.columns import Counter
from faircall.shm.layout import SLOT, word_of
from faircall.shm.names import OTHERS
from faircall.shm.states import Phase

from .reader_world import MS, NOBODY_TRUSTED, Client, World, batch, call, post, reasons

_S = {name: word_of(SLOT, name) for name in SLOT.names or ()}
LONG = AdmissionLimits(frame_only_above_bytes=100)
Make = Callable[..., World]


def staged(world: World, data: bytes) -> tuple[Client, int]:
    """Send `data`; the client, and the slot of the one call that is queued now."""
    client = world.connect()
    client.send(data)
    world.read()
    assert len(world.reader.book.calls) == 1
    return client, next(iter(world.reader.book.calls))


def timeout_ms(world: World, slot: int) -> float:
    arrived_ns, deadline_ns = (world.word(slot, _S[name]) for name in ("arrived_ns", "deadline_ns"))
    assert arrived_ns == world.now_ns
    return (deadline_ns - arrived_ns) / MS


def charged(world: World, name: str) -> tuple[int, int]:
    """(cost, calls) of a caller, over all processes."""
    row = world.shared.names.identities.find(name)
    assert row > OTHERS
    columns = world.shared.columns
    return int(columns.cost_totals()[row]), int(columns.call_totals()[row])


def client_answers(client: Client) -> list[Any]:
    return [json.loads(body) for body in client.bodies() if body]


def flags(world: World, slot: int) -> int:
    return world.word(slot, _S["call"]) >> states.FLAGS_SHIFT & 0xFF


# -- answers without a queue -------------------------------------------------------------------


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


# -- deadlines ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "asked", "expected"),
    [
        ("echo", None, 60_000),
        ("echo", 0, 0),
        ("echo", 0.5, 0.5),
        ("echo", 100_000, 100_000),
        ("echo", 1e12, 3_600_000),
        ("brief", None, 500),
        ("brief", 100, 100),
        ("brief", 10_000, 500),
    ],
)
def test_a_call_has_the_shorter_of_what_caller_and_method_allow(
    world: World, method: str, asked: float | None, expected: float
) -> None:
    meta = {} if asked is None else {"timeout_ms": asked}
    client = world.connect()
    client.send(call(method, id=1, meta=meta))
    if expected:
        world.read()
        assert timeout_ms(world, next(iter(world.reader.book.calls))) == expected
    world.run()
    assert reasons(client.answers()) == [(1, "ok" if expected else "deadline_exceeded")]
    world.verify()


def test_over_http_a_header_says_so_too_and_the_request_itself_wins(world: World) -> None:
    _, slot = staged(world, post(call("echo", id=1), X_Request_Timeout_Ms=250))
    assert timeout_ms(world, slot) == 250
    world.run()
    message = call("echo", id=1, meta={"timeout_ms": 70})
    _, slot = staged(world, post(message, X_Request_Timeout_Ms=250))
    assert timeout_ms(world, slot) == 70


def test_a_call_without_time_never_runs(world: World) -> None:
    client = world.connect()
    client.send(call("seen", id=1, meta={"timeout_ms": 0}))
    world.run()
    assert reasons(client.answers()) == [(1, "deadline_exceeded")]
    assert world.seen == []
    assert world.count(Counter.EXPIRED) == 1


# -- what goes with a call ---------------------------------------------------------------------


def test_context_trace_and_attempt_reach_the_method(world: World) -> None:
    meta = {"caller_context": "nightly", "traceparent": "00-a-b-01", "attempt": 2}
    client = world.connect()
    client.send(call("seen", id=1, meta=meta))
    world.run()
    seen = world.seen[0]
    assert (seen.context, seen.traceparent, seen.attempt) == ("nightly", "00-a-b-01", 2)


def test_headers_stand_in_for_what_the_request_does_not_say(world: World) -> None:
    client = world.connect()
    headers = {"X_Faircall_Context": "from-header", "Traceparent": "00-h-h-01"}
    client.send(post(call("seen", id=1, meta={"caller_context": "own"}), **headers))
    world.run()
    assert (world.seen[0].context, world.seen[0].traceparent) == ("own", "00-h-h-01")


def test_params_arrive_untouched_behind_a_meta(world: World) -> None:
    client = world.connect()
    client.send(call("echo", {"x": "é" * 2000}, 1, meta={"caller_context": "c" * 500}))
    world.run()
    assert client.answers()[0]["result"] == "é" * 2000


def test_a_context_that_is_far_too_long_is_left_out(world: World) -> None:
    client = world.connect()
    client.send(call("seen", id=1, meta={"caller_context": "c" * 70_000}))
    world.run()
    assert reasons(client.answers()) == [(1, "ok")]
    assert world.seen[0].context is None


def test_a_meta_of_the_wrong_kind_is_an_invalid_request(world: World) -> None:
    client = world.connect()
    for timeout in (-1, "5", True, 1e13):
        client.send(call("echo", id=1, meta={"timeout_ms": timeout}))
    world.read()
    assert [each["error"]["code"] for each in client.answers()] == [-32600] * 4


def test_flags_say_what_a_handler_must_know(world: World) -> None:
    _, slot = staged(world, call("echo", id=1))
    assert flags(world, slot) == states.IDEMPOTENT
    world.run()
    _, slot = staged(world, call("seen"))
    assert flags(world, slot) == states.NOTIFICATION
    world.run()
    _, slot = staged(world, call("seen", id=1, meta={"attempt": 1}))
    assert flags(world, slot) == states.WITH_META


def test_a_method_that_is_known_to_be_short_waits_among_the_short(world: World) -> None:
    _, slot = staged(world, call("echo", id=1))
    assert world.word(slot, _S["call"]) >> states.CLASS_SHIFT & 1 == states.LONG  # not known yet
    world.run()
    methods = world.shared.names.methods
    for expected_ns, cls in ((200_000, states.SHORT), (200_001, states.LONG)):
        methods.rows[methods.find("echo")]["expected_ns"] = expected_ns
        _, slot = staged(world, call("echo", id=1))
        assert world.word(slot, _S["call"]) >> states.CLASS_SHIFT & 1 == cls
        assert world.word(slot, _S["reserved"]) == expected_ns
        world.run()


def test_a_call_joins_the_level_that_is_published_for_its_caller(world: World) -> None:
    world.publish_level("anna", 2)
    client = world.connect()
    client.send(call("faircall.hello", ["anna"], 0))
    world.read()
    client.send(call("echo", id=1))
    world.read()
    slot = next(iter(world.reader.book.calls))
    assert world.word(slot) >> states.LEVEL_SHIFT & states.LEVEL_MASK == 2
    assert world.word(slot, _S["call"]) >> states.SCHEDULED_SHIFT & 0xFF == 2


# -- who pays ----------------------------------------------------------------------------------


def test_a_caller_is_charged_for_what_is_refused_too(world: World) -> None:
    client = world.connect()
    client.send(call("faircall.hello", ["anna"], 0))
    client.send(batch(call("echo", id=1), call("no_such", id=2), call("echo")))
    client.send(call("no_such") + call("rpc.ping", id=3) + b"{}\n")
    world.run()
    assert charged(world, "anna") == (4, 4)
    assert world.count(Counter.CALLS) == 7
    assert world.count(Counter.ANSWERED) == 7


def test_http_requests_of_one_connection_pay_each_for_itself(world: World) -> None:
    client = world.connect()
    for user, times in (("anna", 2), ("bert", 1)):
        client.send(post(call("seen", id=1), X_Faircall_User=user) * times)
    world.run()
    assert [each.user for each in world.seen] == ["anna", "bert", "anna"]  # in turn
    assert charged(world, "anna") == (2, 2)
    assert charged(world, "bert") == (1, 1)


def test_a_claim_that_is_not_believed_is_refused_and_charged_to_the_peer(make_world: Make) -> None:
    world = make_world(trusted=NOBODY_TRUSTED)
    client = world.connect(tcp=True)
    message = batch(call("echo", id=1), call("echo"), call("echo", id=2))
    client.send(post(message, X_Faircall_User="root"))
    client.send(post(call("echo"), X_Faircall_User="root"))
    world.run()
    assert reasons(client_answers(client)[0]) == [(1, "unauthenticated"), (2, "unauthenticated")]
    assert client.bodies()[1] == b""
    assert world.shared.names.identities.find("root") < 0
    assert charged(world, "127.0.0.1") == (2, 2)
    assert world.count(Counter.CLAIMS_REFUSED) == 2


# -- messages that are only framed ---------------------------------------------------------------


def test_a_long_message_is_decoded_by_a_handler(make_world: Make) -> None:
    world = make_world(admission=LONG)
    client, slot = staged(world, call("echo", ["x" * 100], 1))
    assert flags(world, slot) == states.UNDECODED
    world.run()
    assert client.answers()[0]["result"] == "x" * 100
    world.verify()


def test_a_message_of_exactly_the_limit_is_decoded_here(make_world: Make) -> None:
    world = make_world(admission=LONG)
    line = call("echo", [""], 1)
    line = call("echo", ["x" * (100 - len(line) + 1)], 1)  # without its newline
    _, slot = staged(world, line)
    assert flags(world, slot) == states.IDEMPOTENT


def test_a_long_batch_is_charged_like_a_short_one(make_world: Make) -> None:
    world = make_world(admission=LONG)
    client = world.connect()
    client.send(call("faircall.hello", ["anna"], 0))
    items = [call("echo", [number], number) for number in range(5)]
    client.send(batch(*items, call("echo"), b"1", call("no_such", id=9)))
    world.run()
    assert len(client.answers()[1]) == 7
    assert charged(world, "anna") == (7, 7)  # what is no request is charged by nobody


def test_a_long_batch_of_notifications_is_not_answered(make_world: Make) -> None:
    world = make_world(admission=LONG)
    client = world.connect()
    client.send(batch(*[call("seen")] * 5))
    world.run()
    assert (len(world.seen), client.read()) == (5, b"")
    world.verify()


def test_a_long_message_that_is_no_json_is_answered(make_world: Make) -> None:
    world = make_world(admission=LONG)
    client = world.connect()
    client.send(b"{" + b"x" * 200 + b"\n")
    world.run()
    assert client.answers()[0]["error"]["code"] == -32700
    world.verify()


def test_each_item_of_a_long_batch_has_a_meta_of_its_own(make_world: Make) -> None:
    world = make_world(admission=LONG)
    client = world.connect()
    items = (
        call("seen", id=1, meta={"caller_context": "first", "timeout_ms": 5}),
        call("spend", [10], 2),
        call("seen", id=3, meta={"timeout_ms": 5}),
        call("seen", id=4),
    )
    client.send(post(batch(*items), X_Faircall_Context="of-all"))
    world.run()
    (answers,) = client_answers(client)
    assert reasons(answers) == [(1, "ok"), (2, "ok"), (3, "deadline_exceeded"), (4, "ok")]
    assert [each.context for each in world.seen] == ["first", "of-all"]
    assert world.seen[0].deadline_ns < world.seen[1].deadline_ns


def test_what_a_dead_handler_leaves_of_a_long_message_names_its_ids(make_world: Make) -> None:
    world = make_world(admission=LONG)
    client = world.connect()
    client.send(batch(call("echo", ["x" * 100], 1), call("end", id=2), call("echo", id=3)))
    world.run()
    assert reasons(client.answers()[0]) == [(id_, "handler_died") for id_ in (1, 2, 3)]
    assert world.count(Counter.DIED) == 1
    world.verify()


def test_a_long_message_that_expires_names_its_ids(make_world: Make) -> None:
    world = make_world(admission=LONG)
    client = world.connect()
    message = batch(call("echo", ["x" * 100], 1), call("echo"), call("echo", id=3))
    client.send(post(message, X_Request_Timeout_Ms=5, X_Faircall_Context="c"))
    world.read()
    world.pass_ms(5)
    world.read()
    assert reasons(client_answers(client)[0]) == [
        (1, "deadline_exceeded"),
        (3, "deadline_exceeded"),
    ]
    world.run()
    world.verify()


# -- limits of the house -------------------------------------------------------------------------


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

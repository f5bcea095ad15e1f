"""What a staged call carries: its deadline, flags, class, level, and what its caller sent along."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from faircall.shm import states
from faircall.shm.columns import Counter

from .reader_client import call, post, reasons
from .reader_world import MS, World

Make = Callable[..., World]


def timeout_ms(world: World, slot: int) -> float:
    arrived_ns, deadline_ns = (world.word(slot, name) for name in ("arrived_ns", "deadline_ns"))
    assert arrived_ns == world.now_ns
    return (deadline_ns - arrived_ns) / MS


# -- deadlines -------------------------------------------------------------------------------------


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
        assert timeout_ms(world, world.only_slot()) == expected
    world.run()
    assert reasons(client.answers()) == [(1, "ok" if expected else "deadline_exceeded")]
    world.verify()


def test_over_http_a_header_says_so_too_and_the_request_itself_wins(world: World) -> None:
    _, slot = world.staged(post(call("echo", id=1), X_Request_Timeout_Ms=250))
    assert timeout_ms(world, slot) == 250
    world.run()
    message = call("echo", id=1, meta={"timeout_ms": 70})
    _, slot = world.staged(post(message, X_Request_Timeout_Ms=250))
    assert timeout_ms(world, slot) == 70


def test_a_call_without_time_never_runs(world: World) -> None:
    client = world.connect()
    client.send(call("seen", id=1, meta={"timeout_ms": 0}))
    world.run()
    assert reasons(client.answers()) == [(1, "deadline_exceeded")]
    assert world.seen == []
    assert world.count(Counter.EXPIRED) == 1


# -- what goes with a call -------------------------------------------------------------------------


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
    _, slot = world.staged(call("echo", id=1))
    assert world.flags(slot) == states.IDEMPOTENT
    world.run()
    _, slot = world.staged(call("seen"))
    assert world.flags(slot) == states.NOTIFICATION
    world.run()
    _, slot = world.staged(call("seen", id=1, meta={"attempt": 1}))
    assert world.flags(slot) == states.WITH_META


def test_a_method_that_is_known_to_be_short_waits_among_the_short(world: World) -> None:
    _, slot = world.staged(call("echo", id=1))
    assert world.word(slot, "call") >> states.CLASS_SHIFT & 1 == states.LONG  # not known yet
    world.run()
    methods = world.shared.names.methods
    for expected_ns, cls in ((1_000_000, states.SHORT), (1_000_001, states.LONG)):
        methods.rows[methods.find("echo")]["expected_ns"] = expected_ns
        _, slot = world.staged(call("echo", id=1))
        assert world.word(slot, "call") >> states.CLASS_SHIFT & 1 == cls
        assert world.word(slot, "reserved") == expected_ns
        world.run()


def test_a_method_some_of_whose_calls_are_interrupted_stays_short(world: World) -> None:
    """By its mean; one whose calls now and then take long themselves has a higher one."""
    methods = world.shared.names.methods
    row = methods.rows[methods.find("echo")]
    for mean_ns, cls in ((250_000, states.SHORT), (250_001, states.LONG)):
        row["expected_ns"], row["mean_ns"] = 4_000_000, mean_ns
        _, slot = world.staged(call("echo", id=1))
        assert world.word(slot, "call") >> states.CLASS_SHIFT & 1 == cls
        world.run()
    row["expected_ns"] = 0
    _, slot = world.staged(call("echo", id=1))
    assert world.word(slot, "call") >> states.CLASS_SHIFT & 1 == states.LONG  # known by no call


def test_a_method_that_serves_many_calls_at_once_is_not_short(world: World) -> None:
    methods = world.shared.names.methods
    row = methods.rows[methods.find("echo")]
    row["expected_ns"] = 1000
    row["flags"] |= states.TOGETHER
    _, slot = world.staged(call("echo", id=1))
    assert world.word(slot, "call") >> states.CLASS_SHIFT & 1 == states.LONG


def test_a_call_joins_the_level_that_is_published_for_its_caller(world: World) -> None:
    world.publish_level("anna", 2)
    client = world.connect()
    client.send(call("faircall.hello", ["anna"], 0))
    world.read()
    client.send(call("echo", id=1))
    world.read()
    slot = world.only_slot()
    assert world.word(slot) >> states.LEVEL_SHIFT & states.LEVEL_MASK == 2
    assert world.word(slot, "call") >> states.SCHEDULED_SHIFT & 0xFF == 2

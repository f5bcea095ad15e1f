"""What a reader refuses before it is offered to the queue, and in which form it says no."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from faircall.server.reader.backoff import BackOffRules
from faircall.shm.columns import Counter
from faircall.shm.layout import LEVEL, MAX_LEVELS
from faircall.shm.policy import QueuePolicy

from .reader_client import batch, call, post, reasons
from .reader_world import MS, START_NS, World

Make = Callable[..., World]
FEW = QueuePolicy(capacities=(1, 1, 1, 1), max_principal=16)
SLOW = BackOffRules(by_response_time=True, period_ms=5000, started_ns=START_NS - 1500 * MS)


def back_off(world: World, *levels: int) -> None:
    """As the janitor does it."""
    segment = world.shared.segment
    words = segment.records(LEVEL, segment.layout.level_words, MAX_LEVELS)
    words["backs_off"] = 0
    words["backs_off"][list(levels)] = 1


def numbered(count: int, first: int = 1) -> bytes:
    return b"".join(call("echo", [id_], id_) for id_ in range(first, first + count))


def data(answer: Any) -> dict[str, Any]:
    found: dict[str, Any] = answer["error"]["data"]
    return found


# -- response times ------------------------------------------------------------------------------


def test_a_level_that_backs_off_is_refused_until_it_is_let_in_again(make_world: Make) -> None:
    world = make_world(backoff_rules=SLOW)
    client = world.connect()
    world.publish_level(world.connection().caller.name, 2)
    back_off(world, 2, 3)
    client.send(numbered(1))
    world.read()
    (answer,) = client.answers()
    assert answer["error"]["code"] == -32005
    assert data(answer) == {
        "reason": "response_time",
        "retriable": True,
        "level": 2,
        "rule": "decay-scheduler.backoff.responsetime.thresholds",
        "retry_after_ms": 3500,  # the next sweep
    }
    assert world.count(Counter.REFUSED_RESPONSE_TIME) == 1
    back_off(world, 3)
    client.send(numbered(1, 2))
    world.run()
    assert reasons(client.answers()) == [(1, "response_time"), (2, "ok")]
    world.verify()


def test_other_levels_go_on(make_world: Make) -> None:
    world = make_world(backoff_rules=SLOW)
    client = world.connect()
    back_off(world, 2, 3)
    for level in (0, 1, 2, 3, 9):  # a level that is no more is the last one
        world.publish_level(world.connection().caller.name, level)
        client.send(call("echo", id=level))
        world.run()
    found = {answer["id"] for answer in client.answers() if "error" in answer}
    assert found == {2, 3, 9}


def test_nobody_is_refused_by_what_is_not_switched_on(make_world: Make) -> None:
    for settings in ({}, {"backoff_rules": SLOW, "backoff": False}):
        world = make_world(**settings)
        back_off(world, 0, 1, 2, 3)
        client = world.connect()
        client.send(numbered(2))
        world.run()
        assert reasons(client.answers()) == [(1, "ok"), (2, "ok")]


def test_items_of_a_batch_are_refused_one_by_one(make_world: Make) -> None:
    world = make_world(backoff_rules=SLOW)
    client = world.connect()
    back_off(world, 0)
    client.send(batch(call("rpc.ping", id=1), call("echo", id=2)))
    world.run()
    (answers,) = client.answers()
    assert sorted(reasons(answers)) == [(1, "ok"), (2, "response_time")]


# -- expected wait -------------------------------------------------------------------------------


def took(world: World, method: str, ns: int) -> None:
    row = world.shared.names.methods.find(method)
    world.shared.names.methods.rows[row]["expected_ns"] = ns


def test_a_level_is_bounded_by_its_expected_wait(make_world: Make) -> None:
    world = make_world(backoff_rules=BackOffRules(max_wait_ms=100))
    took(world, "echo", 80 * MS)  # two handlers: 40 ms for each call that waits
    client = world.connect()
    client.send(numbered(8))  # two go to handlers that are idle, two may wait behind them
    world.read()
    answers = client.answers()
    assert reasons(answers) == [(id_, "queue_full") for id_ in (6, 7, 8)]
    assert data(answers[0])["rule"] == "callqueue.max-wait-ms"
    assert data(answers[0])["level"] == 0
    assert data(answers[0])["retry_after_ms"] == 40  # one call too many
    assert world.count(Counter.REFUSED_MAX_WAIT) == 3
    world.run()
    client.send(numbered(1, 9))
    world.run()
    assert reasons(client.answers())[-1] == (9, "ok")


def test_a_lower_level_waits_longer_while_a_higher_one_is_busy(make_world: Make) -> None:
    world = make_world(backoff_rules=BackOffRules(max_wait_ms=500))
    took(world, "echo", 80 * MS)
    client = world.connect()
    name = world.connection().caller.name
    client.send(numbered(2))
    world.read()
    world.publish_level(name, 3)
    world.pass_ms(1)
    client.send(numbered(3, 3))  # level 3 is drawn 1 time in 15: 600 ms for each
    world.read()  # and nobody is idle any more
    assert reasons(client.answers()) == [(4, "queue_full"), (5, "queue_full")]


def test_an_idle_server_refuses_nobody(make_world: Make) -> None:
    """Not the first call of an hour, however slow it is; nor while nothing is known of times."""
    world = make_world(backoff_rules=BackOffRules(max_wait_ms=1))
    client = world.connect()
    client.send(numbered(8))
    world.run()
    assert reasons(client.answers()) == [(id_, "ok") for id_ in range(1, 9)]
    took(world, "spend", 10_000 * MS)
    for id_ in range(9, 12):
        world.pass_ms(3_600_000)
        client.send(call("spend", [5000], id_))
        world.run()
    assert {text for _, text in reasons(client.answers())} == {"ok"}


def test_what_calls_took_an_hour_ago_says_nothing_about_a_burst(make_world: Make) -> None:
    world = make_world(backoff_rules=BackOffRules(max_wait_ms=100))
    client = world.connect()
    for id_ in range(1, 4):
        client.send(call("spend", [20_000], id_))
        world.run()
    world.pass_ms(3_600_000)
    client.send(numbered(8, 10))
    world.run()
    assert {text for _, text in reasons(client.answers())} == {"ok"}


def test_what_few_calls_have_drained_does_not_bound_what_could(make_world: Make) -> None:
    world = make_world(backoff_rules=BackOffRules(max_wait_ms=100))
    client = world.connect()
    for id_ in range(1, 9):  # 2 calls each second, of 1 ms each
        client.send(call("spend", [1], id_))
        world.run()
        world.pass_ms(500)
    client.send(b"".join(call("spend", [1], id_) for id_ in range(10, 18)))
    world.run()
    assert {text for _, text in reasons(client.answers())} == {"ok"}


# -- forms ---------------------------------------------------------------------------------------


def test_the_fail_over_form_sends_the_caller_elsewhere(make_world: Make) -> None:
    rules = BackOffRules(failover=True, by_response_time=True)
    world = make_world(policy=FEW, backoff_rules=rules)
    client = world.connect()
    client.send(numbered(5))
    world.read()
    back_off(world, 0)
    client.send(numbered(1, 6))
    world.read()
    full, slow = client.answers()
    for answer in (full, slow):
        assert answer["error"]["code"] == -32057
        assert data(answer) == {
            "reason": "standby",
            "retriable": True,
            "level": 0,
            "rule": "callqueue.overflow.trigger.failover",
        }
    assert world.count(Counter.FAILED_OVER) == 2
    assert world.count(Counter.REFUSED_QUEUE_FULL) == 1
    world.run()
    assert len(client.answers()) == 6
    assert not client.ended


def test_a_caller_that_holds_its_whole_share_is_not_sent_elsewhere(make_world: Make) -> None:
    world = make_world(
        policy=QueuePolicy(capacities=(8,) * 4, max_principal=1),
        backoff_rules=BackOffRules(failover=True, disconnects=True),
    )
    client = world.connect()
    client.send(numbered(2))
    world.run()
    assert sorted(reasons(client.answers())) == [(1, "ok"), (2, "too_many_in_flight")]
    assert not client.ended


@pytest.mark.parametrize(("level", "closes"), [(0, False), (3, True)])
def test_the_disconnect_form_closes_for_the_last_level_when_all_is_answered(
    make_world: Make, level: int, closes: bool
) -> None:
    world = make_world(policy=FEW, backoff_rules=BackOffRules(disconnects=True))
    client = world.connect()
    world.publish_level(world.connection().caller.name, level)
    room = 4 - level
    client.send(numbered(room + 1))
    world.read()
    assert reasons(client.answers()) == [(room + 1, "queue_full")]
    client.send(numbered(1, 9))
    world.run()
    client.read()
    assert client.ended is closes
    answered = dict(reasons(client.answers()))
    taken = {id_: "ok" for id_ in range(1, room + 1)} | {room + 1: "queue_full"}
    assert answered == taken | ({} if closes else {9: "queue_full"})
    assert world.count(Counter.CLOSED_BACKOFF) == int(closes)
    world.finish()


def test_back_off_by_response_time_closes_for_any_level(make_world: Make) -> None:
    world = make_world(backoff_rules=BackOffRules(disconnects=True, by_response_time=True))
    client = world.connect()
    back_off(world, 0)
    client.send(numbered(1))
    world.run()
    assert reasons(client.answers()) == [(1, "response_time")]
    assert client.ended
    world.finish()


def test_over_http_the_refusal_and_what_came_before_it_are_answered_first(
    make_world: Make,
) -> None:
    world = make_world(backoff_rules=BackOffRules(disconnects=True, by_response_time=True))
    client = world.connect()
    client.send(post(call("echo", ["x"], 1)))
    world.read()
    back_off(world, 0)
    client.send(post(call("echo", ["y"], 2)) + post(call("echo", ["z"], 3)))
    world.run()
    assert reasons(client.http_answers())[:2] == [(1, "ok"), (2, "response_time")]
    assert client.ended
    world.finish()

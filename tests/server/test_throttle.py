"""Which limiters a reader names for a call, and what a full table of them means."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from faircall.server.limits import Switches
from faircall.server.rates_in_force import put_in_force
from faircall.shm.columns import Counter
from faircall.shm.limiter_counters import L_KEY, L_RUNNING, L_USED
from faircall.shm.rates import RatesTooLong
from faircall.shm.slot_limiters import W_BUDGET
from faircall.shm.terms import HANDLER, Kind, key_of, kind_of

from .reader_client import batch, call
from .reader_world import SMALL, World

Make = Callable[..., World]
GEOMETRY = replace(SMALL, limiters=24)
S = 1_000_000_000


@pytest.fixture
def throttled(make_world: Make) -> Callable[..., World]:
    """A world under rates, of which a line each."""

    def make(*lines: str, **switches: object) -> World:
        world = make_world(geometry=GEOMETRY)
        world.now_ns = 1000 * S
        put_in_force(world.shared, Switches(**switches), lines, world.now_ns)  # type: ignore[arg-type]
        return world

    return make


def kinds(world: World) -> list[str]:
    """Of the limiters that there are."""
    limiters = world.shared.table.limiters
    found = (limiters.q[limiters.at(row) + L_KEY] for row in limiters.used_rows())
    return sorted(kind_of(key).name for key in found)


def used(world: World, kind: Kind, number: int = 0, d: int = 0) -> int:
    limiters = world.shared.table.limiters
    row = limiters.find(key_of(kind, number))
    return limiters.q[limiters.at(row) + L_USED + d] & 0xFFFF_FFFF


def ids(answers: Sequence[object]) -> list[int]:
    return sorted(answer["id"] for answer in answers)  # type: ignore[index]


def test_a_call_is_charged_to_every_limiter_that_is_its(throttled: Callable[..., World]) -> None:
    world = throttled("server: calls=9", "each method: calls=9", "callers of echo: calls=9")
    client = world.connect()
    client.send(call("echo", [1], 1) + call("seen", [], 2))
    world.run()
    assert ids(client.answers()) == [1, 2]
    assert kinds(world) == ["METHOD", "METHOD", "PAIR", "SERVER"]
    assert used(world, Kind.SERVER) == 2


def test_calls_wait_for_the_next_period(throttled: Callable[..., World]) -> None:
    world = throttled("method echo: calls=2")
    client = world.connect()
    client.send(b"".join(call("echo", [id_], id_) for id_ in range(5)))
    world.run()
    assert ids(client.answers()) == [0, 1]
    world.pass_ms(1000)
    world.run()
    assert ids(client.answers()) == [0, 1, 2, 3]


def test_an_exempt_method_has_no_limit(throttled: Callable[..., World]) -> None:
    world = throttled("server: block", "exempt echo")
    client = world.connect()
    client.send(call("echo", [1], 1) + call("seen", [], 2))
    world.run()
    (refused, served) = sorted(client.answers(), key=lambda answer: -answer["id"])
    assert served["result"] == 1
    assert refused["error"]["data"] == {
        "reason": "throttled",
        "retriable": False,
        "level": 0,
    }
    assert world.count(Counter.THROTTLED) == 1


def test_handler_time_of_a_call_is_what_it_took(throttled: Callable[..., World]) -> None:
    world = throttled("server: handler-ms=1000")
    client = world.connect()
    client.send(call("spend", [250], 1))
    world.run()
    assert used(world, Kind.SERVER, d=HANDLER) == 250_000
    assert kinds(world) == ["METHOD", "SERVER"], "the method's row learns what its calls take"


def test_a_resource_is_shared_by_its_methods(throttled: Callable[..., World]) -> None:
    world = throttled("resource gpu of echo seen: calls=1")
    client = world.connect()
    client.send(call("echo", [1], 1) + call("seen", [], 2) + call("big", [1], 3))
    world.run()
    assert ids(client.answers()) == [1, 3]


def test_a_batch_counts_as_one_call_if_it_is_to(throttled: Callable[..., World]) -> None:
    world = throttled("server: calls=1", batches=True)
    client = world.connect()
    client.send(batch(*[call("echo", [id_], id_) for id_ in range(4)]))
    world.run()
    (answers,) = client.answers()
    assert ids(answers) == [0, 1, 2, 3]
    assert used(world, Kind.SERVER) == 1


def test_rates_that_change_are_in_force_for_the_next_call(throttled: Callable[..., World]) -> None:
    world = throttled("method echo: calls=5")
    client = world.connect()
    client.send(b"".join(call("echo", [id_], id_) for id_ in range(4)))
    world.run()
    put_in_force(world.shared, Switches(), ["method echo: calls=5"], world.now_ns)
    put_in_force(world.shared, Switches(), ["method echo: calls=6"], world.now_ns)
    client.send(b"".join(call("echo", [id_], id_) for id_ in range(4, 8)))
    world.run()
    assert ids(client.answers()) == [0, 1, 2, 3, 4, 5], "four of the six were used"


def test_rates_that_are_too_long_change_nothing(throttled: Callable[..., World]) -> None:
    """They are refused before the lock is taken: in its section an error would end the process."""
    world = throttled("method echo: calls=5")
    lines = [f"method m{number}: calls=1" for number in range(4000)]
    with pytest.raises(RatesTooLong):
        put_in_force(world.shared, Switches(), lines, world.now_ns)
    assert "echo" in world.shared.rates.read()[1]


def test_a_slot_that_is_free_names_nothing(throttled: Callable[..., World]) -> None:
    world = throttled("server: calls=9")
    client = world.connect()
    client.send(call("echo", [1], 1))
    world.run()
    assert len(world.shared.table.budgets.named_by()) == 0
    assert not world.shared.table.words[:, W_BUDGET].any()


def test_callers_without_a_row_of_their_own_share_one(throttled: Callable[..., World]) -> None:
    """As does everybody while the table is full; whoever is idle makes room."""
    world = throttled("callers of echo: calls=1", most_callers=2)
    clients = []
    for number in range(4):
        clients.append(world.connect())
        clients[-1].send(call("faircall.hello", {"user": f"user-{number}"}, 0))
        world.run()
        clients[-1].send(call("echo", [number], 1))
    world.run()
    assert kinds(world) == ["OTHERS", "PAIR", "PAIR"]
    answers = [len(client.answers()) - 1 for client in clients]
    assert answers == [1, 1, 1, 0]
    world.pass_ms(1000)
    world.run()
    assert len(clients[3].answers()) == 2
    clients[2].send(call("echo", [2], 2))
    world.run()
    assert kinds(world) == ["OTHERS", "PAIR", "PAIR"], "what they used in common is not paid yet"
    world.pass_ms(5000)
    world.run()
    world.pass_ms(5000)
    clients[2].send(call("echo", [2], 3))
    world.run()
    assert kinds(world) == ["OTHERS", "PAIR"], "the two idle rows made room"


def test_a_row_that_was_made_by_other_rates_is_renewed_by_who_names_it(
    throttled: Callable[..., World],
) -> None:
    """As of a janitor that died before it was there."""
    world = throttled("server: calls=2")
    client = world.connect()
    client.send(call("echo", [1], 1))
    world.run()
    with world.shared.table.queue_lock:  # the text, and nothing after it
        text = world.shared.rates.read()[1].replace("calls=2", "calls=3")
        world.shared.rates.write(text)
    client.send(b"".join(call("echo", [id_], id_) for id_ in range(2, 6)))
    world.run()
    assert ids(client.answers()) == [1, 2, 3]


def test_a_full_table_makes_room_of_rows_that_nobody_uses(throttled: Callable[..., World]) -> None:
    world = throttled("server: calls=9")
    client = world.connect()
    for number in range(2 * GEOMETRY.limiters):
        line = f"resource r{number} of echo: calls=9"
        put_in_force(world.shared, Switches(), [line], world.now_ns)
        client.send(call("echo", [number], number))
        world.run()
        world.pass_ms(2000)
    assert len(client.answers()) == 2 * GEOMETRY.limiters


def test_each_reader_may_have_budgets_of_its_own(throttled: Callable[..., World]) -> None:
    world = throttled("server: calls=1", "callers of echo: calls=5", per_process=True)
    client = world.connect()
    client.send(call("echo", [1], 1) + call("echo", [2], 2))
    world.run()
    assert ids(client.answers()) == [1]
    limiters = world.shared.table.limiters
    assert limiters.find(key_of(Kind.SERVER)) == -1
    assert limiters.find(key_of(Kind.SERVER, 0, 1)) >= 0


def test_calls_of_a_batch_are_not_exceeded(throttled: Callable[..., World]) -> None:
    """How many calls it holds is known: where it does not count as one, they go one by one."""
    world = throttled("server: calls=5")
    client = world.connect()
    client.send(batch(*[call("echo", [id_], id_) for id_ in range(12)]))
    ran = []
    for _ in range(3):
        before = world.count(Counter.RUN)
        world.run()
        ran.append(world.count(Counter.RUN) - before)
        world.pass_ms(1000)
    assert ran == [5, 5, 2]
    (answers,) = client.answers()
    assert ids(answers) == list(range(12))


def test_handlers_settle_from_the_first_rate_on(make_world: Make) -> None:
    """A call that was claimed before has nothing to be settled."""
    world = make_world(geometry=GEOMETRY)
    client = world.connect()
    client.send(call("echo", [1], 1) + call("echo", [2], 2))
    world.read()
    slots, tokens = [0], [0]
    assert world.shared.table.claim(1, world.now_ns, slots, tokens) == 1
    assert not world.shared.table.limiters.used_rows()
    put_in_force(world.shared, Switches(), ["method echo: running=1"], world.now_ns)
    world.read()
    world.run()
    world.handlers[1]._serve(slots[0], tokens[0])
    world.handlers[1]._publish()
    client.send(call("echo", [3], 3))
    world.run()
    assert ids(client.answers()) == [1, 2, 3]
    limiters = world.shared.table.limiters
    (row,) = limiters.used_rows()
    assert limiters.q[limiters.at(row) + L_RUNNING] == 0


def test_calls_that_wait_are_named_again_held_ones_too(make_world: Make) -> None:
    world = make_world(geometry=GEOMETRY)
    client = world.connect()
    client.send(b"".join(call("echo", [id_], id_) for id_ in range(4)))
    world.read()
    world.now_ns = 1000 * S
    put_in_force(world.shared, Switches(), ["server: calls=1"], world.now_ns)
    world.read()
    world.run()
    assert ids(client.answers()) == [0]
    put_in_force(world.shared, Switches(), ["server: calls=9", "method echo: block"], world.now_ns)
    world.read()
    world.run()
    assert ids(client.answers()) == [0], "let go by the server's, and held by the method's"
    assert world.shared.table.recovery.audit() == []
    put_in_force(world.shared, Switches(), ["server: calls=9"], world.now_ns)
    world.read()
    world.run()
    assert ids(client.answers()) == [0, 1, 2, 3]
    world.verify()


def test_held_calls_that_fall_under_nothing_any_more_go(make_world: Make) -> None:
    world = make_world(geometry=GEOMETRY)
    world.now_ns = 1000 * S
    put_in_force(world.shared, Switches(), ["server: calls=1"], world.now_ns)
    client = world.connect()
    client.send(b"".join(call("echo", [id_], id_) for id_ in range(4)))
    world.run()
    assert ids(client.answers()) == [0]
    put_in_force(world.shared, Switches(), [], world.now_ns)
    world.read()
    world.run()
    assert ids(client.answers()) == [0, 1, 2, 3]
    world.verify()

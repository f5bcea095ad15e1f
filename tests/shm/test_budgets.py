"""What calls are charged on the shared table, and what holds them."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from faircall.scheduling.dispatch_rate import MOST_PERIOD_S
from faircall.shm.answers import WITHDRAWN
from faircall.shm.budgets import RESERVED
from faircall.shm.layout import SLOT, word_of
from faircall.shm.limiter_counters import L_EVENTS, L_HELD, L_HELD_NS, L_RUNNING, L_USED
from faircall.shm.offers import THROTTLED
from faircall.shm.rings import SLOT_WORDS
from faircall.shm.slot_limiters import W_BUDGET, follow
from faircall.shm.states import HELD
from faircall.shm.terms import (
    ANSWER,
    BYTES,
    CALLS,
    DRY_RUN,
    HANDLER,
    IN_ORDER,
    LEARNS,
    LEARNS_SHIFT,
    PACED,
    REFUSED,
    REQUEST,
    RUNNING_CAP,
)

from ..fault.calls import Call
from ..fault.world import POLICY, SMALL, World
from .conftest import MakeWorld

S = 1_000_000_000
MS = S // 1000


def limit(world: World, row: int = 0, calls: int = -1, **terms: Any) -> int:
    """Limiter `row` of so many calls a second, or of other terms."""
    return world.limit(row, calls, S, **terms)


def offer(world: World, count: int = 1, **kind: Any) -> list[Call]:
    calls = [world.call(**({"limiters": (0,)} | kind)) for _ in range(count)]
    assert set(world.reader(0).offer(calls)) == {0}
    return calls


def work(world: World, now_ns: int) -> int:
    """How many calls may go at `now_ns`; each is settled and answered at once."""
    count = 0
    while ran := world.handler(1).work(now_ns):
        count += len(ran)
        assert world.audit() == []
    world.reader(0).gather()
    return count


def used(world: World, row: int = 0, d: int = CALLS) -> int:
    return world.q[world.table.limiters.at(row) + L_USED + d] & 0xFFFF_FFFF


def word(world: World, at: int, row: int = 0) -> int:
    return world.q[world.table.limiters.at(row) + at]


def own(world: World, index: int) -> int:
    """Where the words of the reader's `index`-th call begin."""
    return world.table.slot0 + list(world.reader(0).calls)[index] * SLOT_WORDS


def test_a_period_lets_through_what_its_limit_says(world: World) -> None:
    limit(world, calls=3)
    offer(world, 8)
    assert [work(world, n * S) for n in range(4)] == [3, 3, 2, 0]


def test_in_a_period_calls_go_at_its_beginning_and_paced_by_parts(world: World) -> None:
    limit(world, calls=2)
    offer(world, 4)
    assert [work(world, n * S // 2) for n in range(5)] == [2, 0, 2, 0, 0]
    limit(world, calls=2, flags=PACED)
    offer(world, 4)
    assert [work(world, 5 * S + n * S // 2) for n in range(5)] == [1, 1, 1, 1, 0]


def test_all_limiters_of_a_call_are_charged_or_none(world: World) -> None:
    limit(world, 0, calls=5)
    limit(world, 1, calls=2)
    offer(world, 4, limiters=(0, 1))
    assert work(world, 0) == 2
    assert (used(world, 0), used(world, 1)) == (2, 2)
    offer(world, 2, limiters=(0,), who=2)
    assert work(world, 0) == 2, "those that the other one holds do not block"
    assert (used(world, 0), used(world, 1)) == (4, 2)


def test_a_new_call_is_held_with_those_of_its_key(world: World) -> None:
    """No handler has to look at it before they open; its turn is the earlier one."""
    limit(world, calls=1)
    first, second = offer(world, 2)
    assert work(world, 0) == 1
    (other,) = offer(world, who=2)
    assert [world.state(slot) for slot in world.reader(0).calls] == [HELD, HELD]
    assert world.audit() == []
    assert [work(world, S), work(world, 2 * S)] == [1, 1]
    assert world.ledger.run_order(0) == [first.tag, other.tag, second.tag]
    assert word(world, L_EVENTS + CALLS) == 2


def test_a_call_that_nobody_has_looked_at_overtakes_none_that_is_held(
    make_world: MakeWorld,
) -> None:
    roomy = replace(POLICY, capacities=(16,) * 4)
    world = make_world(roomy, replace(SMALL, slots=16, small_pages=32))
    limit(world, calls=2)
    mine = [*offer(world, 4), *offer(world, limiters=())]
    others = [*offer(world, 4, who=2, limiters=()), *offer(world, who=2)]
    for _ in range(7):
        world.handler(1).claim(0, most=1)
    assert world.table.recovery.count_states()["HELD"] == 2
    assert world.q[world.table.waiting_word] == 1, "the last, in the turn of those to be let go"
    settle(world, 0, 0, 0)
    assert [work(world, S), work(world, 2 * S)] == [2, 1]
    ran = world.ledger.run_order(0)
    assert [tag for tag in ran if tag not in [c.tag for c in others[:4]]] == [
        *(call.tag for call in (mine[0], mine[1], mine[4], mine[2], mine[3])),
        others[4].tag,
    ]
    assert word(world, L_EVENTS + IN_ORDER) == 1


def test_who_has_few_calls_held_is_not_behind_who_has_many(world: World) -> None:
    limit(world, calls=2)
    offer(world, 5)
    assert work(world, 0) == 2
    (other,) = offer(world, who=2)
    assert work(world, 0) == 0
    assert work(world, S) == 2
    assert other.tag in world.ledger.run_order(0)[2:4]


def test_bytes_of_requests_are_charged_and_one_call_may_overdraw(world: World) -> None:
    limit(world, limits=(-1, 100, -1), flags=REQUEST)
    offer(world, 3, asks=250)
    assert [work(world, n * S) for n in range(6)] == [1, 0, 1, 0, 0, 1]


def settle(world: World, us: int, answer: int, now_ns: int, *, ran: bool = True) -> None:
    """Handler 1 settles, answers and publishes all that it has claimed."""
    handler = world.handler(1)
    slots = [slot for slot, _ in handler.claimed]
    world.table.settle(slots, [(us, answer, ran)] * len(slots), now_ns)
    while handler.claimed:
        handler.run()
    handler.publish()
    world.reader(0).gather()
    assert world.audit() == []


def test_handler_time_is_reserved_at_the_average_and_settled(world: World) -> None:
    limit(world, limits=(-1, -1, 1_000_000))
    method = world.call(limiters=(0,)).tag % 4
    world.table.limiters.set_average(method, 300_000 << 32 | 1)
    calls = [Call(method, limiters=(0,)) for _ in range(1)]
    world.calls[method] = calls[0]
    world.reader(0).offer(calls)
    assert world.handler(1).claim(0) == [method]
    assert used(world, d=HANDLER) == 300_000
    assert word(world, L_RUNNING) == 1
    settle(world, 500_000, 0, MS)
    assert used(world, d=HANDLER) == 500_000
    assert word(world, L_RUNNING) == 0
    assert world.table.limiters.average(method + 1) >> 32 == 325_000


@pytest.mark.parametrize(("ended_ns", "left"), [(S - 1, 100_000), (S, 0)])
def test_what_was_reserved_too_much_comes_back_in_its_own_period(
    world: World, ended_ns: int, left: int
) -> None:
    limit(world, limits=(-1, -1, 400_000))
    world.table.limiters.set_average(1, 300_000 << 32 | 1)
    offer(world)
    world.handler(1).claim(0)
    settle(world, 100_000, 0, ended_ns)
    assert used(world, d=HANDLER) == left


def test_bytes_of_answers_are_settled(world: World) -> None:
    limit(world, limits=(-1, 1000, -1), flags=ANSWER | REQUEST)
    offer(world, asks=16)
    world.handler(1).claim(0)
    assert used(world, d=BYTES) == 16
    settle(world, 5, 700, 0)
    assert used(world, d=BYTES) == 716


def test_a_call_that_never_ran_teaches_nothing(world: World) -> None:
    limit(world, limits=(-1, -1, 1000))
    offer(world)
    world.handler(1).claim(0)
    settle(world, 0, 0, 0, ran=False)
    assert world.table.limiters.average(2) == 0


def test_a_cap_of_running_calls_opens_when_one_ends(world: World) -> None:
    limit(world, running=1)
    offer(world, 2)
    assert len(world.handler(1).claim(0)) == 1
    assert world.handler(0).claim(0) == []
    assert word(world, L_EVENTS + RUNNING_CAP) == 1
    assert world.q[world.table.held.next_open_word] == 0, "there is no time to wake up at"
    settle(world, 1, 1, 0)
    assert 0 < world.q[world.table.held.next_open_word] <= 1000
    assert len(world.handler(0).claim(1000)) == 1


def test_a_method_that_never_ran_goes_one_at_a_time(world: World) -> None:
    """Its row learns, until the first call of it is settled."""
    limit(world, flags=LEARNS | 2 << LEARNS_SHIFT)
    first = world.call(limiters=(0,))
    assert first.tag == 1
    world.reader(0).offer([first, first, first])
    assert len(world.handler(1).claim(0)) == 1
    assert world.handler(0).claim(0) == []
    settle(world, 700, 3, 0)
    assert len(world.handler(1).claim(1000)) == 1
    assert len(world.handler(0).claim(1000)) == 1


def test_a_dry_run_counts_and_holds_nothing(world: World) -> None:
    limit(world, calls=2, flags=DRY_RUN)
    offer(world, 5)
    assert work(world, 0) == 5
    assert word(world, L_EVENTS + CALLS) == 3
    assert used(world) == 5


def test_a_call_that_cannot_go_before_its_deadline_is_refused_at_once(world: World) -> None:
    limit(world, calls=1)
    offer(world)
    assert work(world, 0) == 1
    reader = world.reader(0)
    slot = reader.stage(world.call(limiters=(0,)))
    world.q[reader.own(slot) + word_of(SLOT, "deadline_ns")] = S
    assert reader.enqueue([slot]) == [THROTTLED]
    assert word(world, L_EVENTS + REFUSED) == 1
    slot = reader.stage(world.call(limiters=(0,)))
    world.q[reader.own(slot) + word_of(SLOT, "deadline_ns")] = S + 1
    assert reader.enqueue([slot]) == [0]


def test_how_long_calls_were_held_is_known(world: World) -> None:
    limit(world, calls=1)
    offer(world, 3)
    assert [work(world, n * S) for n in range(3)] == [1, 1, 1]
    assert word(world, L_HELD_NS) == 3 * S
    assert word(world, L_HELD) == 0


def test_the_head_of_a_batch_pays_for_the_others(world: World) -> None:
    limit(world, limits=(2, 1000, -1), flags=REQUEST)
    calls = [world.call(limiters=(0,), asks=20) for _ in range(4)]
    reader = world.reader(0)
    slots = [reader.stage(call) for call in calls]
    for one, following in itertools.pairwise(slots):
        follow(world.q, reader.own(one), reader.own(following), following)
    assert reader.enqueue(slots) == [0] * 4
    assert work(world, 0) == 4
    assert (used(world), used(world, d=BYTES)) == (1, 80)


@pytest.mark.parametrize("asks", [20, 0])
def test_the_others_of_a_batch_go_with_its_head(world: World, asks: int) -> None:
    limit(world, limits=(1, 100 if asks else -1, -1), flags=REQUEST)
    reader = world.reader(0)
    for _ in range(2):
        calls = [world.call(limiters=(0,), asks=asks or 16) for _ in range(4)]
        slots = [reader.stage(call) for call in calls]
        for one, following in itertools.pairwise(slots):
            follow(world.q, reader.own(one), reader.own(following), following)
        assert reader.enqueue(slots) == [0] * 4
    assert [work(world, n * S) for n in range(3)] == [4, 4, 0]


def test_what_comes_behind_a_withdrawn_call_of_a_batch_pays_itself(world: World) -> None:
    limit(world, calls=5)
    calls = [world.call(limiters=(0,)) for _ in range(3)]
    reader = world.reader(0)
    slots = [reader.stage(call) for call in calls]
    for one, following in itertools.pairwise(slots):
        follow(world.q, reader.own(one), reader.own(following), following)
    reader.enqueue(slots)
    assert reader.withdraw(slots[1:2]) == [WITHDRAWN]
    assert work(world, 0) == 2
    assert used(world) == 2


@pytest.mark.parametrize("flags", [REQUEST, REQUEST | PACED])
def test_a_debt_that_no_clock_pays_ends_nobody(world: World, flags: int) -> None:
    year_ns = MOST_PERIOD_S * S
    world.limit(0, limits=(-1, 1, -1), period_ns=year_ns, flags=flags)
    reader, slot = world.reader(0), world.reader(0).stage(world.call(limiters=(0,)))
    world.q[reader.own(slot) + word_of(SLOT, "request")] |= 0xFFFF_FFFF << 32
    assert reader.enqueue([slot]) == [0]
    assert world.handler(0).claim(0)
    assert reader.enqueue([reader.stage(world.call(limiters=(0,)))]) == [THROTTLED]
    world.table.recovery.rebuild_queue()
    assert world.audit() == []


def test_as_many_are_let_go_as_there_is_room_for(world: World) -> None:
    """Ten thousand held calls must not be looked at for every opening."""
    limit(world, calls=2)
    offer(world, 8)
    assert work(world, 0) == 2
    world.handler(1).claim(S, most=1)
    assert world.table.recovery.count_states()["HELD"] == 4, "two of six were let go"
    assert world.audit() == []


def test_what_finds_no_room_after_all_stays_before_its_callers_later_calls(
    make_world: MakeWorld,
) -> None:
    """Each level is let go as many as there is room for: half of them are held again."""
    roomy = replace(POLICY, capacities=(64,) * 4)
    world = make_world(roomy, replace(SMALL, slots=64, small_pages=128))
    limit(world, calls=4)
    callers = [[call.tag for call in offer(world, 12, who=who, level=who - 1)] for who in (1, 2)]
    for period in range(1, 8):
        for level in (0, 1):
            offer(world, 5, who=3, level=level, limiters=())
        work(world, period * S)
    for level, tags in enumerate(callers):
        assert [tag for tag in world.ledger.run_order(level) if tag in tags] == tags


def test_a_call_that_was_let_go_can_be_withdrawn(world: World) -> None:
    limit(world, calls=2)
    offer(world, 6)
    assert work(world, 0) == 2
    world.handler(1).claim(S, most=1)
    waiting = [slot for slot in world.reader(0).calls if world.state(slot) == 1]
    assert len(waiting) == 1
    assert world.reader(0).withdraw(waiting) == [WITHDRAWN]
    assert world.audit() == []
    settle(world, 0, 0, S)
    assert work(world, S) == 1


def test_a_death_leaves_everything_charged(world: World) -> None:
    """Its handler died: what it ran for is added to what was reserved, and nothing comes back."""
    limit(world, limits=(10, -1, 1_000_000))
    offer(world)
    (tag,) = world.handler(0).claim(0)
    slot = next(iter(world.reader(0).calls))
    generation = world.reader(0).generation(slot)
    world.q[world.handler(0).current] = generation << 32 | slot + 1
    world.table.recovery.reap_handler(0, 250 * MS)
    assert (used(world), used(world, d=HANDLER)) == (1, 250_000)
    assert word(world, L_RUNNING) == 0
    assert world.q[own(world, 0) + W_BUDGET] & RESERVED == 0
    world.dead_handlers.add(0)
    assert world.audit() == []
    assert tag


def test_a_second_run_is_charged_again(world: World) -> None:
    limit(world, calls=5)
    offer(world, idempotent=True)
    world.handler(0).claim(0)
    world.table.recovery.reap_handler(0)
    assert work(world, 0) == 1
    assert used(world) == 2


def test_held_calls_are_what_the_states_say(world: World) -> None:
    limit(world, calls=1)
    offer(world, 3)
    assert work(world, 0) == 1
    assert [world.state(slot) for slot in world.reader(0).calls] == [HELD, HELD]


@pytest.mark.parametrize("limiters", [(0,), (0, 1), (1, 0)])
def test_charging_in_one_look_is_charging(
    make_world: MakeWorld, limiters: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With and without the short way the same calls go, and leave the same words."""
    found = []
    for short in (True, False):
        world = make_world()
        for row, calls in enumerate((3, 4)):
            limit(world, row, calls)
        if not short:
            monkeypatch.setattr(world.table.plain_charges, "charge", lambda *_: False)
        offer(world, 6, limiters=limiters)
        counts = [work(world, now_ns) for now_ns in (5 * S, 5 * S + MS, 6 * S, 9 * S)]
        rows = [world.table.limiters.rows[row].tolist() for row in range(2)]
        found.append((counts, [one[: L_USED + 3] for one in rows]))
    assert found[0] == found[1]
    assert found[0][0][0] == 3

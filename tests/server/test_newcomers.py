"""Names that have to earn a row, and what a client gains by making them up: nothing."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from faircall.scheduling import decay
from faircall.server.reader.caller_rules import CallerRules
from faircall.server.reader.callers import Caller, Callers
from faircall.server.reader.connection import Who
from faircall.server.reader.identities import Identities
from faircall.server.reader.newcomers import MOST, Newcomers
from faircall.server.reader.peers import Peer
from faircall.server.reader.providers import ContextBelowUser
from faircall.shm.columns import Counter
from faircall.shm.policy import QueuePolicy

from .reader_client import batch, call, post
from .reader_world import SMALL, START_NS, World

Make = Callable[..., World]
PROXY = Peer("proxy", trusted=True)
ACCOUNT = "(newcomers of proxy)"
CONTEXTS = CallerRules(provider=ContextBelowUser(), newcomer_calls=20)
UNGUARDED = CallerRules(provider=ContextBelowUser())


class Sweeps:
    def __init__(self) -> None:
        self.done = 0

    def __call__(self) -> int:
        return self.done


@pytest.fixture
def sweeps() -> Sweeps:
    return Sweeps()


def used_rows(world: World) -> set[str]:
    identities = world.shared.names.identities
    return {identities.name(row) for row in identities.used_rows()}


def meet(newcomers: Newcomers, key: int) -> bool:
    """One call of a name."""
    grown = newcomers.has_grown(key)
    if not grown:
        newcomers.count(key)
    return grown


def called(callers: Callers, name: str) -> Caller:
    """One call of a claimed name."""
    caller = callers.claimed(PROXY, name, START_NS)
    if caller.newcomers:
        callers.called(name, 1)
    return caller


def sweep(world: World) -> None:
    """What the janitor does, without the decay: with newcomers, strangers have the lowest level."""
    shared = world.shared
    shared.columns.add(shared.index("janitor"), Counter.SWEEPS)
    costs = shared.columns.cost_totals().astype(np.int64)
    levels = decay.levels_of(costs, int(costs.sum()), (0.125, 0.25, 0.5))
    shared.names.identities.rows["level"] = levels
    shared.names.identities.rows["looked"] = costs > 0
    lowest = int(levels[costs > 0].max()) if world.settings.rules.newcomer_calls else 0
    shared.segment.q[shared.names.strangers_level_word] = lowest


# -- the rule -------------------------------------------------------------------------------------


def test_a_name_has_grown_after_its_calls(sweeps: Sweeps) -> None:
    newcomers = Newcomers(3, sweeps)
    assert [meet(newcomers, 7) for _ in range(4)] == [False, False, False, True]
    assert len(newcomers) == 0


def test_calls_of_a_batch_count_each(sweeps: Sweeps) -> None:
    newcomers = Newcomers(20, sweeps)
    assert not meet(newcomers, 7)
    newcomers.count(7, 19)
    assert meet(newcomers, 7)


def test_a_sweep_lets_a_name_grow_that_was_there_before_it(sweeps: Sweeps) -> None:
    newcomers = Newcomers(20, sweeps)
    assert not meet(newcomers, 7)
    sweeps.done = 1
    assert not meet(newcomers, 8)
    assert not meet(newcomers, 7)  # the first one after the sweep
    assert meet(newcomers, 7)


def test_a_name_that_does_not_call_again_after_a_sweep_does_not_grow(sweeps: Sweeps) -> None:
    newcomers = Newcomers(20, sweeps)
    assert not meet(newcomers, 7)
    sweeps.done = 1
    assert not newcomers.has_grown(7)


def test_of_many_the_last_are_remembered(sweeps: Sweeps) -> None:
    newcomers = Newcomers(2, sweeps, most=3)
    for key in (1, 2, 3, 1, 4):
        meet(newcomers, key)
    assert len(newcomers) == 3
    assert meet(newcomers, 1)
    assert not meet(newcomers, 2)  # it was forgotten


# -- claimed names --------------------------------------------------------------------------------


@pytest.fixture
def callers(world: World, sweeps: Sweeps) -> Callers:
    return Callers(world.shared.names, 64, Newcomers(20, sweeps))


def test_a_new_claimed_name_is_on_the_account_of_its_peer(callers: Callers, world: World) -> None:
    account = callers.claimed(PROXY, "anna", 1)
    assert (account.name, account.newcomers) == (ACCOUNT, True)
    assert callers.claimed(PROXY, "bert", 1) is account
    assert used_rows(world) == {"(others)", ACCOUNT}


def test_after_twenty_calls_it_has_a_row_at_the_level_of_the_account(
    callers: Callers, world: World
) -> None:
    for _ in range(20):
        assert called(callers, "anna").newcomers
    world.publish_level(ACCOUNT, 3)
    anna = callers.claimed(PROXY, "anna", 1)
    assert (anna.name, anna.newcomers) == ("anna", False)
    assert world.shared.names.level(anna.row) == 3
    assert callers.claimed(PROXY, "anna", 1) is anna


def test_who_has_a_row_is_no_newcomer(callers: Callers, world: World) -> None:
    row = world.shared.names.identity("anna", 1)  # another reader gave it
    assert callers.claimed(PROXY, "anna", 1).row == row


def test_a_million_names_take_neither_rows_nor_memory(callers: Callers, world: World) -> None:
    """A part of them: what is kept is bounded, and reached long before the end."""
    for number in range(MOST + 100):
        called(callers, f"first {number}")
    gc.collect()
    tracemalloc.start()
    for number in range(10_000):
        called(callers, f"made up {number}")
    gc.collect()
    grown, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert grown < 1 << 19
    assert used_rows(world) == {"(others)", ACCOUNT}
    assert len(callers) == 1


# -- through a reader -----------------------------------------------------------------------------


def test_a_method_sees_the_name_of_a_newcomer(make_world: Make) -> None:
    world = make_world(rules=CallerRules(newcomer_calls=20))
    stream, http = world.connect(), world.connect()
    stream.send(call("faircall.hello", ["anna"], 1) + call("seen", id=2))
    http.send(post(call("seen", id=1), X_Faircall_User="bert", X_Faircall_Context="c"))
    world.run()
    assert stream.answers()[1]["result"] == "anna"
    assert http.http_answers()[0]["result"] == "bert"
    assert [each.context for each in world.seen if each.user == "bert"] == ["c"]
    assert {"anna", "bert"}.isdisjoint(used_rows(world))


def test_a_stream_gets_its_own_account_in_time(make_world: Make) -> None:
    world = make_world(rules=CallerRules(newcomer_calls=20))
    client = world.connect()
    client.send(call("faircall.hello", ["anna"], "h"))
    client.send(batch(*[call("seen", id=number) for number in range(15)]))
    world.run()
    account = world.connection().caller
    assert account.newcomers
    assert world.charged(account.name) == (15, 15)
    for number in range(10):
        client.send(call("seen", id=number))
        world.run()
    assert world.connection().caller.name == "anna"
    assert world.connection().plain
    assert world.charged(account.name) == (20, 20)
    assert world.charged("anna") == (5, 5)
    world.finish()


def test_one_sweep_is_enough(make_world: Make) -> None:
    world = make_world(rules=CallerRules(newcomer_calls=20))
    client = world.connect()
    client.send(call("faircall.hello", ["anna"]) + call("seen", id=1))
    world.run()
    sweep(world)
    for id_ in (2, 3):
        client.send(call("seen", id=id_))
        world.run()
    assert world.charged("anna") == (1, 1)


# -- what a fresh name per call gains -------------------------------------------------------------

ROUNDS, PER_ROUND, SERVED = 40, 4, 4


def share_of_the_abuser(world: World, fresh: bool, over: str) -> float:
    """Two honest users and one who sends as much, all more than is served; part of the service."""
    row = world.shared.names.identity
    honest = [world.connect() for _ in range(2)]
    for number, client in enumerate(honest):
        row(f"honest {number}", START_NS)
        client.send(call("faircall.hello", [f"honest {number}"]))
    abuser = world.connect()
    if over == "context":
        row("abuser", START_NS)
        abuser.send(call("faircall.hello", ["abuser"]))
    names = [f"n{number if fresh else 0}" for number in range(ROUNDS * PER_ROUND)]
    for round_ in range(ROUNDS):
        for client in honest:
            client.send(b"".join(call("seen", id=n) for n in range(PER_ROUND)))
        for name in names[round_ * PER_ROUND : (round_ + 1) * PER_ROUND]:
            if over == "claim":
                abuser.send(call("faircall.hello", [name]) + call("seen", id=name))
            else:
                abuser.send(call("seen", id=name, meta={"caller_context": name}))
        world.read()
        for _ in range(SERVED):
            world.handle()
        if round_ % 10 == 9:
            sweep(world)
        world.pass_ms(1)
    honest_users = {"honest 0", "honest 1"}
    return sum(each.user not in honest_users for each in world.seen) / len(world.seen)


@pytest.mark.parametrize("over", ["claim", "context"])
def test_a_fresh_name_for_each_call_gains_nothing(make_world: Make, over: str) -> None:
    room = {
        "policy": QueuePolicy(capacities=(24, 24, 24, 24), max_principal=4),
        "geometry": replace(SMALL, identities=512, slots=128),
    }
    one, fresh, unguarded = (
        share_of_the_abuser(make_world(rules=rules, **room), is_fresh, over)
        for rules, is_fresh in ((CONTEXTS, False), (CONTEXTS, True), (UNGUARDED, True))
    )
    assert 0.2 < one < 0.5
    assert fresh <= 1.05 * one
    assert unguarded > 1.2 * one  # it is this rule that holds it


def test_contexts_of_a_user_start_on_the_users_own_row(world: World, sweeps: Sweeps) -> None:
    names, counts = world.shared.names, world.shared.columns.own(0)
    identities = Identities(names, ContextBelowUser(), Newcomers(2, sweeps), counts)
    callers = Callers(names, 8)
    who = Who(callers.get("anna", 1))
    found = [identities.of(who, "job", "seen", 1).name for _ in range(3)]
    assert found == ["anna", "anna", "anna/job"]
    assert identities.of(who, "other", "seen", 1) is who.caller
    assert len(identities) == 1


def test_what_is_kept_of_identities_is_bounded(world: World) -> None:
    identities = Identities(
        world.shared.names, ContextBelowUser(), None, world.shared.columns.own(0), most=3
    )
    who = Who(Callers(world.shared.names, 8).get("anna", 1))
    for number in range(9):
        identities.of(who, f"job {number}", "seen", 1)
    assert len(identities) == 3

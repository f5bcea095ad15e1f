from __future__ import annotations

import os
import signal

from faircall.shm.shared import Shared

from ..fault.kill import start, wait_for
from ..fault.world import POLICY, SMALL, World


def test_a_new_server_is_sound_and_empty(world: World) -> None:
    shared = world.shared
    assert shared.audit() == []
    assert shared.table.recovery.count_states() == {"FREE": SMALL.calls}
    assert shared.pages.free_pages() == (SMALL.small_pages, SMALL.large_pages)
    assert shared.pages is shared.table.pages
    assert shared.pages.leaked() == 0


def test_every_lock_with_a_dead_owner_is_noticed_once(world: World) -> None:
    shared = world.shared
    table = shared.table
    for lock in (table.queue_lock, *table.answer_locks, table.pages.lock, shared.names.lock):

        def die() -> None:
            lock.__enter__()  # noqa: B023
            os.kill(os.getpid(), signal.SIGKILL)

        assert os.WTERMSIG(wait_for(start(die))) == signal.SIGKILL
        assert shared.locks_touched() == 1, lock.name
        assert shared.locks_touched() == 0, lock.name
    assert shared.audit() == []


def test_an_audit_includes_the_pages(world: World) -> None:
    layout = world.shared.segment.layout
    world.q[layout.small_stack // 8] = 99
    assert len(world.shared.audit()) == 1


def test_a_process_is_expected_before_it_is_forked(world: World) -> None:
    row = world.shared.expect("reader", 1)
    assert row.index == world.shared.index("reader", 1) == 1
    assert row["incarnation"] == 1
    assert row["started_ns"] == row["beat_ns"] > 0
    assert world.shared.index("handler", 1) == 3


def test_two_servers_share_nothing() -> None:
    first, second = Shared(SMALL, POLICY), Shared(SMALL, POLICY)
    first.names.identity("ann", 0)
    assert second.names.identities.find("ann") == -1
    for shared in (first, second):
        shared.doorbells.close()
        os.close(shared.segment.fd)

"""A reader and a handler at full speed, killed at any moment: also in the middle of a bytecode."""

from __future__ import annotations

import os
import random
import signal
import time
from contextlib import closing
from dataclasses import replace

import pytest

from faircall.shm.states import Status

from .calls import Call
from .kill import start, wait_for
from .roles import Handler, Reader
from .world import POLICY, SMALL, World

ROOMY = replace(SMALL, small_pages=96)
CALLS = 300
LONGEST_S = 0.008  # that both of them live


def prepared(seed: int) -> tuple[World, list[Call]]:
    """A world in which reader 1 waits for three calls, and the calls that reader 0 will make."""
    draw, world = random.Random(seed), World(POLICY, ROOMY)
    world.reader(1).offer([world.call(who=who, idempotent=who == 2) for who in (1, 2, 3)])
    kinds = [
        {
            "who": draw.randint(1, 3),
            "level": draw.randrange(4),
            "cls": draw.randrange(2),
            "idempotent": draw.random() < 0.5,
            "asks": draw.choice((10, 5000)),
            "answers": draw.choice((10, 6000)),
        }
        for _ in range(CALLS)
    ]
    return world, [world.call(**kind) for kind in kinds]


def read(reader: Reader, calls: list[Call]) -> None:
    """Offers three at a time, gives one up now and then, and collects."""
    while True:
        batch = [calls.pop() for _ in range(min(3, len(calls), len(reader.free)))]
        reader.offer(batch)
        if len(calls) % 2 and reader.calls:
            reader.withdraw(list(reader.calls)[-1:])
        reader.gather()


def handle(handler: Handler) -> None:
    while True:
        handler.work()


def endure(seed: int) -> None:
    world, calls = prepared(seed)
    with closing(world):
        reader = start(lambda: read(world.reader(0), calls))
        handler = start(lambda: handle(world.handler(0)))
        until = time.monotonic() + random.Random(seed).uniform(0, LONGEST_S)
        while time.monotonic() < until:
            pass
        for pid in (reader, handler) if seed % 2 else (handler, reader):
            os.kill(pid, signal.SIGKILL)
        assert [os.WTERMSIG(wait_for(pid)) for pid in (reader, handler)] == [signal.SIGKILL] * 2
        world.bury_reader(0)
        world.bury_handler(0)
        assert world.audit() == []
        world.finish()
        world.verify()
        status = [int(world.ledger.status[tag]) for tag in (1, 2, 3)]
        assert set(status) <= {Status.RESULT, Status.DIED}
        assert status[1] == Status.RESULT, "it may be repeated"


@pytest.mark.fault
@pytest.mark.parametrize("part", range(4))
def test_a_kill_at_any_moment(part: int) -> None:
    for seed in range(part * 10, part * 10 + 10):
        endure(seed)


@pytest.mark.fault
@pytest.mark.stress
@pytest.mark.parametrize("part", range(8))
def test_a_kill_at_any_moment_often(part: int) -> None:
    for seed in range(1000 + part * 250, 1250 + part * 250):
        endure(seed)

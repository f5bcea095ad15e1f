"""The supervisor is killed at any time, also while it starts: all are gone, nothing is left."""

from __future__ import annotations

import contextlib
import random
import select
import signal
from pathlib import Path

import pytest

from ..daemon import PROBE, started
from ..raw import Raw, request

pytestmark = [pytest.mark.fault, pytest.mark.stress]

ROUNDS = 30
STARTS_S = 0.8  # about as long as a start takes


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_killed_at_any_time(tmp_path: Path, seed: int) -> None:
    """What was killed leaves its socket file, which its successor on the same path removes."""
    chance = random.Random(seed)
    address = f"unix:{tmp_path}/x.sock"
    for _ in range(2):
        with started(tmp_path, PROBE, "--handlers", "2", binds=(address,)) as daemon:
            select.select([], [], [], chance.random() * STARTS_S)  # at random, not for anything
            with contextlib.ExitStack() as stack:
                raws = []
                with contextlib.suppress(FileNotFoundError, ConnectionRefusedError):
                    raws.append(stack.enter_context(Raw(address)))
                for raw in raws:
                    raw.send(*[request("text", 1000, id=number) for number in range(200)])
                assert daemon.stop(signal.SIGKILL) == -signal.SIGKILL
                for raw in raws:
                    with contextlib.suppress(ConnectionResetError):
                        assert len(raw.rest()) <= 200
    with started(tmp_path, PROBE, "--handlers", "1", binds=(address,)) as daemon:
        daemon.wait_ready()
        with Raw(address) as raw:
            assert raw.call("echo", 1) == 1
        assert daemon.stop(signal.SIGINT) == 0

"""What a reader is told by its supervisor while it serves."""

from __future__ import annotations

import pickle
import socket
from collections.abc import Iterator
from dataclasses import replace

import pytest

from faircall.server.config import Settings
from faircall.server.reader.client_limits import ClientLimits
from faircall.server.reader.start import take_settings_from

from ..conftest import Load
from .reader_client import call, reasons
from .reader_world import World
from .small_port import small_port

LIMITS = "[ipc.0]\n[limits]\nmax-in-flight-per-connection = 2\ndefault-timeout-ms = 50\n"


@pytest.fixture
def supervisor(world: World, load: Load) -> Iterator[socket.socket]:
    """Its end of the channel to the world's reader."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs, small_port(load) as port:
        take_settings_from(theirs, port, world.reader)
        yield ours


def told(settings: Settings) -> bytes:
    return pickle.dumps(replace(settings, origins={}))


def test_limits_are_those_of_the_last_message(
    world: World, supervisor: socket.socket, load: Load
) -> None:
    client = world.connect()
    settings = load(LIMITS)
    supervisor.send(told(load("[ipc.0]")))
    supervisor.send(told(settings))
    for _ in range(3):
        world.read()
    client.send(b"".join(call("echo", [id_], id_) for id_ in range(5)))
    for _ in range(5):
        world.read()
    assert len(world.reader.book.calls) == 2
    world.pass_ms(60)
    world.read()
    assert [reason for _, reason in reasons(client.answers())][:2] == ["deadline_exceeded"] * 2
    assert ClientLimits().max_in_flight != 2


def test_the_end_of_the_channel_is_no_reason_to_look_again(
    world: World, supervisor: socket.socket
) -> None:
    supervisor.close()
    world.read()
    assert world.reader.poll() == []
    client = world.connect()
    client.send(call("echo", [1], 1))
    world.run()
    assert reasons(client.answers()) == [(1, "ok")]

"""Callers in turn, and each caller's connections in turn."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from faircall.server.reader.callers import Caller
from faircall.server.reader.connection import Connection
from faircall.server.reader.peers import Peer
from faircall.server.reader.turns import TurnList
from faircall.server.wire.connection import Wire
from faircall.server.wire.limits import WireLimits


class Lobby:
    """Connections that wait, by name: "a1" is the first of caller a."""

    def __init__(self) -> None:
        self.turns = TurnList()
        self.callers = {name: Caller(name) for name in "abc"}
        self.sock = socket.socket()
        self.named: dict[str, Connection] = {}

    def connection(self, name: str) -> Connection:
        if name not in self.named:
            peer, caller = Peer(name, trusted=False), self.callers[name[0]]
            wire = Wire(WireLimits())
            self.named[name] = Connection(self.sock, wire, peer, caller, set(), 0)
        return self.named[name]

    def add(self, *names: str) -> None:
        for name in names:
            self.turns.add(self.connection(name))

    def order(self) -> str:
        served = []
        while self.turns:
            served.append(self.turns.next().peer.name)
        return " ".join(served)


@pytest.fixture
def lobby() -> Iterator[Lobby]:
    made = Lobby()
    with made.sock:
        yield made


def test_a_caller_with_many_connections_has_one_turn_for_each_of_the_others(lobby: Lobby) -> None:
    lobby.add("a1", "a2", "a3", "a4", "b1", "c1")
    assert lobby.order() == "a1 b1 c1 a2 a3 a4"


def test_who_waits_already_keeps_its_place(lobby: Lobby) -> None:
    lobby.add("a1", "a2", "a1", "a1")
    assert lobby.order() == "a1 a2"


def test_who_was_served_and_has_more_comes_after_the_others(lobby: Lobby) -> None:
    lobby.add("a1", "b1", "c1")
    served = lobby.turns.next()
    lobby.turns.add(served)
    assert served is lobby.connection("a1")
    assert lobby.order() == "b1 c1 a1"


def test_a_closed_connection_leaves_its_place(lobby: Lobby) -> None:
    lobby.add("a1", "a2", "b1")
    lobby.turns.remove(lobby.connection("a1"))
    lobby.turns.remove(lobby.connection("c1"))  # it does not wait
    assert not lobby.connection("a1").queued
    assert lobby.order() == "a2 b1"


def test_with_its_last_connection_a_caller_leaves(lobby: Lobby) -> None:
    lobby.add("a1", "b1")
    lobby.turns.remove(lobby.connection("a1"))
    assert lobby.order() == "b1"
    lobby.add("a1")
    assert lobby.order() == "a1"


def test_nobody_waits_in_an_empty_list(lobby: Lobby) -> None:
    assert not lobby.turns
    with pytest.raises(IndexError):
        lobby.turns.next()

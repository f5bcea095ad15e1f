"""Names that calls are accounted to."""

from __future__ import annotations

import contextlib
import gc
import os
import pwd
import socket
from collections.abc import Iterator

import pytest

from faircall.server.reader.accounts import RETRY_NS
from faircall.server.reader.callers import Callers, ClaimRefused
from faircall.server.reader.newcomers import Newcomers
from faircall.server.reader.peers import Peer, peer_of
from faircall.server.settings.trusted_peers import trusted_peers
from faircall.shm.names import OTHERS, Names

from .reader_world import World

ME = pwd.getpwuid(os.geteuid()).pw_name
TRUSTED, STRANGER = Peer("proxy", trusted=True), Peer("10.0.0.9", trusted=False)


@pytest.fixture
def names(world: World) -> Names:
    return world.shared.names


@pytest.fixture
def callers(names: Names) -> Callers:
    return Callers(names, most=4)


@pytest.fixture
def unix() -> Iterator[socket.socket]:
    near, far = socket.socketpair()
    with near, far:
        yield far


@contextlib.contextmanager
def tcp(family: socket.AddressFamily, host: str) -> Iterator[socket.socket]:
    with (
        socket.create_server((host, 0), family=family) as listener,
        socket.create_connection(("127.0.0.1", listener.getsockname()[1])),
        listener.accept()[0] as accepted,
    ):
        yield accepted


def fill(names: Names) -> None:
    """No row of the table is left."""
    for number in range(names.identities.count):
        names.identity(f"resident-{number}", 0)


def test_a_unix_peer_is_named_by_the_kernel(unix: socket.socket) -> None:
    peer = peer_of(unix, trusted_peers(("uid:self",)))
    assert (peer.name, peer.trusted) == (ME, True)
    assert not peer_of(unix, trusted_peers((f"uid:{os.geteuid() + 1}",))).trusted


def test_a_tcp_peer_is_named_by_its_address() -> None:
    with tcp(socket.AF_INET, "127.0.0.1") as sock:
        peer = peer_of(sock, trusted_peers(()))
        assert (peer.name, peer.trusted) == ("127.0.0.1", False)
        assert peer_of(sock, trusted_peers((), loopback=True)).trusted


def test_an_address_mapped_into_ipv6_is_the_same_caller() -> None:
    if not socket.has_dualstack_ipv6():
        pytest.skip("no IPv6 here")
    with (
        socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True) as listener,
        socket.create_connection(("127.0.0.1", listener.getsockname()[1])),
        listener.accept()[0] as sock,
    ):
        peer = peer_of(sock, trusted_peers(("127.0.0.0/8",)))
        assert (peer.name, peer.trusted) == ("127.0.0.1", True)


def test_a_peer_that_is_gone_already_has_no_name() -> None:
    with socket.socket() as never_connected, pytest.raises(OSError, match="not connected"):
        peer_of(never_connected, trusted_peers(()))


def test_a_caller_is_one_object_with_a_row_of_its_own(callers: Callers, names: Names) -> None:
    anna, bert = callers.get("anna", 1), callers.get("bert", 1)
    assert callers.get("anna", 2) is anna
    assert anna.row == names.identities.find("anna") != bert.row
    assert anna.reference == names.reference(anna.row)


def test_only_a_trusted_peer_says_for_whom_it_calls(callers: Callers) -> None:
    assert callers.claimed(TRUSTED, "anna", 1) is callers.get("anna", 1)
    with pytest.raises(ClaimRefused) as refused:
        callers.claimed(STRANGER, "anna", 1)
    assert str(refused.value) == (
        '10.0.0.9 may not call as "anna": list it in identity.trusted-peers'
    )


@pytest.mark.parametrize(
    ("host", "by_flag"), [("127.0.0.1", True), ("::1", True), ("fe80::1%eth0", False)]
)
def test_a_peer_on_this_machine_is_told_of_the_flag(
    callers: Callers, host: str, by_flag: bool
) -> None:
    with pytest.raises(ClaimRefused) as refused:
        callers.claimed(Peer(host, trusted=False, address=host), "anna", 1)
    flag = "start the server with --trust-loopback, or " if by_flag else ""
    assert str(refused.value) == (
        f'{host} may not call as "anna": {flag}list it in identity.trusted-peers'
    )


@pytest.mark.parametrize("name", ["", "x" * 257, "a\nb", "a\x1b[31m", "\ud800"])
def test_what_is_no_name_is_refused_even_so(callers: Callers, name: str) -> None:
    with pytest.raises(ClaimRefused, match="1 to 256 printable"):
        callers.claimed(TRUSTED, name, 1)


def test_the_longest_name_and_any_script_will_do(callers: Callers) -> None:
    for name in ("x" * 256, "Łukasz", "用户"):
        assert callers.claimed(TRUSTED, name, 1).name == name


def test_a_caller_whose_row_was_given_away_gets_another(callers: Callers, names: Names) -> None:
    anna = callers.get("anna", 1)
    names.evict([anna.row])
    taken = names.identity("bert", 2)
    assert taken == anna.row
    anna.refresh(names, 3)
    assert anna.row == names.identities.find("anna") != taken
    assert anna.reference == names.reference(anna.row)


def test_a_caller_that_is_used_says_so(callers: Callers, names: Names) -> None:
    anna = callers.get("anna", 1)
    anna.refresh(names, 77)
    assert names.identities.q[names.word(anna.row, "used_ns")] == 77
    assert anna.refreshed_ns == 77


def test_without_a_row_a_caller_is_one_of_the_others_and_asks_again(
    callers: Callers, names: Names
) -> None:
    fill(names)
    anna = callers.get("anna", 1)
    assert anna.row == OTHERS
    names.evict([names.identities.find("resident-3")])
    anna.refresh(names, RETRY_NS)
    assert anna.row == OTHERS  # not so soon
    anna.refresh(names, RETRY_NS + 2)
    assert names.identities.name(anna.row) == "anna"


def test_the_level_is_read_where_the_janitor_publishes_it(callers: Callers, names: Names) -> None:
    anna = callers.get("anna", 1)
    q = names.identities.q
    q[names.strangers_level_word], q[names.word(anna.row, "level")] = 2, 3
    assert q[anna.level_word] == 2  # nobody has looked at her
    q[names.word(anna.row, "looked")] = 1
    anna.refresh(names, 2)
    assert q[anna.level_word] == names.level(anna.row) == 3


def test_newcomers_have_the_level_of_strangers_for_good(callers: Callers, names: Names) -> None:
    callers.newcomers = Newcomers(20, lambda: 0)
    newcomers, q = callers.claimed(TRUSTED, "new", 1), names.identities.q
    q[names.strangers_level_word], q[names.word(newcomers.row, "looked")] = 2, 1
    newcomers.refresh(names, 2)
    assert newcomers.newcomers
    assert q[newcomers.level_word] == 2


def test_a_service_user_is_no_stranger(callers: Callers, names: Names) -> None:
    names.no_strangers, q = frozenset({"root"}), names.identities.q
    q[names.strangers_level_word] = 2
    assert q[callers.get("root", 1).level_word] == 0
    assert q[callers.get("other", 1).level_word] == 2


def test_names_that_are_made_up_do_not_stay_in_memory(callers: Callers) -> None:
    kept = callers.get("kept", 1)
    for number in range(1000):
        callers.claimed(TRUSTED, f"made-up-{number}", 1)
    gc.collect()
    assert len(callers) == 5  # the last four, and the one that somebody uses
    assert callers.get("kept", 1) is kept

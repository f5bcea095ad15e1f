"""Where a daemon listens, and that two never get into each other's way."""

from __future__ import annotations

import os
import signal
import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from faircall.server.acceptor.listeners import Listener, close_all, open_listeners
from faircall.server.acceptor.unix_listener import listen_unix, remove_stale
from faircall.server.settings.bind_address import parse_bind_address
from faircall.server.supervisor.failures import CannotStart

from .stand_in import until

Open = Callable[..., list[Listener]]


@pytest.fixture
def open_() -> Iterator[Open]:
    """Opens listeners, which are closed at the end."""
    with ExitStack() as stack:

        def open_them(*texts: str, backlog: int = 8) -> list[Listener]:
            opened = open_listeners(map(parse_bind_address, texts), backlog)
            stack.callback(close_all, opened)
            return opened

        yield open_them


def has_ipv6() -> bool:
    with socket.socket(socket.AF_INET6) as sock:
        try:
            sock.bind(("::1", 0))
        except OSError:
            return False
    return True


needs_ipv6 = pytest.mark.skipif(not has_ipv6(), reason="no IPv6 here")


def test_port_0_becomes_a_real_port(open_: Open) -> None:
    (listener,) = open_("tcp://127.0.0.1:0")
    host, port = listener.socket.getsockname()
    assert listener.address == f"tcp://{host}:{port}"
    assert port > 0
    socket.create_connection((host, port)).close()


def test_a_listener_never_blocks(open_: Open) -> None:
    for listener in open_("tcp://127.0.0.1:0"):
        with pytest.raises(BlockingIOError):
            listener.socket.accept()


def test_a_port_can_be_taken_again_at_once(open_: Open) -> None:
    (listener,) = open_("tcp://127.0.0.1:0")
    client = socket.create_connection(listener.socket.getsockname())
    served, _ = listener.socket.accept()
    served.close()  # first: the server's side keeps the address in TIME_WAIT
    client.close()
    address = listener.address
    listener.close()
    (again,) = open_(address)
    assert again.address == address


def test_an_address_in_use_is_one_sentence(open_: Open) -> None:
    (listener,) = open_("tcp://127.0.0.1:0")
    with pytest.raises(CannotStart) as caught:
        open_(listener.address)
    who = f"{psutil.Process().name()} (pid {os.getpid()})"
    assert str(caught.value) == f"{listener.address} is in use by another program: {who}"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("tcp://192.0.2.1:0", "is not an address of this machine"),
        ("tcp://no-such-host.invalid:0", "no-such-host.invalid"),
    ],
)
def test_an_address_that_is_not_here_is_refused(open_: Open, text: str, reason: str) -> None:
    with pytest.raises(CannotStart, match=reason):
        open_(text)


@needs_ipv6
def test_ipv6_is_served_and_shown_in_brackets(open_: Open) -> None:
    (listener,) = open_("tcp://[::1]:0")
    assert listener.address.startswith("tcp://[::1]:")
    socket.create_connection(listener.socket.getsockname()[:2]).close()


@needs_ipv6
def test_all_addresses_of_ipv6_include_those_of_ipv4_unless_they_are_bound_apart(
    open_: Open,
) -> None:
    (both,) = open_("tcp://[::]:0")
    port = both.socket.getsockname()[1]
    socket.create_connection(("127.0.0.1", port)).close()
    both.close()
    apart = open_(f"tcp://[::]:{port}", f"tcp://0.0.0.0:{port}")
    assert [entry.socket.family for entry in apart] == [socket.AF_INET6, socket.AF_INET]


def test_what_was_opened_before_a_refusal_is_closed(open_: Open, tmp_path: Path) -> None:
    (taken,) = open_("tcp://127.0.0.1:0")
    path = tmp_path / "s"
    with pytest.raises(CannotStart):
        open_(f"unix:{path}", taken.address)
    assert list(tmp_path.iterdir()) == []


def test_what_is_accepted_is_asked_after_a_silence_whether_it_is_there() -> None:
    (listener,) = open_listeners([parse_bind_address("tcp://127.0.0.1:0")], 8, keepalive_s=40)
    tcp, place = socket.IPPROTO_TCP, listener.socket.getsockname()
    listener.socket.setblocking(True)
    with socket.create_connection(place), listener.socket.accept()[0] as accepted:
        assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        times = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        assert [accepted.getsockopt(tcp, name) for name in times] == [40, 10, 4]
    listener.close()


# -- Unix sockets --------------------------------------------------------------------------------


def test_a_unix_socket_is_its_owners_alone_and_leaves_nothing(open_: Open, tmp_path: Path) -> None:
    path, umask = tmp_path / "s", os.umask(0)
    os.umask(umask)
    (listener,) = open_(f"unix:{path}#8020")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert listener.address == f"unix:{path}"
    assert os.umask(umask) == umask
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
    listener.close()
    assert list(tmp_path.iterdir()) == []


def test_a_second_daemon_is_refused_before_any_damage(open_: Open, tmp_path: Path) -> None:
    path = tmp_path / "s"
    open_(f"unix:{path}")
    before = path.stat().st_ino
    with pytest.raises(CannotStart, match=rf"^unix:{path} is in use by another faircall$"):
        open_(f"unix:{path}")
    assert path.stat().st_ino == before
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))


def test_the_socket_of_a_dead_daemon_is_replaced(open_: Open, tmp_path: Path) -> None:
    path = tmp_path / "s"
    pid = os.fork()
    if not pid:
        try:
            open_listeners([parse_bind_address(f"unix:{path}")], 8)
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    assert path.is_socket()
    open_(f"unix:{path}")
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))


def test_a_socket_on_which_another_program_listens_is_left_alone(
    open_: Open, tmp_path: Path
) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        other.listen()
        with pytest.raises(CannotStart, match="is in use by another program"):
            open_(f"unix:{path}")
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))


def test_a_file_is_never_taken_for_a_socket(open_: Open, tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.write_text("precious")
    with pytest.raises(CannotStart, match="exists and is not a socket"):
        open_(f"unix:{path}")
    assert path.read_text() == "precious"


def test_a_link_in_place_of_the_lock_is_not_followed(open_: Open, tmp_path: Path) -> None:
    (tmp_path / "s.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CannotStart, match="lock cannot be opened"):
        open_(f"unix:{tmp_path}/s")
    assert not (tmp_path / "elsewhere").exists()


def test_a_folder_that_is_not_there_is_named(open_: Open, tmp_path: Path) -> None:
    with pytest.raises(CannotStart) as refused:
        open_(f"unix:{tmp_path}/nowhere/s")
    folder = f"{tmp_path}/nowhere"
    assert str(refused.value) == f"unix:{folder}/s: the folder {folder} does not exist"


def test_at_its_end_a_daemon_does_not_remove_what_is_not_its_own(
    open_: Open, tmp_path: Path
) -> None:
    path = tmp_path / "s"
    (listener,) = open_(f"unix:{path}")
    path.unlink()
    path.write_text("another's")
    listener.close()
    assert path.read_text() == "another's"


def test_of_many_daemons_that_start_at_once_one_owns_the_path(tmp_path: Path) -> None:
    read, write = os.pipe()
    pids = [try_to_own(tmp_path / "s", read, write) for _ in range(6)]
    os.close(read)
    tried = tmp_path / "tried"
    until(lambda: tried.exists() and len(tried.read_text()) == 6, "all to have tried")
    os.close(write)
    for pid in pids:
        os.waitpid(pid, 0)
    assert sorted(tried.read_text()) == sorted("yNNNNN")


def try_to_own(path: Path, read: int, write: int) -> int:
    """A process that tries to listen at `path`, notes whether it does, and waits for our end."""
    pid = os.fork()
    if pid:
        return pid
    try:
        os.close(write)
        try:
            open_listeners([parse_bind_address(f"unix:{path}")], 8)
            word = b"y"
        except CannotStart:
            word = b"N"
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        os.write(os.open(path.with_name("tried"), flags), word)
        os.read(read, 1)
    finally:
        os._exit(0)
    raise AssertionError("unreachable")


def test_what_a_dead_owner_left_can_be_removed_but_not_what_is_owned(tmp_path: Path) -> None:
    path = tmp_path / "x.sock"
    sock, owned = listen_unix(str(path), 1)
    remove_stale(str(path))
    assert path.is_socket()
    sock.close()
    os.close(owned.lock)  # as the kernel does it for the dead
    for _ in range(2):
        remove_stale(str(path))
        assert os.listdir(tmp_path) == []

"""A server inside a program: it is real, leaves the program as it was, and ends with it."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from faircall import Client, NotServable, RemoteError, RpcClientError, Service, StartError, running
from faircall.server.embed.target import target_of
from faircall.testing.plugin import MakeServer
from faircall.workers.example import service as example

from ..daemon import PROBE, session_members, until

EXAMPLE = "faircall.workers.example:service"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server(faircall_servers: MakeServer) -> Iterator[running]:
    with faircall_servers(PROBE.as_posix(), trust_loopback=True) as server:
        yield server


def assert_nothing_is_left(server: running) -> None:
    """No process, no shared memory, no admin socket."""
    until(lambda: not session_members(server.pid), f"the end of session {server.pid}")
    assert not [name for name in os.listdir("/dev/shm") if f"-{server.pid}-" in name]
    assert not Path(server.daemon.admin).exists()


def test_it_serves_on_a_free_port(server: running) -> None:
    assert server.port > 0
    assert server.address == f"tcp://127.0.0.1:{server.port}"
    with server.client(user="alice") as client:
        assert client.call("pid") in session_members(server.pid)
    assert server.stats()["ports"][0]["addresses"] == [server.address]


def test_an_event_loop_may_run_beside_it(server: running) -> None:
    async def test() -> int:
        client = server.async_client()
        try:
            return int(await client.call("pid"))
        finally:
            await client.close()

    assert asyncio.run(test()) in session_members(server.pid)


def test_threads_and_processes_of_the_host_may_come_and_go(server: running) -> None:
    """The one that started it ends, and so does a copy of the host."""
    started: list[running] = []

    def start() -> None:
        started.append(running(EXAMPLE, handlers=1).start())

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    code = "import sys; sys.exit(0)"
    assert subprocess.run([sys.executable, "-c", code], close_fds=False).returncode == 0
    with Client(started[0].address) as client:
        assert client.call("add", 2, 3) == 5
    started[0].stop()
    started[0].stop()
    assert_nothing_is_left(started[0])


def test_async_with_leaves_no_process_no_thread_and_no_signal_handler_behind() -> None:
    before = {number: signal.getsignal(number) for number in signal.Signals}
    threads = threading.active_count()
    descriptors = os.listdir("/proc/self/fd")

    async def test() -> running:
        async with running(PROBE.as_posix(), handlers=1) as server:
            assert threading.active_count() == threads
            client = server.async_client()
            assert await client.call("pid") in session_members(server.pid)
            cut_off = asyncio.ensure_future(client.call("wait", 600))
        with pytest.raises(RpcClientError):
            await cut_off
        await client.close()
        return server

    server = asyncio.run(test())
    assert_nothing_is_left(server)
    assert {number: signal.getsignal(number) for number in signal.Signals} == before
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= len(descriptors)


@pytest.mark.fault
def test_it_ends_with_its_host_even_if_a_copy_of_the_host_lives_on() -> None:
    code = (
        "import os, signal, sys, time, faircall\n"
        f"server = faircall.running({EXAMPLE!r}, handlers=1).start()\n"
        "copy = os.fork()\n"
        "if not copy:\n"
        "    time.sleep(600)\n"
        "print(server.pid, copy, server.daemon.admin, flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as host:
        assert host.stdout is not None
        pid, copy, admin = host.stdout.readline().split()
        assert session_members(int(pid))
        host.kill()
        try:
            until(lambda: not session_members(int(pid)), "the end of the server")
            until(lambda: not Path(admin).exists(), "the end of its socket")
        finally:
            os.kill(int(copy), signal.SIGKILL)


def test_who_forgets_it_does_not_leave_it_behind() -> None:
    code = f"import faircall; print(faircall.running({EXAMPLE!r}, handlers=1).start().pid)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    until(lambda: not session_members(int(done.stdout)), "the end of the server")


# -- what cannot be served -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "options", "said"),
    [
        ("no_such_module:service", {}, "there is no module 'no_such_module'"),
        (EXAMPLE, {"settings": {"handlers.cuont": 1}}, "did you mean handlers.count"),
        (EXAMPLE, {"bind": "tcp://192.0.2.1:1"}, "192.0.2.1"),
    ],
)
def test_what_cannot_start_says_why(
    target: str, options: dict[str, object], said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    server = running(target, handlers=1, **options)  # type: ignore[arg-type]
    with pytest.raises(StartError, match=said):
        server.start()
    until(lambda: not session_members(server.pid), "the end of the server")


def test_what_is_said_twice_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"handlers\.count is said twice"):
        running(EXAMPLE, handlers=2, settings={"handlers.count": 3})


def test_a_service_is_named_by_the_module_that_holds_it() -> None:
    assert target_of(example) == EXAMPLE
    assert target_of("anything:goes") == "anything:goes"


def test_a_file_that_no_import_finds_is_named_by_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from faircall.workers.load import load_service

    monkeypatch.setattr(sys, "path", sys.path[:])
    file = tmp_path / "alone.py"
    file.write_text("import faircall\nmine = faircall.Service()\nmine.method(len, name='len')\n")
    service = load_service(f"{file}:mine")
    sys.path.remove(str(tmp_path))
    assert target_of(service) == f"{file}:mine"


def test_what_stands_in_no_module_cannot_be_served() -> None:
    with pytest.raises(NotServable, match=r"no module under a name.*'services:service'"):
        running(Service())


@pytest.mark.parametrize(
    ("args", "said"),
    [(["-"], "a notebook or an interactive session"), (["script.py"], "the program that runs")],
)
def test_what_is_made_in_main_cannot_be_served(tmp_path: Path, args: list[str], said: str) -> None:
    code = (
        "import faircall\n"
        "service = faircall.Service()\n"
        "try:\n"
        "    faircall.running(service)\n"
        "except faircall.NotServable as error:\n"
        "    print(error)\n"
    )
    (tmp_path / "script.py").write_text(code)
    done = subprocess.run(
        [sys.executable, *args],
        input=code,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert said in done.stdout, done.stderr
    assert "'services:service'" in done.stdout


def test_it_does_not_run_before_its_block() -> None:
    server = running(EXAMPLE)
    with pytest.raises(RuntimeError, match="inside its `with` block"):
        _ = server.address
    server.stop()


def test_the_fixture_starts_a_server_for_one_test(server: running) -> None:
    with server.client() as client, pytest.raises(RemoteError, match="Method not found"):
        client.call("nothing")

"""A peer's server while a block runs: started on a leash, called once before it is measured."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from ...client.address import Address
from ..bench.load import run_plan
from ..bench.measure import Note
from ..bench.native import LoadFailed, Progress, program, run_native
from ..bench.plan import Group, Plan, Request
from ..bench.result import Result
from ..bench.specs import CaseSpec
from ..bench.target import Target, own
from . import leash, zeromq_server
from .clients import run_client
from .functions import FOLDER_VARIABLE, READY
from .peer import HOST, Peer, Place

START_S, STOP_S, LOOK_AGAIN_S = 30.0, 10.0, 0.02
PROBE_S = 2.0  # for the first call, once all workers are ready
MOST_SAID = 2000  # characters of what a server said that go into a message


class PeerFailed(Exception):
    """A peer that does not serve; the message names it and has what it said."""


@contextlib.contextmanager
def running(peer: Peer, spec: CaseSpec) -> Iterator[Target]:
    """Its server, which has answered a call. PeerFailed, NotServing."""
    if peer.command is None:
        with own(spec) as target:  # whose queue nobody looks at meanwhile, as at no peer's
            yield Target(target.address, pid=target.pid)
        return
    with tempfile.TemporaryDirectory(prefix="faircall-peer-") as folder:
        place = Place(free_port(), Path(folder))
        with (place.folder / "log").open("wb") as log:
            words = [sys.executable, "-m", leash.__name__, *peer.command(place)]
            process = subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=folder,  # granian takes a package that it starts in for a part of names
                env={**os.environ, FOLDER_VARIABLE: folder},
            )
        try:
            target = Target(peer.address(place), pid=process.pid)
            _await_ready(peer, place, process, target.address)
            yield target
        finally:
            _release(process)


def run(peer: Peer, plan: Plan, note: Note, progress: Progress | None = None) -> Result:
    """The plan, by whatever calls this peer. LoadFailed."""
    if peer.loaded == "client":
        return run_client(peer, plan)
    if peer.loaded == "zmtp":
        path = program()
        if path is None:
            raise LoadFailed("ZMTP needs the load generator in C, and that a C compiler")
        return run_native(path, plan.framed(zeromq_server.FRAMES), progress)
    return run_plan(plan, note, progress)


def free_port() -> int:
    """A TCP port that nobody listens at now."""
    with socket.create_server((HOST, 0)) as found:
        port: int = found.getsockname()[1]
        return port


def _await_ready(
    peer: Peer, place: Place, process: subprocess.Popen[bytes], address: Address
) -> None:
    until, why = time.monotonic() + START_S, "its workers did not get ready"
    while process.poll() is None and time.monotonic() < until:
        time.sleep(LOOK_AGAIN_S)
        if len(list(place.folder.glob(f"{READY}*"))) < peer.workers:
            continue
        try:
            _probe(peer, address)
            return
        except LoadFailed as error:
            why = str(error)
    if process.poll() is not None:
        why = "it ended"
    said = (place.folder / "log").read_text(errors="replace").strip()[-MOST_SAID:]
    raise PeerFailed(f"{peer.name}: {why}: {said}" if said else f"{peer.name}: {why}")


def _probe(peer: Peer, address: Address) -> None:
    """One call, as the load will come. LoadFailed."""
    group = Group(name="probe", requests=[Request("echo", '["ready"]')], calls=1)
    plan = Plan(address=address, groups=[group], seconds=PROBE_S, drain_s=PROBE_S)
    outcomes = run(peer, plan, lambda _: None).groups[0].total()
    if outcomes["ok"] != 1:
        raise LoadFailed(f"its first call had no good answer ({dict(outcomes)})")


def _release(process: subprocess.Popen[bytes]) -> None:
    """Lets go of the leash, which kills all that it holds; or does it in its place."""
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:  # it was stopped, say
        left = psutil.Process(process.pid).children(recursive=True)
        for each in (process, *left):
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        process.wait()

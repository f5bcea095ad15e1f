"""What each child does after the fork, and which descriptors it keeps.

The modules of readers and handlers are loaded by the supervisor before its first fork: their code
is shared, and a successor starts at once. The user's service is loaded in the handlers only.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ...workers.errors import ServiceError
from ..config_processes import Handlers
from ..costs import cost_rules
from ..groups import groups_of, problem_with
from ..port import Port
from ..settings import processors
from ..settings.environment_table import filled
from .child import CRASHED
from .children import FAILED, READY, Child
from .failures import CANNOT_START, CannotStart, one_line, place_of
from .stacks import StackFile
from .time_slice import ask_for_slice, be_batch

log = logging.getLogger("faircall.supervisor")

CHILDREN = (
    "...workers.handler",
    "..reader.start",
    "..admin.admin",
    "..janitor.janitor",
    "..acceptor.acceptor",
)
OOM_SCORE = 500  # of handlers: they are to go before what all depend on


@dataclass(slots=True)
class Duty:
    """What a child is told: `channel` leads to the supervisor, `ports` are all of the daemon."""

    role: str
    number: int
    port: Port
    ports: list[Port]
    channel: socket.socket
    stacks: StackFile | None = None
    ready: bool = False
    generation: int = 0  # of the service's code
    seat: int = 0  # what a handler's code is told as its index

    def report(self, message: str) -> None:
        """Tell the supervisor "ready", or "failed: MESSAGE"."""
        self.ready = self.ready or message == READY.decode()
        with contextlib.suppress(OSError):
            self.channel.send(message.encode(errors="replace")[:4096])


Body = Callable[[Duty], int]


def bodies_for(target: str) -> dict[str, Body]:
    """What the children of a daemon do that serves `target`, by role."""

    def handler(duty: Duty) -> int:
        return _handler(duty, target)

    return {
        "janitor": _janitor,
        "admin": _admin,
        "reader": _reader,
        "handler": handler,
        "acceptor": _acceptor,
    }


def preload() -> None:
    """Load what the children need, but for the user's code."""
    for module in CHILDREN:
        importlib.import_module(module, __package__)


def descriptors(child: Child, ports: list[Port]) -> list[int]:
    """The descriptors that `child` keeps, its channel and the standard ones apart."""
    port = child.port
    bells = port.shared.doorbells.descriptors()
    if child.role == "reader":
        return [*bells, port.handoffs[child.number].far.fileno()]
    if child.role == "acceptor":
        near = [handoff.near.fileno() for handoff in port.handoffs]
        return near + [listener.socket.fileno() for listener in port.listeners]
    if child.role == "admin":
        return [fd for each in ports for fd in each.shared.doorbells.descriptors()]
    return [*bells, *([child.stacks.fd] if child.stacks else [])]


def perform(body: Body, duty: Duty) -> int:
    """Do `body`; what it raises is reported if it was not ready yet, and else logged."""
    try:
        return body(duty)
    except (ServiceError, CannotStart) as error:
        return _failed(duty, str(error), error, CANNOT_START)
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else 1
        return _failed(duty, f"{one_line(error)} ({place_of(error)})", error, status)
    except BaseException as error:
        return _failed(duty, f"{one_line(error)} ({place_of(error)})", error, CRASHED)


def _failed(duty: Duty, message: str, error: BaseException, status: int) -> int:
    fields = {"role": duty.role, "index": duty.number, "error": message}
    if not duty.ready:
        duty.report(FAILED.decode() + message)
        log.debug("child failed", fields, exc_info=error)
    elif not isinstance(error, SystemExit):
        log.error("child crashed", fields, exc_info=error)
    return status


def _janitor(duty: Duty) -> int:
    from ..janitor.janitor import run_janitor

    ask_for_slice(duty.port.settings.server.slice_us)
    return run_janitor(duty.port, duty.channel, duty.report)


def _acceptor(duty: Duty) -> int:
    from ..acceptor.acceptor import run_acceptor

    ask_for_slice(duty.port.settings.server.slice_us)
    return run_acceptor(duty.port, duty.channel, duty.report)


def _reader(duty: Duty) -> int:
    from ..reader.start import run_reader

    ask_for_slice(duty.port.settings.server.slice_us)
    return run_reader(duty.port, duty.number, duty.report, duty.channel)


def _admin(duty: Duty) -> int:
    from ..admin.admin import run_admin

    return run_admin(duty.ports, duty.port.settings, duty.report, duty.channel)


def _handler(duty: Duty, target: str) -> int:
    from ...workers.handler import HandlerLimits, run_handler
    from ...workers.load import load_service
    from ...workers.service import Service

    limits, logged = duty.port.settings.limits, duty.port.settings.log
    groups = groups_of(duty.port.settings)
    group = groups[duty.port.shared.geometry.group_of(duty.number)]
    os.environ.update(filled(group.env, index=duty.seat, group=group.name))

    def load() -> Service:
        service = load_service(target)
        if problem := problem_with(groups, service.methods):
            raise ServiceError(problem)
        return service

    be_killed_first()
    if duty.port.shared.geometry.is_express(duty.number):
        ask_for_slice(duty.port.settings.server.slice_us)
    else:
        _give_way(duty.port.settings.handlers)
    reseed(sys.modules)
    if duty.stacks:
        duty.stacks.enable()
    return run_handler(
        duty.port.shared,
        duty.number,
        load,
        HandlerLimits(
            max_answer_bytes=limits.max_message_bytes,
            max_batch=limits.max_batch,
            max_depth=limits.max_depth,
            max_id_bytes=limits.max_id_bytes,
            costs=cost_rules(duty.port.ipc),
            slow_rpc=logged.slow_rpc,
            slow_rpc_threshold_ms=logged.slow_rpc_threshold_ms,
            watch_ns=_watch_ns(duty.port.settings.handlers.watch_us),
        ),
        duty.report,
        duty.generation,
        duty.seat,
        group.name,
    )


def _give_way(handlers: Handlers) -> None:
    """Work long where nobody else needs the processor, and let those in who do for a moment."""
    os.nice(handlers.niceness)
    if handlers.batch:
        be_batch()
    ask_for_slice(handlers.slice_us)


def _watch_ns(watch_us: int) -> int:
    """Only with a second processor can a call come while its handler watches for it."""
    return watch_us * 1000 if processors.available().count > 1 else 0


def be_killed_first(path: str = "/proc/self/oom_score_adj") -> None:
    """When memory runs out the kernel is to take a handler: then only its call is lost."""
    with contextlib.suppress(OSError), open(path, "r+") as file:
        score = int(file.read())
        file.seek(0)
        file.write(str(min(1000, score + OOM_SCORE)))


def reseed(modules: Mapping[str, object]) -> None:
    """numpy's global generator was made before the fork: without this all handlers draw the same.

    (Python's own `random` sees to it itself.)
    """
    random = modules.get("numpy.random")
    if random is not None:
        random.seed()  # type: ignore[attr-defined]

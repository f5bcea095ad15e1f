"""The machine: processors, clock, memory, limits of the kernel."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator

from ..groups import handlers_of
from ..settings.processors import UNLIMITED, available, cgroup_quota
from .findings import Finding, Patient, fail, ok, warn

OWN_FILES = 128  # of a reader, beside its connections: doorbells, channels, libraries
FAST_CLOCKS = ("tsc", "arch_sys_counter", "kvm-clock", "hyperv_clocksource_tsc_page")
CLOCK_FOLDER = "sys/devices/system/clocksource/clocksource0"
NEVER_OVERCOMMIT = 2


def processors(patient: Patient) -> Iterator[Finding]:
    """Affinity and quota; a fraction of a processor, and more handlers than processors."""
    found, quota = available(patient.root), cgroup_quota(patient.root)
    handlers = handlers_of(patient.settings) * len(patient.settings.ports)
    yield ok("processors", f"{found.count}: {found.why}")
    if quota != UNLIMITED and quota < 1:
        yield warn(
            "quota",
            f"the cgroup grants {quota:g} of a processor: all processes wait while it is used up",
            "give the container at least one CPU (limits.cpu in Kubernetes, --cpus for Docker)",
        )
    if handlers > 4 * found.count:
        yield warn(
            "handlers",
            f"{handlers} handlers for {found.count} processors",
            "fine where calls wait for others (handlers.count); else fewer of them are faster",
        )


def clock(patient: Patient) -> Iterator[Finding]:
    """Every call reads the clock several times: a slow source costs a system call each."""
    source = patient.read(f"{CLOCK_FOLDER}/current_clocksource")
    if not source or source in FAST_CLOCKS:
        yield ok("clock", source or "unknown source")
        return
    others = patient.read(f"{CLOCK_FOLDER}/available_clocksource")
    yield warn(
        "clock",
        f"the kernel's clock source is {source}, which is slow to read (available: {others})",
        f"clocksource=tsc on the kernel's command line, or echo tsc > /{CLOCK_FOLDER}/"
        "current_clocksource",
    )


def files(patient: Patient) -> Iterator[Finding]:
    """Open files against the connections that each reader may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    server = patient.settings.server
    if soft == resource.RLIM_INFINITY:
        yield ok("files", "no limit of open files")
        return
    if not server.max_connections:
        most = (soft - OWN_FILES) * server.readers
        text = f"{soft} open files: about {most} connections (server.max-connections = 0)"
        yield (
            ok("files", text)
            if soft >= 4096
            else warn(
                "files", text, f"LimitNOFILE=65536 in the unit, or ulimit -n (at most {hard} here)"
            )
        )
        return
    needed = -(-server.max_connections // server.readers) + OWN_FILES
    text = f"{soft} open files, {needed} needed by each of {server.readers} readers"
    if soft >= needed:
        yield ok("files", text)
    else:
        do = f"LimitNOFILE={2 * needed} in the unit, or ulimit -n (at most {hard} here)"
        yield fail("files", f"{text} for server.max-connections = {server.max_connections}", do)


def backlog(patient: Patient) -> Iterator[Finding]:
    most, wanted = patient.number("proc/sys/net/core/somaxconn"), patient.settings.server.backlog
    if most is None or most >= wanted:
        yield ok("backlog", f"{wanted} connections may wait to be accepted")
    else:
        yield warn(
            "backlog",
            f"the kernel lets {most} connections wait, server.backlog asks for {wanted}",
            f"sysctl -w net.core.somaxconn={wanted}",
        )


def memory(patient: Patient) -> Iterator[Finding]:
    """Overcommit and swap: forks of a large supervisor, and calls that wait for a disk."""
    if patient.number("proc/sys/vm/overcommit_memory") == NEVER_OVERCOMMIT:
        yield warn(
            "overcommit",
            "vm.overcommit_memory = 2: forks and large arrays of handlers may be refused",
            "sysctl -w vm.overcommit_memory=0",
        )
    swaps = patient.read("proc/swaps").splitlines()[1:]
    swappiness = patient.number("proc/sys/vm/swappiness")
    if swaps and (swappiness or 0) > 0:
        yield warn(
            "swap",
            f"swap is on (vm.swappiness = {swappiness}): a call whose pages are out waits for them",
            "MemorySwapMax=0 in the unit, or swapoff -a, where latency matters",
        )
    else:
        yield ok("swap", "off")


def process_1(patient: Patient) -> Iterator[Finding]:
    """In a container: whether the daemon will get the signals that are sent to process 1."""
    if os.getpid() == 1:
        yield ok("process 1", "faircall is process 1 here: it takes signals and buries orphans")
